"""What the scripts that make language-model goldens share.

A golden is a tiny random checkpoint and what the reference library computes with it: the embeddings, each layer's
output, the final norm and the logits of one prompt of 37 tokens. The models are causal, so the first n rows are the
answer for the prompt's first n tokens; save_golden() checks that the reference agrees.

Weights are rounded to values that bfloat16 and float16 both hold, so the safetensors (float32) and the GGUF (float16)
of a golden are the same model.

Needs: torch, transformers, safetensors, gguf, numpy.  Run: python tools/make_golden/make_llm_<family>.py
"""

import json
import pathlib
import platform

import gguf
import numpy as np
import safetensors.torch
import torch
import transformers

GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "llm"
VOCAB = 199
PROMPT_TOKENS = 37
PREFIXES = (1, 15, 16, 17)  # one token, a page of 16 and one token around it


def randomise(model, seed):
    """Fills every parameter so that no layer is close to the identity and no norm weight is one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.ndim == 1:
                centre = 1.0 if "norm" in name and not is_offset_norm(model) else 0.0
                value = centre + 0.3 * noise
            elif "embed_tokens" in name or "lm_head" in name:
                value = 0.5 * noise
            else:
                value = noise * (1.5 / parameter.shape[1] ** 0.5)
            parameter.copy_(round_to_half(value))


def is_offset_norm(model):
    return model.config.model_type.startswith("gemma")


def round_to_half(value):
    """Numbers that float32, bfloat16 and float16 hold alike."""
    value = torch.where(value.abs() < 2.0**-14, torch.zeros_like(value), value).bfloat16().float()
    assert torch.equal(value, value.half().float())
    return value


def reference(model, tokens):
    """Named intermediates of one prompt, as the parity test names them."""
    seen = {}

    def keep(name):
        def hook(_module, _inputs, output):
            seen[name] = (output[0] if isinstance(output, tuple) else output)[0].detach().clone()

        return hook

    handles = [model.model.embed_tokens.register_forward_hook(keep("embeddings"))]
    for index, layer in enumerate(model.model.layers):
        handles.append(layer.register_forward_hook(keep(f"layers.{index}")))
    handles.append(model.model.norm.register_forward_hook(keep("norm")))
    with torch.no_grad():
        seen["logits"] = model(input_ids=tokens[None], use_cache=False).logits[0].clone()
    for handle in handles:
        handle.remove()
    return seen


def prompt(seed):
    return torch.randint(0, VOCAB, (PROMPT_TOKENS,), generator=torch.Generator().manual_seed(seed))


def expectation(model, seed):
    model = model.float().eval()
    model.config._attn_implementation = "eager"
    tokens = prompt(seed + 1)
    expect = reference(model, tokens)
    for count in PREFIXES:
        for name, value in reference(model, tokens[:count]).items():
            torch.testing.assert_close(value, expect[name][:count], atol=2e-5, rtol=2e-5)
    expect = {name: value.float().contiguous() for name, value in expect.items()}
    expect["tokens"] = tokens.int()
    return expect


def write_origin(folder, script, seed, text):
    (folder / "ORIGIN").write_text(
        f"made by    tools/make_golden/{script}\n"
        f"seed       {seed}\n"
        f"reference  transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, "
        f"gguf package {gguf_version()}, Python {platform.python_version()}, float32, eager attention\n"
        f"what       {text}\n"
    )


def gguf_version():
    import importlib.metadata

    return importlib.metadata.version("gguf")


def save_golden(name, model, seed, script, text, shard_size="1GB", edit_config=None, saved=None):
    """`saved`: the checkpoint's model where that is more than the model whose numbers are expected."""
    folder = GOLDEN / name
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    expect = expectation(model, seed)
    (saved or model).save_pretrained(folder, max_shard_size=shard_size)
    config = json.loads((folder / "config.json").read_text())
    config.pop("transformers_version", None)
    if edit_config:
        edit_config(config)
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    generation = folder / "generation_config.json"
    generation.write_text(json.dumps({"eos_token_id": config["eos_token_id"]}) + "\n")
    safetensors.torch.save_file(expect, folder / "expect.safetensors")
    for file in folder.iterdir():
        file.chmod(0o644)
    write_origin(folder, script, seed, text)
    return folder


class GgufFile:
    """Writes a GGUF with the metadata and the tensor names that converters use."""

    def __init__(self, path, arch, config):
        self.writer = gguf.GGUFWriter(path, arch)
        self.writer.add_block_count(config.num_hidden_layers)
        self.writer.add_context_length(config.max_position_embeddings)
        self.writer.add_embedding_length(config.hidden_size)
        self.writer.add_feed_forward_length(config.intermediate_size)
        self.writer.add_head_count(config.num_attention_heads)
        self.writer.add_head_count_kv(config.num_key_value_heads)
        self.writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        self.writer.add_key_length(config.head_dim)
        self.writer.add_value_length(config.head_dim)
        self.writer.add_vocab_size(config.vocab_size)
        self.writer.add_eos_token_id(2)
        self.writer.add_bos_token_id(1)

    def add(self, name, value, quantization=None):
        value = np.ascontiguousarray(value.detach().float().numpy())
        if quantization is not None:
            self.writer.add_tensor(name, gguf.quants.quantize(value, quantization), raw_dtype=quantization)
        elif value.ndim == 1:
            self.writer.add_tensor(name, value)
        else:
            self.writer.add_tensor(name, value.astype(np.float16))

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


# Hugging Face leaf to GGUF leaf inside a block, and the names outside the blocks.
BLOCK_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
OUTER_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name, block_names=BLOCK_NAMES):
    module, leaf = name.rsplit(".", 1)
    if module in OUTER_NAMES:
        return f"{OUTER_NAMES[module]}.{leaf}"
    _, _, index, rest = module.split(".", 3)
    return f"blk.{index}.{block_names[rest]}.{leaf}"


def interleave_rows(value, heads):
    """llama's q and k rows in GGUF: the two halves of each head are interleaved, because GGUF's llama rotates pairs of
    neighbours."""
    head_dim = value.shape[0] // heads
    return value.reshape(heads, 2, head_dim // 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def deinterleave_rows(value, heads):
    head_dim = value.shape[0] // heads
    return value.reshape(heads, head_dim // 2, 2, *value.shape[1:]).swapaxes(1, 2).reshape(value.shape)


def load_gguf(model, path, block_names=BLOCK_NAMES, interleaved=False, norm_offset=0.0):
    """Fills a reference model with the dequantized weights of a GGUF; every parameter must be in the file."""
    tensors = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}
    heads = {"q_proj": model.config.num_attention_heads, "k_proj": model.config.num_key_value_heads}
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = tensors[gguf_name(name, block_names)]
            value = torch.from_numpy(gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
            if interleaved and name.split(".")[-2] in heads:
                value = deinterleave_rows(value, heads[name.split(".")[-2]])
            if "norm" in name:
                value = value - norm_offset
            parameter.copy_(value.reshape(parameter.shape))
