//! Between the plain types of [`crate::api`] and the generated ones. Arguments are lent; answers are moved.

use sagehost_graph::{Growth, Hop, Strategy};
use sagehost_types::{Block, Frontier};

use super::bindings::exports::sagehost::plugin::{deciding, sampling};
use super::bindings::sagehost::plugin::{graph, log, types};
use crate::api::{Decision, Evidence, ModelOutput, Request, Setting};
use crate::error::ErrorKind;
use crate::state::{GuestError, Level};

pub(super) fn frontier(frontier: &Frontier) -> types::FrontierParam<'_> {
    types::FrontierParam { nodes: &frontier.nodes, as_of_ms: &frontier.as_of_ms }
}

pub(super) fn frontier_back(frontier: types::FrontierResult) -> Frontier {
    Frontier { nodes: frontier.nodes, as_of_ms: frontier.as_of_ms }
}

pub(super) fn block(block: &Block) -> types::BlockParam<'_> {
    types::BlockParam {
        relation: block.relation,
        hop: block.hop,
        dst: frontier(&block.dst),
        offsets: &block.offsets,
        sources: &block.sources,
        edges: &block.edges,
    }
}

/// A block that a primitive answers with.
pub(super) fn block_owned(block: Block) -> types::BlockResult {
    let Block { relation, hop, dst, offsets, sources, edges } = block;
    let dst = types::FrontierResult { nodes: dst.nodes, as_of_ms: dst.as_of_ms };
    types::BlockResult { relation, hop, dst, offsets, sources, edges }
}

pub(super) fn block_back(block: types::BlockResult) -> Block {
    let types::BlockResult { relation, hop, dst, offsets, sources, edges } = block;
    Block { relation, hop, dst: frontier_back(dst), offsets, sources, edges }
}

pub(super) fn hop(hop: &Hop) -> sampling::Hop<'_> {
    sampling::Hop { relations: &hop.relations, fanout: hop.fanout }
}

pub(super) fn growth(growth: Growth) -> sampling::Growth {
    match growth {
        Growth::Resample => sampling::Growth::Resample,
        Growth::Reuse => sampling::Growth::Reuse,
    }
}

pub(super) fn strategy_back(strategy: graph::Strategy) -> Strategy {
    match strategy {
        graph::Strategy::Uniform => Strategy::Uniform,
        graph::Strategy::UniformWithReplacement => Strategy::UniformWithReplacement,
        graph::Strategy::Weighted => Strategy::Weighted,
        graph::Strategy::Latest => Strategy::Latest,
    }
}

pub(super) fn level_back(level: log::Level) -> Level {
    match level {
        log::Level::Debug => Level::Debug,
        log::Level::Info => Level::Info,
        log::Level::Warn => Level::Warn,
        log::Level::Error => Level::Error,
    }
}

pub(super) fn error(error: GuestError) -> types::Error {
    match error.kind {
        ErrorKind::InvalidInput => types::Error::InvalidInput(error.message),
        ErrorKind::Missing => types::Error::Missing(error.message),
        ErrorKind::Unavailable => types::Error::Unavailable(error.message),
        _ => types::Error::Internal(error.message),
    }
}

pub(super) fn error_back(error: types::Error) -> GuestError {
    let (kind, message) = match error {
        types::Error::InvalidInput(message) => (ErrorKind::InvalidInput, message),
        types::Error::Missing(message) => (ErrorKind::Missing, message),
        types::Error::Unavailable(message) => (ErrorKind::Unavailable, message),
        types::Error::Internal(message) => (ErrorKind::Internal, message),
    };
    GuestError { kind, message }
}

pub(super) fn output(output: ModelOutput<'_>) -> deciding::ModelOutput<'_> {
    deciding::ModelOutput { logits: output.logits, scores: output.scores, embedding: output.embedding }
}

pub(super) fn evidence<'a>(evidence: &'a Evidence, relations: &'a [&str], keys: &'a [&str]) -> deciding::Evidence<'a> {
    let Evidence { times_ms, weights, degree, .. } = evidence;
    deciding::Evidence { relations, keys, times_ms, weights, degree: *degree }
}

pub(super) fn decision_back(decision: deciding::Decision) -> Decision {
    Decision { score: decision.score, decision: decision.decision, reasons: decision.reasons }
}

/// Lends a request in the generated form.
pub(super) fn with_request<T>(request: &Request, then: impl FnOnce(types::Request<'_>) -> T) -> T {
    let entities: Vec<_> =
        request.entities.iter().map(|entity| types::Entity { kind: &entity.kind, key: &entity.key }).collect();
    let features: Vec<_> =
        request.features.iter().map(|feature| types::Feature { name: &feature.name, value: feature.value }).collect();
    then(types::Request { entities: &entities, features: &features })
}

/// Lends settings in the generated form.
pub(super) fn with_settings<T>(
    settings: &[(String, Setting)],
    then: impl FnOnce(&[types::NamedSetting<'_>]) -> T,
) -> T {
    // A list of texts is lent as a list of `&str`, which has to live somewhere.
    let texts: Vec<Vec<&str>> = settings
        .iter()
        .map(|(_, value)| match value {
            Setting::Texts(texts) => texts.iter().map(String::as_str).collect(),
            Setting::Flag(_) | Setting::Number(_) | Setting::Text(_) | Setting::Numbers(_) => Vec::new(),
        })
        .collect();
    let lent: Vec<_> = settings
        .iter()
        .zip(&texts)
        .map(|((name, value), texts)| types::NamedSetting {
            name,
            value: match value {
                Setting::Flag(flag) => types::Setting::Flag(*flag),
                Setting::Number(number) => types::Setting::Number(*number),
                Setting::Text(text) => types::Setting::Text(text),
                Setting::Numbers(numbers) => types::Setting::Numbers(numbers),
                Setting::Texts(_) => types::Setting::Texts(texts),
            },
        })
        .collect();
    then(&lent)
}
