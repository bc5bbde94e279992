//! Counters of one plugin.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::error::ErrorKind;

/// A snapshot of a plugin's counters since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Calls, whatever became of them.
    pub calls: u64,
    /// Failed calls by kind, in the order of [`ErrorKind::ALL`].
    pub errors: [u64; ErrorKind::ALL.len()],
    /// Instances that exist now.
    pub live: usize,
    /// Instances ever made.
    pub created: u64,
    /// Instances thrown away after a failure.
    pub discarded: u64,
}

impl Stats {
    /// Failed calls of one kind.
    #[must_use]
    pub fn errors_of(&self, kind: ErrorKind) -> u64 {
        ErrorKind::ALL.iter().zip(self.errors).find(|(k, _)| **k == kind).map_or(0, |(_, count)| count)
    }
}

/// The counters themselves.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    calls: AtomicU64,
    errors: [AtomicU64; ErrorKind::ALL.len()],
    live: AtomicUsize,
    created: AtomicU64,
    discarded: AtomicU64,
}

impl Counters {
    pub(crate) fn call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(crate) fn error(&self, kind: ErrorKind) {
        if let Some((_, count)) = ErrorKind::ALL.iter().zip(&self.errors).find(|(k, _)| **k == kind) {
            count.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn created(&self) {
        self.created.fetch_add(1, Relaxed);
        self.live.fetch_add(1, Relaxed);
    }

    pub(crate) fn gone(&self) {
        self.live.fetch_sub(1, Relaxed);
    }

    pub(crate) fn discarded(&self) {
        self.discarded.fetch_add(1, Relaxed);
    }

    pub(crate) fn snapshot(&self) -> Stats {
        Stats {
            calls: self.calls.load(Relaxed),
            errors: std::array::from_fn(|i| self.errors[i].load(Relaxed)),
            live: self.live.load(Relaxed),
            created: self.created.load(Relaxed),
            discarded: self.discarded.load(Relaxed),
        }
    }
}
