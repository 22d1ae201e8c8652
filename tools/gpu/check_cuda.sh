# ./dev check-cuda [FLAG…]: on a machine with an NVIDIA GPU, what only such a machine can show (docs/cuda.md). The flags
# are those of tools/gpu/run.py.
. tools/dev/build.sh

dev_check_cuda() {
  have nvidia-smi || die "check-cuda is for a machine with an NVIDIA GPU and its driver; 'tools/gpu/pack.py' makes a pack for one"
  ensure_setup tests
  setup_cuda_wheel
  build_preset cuda
  supervised python3 tools/gpu/run.py --build build/cuda \
    --out "bench/results/gpu-$(date +%Y-%m-%d)-$(git rev-parse --short=12 HEAD).json" "$@"
}
