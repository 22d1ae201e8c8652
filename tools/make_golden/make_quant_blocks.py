#!/usr/bin/env python3
"""Writes src/quant/golden: blocks of each GGUF type with their values, and MLX-quantized matrices.

Block bytes are random, so every code, sub-scale and high bit occurs; the block's f16 scales are drawn
from ordinary, tiny (subnormal) and large values. The values are those of gguf.quants.dequantize and
mx.dequantize.
"""
import importlib.metadata
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "src" / "quant" / "golden"
SEED = 20240817
ROWS, BLOCKS = 2, 2  # rows of a matrix and blocks of a row

# Where a block keeps its f16 scales.
SCALES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}
SCALE_VALUES = [0.01, -0.02, 1.0, 3.14, 6e-8, -5e-5, 6.1e-5, 200.0, -511.0, 0.0]


def write_gguf_blocks(folder):
    import gguf
    import numpy as np
    from gguf.quants import dequantize

    random = np.random.default_rng(SEED)
    for name, offsets in SCALES.items():
        kind = gguf.GGMLQuantizationType[name]
        weights, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (ROWS * BLOCKS * (256 // weights), size), dtype=np.uint8)
        for offset in offsets:
            scales = random.choice(np.float16(SCALE_VALUES), len(blocks))
            blocks[:, offset:offset + 2] = scales.view(np.uint8).reshape(-1, 2)
        blocks = blocks.reshape(ROWS, -1)
        values = dequantize(blocks, kind).astype(np.float32).reshape(ROWS, -1)
        # rows, columns, then blocks, then values
        head = np.array([ROWS, values.shape[1]], dtype=np.int32)
        (folder / f"{name.lower()}.bin").write_bytes(
            head.tobytes() + blocks.tobytes() + values.tobytes())
    (folder / "ORIGIN").write_text(
        f"Made by tools/make_golden/make_quant_blocks.py, seed {SEED}.\n"
        f"*.bin: gguf {importlib.metadata.version('gguf')}, "
        f"numpy {np.__version__}\n")


def write_mlx_folder(folder):
    import mlx.core as mx

    mx.random.seed(SEED)
    tensors, quantization = {}, {"bits": 4, "group_size": 64}
    for bits in (2, 3, 4, 5, 6, 8):
        for group_size in (32, 64, 128):
            name = f"b{bits}g{group_size}"
            dense = mx.random.normal((2, 128))
            dtype = {32: mx.float32, 64: mx.float16, 128: mx.bfloat16}[group_size]
            w, s, b = mx.quantize(dense.astype(dtype), group_size=group_size, bits=bits)
            tensors |= {f"{name}.weight": w, f"{name}.scales": s, f"{name}.biases": b}
            values = mx.dequantize(w, s.astype(mx.float32), b.astype(mx.float32),
                                   group_size=group_size, bits=bits)
            tensors[f"{name}.expected"] = values
            if (bits, group_size) != (4, 64):
                quantization[name] = {"bits": bits, "group_size": group_size}
    dense = mx.random.normal((2, 8)).astype(mx.bfloat16)
    tensors |= {"plain.weight": dense, "plain.expected": dense.astype(mx.float32)}
    quantization["plain"] = False
    out = folder / "mlx_folder"
    out.mkdir(exist_ok=True)
    mx.save_safetensors(str(out / "model.safetensors"), tensors)
    (out / "config.json").write_text(
        json.dumps({"model_type": "golden", "quantization": quantization}, indent=1) + "\n")
    (out / "ORIGIN").write_text(
        f"Made by tools/make_golden/make_quant_blocks.py, seed {SEED}; "
        f"mlx {importlib.metadata.version('mlx')}\n")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_gguf_blocks(FOLDER)
    write_mlx_folder(FOLDER)
