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
  if grep -q 'VERSION_ID="12"' /etc/os-release 2>/dev/null; then echo rustc-web cargo-web; else echo rustup; fi
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

install_parts() {
  have apt-get || die "missing: $(echo $1). This system has no apt-get: install them with its own package manager"
  sudo=
  if [ "$(id -u)" != 0 ]; then
    if have sudo && sudo -n true 2>/dev/null; then sudo="sudo -n"; elif have sudo && [ -t 0 ]; then sudo=sudo; else sudo=none; fi
  fi
  if [ "$sudo" = none ]; then
    packages=$(packages_for $1 | sed 's/ *$//;s/\brustup\b//')
    {
      say "missing: $(echo $1)"
      note "This needs an administrator, and you are neither root nor able to sudo without a terminal."
      note "Have this line run as root, then start the same command again:"
      echo
      echo "apt-get update && apt-get install -y --no-install-recommends $packages"
      echo
    } >&2
    die "packages are missing; the line above installs them"
  fi
  say "missing: $(echo $1)"
  # An installation that was interrupted is finished first.
  $sudo dpkg --configure -a >/dev/null 2>&1 || true
  note "asking apt what it has"
  $sudo apt-get update -qq >/dev/null || die "apt-get update failed: check the network and /etc/apt, then run again"
  packages=$(packages_for $1)
  case " $packages " in *" rustup "*) packages=$(echo "$packages" | sed 's/rustup//'); install_rustup=yes ;; *) install_rustup= ;; esac
  announce "$packages"
  if [ -n "$(echo $packages)" ]; then
    note "apt-get install -y --no-install-recommends $packages"
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      -o DPkg::Lock::Timeout=120 $packages >build/setup.log 2>&1 ||
      { tail -n 20 build/setup.log >&2; die "apt-get could not install the packages; its last words are above (build/setup.log)"; }
  fi
  [ -z "$install_rustup" ] || rustup_install
}

# What is about to be downloaded, and how long it takes, before anything is.
announce() {
  mkdir -p build
  size=$(LC_ALL=C apt-get install --no-install-recommends --assume-no $1 2>/dev/null | sed -n 's/^Need to get \(.*\) of archives.*/\1/p')
  say "to download: ${size:-nothing} of Debian packages, $(cold_download)"
  note "expected: about $(cold_minutes) minutes on $(cpu_count) cores, the build included"
}

rustup_install() {
  note "no package has Rust >= $rust_min here: taking rustup (about 250 MB into ~/.cargo and ~/.rustup)"
  have curl || $sudo apt-get install -y -qq --no-install-recommends curl >>build/setup.log 2>&1
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y -q --profile minimal >>build/setup.log 2>&1 ||
    die "rustup failed: see build/setup.log, or install Rust >= $rust_min yourself"
}

cure_for_left() {
  echo "Look at build/setup.log; this distribution may be too old (Debian 12 and Ubuntu 24.04 are known to work)"
}
