"""References for real weights: what the float32 model computes on the dequantized weights of a GGUF, for 200 tokens.

The files are read from ${POME_CACHE:-~/.cache/pome}. For each position expect.safetensors keeps the log probabilities
of the 64 best tokens and of 64 more, drawn from the rest in proportion to their probability. With r = q / p, each term
of KL(p ‖ q) = sum of p (r - 1 - ln r) is positive, so KL is estimated without bias as

    sum over the 64 best of p (r - 1 - ln r)  +  mass of the rest · mean over the drawn of (r - 1 - ln r)

--full FOLDER also writes all log probabilities (float16, 20 to 100 MB), for a person who wants the whole sum.
"""

import argparse
import os
import pathlib

import numpy as np
import safetensors.torch
import torch
import transformers

import llm_common as common
import make_llm_gemma3

SEED = 7
BEST = 64
DRAWN = 64
TOKENS = 200
FOLDER = common.GOLDEN.parent / "llm_real"

TEXT = """The harbour woke before the town did. By five the boats were back, low in the water, and the gulls had begun
their long argument over what would be thrown away. Ana counted crates: forty-one of mackerel, nine of squid, and one
that held nothing but a boot, which somebody had filled with sand. "Whose is this?" she asked. Nobody answered, and
everybody laughed.

Prices that week: mackerel 3.20, squid 7.85, hake 11.40. She wrote them on the board in chalk, rubbed out the 11 and
wrote 12, then looked at the sky.

def total(crates, price):
    return sum(crate.weight * price for crate in crates)

Heute ist das Meer ruhig, aber morgen soll es stürmisch werden. Le phare s'allume à dix-huit heures. In 1987 the old
pier was swept away in a single night, and the three towns on this coast agreed, for the first time since the war, to
build something together: a wall of granite 640 metres long that took eleven years and was finished in the rain."""


def smollm2():
    config = transformers.LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        rms_norm_eps=1e-5,
        max_position_embeddings=8192,
        tie_word_embeddings=True,
        rope_parameters={"rope_theta": 100000.0, "rope_type": "default"},
    )
    return transformers.LlamaForCausalLM(config), {"interleaved": True}


def gemma3():
    config = transformers.Gemma3TextConfig(
        vocab_size=262144,
        hidden_size=640,
        intermediate_size=2048,
        num_hidden_layers=18,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
        query_pre_attn_scalar=256,
        sliding_window=512,
        rms_norm_eps=1e-6,
        max_position_embeddings=32768,
        rope_parameters={
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        },
    )
    return transformers.Gemma3ForCausalLM(config), {"block_names": make_llm_gemma3.BLOCK_NAMES, "norm_offset": 1.0}


MODELS = {
    "smollm2": (smollm2, "smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),
    "gemma3": (gemma3, "gemma3/gemma-3-270m-q4_k_m.gguf"),
}


def compact(log_probs):
    """The 64 best of each position, then 64 drawn from the rest (with repetition)."""
    generator = torch.Generator().manual_seed(SEED)
    best, best_ids = log_probs.topk(BEST, dim=-1)
    rest = log_probs.double().exp().scatter(1, best_ids, 0.0)
    rest_mass = rest.sum(-1)
    drawn_ids = torch.multinomial(rest, DRAWN, replacement=True, generator=generator)
    return {
        "best_ids": best_ids.int(),
        "best_log_probs": best.float(),
        "rest_mass": rest_mass.float(),
        "drawn_ids": drawn_ids.int(),
        "drawn_log_probs": log_probs.gather(1, drawn_ids).float(),
    }


def make(name, full):
    build, file = MODELS[name]
    cache = pathlib.Path(os.environ.get("POME_CACHE", pathlib.Path.home() / ".cache" / "pome"))
    path = cache / file
    if not path.exists():
        print(f"{name}: skipped, {path} is not there")
        return
    model, arguments = build()
    common.load_gguf(model, path, **arguments)
    model = model.float().eval()
    model.config._attn_implementation = "eager"
    tokenizer = transformers.AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    tokens = torch.tensor(tokenizer(TEXT)["input_ids"][:TOKENS])
    assert len(tokens) == TOKENS, len(tokens)
    with torch.no_grad():
        log_probs = model(input_ids=tokens[None], use_cache=False).logits[0].double().log_softmax(-1)
    folder = FOLDER / path.stem
    folder.mkdir(parents=True, exist_ok=True)
    expect = {"tokens": tokens.int(), **compact(log_probs)}
    safetensors.torch.save_file({key: value.contiguous() for key, value in expect.items()}, folder / "expect.safetensors")
    (folder / "expect.safetensors").chmod(0o644)
    common.write_origin(folder, "make_llm_real.py", SEED, f"float32 log probabilities on the dequantized weights of {path.name}")
    loss = -log_probs[:-1].gather(1, tokens[1:, None]).mean()
    print(f"{name}: loss {loss:.4f}, mass outside the best {BEST}: {expect['rest_mass'].mean():.4f}")
    if full:
        np.save(pathlib.Path(full) / f"{name}.npy", log_probs.half().numpy())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", metavar="FOLDER")
    parser.add_argument("models", nargs="*", default=list(MODELS))
    arguments = parser.parse_args()
    for name in arguments.models:
        make(name, arguments.full)


if __name__ == "__main__":
    main()
