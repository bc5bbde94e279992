//! What computes for a release: its model, plugins and sampling, bound to one graph. Runs batches; knows no queue.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use sagehost_engine::plan::Aggregator;
use sagehost_engine::{Batch, EngineError, Hooks, Model, Output};
use sagehost_graph::{GraphView, OverlayBuilder};
use sagehost_plugin::{PluginError, Rows};
use sagehost_types::{Block, Code, Fault, Frontier, Node, TimeMs};

use crate::binding::{Binding, graph_fault};
use crate::evidence;
use crate::job::{BatchTimings, Job, JobResult, SeedNode, SeedOutcome};
use crate::plugins::Plugins;
use crate::rows::InputRows;
use crate::sampler::{SamplingPlan, engine_layers};

/// Most values of a batch's input rows, 1 GiB: sampled edges are bounded by their number, but rows can be wide.
const MAX_BATCH_VALUES: usize = 1 << 28;

/// See the module.
pub(crate) struct Core {
    pub(crate) binding: Binding,
    pub(crate) sampling: SamplingPlan,
    pub(crate) shared: Arc<Shared>,
}

/// The parts that do not depend on the graph: golden examples use them with their own.
pub(crate) struct Shared {
    pub(crate) model: Box<dyn Model>,
    pub(crate) plugins: Plugins,
    pub(crate) rows: InputRows,
    /// `weighed[layer][relation]`: which take coefficients.
    pub(crate) weighed: Vec<Vec<bool>>,
}

impl Shared {
    /// Which relations of which layers take coefficients from the edge-weigher.
    pub(crate) fn weighed(plan: &sagehost_engine::ModelPlan, relations: usize) -> Vec<Vec<bool>> {
        let layers = plan.layers.iter();
        layers
            .map(|layer| {
                let takes = |r| layer.convs.iter().any(|c| c.relation == r && c.aggregator == Aggregator::Coefficients);
                (0..relations).map(takes).collect()
            })
            .collect()
    }
}

/// A batch's graph and seeds.
struct Prepared {
    view: Arc<dyn GraphView>,
    /// Distinct seeds.
    seeds: Frontier,
    /// For each job, for each of its seeds, the index among the distinct ones.
    places: Vec<Vec<usize>>,
    /// Input rows, in the model's space, of nodes that are not the graph's: dense id − `own_from`.
    own_rows: Vec<Arc<[f32]>>,
    own_from: Node,
}

impl Core {
    /// Runs a batch and answers every job by position.
    ///
    /// A plugin that reads the graph may read up to its call's newest as-of time, so jobs of different times are not shown to
    /// it together: an earlier request must not be sampled or weighed with knowledge of a later one's present.
    pub(crate) fn execute(&self, jobs: &[Job]) -> Vec<Result<JobResult, Fault>> {
        let plugins = &self.shared.plugins;
        let apart = plugins.sampler.is_some() || plugins.weigher.is_some();
        let mut groups: BTreeMap<TimeMs, Vec<usize>> = BTreeMap::new();
        for (place, job) in jobs.iter().enumerate() {
            groups.entry(if apart { job.as_of_ms } else { 0 }).or_default().push(place);
        }
        let mut answers: Vec<_> = jobs.iter().map(|_| no_row()).collect();
        for places in groups.into_values() {
            let group: Vec<&Job> = places.iter().map(|&place| &jobs[place]).collect();
            for (place, answer) in places.into_iter().zip(self.execute_group(&group)) {
                answers[place] = answer;
            }
        }
        answers
    }

    /// Where a group fails as a whole and holds more than one job, each is run alone, so that a fault costs only the job
    /// that has it.
    fn execute_group(&self, jobs: &[&Job]) -> Vec<Result<JobResult, Fault>> {
        match self.run(jobs) {
            Ok(results) => results,
            Err(fault) if jobs.len() == 1 => vec![Err(fault)],
            Err(_) => {
                jobs.iter().map(|job| self.run(&[job]).and_then(|mut r| r.pop().unwrap_or_else(no_row))).collect()
            }
        }
    }

