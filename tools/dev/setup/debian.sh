# Debian, Ubuntu and their kin: which packages bring the missing parts, how large they are, and apt itself.

# The version that apt would install, "" when it knows none.
candidate() {
  apt-cache policy "$1" 2>/dev/null | awk '/Candidate:/ && $2 != "(none)" { sub(/^[0-9]+:/, "", $2); print $2 }'
}
apt_has() {
  offered=$(candidate "$1")
  [ -n "$offered" ] && version_ge "$offered" "$2"
}

boost_packages() {
  if apt_has libboost-dev "$boost_min"; then
    echo libboost-dev libboost-json-dev
    return 0
  fi
  for minor in 90 89 88 87 86 85 84 83 82 81; do
    if [ -n "$(candidate libboost-json1.$minor-dev)" ]; then
      echo libboost1.$minor-dev libboost-json1.$minor-dev
      return 0
    fi
  done
  echo libboost1.81-dev libboost-json1.81-dev
}

# Debian 12 keeps a current Rust for its browsers under another name; Ubuntu has versioned packages.
rust_packages() {
  if apt_has rustc "$rust_min"; then
    echo rustc cargo
    return 0
  fi
  if apt_has rustc-web "$rust_min"; then
    echo rustc-web cargo-web
    return 0
  fi
  for minor in 95 94 93 92 91 90 89 88; do
    if [ -n "$(candidate rustc-1.$minor)" ]; then
      echo rustc-1.$minor cargo-1.$minor
      return 0
    fi
  done
  # Where apt knows nothing yet, Debian 12 is known to have it; where it knows an older one, there is none.
  if [ -z "$(candidate rustc)" ] && grep -q 'VERSION_ID="12"' /etc/os-release 2>/dev/null; then
    echo rustc-web cargo-web
  else
    echo rustup
  fi
}

# The run time of the sanitizers is only recommended by clang, and its name has the version.
clang_packages() {
  major=$(candidate clang | cut -d. -f1)
  if [ -n "$major" ]; then echo "clang libclang-rt-$major-dev"; else echo clang-14 libclang-rt-14-dev; fi
}

packages_for() {
  for part in "$@"; do
    case $part in
      compiler) echo g++ ;;
      cmake) echo cmake ;;
      ninja) echo ninja-build ;;
      pkgconf) echo pkg-config ;;
      python | venv) echo python3-venv ;;
      certificates) echo ca-certificates ;;
      git) echo git ;;
      curl) echo curl ;;
      boost) boost_packages ;;
      fmt) echo libfmt-dev ;;
      spdlog) echo libspdlog-dev ;;
      cli11) echo libcli11-dev ;;
      yaml) echo libyaml-cpp-dev ;;
      openssl) echo libssl-dev ;;
      prometheus) echo prometheus-cpp-dev ;;
      highway) echo libhwy-dev ;;
      gtest) echo libgtest-dev libgmock-dev ;;
      rust) rust_packages ;;
      clang) clang_packages ;;
      ccache) echo ccache ;;
    esac
  done | tr ' ' '\n' | awk 'NF && !seen[$0]++' | tr '\n' ' '
}

# How packages get installed: sudo= is "" for root, "none" where nobody may.
find_sudo() {
  sudo=
  [ "$(id -u)" != 0 ] || return 0
  if have sudo && sudo -n true 2>/dev/null; then sudo="sudo -n"; elif have sudo && [ -t 0 ]; then sudo=sudo; else sudo=none; fi
}

