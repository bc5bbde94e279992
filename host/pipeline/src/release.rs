//! A release, loaded: verified files made into something that answers requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use sagehost_batcher::{Batcher, ComputePool, Settings};
use sagehost_engine::Backend;
use sagehost_engine::weights::Weights;
use sagehost_graph::GraphView;
use sagehost_plugin::PluginHost;
use sagehost_plugin::api::Policy;
use sagehost_release::LoadedFiles;
use sagehost_release::spec::{PluginRole, ReleaseSpec};
use sagehost_telemetry::{GaugeGuard, Label, Metrics, Stage};
use sagehost_types::limits::MAX_DECIDING_SEEDS;
use sagehost_types::{Code, Fault, ReleaseId};

use crate::binding::Binding;
use crate::columns::Columns;
use crate::core::{Core, Shared};
use crate::job::{Job, JobResult};
use crate::plugins::{Plugins, settings};
use crate::rows::InputRows;
use crate::sampler::SamplingPlan;
use crate::{golden, plan, warm_up};

/// What every release of this process shares.
pub struct Runtime {
    /// Threads that run batches.
    pub compute: Arc<ComputePool>,
    /// Threads of each release that run its pre- and post-processors. They are the release's own, so that a spinning rule
    /// holds up neither the engine nor another release's rules.
    pub guest_threads: usize,
    /// The engine.
    pub backend: Arc<dyn Backend>,
    /// Where plugins run.
    pub plugins: Arc<PluginHost>,
    /// Where what happens is counted.
    pub metrics: Arc<Metrics>,
    /// Graphs by name.
    pub graphs: BTreeMap<String, Arc<dyn GraphView>>,
}

/// A job in the queue, counted there for as long as it waits.
type Queued = (Job, GaugeGuard);

/// A release that can answer.
pub struct LoadedRelease {
    pub(crate) id: ReleaseId,
    pub(crate) spec: ReleaseSpec,
    pub(crate) columns: Columns,
    pub(crate) core: Arc<Core>,
    pub(crate) batcher: Batcher<Queued, JobResult>,
    pub(crate) compute: Arc<ComputePool>,
    pub(crate) guests: ComputePool,
    deciding: Arc<AtomicUsize>,
    pub(crate) classes: Arc<[String]>,
    pub(crate) numerics_id: Arc<str>,
    pub(crate) metrics: Arc<Metrics>,
    default_policy: Arc<Policy>,
}

impl LoadedRelease {
    /// Compiles plugins, loads weights, binds the graph, checks the golden examples and warms up. Blocking.
    ///
    /// # Errors
    /// Why the release cannot serve, for the operator.
    pub fn load(runtime: &Runtime, files: LoadedFiles) -> Result<Self, String> {
        let spec = files.spec.clone();
        let graph = runtime.graphs.get(&spec.graph).ok_or_else(|| {
            let known = runtime.graphs.keys().cloned().collect::<Vec<_>>().join(", ");
            format!("the server has no graph `{}` (it has: {known})", spec.graph)
        })?;
        let Parts { columns, relations, shared, default_policy } = Parts::load(runtime, &files)?;
        let core = Arc::new(bind(&spec, &columns, &relations, Arc::clone(graph), &shared, &files.salt)?);
        golden::check(&files, &columns, &relations, graph.schema(), &shared, &default_policy)?;
        warm_up::run(&core, &columns, &default_policy, spec.batching.max_batch)?;
        let guests = ComputePool::new("sagehost-guest", runtime.guest_threads, MAX_DECIDING_SEEDS);
        let guests = guests.map_err(|e| e.to_string())?;
        let batching = Settings {
            max_batch: spec.batching.max_batch,
            max_wait: Duration::from_millis(u64::from(spec.batching.max_wait_ms)),
            max_queue: spec.batching.max_queue,
        };
        let (executor, metrics) = (Arc::clone(&core), Arc::clone(&runtime.metrics));
        let label = Label::from(&files.id.model);
        let batcher = Batcher::spawn(
            batching,
            runtime.compute.threads(),
            move |jobs: Vec<Queued>| {
                // The guards go: the jobs no longer wait.
                let jobs: Vec<Job> = jobs.into_iter().map(|(job, _)| job).collect();
                metrics.batch(label.clone(), jobs.len());
                let answers = executor.execute(&jobs);
                if let Some(answer) = answers.iter().flatten().next() {
                    metrics.stage(Stage::Sample, answer.timings.sample);
                    metrics.stage(Stage::Gather, answer.timings.gather);
                    metrics.stage(Stage::Dense, answer.timings.dense);
                }
                answers
            },
            Arc::clone(&runtime.compute),
        );
        Ok(Self {
            id: files.id,
            classes: spec.model.classes.clone().into(),
            columns,
            batcher,
            core,
            compute: Arc::clone(&runtime.compute),
            guests,
            deciding: Arc::default(),
            numerics_id: runtime.backend.numerics_id().into(),
            metrics: Arc::clone(&runtime.metrics),
            default_policy,
            spec,
        })
    }

