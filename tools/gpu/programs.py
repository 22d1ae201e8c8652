"""What a GPU run consists of: the programs of a build that use MLX, and the environment they need."""
import pathlib

# Each computes on the default device, so on a GPU where MLX has one; those of the CPU kernels choose the CPU by
# themselves, and show that they work beside a GPU.
TESTS = {
    "gpu_twins_test": "tests/gpu",
    "pome_tensor_test": "src/tensor",
    "pome_kernels_test": "src/kernels",
    "pome_kernels_activation_test": "src/kernels/activation",
    "pome_kernels_kv_pages_test": "src/kernels/kv_pages",
    "pome_kernels_matmul_test": "src/kernels/matmul",
    "pome_kernels_norm_test": "src/kernels/norm",
    "pome_kernels_paged_attention_test": "src/kernels/paged_attention",
    "pome_kernels_quantized_matmul_test": "src/kernels/quantized_matmul",
    "pome_kernels_rope_test": "src/kernels/rope",
    "pome_kernels_sample_test": "src/kernels/sample",
    "pome_quant_test": "src/quant",
    "pome_kvpool_test": "src/kvpool",
    "pome_layers_test": "src/layers",
    "pome_sampling_test": "src/sampling",
    "pome_models_llm_test": "src/models/llm",
    "parity_llm_test": "tests/parity",
    "pome_engine_steps_test": "src/engine/steps",
    "engine_test": "tests/engine",
    "engine_memory_test": "tests/engine",
    "invariance_engine_test": "tests/invariance",
}
OTHERS = {"pome": "apps", "one_batch": "bench"}

ENVIRONMENT = {
    # Products of float32 keep 24 bits; MLX's default on NVIDIA is 11.
    "MLX_ENABLE_TF32": "0",
    # MLX throws once a process has met 800 shapes of graphs.
    "MLX_ENABLE_CACHE_THRASHING_CHECK": "0",
}


def in_build(build: pathlib.Path) -> dict[str, pathlib.Path]:
    """name -> program, for those that were built."""
    found = {name: build / folder / name for name, folder in (TESTS | OTHERS).items()}
    return {name: path for name, path in found.items() if path.exists()}
