//! A release's model section and its weights, made into the plan that a backend loads.

use sagehost_engine::ModelPlan;
use sagehost_engine::plan::{Activation, Head, HeadActivation, Layer};
use sagehost_engine::weights::{AggregatorKind, ConvOptions, Weights};
use sagehost_release::spec::{self, ConvSpec, Layout, OutputKind, ReleaseSpec};

/// Reads the weights that the release names and plans the model; `relations` is how the plan counts them.
///
/// # Errors
/// What does not fit, with the place in `release.toml`: missing tensors, shapes, outputs.
pub(crate) fn plan(spec: &ReleaseSpec, weights: &mut Weights<'_>, relations: &[String]) -> Result<ModelPlan, String> {
    let in_dim = spec.schema.node.len();
    let mut layers = Vec::with_capacity(spec.model.layers.len());
    for (index, layer) in spec.model.layers.iter().enumerate() {
        let mut convs = Vec::with_capacity(layer.convs.len());
        for (place, conv) in layer.convs.iter().enumerate() {
            let at = |e| format!("model.layers[{index}].convs[{place}]: {e}");
            let options = options(conv, relations).map_err(at)?;
            let planned = match conv.layout {
                Layout::Pyg => weights.pyg_conv(&conv.weights, options),
                Layout::Dgl => weights.dgl_conv(&conv.weights, options),
            };
            convs.push(planned.map_err(|e| at(e.to_string()))?);
        }
        let activation = match layer.activation {
            spec::ActivationKind::None => Activation::None,
            spec::ActivationKind::Relu => Activation::Relu,
        };
        layers.push(Layer { convs, activation, normalize_after: layer.normalize_after });
    }
    let linear = spec.model.head.as_deref().map(|prefix| weights.linear(prefix)).transpose();
    let head = Head {
        linear: linear.map_err(|e| format!("model.head: {e}"))?,
        activation: match spec.model.output {
            OutputKind::None => HeadActivation::None,
            OutputKind::Sigmoid => HeadActivation::Sigmoid,
            OutputKind::Softmax => HeadActivation::Softmax,
        },
    };
    let scaler = spec.model.scaler.as_ref().map(|s| weights.scaler(&s.shift, &s.scale, in_dim)).transpose();
    let scaler = scaler.map_err(|e| format!("model.scaler: {e}"))?;
    let plan = ModelPlan { in_dim, scaler, layers, head };
    plan.validate().map_err(|e| named(spec, e.to_string()))?;
    check_outputs(spec, outputs(&plan))?;
    let unused = weights.unused();
    if !unused.is_empty() {
        tracing::warn!(tensors = unused.join(", "), "the weights file holds tensors that the release does not use");
    }
    Ok(plan)
}

/// A plan's problems count layers and convolutions; whoever wrote the file knows them by their tensors.
fn named(spec: &ReleaseSpec, problems: String) -> String {
    let mut text = problems;
    for (l, layer) in spec.model.layers.iter().enumerate() {
        for (c, conv) in layer.convs.iter().enumerate() {
            let place = format!("layer {l}, convolution {c},");
            text = text.replace(&place, &format!("layer {l}, convolution {c} (`{}.*`),", conv.weights));
        }
    }
    text
}

/// How many logits a model gives.
fn outputs(plan: &ModelPlan) -> usize {
    match &plan.head.linear {
        Some(linear) => linear.weight.rows,
        None => plan.layers.last().map_or(0, Layer::out_dim),
    }
}

fn options(conv: &ConvSpec, relations: &[String]) -> Result<ConvOptions, String> {
    let relation = relations.iter().position(|name| *name == conv.relation);
    Ok(ConvOptions {
        relation: relation.ok_or_else(|| format!("relation `{}` is not counted", conv.relation))?,
        aggregator: match conv.aggregator {
            spec::AggregatorKind::Mean => AggregatorKind::Mean,
            spec::AggregatorKind::Sum => AggregatorKind::Sum,
            spec::AggregatorKind::Max => AggregatorKind::Max,
            spec::AggregatorKind::Pool => AggregatorKind::Pool,
            spec::AggregatorKind::Lstm => AggregatorKind::Lstm,
            spec::AggregatorKind::Gcn => AggregatorKind::Gcn,
            spec::AggregatorKind::Weigher => AggregatorKind::Coefficients,
            spec::AggregatorKind::Reducer => AggregatorKind::Reducer,
        },
        normalize: conv.normalize,
        project: conv.project,
        root: conv.root,
        pad_to: conv.pad_to,
    })
}

fn check_outputs(spec: &ReleaseSpec, outputs: usize) -> Result<(), String> {
    let classes = spec.model.classes.len();
    if classes != 0 && classes != outputs {
        return Err(format!("model.classes: {classes} names, the model has {outputs} outputs"));
    }
    Ok(())
}
