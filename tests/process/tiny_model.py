"""A model with random weights and a byte tokenizer, small enough to answer in milliseconds."""
import json
import pathlib

GOLDEN = pathlib.Path(__file__).parents[1] / "golden/llm/qwen3"
TEMPLATE = ("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
            "{% if add_generation_prompt %}assistant: {% endif %}")


def byte_letters() -> list[str]:
    """The letters of byte-level BPE for bytes 0 to 255."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {b: chr(b) for b in shown}
    for b in range(256):
        letters.setdefault(b, chr(256 + sum(1 for x in range(b) if x not in shown)))
    return [letters[b] for b in range(256)]


def tokenizer(vocabulary_size: int) -> bytes:
    """Byte-level BPE without merges: one token a byte, as many as the model's vocabulary holds beside <eos>."""
    specials = ["<pad>", "<bos>", "<unk>", "<eos>"]  # the tiny model's eos_token_id is 3
    pieces = specials + byte_letters()[:vocabulary_size - len(specials)]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "post_processor": None,
        "added_tokens": [{"id": i, "content": s, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, s in enumerate(specials)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "decoder": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {piece: i for i, piece in enumerate(pieces)}, "merges": []}}).encode()


def files() -> dict[str, bytes]:
    """The model's folder: file name -> bytes."""
    config = json.loads((GOLDEN / "config.json").read_text())
    return {"config.json": (GOLDEN / "config.json").read_bytes(),
            "generation_config.json": (GOLDEN / "generation_config.json").read_bytes(),
            "model.safetensors": (GOLDEN / "model.safetensors").read_bytes(),
            "tokenizer.json": tokenizer(config["vocab_size"]),
            "tokenizer_config.json": json.dumps({"eos_token": "<eos>", "chat_template": TEMPLATE}).encode()}


def write_to(folder: pathlib.Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files().items():
        (folder / name).write_bytes(content)
