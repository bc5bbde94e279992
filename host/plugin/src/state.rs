//! What the host keeps beside each instance: the limits of the call that it is in, and what the call may see.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::api::Role;
use crate::error::ErrorKind;
use crate::limits::{LOG_BYTES, LOG_LINES, MemoryMeter, PANIC_BYTES, TimedOut, check_time, line};
use crate::pool::Live;
use crate::primitives::GraphAccess;

/// Who the guest is, for log lines.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) name: Arc<str>,
    pub(crate) release: Arc<str>,
    pub(crate) role: Role,
}

/// A store's data.
pub(crate) struct State {
    pub(crate) memory: MemoryMeter,
    identity: Arc<Identity>,
    deadline: Instant,
    graph: Option<GraphAccess>,
    log_lines: u32,
    panic: Option<String>,
    _live: Live,
}

/// An error that a guest reports or is given, in any version of the contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GuestError {
    /// `InvalidInput`, `Missing`, `Unavailable` or `Internal`.
    pub(crate) kind: ErrorKind,
    pub(crate) message: String,
}

impl GuestError {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }
}

/// Log levels of a guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

impl State {
    pub(crate) fn new(identity: Arc<Identity>, memory_limit: usize, live: Live) -> Self {
        let memory = MemoryMeter::new(memory_limit);
        Self { memory, identity, deadline: Instant::now(), graph: None, log_lines: 0, panic: None, _live: live }
    }

    /// Begins a call.
    pub(crate) fn arm(&mut self, deadline: Instant, graph: Option<GraphAccess>) {
        self.deadline = deadline;
        self.graph = graph;
        self.log_lines = 0;
        self.panic = None;
    }

    /// Ends a call: an idle instance must not keep a graph version alive.
    pub(crate) fn disarm(&mut self) {
        self.graph = None;
    }

    /// The time left of the call.
    pub(crate) fn remaining(&self) -> Result<Duration, TimedOut> {
        match self.deadline.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(TimedOut),
        }
    }

    /// The call's deadline, for work that is done in pieces.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The graph, where this call may read it.
    pub(crate) fn graph(&self) -> Result<&GraphAccess, GuestError> {
        self.graph
            .as_ref()
            .ok_or_else(|| GuestError::new(ErrorKind::Unavailable, "there is no graph while a plugin is configured"))
    }

    /// The message of the panic that the guest logged in this call.
    pub(crate) fn panic(&self) -> Option<&str> {
        self.panic.as_deref()
    }

    /// Writes a guest's line to the host's log: cut, counted, and without control characters. A panic's message is kept,
    /// however many lines came before it.
    pub(crate) fn log(&mut self, level: Level, message: &str) -> Result<(), TimedOut> {
        check_time(self.deadline)?;
        if matches!(level, Level::Error) {
            self.panic = panic_message(message).or(self.panic.take());
        }
        if self.log_lines >= LOG_LINES {
            return Ok(());
        }
        self.log_lines += 1;
        let line = line(message, LOG_BYTES);
        let Identity { name, release, role } = &*self.identity;
        let role = role.as_str();
        match level {
            Level::Debug => tracing::debug!(target: "sagehost::guest", plugin = %name, role, %release, "{line}"),
            Level::Info => tracing::info!(target: "sagehost::guest", plugin = %name, role, %release, "{line}"),
            Level::Warn => tracing::warn!(target: "sagehost::guest", plugin = %name, role, %release, "{line}"),
            Level::Error => tracing::error!(target: "sagehost::guest", plugin = %name, role, %release, "{line}"),
        }
        Ok(())
    }
}

/// What a Rust guest's panic says, without the place in the plugin's source that the hook's text begins with:
/// `panicked at src/lib.rs:20:5:`, then a line of its own. Other lines of the log are for whoever runs the host.
fn panic_message(logged: &str) -> Option<String> {
    let (_, message) = logged.strip_prefix("panicked at ")?.split_once('\n')?;
    let message = line(message.trim(), PANIC_BYTES);
    (!message.is_empty()).then_some(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panics_message_is_short_and_without_its_place() {
        let panic = |message: &str| panic_message(&format!("panicked at /home/x/src/lib.rs:20:5:\n{message}"));
        assert_eq!(panic("value is far off: 500"), Some("value is far off: 500".into()));
        assert_eq!(panic("two\nlines"), Some("two lines".into()));
        assert_eq!(panic(&"x".repeat(9999)).map(|message| message.len()), Some(PANIC_BYTES));
        assert_eq!(panic(""), None);
        assert_eq!(panic_message("the database password is x"), None);
    }
}
