//! Downloads: one HTTP exchange at a time over rustls, and one file out of a zip archive.
//!
//! What a download means (resuming, checksums, where files go) is decided in C++ (src/hub); this file only moves
//! bytes. The caller passes everything in, proxies and the CA file included, and gets each body chunk by callback.

use std::ffi::c_void;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc::{sync_channel, RecvTimeoutError, SyncSender};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{json, Map, Value};
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body, Error, Proxy};

use crate::buffer::{PomeBuffer, PomeText};
use crate::status::{guard, REFUSED};

/// Why an exchange ended early; the values are part of the C header.
#[derive(Clone, Copy)]
enum Outcome {
    Refused = REFUSED as isize,
    Stopped = 16,
    Unreachable = 17,
    Tls = 18,
    Timeout = 19,
    Broken = 20,
}

struct Failure(Outcome, String);

type OnText = unsafe extern "C" fn(*mut c_void, PomeText) -> i32;
type Asked = unsafe extern "C" fn(*mut c_void) -> i32;
type OnBytes = unsafe extern "C" fn(*mut c_void, u64) -> i32;

fn bad_request(message: impl Into<String>) -> Failure {
    Failure(Outcome::Refused, message.into())
}

impl From<String> for Failure {
    fn from(message: String) -> Self {
        bad_request(message)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let outcome = match &error {
            Error::HostNotFound | Error::ConnectionFailed | Error::InvalidProxyUrl => {
                Outcome::Unreachable
            }
            Error::Io(e) => match e.kind() {
                std::io::ErrorKind::TimedOut | std::io::ErrorKind::WouldBlock => Outcome::Timeout,
                std::io::ErrorKind::ConnectionRefused
                | std::io::ErrorKind::HostUnreachable
                | std::io::ErrorKind::NetworkUnreachable => Outcome::Unreachable,
                _ if e.to_string().contains("certificate") => Outcome::Tls,
                _ if e.to_string().contains("lookup address") => Outcome::Unreachable,
                _ => Outcome::Broken,
            },
            Error::Timeout(_) => Outcome::Timeout,
            Error::Tls(_) | Error::Pem(_) | Error::Rustls(_) => Outcome::Tls,
            Error::BadUri(_) | Error::Http(_) => Outcome::Refused,
            _ => Outcome::Broken,
        };
        Failure(outcome, error.to_string())
    }
}

fn certificates(ca_file: &str) -> Result<RootCerts, Failure> {
    let found = if ca_file.is_empty() {
        // The system's store; SSL_CERT_FILE and SSL_CERT_DIR take its place where they are set.
        rustls_native_certs::load_native_certs()
    } else {
        rustls_native_certs::load_certs_from_paths(Some(Path::new(ca_file)), None)
    };
    if found.certs.is_empty() {
        let why = found.errors.first().map(|e| e.to_string()).unwrap_or_default();
        return Err(Failure(Outcome::Tls, format!("no CA certificates found: {why}")));
    }
    let certs = found.certs.iter().map(|c| Certificate::from_der(c.as_ref()).to_owned()).collect();
    Ok(RootCerts::Specific(Arc::new(certs)))
}

fn text<'a>(request: &'a Value, key: &str) -> &'a str {
    request.get(key).and_then(Value::as_str).unwrap_or("")
}

fn agent(request: &Value, url: &str) -> Result<Agent, Failure> {
    let seconds = |key: &str, default: u64| {
        let value = request.get(key).and_then(Value::as_u64).unwrap_or(default);
        (value > 0).then(|| Duration::from_secs(value))
    };
    let proxy = match text(request, "proxy") {
        "" => None,
        url => Some(Proxy::new(url).map_err(|e| bad_request(format!("proxy {url}: {e}")))?),
    };
    let redirects = request.get("redirects").and_then(Value::as_u64).unwrap_or(10) as u32;
    let mut config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(redirects)
        .max_redirects_will_error(redirects > 0)
        .save_redirect_history(true)
        .proxy(proxy)
        .user_agent(concat!("pome/", env!("CARGO_PKG_VERSION")))
        .timeout_connect(seconds("connect_timeout_s", 20))
        .timeout_per_read(seconds("read_timeout_s", 60));
    // A plain-text first hop may be redirected to TLS, so roots are set for it too where there are any.
    match certificates(text(request, "ca_file")) {
        Ok(roots) => {
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
        }
        Err(failure) if url.starts_with("https://") => return Err(failure),
        Err(_) => {}
    }
    Ok(config.build().into())
}

