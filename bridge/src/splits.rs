//! The pre-tokenizers that GGUF files name: how text is cut before byte pairs are merged. The expressions are those of
//! the models' own tokenizer.json; each row lists the names under which converters write it.

pub struct Split {
    pub names: &'static [&'static str],
    /// Applied one after the other; none: GPT-2's own expression.
    pub patterns: &'static [&'static str],
    /// Each digit is cut off before anything else.
    pub single_digits: bool,
    /// Text is composed (NFC) first.
    pub compose: bool,
    /// A cut that is a token is taken whole, without merging.
    pub whole_words: bool,
    /// BOS goes before a raw prompt unless the file says otherwise.
    pub adds_bos: bool,
}

const PLAIN: Split = Split {
    names: &[],
    patterns: &[],
    single_digits: false,
    compose: false,
    whole_words: false,
    adds_bos: false,
};

const LLAMA_3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN_35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"##,
    "|[^\r\n",
    r"\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+",
    "[\r\n]*",
    r"|\s*",
    "[\r\n]+",
    r"|\s+(?!\S)|\s+"
);
const GPT_4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT_2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";

const SPLITS: &[Split] = &[
    Split { names: &["gpt-2", "phi-2", "mpt", "olmo", "jais"], ..PLAIN },
    Split {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell"],
        single_digits: true,
        ..PLAIN
    },
    Split {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "lfm2"],
        patterns: &[LLAMA_3],
        whole_words: true,
        adds_bos: true,
        ..PLAIN
    },
    Split { names: &["dbrx", "smaug-bpe"], patterns: &[LLAMA_3], ..PLAIN },
    Split { names: &["glm4", "chatglm-bpe"], patterns: &[LLAMA_3], whole_words: true, ..PLAIN },
    Split {
        names: &["qwen2", "deepseek-r1-qwen", "megrez", "hunyuan"],
        patterns: &[QWEN_2],
        compose: true,
        ..PLAIN
    },
    Split { names: &["stablelm2"], patterns: &[QWEN_2], ..PLAIN },
    Split { names: &["qwen35"], patterns: &[QWEN_35], compose: true, ..PLAIN },
    Split {
        names: &["deepseek-v3", "hunyuan-dense"],
        patterns: &[r"\p{N}{1,3}", "[一-龥\u{3040}-ゟ゠-ヿ]+", DEEPSEEK_3],
        ..PLAIN
    },
    Split { names: &["gpt-4o", "llama4", "minimax-m2"], patterns: &[GPT_4O], ..PLAIN },
    Split { names: &["tekken"], patterns: &[TEKKEN], whole_words: true, adds_bos: true, ..PLAIN },
    // What converters wrote before they knew names.
    Split {
        names: &["default"],
        patterns: &[r"[\p{P}\$\+<=>\^~\|]+", GPT_2, r"\p{N}+", r"[0-9][0-9][0-9]"],
        ..PLAIN
    },
];

/// The row of a name; an unknown name is refused with the known ones.
pub fn find(name: &str) -> Result<&'static Split, String> {
    SPLITS.iter().find(|split| split.names.contains(&name)).ok_or_else(|| {
        let known: Vec<&str> =
            SPLITS.iter().flat_map(|split| split.names.iter().copied()).collect();
        format!(
            "tokenizer.ggml.pre is {name:?}, a pre-tokenizer that is not known; known are {}",
            known.join(", ")
        )
    })
}
