"""Goldens of llama: untied head, llama3 rope scaling; the same as GGUF; and a GGUF of mixed block types."""

import pathlib
import tempfile

import gguf
import torch
import transformers

import llm_common as common

SEED = 1101


def build(seed, scaling, hidden_size):
    config = transformers.LlamaConfig(
        vocab_size=common.VOCAB,
        hidden_size=hidden_size,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        rms_norm_eps=1e-5,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        eos_token_id=[2, 7],
        rope_parameters={"rope_theta": 10000.0, **scaling},
    )
    model = transformers.LlamaForCausalLM(config)
    common.randomise(model, seed)
    return model


def rope_factors(model):
    """What converters store as rope_freqs: the default frequencies divided by the scaled ones."""
    head_dim = model.config.head_dim
    plain = 1.0 / (model.config.rope_parameters["rope_theta"] ** (torch.arange(0, head_dim, 2).float() / head_dim))
    return plain / model.model.rotary_emb.inv_freq


def write_gguf(path, model, quantization=None, tied=False):
    config = model.config
    out = common.GgufFile(path, "llama", config)
    out.writer.add_rope_dimension_count(config.head_dim)
    out.writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    factors = rope_factors(model)
    if not torch.allclose(factors, torch.ones_like(factors)):
        out.add("rope_freqs.weight", factors)
    for name, value in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        if "q_proj" in name:
            value = common.interleave_rows(value, config.num_attention_heads)
        if "k_proj" in name:
            value = common.interleave_rows(value, config.num_key_value_heads)
        target = common.gguf_name(name)
        out.add(target, value, quantization(target) if quantization and value.ndim == 2 else None)
    out.close()


def main():
    torch.manual_seed(SEED)
    scaling = {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 64,
    }
    model = build(SEED, scaling, hidden_size=48)
    folder = common.save_golden(
        "llama",
        model,
        SEED,
        "make_llm_llama.py",
        "untied head, 3 heads on 1, llama3 rope scaling; model.gguf is the same in float16",
    )
    write_gguf(folder / "model.gguf", model)

    # Block formats need rows of whole blocks of 32: hidden 96 = 3 · 32, 64 in the MLP.
    kinds = {
        "attn_q": gguf.GGMLQuantizationType.Q4_0,
        "attn_k": gguf.GGMLQuantizationType.Q5_1,
        "attn_v": gguf.GGMLQuantizationType.Q8_0,
        "attn_output": gguf.GGMLQuantizationType.Q4_1,
        "ffn_gate": gguf.GGMLQuantizationType.Q4_1,
        "ffn_up": gguf.GGMLQuantizationType.Q4_1,
        "ffn_down": gguf.GGMLQuantizationType.Q5_0,
        "token_embd": gguf.GGMLQuantizationType.Q8_0,
        "output": gguf.GGMLQuantizationType.Q4_0,
    }

    def kind(name):
        return kinds[name.split(".")[-2]]

    seed = SEED + 10
    model = build(seed, {"rope_type": "default"}, hidden_size=96)
    with tempfile.NamedTemporaryFile(suffix=".gguf") as file:
        write_gguf(file.name, model, kind)
        blocks = pathlib.Path(file.name).read_bytes()
        common.load_gguf(model, file.name, interleaved=True)
    folder = common.save_golden(
        "llama_blocks",
        model,
        seed,
        "make_llm_llama.py",
        "a GGUF that mixes Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0; expect is the reference on the dequantized weights",
    )
    (folder / "model.gguf").write_bytes(blocks)
    for name in ("model.safetensors", "config.json", "generation_config.json"):
        (folder / name).unlink()


if __name__ == "__main__":
    main()
