//! The stages around the model: the pre-processor before it, the post-processor after it. Synchronous: they run on guest
//! threads (or, for golden examples, where the release is loaded).

use std::sync::Arc;
use std::time::Instant;

use sagehost_plugin::api::{Context, Entity, Evidence, Feature, ModelOutput, Policy, Request};
use sagehost_types::{Code, Fault, Key, TimeMs};

use crate::api::Decision;
use crate::columns::{Columns, RawRow};
use crate::core::Shared;
use crate::job::SeedOutcome;

/// The request as plugins see it: the seed's key first, then the other entities, then every column of the schema.
pub(crate) fn request(columns: &Columns, seed: &Key, entities: &[(String, String)], raw: &RawRow) -> Request {
    let user = Entity { kind: "user".into(), key: seed.to_string() };
    let others = entities.iter().map(|(kind, key)| Entity { kind: kind.as_str().into(), key: key.clone() });
    let features = columns.names().zip(&raw.values);
    Request {
        entities: std::iter::once(user).chain(others).collect(),
        features: features.map(|(name, value)| Feature { name: name.into(), value: *value }).collect(),
    }
}

/// What a pre- or post-processor knows of the request.
pub(crate) fn context(request_id: &str, as_of_ms: TimeMs) -> Context {
    Context { request_id: request_id.into(), as_of_ms }
}

/// Prepared values of every column: the pre-processor's, or the raw ones where there is none.
pub(crate) fn prepare(
    shared: &Shared,
    context: &Context,
    request: &Request,
    raw: &RawRow,
    deadline: Instant,
) -> Result<Vec<f32>, Fault> {
    match &shared.plugins.pre {
        Some(pre) => shared.plugins.counted(pre, pre.prepare(context, request, deadline)),
        None => raw
            .values
            .iter()
            .zip(&request.features)
            .map(|(value, feature)| value.ok_or_else(|| unfilled(feature)))
            .collect(),
    }
}

fn unfilled(feature: &Feature) -> Fault {
    let detail = format!("column `{}` is missing and there is no pre-processor to fill it", feature.name);
    Fault::new(Code::MissingField, detail)
}

/// The seed's input row in the model's space, where the request overrides it: what the pre-processor made of the node
/// columns, or the raw ones standardised as the graph's rows are.
pub(crate) fn seed_row(
    shared: &Shared,
    columns: &Columns,
    raw: &RawRow,
    prepared: &[f32],
    key: &Key,
) -> Result<Option<Arc<[f32]>>, Fault> {
    if !raw.overrides_node {
        return Ok(None);
    }
    own_row(shared, columns, prepared, key).map(Some)
}

/// The input row, in the model's space, of a node that is described by a request's values.
pub(crate) fn own_row(shared: &Shared, columns: &Columns, prepared: &[f32], key: &Key) -> Result<Arc<[f32]>, Fault> {
    let mut row = prepared.get(..columns.num_node()).unwrap_or_default().to_vec();
    if shared.plugins.pre.is_none() {
        shared.rows.prepare(&mut row, |_| format!("`{key}`"))?;
    }
    Ok(row.into())
}

/// Asks the post-processor.
pub(crate) fn decide(
    shared: &Shared,
    context: &Context,
    (request, prepared): (&Request, &[f32]),
    outcome: &SeedOutcome,
    policy: &Policy,
    deadline: Instant,
) -> Result<Decision, Fault> {
    let post = shared.plugins.post.as_ref().ok_or_else(|| Fault::new(Code::Internal, "the post-processor is gone"))?;
    let SeedOutcome { logits, scores, embedding, evidence } = outcome;
    let output = ModelOutput { logits, scores, embedding };
    let none = Evidence::default();
    let evidence = evidence.as_ref().unwrap_or(&none);
    let answer = post.decide(context, request, prepared, output, evidence, policy, deadline);
    let answer = shared.plugins.counted(post, answer)?;
    let policy = (!policy.name.is_empty()).then(|| format!("{}@{}", policy.name, policy.version));
    Ok(Decision { score: answer.score, decision: answer.decision, reasons: answer.reasons, policy })
}
