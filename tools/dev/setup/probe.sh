# What is there? Each part is a probe of a version. missing_parts LEVEL prints the names of those that fail.

probe_platform() {
  case "$(uname -s)-$(uname -m)" in
    Linux-x86_64 | Linux-aarch64)
      glibc=$(getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ print $2 }')
      [ -n "$glibc" ] || die "this system has no glibc, and the MLX wheels need it (>= $glibc_min): use Debian 12 or newer"
      version_ge "$glibc" "$glibc_min" ||
        die "glibc $glibc is too old for the MLX wheels (>= $glibc_min): use Debian 12, Ubuntu 22.04 or newer"
      ;;
    Darwin-arm64) probe_macos ;;
    Darwin-*) die "MLX needs Apple silicon; this Mac has an Intel processor (or the shell runs under Rosetta)" ;;
    *) die "pome builds on Linux (x86_64, aarch64) and macOS (arm64), not on $(uname -s) $(uname -m)" ;;
  esac
}

missing_parts() {
  parts="compiler cmake ninja pkgconf python venv certificates boost fmt spdlog cli11 yaml openssl prometheus highway rust"
  # The presets configure the tests too.
  parts="$parts gtest"
  [ "$1" = program ] || parts="$parts git curl"
  [ "$1" != check ] || parts="$parts clang ccache"
  for part in $parts; do
    "probe_$part" >/dev/null 2>&1 || echo "$part"
  done
}

# macro NAME HEADER: the value of a preprocessor macro, without quotes and spaces.
macro() {
  prefix=
  if on_macos; then prefix="-I$(brew --prefix)/include -I$(brew --prefix openssl@3)/include"; fi
  printf '#include <%s>\npome_probe %s\n' "$2" "$1" |
    c++ -std=c++20 $prefix -E -P -x c++ - 2>/dev/null | sed -n 's/^pome_probe //p' | tr -d '" '
}

pkg_at_least() { have pkg-config && pkg-config --exists "$1 >= $2"; }

probe_compiler() {
  have c++ || return 1
  number=$(c++ -dumpfullversion -dumpversion 2>/dev/null)
  if c++ --version | grep -qi clang; then version_ge "$number" "$clang_min"; else version_ge "$number" "$gxx_min"; fi
}
probe_cmake() { have cmake && version_ge "$(cmake --version | awk 'NR == 1 { print $3 }')" "$cmake_min"; }
probe_ninja() { have ninja; }
probe_pkgconf() { have pkg-config; }
probe_python() {
  have python3 && version_ge "$(python3 -c 'import platform; print(platform.python_version())')" "$python_min"
}
probe_venv() { have python3 && python3 -c 'import venv, ensurepip'; }
probe_certificates() { on_macos || [ -e /etc/ssl/certs/ca-certificates.crt ] || [ -n "${SSL_CERT_FILE:-}" ]; }
probe_git() { have git; }
probe_curl() { have curl; }
probe_boost() {
  number=$(macro BOOST_LIB_VERSION boost/version.hpp | tr _ .)
  [ -n "$number" ] && version_ge "$number" "$boost_min" && [ -n "$(library boost_json)" ]
}
probe_fmt() { pkg_at_least fmt "$fmt_min"; }
probe_spdlog() { pkg_at_least spdlog "$spdlog_min"; }
probe_cli11() {
  number=$(macro CLI11_VERSION CLI/Version.hpp)
  [ -n "$number" ] && version_ge "$number" "$cli11_min"
}
probe_yaml() { pkg_at_least yaml-cpp "$yaml_min"; }
probe_openssl() {
  if on_macos; then [ -e "$(brew --prefix openssl@3)/include/openssl/sha.h" ]; else pkg_at_least libcrypto "$openssl_min"; fi
}
probe_prometheus() { pkg_at_least prometheus-cpp-core "$prometheus_min"; }
probe_highway() { pkg_at_least libhwy "$hwy_min"; }
probe_gtest() { pkg_at_least gmock "$gtest_min"; }
probe_rust() {
  have cargo && have rustc && version_ge "$(rustc --version | awk '{ print $2 }')" "$rust_min"
}
# libFuzzer and its run time; Apple's clang comes without them, so a Mac fuzzes with the plain driver.
probe_clang() {
  on_macos && return 0
  fuzz_compiler >/dev/null &&
    echo 'extern "C" int LLVMFuzzerTestOneInput(const char*, unsigned long) { return 0; }' |
    "$(fuzz_compiler)" -fsanitize=fuzzer,address -x c++ - -o build/probe && rm -f build/probe
}
fuzz_compiler() {
  for number in '' -21 -20 -19 -18 -17 -16 -15 -14; do
    if have "clang++$number"; then
      echo "clang++$number"
      return 0
    fi
  done
  return 1
}

# The builds of ./dev check share most of their objects through it.
probe_ccache() { have ccache; }

# Prints the path of a shared or static library that the linker would find.
library() {
  for name in "lib$1.so" "lib$1.a" "lib$1.dylib"; do
    path=$(c++ -print-file-name="$name" 2>/dev/null)
    case $path in */*) [ -e "$path" ] && echo "$path" && return 0 ;; esac
  done
  if on_macos; then ls "$(brew --prefix)/lib/lib$1.dylib" 2>/dev/null; fi
}
