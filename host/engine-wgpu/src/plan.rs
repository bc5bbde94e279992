//! A model plan placed on the device.

use sagehost_engine::EngineError;
use sagehost_engine::plan::{Activation, Aggregator, Conv, HeadActivation, Layer, Linear, Lstm, ModelPlan};

use crate::device::{Gpu, GpuBuffer};
use crate::loops;

/// `y = x · weightᵀ + bias`.
pub(crate) struct DeviceLinear {
    pub(crate) weight: GpuBuffer,
    pub(crate) bias: Option<GpuBuffer>,
    pub(crate) inputs: usize,
    pub(crate) outputs: usize,
}

/// See `shaders/lstm.wgsl`.
pub(crate) struct DeviceLstm {
    /// W_ih with b_ih: applied once per source row.
    pub(crate) input: DeviceLinear,
    /// W_hh, the four gates of a (hidden input, hidden unit) side by side.
    pub(crate) recurrent: GpuBuffer,
    /// b_ih, then b_hh.
    pub(crate) biases: GpuBuffer,
    pub(crate) hidden: usize,
    pub(crate) pad_to: Option<u32>,
}

pub(crate) enum DeviceAggregator {
    Mean,
    Sum,
    Max,
    Pool(DeviceLinear),
    Lstm(DeviceLstm),
    Gcn,
    Coefficients,
    Reducer,
}

pub(crate) struct DeviceConv {
    pub(crate) relation: usize,
    pub(crate) aggregator: DeviceAggregator,
    pub(crate) project: Option<DeviceLinear>,
    pub(crate) neighbour: DeviceLinear,
    pub(crate) root: Option<DeviceLinear>,
    pub(crate) normalize: bool,
    /// Width of the rows that come in.
    pub(crate) in_dim: usize,
}

pub(crate) struct DeviceLayer {
    pub(crate) convs: Vec<DeviceConv>,
    pub(crate) relu: bool,
    pub(crate) normalize_after: bool,
    pub(crate) in_dim: usize,
    pub(crate) out_dim: usize,
}

pub(crate) struct DevicePlan {
    pub(crate) in_dim: usize,
    pub(crate) layers: Vec<DeviceLayer>,
    pub(crate) head: Option<DeviceLinear>,
    pub(crate) activation: HeadActivation,
}

impl DevicePlan {
    /// Uploads a plan whose shapes were checked.
    pub(crate) fn place(gpu: &Gpu, plan: &ModelPlan) -> Result<Self, EngineError> {
        let mut in_dim = plan.in_dim;
        let mut layers = Vec::with_capacity(plan.layers.len());
        for (l, layer) in plan.layers.iter().enumerate() {
            layers.push(place_layer(gpu, l, layer, in_dim)?);
            in_dim = layer.out_dim();
        }
        let head = plan.head.linear.as_ref().map(|linear| place_linear(gpu, "the head", linear)).transpose()?;
        Ok(Self { in_dim: plan.in_dim, layers, head, activation: plan.head.activation })
    }

    /// Width of the last layer's rows.
    pub(crate) fn embedding_dim(&self) -> usize {
        self.layers.last().map_or(self.in_dim, |layer| layer.out_dim)
    }
}

fn place_layer(gpu: &Gpu, l: usize, layer: &Layer, in_dim: usize) -> Result<DeviceLayer, EngineError> {
    let convs = layer.convs.iter().map(|conv| place_conv(gpu, l, conv, in_dim)).collect::<Result<_, _>>()?;
    if layer.normalize_after || layer.convs.iter().any(|conv| conv.normalize) {
        check_loops(gpu, &format!("layer {l}: rows of {}", layer.out_dim()), || loops::normalize(layer.out_dim()))?;
    }
    Ok(DeviceLayer {
        convs,
        relu: layer.activation == Activation::Relu,
        normalize_after: layer.normalize_after,
        in_dim,
        out_dim: layer.out_dim(),
    })
}

