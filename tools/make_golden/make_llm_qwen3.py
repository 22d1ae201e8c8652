"""Goldens of qwen3: head_dim that is not hidden / heads, q and k norms, a tied head; the same as GGUF; and a folder in
MLX's affine quantization."""

import json

import numpy as np
import safetensors.torch
import torch
import transformers

import llm_common as common

SEED = 3301


def build(seed, head_dim, intermediate_size, tied):
    config = transformers.Qwen3Config(
        vocab_size=common.VOCAB,
        hidden_size=64,
        intermediate_size=intermediate_size,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=head_dim,
        rms_norm_eps=1e-6,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        use_sliding_window=False,
        eos_token_id=3,
        rope_parameters={"rope_theta": 1000000.0, "rope_type": "default"},
    )
    model = transformers.Qwen3ForCausalLM(config)
    common.randomise(model, seed)
    return model


def write_gguf(path, model):
    out = common.GgufFile(path, "qwen3", model.config)
    out.writer.add_rope_freq_base(model.config.rope_parameters["rope_theta"])
    for name, value in model.named_parameters():
        out.add(common.gguf_name(name), value)
    out.close()


def affine(weight, bits, group_size):
    """MLX's layout: element j of a row lies in word j·bits/32, lowest bits first; w = scale · q + bias per group."""
    rows, columns = weight.shape
    groups = weight.float().numpy().reshape(rows, columns // group_size, group_size)
    low = groups.min(-1)
    scales = ((groups.max(-1) - low) / (2**bits - 1)).astype(np.float16)
    biases = low.astype(np.float16)
    q = np.rint((groups - biases[..., None]) / scales[..., None].astype(np.float32)).clip(0, 2**bits - 1)
    q = q.astype(np.uint32)
    dense = q * scales[..., None].astype(np.float32) + biases[..., None].astype(np.float32)
    words = q.reshape(rows, -1, 32 // bits)
    packed = (words << (np.arange(32 // bits, dtype=np.uint32) * bits)).sum(-1, dtype=np.uint32)
    return packed, scales, biases, torch.from_numpy(dense.reshape(rows, columns).astype(np.float32))


def quantized_folder():
    seed = SEED + 10
    model = build(seed, head_dim=32, intermediate_size=96, tied=False)
    setting = {
        "group_size": 32,
        "bits": 4,
        "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8},
        "model.layers.1.self_attn.k_proj": {"group_size": 64, "bits": 8},
        "model.layers.1.mlp.gate_proj": False,
    }
    tensors = {}
    with torch.no_grad():
        for name, value in model.named_parameters():
            module = name.removesuffix(".weight")
            own = setting.get(module, setting)
            if value.ndim != 2 or own is False:
                tensors[name] = value.clone()
                continue
            packed, scales, biases, dense = affine(value, own["bits"], own["group_size"])
            tensors[name] = torch.from_numpy(packed)
            tensors[f"{module}.scales"] = torch.from_numpy(scales)
            tensors[f"{module}.biases"] = torch.from_numpy(biases)
            value.copy_(dense)
    folder = common.save_golden(
        "qwen3_mlx",
        model,
        seed,
        "make_llm_qwen3.py",
        "MLX affine 4-bit with 8-bit and dense overrides, untied head; "
        "expect is the reference on the dequantized weights",
        edit_config=lambda config: config.update(quantization=setting),
    )
    safetensors.torch.save_file(tensors, folder / "model.safetensors", metadata={"format": "mlx"})
    (folder / "model.safetensors").chmod(0o644)
    assert json.loads((folder / "config.json").read_text())["quantization"]["bits"] == 4


def main():
    model = build(SEED, head_dim=24, intermediate_size=48, tied=True)
    folder = common.save_golden(
        "qwen3",
        model,
        SEED,
        "make_llm_qwen3.py",
        "3 heads of 24 on 1 in hidden 64, tied head; model.gguf is the same in float16",
    )
    write_gguf(folder / "model.gguf", model)
    quantized_folder()


if __name__ == "__main__":
    main()
