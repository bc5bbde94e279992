//! A plugin's instances: each is in one call at a time, is kept for the next call, and is thrown away after a failure.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use wasmtime::Store;

use crate::abi::v0_1::Guest;
use crate::host::lock;
use crate::state::State;
use crate::stats::Counters;

/// One instance in a store of its own, so that dropping it frees all that it has.
pub(crate) struct Instance {
    pub(crate) store: Store<State>,
    pub(crate) guest: Guest,
}

/// Counts an instance for as long as its store exists; it is part of the store's data.
pub(crate) struct Live {
    counters: Arc<Counters>,
    host: Arc<AtomicUsize>,
}

impl Live {
    pub(crate) fn new(counters: &Arc<Counters>, host: &Arc<AtomicUsize>) -> Self {
        counters.created();
        host.fetch_add(1, Relaxed);
        Self { counters: Arc::clone(counters), host: Arc::clone(host) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.counters.gone();
        self.host.fetch_sub(1, Relaxed);
    }
}

pub(crate) struct Pool {
    slots: Mutex<Slots>,
    freed: Condvar,
    max: usize,
}

#[derive(Default)]
struct Slots {
    /// Most recently used last: its memory is the warmest.
    idle: Vec<Instance>,
    leased: usize,
}

impl Pool {
    pub(crate) fn new(max: usize) -> Self {
        Self { slots: Mutex::default(), freed: Condvar::new(), max: max.max(1) }
    }

    pub(crate) fn max(&self) -> usize {
        self.max
    }

    /// Takes an idle instance, or the right to make one; waits for it no longer than until `end`.
    pub(crate) fn lease(&self, end: Instant) -> Option<Lease<'_>> {
        let slots = lock(&self.slots);
        let wait = end.saturating_duration_since(Instant::now());
        let (mut slots, _) = self
            .freed
            .wait_timeout_while(slots, wait, |slots| slots.leased >= self.max)
            .unwrap_or_else(PoisonError::into_inner);
        if slots.leased >= self.max {
            return None;
        }
        slots.leased += 1;
        Some(Lease { pool: self, instance: slots.idle.pop() })
    }
}

/// The right to one instance. Dropping it puts the instance back, where there still is one.
pub(crate) struct Lease<'a> {
    pool: &'a Pool,
    pub(crate) instance: Option<Instance>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        // A panic in the host left the instance in the middle of a call.
        let instance = self.instance.take().filter(|_| !std::thread::panicking());
        let mut slots = lock(&self.pool.slots);
        slots.leased -= 1;
        slots.idle.extend(instance);
        drop(slots);
        self.pool.freed.notify_one();
    }
}
