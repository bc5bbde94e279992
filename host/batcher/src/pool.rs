//! OS threads for what must not run on an I/O thread: guests and matrix products.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use sagehost_types::{Code, Fault};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// What a refused caller is told to wait: the shortest time that `Retry-After` can carry.
pub(crate) const RETRY_AFTER: Duration = Duration::from_secs(1);

/// A fixed set of named OS threads behind one bounded first-in-first-out queue.
///
/// A job that panics becomes a [`Code::Internal`] fault of its caller; the thread goes on. Dropping the pool waits for the
/// jobs that are running and drops those that have not begun: their callers get [`Code::Unavailable`].
#[derive(Debug)]
pub struct ComputePool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// The operating system refused a thread.
#[derive(Debug, thiserror::Error)]
#[error("cannot start compute thread {index} of {threads}: {source}; lower the number of threads or raise the limit")]
pub struct PoolError {
    index: usize,
    threads: usize,
    source: std::io::Error,
}

struct Shared {
    state: Mutex<State>,
    arrived: Condvar,
    max_queue: usize,
}

struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("max_queue", &self.max_queue).finish_non_exhaustive()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code that can panic runs under this lock, so a poisoned one still holds a sound queue.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        loop {
            let job = {
                let mut state = self.lock();
                loop {
                    if state.closed {
                        return;
                    }
                    match state.jobs.pop_front() {
                        Some(job) => break job,
                        None => state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                    }
                }
            };
            if let Err(panic) = catch_unwind(AssertUnwindSafe(job)) {
                tracing::error!(panic = panic_text(&*panic), "a job on a compute thread panicked");
            }
        }
    }
}

impl ComputePool {
    /// Starts `threads` threads (at least one) named `name-0`, `name-1`, …; at most `max_queue` calls of [`Self::run`] wait.
    ///
    /// # Errors
    /// The operating system refuses a thread; those already started are ended.
    pub fn new(name: &str, threads: usize, max_queue: usize) -> Result<Self, PoolError> {
        let threads = threads.max(1);
        let state = Mutex::new(State { jobs: VecDeque::new(), closed: false });
        let shared = Arc::new(Shared { state, arrived: Condvar::new(), max_queue });
        let mut pool = Self { shared, threads: Vec::with_capacity(threads) };
        for index in 0..threads {
            let shared = Arc::clone(&pool.shared);
            let thread = std::thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || shared.work())
                .map_err(|source| PoolError { index, threads, source })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// How many threads there are.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Runs `job` on one of the threads. It is queued at once, not when the future is first polled; if the future is dropped
    /// before the job begins, the job never begins.
    ///
    /// # Errors
    /// [`Code::Overloaded`] where the queue is full, [`Code::Internal`] where the job panics, [`Code::Unavailable`] where the
    /// pool ends first.
    pub fn run<T, F>(&self, job: F) -> impl Future<Output = Result<T, Fault>> + Send + use<T, F>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let queued = self.push(
            self.shared.max_queue,
            Box::new(move || {
                if sender.is_closed() {
                    return;
                }
                let result = catch_unwind(AssertUnwindSafe(job)).map_err(|panic| {
                    tracing::error!(panic = panic_text(&*panic), "a job on a compute thread panicked");
                    Fault::new(Code::Internal, "a compute job failed; the server's log has the reason")
                });
                // The caller may have gone meanwhile: then nobody wants the result.
                let _ = sender.send(result);
            }),
        );
        async move {
            if !queued {
                let fault = Fault::new(Code::Overloaded, "all compute threads are busy and their queue is full");
                return Err(fault.retry_after(RETRY_AFTER));
            }
            receiver.await.unwrap_or_else(|_| Err(Fault::new(Code::Unavailable, "the server is shutting down")))
        }
    }

    /// Queues a job whose number is bounded elsewhere: a batcher has at most as many as it has slots.
    pub(crate) fn spawn(&self, job: impl FnOnce() + Send + 'static) {
        self.push(usize::MAX, Box::new(job));
    }

