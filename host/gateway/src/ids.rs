//! Who a request is: `x-request-id` and the W3C trace context.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use axum::http::HeaderMap;

/// The header of request ids.
pub(crate) const X_REQUEST_ID: &str = "x-request-id";
/// The header of the trace context.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Longest request id that is taken from a client.
pub(crate) const MAX_REQUEST_ID: usize = 128;

/// A request's names, and when it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Ids {
    pub(crate) request_id: Arc<str>,
    /// The client's `traceparent`, whole, where it is valid.
    pub(crate) traceparent: Option<Arc<str>>,
    pub(crate) arrived: Instant,
}

impl Ids {
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = text(X_REQUEST_ID).filter(|id| valid_request_id(id)).map_or_else(generate, Into::into);
        let traceparent = text(TRACEPARENT).filter(|parent| valid_traceparent(parent)).map(Into::into);
        Self { request_id, traceparent, arrived: Instant::now() }
    }

    /// The trace id, empty where there is none.
    pub(crate) fn trace_id(&self) -> &str {
        self.traceparent.as_deref().and_then(|parent| parent.get(3..35)).unwrap_or_default()
    }
}

/// An id goes into logs, headers and plugins: short, and of characters that none of them takes for something else.
fn valid_request_id(id: &str) -> bool {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b':' | b'/' | b'+' | b'=' | b'@');
    (1..=MAX_REQUEST_ID).contains(&id.len()) && id.bytes().all(safe)
}

/// `version-trace_id-parent_id-flags` in lower-case hexadecimal; later versions may have more after another dash.
fn valid_traceparent(parent: &str) -> bool {
    let not_zero = |part: &&str| part.bytes().any(|b| b != b'0');
    if parent.len() > MAX_REQUEST_ID || !parent.bytes().all(|b| b.is_ascii_graphic()) {
        return false;
    }
    let mut parts = parent.split('-');
    let version = hex(parts.next(), 2).filter(|version| *version != "ff");
    let trace_id = hex(parts.next(), 32).filter(not_zero);
    let parent_id = hex(parts.next(), 16).filter(not_zero);
    let flags = hex(parts.next(), 2);
    let ends = version != Some("00") || parts.next().is_none();
    version.is_some() && trace_id.is_some() && parent_id.is_some() && flags.is_some() && ends
}

fn hex(part: Option<&str>, len: usize) -> Option<&str> {
    part.filter(|part| part.len() == len && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
}

/// 32 hexadecimal digits: a counter under two keyed hashes, whose keys the standard library draws at random per process.
fn generate() -> Arc<str> {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let [high, low] = &*KEYS;
    format!("{:016x}{:016x}", high.hash_one(next), low.hash_one(next)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn ids(name: &'static str, value: &[u8]) -> Ids {
        let mut headers = HeaderMap::new();
        headers.insert(name, axum::http::HeaderValue::from_bytes(value).unwrap());
        Ids::of(&headers)
    }

    #[test]
    fn good_request_ids_are_kept_and_others_replaced() {
        let id = |value: &[u8]| ids(X_REQUEST_ID, value).request_id;
        assert_eq!(&*id(b"a-B_9.:/+=@"), "a-B_9.:/+=@");
        for bad in [&b""[..], b"a b", b"a\"b", b"<x>", &[b'x'; 129], "é".as_bytes()] {
            let made = id(bad);
            assert!(made.len() == 32 && made.bytes().all(|b| b.is_ascii_hexdigit()), "{made}");
        }
        assert_ne!(generate(), generate());
    }

    #[test]
    fn trace_parents_are_checked() {
        let trace = |value: &str| ids(TRACEPARENT, value.as_bytes()).trace_id().to_string();
        assert_eq!(trace(PARENT), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace(&PARENT.replacen("00", "cc", 1)), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace(&format!("{}-more", PARENT.replacen("00", "01", 1))), "4bf92f3577b34da6a3ce929d0e0e4736");
        for bad in [
            "",
            "00",
            &PARENT.to_uppercase(),
            &PARENT.replacen("00", "ff", 1),
            &format!("{PARENT}-more"),
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
        ] {
            assert_eq!(trace(bad), "", "{bad}");
        }
    }
}
