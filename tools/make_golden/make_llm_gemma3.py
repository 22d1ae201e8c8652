"""Goldens of gemma3 (text): windows shorter than the prompt, a global layer with linear rope scaling, a tied head; the
same as GGUF; and a multimodal checkpoint, whose text part is expected."""

import gguf
import torch
import transformers

import llm_common as common

SEED = 4401
MULTIMODAL_SEED = 4411
WINDOW = 11
BLOCK_NAMES = {
    **common.BLOCK_NAMES,
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}


def text_config(layer_types):
    return transformers.Gemma3TextConfig(
        vocab_size=common.VOCAB,
        hidden_size=48,
        intermediate_size=40,
        num_hidden_layers=len(layer_types),
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=24,
        query_pre_attn_scalar=20,
        sliding_window=WINDOW,
        layer_types=layer_types,
        rms_norm_eps=1e-6,
        max_position_embeddings=256,
        eos_token_id=1,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
        },
    )


def build(config, seed):
    model = transformers.Gemma3ForCausalLM(config)
    common.randomise(model, seed)
    return model


def build_multimodal(text):
    config = transformers.Gemma3Config(
        text_config=text.config.to_dict(),
        vision_config={
            "hidden_size": 8,
            "intermediate_size": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
            "image_size": 4,
            "patch_size": 2,
        },
        mm_tokens_per_image=1,
    )
    torch.manual_seed(MULTIMODAL_SEED + 2)
    model = transformers.Gemma3ForConditionalGeneration(config)
    model.model.language_model.load_state_dict(text.model.state_dict())
    return model


def as_published(config):
    """Keys with their default values are left out of text_config, and the rope is written as it was before version 5."""
    text = config["text_config"]
    defaults = transformers.Gemma3TextConfig().to_dict()
    for key in [key for key, value in text.items() if key != "model_type" and defaults.get(key) == value]:
        del text[key]
    for key in ("layer_types", "rope_parameters", "eos_token_id"):
        text.pop(key, None)
    text["sliding_window_pattern"] = 2
    text["rope_scaling"] = {"factor": 8.0, "rope_type": "linear"}
    config["eos_token_id"] = [1, 106]


def save_multimodal():
    text = build(text_config(["sliding_attention", "full_attention"]), MULTIMODAL_SEED)
    folder = common.save_golden(
        "gemma3_multimodal",
        text,
        MULTIMODAL_SEED,
        "make_llm_gemma3.py",
        "a text part of 2 layers beside a vision tower; config.json leaves out defaults, as published ones do; expect is "
        "the text part's",
        saved=build_multimodal(text),
        edit_config=as_published,
    )
    reloaded = transformers.Gemma3ForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    tokens = common.prompt(MULTIMODAL_SEED + 1)[None]
    with torch.no_grad():
        torch.testing.assert_close(reloaded(input_ids=tokens).logits, text(input_ids=tokens).logits)


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
    save_multimodal()
    model = build(text_config(["sliding_attention", "full_attention", "sliding_attention"]), SEED)
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
