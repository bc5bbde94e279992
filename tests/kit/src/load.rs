//! Open-loop load: requests start at fixed times whether or not earlier ones were answered, so that a stall is seen by
//! every request that it should have delayed.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::{Answer, Client};

type Check = dyn Fn(usize, &Answer) -> Result<(), String> + Send + Sync;

/// A running load.
pub struct Load {
    stop: Arc<AtomicBool>,
    workers: Vec<JoinHandle<()>>,
    tally: Arc<Tally>,
}

#[derive(Default)]
struct Tally {
    sent: AtomicUsize,
    failed: Mutex<Vec<String>>,
}

/// What a load saw.
#[derive(Debug)]
pub struct Seen {
    /// Requests sent, each answered or counted as failed.
    pub sent: usize,
    /// What went wrong with the ones that failed.
    pub failed: Vec<String>,
}

impl Load {
    /// Sends `rate` requests a second to `path` until [`Self::stop`]. `body(n)` makes the n-th request, `check` judges
    /// its answer; an answer that never came counts as failed.
    pub fn start(
        address: &str,
        path: &'static str,
        rate: f64,
        body: impl Fn(usize) -> Value + Send + Sync + 'static,
        check: impl Fn(usize, &Answer) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        // Enough that a stall of a second at the rates used here leaves a free worker for each request.
        const WORKERS: usize = 32;
        let (stop, tally) = (Arc::new(AtomicBool::new(false)), Arc::new(Tally::default()));
        let next = Arc::new(AtomicUsize::new(0));
        let (body, check): (Arc<dyn Fn(usize) -> Value + Send + Sync>, Arc<Check>) = (Arc::new(body), Arc::new(check));
        let started = Instant::now();
        let workers = (0..WORKERS).map(|_| {
            let client = Client::new(address);
            let (stop, tally, next) = (Arc::clone(&stop), Arc::clone(&tally), Arc::clone(&next));
            let (body, check) = (Arc::clone(&body), Arc::clone(&check));
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let due = started + Duration::from_secs_f64(number as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    tally.sent.fetch_add(1, Ordering::Relaxed);
                    let verdict = match client.try_post(path, &body(number)) {
                        Ok(answer) => check(number, &answer),
                        Err(error) => Err(error.to_string()),
                    };
                    if let Err(why) = verdict {
                        tally.failed.lock().expect("no panic while counting").push(why);
                    }
                }
            })
        });
        Self { workers: workers.collect(), stop, tally }
    }

    /// Ends the load and gives what it saw.
    ///
    /// # Panics
    /// Where a worker panicked.
    #[must_use]
    pub fn stop(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        for worker in self.workers {
            worker.join().expect("a worker of the load");
        }
        let failed = std::mem::take(&mut *self.tally.failed.lock().expect("no panic while counting"));
        Seen { sent: self.tally.sent.load(Ordering::Relaxed), failed }
    }
}
