use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};

use super::*;

const FAR: Duration = Duration::from_secs(3600);

/// A batcher whose executor tells which jobs it was given, then waits for a verdict: how many rows to answer, or a panic.
struct Bench {
    batcher: Arc<Batcher<u32, u32>>,
    batches: Arc<Mutex<mpsc::Receiver<Vec<u32>>>>,
    verdicts: mpsc::Sender<Verdict>,
}

enum Verdict {
    Rows(usize),
    Panic,
}

fn bench(settings: Settings, slots: usize) -> Bench {
    let (tell, batches) = mpsc::channel();
    let (verdicts, gate) = mpsc::channel();
    let gate = Mutex::new(gate);
    let executor = move |jobs: Vec<u32>| {
        tell.send(jobs.clone()).unwrap();
        match gate.lock().unwrap_or_else(PoisonError::into_inner).recv() {
            Ok(Verdict::Rows(n)) => jobs.into_iter().take(n).map(|job| Ok(job * 10)).collect(),
            Ok(Verdict::Panic) => panic!("executor"),
            // The test is over.
            Err(_) => Vec::new(),
        }
    };
    let pool = Arc::new(ComputePool::new("batch", slots, 0).unwrap());
    let batcher = Arc::new(Batcher::spawn(settings, slots, executor, pool));
    Bench { batcher, batches: Arc::new(Mutex::new(batches)), verdicts }
}

impl Bench {
    fn submit(&self, job: u32, wait: Duration) -> tokio::task::JoinHandle<Result<(u32, QueueTime), Fault>> {
        let batcher = Arc::clone(&self.batcher);
        let deadline = now() + wait;
        tokio::spawn(async move { batcher.submit(job, deadline).await })
    }

    /// The next batch to begin. A blocking task keeps a paused clock from running ahead.
    async fn batch(&self) -> Vec<u32> {
        let batches = Arc::clone(&self.batches);
        tokio::task::spawn_blocking(move || batches.lock().unwrap().recv().unwrap()).await.unwrap()
    }

    /// Lets every task that is ready run.
    async fn settle(&self) {
        for _ in 0..8 {
            tokio::task::yield_now().await;
        }
    }

    fn finish(&self, verdict: Verdict) {
        self.verdicts.send(verdict).unwrap();
    }

    fn assert_idle(&self) {
        assert_eq!(self.batcher.gauges(), Gauges { queued: 0, in_flight: 0 });
    }
}

/// Waits until nothing is queued or running. Its blocking tasks keep a paused clock from running ahead.
async fn idle(batcher: &Batcher<u32, u32>) {
    while batcher.gauges() != (Gauges { queued: 0, in_flight: 0 }) {
        tokio::task::spawn_blocking(std::thread::yield_now).await.unwrap();
    }
}

fn settings(max_batch: usize, max_queue: usize) -> Settings {
    Settings { max_batch, max_wait: Duration::from_millis(5), max_queue }
}