fn place_conv(gpu: &Gpu, l: usize, conv: &Conv, in_dim: usize) -> Result<DeviceConv, EngineError> {
    let name = |part: &str| format!("layer {l}, relation {}: {part}", conv.relation);
    let optional = |part: &str, linear: &Option<Linear>| {
        linear.as_ref().map(|linear| place_linear(gpu, &name(part), linear)).transpose()
    };
    let aggregator = match &conv.aggregator {
        Aggregator::Mean => DeviceAggregator::Mean,
        Aggregator::Sum => DeviceAggregator::Sum,
        Aggregator::Max => DeviceAggregator::Max,
        Aggregator::Pool(linear) => DeviceAggregator::Pool(place_linear(gpu, &name("pool"), linear)?),
        Aggregator::Lstm(lstm) => DeviceAggregator::Lstm(place_lstm(gpu, &name("lstm"), lstm)?),
        Aggregator::Gcn => DeviceAggregator::Gcn,
        Aggregator::Coefficients => DeviceAggregator::Coefficients,
        Aggregator::Reducer => DeviceAggregator::Reducer,
    };
    Ok(DeviceConv {
        relation: conv.relation,
        aggregator,
        project: optional("project", &conv.project)?,
        neighbour: place_linear(gpu, &name("neighbour"), &conv.neighbour)?,
        root: optional("root", &conv.root)?,
        normalize: conv.normalize,
        in_dim,
    })
}

/// Refuses what the driver would cut short whatever the batch.
fn check_loops(gpu: &Gpu, what: &str, iterations: impl FnOnce() -> u64) -> Result<(), EngineError> {
    match gpu.cuts_loops(iterations) {
        Some(most) => Err(EngineError::Device(format!(
            "{what} are too wide for this adapter: its driver ends a shader's loops after {most} iterations; use a GPU or \
             the CPU backend"
        ))),
        None => Ok(()),
    }
}

fn place_linear(gpu: &Gpu, name: &str, linear: &Linear) -> Result<DeviceLinear, EngineError> {
    check_loops(gpu, &format!("{name}: {} inputs", linear.weight.cols), || loops::gemm(linear.weight.cols))?;
    Ok(DeviceLinear {
        weight: gpu.upload(&format!("{name} weight"), &linear.weight.data)?,
        bias: linear.bias.as_ref().map(|bias| gpu.upload(&format!("{name} bias"), bias)).transpose()?,
        inputs: linear.weight.cols,
        outputs: linear.weight.rows,
    })
}

fn place_lstm(gpu: &Gpu, name: &str, lstm: &Lstm) -> Result<DeviceLstm, EngineError> {
    let hidden = lstm.weight_hh.cols;
    let input = Linear { weight: lstm.weight_ih.clone(), bias: Some(lstm.bias_ih.clone()) };
    let biases = [lstm.bias_ih.as_slice(), lstm.bias_hh.as_slice()].concat();
    Ok(DeviceLstm {
        input: place_linear(gpu, &format!("{name} input"), &input)?,
        recurrent: gpu.upload(&format!("{name} recurrent weight"), &interleave_gates(&lstm.weight_hh.data, hidden))?,
        biases: gpu.upload(&format!("{name} biases"), &biases)?,
        hidden,
        pad_to: lstm.pad_to,
    })
}

/// From `[4·hidden, hidden]` to one (input, forget, cell, output) quadruple per (hidden input k, hidden unit j), at
/// `k · hidden + j`, so that neighbouring invocations (units) read neighbouring quadruples.
fn interleave_gates(weight: &[f32], hidden: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(weight.len());
    for k in 0..hidden {
        for j in 0..hidden {
            out.extend((0..4).map(|gate| weight[(gate * hidden + j) * hidden + k]));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn gates_lie_side_by_side() {
        // Hidden 2: weight row gate·2 + j, column k holds 100·gate + 10·j + k.
        let weight: Vec<f32> =
            (0..8).flat_map(|row| (0..2).map(move |k| (100 * (row / 2) + 10 * (row % 2) + k) as f32)).collect();
        let out = super::interleave_gates(&weight, 2);
        assert_eq!(&out[..4], &[0.0, 100.0, 200.0, 300.0]);
        assert_eq!(&out[4..8], &[10.0, 110.0, 210.0, 310.0]);
        assert_eq!(&out[8..12], &[1.0, 101.0, 201.0, 301.0]);
    }
}