fn send(agent: &Agent, request: &Value) -> Result<Response<Body>, Failure> {
    let url = text(request, "url");
    let method = match text(request, "method") {
        "" => "GET",
        other => other,
    };
    let mut builder = Request::builder().method(method).uri(url);
    if let Some(headers) = request.get("headers").and_then(Value::as_object) {
        for (name, value) in headers {
            builder = builder.header(name, value.as_str().unwrap_or(""));
        }
    }
    let bad = |e: ureq::http::Error| bad_request(format!("{url}: {e}"));
    Ok(match text(request, "body") {
        "" => agent.run(builder.body(()).map_err(bad)?)?,
        body => agent.run(builder.body(body.to_string()).map_err(bad)?)?,
    })
}

fn head_json(response: &Response<Body>) -> String {
    use ureq::ResponseExt;
    let mut headers = Map::new();
    for (name, value) in response.headers() {
        headers.insert(name.as_str().to_string(), json!(String::from_utf8_lossy(value.as_bytes())));
    }
    json!({"status": response.status().as_u16(), "url": response.get_uri().to_string(), "headers": headers})
        .to_string()
}

fn stopped() -> Failure {
    Failure(Outcome::Stopped, "stopped by the caller".to_string())
}

/// What arrives, in order.
enum Part {
    Head(String),
    Body(Vec<u8>),
}

/// How often the caller is asked whether to stop while nothing arrives.
const LOOK: Duration = Duration::from_millis(50);
/// Parts that wait for a caller which is slower than the network.
const PARTS_MAX: usize = 4;

/// The network is waited for on a thread of its own, so that the caller can leave at once whatever that waits for: a
/// name server, a host that does not answer, a silent server. A thread that is left behind holds nothing of the
/// caller's and ends with its own time-out.
unsafe fn exchange(
    request: &str,
    on_head: OnText,
    on_body: OnText,
    stop_asked: Option<Asked>,
    context: *mut c_void,
) -> Result<(), Failure> {
    let request: Value = serde_json::from_str(request).map_err(|e| bad_request(e.to_string()))?;
    let agent = agent(&request, text(&request, "url"))?;
    let (sender, parts) = sync_channel(PARTS_MAX);
    let receiving = agent.clone();
    let receiver = std::thread::Builder::new()
        .name("pome-http".to_string())
        .spawn(move || receive(&receiving, &request, &sender))
        .map_err(|e| Failure(Outcome::Broken, e.to_string()))?;
    loop {
        let stop = match parts.recv_timeout(LOOK) {
            Ok(Part::Head(head)) => on_head(context, PomeText::of(head.as_bytes())) != 0,
            Ok(Part::Body(bytes)) => on_body(context, PomeText::of(&bytes)) != 0,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        if stop || stop_asked.is_some_and(|asked| asked(context) != 0) {
            agent.shutdown();
            return Err(stopped());
        }
    }
    receiver.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Sends the request and passes on what arrives, until nobody wants more.
fn receive(agent: &Agent, request: &Value, parts: &SyncSender<Part>) -> Result<(), Failure> {
    let gone = |_| stopped();
    let response = send(agent, request)?;
    parts.send(Part::Head(head_json(&response))).map_err(gone)?;
    let mut reader = response.into_body().into_with_config().limit(u64::MAX).reader();
    let mut chunk = vec![0u8; 256 * 1024];
    loop {
        match reader.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(bytes) => parts.send(Part::Body(chunk[..bytes].to_vec())).map_err(gone)?,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Error::Io(e).into()),
        }
    }
}

