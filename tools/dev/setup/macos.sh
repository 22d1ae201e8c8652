# macOS: the command line tools, Homebrew, and the version of the system against the wheel's tag.

probe_macos() {
  number=$(sw_vers -productVersion)
  version_ge "$number" "$macos_min" ||
    die "macOS $number is too old: the wheel mlx-metal $mlx_version is built for macOS $macos_min and newer"
  xcode-select -p >/dev/null 2>&1 ||
    die "the command line tools are missing: run 'xcode-select --install', wait for it, then run this again"
  have brew || [ ! -x /opt/homebrew/bin/brew ] || PATH=/opt/homebrew/bin:$PATH
  have brew || die "Homebrew is missing: install it with the line on https://brew.sh, then run this again"
}

formulae_for() {
  for part in "$@"; do
    case $part in
      compiler) die "c++ is older than clang $clang_min: update the command line tools (softwareupdate --list)" ;;
      cmake) echo cmake ;;
      ninja) echo ninja ;;
      pkgconf) echo pkgconf ;;
      python | venv) echo python ;;
      git) echo git ;;
      boost) echo boost ;;
      fmt) echo fmt ;;
      spdlog) echo spdlog ;;
      cli11) echo cli11 ;;
      yaml) echo yaml-cpp ;;
      openssl) echo openssl@3 ;;
      prometheus) echo prometheus-cpp ;;
      highway) echo highway ;;
      gtest) echo googletest ;;
      rust) echo rust ;;
      ccache) echo ccache ;;
    esac
  done | awk '!seen[$0]++' | tr '\n' ' '
}

install_parts() {
  formulae=$(formulae_for $1)
  mkdir -p build
  say "missing: $(echo $1)"
  say "to download: about $(($(echo $formulae | wc -w) * 25)) MB of Homebrew bottles, $(cold_download)"
  note "expected: about $(cold_minutes) minutes on $(cpu_count) cores, the build included"
  note "brew install $formulae"
  HOMEBREW_NO_AUTO_UPDATE=1 HOMEBREW_NO_INSTALL_CLEANUP=1 brew install --quiet $formulae >build/setup.log 2>&1 ||
    { tail -n 20 build/setup.log >&2; die "brew could not install them; its last words are above (build/setup.log)"; }
}

# Chrome is no business of a build script.
install_browser() {
  for folder in /Applications "${HOME:-}/Applications"; do
    [ ! -e "$folder/Google Chrome.app" ] || return 0
  done
  note "a browser for the playground's journeys: 'brew install --cask google-chrome' (about 250 MB)"
  return 1
}

cure_for_left() { echo "Try 'brew update && brew upgrade', then run this again; details are in build/setup.log"; }
