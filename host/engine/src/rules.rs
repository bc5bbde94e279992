//! Whether a batch fits a model: the same rules for every backend, checked before anything is computed.

use crate::backend::{Batch, LayerBlocks, RelationBlock};
use crate::error::EngineError;
use crate::plan::{Aggregator, Layer, ModelPlan};

/// What a model's batches must look like. Made once, when the model is loaded.
#[derive(Clone, Debug)]
pub struct BatchRules {
    in_dim: usize,
    /// By layer, by relation.
    layers: Vec<Vec<RelationRule>>,
}

#[derive(Clone, Debug, Default)]
struct RelationRule {
    /// Some convolution reads it.
    used: bool,
    /// Some convolution wants a coefficient per edge.
    coefficients: bool,
    /// The shortest padded length of the LSTMs that read it.
    pad_to: Option<u32>,
}

impl BatchRules {
    /// The rules of a validated plan.
    #[must_use]
    pub fn new(plan: &ModelPlan) -> Self {
        Self { in_dim: plan.in_dim, layers: plan.layers.iter().map(relation_rules).collect() }
    }

    /// Checks lengths, ranges and orders: after this no index of the batch is out of place.
    ///
    /// # Errors
    /// [`EngineError::Batch`] with the place of the first fault.
    pub fn check(&self, batch: &Batch<'_>) -> Result<(), EngineError> {
        if batch.layers.len() != self.layers.len() {
            return fault(format!("{} layers of blocks for a model of {}", batch.layers.len(), self.layers.len()));
        }
        let mut rows = batch.layers.first().map_or(0, |l| l.num_src);
        if rows.checked_mul(self.in_dim) != Some(batch.features.len()) {
            return fault(format!("{} feature values for {rows} rows of {}", batch.features.len(), self.in_dim));
        }
        for (l, (layer, rules)) in batch.layers.iter().zip(&self.layers).enumerate() {
            if layer.num_src != rows {
                return fault(format!("layer {l} reads {} rows, {rows} come in", layer.num_src));
            }
            check_layer(l, layer, rules)?;
            rows = layer.num_dst;
        }
        Ok(())
    }
}

fn relation_rules(layer: &Layer) -> Vec<RelationRule> {
    let mut rules = vec![RelationRule::default(); layer.convs.iter().map(|c| c.relation + 1).max().unwrap_or(0)];
    for conv in &layer.convs {
        let rule = &mut rules[conv.relation];
        rule.used = true;
        match &conv.aggregator {
            Aggregator::Coefficients => rule.coefficients = true,
            Aggregator::Lstm(lstm) => rule.pad_to = rule.pad_to.into_iter().chain(lstm.pad_to).min(),
            _ => {}
        }
    }
    rules
}

fn check_layer(l: usize, layer: &LayerBlocks, rules: &[RelationRule]) -> Result<(), EngineError> {
    // Rows are numbered by u32.
    if u32::try_from(layer.num_src).is_err() || u32::try_from(layer.num_dst).is_err() {
        return fault(format!("layer {l} has more than {} rows", u32::MAX));
    }
    if layer.dst_rows.len() != layer.num_dst {
        return fault(format!("layer {l} has {} rows for {} destinations", layer.dst_rows.len(), layer.num_dst));
    }
    if let Some(row) = layer.dst_rows.iter().find(|&&r| r as usize >= layer.num_src) {
        return fault(format!("layer {l}: destination row {row} of {} sources", layer.num_src));
    }
    if layer.relations.len() < rules.len() {
        return fault(format!("layer {l} has {} relations, the model reads {}", layer.relations.len(), rules.len()));
    }
    for (r, (block, rule)) in layer.relations.iter().zip(rules).enumerate() {
        if rule.used {
            check_relation(layer, block, rule)
                .map_err(|why| EngineError::Batch(format!("layer {l}, relation {r}: {why}")))?;
        }
    }
    Ok(())
}

fn check_relation(layer: &LayerBlocks, block: &RelationBlock, rule: &RelationRule) -> Result<(), String> {
    let offsets = &block.offsets;
    if offsets.len() != layer.num_dst + 1 {
        return Err(format!("{} offsets for {} destinations", offsets.len(), layer.num_dst));
    }
    if offsets.first() != Some(&0) {
        return Err("the offsets do not start at 0".into());
    }
    if offsets.last().is_none_or(|&end| end as usize != block.indices.len()) {
        return Err(format!("the offsets end at {:?}, there are {} edges", offsets.last(), block.indices.len()));
    }
    let mut longest = (0u32, 0usize);
    for (dst, ends) in offsets.array_windows::<2>().enumerate() {
        let Some(degree) = ends[1].checked_sub(ends[0]) else {
            return Err(format!("the offsets fall at destination {dst}"));
        };
        longest = longest.max((degree, dst));
    }
    if let Some(pad_to) = rule.pad_to.filter(|&p| longest.0 > p) {
        return Err(format!(
            "destination {} has {} neighbours, more than the {pad_to} that the LSTM pads to: sample fewer",
            longest.1, longest.0
        ));
    }
    if let Some(source) = block.indices.iter().find(|&&s| s as usize >= layer.num_src) {
        return Err(format!("source {source} of {}", layer.num_src));
    }
    match (&block.coefficients, rule.coefficients) {
        (Some(c), true) if c.len() != block.indices.len() => {
            Err(format!("{} coefficients for {} edges", c.len(), block.indices.len()))
        }
        (Some(c), true) => match c.iter().position(|v| !v.is_finite()) {
            Some(edge) => Err(format!("the coefficient of edge {edge} is {}", c[edge])),
            None => Ok(()),
        },
        (None, true) => Err("no coefficients: the release needs an edge-weigher plugin".into()),
        // Dropping them without a word would be a wrong answer.
        (Some(_), false) => Err("coefficients, but no convolution that uses them".into()),
        (None, false) => Ok(()),
    }
}

/// Checks what a reducer plugin returned for `num_dst` destinations of width `dim`: every backend calls it before use.
///
/// # Errors
/// [`EngineError::Hook`] where the length is another or a value is not finite.
pub fn check_reduced(reduced: &[f32], num_dst: usize, dim: usize) -> Result<(), EngineError> {
    if num_dst.checked_mul(dim) != Some(reduced.len()) {
        return Err(EngineError::Hook(format!(
            "the reducer returned {} values for {num_dst} destinations of {dim}",
            reduced.len()
        )));
    }
    match reduced.iter().position(|v| !v.is_finite()) {
        Some(at) => Err(EngineError::Hook(format!("the reducer returned {} at index {at}", reduced[at]))),
        None => Ok(()),
    }
}

fn fault<T>(what: String) -> Result<T, EngineError> {
    Err(EngineError::Batch(what))
}
