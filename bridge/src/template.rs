//! Chat templates: Jinja as transformers sets it up (trimmed blocks, loop controls, Python's methods and spellings),
//! bounded in work, depth and output.

use std::cell::Cell;
use std::io::{self, Write};

use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};

use crate::buffer::{PomeBuffer, PomeText};
use crate::python;
use crate::status::guard;

/// Instructions that one rendering may take; a chat of a thousand messages takes some hundred thousand.
const FUEL: u64 = 20_000_000;
const RECURSION_MAX: usize = 100;
const OUTPUT_BYTES_MAX: usize = 64 << 20;
const SOURCE_BYTES_MAX: usize = 1 << 20;
/// Templates run on a stack of their own: values that a template nests are dropped recursively.
const STACK_BYTES: usize = 256 << 20;

pub struct PomeTemplate {
    name: String,
    environment: Environment<'static>,
}

thread_local! {
    static NOW_S: Cell<i64> = const { Cell::new(0) };
}

fn describe(name: &str, error: &Error) -> String {
    let place = match error.line() {
        Some(line) => format!("{name}, line {line}"),
        None => name.to_string(),
    };
    let what = match (error.kind(), error.detail()) {
        (ErrorKind::OutOfFuel, _) => "the template does not come to an end".to_string(),
        (_, Some(detail)) => detail.to_string(),
        (kind, None) => kind.to_string(),
    };
    let mut text = format!("{place}: {what}");
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        text.push_str(&format!(": {inner}"));
        source = inner.source();
    }
    text
}

/// transformers' own tag around what an assistant says; it only matters in training. A condition that holds keeps the
/// lines and the white-space marks.
fn drop_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let Some(end) = rest[2..].find("%}").map(|e| e + 4) else { break };
        let tag = &rest[..end];
        let inner = tag[2..tag.len() - 2].trim_matches(['-', '+']);
        match inner.trim() {
            "generation" => out.push_str(&tag.replacen("generation", "if true", 1)),
            "endgeneration" => out.push_str(&tag.replacen("endgeneration", "endif", 1)),
            _ => {
                // Only the opening is passed over: "%}" may stand in a string of this tag.
                out.push_str("{%");
                rest = &rest[2..];
                continue;
            }
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}

fn is_iterable(value: &Value) -> bool {
    value.kind() == ValueKind::String || (!value.is_none() && value.try_iter().is_ok())
}

fn join(value: &Value, separator: Option<String>, options: Kwargs) -> Result<String, Error> {
    let attribute: Option<Value> = options.get("attribute")?;
    options.assert_all_used()?;
    let mut parts = Vec::new();
    for item in value.try_iter()? {
        let item = match &attribute {
            Some(key) => item.get_item(key)?,
            None => item,
        };
        parts.push(python::to_str(&item)?);
    }
    Ok(parts.join(separator.as_deref().unwrap_or("")))
}

/// Python methods that minijinja-contrib does not have.
fn method(state: &State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    if let (Some(text), [arg]) = (value.as_str(), args) {
        let affix = arg.as_str();
        match (name, affix) {
            ("removeprefix", Some(affix)) => {
                return Ok(text.strip_prefix(affix).unwrap_or(text).into())
            }
            ("removesuffix", Some(affix)) => {
                return Ok(text.strip_suffix(affix).unwrap_or(text).into())
            }
            _ => {}
        }
    }
    if let (Some(text), true, "rsplit") = (value.as_str(), args.len() <= 2, name) {
        if let Some(separator) = args.first().and_then(|a| a.as_str()).filter(|s| !s.is_empty()) {
            let most = args.get(1).map(|n| i64::try_from(n.clone())).transpose()?.unwrap_or(-1);
            let mut parts: Vec<&str> = match usize::try_from(most) {
                Ok(most) => text.rsplitn(most.saturating_add(1), separator).collect(),
                Err(_) => text.rsplit(separator).collect(),
            };
            parts.reverse();
            return Ok(parts.into_iter().map(Value::from).collect());
        }
    }
    minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args)
}

