//! Byte-pair tokenizers from a vocabulary and merges, wherever those come from.

use std::collections::HashMap;

use serde_json::{json, Value};
use tokenizers::models::bpe::{Vocab, BPE};
use tokenizers::{DecoderWrapper, NormalizerWrapper, PreTokenizerWrapper, Tokenizer};

use crate::splits::Split;

pub struct Built {
    pub tokenizer: Tokenizer,
    pub duplicates: HashMap<u32, String>,
    pub token_count: usize,
}

/// Byte-level BPE that cuts text as `split` says. `prefix`: a space goes before a text that begins without one.
pub fn byte_level<'a>(
    split: &Split,
    map: Vocab,
    merges: impl Iterator<Item = &'a str>,
    prefix: bool,
) -> Result<Tokenizer, String> {
    let merges = checked_merges(merges, &map)?;
    let model = BPE::builder()
        .vocab_and_merges(map, merges)
        .ignore_merges(split.whole_words)
        .build()
        .map_err(|e| e.to_string())?;
    let mut tokenizer = Tokenizer::new(model);
    if split.compose {
        set_normalizer(&mut tokenizer, json!({"type": "NFC"}))?;
    }
    tokenizer.with_pre_tokenizer(Some(part::<PreTokenizerWrapper>(pre_tokenizer(split, prefix))?));
    tokenizer.with_decoder(Some(part::<DecoderWrapper>(byte_level_step(false, false))?));
    Ok(tokenizer)
}

/// "left right"; a token may itself begin with a space.
fn split_merge(merge: &str) -> Option<(&str, &str)> {
    let first = merge.chars().next()?.len_utf8();
    let at = first + merge[first..].find(' ')?;
    let (left, right) = (&merge[..at], &merge[at + 1..]);
    (!right.is_empty()).then_some((left, right))
}

fn byte_level_step(use_regex: bool, prefix: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": false, "use_regex": use_regex})
}

fn pre_tokenizer(split: &Split, prefix: bool) -> Value {
    let mut steps = Vec::new();
    if split.single_digits {
        steps.push(json!({"type": "Digits", "individual_digits": true}));
    }
    for pattern in split.patterns {
        steps.push(json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false}));
    }
    // Without patterns of its own the split is GPT-2's, which the byte-level step brings.
    steps.push(byte_level_step(split.patterns.is_empty(), prefix));
    json!({"type": "Sequence", "pretokenizers": steps})
}

/// Merges as pairs whose parts and results are all tokens.
pub fn checked_merges<'a>(
    given: impl Iterator<Item = &'a str>,
    map: &Vocab,
) -> Result<Vec<(String, String)>, String> {
    let mut merges = Vec::new();
    for (index, merge) in given.enumerate() {
        let (left, right) = split_merge(merge)
            .ok_or_else(|| format!("merge {index} {merge:?} is not two tokens"))?;
        for part in [left, right, &format!("{left}{right}")] {
            if !map.contains_key(part) {
                return Err(format!("merge {index} {merge:?}: {part:?} is not in the vocabulary"));
            }
        }
        merges.push((left.to_string(), right.to_string()));
    }
    Ok(merges)
}

pub fn set_normalizer(tokenizer: &mut Tokenizer, normalizer: Value) -> Result<(), String> {
    let normalizer = part::<NormalizerWrapper>(normalizer)?;
    tokenizer.with_normalizer(Some(normalizer)).map(|_| ()).map_err(|e| e.to_string())
}

/// A part of a tokenizer from the object that tokenizer.json would hold.
pub fn part<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|e| e.to_string())
}
