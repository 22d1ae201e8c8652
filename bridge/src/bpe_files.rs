//! A tokenizer from vocab.json and merges.txt, for folders without a tokenizer.json. What those files do not say (how
//! text is split and composed) follows from the class that tokenizer_config.json names, as in the reference. Tokens
//! that are not in vocab.json stand in the configuration's "added_tokens_decoder" or, in older folders, in
//! added_tokens.json.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};
use tokenizers::{AddedToken, Tokenizer};

use crate::bpe::{byte_level, Built};
use crate::splits;

/// Classes by their names without "Fast", with the row of `splits` that says how they cut text.
const CLASSES: [(&str, &str); 2] = [("Qwen2Tokenizer", "qwen2"), ("GPT2Tokenizer", "gpt-2")];
/// What both classes have as unknown token, whether a configuration says so or not.
const DEFAULT_SPECIAL: &str = "<|endoftext|>";

/// `added_json` is empty where there is no added_tokens.json.
pub fn build(
    vocab_json: &str,
    merges: &str,
    config_json: &str,
    added_json: &str,
) -> Result<Built, String> {
    let config: Value =
        serde_json::from_str(config_json).map_err(|e| format!("tokenizer_config.json: {e}"))?;
    let split = splits::find(split_name(&config)?)?;
    let mut vocabulary = read_vocabulary("vocab.json", vocab_json)?;
    let added = added_tokens(&config, added_json, &mut vocabulary)?;
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

/// A file that gives each token's text its id.
fn read_vocabulary(name: &str, json: &str) -> Result<HashMap<String, u32>, String> {
    serde_json::from_str(json).map_err(|e| format!("{name}: {e}"))
}

/// One past the largest id; each id belongs to one token.
fn check_ids(vocabulary: &HashMap<String, u32>) -> Result<usize, String> {
    let mut texts: BTreeMap<u32, &str> = BTreeMap::new();
    for (text, id) in vocabulary {
        if let Some(other) = texts.insert(*id, text) {
            return Err(format!("the vocabulary: {text:?} and {other:?} both have the id {id}"));
        }
    }
    match texts.keys().next_back() {
        Some(id) if *id < i32::MAX as u32 => Ok(*id as usize + 1),
        Some(id) => Err(format!("the vocabulary: the id {id} of {:?} is too large", texts[id])),
        None => Err("vocab.json: expected tokens, got none".to_string()),
    }
}

/// "left right" a line, best first, under a line that says the file's version.
fn read_merges(merges: &str) -> Vec<&str> {
    merges.lines().filter(|line| !line.starts_with("#version") && !line.is_empty()).collect()
}

/// Tokens that are taken out of the text whole, in the order of their ids; they join the vocabulary. Those of
/// "added_tokens_decoder" come with their flags, and where it stands added_tokens.json is not looked at; the others
/// that the configuration names are special.
fn added_tokens(
    config: &Value,
    added_json: &str,
    vocabulary: &mut HashMap<String, u32>,
) -> Result<Vec<AddedToken>, String> {
    let named = named_tokens(config);
    let mut added = match config["added_tokens_decoder"].as_object() {
        Some(listed) => tokens_with_flags(listed, vocabulary)?,
        None if added_json.is_empty() => BTreeMap::new(),
        None => tokens_without_flags(added_json, &named, vocabulary)?,
    };
    for text in named {
        if let Some(id) = vocabulary.get(text) {
            added.entry(*id).or_insert_with(|| AddedToken::from(text, true));
        }
    }
    Ok(added.into_values().collect())
}

fn tokens_with_flags(
    listed: &Map<String, Value>,
    vocabulary: &mut HashMap<String, u32>,
) -> Result<BTreeMap<u32, AddedToken>, String> {
    let mut added = BTreeMap::new();
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
    Ok(added)
}

/// Of added_tokens.json, those that the configuration names are special.
fn tokens_without_flags(
    added_json: &str,
    named: &[&str],
    vocabulary: &mut HashMap<String, u32>,
) -> Result<BTreeMap<u32, AddedToken>, String> {
    let mut added = BTreeMap::new();
    for (text, id) in read_vocabulary("added_tokens.json", added_json)? {
        if *vocabulary.entry(text.clone()).or_insert(id) != id {
            return Err(format!("added_tokens.json: {text:?} has another id in vocab.json"));
        }
        let special = named.contains(&text.as_str());
        added.insert(id, AddedToken::from(text, special).normalized(!special));
    }
    Ok(added)
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
