//! A tokenizer from what a GGUF file says of it: the vocabulary, merges or scores, token types, and the name of a
//! pre-tokenizer whose regular expressions the file does not carry.

use std::collections::HashMap;

use serde_json::{json, Value};
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::{AddedToken, DecoderWrapper, PostProcessorWrapper, Tokenizer};

use crate::bpe::{byte_level, checked_merges, part, set_normalizer, Built};
use crate::buffer::{slice, PomeText};
use crate::splits;

#[repr(C)]
pub struct PomeGgufVocabulary {
    model: PomeText,
    pre: PomeText,
    tokens: *const PomeText,
    token_count: usize,
    scores: *const f32,
    score_count: usize,
    types: *const i32,
    type_count: usize,
    merges: *const PomeText,
    merge_count: usize,
    bos: i32,
    eos: i32,
    unknown: i32,
    add_bos: i32,
    add_eos: i32,
    add_space_prefix: i32,
}

const NORMAL: i32 = 1;
const UNKNOWN: i32 = 2;
const CONTROL: i32 = 3;
const USER_DEFINED: i32 = 4;

/// The same, checked: texts are UTF-8, arrays fit each other, ids lie in the vocabulary.
pub struct Vocabulary<'a> {
    model: &'a str,
    pre: &'a str,
    tokens: Vec<&'a str>,
    scores: &'a [f32],
    types: &'a [i32],
    merges: Vec<&'a str>,
    bos: Option<u32>,
    eos: Option<u32>,
    unknown: Option<u32>,
    add_bos: Option<bool>,
    add_eos: Option<bool>,
    add_space_prefix: Option<bool>,
}

impl<'a> Vocabulary<'a> {
    /// # Safety
    /// The pointers of `v` hold for 'a.
    pub unsafe fn read(v: &'a PomeGgufVocabulary) -> Result<Self, String> {
        let texts = |data, count, what: &str| -> Result<Vec<&'a str>, String> {
            slice::<PomeText>(data, count)
                .iter()
                .enumerate()
                .map(|(i, t)| t.text(&format!("{what} {i}")))
                .collect()
        };
        let tokens = texts(v.tokens, v.token_count, "token")?;
        if tokens.is_empty() || tokens.len() > i32::MAX as usize {
            return Err(format!("the vocabulary has {} tokens", tokens.len()));
        }
        let fits = |count: usize, what: &str| match count {
            0 => Ok(()),
            n if n == tokens.len() => Ok(()),
            n => Err(format!("{n} {what} for {} tokens", tokens.len())),
        };
        fits(v.score_count, "scores")?;
        fits(v.type_count, "token types")?;
        let id = |value: i32, what: &str| match value {
            -1 => Ok(None),
            n if n >= 0 && (n as usize) < tokens.len() => Ok(Some(n as u32)),
            n => Err(format!("{what} is {n}, outside the vocabulary of {} tokens", tokens.len())),
        };
        let flag = |value: i32| (value >= 0).then_some(value != 0);
        Ok(Vocabulary {
            model: v.model.text("the tokenizer model")?,
            pre: v.pre.text("the pre-tokenizer")?,
            scores: slice(v.scores, v.score_count),
            types: slice(v.types, v.type_count),
            merges: texts(v.merges, v.merge_count, "merge")?,
            bos: id(v.bos, "bos_token_id")?,
            eos: id(v.eos, "eos_token_id")?,
            unknown: id(v.unknown, "unknown_token_id")?,
            add_bos: flag(v.add_bos),
            add_eos: flag(v.add_eos),
            add_space_prefix: flag(v.add_space_prefix),
            tokens,
        })
    }

    fn kind(&self, id: usize) -> i32 {
        self.types.get(id).copied().unwrap_or(NORMAL)
    }
}

