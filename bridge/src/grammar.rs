//! Grammars that an output must follow: compiled for one tokenizer, and stepped token by token.

use std::sync::Arc;

use llguidance::api::{ParserLimits, TopLevelGrammar};
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie, INVALID_TOKEN};
use llguidance::{Matcher, ParserFactory};

use crate::buffer::{slice, PomeBuffer, PomeText};
use crate::status::guard;
use crate::tokenizer::PomeTokenizer;

const KIND_JSON_SCHEMA: i32 = 0;
const KIND_REGEX: i32 = 1;
const KIND_LARK: i32 = 2;

const STATE_OPEN: i32 = 0;
const STATE_MAY_END: i32 = 1;
const STATE_COMPLETE: i32 = 2;

/// A longer token is never allowed: tries of the library hold no longer words.
const TOKEN_BYTES_MAX: usize = 512;
/// Compiling recurses into schemas and brackets, whose depth is bounded; a small stack of the caller's is not enough.
const COMPILE_STACK_BYTES: usize = 64 << 20;
/// What a refusal quotes of the library's message.
const MESSAGE_CHARS_MAX: usize = 300;

/// Compiles grammars for one tokenizer. Immutable, any number of threads.
pub struct PomeGrammars {
    factory: ParserFactory,
}

/// A compiled grammar at its beginning. Immutable, any number of threads.
pub struct PomeGrammar {
    pristine: Matcher,
}

/// One output on its way through a grammar. One thread at a time.
pub struct PomeMatcher {
    matcher: Matcher,
}

/// The tokens as the library's trie wants them: control tokens behind a byte that no text holds. What such a trie could
/// mistake for a control token, and what it cannot hold, stays empty and is never allowed.
fn words_of(tokenizer: &PomeTokenizer) -> Vec<Vec<u8>> {
    let marker = TokTrie::SPECIAL_TOKEN_MARKER;
    (0..tokenizer.vocab_tokens() as u32)
        .map(|id| match tokenizer.token_bytes(id) {
            Some((bytes, _)) if bytes.is_empty() || bytes.len() > TOKEN_BYTES_MAX => Vec::new(),
            Some((bytes, true)) => [&[marker], bytes.as_slice()].concat(),
            Some((bytes, false)) if bytes[0] == marker => Vec::new(),
            Some((bytes, false)) => bytes,
            None => Vec::new(),
        })
        .collect()
}

fn limits() -> ParserLimits {
    ParserLimits {
        // At one to two kilobytes a state, what one output may take.
        max_lexer_states: 16_000,
        // Some milliseconds for one step at most: the other outputs of the step wait for it.
        step_lexer_fuel: 60_000,
        step_max_items: 25_000,
        verbose_errors: false,
        ..ParserLimits::default()
    }
}

fn make_grammars(tokenizer: &PomeTokenizer, eos: &[i32]) -> Result<PomeGrammars, String> {
    let words = words_of(tokenizer);
    let known: Vec<u32> = eos
        .iter()
        .filter(|id| **id >= 0 && (**id as usize) < words.len())
        .map(|id| *id as u32)
        .collect();
    let first = known.first().copied().unwrap_or(INVALID_TOKEN);
    let mut trie = TokTrie::from(&TokRxInfo::new(words.len() as u32, first), &words);
    if !known.is_empty() {
        trie = trie.with_eos_tokens(&known);
    }
    // Not canonical: any way to cut the text into tokens is allowed, and the model chooses.
    let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
    let mut factory = ParserFactory::new_simple(&env).map_err(|e| e.to_string())?;
    factory.quiet();
    *factory.limits_mut() = limits();
    Ok(PomeGrammars { factory })
}

/// A line of a grammar that a message quotes: its number, and what it says.
fn is_excerpt(line: &str) -> bool {
    line.split_once(" | ").is_some_and(|(number, _)| number.trim().parse::<u32>().is_ok())
}

