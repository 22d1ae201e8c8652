# ./dev build [PRESET] [TARGET…]
. tools/dev/setup.sh

dev_build() {
  preset=${1:-dev}
  [ $# -eq 0 ] || shift
  ensure_setup program
  [ "$preset" != cuda ] || setup_cuda_wheel
  build_preset "$preset" "$@"
}

# build_preset PRESET [TARGET…]: configures when that has not been done, then builds. Ninja goes on where it stopped.
build_preset() {
  preset=$1
  shift
  folder=build/$preset
  mkdir -p build
  if [ ! -e "$folder/.configured" ] || [ ! -e "$folder/build.ninja" ]; then
    say "configure $folder"
    cmake --preset "$preset" $(configure_options "$preset") >"build/configure-$preset.log" 2>&1 ||
      { tail -n 20 "build/configure-$preset.log" >&2; die "configuring $folder failed (build/configure-$preset.log); './dev setup' may help"; }
    touch "$folder/.configured"
  fi
  started=$(seconds_now)
  jobs=$(job_count)
  say "build $folder${*:+: $*} with $jobs jobs"
  if [ -t 1 ]; then
    supervised ninja -C "$folder" -j "$jobs" "$@" || die "the build of $folder failed; the first error is above"
  else
    supervised ninja -C "$folder" -j "$jobs" "$@" >"build/build-$preset.log" 2>&1 ||
      { grep -m1 -A40 '^FAILED' "build/build-$preset.log" >&2 || tail -n 40 "build/build-$preset.log" >&2
        die "the build of $folder failed (build/build-$preset.log)"; }
  fi
  note "built in $(elapsed "$started")"
}

configure_options() {
  if on_macos; then
    echo "-DCMAKE_PREFIX_PATH=$(brew --prefix) -DOPENSSL_ROOT_DIR=$(brew --prefix openssl@3)"
  elif [ "$1" = fuzz ]; then
    ! compiler=$(fuzz_compiler) || echo "-DCMAKE_CXX_COMPILER=$compiler"
  fi
}
