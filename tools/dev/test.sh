# ./dev test [RING…]: sets up, builds and runs the rings; the last line counts.
. tools/dev/build.sh

all_rings="unit kernel parity invariance simulation scenario clients playground fuzz tidy"

dev_test() {
  test_started=$(seconds_now)
  rings=${*:-$all_rings}
  for ring in $rings; do
    case " $all_rings " in *" $ring "*) ;; *) die "the rings are: $all_rings" ;; esac
  done
  ensure_setup tests
  build_preset dev
  case " $rings " in *" fuzz "*) build_preset fuzz fuzz_targets ;; esac
  test_weights "$rings"
  say "rings: $rings"
  prepared=$(($(seconds_now) - test_started))
  supervised env POME_TEST_PYTHON="$(pwd)/.venv-tests/bin/python" \
    python3 tools/dev/run_rings.py --prepared "$prepared" $rings
}

# Real weights, for the rings that check real numbers. Without a network those tests are skipped, and counted so.
test_weights() {
  case " $1 " in *" parity "* | *" clients "*) ;; *) return 0 ;; esac
  say "weights for the tests: SmolLM2 135M (95 MB) and Gemma 3 270M (242 MB)"
  for name in smollm2 gemma3-270m; do
    build/dev/apps/pome pull "$name" >/dev/null || note "could not fetch $name; the tests that need it will be skipped"
  done
}
