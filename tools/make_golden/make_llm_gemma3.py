"""Golden of gemma3 (text): windows shorter than the prompt, a global layer with linear rope scaling, a tied head; and
the same as GGUF."""

import gguf
import transformers

import llm_common as common

SEED = 4401
WINDOW = 11
BLOCK_NAMES = {
    **common.BLOCK_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def build():
    config = transformers.Gemma3TextConfig(
        vocab_size=common.VOCAB,
        hidden_size=48,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=24,
        query_pre_attn_scalar=20,
        sliding_window=WINDOW,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
        rms_norm_eps=1e-6,
        max_position_embeddings=256,
        eos_token_id=1,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
        },
    )
    model = transformers.Gemma3ForCausalLM(config)
    common.randomise(model, SEED)
    return model


def write_gguf(path, model):
    config = model.config
    out = common.GgufFile(path, "gemma3", config)
    out.writer.add_rope_freq_base(1000000.0)
    out.writer.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    out.writer.add_rope_scaling_factor(8.0)
    out.writer.add_sliding_window(WINDOW)
    out.writer.add_sliding_window_pattern(2)
    for name, value in model.named_parameters():
        out.add(common.gguf_name(name, BLOCK_NAMES), value + 1.0 if "norm" in name else value)
    out.close()


def main():
    model = build()
    folder = common.save_golden(
        "gemma3",
        model,
        SEED,
        "make_llm_gemma3.py",
        "3 layers of which the second is global, window 11, 3 heads of 24 on 1, linear rope scaling on the global layer; "
        "model.gguf is the same in float16",
    )
    # GGUF has no key for query_pre_attn_scalar: the file is for a model whose scalar is head_dim, which scaling q_norm
    # makes the same.
    factor = (model.config.head_dim / model.config.query_pre_attn_scalar) ** 0.5
    for layer in model.model.layers:
        norm = layer.self_attn.q_norm.weight
        norm.data = (1.0 + norm.data) * factor - 1.0
    write_gguf(folder / "model.gguf", model)


if __name__ == "__main__":
    main()
