# ./dev bench [FLAG…]: pome alone, on the demo model.
. tools/dev/build.sh

dev_bench() {
  ensure_setup program
  build_preset release pome one_batch
  model=$(build/release/apps/pome pull smollm2) || die "'pome pull smollm2' failed"
  for shape in "128 64" "512 64"; do
    say "prompt and decode tokens: $shape"
    build/release/bench/one_batch --model "$model" --prompt "${shape% *}" --decode "${shape#* }" "$@"
  done
}
