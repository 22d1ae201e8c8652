"""Golden of qwen2: biases on q, k and v, a tied head, YaRN, two shards; and the same as GGUF."""

import gguf
import transformers

import llm_common as common

SEED = 2201
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}


def build():
    config = transformers.Qwen2Config(
        vocab_size=common.VOCAB,
        hidden_size=72,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-6,
        max_position_embeddings=256,
        tie_word_embeddings=True,
        use_sliding_window=False,
        eos_token_id=5,
        rope_parameters={"rope_theta": 10000.0, **YARN},
    )
    model = transformers.Qwen2ForCausalLM(config)
    common.randomise(model, SEED)
    return model


def write_gguf(path, model):
    config = model.config
    config.head_dim = config.hidden_size // config.num_attention_heads
    out = common.GgufFile(path, "qwen2", config)
    out.writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    out.writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    out.writer.add_rope_scaling_factor(YARN["factor"])
    out.writer.add_rope_scaling_orig_ctx_len(YARN["original_max_position_embeddings"])
    for name, value in model.named_parameters():
        out.add(common.gguf_name(name), value)
    out.close()


def old_style(config):
    """Checkpoints written before transformers 5 say rope_theta and rope_scaling."""
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    rope["type"] = rope.pop("rope_type")
    config["rope_scaling"] = rope
    del config["layer_types"]


def main():
    model = build()
    folder = common.save_golden(
        "qwen2",
        model,
        SEED,
        "make_llm_qwen2.py",
        "biases on q, k, v, tied head, 9 heads on 3 of 8, YaRN in the older config keys, two shards; "
        "model.gguf is the same in float16",
        shard_size="120KB",
        edit_config=old_style,
    )
    write_gguf(folder / "model.gguf", model)


if __name__ == "__main__":
    main()