pub fn build(v: &Vocabulary) -> Result<Built, String> {
    match v.model {
        "gpt2" => byte_level_vocabulary(v),
        "llama" => sentence_piece(v),
        other => Err(format!(
            "tokenizer.ggml.model is {other:?}; \"gpt2\" (byte-level BPE) and \"llama\" (SentencePiece) are supported. \
             A Hugging Face folder with a tokenizer.json works for other kinds"
        )),
    }
}

/// Token texts to ids. The first of equal texts keeps the text; the others get a name that no text can produce.
fn vocabulary_map(texts: &[String]) -> (Vocab, HashMap<u32, String>) {
    let mut map = Vocab::default();
    let mut duplicates = HashMap::new();
    for (id, text) in texts.iter().enumerate() {
        let id = id as u32;
        if map.contains_key(text.as_str()) {
            duplicates.insert(id, text.clone());
            map.insert(format!("\u{FFFE}duplicate {id}"), id);
        } else {
            map.insert(text.clone(), id);
        }
    }
    (map, duplicates)
}

fn byte_level_vocabulary(v: &Vocabulary) -> Result<Built, String> {
    let split = splits::find(v.pre)?;
    let texts: Vec<String> = v.tokens.iter().map(|t| t.to_string()).collect();
    let (map, duplicates) = vocabulary_map(&texts);
    let mut tokenizer = byte_level(split, map, v.merges.iter().copied(), false)?;
    add_tokens(&mut tokenizer, v, &texts, &duplicates)?;
    add_post_processor(&mut tokenizer, v, &texts, split.adds_bos)?;
    Ok(Built { tokenizer, duplicates, token_count: texts.len() })
}

