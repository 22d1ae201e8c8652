//! A tokenizer from vocab.json and merges.txt, for folders without a tokenizer.json. What those files do not say (how
//! text is split and composed) follows from the class that tokenizer_config.json names, as in the reference.

use std::collections::{BTreeMap, HashMap};

use serde_json::Value;
use tokenizers::{AddedToken, Tokenizer};

use crate::bpe::{byte_level, Built};
use crate::splits;

/// Classes by their names without "Fast", with the row of `splits` that says how they cut text.
const CLASSES: [(&str, &str); 2] = [("Qwen2Tokenizer", "qwen2"), ("GPT2Tokenizer", "gpt-2")];
/// What both classes have as unknown token, whether a configuration says so or not.
const DEFAULT_SPECIAL: &str = "<|endoftext|>";

pub fn build(vocab_json: &str, merges: &str, config_json: &str) -> Result<Built, String> {
    let config: Value =
        serde_json::from_str(config_json).map_err(|e| format!("tokenizer_config.json: {e}"))?;
    let split = splits::find(split_name(&config)?)?;
    let mut vocabulary = read_vocabulary(vocab_json)?;
    let added = added_tokens(&config, &mut vocabulary)?;
    let token_count = check_ids(&vocabulary)?;
    let merges = read_merges(merges);
    let prefix = config["add_prefix_space"].as_bool().unwrap_or(false);
    let mut tokenizer: Tokenizer =
        byte_level(split, vocabulary.into_iter().collect(), merges.into_iter(), prefix)?;
    if !added.is_empty() {
        tokenizer.add_tokens(added).map_err(|e| e.to_string())?;
    }
    Ok(Built { tokenizer, duplicates: HashMap::new(), token_count })
}

fn split_name(config: &Value) -> Result<&'static str, String> {
    let class = config["tokenizer_class"].as_str().unwrap_or("");
    let plain = class.strip_suffix("Fast").unwrap_or(class);
    let found = CLASSES.iter().find(|(name, _)| *name == plain);
    found.map(|(_, split)| *split).ok_or_else(|| {
        let known: Vec<&str> = CLASSES.iter().map(|(name, _)| *name).collect();
        format!(
            "tokenizer_config.json names the class {class:?}; without a tokenizer.json, vocab.json and merges.txt are \
             read for {}",
            known.join(" and ")
        )
    })
}

fn read_vocabulary(vocab_json: &str) -> Result<HashMap<String, u32>, String> {
    serde_json::from_str(vocab_json).map_err(|e| format!("vocab.json: {e}"))
}

/// One past the largest id; each id belongs to one token.
fn check_ids(vocabulary: &HashMap<String, u32>) -> Result<usize, String> {
    let mut texts: BTreeMap<u32, &str> = BTreeMap::new();
    for (text, id) in vocabulary {
        if let Some(other) = texts.insert(*id, text) {
            return Err(format!("vocab.json: {text:?} and {other:?} both have the id {id}"));
        }
    }
    match texts.keys().next_back() {
        Some(id) if *id < i32::MAX as u32 => Ok(*id as usize + 1),
        Some(id) => Err(format!("vocab.json: the id {id} is too large")),
        None => Err("vocab.json: expected tokens, got none".to_string()),
    }
}

/// "left right" a line, best first, under a line that says the file's version.
fn read_merges(merges: &str) -> Vec<&str> {
    merges.lines().filter(|line| !line.starts_with("#version") && !line.is_empty()).collect()
}

/// Tokens that are taken out of the text whole, in the order of their ids; they join the vocabulary. Those of
/// "added_tokens_decoder" come with their flags; the others that the configuration names are special.
fn added_tokens(
    config: &Value,
    vocabulary: &mut HashMap<String, u32>,
) -> Result<Vec<AddedToken>, String> {
    let mut added: BTreeMap<u32, AddedToken> = BTreeMap::new();
    if let Some(listed) = config["added_tokens_decoder"].as_object() {
        for (key, entry) in listed {
            let refuse =
                |what: &str| format!("tokenizer_config.json: added_tokens_decoder[{key:?}] {what}");
            let id: u32 = key.parse().map_err(|_| refuse("is not a token id"))?;
            let text = entry["content"].as_str().ok_or_else(|| refuse("has no content"))?;
            if *vocabulary.entry(text.to_string()).or_insert(id) != id {
                return Err(refuse(&format!("is {text:?}, which vocab.json gives another id")));
            }
            let flag = |name: &str| entry[name].as_bool();
            let special = flag("special").unwrap_or(false);
            added.insert(
                id,
                AddedToken::from(text, special)
                    .single_word(flag("single_word").unwrap_or(false))
                    .lstrip(flag("lstrip").unwrap_or(false))
                    .rstrip(flag("rstrip").unwrap_or(false))
                    .normalized(flag("normalized").unwrap_or(!special)),
            );
        }
    }
    for text in named_tokens(config) {
        if let Some(id) = vocabulary.get(text) {
            added.entry(*id).or_insert_with(|| AddedToken::from(text, true));
        }
    }
    Ok(added.into_values().collect())
}

/// "eos_token" and its like (a string, or an object that holds one), and "additional_special_tokens".
fn named_tokens(config: &Value) -> Vec<&str> {
    let mut names = vec![DEFAULT_SPECIAL];
    for (key, value) in config.as_object().into_iter().flatten() {
        if key.ends_with("_token") {
            names.extend(token_text(value));
        }
    }
    names.extend(
        config["additional_special_tokens"].as_array().into_iter().flatten().filter_map(token_text),
    );
    names
}

fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value["content"].as_str())
}
