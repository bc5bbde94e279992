//! What a request puts into its release's queue, and what it gets back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_plugin::api::Evidence;
use sagehost_types::{Key, Node, TimeMs};

use crate::api::Endpoint;

/// The model's part of one request.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) seeds: Vec<JobSeed>,
    pub(crate) as_of_ms: TimeMs,
    /// Nodes and edges that the request brings along.
    pub(crate) own: OwnGraph,
    /// Who asked: where a fault of a seed is.
    pub(crate) endpoint: Endpoint,
    /// Whether the post-processor will want the sampled neighbours.
    pub(crate) evidence: bool,
    /// Sample every neighbour natively, whatever the release says: golden examples.
    pub(crate) full_neighbourhood: bool,
    pub(crate) deadline: Instant,
}

/// A seed of a job.
#[derive(Clone, Debug)]
pub(crate) struct JobSeed {
    pub(crate) node: SeedNode,
    /// The input row in the model's space where the request overrides the graph's.
    pub(crate) row: Option<Arc<[f32]>>,
}

/// Where a seed is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SeedNode {
    /// In the graph.
    Known(Node),
    /// Among the request's own nodes.
    Own(usize),
}

/// Nodes and edges of one request, resolved.
#[derive(Debug, Default)]
pub(crate) struct OwnGraph {
    pub(crate) nodes: Vec<OwnNode>,
    pub(crate) edges: Vec<OwnEdge>,
}

/// A node that the graph does not know.
#[derive(Clone, Debug)]
pub(crate) struct OwnNode {
    pub(crate) key: Key,
    /// The input row in the model's space.
    pub(crate) row: Arc<[f32]>,
}

/// An edge into one of the request's own nodes.
#[derive(Clone, Debug)]
pub(crate) struct OwnEdge {
    /// The graph's relation index.
    pub(crate) relation: u32,
    pub(crate) src: SeedNode,
    /// Index of an own node.
    pub(crate) dst: usize,
    /// Given where the relation has times.
    pub(crate) time_ms: Option<TimeMs>,
    /// Values in the order of the relation's columns.
    pub(crate) columns: Vec<f32>,
}

impl OwnEdge {
    /// Column values in the relation's order: what is not given is 0, a weight 1.
    pub(crate) fn columns(
        schema: &sagehost_graph::RelationSchema,
        given: &BTreeMap<String, f32>,
    ) -> Result<Vec<f32>, String> {
        if let Some(unknown) = given.keys().find(|name| schema.column(name).is_none()) {
            return Err(format!("relation `{}` has no column `{unknown}`", schema.name));
        }
        let default = |name: &String| if schema.weight.as_ref() == Some(name) { 1.0 } else { 0.0 };
        Ok(schema.columns.iter().map(|name| given.get(name).copied().unwrap_or_else(|| default(name))).collect())
    }
}

/// What the model said of one seed.
#[derive(Clone, Debug)]
pub(crate) struct SeedOutcome {
    pub(crate) logits: Vec<f32>,
    pub(crate) scores: Vec<f32>,
    pub(crate) embedding: Vec<f32>,
    pub(crate) evidence: Option<Evidence>,
}

/// A job's result.
#[derive(Clone, Debug)]
pub(crate) struct JobResult {
    pub(crate) seeds: Vec<SeedOutcome>,
    pub(crate) timings: BatchTimings,
}

/// Time that a batch spent in each stage.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BatchTimings {
    pub(crate) sample: Duration,
    pub(crate) gather: Duration,
    pub(crate) dense: Duration,
}
