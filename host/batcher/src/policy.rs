//! When a batch is formed. Pure: from the time, the queue and the engine's slots to what to do now.
//!
//! A slot is one batch that the engine can run at a time. The rule:
//!
//! - no job or no slot: nothing to do until one arrives;
//! - the engine is idle, or more than one slot is free: take what is there, waiting would only add latency;
//! - one slot is left and others are running: the jobs that come next would have to wait for a running batch, so this slot
//!   is kept for a full batch, or for one whose oldest job has waited [`Settings::max_wait`].
//!
//! With one slot a job therefore never waits for company, only for the engine.

use std::time::{Duration, Instant};

/// A queue's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Most jobs in one batch; 0 counts as 1.
    pub max_batch: usize,
    /// Longest wait for company of the oldest job, while a slot is free and another is busy.
    pub max_wait: Duration,
    /// Most jobs waiting; over it they are refused.
    pub max_queue: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { max_batch: 32, max_wait: Duration::from_millis(5), max_queue: 1024 }
    }
}

/// The queue at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Jobs in the queue; at least 1.
    pub jobs: usize,
    /// When the oldest of them arrived.
    pub oldest: Instant,
}

/// The engine at a moment, in batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slots {
    /// Batches that could start now.
    pub free: usize,
    /// Batches that are running.
    pub busy: usize,
}

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing, until a job arrives or a slot becomes free.
    Idle,
    /// Nothing, until a job arrives, a slot becomes free or this moment comes.
    Wait(Instant),
    /// Start a batch of this many of the oldest jobs.
    Take(usize),
}

/// Decides what to do now; `waiting` is `None` for an empty queue.
#[must_use]
pub fn decide(settings: &Settings, now: Instant, waiting: Option<Waiting>, slots: Slots) -> Action {
    let Some(waiting) = waiting.filter(|w| w.jobs > 0 && slots.free > 0) else {
        return Action::Idle;
    };
    let max_batch = settings.max_batch.max(1);
    if waiting.jobs >= max_batch {
        return Action::Take(max_batch);
    }
    if slots.busy == 0 || slots.free > 1 {
        return Action::Take(waiting.jobs);
    }
    // A wait too long for the clock to express is no different from the longest wait: the batch starts when a slot frees.
    match waiting.oldest.checked_add(settings.max_wait) {
        Some(until) if until > now => Action::Wait(until),
        Some(_) => Action::Take(waiting.jobs),
        None => Action::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_rule_holds(
            max_batch in 0_usize..40,
            wait_ms in 0_u64..10,
            jobs in 0_usize..100,
            age_ms in 0_u64..20,
            free in 0_usize..4,
            busy in 0_usize..4,
        ) {
            let settings = Settings { max_batch, max_wait: Duration::from_millis(wait_ms), max_queue: 100 };
            let oldest = Instant::now();
            let now = oldest + Duration::from_millis(age_ms);
            let waiting = (jobs > 0).then_some(Waiting { jobs, oldest });
            match decide(&settings, now, waiting, Slots { free, busy }) {
                Action::Idle => prop_assert!(jobs == 0 || free == 0),
                Action::Take(n) => {
                    prop_assert!(free > 0 && n > 0 && n <= jobs && n <= max_batch.max(1));
                    prop_assert!(n == jobs || n == max_batch.max(1), "a batch is as large as it can be");
                }
                Action::Wait(until) => {
                    prop_assert!(until > now && until <= oldest + settings.max_wait);
                    prop_assert!(jobs < max_batch && free == 1 && busy > 0, "an idle engine never waits");
                    // And when that moment comes, the batch starts.
                    prop_assert_eq!(decide(&settings, until, waiting, Slots { free, busy }), Action::Take(jobs));
                }
            }
        }
    }

    #[test]
    fn an_endless_wait_does_not_overflow() {
        let settings = Settings { max_wait: Duration::MAX, ..Settings::default() };
        let now = Instant::now();
        let waiting = Some(Waiting { jobs: 1, oldest: now });
        assert_eq!(decide(&settings, now, waiting, Slots { free: 1, busy: 1 }), Action::Idle);
        assert_eq!(decide(&settings, now, waiting, Slots { free: 1, busy: 0 }), Action::Take(1));
    }
}