/// The archive's one entry that is `entry` or ends in "/entry".
fn full_name(zip: &zip::ZipArchive<std::fs::File>, entry: &str) -> Result<String, String> {
    let tail = format!("/{entry}");
    let mut found = zip.file_names().filter(|name| *name == entry || name.ends_with(&tail));
    match (found.next(), found.next()) {
        (Some(name), None) => Ok(name.to_string()),
        (None, _) => Err(format!("has no {entry}")),
        _ => Err(format!("has several {entry}")),
    }
}

unsafe fn extract(
    archive: &str,
    entry: &str,
    target: &str,
    bytes_max: u64,
    on_bytes: OnBytes,
    context: *mut c_void,
) -> Result<(), Failure> {
    let broken = |e: &dyn std::fmt::Display| Failure(Outcome::Broken, format!("{archive}: {e}"));
    let file = std::fs::File::open(archive).map_err(|e| broken(&e))?;
    let mut zip = zip::ZipArchive::new(file).map_err(|e| broken(&e))?;
    let name = full_name(&zip, entry).map_err(|e| broken(&e))?;
    let mut source = zip.by_name(&name).map_err(|e| broken(&format!("{entry}: {e}")))?;
    if source.size() > bytes_max {
        return Err(broken(&format!(
            "{entry} has {} bytes, expected at most {bytes_max}",
            source.size()
        )));
    }
    let mut out = std::fs::File::create(target)
        .map_err(|e| Failure(Outcome::Broken, format!("{target}: {e}")))?;
    let mut chunk = vec![0u8; 256 * 1024];
    let mut written: u64 = 0;
    loop {
        // The reader checks the entry's CRC at its end.
        let bytes = source.read(&mut chunk).map_err(|e| broken(&format!("{entry}: {e}")))?;
        if bytes == 0 {
            return Ok(());
        }
        written += bytes as u64;
        if written > bytes_max {
            return Err(broken(&format!("{entry} is longer than its header says")));
        }
        out.write_all(&chunk[..bytes])
            .map_err(|e| Failure(Outcome::Broken, format!("{target}: {e}")))?;
        if on_bytes(context, written) != 0 {
            return Err(Failure(Outcome::Stopped, "stopped by the caller".to_string()));
        }
    }
}

/// `guard` with this file's codes beside the general ones.
unsafe fn guarded(error: *mut PomeBuffer, body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    let mut outcome = Outcome::Refused;
    let code = guard(error, || {
        body().map_err(|failure| {
            outcome = failure.0;
            failure.1
        })
    });
    if code == REFUSED {
        outcome as i32
    } else {
        code
    }
}

/// # Safety
/// See pome_bridge.h; the callbacks accept `context`, and `error` is null or points to an empty buffer.
#[no_mangle]
pub unsafe extern "C" fn pome_http_exchange(
    request: PomeText,
    on_head: OnText,
    on_body: OnText,
    stop_asked: Option<Asked>,
    context: *mut c_void,
    error: *mut PomeBuffer,
) -> i32 {
    guarded(error, || exchange(request.text("request")?, on_head, on_body, stop_asked, context))
}

/// # Safety
/// See pome_bridge.h; the callback accepts `context`, and `error` is null or points to an empty buffer.
#[no_mangle]
pub unsafe extern "C" fn pome_zip_extract(
    archive: PomeText,
    entry: PomeText,
    target: PomeText,
    bytes_max: u64,
    on_bytes: OnBytes,
    context: *mut c_void,
    error: *mut PomeBuffer,
) -> i32 {
    guarded(error, || {
        let (archive, entry) = (archive.text("archive")?, entry.text("entry")?);
        extract(archive, entry, target.text("target")?, bytes_max, on_bytes, context)
    })
}
