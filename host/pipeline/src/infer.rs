//! One request, from a pinned release to its answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_telemetry::Stage;
use sagehost_types::limits::{MAX_KEY, MAX_REQUEST_EDGES, MAX_REQUEST_NODES, MAX_SEEDS};
use sagehost_types::{Code, Fault, Key, TimeMs};

use crate::api::{Decision, Endpoint, Features, InferRequest, InferResponse, RequestEdge, SeedResult, Timings};
use crate::columns::RawRow;
use crate::decide;
use crate::job::{Job, JobResult, JobSeed, OwnEdge, OwnGraph, OwnNode, SeedNode, SeedOutcome};
use crate::live::Live;
use crate::release::LoadedRelease;

/// What the stages before the queue made of a request.
struct Ready {
    job: Job,
    /// For each seed, what the post-processor will see.
    seeds: Vec<ReadySeed>,
    route: Duration,
    preprocess: Duration,
}

struct ReadySeed {
    request: sagehost_plugin::api::Request,
    prepared: Vec<f32>,
}

/// Answers a request on the release and policy that it pinned. Dropping the future abandons the work that has not begun.
///
/// # Errors
/// Every [`Fault`] that a request can meet; the fault names the field where there is one.
pub async fn infer(live: Arc<Live>, request: InferRequest) -> Result<InferResponse, Fault> {
    let release = Arc::clone(&live.release);
    let limit = Duration::from_millis(u64::from(release.spec.limits.deadline_ms));
    let deadline = request.arrived + request.timeout.map_or(limit, |t| t.min(limit));
    check_sizes(&request)?;
    if request.want.decision {
        release.post_processor()?;
    }

    // Looking keys up touches the memory-mapped graph and pre-processors are guests: neither belongs on an I/O thread.
    let request = Arc::new(request);
    let (on_guest, asked) = (Arc::clone(&release), Arc::clone(&request));
    let ready = within(deadline, release.guests.run(move || make_ready(&on_guest, &asked, deadline))).await??;

    let (as_of_ms, mut timings) = (ready.job.as_of_ms, Timings::default());
    (timings.route, timings.preprocess) = (ready.route, ready.preprocess);
    let (result, queued) = release.batcher.submit(ready.job, deadline).await?;
    timings.queue = queued.0;
    (timings.sample, timings.gather, timings.dense) =
        (result.timings.sample, result.timings.gather, result.timings.dense);

    let results = if request.want.decision {
        let started = Instant::now();
        let (pinned, asked, seeds) = (Arc::clone(&live), Arc::clone(&request), ready.seeds);
        let work = move || decide_all(&pinned, &asked, seeds, result, as_of_ms, deadline);
        let results = within(deadline, release.guests.run(work)).await??;
        timings.postprocess = started.elapsed();
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

/// Finds the nodes, settles the features and runs the pre-processor.
fn make_ready(release: &LoadedRelease, request: &InferRequest, deadline: Instant) -> Result<Ready, Fault> {
    let started = Instant::now();
    let graph = release.graph();
    let shared = &release.core.shared;
    let as_of_ms = request.as_of_ms.unwrap_or_else(|| graph.latest_ms());
    let context = decide::context(&request.request_id, as_of_ms);
    let mut preprocess = Duration::ZERO;
    let mut prepare = |seed: &Key, raw: &RawRow| {
        let asked = decide::request(&release.columns, seed, &request.entities, raw);
        let started = Instant::now();
        let prepared = decide::prepare(shared, &context, &asked, raw, deadline);
        preprocess += started.elapsed();
        prepared.map(|prepared| (asked, prepared))
    };

    let (mut own, own_index) = own_nodes(release, request, &mut prepare)?;
    own.edges = own_edges(release, &request.edges, &own_index)?;

    let mut job_seeds = Vec::with_capacity(request.seeds.len());
    let mut seeds = Vec::with_capacity(request.seeds.len());
    for (number, seed) in request.seeds.iter().enumerate() {
        let at = features_pointer(request.endpoint, number);
        let known = graph.find(&seed.key);
        let own_place = own_index.get(&seed.key).copied();
        if known.is_none() && own_place.is_none() && seed.features == Features::Absent {
            let detail =
                format!("the graph does not know node `{}`; to score it, send its features and edges", seed.key);
            return Err(Fault::new(Code::UnknownNode, detail).at(node_pointer(request.endpoint, number)));
        }
        // The pre-processor is asked where its answer is used: for rules, or for a row that replaces the graph's.
        if let (Some(node), Features::Absent, false) = (known, &seed.features, request.want.decision) {
            job_seeds.push(JobSeed { node: SeedNode::Known(node), row: None });
            continue;
        }
        let given = match own_place {
            Some(place) if seed.features == Features::Absent => &request.nodes[place].features,
            _ => &seed.features,
        };
        let row = known.map(|node| release.core.binding.row(node)).transpose()?;
        let raw = release.columns.settle(given, row.as_deref(), &at)?;
        let (asked, prepared) = prepare(&seed.key, &raw).map_err(|fault| locate(fault, &at))?;
        let node = match (known, own_place) {
            (Some(node), _) => SeedNode::Known(node),
            (None, Some(place)) => SeedNode::Own(place),
            (None, None) => {
                let row = decide::own_row(shared, &release.columns, &prepared, &seed.key)?;
                own.nodes.push(OwnNode { key: seed.key.clone(), row });
                SeedNode::Own(own.nodes.len() - 1)
            }
        };
        let row = match node {
            SeedNode::Known(_) => decide::seed_row(shared, &release.columns, &raw, &prepared, &seed.key)?,
            SeedNode::Own(_) => None,
        };
        job_seeds.push(JobSeed { node, row });
        seeds.push(ReadySeed { request: asked, prepared });
    }
    let job =
        Job { seeds: job_seeds, as_of_ms, own, evidence: request.want.decision, full_neighbourhood: false, deadline };
    Ok(Ready { job, seeds, route: started.elapsed().saturating_sub(preprocess), preprocess })
}

type Prepare<'a> = dyn FnMut(&Key, &RawRow) -> Result<(sagehost_plugin::api::Request, Vec<f32>), Fault> + 'a;

fn own_nodes(
    release: &LoadedRelease,
    request: &InferRequest,
    prepare: &mut Prepare<'_>,
) -> Result<(OwnGraph, HashMap<Key, usize>), Fault> {
    let mut own = OwnGraph::default();
    let mut index = HashMap::new();
    for (place, node) in request.nodes.iter().enumerate() {
        let at = format!("/graph/nodes/{place}");
        if release.graph().find(&node.key).is_some() {
            let detail =
                format!("the graph knows node `{}`; to override its features, give them with the seed", node.key);
            return Err(Fault::new(Code::InvalidField, detail).at(format!("{at}/key")));
        }
        if index.insert(node.key.clone(), place).is_some() {
            return Err(Fault::new(Code::InvalidField, format!("node `{}` is given twice", node.key)).at(at));
        }
        let at = format!("{at}/features");
        let raw = release.columns.settle(&node.features, None, &at)?;
        let (_, prepared) = prepare(&node.key, &raw).map_err(|fault| locate(fault, &at))?;
        let row = decide::own_row(&release.core.shared, &release.columns, &prepared, &node.key)?;
        own.nodes.push(OwnNode { key: node.key.clone(), row });
    }
    Ok((own, index))
}

fn own_edges(release: &LoadedRelease, edges: &[RequestEdge], own: &HashMap<Key, usize>) -> Result<Vec<OwnEdge>, Fault> {
    let graph = release.graph();
    let mut resolved = Vec::with_capacity(edges.len());
    for (place, edge) in edges.iter().enumerate() {
        let invalid = |field: &str, detail: String| {
            Fault::new(Code::InvalidField, detail).at(format!("/graph/edges/{place}/{field}"))
        };
        let schema = graph.schema();
        let relation = schema.relation(&edge.relation).ok_or_else(|| {
            let names = schema.relations.iter().map(|r| r.name.as_str()).collect::<Vec<_>>().join(", ");
            invalid("relation", format!("the graph has no relation `{}`; it has: {names}", edge.relation))
        })?;
        let relation_schema = &schema.relations[relation as usize];
        let dst = *own.get(&edge.dst).ok_or_else(|| {
            invalid("dst", format!("`{}` is not among the request's own nodes, where its edges must end", edge.dst))
        })?;
        let src =
            match own.get(&edge.src) {
                Some(&index) => SeedNode::Own(index),
                None => SeedNode::Known(graph.find(&edge.src).ok_or_else(|| {
                    invalid("src", format!("`{}` is neither in the graph nor in the request", edge.src))
                })?),
            };
        let time_ms = match (edge.time_ms, relation_schema.timed) {
            (Some(_), true) | (None, false) => edge.time_ms,
            (None, true) => {
                let detail = format!("edges of `{}` have a time", edge.relation);
                return Err(Fault::new(Code::MissingField, detail).at(format!("/graph/edges/{place}/time")));
            }
            (Some(_), false) => return Err(invalid("time", format!("edges of `{}` have no time", edge.relation))),
        };
        let columns = OwnEdge::columns(relation_schema, &edge.columns).map_err(|e| invalid("columns", e))?;
        resolved.push(OwnEdge { relation, src, dst, time_ms, columns });
    }
    Ok(resolved)
}

/// Runs the post-processor for every seed.
fn decide_all(
    live: &Live,
    request: &InferRequest,
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

/// Gives a plugin's fault the place of the features that it was about.
fn locate(fault: Fault, at: &str) -> Fault {
    match (fault.code, &fault.field) {
        (Code::InvalidField | Code::MissingField, None) => fault.at(at),
        _ => fault,
    }
}

fn node_pointer(endpoint: Endpoint, number: usize) -> String {
    match endpoint {
        Endpoint::Predict => format!("/nodes/{number}"),
        Endpoint::Score => "/user_id".into(),
    }
}

fn features_pointer(endpoint: Endpoint, number: usize) -> String {
    match endpoint {
        Endpoint::Predict => format!("/features/{number}"),
        Endpoint::Score => "/features".into(),
    }
}
