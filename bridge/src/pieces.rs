//! How single tokens appear in decoded text. Each token's bytes are independent of its neighbours, which is what makes
//! streaming exact: the whole decode and the stream add up the same bytes.

use serde_json::Value;

pub const KIND_TEXT: i32 = 0;
pub const KIND_BYTE_FALLBACK: i32 = 1;
pub const KIND_NONE: i32 = 2;

/// The decoders that language models use, as far as they act token by token.
#[derive(Debug, PartialEq)]
pub enum PieceRule {
    /// GPT-2's byte alphabet: each character stands for a byte.
    ByteLevel,
    /// SentencePiece: replacements, "<0xNN>" bytes, and spaces dropped at the start of the whole text.
    Sentence { replacements: Vec<(String, String)>, byte_fallback: bool, strip_start: usize },
}

impl PieceRule {
    /// From a tokenizer's serialized decoder; a decoder that is not token by token is refused by name.
    pub fn from_decoder(decoder: &Value) -> Result<Self, String> {
        let steps: Vec<&Value> = match decoder["type"].as_str() {
            Some("Sequence") => {
                decoder["decoders"].as_array().map(|a| a.iter().collect()).unwrap_or_default()
            }
            Some(_) => vec![decoder],
            None => return Err("the tokenizer has no decoder".to_string()),
        };
        if steps.len() == 1 && steps[0]["type"] == "ByteLevel" {
            return Ok(PieceRule::ByteLevel);
        }
        let mut rule = SentenceSteps::default();
        for step in steps {
            rule.add(step)?;
        }
        Ok(PieceRule::Sentence {
            replacements: rule.replacements,
            byte_fallback: rule.byte_fallback,
            strip_start: rule.strip_start,
        })
    }

    pub fn strip_start(&self) -> usize {
        match self {
            PieceRule::ByteLevel => 0,
            PieceRule::Sentence { strip_start, .. } => *strip_start,
        }
    }

    /// The bytes of a token and their kind.
    pub fn bytes(&self, token: &str) -> (Vec<u8>, i32) {
        match self {
            PieceRule::ByteLevel => {
                let bytes: Option<Vec<u8>> = token.chars().map(byte_of_char).collect();
                (bytes.unwrap_or_else(|| token.as_bytes().to_vec()), KIND_TEXT)
            }
            PieceRule::Sentence { replacements, byte_fallback, .. } => {
                if *byte_fallback {
                    if let Some(byte) = fallback_byte(token) {
                        return (vec![byte], KIND_BYTE_FALLBACK);
                    }
                }
                let mut text = token.to_string();
                for (from, to) in replacements {
                    text = text.replace(from.as_str(), to);
                }
                (text.into_bytes(), KIND_TEXT)
            }
        }
    }

    /// Joins the bytes of tokens to text. `continues`: nothing is stripped at the start.
    pub fn join<'a>(&self, tokens: impl Iterator<Item = &'a str>, continues: bool) -> String {
        let mut out = String::new();
        let mut run: Vec<u8> = Vec::new();
        let mut run_kind = KIND_TEXT;
        for token in tokens {
            let (bytes, kind) = self.bytes(token);
            if kind != run_kind {
                flush(&mut run, run_kind, &mut out);
                run_kind = kind;
            }
            run.extend_from_slice(&bytes);
        }
        flush(&mut run, run_kind, &mut out);
        let strip = if continues { 0 } else { self.strip_start() };
        let spaces = out.bytes().take(strip).take_while(|b| *b == b' ').count();
        out.drain(..spaces);
        out
    }
}

/// Shows a run of bytes as text: text runs as the reference does (one U+FFFD for each maximal invalid sequence),
/// byte-fallback runs with one U+FFFD for each byte that makes no character.
fn flush(run: &mut Vec<u8>, kind: i32, out: &mut String) {
    for chunk in run.utf8_chunks() {
        out.push_str(chunk.valid());
        let marks = match (chunk.invalid().len(), kind) {
            (n, KIND_BYTE_FALLBACK) => n,
            (n, _) => n.min(1),
        };
        out.extend(std::iter::repeat_n('\u{FFFD}', marks));
    }
    run.clear();
}

#[derive(Default)]
struct SentenceSteps {
    replacements: Vec<(String, String)>,
    byte_fallback: bool,
    fused: bool,
    strip_start: usize,
}

impl SentenceSteps {
    fn add(&mut self, step: &Value) -> Result<(), String> {
        let kind = step["type"].as_str().unwrap_or("nothing");
        match kind {
            "Replace" => match (step["pattern"]["String"].as_str(), step["content"].as_str()) {
                (Some(from), Some(to)) if !from.is_empty() => {
                    self.replacements.push((from.to_string(), to.to_string()));
                    Ok(())
                }
                _ => Err("the tokenizer's decoder replaces a regular expression; only fixed strings can be \
                          streamed"
                    .to_string()),
            },
            "ByteFallback" => {
                self.byte_fallback = true;
                Ok(())
            }
            "Fuse" => {
                self.fused = true;
                Ok(())
            }
            "Strip" if self.fused && step["content"] == " " && step["stop"] == 0 => {
                self.strip_start = step["start"].as_u64().unwrap_or(0) as usize;
                Ok(())
            }
            "Metaspace" => {
                let mark = step["replacement"].as_str().unwrap_or("\u{2581}").to_string();
                self.replacements.push((mark, " ".to_string()));
                self.strip_start = usize::from(step["prepend_scheme"] != "never");
                Ok(())
            }
            _ => Err(format!(
                "the tokenizer's decoder has the step {kind} {step}; ByteLevel, or a sequence of Replace, \
                 ByteFallback, Fuse, Strip (of leading spaces, after Fuse) and Metaspace can be streamed"
            )),
        }
    }
}

/// "<0x0A>" is the byte 10.
fn fallback_byte(token: &str) -> Option<u8> {
    let digits = token.strip_prefix("<0x")?.strip_suffix('>')?;
    (digits.len() == 2).then(|| u8::from_str_radix(digits, 16).ok())?
}

/// The inverse of GPT-2's byte alphabet: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and up.
fn byte_of_char(c: char) -> Option<u8> {
    let stands_for_itself = |b: u32| matches!(b, 0x21..=0x7E | 0xA1..=0xAC | 0xAE..=0xFF);
    let code = c as u32;
    if stands_for_itself(code) {
        return Some(code as u8);
    }
    let index = code.checked_sub(0x100)? as usize;
    (0u32..256).filter(|b| !stands_for_itself(*b)).nth(index).map(|b| b as u8)
}
