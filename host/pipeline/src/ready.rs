//! The stages before the queue: the nodes are found, the features settled, the pre-processor asked. Synchronous: it reads
//! the memory-mapped graph and calls a guest, so it runs on a guest thread.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_graph::{GraphView, KeyType};
use sagehost_plugin::api::{Context, Request};
use sagehost_types::{Code, Fault, Key, TimeMs};

use crate::api::{Endpoint, Features, InferRequest, RequestEdge, RequestNode, Seed};
use crate::columns::RawRow;
use crate::decide;
use crate::job::{Job, JobSeed, OwnEdge, OwnGraph, OwnNode, SeedNode};
use crate::release::LoadedRelease;

/// What these stages made of a request.
pub(crate) struct Ready {
    pub(crate) job: Job,
    /// For each seed, what the post-processor will see; empty where no decision is wanted.
    pub(crate) seeds: Vec<ReadySeed>,
    pub(crate) route: Duration,
    pub(crate) preprocess: Duration,
}

/// A seed as the post-processor will see it.
pub(crate) struct ReadySeed {
    pub(crate) request: Request,
    pub(crate) prepared: Vec<f32>,
}

/// What a request reads at that names no time: the newest event that it can know, the graph's or its own. So its answer is a
/// function of the graph version and the request, not of the clock, and the edges that it brings along count.
fn present(release: &LoadedRelease, request: &InferRequest) -> TimeMs {
    let own = request.edges.iter().filter_map(|edge| edge.time_ms).max();
    own.map_or(release.graph().latest_ms(), |own| own.max(release.graph().latest_ms()))
}

/// Makes a request ready for the queue.
///
/// # Errors
/// What is wrong with the request, with its place; what the pre-processor says.
pub(crate) fn make_ready(
    release: &LoadedRelease,
    request: &Arc<InferRequest>,
    deadline: Instant,
) -> Result<Ready, Fault> {
    let started = Instant::now();
    let as_of_ms = request.as_of_ms.unwrap_or_else(|| present(release, request));
    let context = decide::context(&request.request_id, as_of_ms);
    let mut making = Making {
        release,
        request,
        context,
        deadline,
        preprocess: Duration::ZERO,
        own: OwnGraph::default(),
        own_index: HashMap::new(),
        own_raw: Vec::with_capacity(request.nodes.len()),
        decided: Vec::new(),
    };
    for (place, node) in request.nodes.iter().enumerate() {
        making.node(place, node)?;
    }
    making.own.edges = own_edges(&**release.graph(), &request.edges, &making.own_index)?;
    let seeds = request.seeds.iter().enumerate();
    let seeds = seeds.map(|(number, seed)| making.seed(number, seed)).collect::<Result<_, _>>()?;
    let Making { preprocess, own, decided, .. } = making;
    let job = Job {
        seeds,
        as_of_ms,
        own,
        endpoint: request.endpoint,
        evidence: request.want.decision,
        full_neighbourhood: false,
        deadline,
    };
    Ok(Ready { job, seeds: decided, route: started.elapsed().saturating_sub(preprocess), preprocess })
}

/// Fails once nobody waits for the answer. Whoever asked holds the request as well; a guest thread that holds the last
/// handle works for nobody.
pub(crate) fn wanted(request: &Arc<InferRequest>) -> Result<(), Fault> {
    match Arc::strong_count(request) {
        1 => Err(Fault::new(Code::Cancelled, "the request was given up")),
        _ => Ok(()),
    }
}

/// A request in the making.
struct Making<'a> {
    release: &'a LoadedRelease,
    request: &'a Arc<InferRequest>,
    context: Context,
    deadline: Instant,
    preprocess: Duration,
    own: OwnGraph,
    /// Place of each of the request's own nodes.
    own_index: HashMap<Key, usize>,
    /// Settled values of each of them, one per schema column; NaN is missing.
    own_raw: Vec<Vec<f32>>,
    decided: Vec<ReadySeed>,
}

