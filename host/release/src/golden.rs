//! `golden.json`: requests with their own subgraph and expected outputs, checked before every activation. They carry the
//! graph with them, so that a moving graph does not break them.

use std::collections::BTreeMap;

use sagehost_types::{Key, TimeMs};
use serde::{Deserialize, Serialize};

/// The whole file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Golden {
    /// The format's number: 1.
    pub format: u32,
    /// The subgraph that the examples are computed on.
    pub graph: GoldenGraph,
    /// Requests and what they must give.
    pub examples: Vec<Example>,
}

/// A small graph. Its feature columns are the release's `schema.node`, in that order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenGraph {
    /// Nodes with raw features; `null` is missing.
    pub nodes: Vec<GoldenNode>,
    /// Edges by relation name, in ingest order.
    pub edges: BTreeMap<String, Vec<GoldenEdge>>,
}

/// A node of the subgraph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenNode {
    /// Its external key.
    pub key: Key,
    /// Its raw feature row.
    pub features: Vec<Option<f32>>,
}

/// An edge of the subgraph, from `src` into `dst`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GoldenEdge {
    /// Source key.
    pub src: Key,
    /// Destination key.
    pub dst: Key,
    /// Event time, where the relation has times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<TimeMs>,
    /// Edge columns by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, f32>,
}

/// One request and what it must give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The seed.
    pub node: Key,
    /// As-of time; absent: the newest edge of the subgraph.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of_ms: Option<TimeMs>,
    /// Request features by name, as in `/v1/score`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub features: BTreeMap<String, Option<f32>>,
    /// Expected logits.
    pub logits: Vec<f32>,
    /// Largest allowed difference of a logit.
    pub tolerance: f32,
    /// Expected decision of the post-processor, if it is to be checked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// Whether to sample the full neighbourhood instead of the release's fan-outs (the expectation then does not depend on
    /// sagehost's random numbers). True by default.
    #[serde(default = "yes")]
    pub full_neighbourhood: bool,
}

fn yes() -> bool {
    true
}