install_parts() {
  have apt-get || die "missing: $(echo $1). This system has no apt-get: install them with its own package manager"
  find_sudo
  say "missing: $(echo $1)"
  note "asking apt what it has"
  if [ "$sudo" = none ]; then
    own_lists || note "its lists cannot be fetched, so the names below are those of Debian 12"
  else
    # An installation that was interrupted is finished first.
    $sudo dpkg --configure -a >/dev/null 2>&1 || true
    # One broken source of many is no reason to stop; what could not be found is named when it is missing.
    $sudo apt-get update -qq >/dev/null || note "apt-get update failed: going on with the lists that are there"
  fi
  packages=$(packages_for $1)
  install_rustup=
  case " $packages " in
    *" rustup "*)
      install_rustup=yes
      packages=$(echo "$packages" | sed 's/rustup//')
      have curl || packages="$packages curl"
      ;;
  esac
  packages=$(echo $packages)
  announce "$packages"
  [ -z "$packages" ] || install_packages "$packages"
  [ -z "$install_rustup" ] || rustup_install
}

install_packages() {
  if [ "$sudo" = none ]; then
    {
      note "This needs an administrator: you are not root, and sudo is missing or wants a password and a terminal."
      note "Have this line run as root, then start the same command again:"
      echo
      echo "apt-get update && apt-get install -y --no-install-recommends $1"
      echo
    } >&2
    die "packages are missing; the line above installs them"
  fi
  note "apt-get install -y --no-install-recommends $1"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=120 $1 >build/setup.log 2>&1 ||
    explain_failure "$1"
}

# Ubuntu's package of that name only asks for a snap, which does not work in containers.
install_browser() {
  have apt-get || return 1
  find_sudo
  [ "$sudo" = none ] || [ -n "$(candidate chromium)" ] || $sudo apt-get update -qq >/dev/null || true
  case $(candidate chromium) in '' | *snap*) return 1 ;; esac
  if [ "$sudo" = none ]; then
    note "as root, 'apt-get install -y --no-install-recommends chromium' brings one (about 100 MB)"
    return 1
  fi
  say "a browser for the playground's journeys: chromium (about 100 MB to download, 400 MB on the disk)"
  $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    -o DPkg::Lock::Timeout=120 chromium >build/setup.log 2>&1 ||
    { note "apt-get could not install chromium (build/setup.log)"; return 1; }
}

# `apt-get update` warns and succeeds where it could fetch nothing; that shows as packages that apt does not know.
explain_failure() {
  unknown=
  for package in $1; do
    [ -n "$(candidate "$package")" ] || unknown="$unknown $package"
  done
  [ -z "$unknown" ] || die "apt knows no$unknown: check the network and the sources in /etc/apt, then run again (build/setup.log)"
  tail -n 20 build/setup.log >&2
  die "apt-get could not install the packages; its last words are above (build/setup.log). Check the network and the disk, then run again"
}

# The system's lists may be empty or old, and only root may renew them: a copy of our own says what there is, so that the
# line for the administrator names what this distribution has.
own_lists() {
  lists=$(pwd)/build/apt
  mkdir -p "$lists/lists/partial" "$lists/cache/archives/partial"
  cat >"$lists/apt.conf" <<CONF
Dir::State::lists "$lists/lists";
Dir::Cache "$lists/cache";
Debug::NoLocking "true";
CONF
  APT_CONFIG=$lists/apt.conf
  export APT_CONFIG
  apt-get update -qq >/dev/null 2>&1
}

# What is about to be downloaded, and how long it takes, before anything is.
announce() {
  mkdir -p build
  size=$(LC_ALL=C apt-get install --no-install-recommends --assume-no $1 2>/dev/null | sed -n 's/^Need to get \(.*\) of archives.*/\1/p')
  if [ -z "$size" ] && [ -n "$(echo $1)" ]; then size="about 230 MB"; fi
  say "to download: ${size:-nothing} of packages, $(cold_download)"
  note "expected: about $(cold_minutes) minutes on $(cpu_count) cores, the build included"
}

rustup_install() {
  note "no package has Rust >= $rust_min here: taking rustup (about 250 MB into ~/.cargo and ~/.rustup)"
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -q --profile minimal >>build/setup.log 2>&1 ||
    die "rustup failed: see build/setup.log, or install Rust >= $rust_min yourself"
}

cure_for_left() {
  echo "Look at build/setup.log; this distribution may be too old (Debian 12 and Ubuntu 24.04 are known to work)"
}
