//! Tokenizers behind the border: encoding with and without control tokens, decoding, lookups.

use std::collections::HashMap;

use tokenizers::tokenizer::{
    Model, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Token,
    Tokenizer,
};
use tokenizers::{Encoding, NormalizedString};

use crate::bpe_files;
use crate::buffer::{slice, PomeBuffer, PomeText, PomeTokens};
use crate::gguf::{self, PomeGgufVocabulary};
use crate::pieces::{PieceRule, KIND_NONE};
use crate::status::{guard, OK};

pub struct PomeTokenizer {
    inner: Tokenizer,
    rule: PieceRule,
    /// Ids whose token also has another id; the tokenizer proper knows each text once.
    duplicates: HashMap<u32, String>,
    vocab_tokens: usize,
    specials: Vec<i32>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct PomeSpan {
    begin: usize,
    end: usize,
}

impl PomeTokenizer {
    fn new(
        mut inner: Tokenizer,
        duplicates: HashMap<u32, String>,
        vocab_tokens: usize,
    ) -> Result<Self, String> {
        // A tokenizer.json may carry the limits of its training; a server cuts and pads nothing.
        inner.with_truncation(None).map_err(|e| e.to_string())?;
        inner.with_padding(None);
        let decoder = serde_json::to_value(inner.get_decoder()).map_err(|e| e.to_string())?;
        let rule = PieceRule::from_decoder(&decoder)?;
        let mut specials: Vec<i32> = inner
            .get_added_vocabulary()
            .get_added_tokens_decoder()
            .iter()
            .filter(|(_, token)| token.special)
            .map(|(id, _)| *id as i32)
            .collect();
        specials.sort_unstable();
        Ok(PomeTokenizer { inner, rule, duplicates, vocab_tokens, specials })
    }

    fn from_json(json: &[u8]) -> Result<Self, String> {
        let inner = Tokenizer::from_bytes(json).map_err(|e| e.to_string())?;
        let largest = inner.get_vocab(true).into_values().max();
        let vocab_tokens = largest.map_or(0, |id| id as usize + 1);
        if vocab_tokens == 0 || vocab_tokens > i32::MAX as usize {
            return Err(format!("the vocabulary has {vocab_tokens} ids"));
        }
        Self::new(inner, HashMap::new(), vocab_tokens)
    }

    fn is_special(&self, id: u32) -> bool {
        self.inner
            .get_added_vocabulary()
            .get_added_tokens_decoder()
            .get(&id)
            .is_some_and(|t| t.special)
    }

    fn token(&self, id: u32) -> Option<String> {
        if let Some(text) = self.duplicates.get(&id) {
            return Some(text.clone());
        }
        self.inner.id_to_token(id)
    }

    pub(crate) fn vocab_tokens(&self) -> usize {
        self.vocab_tokens
    }

    /// What the token adds to the decoded bytes, or its own text where it is a control token; and which it is.
    pub(crate) fn token_bytes(&self, id: u32) -> Option<(Vec<u8>, bool)> {
        let text = self.token(id)?;
        if self.specials.binary_search(&(id as i32)).is_ok() {
            return Some((text.into_bytes(), true));
        }
        let (bytes, kind) = self.rule.bytes(&text);
        (kind != KIND_NONE).then_some((bytes, false))
    }

    fn encode(
        &self,
        text: &str,
        literal: &[PomeSpan],
        add_special: bool,
    ) -> Result<Vec<i32>, String> {
        let encoding = if literal.is_empty() {
            self.inner.encode_fast(text, add_special).map_err(|e| e.to_string())?
        } else {
            check_spans(text, literal)?;
            let encoding = self.encode_with_literals(text, literal).map_err(|e| e.to_string())?;
            self.inner.post_process(encoding, None, add_special).map_err(|e| e.to_string())?
        };
        Ok(encoding.get_ids().iter().map(|id| *id as i32).collect())
    }

