//! What a release does before its first request: run the graph's first nodes through everything that a request meets, so that
//! code, buffers and plugin instances are warm, and so that a rule that fails on everything is found out now.

use std::time::{Duration, Instant};

use sagehost_plugin::api::Policy;
use sagehost_types::{Fault, Node};

use crate::api::{Endpoint, Features};
use crate::columns::Columns;
use crate::core::Core;
use crate::job::{Job, JobSeed, OwnGraph, SeedNode};
use crate::rehearsal::{Rehearsal, of_request};

/// Generous: a cold start may read every page from disk.
const LIMIT: Duration = Duration::from_secs(30);
/// How many nodes are tried for one that the schema lets be decided on.
const DECIDE_TRIES: u64 = 32;

/// Runs the first nodes alone and as a full batch, and takes the first one to its decision.
///
/// # Errors
/// The first fault that is the release's and not the node's.
pub(crate) fn run(core: &Core, columns: &Columns, policy: &Policy, max_batch: usize) -> Result<(), String> {
    let all: Vec<Job> = (0..core.binding.graph.num_nodes().min(max_batch as u64)).map(|node| job(core, node)).collect();
    let results = |batch: &[Job]| if batch.is_empty() { Vec::new() } else { core.execute(batch) };
    results(all.get(..1).unwrap_or_default());
    // A node may lack a value that the schema refuses; where every node is refused it is the release that cannot serve.
    let mut refused = None;
    let results = results(&all);
    let none_served = !results.is_empty() && results.iter().all(Result::is_err);
    for fault in results.into_iter().filter_map(Result::err) {
        if !of_request(&fault) {
            return Err(format!("warm-up: {fault}"));
        }
        refused = Some(fault);
    }
    match refused {
        Some(fault) if none_served => Err(format!("warm-up: every node is refused, such as: {fault}")),
        _ => decide(core, columns, policy),
    }
}

/// Takes the first node that can be decided on to its decision.
///
/// # Errors
/// The first fault that is the rule's and not the request's.
pub(crate) fn decide(core: &Core, columns: &Columns, policy: &Policy) -> Result<(), String> {
    if core.shared.plugins.post.is_none() {
        return Ok(());
    }
    for node in 0..core.binding.graph.num_nodes().min(DECIDE_TRIES) {
        match decide_on(core, columns, policy, node) {
            Ok(()) => return Ok(()),
            // This request names no features: a rule may well refuse it.
            Err(fault) if of_request(&fault) => {}
            Err(fault) => return Err(format!("the decision on a node fails: {fault}")),
        }
    }
    Ok(())
}

fn job(core: &Core, node: Node) -> Job {
    Job {
        seeds: vec![JobSeed { node: SeedNode::Known(node), row: None }],
        as_of_ms: core.binding.graph.latest_ms(),
        own: OwnGraph::default(),
        endpoint: Endpoint::Predict,
        evidence: false,
        full_neighbourhood: false,
        deadline: Instant::now() + LIMIT,
    }
}

fn decide_on(core: &Core, columns: &Columns, policy: &Policy, node: Node) -> Result<(), Fault> {
    let rehearsal = Rehearsal {
        request_id: "warm-up",
        node,
        features: &Features::Absent,
        as_of_ms: core.binding.graph.latest_ms(),
        full_neighbourhood: false,
        deadline: Instant::now() + LIMIT,
    };
    rehearsal.run(core, columns, policy)?.decided.map_or(Ok(()), |decided| decided.map(drop))
}
