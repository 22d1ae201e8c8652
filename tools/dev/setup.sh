# ./dev setup [program|tests|check]: installs what is missing, by version and not by name.
. tools/dev/setup/probe.sh
if on_macos; then . tools/dev/setup/macos.sh; else . tools/dev/setup/debian.sh; fi

dev_setup() {
  level=${1:-program}
  ensure_setup "$level" probe
}

# ensure_setup LEVEL [probe]: without `probe`, a stamp of an earlier success is believed, so that a second run is quick.
ensure_setup() {
  level=$1
  case $level in
    program | tests | check) ;;
    *) die "setup knows the levels program, tests and check, not '$level'" ;;
  esac
  mkdir -p build
  setup_stamp=build/.setup-$level-$(cat tools/dev/versions.sh tools/dev/setup.sh tools/dev/setup/*.sh | cksum | cut -d' ' -f1)
  if [ "${2:-}" = probe ] || [ ! -e "$setup_stamp" ]; then setup_packages "$level"; fi
  take_lock
  setup_wheels
  [ "$level" = program ] || setup_test_venv
  [ "$level" != check ] || formatter >/dev/null || setup_formatter
  touch "$setup_stamp"
}

setup_packages() {
  probe_platform
  missing=$(missing_parts "$1")
  [ -z "$missing" ] || install_parts "$missing"
  left=$(missing_parts "$1")
  [ -z "$left" ] || die "still missing after the installation: $(echo $left). $(cure_for_left)"
}

# MLX's library and headers, as a wheel in .venv.
setup_wheels() {
  package=mlx-cpu
  if on_macos; then package=mlx-metal; fi
  if mlx_wheel_there "$package"; then return 0; fi
  say "MLX $mlx_version: the wheel $package into .venv (10 to 80 MB)"
  make_venv .venv
  .venv/bin/python -m pip install --quiet --disable-pip-version-check "$package==$mlx_version" ||
    die "pip could not install $package $mlx_version: check the network (a proxy? set HTTPS_PROXY) and run again"
}

# pip writes RECORD last, so an interrupted installation does not count.
mlx_wheel_there() {
  for info in .venv/lib/python3*/site-packages/"$(echo "$1" | tr - _)-$mlx_version.dist-info"/RECORD; do
    [ -e "$info" ] && return 0
  done
  return 1
}

# What the clients ring imports; nothing else uses it.
setup_test_venv() {
  requirements=tests/clients/requirements.txt
  [ -e $requirements ] || return 0
  stamp=.venv-tests/.pome-$(cksum <$requirements | cut -d' ' -f1)
  [ ! -e "$stamp" ] || return 0
  say "Python packages of the clients ring into .venv-tests (about 15 MB)"
  make_venv .venv-tests
  .venv-tests/bin/python -m pip install --quiet --disable-pip-version-check -r $requirements ||
    die "pip could not install $requirements: check the network and run again"
  touch "$stamp"
}

# formatter: prints a clang-format of the version that lays out as we do, if there is one.
formatter() {
  for name in "clang-format-${clang_format_version%%.*}" .venv-check/bin/clang-format clang-format; do
    if have "$name" && "$name" --version | grep -q "version ${clang_format_version%%.*}\."; then
      echo "$name"
      return 0
    fi
  done
  return 1
}
setup_formatter() {
  say "clang-format $clang_format_version into .venv-check (2 MB)"
  make_venv .venv-check
  .venv-check/bin/python -m pip install --quiet --disable-pip-version-check "clang-format==$clang_format_version" ||
    die "pip could not install clang-format $clang_format_version: check the network and run again"
}

# A virtual environment that an interruption left without pip is made anew.
make_venv() {
  if [ -x "$1/bin/python" ] && "$1/bin/python" -m pip --version >/dev/null 2>&1; then return 0; fi
  python3 -m venv --clear "$1" || die "python3 -m venv failed: install your system's venv package (python3-venv)"
}
