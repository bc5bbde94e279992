//! What a failed call means: a short text for whoever made the request, and the guest's functions for the host's log.

use std::time::{Duration, Instant};

use wasmtime::{Error, Trap, WasmBacktrace};

use crate::error::ErrorKind;
use crate::limits::{MESSAGE_BYTES, MemoryExceeded, TimedOut, line};

/// What went wrong, before it is known whose error it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    /// For the caller of the request: one line, nothing of the guest's inside.
    pub(super) message: String,
    /// The guest's functions, innermost first; empty where it was in none. Only for the log.
    pub(super) functions: String,
}

impl Failure {
    pub(super) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), functions: String::new() }
    }

    /// Whether it belongs into the host's log: what the plugin says of a request, the request's answer says.
    pub(super) fn is_logged(&self) -> bool {
        match self.kind {
            ErrorKind::Trap | ErrorKind::Timeout | ErrorKind::Memory | ErrorKind::Internal | ErrorKind::BadOutput => {
                true
            }
            ErrorKind::InvalidInput | ErrorKind::Missing | ErrorKind::Unavailable | ErrorKind::Configure => false,
        }
    }
}

/// The time that a call may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    pub(super) start: Instant,
    pub(super) end: Instant,
    /// Whether it is all that the plugin's own limit allows, and not cut short by the request's deadline.
    whole: bool,
}

impl Window {
    /// From now for `limit`, or until `deadline` where that is nearer.
    pub(super) fn from_now(limit: Duration, deadline: Option<Instant>) -> Self {
        let start = Instant::now();
        let own = start + limit;
        let end = deadline.map_or(own, |deadline| deadline.min(own));
        Self { start, end, whole: end == own }
    }

    fn exceeded(&self) -> String {
        let ms = self.end.saturating_duration_since(self.start).as_millis();
        if self.whole {
            format!("exceeded its time limit of {ms} ms")
        } else {
            format!("was stopped at the request's deadline, after {ms} ms")
        }
    }
}

/// What a failure of wasmtime's in a call means; `panic` is the message of the panic that the guest logged in it.
pub(super) fn describe(error: &Error, window: &Window, panic: Option<&str>) -> Failure {
    let functions = functions(error);
    let (kind, message) = if error.is::<TimedOut>() {
        (ErrorKind::Timeout, window.exceeded())
    } else if let Some(exceeded) = error.downcast_ref::<MemoryExceeded>() {
        (ErrorKind::Memory, exceeded.to_string())
    } else if let Some(trap) = error.downcast_ref::<Trap>() {
        (ErrorKind::Trap, trapped(*trap, panic))
    } else if error.is::<WasmBacktrace>() {
        // A host call that could not be made: a pointer outside the guest's memory, text that is not UTF-8.
        (ErrorKind::Trap, format!("made a host call that breaks the contract: {}", cause(error)))
    } else {
        (ErrorKind::BadOutput, format!("its answer cannot be read: {}", cause(error)))
    };
    Failure { kind, message, functions }
}

/// A panic ends in `unreachable`, which says less than its message; any other trap is no panic's.
fn trapped(trap: Trap, panic: Option<&str>) -> String {
    match panic {
        Some(panic) if trap == Trap::UnreachableCodeReached => format!("trapped: panic: {panic}"),
        _ => {
            let text = trap.to_string();
            format!("trapped: {}", text.strip_prefix("wasm trap: ").unwrap_or(&text))
        }
    }
}

fn cause(error: &Error) -> String {
    line(&error.root_cause().to_string(), MESSAGE_BYTES)
}

fn functions(error: &Error) -> String {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    // Only its text has demangled names: a line is `  0:   0x1b2 - module!function`.
    let text = trace.to_string();
    let names = text.lines().filter_map(|line| line.split_once('!')).map(|(_, name)| line(name.trim(), 128));
    names.collect::<Vec<_>>().join(" < ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_told_where_the_trap_is_one() {
        assert_eq!(trapped(Trap::UnreachableCodeReached, Some("too far: 5")), "trapped: panic: too far: 5");
        assert_eq!(trapped(Trap::UnreachableCodeReached, None), "trapped: wasm `unreachable` instruction executed");
        assert_eq!(trapped(Trap::StackOverflow, Some("caught before")), "trapped: call stack exhausted");
    }

    #[test]
    fn a_window_says_whose_limit_it_was() {
        let limit = Duration::from_millis(200);
        assert_eq!(Window::from_now(limit, None).exceeded(), "exceeded its time limit of 200 ms");
        let far = Window::from_now(limit, Some(Instant::now() + Duration::from_secs(60)));
        assert_eq!(far.exceeded(), "exceeded its time limit of 200 ms");
        let near = Window::from_now(limit, Some(Instant::now()));
        assert_eq!(near.exceeded(), "was stopped at the request's deadline, after 0 ms");
    }
}
