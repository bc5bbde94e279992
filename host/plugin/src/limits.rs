//! Bounds on what a guest can use up, and the meter of its memory.

use std::time::Instant;

use wasmtime::ResourceLimiter;

/// Largest component, in bytes.
pub const MAX_COMPONENT: usize = 64 << 20;
/// Stack of a guest, in bytes; deeper recursion traps.
pub(crate) const STACK: usize = 512 << 10;
/// Most log lines of one call; the rest are dropped.
pub(crate) const LOG_LINES: u32 = 32;
/// Longest log line, in bytes; the rest of it is dropped.
pub(crate) const LOG_BYTES: usize = 1024;
/// Longest error text of a guest that is passed on, in bytes.
pub(crate) const MESSAGE_BYTES: usize = 1024;
/// Longest message of a guest's panic that is passed on, in bytes.
pub(crate) const PANIC_BYTES: usize = 256;
/// Most reasons of a decision.
pub(crate) const REASONS: usize = 32;
/// Longest reason, in bytes.
pub(crate) const REASON_BYTES: usize = 512;
/// Longest decision, in bytes.
pub(crate) const DECISION_BYTES: usize = 64;
/// Most bytes that one call of a pre- or post-processor hands to the host at a time.
pub(crate) const REQUEST_TRANSFER: usize = 4 << 20;
/// What an entry of a guest's table costs the host, in bytes.
const TABLE_ENTRY: usize = 16;

/// The time of a call is over. Carried through wasmtime's errors to the call's end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the call's time is over")]
pub(crate) struct TimedOut;

/// An instance wanted more memory than its limit. Carried through wasmtime's errors to the call's end.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("wanted {wanted} bytes of memory; its limit is {limit}")]
pub(crate) struct MemoryExceeded {
    wanted: usize,
    limit: usize,
}

/// Fails once `deadline` is reached.
pub(crate) fn check_time(deadline: Instant) -> Result<(), TimedOut> {
    if Instant::now() < deadline { Ok(()) } else { Err(TimedOut) }
}

/// Cuts `text` to at most `limit` bytes, at a character's edge.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    &text[..text.floor_char_boundary(limit)]
}

/// One line of at most `limit` bytes, without control characters: a guest's text cannot forge lines of a log.
pub(crate) fn line(text: &str, limit: usize) -> String {
    cut(text, limit).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Counts an instance's linear memories and tables together. It fails the call at the limit rather than let the guest's
/// allocator fail: a guest that sees `memory.grow` refused traps with a message about something else.
#[derive(Debug)]
pub(crate) struct MemoryMeter {
    used: usize,
    limit: usize,
}

impl MemoryMeter {
    pub(crate) fn new(limit: usize) -> Self {
        Self { used: 0, limit }
    }

    fn grow(&mut self, bytes: usize) -> wasmtime::Result<bool> {
        let wanted = self.used.saturating_add(bytes);
        if wanted > self.limit {
            return Err(MemoryExceeded { wanted, limit: self.limit }.into());
        }
        self.used = wanted;
        Ok(true)
    }
}

impl ResourceLimiter for MemoryMeter {
    fn memory_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.grow(desired.saturating_sub(current))
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        self.grow(desired.saturating_sub(current).saturating_mul(TABLE_ENTRY))
    }

    fn instances(&self) -> usize {
        64
    }

    fn tables(&self) -> usize {
        32
    }

    fn memories(&self) -> usize {
        8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_and_tables_count_together() {
        let mut meter = MemoryMeter::new(1000);
        assert!(meter.memory_growing(0, 500, None).unwrap());
        assert!(meter.memory_growing(0, 100, Some(100)).unwrap());
        assert!(!meter.memory_growing(100, 101, Some(100)).unwrap(), "its own maximum is not the limit");
        assert!(meter.table_growing(0, 25, None).unwrap());
        let error = meter.table_growing(25, 26, None).unwrap_err();
        assert_eq!(error.downcast_ref::<MemoryExceeded>().unwrap().wanted, 1016);
    }

    #[test]
    fn texts_are_cut_at_characters() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        assert_eq!(cut("", 5), "");
        assert_eq!(line("a\nb\u{1b}[1mc", 5), "a b [");
    }
}
