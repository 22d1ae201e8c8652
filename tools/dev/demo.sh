# ./dev demo: from nothing to an answer of a real model over HTTP.
. tools/dev/build.sh

demo_question="Why do plants need sunlight? Answer in two sentences."

dev_demo() {
  demo_started=$(seconds_now)
  ensure_setup program
  build_preset dev pome
  pome=build/dev/apps/pome
  say "the demo model: SmolLM2-135M-Instruct (95 MB, Apache-2.0)"
  "$pome" pull smollm2 >build/demo-model.txt || die "'pome pull smollm2' failed; its message is above. Run './dev demo' again: the download goes on where it stopped"
  serve_start "$pome" smollm2
  trap 'serve_stop' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM HUP
  say "POST /v1/chat/completions: $demo_question"
  demo_ask || die "no answer came; the server's log is build/demo-server.log"
  trap - EXIT INT TERM HUP
  serve_stop || die "the server did not stop cleanly; its log is build/demo-server.log"
  say "done in $(elapsed "$demo_started"). To talk to it yourself: $pome chat smollm2"
}

demo_ask() {
  body='{"model":"smollm2","stream":true,"stream_options":{"include_usage":true},"max_tokens":80,"temperature":0,"messages":[{"role":"user","content":"'$demo_question'"}]}'
  python3 tools/dev/client/print_stream.py "http://127.0.0.1:$port/v1/chat/completions" "$body"
}

# serve_start PROGRAM MODEL [FLAG…]: sets `port` and `server`, returns when /health says that a token can be made.
serve_start() {
  program=$1
  model=$2
  shift 2
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  say "pome serve on port $port"
  "$program" serve --model-path "$model" --host 127.0.0.1 --port "$port" --exit-with-parent "$@" >build/demo-server.log 2>&1 </dev/null &
  server=$!
  tries=0
  until python3 tools/dev/client/health.py "$port"; do
    tries=$((tries + 1))
    if ! kill -0 "$server" 2>/dev/null; then
      tail -n 20 build/demo-server.log >&2
      die "the server ended before it was ready; its log is above (build/demo-server.log)"
    fi
    [ $tries -lt 600 ] || { kill "$server"; die "the server was not ready after a minute (build/demo-server.log)"; }
    sleep 0.1
  done
}

# Asks the server to stop and waits for it; its exit code is the result.
serve_stop() {
  [ -n "${server:-}" ] || return 0
  kill -TERM "$server" 2>/dev/null || true
  code=0
  wait "$server" || code=$?
  server=
  return $code
}
