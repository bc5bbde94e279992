//! One request on a node of a graph, taken through every stage on the calling thread: what golden examples and warming up do
//! before a release has queues and threads.

use std::time::Instant;

use sagehost_plugin::api::Policy;
use sagehost_types::{Code, Fault, Node, TimeMs};

use crate::api::{Decision, Endpoint, Features};
use crate::binding::graph_fault;
use crate::columns::Columns;
use crate::core::Core;
use crate::decide;
use crate::job::{Job, JobSeed, OwnGraph, SeedNode, SeedOutcome};

/// What is asked.
pub(crate) struct Rehearsal<'a> {
    /// The request's id, as plugins see it.
    pub(crate) request_id: &'static str,
    pub(crate) node: Node,
    pub(crate) features: &'a Features,
    pub(crate) as_of_ms: TimeMs,
    /// Sample every neighbour, whatever the release says.
    pub(crate) full_neighbourhood: bool,
    pub(crate) deadline: Instant,
}

/// What came out.
pub(crate) struct Rehearsed {
    pub(crate) outcome: SeedOutcome,
    /// The rule's answer, where the release has one.
    pub(crate) decided: Option<Result<Decision, Fault>>,
}

impl Rehearsal<'_> {
    /// Takes the request through features, pre-processor, model and rule.
    ///
    /// # Errors
    /// What a stage before the rule says.
    pub(crate) fn run(&self, core: &Core, columns: &Columns, policy: &Policy) -> Result<Rehearsed, Fault> {
        let lost = || Fault::new(Code::Internal, "the model gave no row");
        let (shared, deadline) = (&core.shared, self.deadline);
        let key = core.binding.graph.key(self.node).map_err(|e| graph_fault(&e))?;
        let raw = columns.settle(self.features, Some(&core.binding.row(self.node)?), "/features")?;
        let request = decide::request(columns, &key, &[], &raw);
        let context = decide::context(self.request_id, self.as_of_ms);
        let prepared = decide::prepare(shared, &context, &request, &raw, deadline)?;
        let row = decide::seed_row(shared, columns, &raw, &prepared, &key)?;
        let job = Job {
            seeds: vec![JobSeed { node: SeedNode::Known(self.node), row }],
            as_of_ms: self.as_of_ms,
            own: OwnGraph::default(),
            endpoint: Endpoint::Predict,
            evidence: true,
            full_neighbourhood: self.full_neighbourhood,
            deadline,
        };
        let result = core.execute(&[job]).pop().ok_or_else(lost)??;
        let outcome = result.seeds.into_iter().next().ok_or_else(lost)?;
        let asked = (&request, prepared.as_slice());
        let decide = || decide::decide(shared, &context, asked, &outcome, policy, deadline);
        let decided = shared.plugins.post.is_some().then(decide);
        Ok(Rehearsed { outcome, decided })
    }
}

/// Whether a fault is of one request's values, so that others may do better.
pub(crate) fn of_request(fault: &Fault) -> bool {
    matches!(fault.code, Code::MissingField | Code::InvalidField)
}