impl PomeTemplate {
    fn parse(name: &str, source: &str) -> Result<Self, String> {
        if source.len() > SOURCE_BYTES_MAX {
            return Err(format!(
                "{name} has {} bytes; at most {SOURCE_BYTES_MAX} are read",
                source.len()
            ));
        }
        let mut environment = Environment::new();
        environment.set_trim_blocks(true);
        environment.set_lstrip_blocks(true);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(RECURSION_MAX);
        environment.set_unknown_method_callback(method);
        environment.set_formatter(|out, _, value| {
            let text = python::to_str(value)?;
            out.write_str(&text).map_err(Error::from)
        });
        environment.add_filter("tojson", python::tojson);
        environment.add_filter("string", |value: &Value| python::to_str(value));
        environment.add_filter("join", join);
        environment.add_test("sequence", is_sequence);
        environment.add_test("iterable", is_iterable);
        environment.add_function(
            "raise_exception",
            |message: Rest<Value>| -> Result<Value, Error> {
                let text = message.first().map(python::to_str).transpose()?.unwrap_or_default();
                Err(Error::new(ErrorKind::InvalidOperation, text))
            },
        );
        environment
            .add_function("strftime_now", |format: &str| python::strftime(format, NOW_S.get()));
        environment
            .add_template_owned("chat", drop_generation_tags(source))
            .map_err(|error| describe(name, &error))?;
        Ok(PomeTemplate { name: name.to_string(), environment })
    }

    fn render(&self, context: &str, now_s: i64) -> Result<Vec<u8>, String> {
        let run = || {
            NOW_S.set(now_s);
            let context: Value = serde_json::from_str(context)
                .map_err(|error| format!("the template's context: {error}"))?;
            let template = self
                .environment
                .get_template("chat")
                .map_err(|error| describe(&self.name, &error))?;
            let mut out = BoundedOutput { bytes: Vec::new() };
            template
                .render_captured_to(context, &mut out)
                .map_err(|error| describe(&self.name, &error))?;
            Ok(out.bytes)
        };
        std::thread::scope(|scope| {
            let worker = std::thread::Builder::new()
                .name("template".to_string())
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, run)
                .map_err(|error| format!("no thread for the template: {error}"))?;
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

struct BoundedOutput {
    bytes: Vec<u8>,
}

impl Write for BoundedOutput {
    fn write(&mut self, part: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + part.len() > OUTPUT_BYTES_MAX {
            return Err(io::Error::other(format!(
                "the prompt is larger than {OUTPUT_BYTES_MAX} bytes"
            )));
        }
        self.bytes.extend_from_slice(part);
        Ok(part.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// # Safety
/// See pome_bridge.h; so for every function below.
#[no_mangle]
pub unsafe extern "C" fn pome_template_parse(
    name: PomeText,
    source: PomeText,
    out: *mut *mut PomeTemplate,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let compiled =
            PomeTemplate::parse(name.text("the template's name")?, source.text("the template")?)?;
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = Box::into_raw(Box::new(compiled));
        Ok(())
    })
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_template_free(compiled: *mut PomeTemplate) {
    guard(std::ptr::null_mut(), || {
        if !compiled.is_null() {
            drop(Box::from_raw(compiled));
        }
        Ok(())
    });
}

/// # Safety
/// See pome_bridge.h.
#[no_mangle]
pub unsafe extern "C" fn pome_template_render(
    compiled: *const PomeTemplate,
    context_json: PomeText,
    now_s: i64,
    out: *mut PomeBuffer,
    error: *mut PomeBuffer,
) -> i32 {
    guard(error, || {
        let compiled = compiled.as_ref().ok_or("no template")?;
        let text = compiled.render(context_json.text("the template's context")?, now_s)?;
        if out.is_null() {
            return Err("no place for the result".to_string());
        }
        *out = PomeBuffer::from_vec(text);
        Ok(())
    })
}