fn sentence_piece(v: &Vocabulary) -> Result<Built, String> {
    if v.scores.is_empty() && v.merges.is_empty() {
        return Err("a \"llama\" vocabulary needs tokenizer.ggml.scores or merges".to_string());
    }
    if let Some(index) = v.scores.iter().position(|s| s.is_nan()) {
        return Err(format!("the score of token {index} is not a number"));
    }
    // Files write runs of spaces as spaces; in the vocabulary they are runs of U+2581.
    let spell = |id: usize, token: &str| {
        if is_blank(v.kind(id), token) {
            token.replace(' ', "\u{2581}")
        } else {
            token.to_string()
        }
    };
    let texts: Vec<String> = v.tokens.iter().enumerate().map(|(id, t)| spell(id, t)).collect();
    let (map, duplicates) = vocabulary_map(&texts);
    let merges = if v.merges.is_empty() {
        merges_from_scores(v, &texts, &map)
    } else {
        checked_merges(v.merges.iter().copied(), &map)?
    };
    let mut builder =
        BPE::builder().vocab_and_merges(map, merges).fuse_unk(true).byte_fallback(true);
    if let Some(unknown) = v.unknown {
        builder = builder.unk_token(texts[unknown as usize].clone());
    }
    let mut tokenizer = Tokenizer::new(builder.build().map_err(|e| e.to_string())?);
    let prefix = v.add_space_prefix.unwrap_or(true);
    let to_mark = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let mut decoder = vec![
        json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    if prefix {
        let prepend = json!({"type": "Prepend", "prepend": "\u{2581}"});
        set_normalizer(
            &mut tokenizer,
            json!({"type": "Sequence", "normalizers": [prepend, to_mark]}),
        )?;
        decoder.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    } else {
        set_normalizer(&mut tokenizer, to_mark)?;
    }
    let decoder = json!({"type": "Sequence", "decoders": decoder});
    tokenizer.with_decoder(Some(part::<DecoderWrapper>(decoder)?));
    add_tokens(&mut tokenizer, v, &texts, &duplicates)?;
    add_post_processor(&mut tokenizer, v, &texts, true)?;
    Ok(Built { tokenizer, duplicates, token_count: texts.len() })
}

/// SentencePiece merges the adjacent pair whose result has the best score; as ranks: every split of every ordinary
/// token into two tokens, best score first, then lower id, then the longer left part. Only ordinary tokens come out of
/// merges: no text may spell a control token.
fn merges_from_scores(v: &Vocabulary, texts: &[String], map: &Vocab) -> Vec<(String, String)> {
    let mut ranked: Vec<u32> =
        (0..texts.len() as u32).filter(|id| v.kind(*id as usize) == NORMAL).collect();
    ranked.sort_by(|a, b| v.scores[*b as usize].total_cmp(&v.scores[*a as usize]).then(a.cmp(b)));
    let mut merges = Vec::new();
    for id in ranked {
        let text = texts[id as usize].as_str();
        if map.get(text) != Some(&id) {
            continue;
        }
        for (at, _) in text.char_indices().skip(1).collect::<Vec<_>>().into_iter().rev() {
            let (left, right) = text.split_at(at);
            if is_normal(v, map, left) && is_normal(v, map, right) {
                merges.push((left.to_string(), right.to_string()));
            }
        }
    }
    merges
}

fn is_normal(v: &Vocabulary, map: &Vocab, text: &str) -> bool {
    map.get(text).is_some_and(|id| v.kind(*id as usize) == NORMAL)
}

fn is_blank(kind: i32, token: &str) -> bool {
    kind == USER_DEFINED && !token.is_empty() && token.chars().all(|c| c == ' ' || c == '\u{2581}')
}

/// Control tokens are special; user-defined ones are matched whole but are text like any other. Runs of spaces
/// are looked for after spaces have become U+2581, the others in the text as it was written.
fn add_tokens(
    tokenizer: &mut Tokenizer,
    v: &Vocabulary,
    texts: &[String],
    duplicates: &HashMap<u32, String>,
) -> Result<(), String> {
    let mut added = Vec::new();
    for (id, text) in texts.iter().enumerate() {
        let kind = v.kind(id);
        let control = kind == CONTROL || (kind == UNKNOWN && v.unknown == Some(id as u32));
        if (control || kind == USER_DEFINED)
            && !text.is_empty()
            && !duplicates.contains_key(&(id as u32))
        {
            added.push(
                AddedToken::from(text.clone(), control)
                    .normalized(v.model == "llama" && is_blank(kind, text)),
            );
        }
    }
    if !added.is_empty() {
        tokenizer.add_tokens(added).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn add_post_processor(
    tokenizer: &mut Tokenizer,
    v: &Vocabulary,
    texts: &[String],
    habit: bool,
) -> Result<(), String> {
    let wanted = |flag: Option<bool>, habit: bool, id: Option<u32>, name: &str| match (flag, id) {
        (Some(true), None) => {
            Err(format!("add_{name}_token is set but there is no {name}_token_id"))
        }
        (flag, id) => Ok(id.filter(|_| flag.unwrap_or(habit))),
    };
    let bos = wanted(v.add_bos, habit, v.bos, "bos")?;
    let eos = wanted(v.add_eos, false, v.eos, "eos")?;
    if bos.is_none() && eos.is_none() {
        return Ok(());
    }
    let special = |id: &u32| json!({"SpecialToken": {"id": texts[*id as usize], "type_id": 0}});
    let mut single: Vec<Value> = bos.iter().map(special).collect();
    single.push(json!({"Sequence": {"id": "A", "type_id": 0}}));
    single.extend(eos.iter().map(special));
    let mut table = serde_json::Map::new();
    for id in bos.iter().chain(eos.iter()) {
        let text = &texts[*id as usize];
        table.insert(text.clone(), json!({"id": text, "ids": [id], "tokens": [text]}));
    }
    let pair = [
        json!({"Sequence": {"id": "A", "type_id": 0}}),
        json!({"Sequence": {"id": "B", "type_id": 1}}),
    ];
    let processor = json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": table});
    tokenizer.with_post_processor(Some(part::<PostProcessorWrapper>(processor)?));
    Ok(())
}