/// The library's message on one line, without the dumps and excerpts that it appends.
fn message_of(error: &impl std::fmt::Display) -> String {
    let whole = format!("{error:#}");
    if whole.starts_with("panic") {
        return "the compiler gave up on it".to_string();
    }
    let cut = ["<state>", "<backtrace>", "<non-verbose/>"]
        .iter()
        .filter_map(|mark| whole.find(mark))
        .min()
        .unwrap_or(whole.len());
    let said = whole[..cut].lines().take_while(|line| !is_excerpt(line));
    let line = said.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MESSAGE_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

fn compile(grammars: &PomeGrammars, kind: i32, text: &str) -> Result<PomeGrammar, String> {
    let grammar = match kind {
        KIND_JSON_SCHEMA => {
            let schema = serde_json::from_str(text).map_err(|e| e.to_string())?;
            TopLevelGrammar::from_json_schema(schema)
        }
        KIND_REGEX => TopLevelGrammar::from_regex(text),
        KIND_LARK => TopLevelGrammar::from_lark(text.to_string()),
        _ => return Err(format!("no kind of grammar has the number {kind}")),
    };
    let parser = grammars.factory.create_parser(grammar).map_err(|e| message_of(&e))?;
    let mut pristine = Matcher::new(Ok(parser));
    // What can say nothing at all is found here and not in mid-answer.
    pristine.deep_clone().compute_mask_or_eos().map_err(|e| message_of(&e))?;
    pristine.is_accepting().map_err(|e| message_of(&e))?;
    Ok(PomeGrammar { pristine })
}

fn compile_with_stack(
    grammars: &PomeGrammars,
    kind: i32,
    text: &str,
) -> Result<PomeGrammar, String> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("grammar".to_string())
            .stack_size(COMPILE_STACK_BYTES)
            .spawn_scoped(scope, || compile(grammars, kind, text))
            .map_err(|e| format!("no thread to compile it: {e}"))?;
        thread.join().unwrap_or_else(|_| Err("the compiler gave up on it".to_string()))
    })
}

fn state_of(matcher: &mut Matcher) -> Result<i32, String> {
    if matcher.is_stopped() {
        return match matcher.get_error() {
            Some(error) => Err(message_of(&error)),
            None if matcher.stop_reason().is_ok() => Ok(STATE_COMPLETE),
            None => Err(matcher.stop_reason().to_string()),
        };
    }
    let may_end = matcher.is_accepting().map_err(|e| message_of(&e))?;
    Ok(if may_end { STATE_MAY_END } else { STATE_OPEN })
}

unsafe fn place<T>(out: *mut *mut T, made: T) -> Result<(), String> {
    if out.is_null() {
        return Err("no place for the result".to_string());
    }
    *out = Box::into_raw(Box::new(made));
    Ok(())
}

unsafe fn free<T>(object: *mut T) {
    guard(std::ptr::null_mut(), || {
        if !object.is_null() {
            drop(Box::from_raw(object));
        }
        Ok(())
    });
}

/// # Safety
/// As src/bridge/pome_bridge.h says; so for every function below.
#[no_mangle]
pub unsafe extern "C" fn pome_grammars_new(
    tokenizer: *const PomeTokenizer,
    eos: *const i32,
    eos_count: usize,
    out: *mut *mut PomeGrammars,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let tokenizer = tokenizer.as_ref().ok_or("no tokenizer")?;
        place(out, make_grammars(tokenizer, slice(eos, eos_count))?)
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_grammars_free(grammars: *mut PomeGrammars) {
    free(grammars);
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_grammar_compile(
    grammars: *const PomeGrammars,
    kind: i32,
    text: PomeText,
    out: *mut *mut PomeGrammar,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let grammars = grammars.as_ref().ok_or("no tokenizer")?;
        place(out, compile_with_stack(grammars, kind, text.text("the grammar")?)?)
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_grammar_free(grammar: *mut PomeGrammar) {
    free(grammar);
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_matcher_new(
    grammar: *const PomeGrammar,
    out: *mut *mut PomeMatcher,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let grammar = grammar.as_ref().ok_or("no grammar")?;
        // Deep: what one output makes the lexer remember is not counted against another's limits.
        place(out, PomeMatcher { matcher: grammar.pristine.deep_clone() })
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_matcher_free(matcher: *mut PomeMatcher) {
    free(matcher);
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_matcher_allowed(
    matcher: *mut PomeMatcher,
    words: *mut u32,
    word_count: usize,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let matcher = matcher.as_mut().ok_or("no matcher")?;
        if words.is_null() {
            return Err("no place for the result".to_string());
        }
        let words = std::slice::from_raw_parts_mut(words, word_count);
        words.fill(0);
        let mask = matcher.matcher.compute_mask_or_eos().map_err(|e| message_of(&e))?;
        let bits = mask.as_slice();
        let count = bits.len().min(words.len());
        words[..count].copy_from_slice(&bits[..count]);
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_matcher_accept(
    matcher: *mut PomeMatcher,
    token: i32,
    state: *mut i32,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let matcher = matcher.as_mut().ok_or("no matcher")?;
        let token = u32::try_from(token).map_err(|_| format!("token {token} is negative"))?;
        if matcher.matcher.is_stopped() {
            return Err("nothing may follow".to_string());
        }
        let taken = matcher.matcher.try_consume_tokens(&[token]).map_err(|e| message_of(&e))?;
        if taken != 1 {
            return Err(format!("token {token} is not allowed here"));
        }
        let now = state_of(&mut matcher.matcher)?;
        if !state.is_null() {
            *state = now;
        }
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_matcher_state(
    matcher: *mut PomeMatcher,
    state: *mut i32,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let matcher = matcher.as_mut().ok_or("no matcher")?;
        let now = state_of(&mut matcher.matcher)?;
        if !state.is_null() {
            *state = now;
        }
        Ok(())
    })
}
