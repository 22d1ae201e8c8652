# ./dev check-metal: on a Mac, everything that only a Mac can show, in under ten minutes after the build.
. tools/dev/test.sh

dev_check_metal() {
  report=build/check-metal.txt
  on_macos || [ "${1:-}" = --rehearse ] ||
    die "check-metal is for a Mac with Apple silicon; '--rehearse' walks through its steps on this machine's CPU"
  ensure_setup tests
  build_preset dev
  pome=build/dev/apps/pome
  : >"$report"
  metal_failed=
  metal_step "machine" "$pome" check-env
  metal_step "kernels against their twins" metal_rings kernel
  metal_step "parity on tiny models" metal_rings parity
  metal_step "invariance" metal_rings invariance
  metal_step "a load over the budget is refused" metal_over_budget
  shape=qwen3-0.6b
  on_macos || shape=qwen3-tiny # a rehearsal shows that the steps run, not how fast
  python3 tools/bench/make_shape.py $shape build/shapes/$shape
  for batch in 1 4; do
    metal_step "$shape shape, 60 in, 10 out, batch $batch" \
      build/dev/bench/one_batch --model build/shapes/$shape --prompt 60 --decode 10 --batch $batch
  done
  echo
  say "please paste the whole of $report into a report"
  [ -z "$metal_failed" ] || die "these steps failed:$metal_failed"
}

# metal_step TITLE COMMAND…: runs it, shows it, writes it into the report.
metal_step() {
  title=$1
  shift
  say "$title"
  started=$(seconds_now)
  code=0
  "$@" >build/step.txt 2>&1 || code=$?
  {
    echo "## $title: $([ $code -eq 0 ] && echo ok || echo "FAILED ($code)") in $(elapsed "$started")"
    cat build/step.txt
    echo
  } | tee -a "$report"
  [ $code -eq 0 ] || metal_failed="$metal_failed '$title'"
}

metal_rings() { python3 tools/dev/run_rings.py "$@"; }

# With a budget of 64 MiB the demo model cannot fit; the program must say so and end, not die.
metal_over_budget() {
  "$pome" pull smollm2 || return 1
  code=0
  timeout_run 60 "$pome" serve --model-path smollm2 --port 0 --max-memory 64MB || code=$?
  case $code in
    0 | 124 | 13[0-9]) echo "exit code $code: it was not refused"; return 1 ;;
    *) echo "refused with exit code $code" ;;
  esac
}

# macOS has no timeout(1).
timeout_run() {
  seconds=$1
  shift
  "$@" &
  child=$!
  (sleep "$seconds"; kill "$child" 2>/dev/null) &
  watch=$!
  code=0
  wait "$child" || code=$?
  kill "$watch" 2>/dev/null || true
  return $code
}