#[tokio::test]
async fn an_idle_engine_starts_at_once_and_a_busy_one_gathers() {
    let bench = bench(settings(3, 10), 1);
    let first = bench.submit(1, FAR);
    assert_eq!(bench.batch().await, [1]);
    let later: Vec<_> = (2..7).map(|job| bench.submit(job, FAR)).collect();
    bench.settle().await;
    assert_eq!(bench.batcher.gauges(), Gauges { queued: 5, in_flight: 1 });
    for expected in [&[2, 3, 4][..], &[5, 6]] {
        bench.finish(Verdict::Rows(9));
        assert_eq!(bench.batch().await, expected);
    }
    bench.finish(Verdict::Rows(9));
    assert_eq!(first.await.unwrap().unwrap().0, 10);
    for (job, answer) in (2..).zip(later) {
        assert_eq!(answer.await.unwrap().unwrap().0, job * 10);
    }
    bench.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn the_last_slot_waits_for_company_but_no_longer_than_max_wait() {
    let bench = bench(settings(3, 10), 2);
    let start = now();
    let first = bench.submit(1, FAR);
    assert_eq!(bench.batch().await, [1]);
    let second = bench.submit(2, FAR);
    let third = bench.submit(3, FAR);
    bench.settle().await;
    assert_eq!(bench.batcher.gauges(), Gauges { queued: 2, in_flight: 1 });
    tokio::time::sleep(Duration::from_millis(4)).await;
    assert_eq!(bench.batcher.gauges().queued, 2);
    tokio::time::sleep(Duration::from_millis(2)).await;
    assert_eq!(bench.batch().await, [2, 3]);
    assert_eq!(now() - start, Duration::from_millis(6));
    bench.finish(Verdict::Rows(9));
    bench.finish(Verdict::Rows(9));
    // The clock must not run to their deadlines while the compute threads work.
    let answers = tokio::task::spawn_blocking(move || {
        let handle = tokio::runtime::Handle::current();
        [first, second, third].map(|answer| handle.block_on(answer).unwrap().unwrap().0)
    });
    assert_eq!(answers.await.unwrap(), [10, 20, 30]);
    bench.assert_idle();
}

#[tokio::test]
async fn a_full_batch_does_not_wait() {
    let bench = bench(Settings { max_wait: FAR, ..settings(2, 10) }, 2);
    let mut answers = vec![bench.submit(1, 2 * FAR)];
    assert_eq!(bench.batch().await, [1]);
    answers.extend([bench.submit(2, 2 * FAR), bench.submit(3, 2 * FAR)]);
    assert_eq!(bench.batch().await, [2, 3]);
    bench.finish(Verdict::Rows(9));
    bench.finish(Verdict::Rows(9));
    for answer in answers {
        answer.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_full_queue_refuses() {
    let bench = bench(settings(4, 2), 1);
    let running = bench.submit(1, FAR);
    bench.batch().await;
    let queued = [bench.submit(2, FAR), bench.submit(3, FAR)];
    bench.settle().await;
    let fault = bench.batcher.submit(4, now() + FAR).await.unwrap_err();
    assert_eq!(fault.code, Code::Overloaded);
    assert!(fault.retry_after.is_some());
    bench.finish(Verdict::Rows(9));
    assert_eq!(bench.batch().await, [2, 3], "the refused job is not computed");
    bench.finish(Verdict::Rows(9));
    for answer in queued.into_iter().chain([running]) {
        answer.await.unwrap().unwrap();
    }
    bench.assert_idle();
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds_while_the_engine_is_busy() {
    let bench = bench(settings(4, 10), 1);
    let start = now();
    let running = bench.submit(1, Duration::from_millis(50));
    assert_eq!(bench.batch().await, [1]);
    let queued = bench.submit(2, Duration::from_millis(20));
    // The executor never answers before the deadlines: the paused clock jumps to them.
    assert_eq!(queued.await.unwrap().unwrap_err().code, Code::DeadlineExceeded);
    assert_eq!(now() - start, Duration::from_millis(20));
    assert_eq!(bench.batcher.gauges(), Gauges { queued: 0, in_flight: 1 });
    assert_eq!(running.await.unwrap().unwrap_err().code, Code::DeadlineExceeded);
    assert_eq!(now() - start, Duration::from_millis(50));
    bench.finish(Verdict::Rows(9));
    idle(&bench.batcher).await;
    assert!(bench.batches.lock().unwrap().try_recv().is_err(), "the expired job was not computed");
}

#[tokio::test]
async fn a_deadline_in_the_past_is_refused() {
    let bench = bench(settings(4, 10), 1);
    assert_eq!(bench.batcher.submit(1, now()).await.unwrap_err().code, Code::DeadlineExceeded);
    bench.assert_idle();
}

#[tokio::test]
async fn a_dropped_submitter_takes_its_job_along() {
    let bench = bench(settings(4, 10), 1);
    let running = bench.submit(1, FAR);
    bench.batch().await;
    {
        let mut leaving = pin!(bench.batcher.submit(2, now() + FAR));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(leaving.as_mut().poll(&mut context), Poll::Pending));
        assert_eq!(bench.batcher.gauges().queued, 1);
    }
    assert_eq!(bench.batcher.gauges().queued, 0);
    let stays = bench.submit(3, FAR);
    bench.settle().await;
    bench.finish(Verdict::Rows(9));
    assert_eq!(bench.batch().await, [3]);
    bench.finish(Verdict::Rows(9));
    stays.await.unwrap().unwrap();
    running.await.unwrap().unwrap();
    bench.assert_idle();
}

#[tokio::test]
async fn a_job_that_leaves_between_batch_and_thread_is_not_computed() {
    // One thread and two slots: the second batch is formed while the only thread is busy with the first.
    let (tell, batches) = mpsc::channel();
    let (release, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let executor = move |jobs: Vec<u32>| {
        tell.send(jobs.clone()).unwrap();
        let _ = gate.lock().unwrap().recv();
        jobs.into_iter().map(Ok).collect()
    };
    let pool = Arc::new(ComputePool::new("batch", 1, 0).unwrap());
    let batcher = Arc::new(Batcher::spawn(Settings { max_wait: Duration::ZERO, ..settings(4, 4) }, 2, executor, pool));
    let first = Arc::clone(&batcher);
    let first = tokio::spawn(async move { first.submit(1, now() + FAR).await });
    let batches = tokio::task::spawn_blocking(move || {
        assert_eq!(batches.recv().unwrap(), [1]);
        batches
    });
    let batches = batches.await.unwrap();
    {
        let mut leaving = pin!(batcher.submit(2, now() + FAR));
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(leaving.as_mut().poll(&mut context), Poll::Pending));
        assert_eq!(batcher.gauges(), Gauges { queued: 0, in_flight: 2 });
    }
    drop(release);
    first.await.unwrap().unwrap();
    idle(&batcher).await;
    assert!(batches.try_recv().is_err());
}

#[tokio::test]
async fn missing_rows_and_panics_cost_their_own_jobs() {
    let bench = bench(settings(4, 10), 1);
    let running = bench.submit(1, FAR);
    bench.batch().await;
    let (fine, short) = (bench.submit(2, FAR), bench.submit(3, FAR));
    bench.settle().await;
    bench.finish(Verdict::Panic);
    assert_eq!(running.await.unwrap().unwrap_err().code, Code::Internal);
    assert_eq!(bench.batch().await, [2, 3]);
    bench.finish(Verdict::Rows(1));
    assert_eq!(fine.await.unwrap().unwrap().0, 20);
    assert_eq!(short.await.unwrap().unwrap_err().code, Code::Internal);
    let after = bench.submit(4, FAR);
    assert_eq!(bench.batch().await, [4]);
    bench.finish(Verdict::Rows(1));
    after.await.unwrap().unwrap();
    bench.assert_idle();
}
