# ./dev bench-peers [FLAG…]: llama.cpp, built from its package, and pome on the same file in one run.
. tools/dev/build.sh

dev_bench_peers() {
  ensure_setup program
  build_preset release pome one_batch serving
  build_peer
  model=$(build/release/apps/pome pull smollm2) || die "'pome pull smollm2' failed"
  say "in turns: $(cpu_count) threads; keep the machine quiet"
  python3 tools/bench/peers.py --model "$model" --pome build/release/bench \
    --peer "$peer/bin" --peer-version "$llama_cpp_version" "$@"
}

# The peer with its own defaults: native instructions, its own thread pool, no GPU.
build_peer() {
  peer=build/peer/llama-$llama_cpp_version
  if [ -x "$peer/bin/llama-bench" ] && [ -x "$peer/bin/llama-batched-bench" ]; then return 0; fi
  source=build/peer/llama_cpp_python-$llama_cpp_version
  if [ ! -e "$source/vendor/llama.cpp/CMakeLists.txt" ]; then
    say "llama.cpp from llama-cpp-python $llama_cpp_version (77 MB)"
    mkdir -p build/peer
    archive=build/peer/llama_cpp_python-$llama_cpp_version.tar.gz
    [ -e "$archive" ] || fetch_sdist "$archive"
    tar -xzf "$archive" -C build/peer || die "$archive is damaged: remove it and run again"
  fi
  say "build llama.cpp's benchmarks (some minutes, once)"
  cmake -G Ninja -S "$source/vendor/llama.cpp" -B "$peer" -DCMAKE_BUILD_TYPE=Release -DLLAMA_CURL=OFF -DGGML_METAL=OFF \
    -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF >build/peer/build.log 2>&1 &&
    cmake --build "$peer" -j "$(job_count)" --target llama-bench llama-batched-bench \
      >>build/peer/build.log 2>&1 ||
    { tail -n 20 build/peer/build.log >&2; die "llama.cpp did not build (build/peer/build.log)"; }
}

# pip would also prepare a source package's metadata, which needs its build tools; only the archive is wanted. Its
# address is what the package index says in its simple form, which mirrors offer too, and its digest is checked.
fetch_sdist() {
  python3 - "$llama_cpp_version" "$1" <<'PY' || die "llama-cpp-python could not be fetched: check the network and run again"
import hashlib, json, os, sys, urllib.request
version, path = sys.argv[1:]
index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
page = urllib.request.Request(f"{index}/llama-cpp-python/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
files = json.load(urllib.request.urlopen(page, timeout=60))["files"]
archive = next(entry for entry in files if entry["filename"] == f"llama_cpp_python-{version}.tar.gz")
data = urllib.request.urlopen(archive["url"], timeout=600).read()
if hashlib.sha256(data).hexdigest() != archive["hashes"]["sha256"]:
    sys.exit("the archive's digest is wrong")
open(path, "wb").write(data)
PY
}
