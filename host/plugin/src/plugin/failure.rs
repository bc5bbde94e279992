//! What a failed call of wasmtime's means.

use std::time::Instant;

use wasmtime::{Error, Trap, WasmBacktrace};

use super::Failure;
use crate::error::ErrorKind;
use crate::limits::{MESSAGE_BYTES, MemoryExceeded, TimedOut, cut};

/// The kind and text of a failure of a call that began at `start`.
pub(super) fn describe(error: &Error, start: Instant) -> Failure {
    let functions = functions(error);
    if error.is::<TimedOut>() {
        let spent = start.elapsed().as_millis();
        return (ErrorKind::Timeout, format!("stopped after {spent} ms, its time limit{functions}"));
    }
    if let Some(exceeded) = error.downcast_ref::<MemoryExceeded>() {
        return (ErrorKind::Memory, format!("{exceeded}{functions}"));
    }
    if let Some(trap) = error.downcast_ref::<Trap>() {
        return (ErrorKind::Trap, format!("it trapped: {trap}{functions}"));
    }
    let cause = error.root_cause().to_string();
    let cause = cut(&cause, MESSAGE_BYTES);
    if error.is::<WasmBacktrace>() {
        // A host call that could not be made: a pointer outside the guest's memory, text that is not UTF-8.
        (ErrorKind::Trap, format!("it made a host call that breaks the contract: {cause}{functions}"))
    } else {
        (ErrorKind::BadOutput, format!("its answer cannot be read: {cause}"))
    }
}

/// The guest's functions, innermost first, as a part of a sentence; nothing where there are none.
fn functions(error: &Error) -> String {
    let Some(trace) = error.downcast_ref::<WasmBacktrace>() else { return String::new() };
    // Only its text has demangled names: a line is `  0:   0x1b2 - module!function`.
    let text = trace.to_string();
    let names: Vec<&str> =
        text.lines().filter_map(|line| line.split_once('!')).map(|(_, name)| cut(name.trim(), 128)).collect();
    if names.is_empty() { String::new() } else { format!(" (in {})", names.join(" < ")) }
}