    fn run(&self, jobs: &[&Job]) -> Result<Vec<Result<JobResult, Fault>>, Fault> {
        let deadline = jobs.iter().map(|job| job.deadline).max().unwrap_or_else(Instant::now);
        if deadline <= Instant::now() {
            return Err(Fault::new(Code::DeadlineExceeded, "the deadline passed while the request waited"));
        }
        let full = jobs.iter().any(|job| job.full_neighbourhood);
        let prepared = self.prepare(jobs)?;
        let mut timings = BatchTimings::default();

        let started = Instant::now();
        let plugins = &self.shared.plugins;
        let blocks = self.sampling.sample(&prepared.view, &prepared.seeds, plugins, full, deadline)?;
        let assembled = self.sampling.assemble(&prepared.seeds, &blocks)?;
        timings.sample = started.elapsed();

        let started = Instant::now();
        let features = self.gather(&prepared, &assembled.inputs)?;
        timings.gather = started.elapsed();

        let started = Instant::now();
        let layers = engine_layers(assembled.layers, |layer, relation, parts| {
            if !self.shared.weighed[layer][relation] {
                return Ok(None);
            }
            let weigher = plugins.weigher.as_ref();
            let weigher =
                weigher.ok_or_else(|| Fault::new(Code::Internal, "the release names no edge-weigher plugin"))?;
            let mut coefficients = Vec::new();
            for part in parts {
                let block = &blocks[part.block];
                let weighed = weigher.weigh(&prepared.view, layer_number(layer), block, deadline);
                coefficients.extend(plugins.counted(weigher, weighed)?);
            }
            Ok(Some(coefficients))
        })?;
        let mut hooks = PluginHooks { plugins, deadline, failed: None };
        let batch = Batch { features: &features, layers };
        let output = match self.shared.model.forward(&batch, &mut hooks) {
            Ok(output) => output,
            Err(error) => return Err(hooks.failed.map_or_else(|| engine_fault(&error), Fault::from)),
        };
        timings.dense = started.elapsed();

        let results = jobs.iter().zip(&prepared.places);
        Ok(results.map(|(job, places)| Self::outcome(job, places, &prepared, &blocks, &output, timings)).collect())
    }

    /// Lays the requests' own nodes over the graph and finds the distinct seeds. A seed's identity is its node, its as-of
    /// time and, where the request overrides its features, its row.
    fn prepare(&self, jobs: &[&Job]) -> Result<Prepared, Fault> {
        let own_from = self.binding.graph.num_nodes();
        // Their input rows are kept here, in the model's space; the overlay's raw rows are never read.
        let no_features = vec![f32::NAN; self.binding.graph.schema().features.len()];
        let mut overlay = None;
        let mut own_rows = Vec::new();
        let mut seeds = Frontier::default();
        let mut distinct: HashMap<(Node, TimeMs), usize> = HashMap::new();
        let mut aliases: HashMap<(Node, Vec<u32>), Node> = HashMap::new();
        let mut places = Vec::with_capacity(jobs.len());
        for job in jobs {
            let mut own_ids = Vec::with_capacity(job.own.nodes.len());
            if !job.own.nodes.is_empty() {
                let builder = overlay.get_or_insert_with(|| OverlayBuilder::new(Arc::clone(&self.binding.graph)));
                builder.next_request();
                for node in &job.own.nodes {
                    own_ids.push(builder.node(node.key.clone(), &no_features).map_err(|e| graph_fault(&e))?);
                    own_rows.push(Arc::clone(&node.row));
                }
                let id = |node: SeedNode| match node {
                    SeedNode::Known(node) => Some(node),
                    SeedNode::Own(index) => own_ids.get(index).copied(),
                };
                for edge in &job.own.edges {
                    let ends = (id(edge.src), own_ids.get(edge.dst).copied());
                    let (Some(src), Some(dst)) = ends else { return Err(lost_node()) };
                    builder.edge(edge.relation, src, dst, edge.time_ms, &edge.columns).map_err(|e| graph_fault(&e))?;
                }
            }
            let mut row_places = Vec::with_capacity(job.seeds.len());
            for seed in &job.seeds {
                let node = match (seed.node, &seed.row) {
                    (SeedNode::Own(index), _) => *own_ids.get(index).ok_or_else(lost_node)?,
                    (SeedNode::Known(node), None) => node,
                    (SeedNode::Known(node), Some(row)) => {
                        let bits = row.iter().map(|v| v.to_bits()).collect();
                        match aliases.entry((node, bits)) {
                            std::collections::hash_map::Entry::Occupied(entry) => *entry.get(),
                            std::collections::hash_map::Entry::Vacant(entry) => {
                                let graph = &self.binding.graph;
                                let builder = overlay.get_or_insert_with(|| OverlayBuilder::new(Arc::clone(graph)));
                                own_rows.push(Arc::clone(row));
                                *entry.insert(builder.alias(node, &no_features).map_err(|e| graph_fault(&e))?)
                            }
                        }
                    }
                };
                row_places.push(*distinct.entry((node, job.as_of_ms)).or_insert_with(|| {
                    seeds.push(node, job.as_of_ms);
                    seeds.len() - 1
                }));
            }
            places.push(row_places);
        }
        let view: Arc<dyn GraphView> = match overlay {
            Some(builder) => Arc::new(builder.finish().map_err(|e| graph_fault(&e))?),
            None => Arc::clone(&self.binding.graph),
        };
        Ok(Prepared { view, seeds, places, own_rows, own_from })
    }

