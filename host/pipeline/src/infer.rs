//! One request, from a pinned release to its answer.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_telemetry::Stage;
use sagehost_types::limits::{MAX_KEY, MAX_REQUEST_EDGES, MAX_REQUEST_NODES, MAX_SEEDS};
use sagehost_types::{Code, Fault, Key, TimeMs};

use crate::api::{Decision, Features, InferRequest, InferResponse, SeedResult, Timings};
use crate::decide;
use crate::job::{JobResult, SeedOutcome};
use crate::live::Live;
use crate::ready::{ReadySeed, make_ready, wanted};
use crate::release::LoadedRelease;

/// Answers a request on the release and policy that it pinned. Dropping the future abandons the work that has not begun.
///
/// # Errors
/// Every [`Fault`] that a request can meet; the fault names the field where there is one.
pub async fn infer(live: Arc<Live>, request: InferRequest) -> Result<InferResponse, Fault> {
    let release = Arc::clone(&live.release);
    let limit = Duration::from_millis(u64::from(release.spec.limits.deadline_ms));
    let deadline = request.arrived + request.timeout.map_or(limit, |t| t.min(limit));
    check_sizes(&request)?;
    let _in_hand = match request.want.decision {
        true => {
            release.post_processor()?;
            Some(release.take_in_hand(request.seeds.len())?)
        }
        false => None,
    };

    // Looking keys up touches the memory-mapped graph and pre-processors are guests: neither belongs on an I/O thread. What
    // calls no guest does not wait behind those that do.
    let request = Arc::new(request);
    let threads = if calls_pre_processor(&release, &request) { &release.guests } else { &*release.compute };
    let (pinned, asked) = (Arc::clone(&release), Arc::clone(&request));
    let ready = within(deadline, threads.run(move || make_ready(&pinned, &asked, deadline))).await??;

    let (as_of_ms, mut timings) = (ready.job.as_of_ms, Timings::default());
    (timings.route, timings.preprocess) = (ready.route, ready.preprocess);
    let (result, queued) = release.batcher.submit((ready.job, release.waiting()), deadline).await?;
    timings.queue = queued.0;
    (timings.sample, timings.gather, timings.dense) =
        (result.timings.sample, result.timings.gather, result.timings.dense);

    let results = if request.want.decision {
        let (pinned, asked, seeds) = (Arc::clone(&live), Arc::clone(&request), ready.seeds);
        let work = move || {
            let started = Instant::now();
            decide_all(&pinned, &asked, seeds, result, as_of_ms, deadline).map(|results| (results, started.elapsed()))
        };
        let (results, took) = within(deadline, release.guests.run(work)).await??;
        timings.postprocess = took;
        results
    } else {
        let embeddings = request.want.embeddings;
        let seeds = request.seeds.iter().zip(result.seeds);
        seeds.map(|(seed, outcome)| seed_result(&seed.key, outcome, embeddings, None)).collect()
    };
    count_stages(&release, &timings, &request);
    Ok(InferResponse {
        release: release.id.clone(),
        graph: release.graph().version().clone(),
        numerics_id: Arc::clone(&release.numerics_id),
        as_of_ms,
        classes: Arc::clone(&release.classes),
        results,
        timings,
    })
}

/// Whether the stages before the queue call a guest: for a rule, and for rows that replace or add to the graph's.
fn calls_pre_processor(release: &LoadedRelease, request: &InferRequest) -> bool {
    let gives_rows = || !request.nodes.is_empty() || request.seeds.iter().any(|seed| seed.features != Features::Absent);
    release.core.shared.plugins.pre.is_some() && (request.want.decision || gives_rows())
}

/// A request's own stages; those of its batch are counted once for the batch.
fn count_stages(release: &LoadedRelease, timings: &Timings, request: &InferRequest) {
    release.metrics.stage(Stage::Route, timings.route);
    release.metrics.stage(Stage::Queue, timings.queue);
    if timings.preprocess > Duration::ZERO {
        release.metrics.stage(Stage::Preprocess, timings.preprocess);
    }
    if request.want.decision {
        release.metrics.stage(Stage::Postprocess, timings.postprocess);
    }
}

/// Waits for work until the deadline.
async fn within<T>(deadline: Instant, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
    match tokio::time::timeout_at(deadline.into(), work).await {
        Ok(done) => done,
        Err(_) => Err(Fault::new(Code::DeadlineExceeded, "the deadline passed before there was an answer")),
    }
}

fn check_sizes(request: &InferRequest) -> Result<(), Fault> {
    let bound = |what: &str, size: usize, most: usize, at: &str| match size {
        size if size > most => Err(Fault::new(Code::InvalidField, format!("{size} {what}, at most {most}")).at(at)),
        _ => Ok(()),
    };
    if request.seeds.is_empty() {
        return Err(Fault::new(Code::InvalidField, "name at least one node").at("/nodes"));
    }
    bound("nodes", request.seeds.len(), MAX_SEEDS, "/nodes")?;
    bound("nodes", request.nodes.len(), MAX_REQUEST_NODES, "/graph/nodes")?;
    bound("edges", request.edges.len(), MAX_REQUEST_EDGES, "/graph/edges")?;
    let keys = request.seeds.iter().map(|s| &s.key).chain(request.nodes.iter().map(|n| &n.key));
    for key in keys {
        if let Key::Text(text) = key {
            bound("bytes in a key", text.len(), MAX_KEY, "/nodes")?;
        }
    }
    Ok(())
}

/// Runs the post-processor for every seed.
fn decide_all(
    live: &Live,
    request: &Arc<InferRequest>,
    ready: Vec<ReadySeed>,
    result: JobResult,
    as_of_ms: TimeMs,
    deadline: Instant,
) -> Result<Vec<SeedResult>, Fault> {
    let release = &live.release;
    let shared = &release.core.shared;
    let context = decide::context(&request.request_id, as_of_ms);
    let mut results = Vec::with_capacity(result.seeds.len());
    for ((seed, ready), outcome) in request.seeds.iter().zip(ready).zip(result.seeds) {
        wanted(request)?;
        let decision =
            decide::decide(shared, &context, (&ready.request, &ready.prepared), &outcome, &live.policy, deadline)?;
        results.push(seed_result(&seed.key, outcome, request.want.embeddings, Some(decision)));
    }
    Ok(results)
}

fn seed_result(key: &Key, outcome: SeedOutcome, embeddings: bool, decision: Option<Decision>) -> SeedResult {
    SeedResult {
        key: key.clone(),
        logits: outcome.logits,
        scores: outcome.scores,
        embedding: embeddings.then_some(outcome.embedding),
        decision,
    }
}

#[cfg(test)]
mod tests;
