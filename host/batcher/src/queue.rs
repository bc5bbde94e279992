//! What a batcher keeps under its lock: the waiting jobs in order of arrival, and the engine's slots.

use std::collections::VecDeque;
use std::time::Instant;

use sagehost_types::Fault;
use tokio::sync::oneshot;

use crate::batcher::QueueTime;
use crate::policy::{Action, Settings, Slots, Waiting, decide};

/// Where a job's answer goes.
pub(crate) type Answer<R> = oneshot::Sender<Result<(R, QueueTime), Fault>>;

/// A job in the queue.
pub(crate) struct Item<J, R> {
    id: u64,
    pub(crate) job: J,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Instant,
    pub(crate) answer: Answer<R>,
}

/// See the module.
pub(crate) struct State<J, R> {
    queue: VecDeque<Item<J, R>>,
    next_id: u64,
    slots: Slots,
    in_flight: usize,
}

impl<J, R> State<J, R> {
    pub(crate) fn new(slots: usize) -> Self {
        let slots = Slots { free: slots.max(1), busy: 0 };
        Self { queue: VecDeque::new(), next_id: 0, slots, in_flight: 0 }
    }

    /// Appends a job and returns its id.
    pub(crate) fn push(&mut self, job: J, arrived: Instant, deadline: Instant, answer: Answer<R>) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.queue.push_back(Item { id, job, arrived, deadline, answer });
        id
    }

    /// Takes a job out of the queue, if it is still there. The caller drops it outside the lock.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Item<J, R>> {
        let place = self.queue.binary_search_by_key(&id, |item| item.id).ok()?;
        self.queue.remove(place)
    }

    /// The next batch, if the policy wants one now; its slot is then busy until [`Self::finish`].
    pub(crate) fn take(&mut self, settings: &Settings, now: Instant) -> Option<Vec<Item<J, R>>> {
        let waiting = self.queue.front().map(|oldest| Waiting { jobs: self.queue.len(), oldest: oldest.arrived });
        let Action::Take(jobs) = decide(settings, now, waiting, self.slots) else {
            return None;
        };
        self.slots.free -= 1;
        self.slots.busy += 1;
        let batch: Vec<_> = self.queue.drain(..jobs.min(self.queue.len())).collect();
        self.in_flight += batch.len();
        Some(batch)
    }

    /// Gives a slot back.
    pub(crate) fn finish(&mut self, jobs: usize) {
        self.slots.busy -= 1;
        self.slots.free += 1;
        self.in_flight -= jobs;
    }

    pub(crate) fn queued(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight
    }
}