    fn push(&self, max_queue: usize, job: Job) -> bool {
        let refused = {
            let mut state = self.shared.lock();
            if state.closed || state.jobs.len() >= max_queue {
                Some(job)
            } else {
                state.jobs.push_back(job);
                None
            }
        };
        // A refused job is dropped after the lock is released: what it holds may call back into the pool.
        if refused.is_some() {
            return false;
        }
        self.shared.arrived.notify_one();
        true
    }
}

impl Drop for ComputePool {
    fn drop(&mut self) {
        let unstarted = {
            let mut state = self.shared.lock();
            state.closed = true;
            std::mem::take(&mut state.jobs)
        };
        self.shared.arrived.notify_all();
        drop(unstarted);
        let this = std::thread::current().id();
        for thread in self.threads.drain(..) {
            // The last owner may be a job on one of the threads, which cannot wait for itself.
            if thread.thread().id() != this && thread.join().is_err() {
                tracing::error!("a compute thread ended by a panic outside any job");
            }
        }
    }
}

/// The message of a panic, where it has one.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("(no message)")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;

    fn pool(threads: usize, max_queue: usize) -> ComputePool {
        ComputePool::new("test", threads, max_queue).unwrap()
    }

    /// Occupies one thread until the returned sender is used or dropped.
    fn occupy(pool: &ComputePool) -> mpsc::Sender<()> {
        let (release, gate) = mpsc::channel::<()>();
        let (started, has_started) = mpsc::channel();
        pool.spawn(move || {
            started.send(()).unwrap();
            let _ = gate.recv();
        });
        has_started.recv().unwrap();
        release
    }

    #[tokio::test]
    async fn runs_on_named_threads() {
        let name = pool(1, 8).run(|| std::thread::current().name().map(String::from)).await.unwrap();
        assert_eq!(name.as_deref(), Some("test-0"));
    }

    #[tokio::test]
    async fn a_panic_is_its_callers_fault_and_the_thread_survives() {
        let pool = pool(1, 8);
        let fault = pool.run(|| -> () { panic!("boom") }).await.unwrap_err();
        assert_eq!(fault.code, Code::Internal);
        pool.spawn(|| panic!("boom"));
        assert_eq!(pool.run(|| 7).await, Ok(7));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_at_once() {
        let pool = pool(1, 1);
        let release = occupy(&pool);
        let waits = pool.run(|| 1);
        let fault = pool.run(|| 2).await.unwrap_err();
        assert_eq!((fault.code, fault.retry_after), (Code::Overloaded, Some(RETRY_AFTER)));
        drop(release);
        assert_eq!(waits.await, Ok(1));
    }

    #[tokio::test]
    async fn an_abandoned_job_never_begins() {
        let pool = pool(1, 8);
        let release = occupy(&pool);
        let ran = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&ran);
        drop(pool.run(move || flag.store(true, Ordering::SeqCst)));
        drop(release);
        pool.run(|| ()).await.unwrap();
        assert!(!ran.load(Ordering::SeqCst));
    }

    #[tokio::test]
    async fn dropping_joins_and_refuses_what_has_not_begun() {
        let pool = pool(1, 8);
        let release = occupy(&pool);
        let waits = pool.run(|| 1);
        let dropping = std::thread::spawn(move || drop(pool));
        assert_eq!(waits.await.unwrap_err().code, Code::Unavailable);
        drop(release);
        dropping.join().unwrap();
    }

    #[test]
    fn the_last_owner_may_be_a_job() {
        let pool = Arc::new(pool(2, 8));
        let (done, is_done) = mpsc::channel();
        let owned = Arc::clone(&pool);
        pool.spawn(move || {
            // Drops the pool here, unless the test's own handle is still alive; both orders must end.
            drop(owned);
            done.send(()).unwrap();
        });
        drop(pool);
        is_done.recv().unwrap();
    }
}