    /// The steps of the library's own encode, except that control tokens found inside a literal span stay text. The
    /// text around them is split as one, so the ids are those of a tokenizer that does not know that control token.
    fn encode_with_literals(
        &self,
        text: &str,
        literal: &[PomeSpan],
    ) -> tokenizers::Result<Encoding> {
        let added = self.inner.get_added_vocabulary();
        let found = added.extract_and_normalize(self.inner.get_normalizer(), text);
        let mut kept: Vec<(usize, usize, u32)> = Vec::new();
        for (_, (begin, end), tokens) in
            found.get_splits(OffsetReferential::Original, OffsetType::Byte)
        {
            if let Some(id) = tokens.as_ref().and_then(|t| t.first()).map(|t| t.id) {
                if !(self.is_special(id) && overlaps(literal, begin, end)) {
                    kept.push((begin, end, id));
                }
            }
        }
        let mut parts = PreTokenizedString::from(text);
        parts.split(|_, whole| Ok(split_at(&whole, &kept)))?;
        if let Some(normalizer) = self.inner.get_normalizer() {
            parts.normalize(|s| normalizer.normalize(s))?;
        }
        if let Some(pre_tokenizer) = self.inner.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut parts)?;
        }
        parts.tokenize(|s| self.inner.get_model().tokenize(s.get()))?;
        parts.into_encoding(None, 0, OffsetType::None)
    }

    fn decode(&self, ids: &[i32], skip_special: bool, continues: bool) -> String {
        let texts: Vec<String> = ids
            .iter()
            .filter_map(|id| u32::try_from(*id).ok())
            .filter(|id| !(skip_special && self.is_special(*id)))
            .filter_map(|id| self.token(id))
            .collect();
        self.rule.join(texts.iter().map(String::as_str), continues)
    }
}

fn check_spans(text: &str, spans: &[PomeSpan]) -> Result<(), String> {
    let mut last = 0;
    for span in spans {
        if span.begin < last || span.end < span.begin || span.end > text.len() {
            return Err(format!(
                "literal span [{}, {}) is out of order or past the text of {} bytes",
                span.begin,
                span.end,
                text.len()
            ));
        }
        last = span.end;
    }
    Ok(())
}

fn overlaps(spans: &[PomeSpan], begin: usize, end: usize) -> bool {
    let first = spans.partition_point(|span| span.end <= begin);
    spans.get(first).is_some_and(|span| span.begin < end && begin < span.end)
}

fn split_at(
    whole: &NormalizedString,
    kept: &[(usize, usize, u32)],
) -> Vec<(NormalizedString, Option<Vec<Token>>)> {
    use tokenizers::tokenizer::normalizer::Range;
    let length = whole.len_original();
    let part = |begin: usize, end: usize| whole.slice(Range::Original(begin..end));
    let mut parts = Vec::with_capacity(2 * kept.len() + 1);
    let mut at = 0;
    for (begin, end, id) in kept {
        if at < *begin {
            parts.extend(part(at, *begin).map(|p| (p, None)));
        }
        if let Some(p) = part(*begin, *end) {
            let text = p.get().to_string();
            let bytes = text.len();
            parts.push((p, Some(vec![Token::new(*id, text, (0, bytes))])));
        }
        at = *end;
    }
    if at < length {
        parts.extend(part(at, length).map(|p| (p, None)));
    }
    parts
}

unsafe fn make(
    out: *mut *mut PomeTokenizer,
    error: *mut PomeBuffer,
    build: impl FnOnce() -> Result<PomeTokenizer, String>,
) -> i32 {
    guard(error, || {
        let made = Box::new(build()?);
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = Box::into_raw(made);
        Ok(())
    })
}

