//! What happened since the start, for the metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts events. All only rise.
#[derive(Debug, Default)]
pub struct Counters {
    accepted: AtomicU64,
    rejected: AtomicU64,
    swaps: AtomicU64,
    source_errors: AtomicU64,
}

impl Counters {
    /// Releases that were loaded.
    #[must_use]
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Releases and documents that were rejected: each reason of each once.
    #[must_use]
    pub fn rejected(&self) -> u64 {
        self.rejected.load(Ordering::Relaxed)
    }

    /// Tables that were published.
    #[must_use]
    pub fn swaps(&self) -> u64 {
        self.swaps.load(Ordering::Relaxed)
    }

    /// Times that the source could not be read.
    #[must_use]
    pub fn source_errors(&self) -> u64 {
        self.source_errors.load(Ordering::Relaxed)
    }

    pub(crate) fn count_accepted(&self) {
        self.accepted.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rejected(&self) {
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_swap(&self) {
        self.swaps.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_source_error(&self) {
        self.source_errors.fetch_add(1, Ordering::Relaxed);
    }
}
