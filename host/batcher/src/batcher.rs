//! The owner of one release's queue.
//!
//! There is no task of its own: whoever changes the queue (a submitter, a compute thread that finished a batch, the timer of
//! a waiting submitter) asks the policy and starts what it wants. A request on an idle engine therefore costs two wake-ups,
//! a compute thread's and the submitter's, and each submitter watches its own deadline, also while the engine is busy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sagehost_types::{Code, Fault};
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use crate::policy::Settings;
use crate::pool::{ComputePool, RETRY_AFTER, panic_text};
use crate::queue::{Item, State};

/// How long a job waited between its arrival and the start of its batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTime(pub Duration);

/// How many jobs a batcher holds. Both return to 0 when it has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gauges {
    /// Jobs that wait for a batch.
    pub queued: usize,
    /// Jobs in batches that are running, or that wait for a compute thread.
    pub in_flight: usize,
}

type Executor<J, R> = dyn Fn(Vec<J>) -> Vec<Result<R, Fault>> + Send + Sync;

struct Inner<J, R> {
    settings: Settings,
    slots: usize,
    executor: Box<Executor<J, R>>,
    pool: Arc<ComputePool>,
    state: Mutex<State<J, R>>,
}

/// A bounded queue of jobs `J`, computed in batches to results `R` on a [`ComputePool`].
pub struct Batcher<J, R> {
    inner: Arc<Inner<J, R>>,
}

impl<J, R> std::fmt::Debug for Batcher<J, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batcher").field("settings", &self.inner.settings).finish_non_exhaustive()
    }
}

impl<J: Send + 'static, R: Send + 'static> Batcher<J, R> {
    /// Makes a queue. At most `slots` batches (at least one) run at the same time.
    ///
    /// `executor` runs on the pool's threads. It answers a batch's jobs by position; a job for which it returns no row, or
    /// all of them where it panics, fail with [`Code::Internal`].
    pub fn spawn(
        settings: Settings,
        slots: usize,
        executor: impl Fn(Vec<J>) -> Vec<Result<R, Fault>> + Send + Sync + 'static,
        pool: Arc<ComputePool>,
    ) -> Self {
        let state = Mutex::new(State::new(slots));
        let executor = Box::new(executor);
        Self { inner: Arc::new(Inner { settings, slots, executor, pool, state }) }
    }

    /// Computes one job in some batch. Dropping the future takes the job out of the queue; a job is never computed once its
    /// future is gone or its deadline has passed.
    ///
    /// # Errors
    /// [`Code::Overloaded`] where the queue is full, [`Code::DeadlineExceeded`] at the deadline whether or not the engine is
    /// busy, [`Code::Internal`] where the executor fails, and what the executor answers for this job.
    pub async fn submit(&self, job: J, deadline: Instant) -> Result<(R, QueueTime), Fault> {
        let arrived = now();
        if deadline <= arrived {
            return Err(expired());
        }
        let (answer, mut receiver) = oneshot::channel();
        let id = {
            let mut state = self.inner.lock();
            let max_queue = self.inner.settings.max_queue.max(1);
            if state.queued() >= max_queue {
                let detail = format!("the release's queue of {max_queue} requests is full");
                return Err(Fault::new(Code::Overloaded, detail).retry_after(RETRY_AFTER));
            }
            state.push(job, arrived, deadline, answer)
        };
        let _leave = Leave { inner: &self.inner, id };
        Inner::pump(&self.inner);
        // The policy lets a job wait for company only where there is more than one slot. The oldest job's timer is the one
        // that ends the wait, and every job has its own, since any may become the oldest.
        let company = arrived.checked_add(self.inner.settings.max_wait).filter(|_| self.inner.slots > 1);
        if let Some(company) = company.filter(|until| *until > arrived && *until < deadline) {
            match timeout_at(company.into(), &mut receiver).await {
                Ok(answer) => return answer.unwrap_or_else(|_| Err(lost())),
                Err(_) => Inner::pump(&self.inner),
            }
        }
        match timeout_at(deadline.into(), &mut receiver).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(lost())),
            Err(_) => Err(expired()),
        }
    }

    /// How many jobs there are now.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let state = self.inner.lock();
        Gauges { queued: state.queued(), in_flight: state.in_flight() }
    }
}

impl<J, R> Inner<J, R> {
    fn lock(&self) -> MutexGuard<'_, State<J, R>> {
        // No code of a caller runs under this lock, so a poisoned one still holds a sound state.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<J: Send + 'static, R: Send + 'static> Inner<J, R> {
    /// Starts every batch that the policy wants now.
    fn pump(this: &Arc<Self>) {
        loop {
            let Some(batch) = this.lock().take(&this.settings, now()) else {
                return;
            };
            let slot = Slot { inner: Arc::clone(this), jobs: batch.len() };
            this.pool.spawn(move || slot.run(batch));
        }
    }
}

/// Takes a job out of the queue when its submitter goes, for whatever reason.
struct Leave<'a, J, R> {
    inner: &'a Inner<J, R>,
    id: u64,
}

impl<J, R> Drop for Leave<'_, J, R> {
    fn drop(&mut self) {
        // Dropped after the lock is released: a job may hold anything.
        let left = self.inner.lock().remove(self.id);
        drop(left);
    }
}

/// A busy slot; free again when dropped, so also when the executor panics.
struct Slot<J: Send + 'static, R: Send + 'static> {
    inner: Arc<Inner<J, R>>,
    jobs: usize,
}

impl<J: Send + 'static, R: Send + 'static> Slot<J, R> {
    fn run(self, batch: Vec<Item<J, R>>) {
        let started = now();
        let mut jobs = Vec::with_capacity(batch.len());
        let mut answers = Vec::with_capacity(batch.len());
        for item in batch {
            if item.answer.is_closed() {
                continue;
            }
            if item.deadline <= started {
                let _ = item.answer.send(Err(expired()));
                continue;
            }
            jobs.push(item.job);
            answers.push((item.answer, QueueTime(started.saturating_duration_since(item.arrived))));
        }
        let results = match jobs.is_empty() {
            true => Vec::new(),
            false => self.execute(jobs),
        };
        // The slot first: the next batch may start while the answers go out, and whoever has an answer sees the gauges
        // without it.
        drop(self);
        if results.len() != answers.len() {
            tracing::error!(jobs = answers.len(), rows = results.len(), "the executor answered a wrong number of rows");
        }
        let mut results = results.into_iter();
        for (answer, waited) in answers {
            let result = results.next().unwrap_or_else(|| Err(lost()));
            // The submitter may have gone meanwhile: then nobody wants the result.
            let _ = answer.send(result.map(|row| (row, waited)));
        }
    }

    fn execute(&self, jobs: Vec<J>) -> Vec<Result<R, Fault>> {
        catch_unwind(AssertUnwindSafe(|| (self.inner.executor)(jobs))).unwrap_or_else(|panic| {
            tracing::error!(panic = panic_text(&*panic), "a batch panicked");
            Vec::new()
        })
    }
}

impl<J: Send + 'static, R: Send + 'static> Drop for Slot<J, R> {
    fn drop(&mut self) {
        self.inner.lock().finish(self.jobs);
        Inner::pump(&self.inner);
    }
}

/// The runtime's clock, which tests can pause.
fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

fn expired() -> Fault {
    Fault::new(Code::DeadlineExceeded, "the deadline passed before the result was computed")
}

fn lost() -> Fault {
    Fault::new(Code::Internal, "the engine gave no result for this request; the server's log has the reason")
}

#[cfg(test)]
#[path = "batcher/tests.rs"]
mod tests;