/// # Safety
/// As src/bridge/pome_bridge.h says; so for every function below.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_from_json(
    json: PomeText,
    out: *mut *mut PomeTokenizer,
    error: *mut PomeBuffer,
) -> i32 {
    make(out, error, || PomeTokenizer::from_json(json.bytes()))
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_from_gguf(
    vocabulary: *const PomeGgufVocabulary,
    out: *mut *mut PomeTokenizer,
    error: *mut PomeBuffer,
) -> i32 {
    make(out, error, || {
        let vocabulary = vocabulary.as_ref().ok_or("no vocabulary")?;
        let built = gguf::build(&gguf::Vocabulary::read(vocabulary)?)?;
        PomeTokenizer::new(built.tokenizer, built.duplicates, built.token_count)
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_from_bpe_files(
    vocab_json: PomeText,
    merges: PomeText,
    config_json: PomeText,
    added_json: PomeText,
    out: *mut *mut PomeTokenizer,
    error: *mut PomeBuffer,
) -> i32 {
    make(out, error, || {
        let built = bpe_files::build(
            vocab_json.text("vocab.json")?,
            merges.text("merges.txt")?,
            config_json.text("tokenizer_config.json")?,
            added_json.text("added_tokens.json")?,
        )?;
        PomeTokenizer::new(built.tokenizer, built.duplicates, built.token_count)
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_free(tokenizer: *mut PomeTokenizer) {
    guard(std::ptr::null_mut(), || {
        if !tokenizer.is_null() {
            drop(Box::from_raw(tokenizer));
        }
        Ok(())
    });
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_encode(
    tokenizer: *const PomeTokenizer,
    text: PomeText,
    literal: *const PomeSpan,
    literal_count: usize,
    add_special: i32,
    out: *mut PomeTokens,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        let text = text.text("the text")?;
        let ids = tokenizer.encode(text, slice(literal, literal_count), add_special != 0)?;
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = PomeTokens::from_vec(ids);
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_decode(
    tokenizer: *const PomeTokenizer,
    tokens: *const i32,
    count: usize,
    skip_special: i32,
    continues: i32,
    out: *mut PomeBuffer,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        let text = tokenizer.decode(slice(tokens, count), skip_special != 0, continues != 0);
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = PomeBuffer::from_vec(text.into_bytes());
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_vocab_tokens(tokenizer: *const PomeTokenizer) -> usize {
    tokenizer.as_ref().map_or(0, |t| t.vocab_tokens)
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_token_id(
    tokenizer: *const PomeTokenizer,
    piece: PomeText,
) -> i32 {
    let mut found = -1;
    guard(std::ptr::null_mut(), || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        if let Some(id) = tokenizer.inner.token_to_id(piece.text("the piece")?) {
            found = id as i32;
        }
        Ok(())
    });
    found
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_piece(
    tokenizer: *const PomeTokenizer,
    token: i32,
    out: *mut PomeBuffer,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        let id = u32::try_from(token).map_err(|_| format!("token {token} is negative"))?;
        let text = tokenizer.token(id).ok_or_else(|| format!("no token has the id {token}"))?;
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = PomeBuffer::from_vec(text.into_bytes());
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_is_special(
    tokenizer: *const PomeTokenizer,
    token: i32,
) -> i32 {
    let special = |t: &PomeTokenizer| t.specials.binary_search(&token).is_ok();
    i32::from(tokenizer.as_ref().is_some_and(special))
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_special_tokens(
    tokenizer: *const PomeTokenizer,
    out: *mut PomeTokens,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = PomeTokens::from_vec(tokenizer.specials.clone());
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_piece_bytes(
    tokenizer: *const PomeTokenizer,
    token: i32,
    scratch: *mut u8,
    room: usize,
    kind: *mut i32,
) -> usize {
    let (mut bytes, mut found) = (Vec::new(), KIND_NONE);
    let code = guard(std::ptr::null_mut(), || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        let text = u32::try_from(token).ok().and_then(|id| tokenizer.token(id));
        if let Some(text) = text {
            (bytes, found) = tokenizer.rule.bytes(&text);
        }
        Ok(())
    });
    if !kind.is_null() {
        *kind = if code == OK { found } else { KIND_NONE };
    }
    if !scratch.is_null() && bytes.len() <= room {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), scratch, bytes.len());
    }
    bytes.len()
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_tokenizer_strip_start(tokenizer: *const PomeTokenizer) -> usize {
    tokenizer.as_ref().map_or(0, |t| t.rule.strip_start())
}
