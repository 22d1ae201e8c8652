//! Memory that crosses the border: views of the caller's bytes in, owned buffers out.

use std::panic::{catch_unwind, AssertUnwindSafe};

/// Bytes owned by the bridge until `pome_buffer_free`.
#[repr(C)]
pub struct PomeBuffer {
    data: *mut u8,
    bytes: usize,
    capacity: usize,
}

impl PomeBuffer {
    pub fn from_vec(vec: Vec<u8>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        PomeBuffer { data: vec.as_mut_ptr(), bytes: vec.len(), capacity: vec.capacity() }
    }
}

/// Token ids owned by the bridge until `pome_tokens_free`.
#[repr(C)]
pub struct PomeTokens {
    data: *mut i32,
    count: usize,
    capacity: usize,
}

impl PomeTokens {
    pub fn from_vec(vec: Vec<i32>) -> Self {
        let mut vec = std::mem::ManuallyDrop::new(vec);
        PomeTokens { data: vec.as_mut_ptr(), count: vec.len(), capacity: vec.capacity() }
    }
}

/// A view of the caller's bytes for the length of one call.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PomeText {
    data: *const u8,
    bytes: usize,
}

impl PomeText {
    /// A view for a callback; valid as long as `bytes` is.
    pub fn of(bytes: &[u8]) -> Self {
        PomeText { data: bytes.as_ptr(), bytes: bytes.len() }
    }

    /// # Safety
    /// The caller keeps `data[0, bytes)` readable during the call.
    pub unsafe fn bytes<'a>(self) -> &'a [u8] {
        slice(self.data, self.bytes)
    }

    /// # Safety
    /// As `bytes`. `what` names the text in the refusal.
    pub unsafe fn text<'a>(self, what: &str) -> Result<&'a str, String> {
        std::str::from_utf8(self.bytes())
            .map_err(|e| format!("{what} is not valid UTF-8 at byte {}", e.valid_up_to()))
    }
}

/// # Safety
/// `data` is null or readable for `count` elements.
pub unsafe fn slice<'a, T>(data: *const T, count: usize) -> &'a [T] {
    if data.is_null() || count == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, count)
    }
}

/// # Safety
/// `buffer` is null or was filled by the bridge; it is empty afterwards.
#[no_mangle]
pub unsafe extern "C" fn pome_buffer_free(buffer: *mut PomeBuffer) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Some(b) = buffer.as_mut() {
            if !b.data.is_null() {
                drop(Vec::from_raw_parts(b.data, b.bytes, b.capacity));
            }
            *b = PomeBuffer { data: std::ptr::null_mut(), bytes: 0, capacity: 0 };
        }
    }));
}

/// # Safety
/// `tokens` is null or was filled by the bridge; it is empty afterwards.
#[no_mangle]
pub unsafe extern "C" fn pome_tokens_free(tokens: *mut PomeTokens) {
    let _ = catch_unwind(AssertUnwindSafe(|| {
        if let Some(t) = tokens.as_mut() {
            if !t.data.is_null() {
                drop(Vec::from_raw_parts(t.data, t.count, t.capacity));
            }
            *t = PomeTokens { data: std::ptr::null_mut(), count: 0, capacity: 0 };
        }
    }));
}
