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
  mkdir -p build && [ -w build ] && { [ ! -e build/.lock ] || [ -w build/.lock ]; } ||
    die "cannot write to build/: if ./dev ran here as root, remove the folder or give it to yourself ('sudo chown -R $(id -un) .')"
  setup_stamp=build/.setup-$level-$(cat tools/dev/versions.sh tools/dev/setup.sh tools/dev/setup/*.sh | cksum | cut -d' ' -f1)
  [ -e "$setup_stamp" ] || check_disk "$level"
  if [ "${2:-}" = probe ] || [ ! -e "$setup_stamp" ]; then setup_packages "$level"; fi
  take_lock
  setup_wheels
  [ "$level" = program ] || setup_test_venv
  [ "$level" != check ] || formatter >/dev/null || setup_formatter
  touch "$setup_stamp"
}

# What the folder grows to, in MB. A full disk ends a build after many minutes, and rarely with a word about the disk.
check_disk() {
  need=1500
  [ "$1" = program ] || need=3600
  free=$(df -Pk . 2>/dev/null | awk 'NR == 2 { print int($4 / 1024) }')
  [ -z "$free" ] || [ "$free" -ge $need ] ||
    die "this folder's disk has $free MB left, and the build takes up to $need MB: make room, or move the folder"
}

setup_packages() {
  probe_platform
  missing=$(missing_parts "$1")
  [ -z "$missing" ] || install_parts "$missing"
  left=$(missing_parts "$1")
  [ -z "$left" ] || die "still missing after the installation: $(echo $left). $(cure_for_left)"
  [ "$1" = program ] || setup_browser
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

# MLX for NVIDIA: 90 MB, which is enough to build; to run it needs NVIDIA's libraries too, which come where a GPU is.
setup_cuda_wheel() {
  if on_macos; then die "the preset cuda is for Linux"; fi
  libraries=--no-deps
  # The headers of nvidia-cuda-crt are for kernels that MLX compiles when they are first used.
  if have nvidia-smi; then libraries="nvidia-cuda-crt==13.*"; fi
  if mlx_wheel_there mlx-cuda-13 .venv-cuda &&
    { [ "$libraries" = --no-deps ] || [ -n "$(ls -d .venv-cuda/lib/python3*/site-packages/nvidia 2>/dev/null)" ]; }; then
    return 0
  fi
  say "MLX $mlx_version: the wheel mlx-cuda-13 into .venv-cuda (90 MB; NVIDIA's libraries, 2 GB, only where there is a GPU)"
  make_venv .venv-cuda
  .venv-cuda/bin/python -m pip install --quiet --disable-pip-version-check $libraries "mlx-cuda-13==$mlx_version" ||
    die "pip could not install mlx-cuda-13 $mlx_version: check the network (a proxy? set HTTPS_PROXY) and run again"
}

# mlx_wheel_there PACKAGE [VENV]: pip writes RECORD last, so an interrupted installation does not count.
mlx_wheel_there() {
  for info in "${2:-.venv}"/lib/python3*/site-packages/"$(echo "$1" | tr - _)-$mlx_version.dist-info"/RECORD; do
    [ -e "$info" ] && return 0
  done
  return 1
}

# What the rings clients and playground import; nothing else uses it.
setup_test_venv() {
  requirements=
  for file in tests/clients/requirements.txt tests/playground/requirements.txt; do
    [ ! -e $file ] || requirements="$requirements -r $file"
  done
  [ -n "$requirements" ] || return 0
  stamp=.venv-tests/.pome-$(cat $(echo "$requirements" | sed 's/-r//g') | cksum | cut -d' ' -f1)
  [ ! -e "$stamp" ] || return 0
  say "Python packages of the rings clients and playground into .venv-tests (about 65 MB)"
  make_venv .venv-tests
  .venv-tests/bin/python -m pip install --quiet --disable-pip-version-check $requirements ||
    die "pip could not install$requirements: check the network and run again"
  touch "$stamp"
}

# The journeys of the ring playground need a browser. Where none can be had they are skipped, and counted so, which is no
# reason to stop.
setup_browser() {
  for name in chromium chromium-browser google-chrome google-chrome-stable; do
    if have $name; then return 0; fi
  done
  install_browser || note "the journeys of the ring playground will be skipped: there is no browser"
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
