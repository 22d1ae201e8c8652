# ./dev test-real MODEL: real weights of any supported kind. Loads them, asks questions whose answers are known, and
# prints how fast that was.
. tools/dev/demo.sh

dev_test_real() {
  [ $# -ge 1 ] || die "usage: ./dev test-real MODEL   (a folder, a .gguf file, a short name or a Hugging Face id)"
  ensure_setup program
  build_preset release pome
  model=$1
  shift
  serve_start build/release/apps/pome "$model" "$@"
  trap 'serve_stop' EXIT
  say "questions with known answers"
  code=0
  python3 tools/dev/client/ask_facts.py "$port" || code=$?
  trap - EXIT
  serve_stop || die "the server did not stop cleanly; its log is build/demo-server.log"
  [ $code -eq 0 ] || die "the model did not know enough: is it an instruction-tuned one, and the right chat template?"
}
