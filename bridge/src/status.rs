//! Codes that cross the border, and the one place where panics stop.

use std::any::Any;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use crate::buffer::PomeBuffer;

pub const OK: i32 = 0;
/// The input was refused; the message says why.
pub const REFUSED: i32 = 1;
/// A library panicked; the object that was called may still be used.
pub const PANICKED: i32 = 2;

fn panic_text(panic: Box<dyn Any + Send>) -> String {
    if let Some(text) = panic.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text.clone()
    } else {
        "unknown panic".to_string()
    }
}

static SILENCE: Once = Once::new();

/// Runs `body`; writes its error, or the text of its panic, to `error` (which may be null).
///
/// # Safety
/// `error` is null or points to a PomeBuffer that owns nothing.
pub unsafe fn guard(error: *mut PomeBuffer, body: impl FnOnce() -> Result<(), String>) -> i32 {
    // A panic is reported by its code; the default hook would also print it to standard error.
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    let (code, message) = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return OK,
        Ok(Err(message)) => (REFUSED, message),
        Err(panic) => (PANICKED, panic_text(panic)),
    };
    if !error.is_null() {
        *error = PomeBuffer::from_vec(message.into_bytes());
    }
    code
}