    /// Input rows of a batch, in the model's space.
    fn gather(&self, prepared: &Prepared, inputs: &[(Node, TimeMs)]) -> Result<Vec<f32>, Fault> {
        let width = self.shared.rows.width();
        let size = inputs.len().checked_mul(width).filter(|&size| size <= MAX_BATCH_VALUES);
        let size = size.ok_or_else(|| {
            let detail = format!("the neighbourhood has {} rows of {width} values, too many to gather", inputs.len());
            Fault::new(Code::TooLarge, detail)
        })?;
        let mut features = vec![0.0; size];
        if width == 0 {
            return Ok(features);
        }
        if prepared.own_rows.is_empty() {
            let nodes: Vec<Node> = inputs.iter().map(|(node, _)| *node).collect();
            self.graph_rows(&nodes, &mut features)?;
            return Ok(features);
        }
        let known: Vec<usize> = (0..inputs.len()).filter(|&i| inputs[i].0 < prepared.own_from).collect();
        let nodes: Vec<Node> = known.iter().map(|&i| inputs[i].0).collect();
        let mut rows = vec![0.0; nodes.len() * width];
        self.graph_rows(&nodes, &mut rows)?;
        for (row, &place) in rows.chunks_exact(width).zip(&known) {
            features[place * width..(place + 1) * width].copy_from_slice(row);
        }
        for (out, (node, _)) in features.chunks_exact_mut(width).zip(inputs) {
            if let Some(own) = node.checked_sub(prepared.own_from) {
                let row = usize::try_from(own).ok().and_then(|own| prepared.own_rows.get(own));
                out.copy_from_slice(row.filter(|row| row.len() == width).ok_or_else(lost_node)?);
            }
        }
        Ok(features)
    }

    fn graph_rows(&self, nodes: &[Node], out: &mut [f32]) -> Result<(), Fault> {
        self.binding.gather(nodes, out, &mut Vec::new())?;
        let graph = &self.binding.graph;
        self.shared.rows.prepare(out, |index| match nodes.get(index).map(|&node| graph.key(node)) {
            Some(Ok(key)) => format!("`{key}`"),
            _ => format!("number {index} of the batch"),
        })
    }

    fn outcome(
        job: &Job,
        places: &[usize],
        prepared: &Prepared,
        blocks: &[Block],
        output: &Output,
        timings: BatchTimings,
    ) -> Result<JobResult, Fault> {
        let mut seeds = Vec::with_capacity(places.len());
        for (number, &place) in places.iter().enumerate() {
            let row = |values: &[f32], width: usize| {
                let row = values.get(place * width..(place + 1) * width).map(<[f32]>::to_vec);
                let row =
                    row.ok_or_else(|| Fault::new(Code::Internal, "the model returned fewer rows than asked for"))?;
                if row.iter().all(|v| v.is_finite()) {
                    return Ok(row);
                }
                let detail =
                    "the model's output for this node is not a finite number: look at its features' magnitudes";
                Err(Fault::new(Code::NotFinite, detail).at(job.endpoint.node_pointer(number)))
            };
            let seed = (prepared.seeds.nodes[place], prepared.seeds.as_of_ms[place]);
            seeds.push(SeedOutcome {
                logits: row(&output.logits, output.out_dim)?,
                scores: row(&output.scores, output.out_dim)?,
                embedding: row(&output.embeddings, output.embedding_dim)?,
                evidence: match job.evidence {
                    true => Some(evidence::collect(&*prepared.view, blocks, place, seed)?),
                    false => None,
                },
            });
        }
        Ok(JobResult { seeds, timings })
    }
}

/// Lets a forward pass call the release's reducer, and keeps the typed cause where it fails.
struct PluginHooks<'a> {
    plugins: &'a Plugins,
    deadline: Instant,
    failed: Option<PluginError>,
}

impl Hooks for PluginHooks<'_> {
    fn reduce(
        &mut self,
        layer: usize,
        _: usize,
        dim: usize,
        offsets: &[u32],
        rows: &[f32],
    ) -> Result<Vec<f32>, String> {
        let Some(reducer) = &self.plugins.reducer else { return Err("the release names no reducer plugin".into()) };
        let dim = u32::try_from(dim).map_err(|_| "a row is too wide for a plugin")?;
        let rows = Rows { dim, offsets, rows };
        let reduced = reducer.reduce(layer_number(layer), rows, self.deadline);
        self.plugins.count(reducer, reduced.as_ref().err());
        reduced.map_err(|error| {
            let text = error.to_string();
            self.failed = Some(error);
            text
        })
    }
}

/// A layer's number as plugins count it. Releases have few: see `limits::MAX_HOPS`.
fn layer_number(layer: usize) -> u32 {
    u32::try_from(layer).unwrap_or(u32::MAX)
}

fn engine_fault(error: &EngineError) -> Fault {
    let code = match error {
        // The pipeline builds well-formed batches; what a model still refuses is a neighbourhood that it cannot take.
        EngineError::Batch(_) => Code::InvalidField,
        EngineError::Hook(_) => Code::PluginFailed,
        EngineError::Device(_) => Code::Unavailable,
        EngineError::Plan(_) | EngineError::Weights(_) => Code::Internal,
    };
    Fault::new(code, error.to_string())
}

fn lost_node() -> Fault {
    Fault::new(Code::Internal, "a node of the request was lost between validation and batching")
}

fn no_row() -> Result<JobResult, Fault> {
    Err(Fault::new(Code::Internal, "the batch gave no row for this request"))
}

#[cfg(test)]
mod tests;
