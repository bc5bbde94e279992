//! What the end-to-end tests share. They run the real binary over real sockets; nothing of it is linked in.

pub mod client;
pub mod load;
pub mod releases;
pub mod server;
pub mod service;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The workspace's root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").components().collect()
}

/// Polls until `ready` gives a value.
///
/// # Panics
/// Where it does not within `limit`; `what` says what was waited for.
pub fn eventually<T>(what: &str, limit: Duration, mut ready: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + limit;
    loop {
        if let Some(value) = ready() {
            return value;
        }
        assert!(Instant::now() < end, "waited {limit:?} for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A free port of the loopback interface. Another process may take it before it is used; callers retry.
///
/// # Panics
/// Where the system has none.
#[must_use]
pub fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.local_addr().expect("a bound address").port()
}