    /// Which release this is.
    #[must_use]
    pub fn id(&self) -> &ReleaseId {
        &self.id
    }

    /// The policy document that its post-processor reads, by name.
    #[must_use]
    pub fn policy_name(&self) -> Option<&str> {
        self.spec.decision.policy.as_deref()
    }

    /// The policy until a document is rolled out.
    #[must_use]
    pub fn default_policy(&self) -> &Arc<Policy> {
        &self.default_policy
    }

    /// Tries a policy on the release's rule, as warming up does. Blocking.
    ///
    /// # Errors
    /// Why decisions with it fail.
    pub fn try_policy(&self, policy: &Policy) -> Result<(), String> {
        warm_up::decide(&self.core, &self.columns, policy)
    }

    /// The graph that it reads.
    #[must_use]
    pub fn graph(&self) -> &Arc<dyn GraphView> {
        &self.core.binding.graph
    }

    /// Equal ids promise equal bits.
    #[must_use]
    pub fn numerics_id(&self) -> &Arc<str> {
        &self.numerics_id
    }

    /// Counts a request among those that wait for a batch, until the guard goes.
    pub(crate) fn waiting(&self) -> GaugeGuard {
        self.metrics.queued(Label::from(&self.id.model))
    }

    /// Takes a request with decisions in hand, until the guard goes.
    ///
    /// # Errors
    /// [`Code::Overloaded`] where the release has [`MAX_DECIDING_SEEDS`] in hand already.
    pub(crate) fn take_in_hand(&self, seeds: usize) -> Result<InHand, Fault> {
        let admitted =
            self.deciding.fetch_update(Relaxed, Relaxed, |held| (held < MAX_DECIDING_SEEDS).then(|| held + seeds));
        match admitted {
            Ok(_) => Ok(InHand { deciding: Arc::clone(&self.deciding), seeds }),
            Err(held) => {
                let detail = format!("{} has decisions on {held} nodes in hand and takes no more", self.id);
                Err(Fault::new(Code::Overloaded, detail).retry_after(Duration::from_secs(1)))
            }
        }
    }

    /// That there is a post-processor to ask for a decision.
    pub(crate) fn post_processor(&self) -> Result<(), Fault> {
        if self.spec.plugins.contains_key(&PluginRole::PostProcessor) {
            return Ok(());
        }
        let detail = format!("{} has no post-processor, so it makes no decisions: ask for scores", self.id);
        Err(Fault::new(Code::InvalidField, detail).at("/return"))
    }
}

/// Checks what can be known of a release without a graph: weights, model plan, plugins with their roles and settings.
/// [`LoadedRelease::load`] checks the rest.
///
/// # Errors
/// Why no server could serve it.
pub fn check_without_graph(runtime: &Runtime, files: &LoadedFiles) -> Result<(), String> {
    Parts::load(runtime, files).map(drop)
}

/// What of a release does not depend on the graph.
struct Parts {
    columns: Columns,
    relations: Vec<String>,
    shared: Arc<Shared>,
    default_policy: Arc<Policy>,
}

impl Parts {
    fn load(runtime: &Runtime, files: &LoadedFiles) -> Result<Self, String> {
        let spec = &files.spec;
        let columns = Columns::new(&spec.schema);
        let relations = relations(spec);
        let mut weights = Weights::open(&files.weights).map_err(|e| e.to_string())?;
        let model_plan = plan::plan(spec, &mut weights, &relations)?;
        let shared = Arc::new(Shared {
            weighed: Shared::weighed(&model_plan, relations.len()),
            rows: InputRows::new(&columns, model_plan.scaler.clone()),
            model: runtime.backend.load(&model_plan).map_err(|e| e.to_string())?,
            plugins: Plugins::load(runtime, files)?,
        });
        let default_policy = Arc::new(Policy {
            name: spec.decision.policy.clone().unwrap_or_default(),
            version: 0,
            values: settings(&spec.decision.values).map_err(|e| format!("decision.values: {e}"))?,
        });
        Ok(Self { columns, relations, shared, default_policy })
    }
}

/// Seeds in hand, until it is dropped.
pub(crate) struct InHand {
    deciding: Arc<AtomicUsize>,
    seeds: usize,
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.deciding.fetch_sub(self.seeds, Relaxed);
    }
}

/// The relations that a model reads, each once, in the order of first use: how plans and blocks count them.
fn relations(spec: &ReleaseSpec) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let convs = spec.model.layers.iter().flat_map(|layer| &layer.convs);
    convs.filter(|conv| seen.insert(&conv.relation)).map(|conv| conv.relation.clone()).collect()
}

/// Joins the shared parts of a release with a graph.
pub(crate) fn bind(
    spec: &ReleaseSpec,
    columns: &Columns,
    relations: &[String],
    graph: Arc<dyn GraphView>,
    shared: &Arc<Shared>,
    salt: &str,
) -> Result<Core, String> {
    let binding = Binding::new(graph, columns, relations)?;
    Ok(Core { sampling: SamplingPlan::new(spec, &binding.relations, salt), binding, shared: Arc::clone(shared) })
}
