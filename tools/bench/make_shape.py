"""Writes a checkpoint with the shape of a known model and random weights, to measure speed without its weights.

usage: make_shape.py NAME FOLDER     NAME: qwen3-0.6b, qwen3-tiny

bf16 weights with a deviation of 0.02, norms of 1; every tensor repeats one block of random numbers from its own
offset. Nothing but the standard library, so that a machine needs nothing to make one.
"""
import array
import json
import math
import pathlib
import random
import struct
import sys

COMMON = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "rms_norm_eps": 1e-6,
          "rope_theta": 1000000, "tie_word_embeddings": True, "attention_bias": False, "torch_dtype": "bfloat16"}
SHAPES = {
    "qwen3-0.6b": {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "num_attention_heads": 16,
                   "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960},
    "qwen3-tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
                   "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 1024, "max_position_embeddings": 2048},
}
BLOCK_VALUES = 1 << 19


def tensors(c: dict) -> list[tuple[str, list[int]]]:
    hidden, width = c["hidden_size"], c["head_dim"]
    rows = [("model.embed_tokens.weight", [c["vocab_size"], hidden]), ("model.norm.weight", [hidden])]
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        rows += [(at + "input_layernorm.weight", [hidden]), (at + "post_attention_layernorm.weight", [hidden]),
                 (at + "self_attn.q_norm.weight", [width]), (at + "self_attn.k_norm.weight", [width]),
                 (at + "self_attn.q_proj.weight", [c["num_attention_heads"] * width, hidden]),
                 (at + "self_attn.k_proj.weight", [c["num_key_value_heads"] * width, hidden]),
                 (at + "self_attn.v_proj.weight", [c["num_key_value_heads"] * width, hidden]),
                 (at + "self_attn.o_proj.weight", [hidden, c["num_attention_heads"] * width]),
                 (at + "mlp.gate_proj.weight", [c["intermediate_size"], hidden]),
                 (at + "mlp.up_proj.weight", [c["intermediate_size"], hidden]),
                 (at + "mlp.down_proj.weight", [hidden, c["intermediate_size"]])]
    return rows


def random_block() -> bytes:
    """BLOCK_VALUES numbers as bf16: the upper halves of little-endian floats."""
    source = random.Random(7)
    floats = array.array("f", (source.gauss(0.0, 0.02) for _ in range(BLOCK_VALUES))).tobytes()
    block = bytearray(2 * BLOCK_VALUES)
    block[0::2], block[1::2] = floats[2::4], floats[3::4]
    return bytes(block)


def main() -> None:
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    config = COMMON | SHAPES[name]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "model.safetensors"
    if (folder / "config.json").exists():
        return  # written last
    rows, header, at = tensors(config), {}, 0
    for tensor, shape in rows:
        size = 2 * math.prod(shape)
        header[tensor] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    block, one = random_block() * 2, struct.pack("<H", 0x3F80)
    with file.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for index, (tensor, shape) in enumerate(rows):
            left = 2 * math.prod(shape)
            if "norm" in tensor:
                out.write(one * (left // 2))
                continue
            start = 2 * (index * 7919 % BLOCK_VALUES)
            while left:
                piece = block[start:start + min(left, 2 * BLOCK_VALUES)]
                out.write(piece)
                left -= len(piece)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")


if __name__ == "__main__":
    main()