impl Making<'_> {
    /// Takes a node that the request brings along.
    fn node(&mut self, place: usize, node: &RequestNode) -> Result<(), Fault> {
        let at = format!("/graph/nodes/{place}");
        let graph = self.release.graph();
        if graph.find(&node.key).is_some() {
            let detail =
                format!("the graph knows node `{}`; to override its features, give them with the seed", node.key);
            return Err(Fault::new(Code::InvalidField, detail).at(format!("{at}/key")));
        }
        check_kind(&node.key, graph.schema().key_type).map_err(|fault| fault.at(format!("{at}/key")))?;
        if self.own_index.insert(node.key.clone(), place).is_some() {
            return Err(Fault::new(Code::InvalidField, format!("node `{}` is given twice", node.key)).at(at));
        }
        let at = format!("{at}/features");
        let raw = self.release.columns.settle(&node.features, None, &at)?;
        let (_, prepared) = self.prepare(&node.key, &raw, &at)?;
        self.push_own(&node.key, &prepared)?;
        self.own_raw.push(raw.values.iter().map(|value| value.unwrap_or(f32::NAN)).collect());
        Ok(())
    }

    fn seed(&mut self, number: usize, seed: &Seed) -> Result<JobSeed, Fault> {
        let (release, want_decision) = (self.release, self.request.want.decision);
        let endpoint = self.request.endpoint;
        let node = match (release.graph().find(&seed.key), self.own_index.get(&seed.key)) {
            (Some(node), _) => Some(SeedNode::Known(node)),
            (None, own) => own.map(|&place| SeedNode::Own(place)),
        };
        // The pre-processor is asked where its answer is used: for rules, or for a row that replaces the graph's.
        match (node, &seed.features, want_decision) {
            (None, Features::Absent, _) => {
                let detail =
                    format!("the graph does not know node `{}`; to score it, send its features and edges", seed.key);
                return Err(Fault::new(Code::UnknownNode, detail).at(endpoint.node_pointer(number)));
            }
            (Some(node), Features::Absent, false) => return Ok(JobSeed { node, row: None }),
            _ => {}
        }
        let at = features_pointer(endpoint, number);
        let lent = match node {
            Some(SeedNode::Known(node)) => Some(release.core.binding.row(node)?),
            Some(SeedNode::Own(place)) => self.own_raw.get(place).cloned(),
            None => None,
        };
        let raw = release.columns.settle(&seed.features, lent.as_deref(), &at)?;
        if matches!(node, Some(SeedNode::Own(_))) && raw.overrides_node {
            let detail = format!("node `{}` is the request's own: give its node columns in /graph/nodes", seed.key);
            return Err(Fault::new(Code::InvalidField, detail).at(at));
        }
        let (request, prepared) = self.prepare(&seed.key, &raw, &at)?;
        let seed = match node {
            Some(node @ SeedNode::Own(_)) => JobSeed { node, row: None },
            Some(node @ SeedNode::Known(_)) => {
                let row = decide::seed_row(&release.core.shared, &release.columns, &raw, &prepared, &seed.key)?;
                JobSeed { node, row }
            }
            None => {
                let key_type = release.graph().schema().key_type;
                check_kind(&seed.key, key_type).map_err(|fault| fault.at(endpoint.node_pointer(number)))?;
                JobSeed { node: SeedNode::Own(self.push_own(&seed.key, &prepared)?), row: None }
            }
        };
        if want_decision {
            self.decided.push(ReadySeed { request, prepared });
        }
        Ok(seed)
    }

    /// Adds a node to the request's own and gives its place.
    fn push_own(&mut self, key: &Key, prepared: &[f32]) -> Result<usize, Fault> {
        let row = decide::own_row(&self.release.core.shared, &self.release.columns, prepared, key)?;
        self.own.nodes.push(OwnNode { key: key.clone(), row });
        Ok(self.own.nodes.len() - 1)
    }

    /// Asks the pre-processor; `at` is the place of the features, for a fault that names none.
    fn prepare(&mut self, key: &Key, raw: &RawRow, at: &str) -> Result<(Request, Vec<f32>), Fault> {
        wanted(self.request)?;
        let asked = decide::request(&self.release.columns, key, &self.request.entities, raw);
        let started = Instant::now();
        let prepared = decide::prepare(&self.release.core.shared, &self.context, &asked, raw, self.deadline);
        self.preprocess += started.elapsed();
        let prepared = prepared.map_err(|fault| match (fault.code, &fault.field) {
            (Code::InvalidField | Code::MissingField, None) => fault.at(at),
            _ => fault,
        })?;
        Ok((asked, prepared))
    }
}

/// That a key which the graph does not know could be one of its keys: refused here, it cannot fail a batch.
fn check_kind(key: &Key, key_type: KeyType) -> Result<(), Fault> {
    let kind = match (key, key_type) {
        (Key::Int(_), KeyType::U64) | (Key::Text(_), KeyType::String) => return Ok(()),
        (Key::Int(_), KeyType::String) => "strings",
        (Key::Text(_), KeyType::U64) => "unsigned integers",
    };
    Err(Fault::new(Code::InvalidField, format!("key `{key}`: this graph's keys are {kind}")))
}

fn features_pointer(endpoint: Endpoint, number: usize) -> String {
    match endpoint {
        Endpoint::Predict => format!("/features/{number}"),
        Endpoint::Score => "/features".into(),
    }
}

/// Resolves a request's edges against the graph and the request's own nodes.
fn own_edges(graph: &dyn GraphView, edges: &[RequestEdge], own: &HashMap<Key, usize>) -> Result<Vec<OwnEdge>, Fault> {
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
