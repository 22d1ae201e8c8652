# ./dev bench [FLAG…]: pome alone, on the demo model; writes bench/results/. Flags are tools/bench/serving.py's.
. tools/dev/build.sh

dev_bench() {
  ensure_setup program
  build_preset release pome one_batch serving
  model=$(build/release/apps/pome pull smollm2) || die "'pome pull smollm2' failed"
  say "with $(cpu_count) threads; keep the machine quiet"
  supervised python3 tools/bench/serving.py --model "$model" --programs build/release/bench "$@"
}
