//! A loaded model and its forward pass.

use std::sync::{Arc, Mutex, PoisonError};

use sagehost_engine::cpu::activate;
use sagehost_engine::{Batch, BatchRules, EngineError, Hooks, LayerBlocks, Model, Output, RelationBlock};

use crate::device::Gpu;
use crate::kernels::{GEMM_TILE, Kernel, Kernels, SEGMENT_WIDTH, flags, segment};
use crate::loops;
use crate::plan::{DeviceAggregator, DeviceConv, DeviceLayer, DeviceLinear, DeviceLstm, DevicePlan};
use crate::scratch::{Operand, Scratch, Sizes, Slot};
use crate::session::Session;

/// A model on a device.
pub(crate) struct WgpuModel {
    pub(crate) gpu: Arc<Gpu>,
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) plan: DevicePlan,
    pub(crate) rules: BatchRules,
    /// Idle scratch sets: as many as calls ever ran at the same time.
    pub(crate) idle: Mutex<Vec<Scratch>>,
}

impl Model for WgpuModel {
    fn forward(&self, batch: &Batch<'_>, hooks: &mut dyn Hooks) -> Result<Output, EngineError> {
        self.rules.check(batch)?;
        let idle = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = idle().pop();
        let mut scratch = match taken {
            Some(scratch) => scratch,
            None => self.gpu.guarded(|| Ok(Scratch::new(&self.gpu)))?,
        };
        let result = self.gpu.guarded(|| self.run(batch, hooks, &mut scratch));
        // After a device error nobody knows which buffers are mapped; the set is dropped.
        if !matches!(result, Err(EngineError::Device(_))) {
            idle().push(scratch);
        }
        let (embeddings, logits) = result?;
        let embedding_dim = self.plan.embedding_dim();
        let out_dim = self.plan.head.as_ref().map_or(embedding_dim, |head| head.outputs);
        let mut scores = logits.clone();
        activate(self.plan.activation, out_dim, &mut scores);
        Ok(Output { embedding_dim, embeddings, out_dim, logits, scores })
    }
}

impl WgpuModel {
    /// Embeddings and logits.
    fn run(
        &self,
        batch: &Batch<'_>,
        hooks: &mut dyn Hooks,
        scratch: &mut Scratch,
    ) -> Result<(Vec<f32>, Vec<f32>), EngineError> {
        let places = lay_out(&self.plan, batch, &mut scratch.ints)?;
        scratch.reserve(&self.gpu, &sizes(&self.plan, batch, scratch.ints.len()))?;
        let session = Session::new(&self.gpu, &self.kernels, scratch);
        let mut pass = Pass { gpu: &self.gpu, session, batch, hooks, places: &places };
        pass.session.put_ints();
        pass.session.put(Slot::RowsA, batch.features);
        for (l, (layer, blocks)) in self.plan.layers.iter().zip(&batch.layers).enumerate() {
            pass.layer(l, layer, blocks)?;
        }

        let rows = batch.layers.last().map_or(0, |layer| layer.num_dst);
        let embeddings = (rows_after(self.plan.layers.len()), rows * self.plan.embedding_dim());
        let Some(head) = &self.plan.head else {
            let embeddings = fetch_one(&mut pass.session, embeddings)?;
            return Ok((embeddings.clone(), embeddings));
        };
        pass.gemm(head, embeddings.0, None, rows, Slot::Logits, 0)?;
        let mut results = pass.session.fetch(&[embeddings, (Slot::Logits, rows * head.outputs)])?;
        let logits = results.pop().unwrap_or_default();
        Ok((results.pop().unwrap_or_default(), logits))
    }
}

fn fetch_one(session: &mut Session<'_>, wanted: (Slot, usize)) -> Result<Vec<f32>, EngineError> {
    Ok(session.fetch(&[wanted])?.pop().unwrap_or_default())
}

/// The slot of the rows that go into layer `l`.
fn rows_after(l: usize) -> Slot {
    if l.is_multiple_of(2) { Slot::RowsA } else { Slot::RowsB }
}

/// Where a layer's lists start in [`Slot::Ints`].
struct LayerPlaces {
    dst_rows: u32,
    relations: Vec<RelationPlaces>,
}

#[derive(Clone, Copy, Default)]
struct RelationPlaces {
    offsets: u32,
    indices: u32,
    coefficients: u32,
}

/// Puts all index lists, and the bits of the coefficients, into one list.
fn lay_out(plan: &DevicePlan, batch: &Batch<'_>, ints: &mut Vec<u32>) -> Result<Vec<LayerPlaces>, EngineError> {
    fn push(ints: &mut Vec<u32>, values: &[u32]) -> Result<u32, EngineError> {
        let at = u32::try_from(ints.len()).map_err(|_| EngineError::Batch("over 2^32 indices".into()))?;
        ints.extend_from_slice(values);
        Ok(at)
    }
    ints.clear();
    let mut places = Vec::with_capacity(batch.layers.len());
    for (layer, blocks) in plan.layers.iter().zip(&batch.layers) {
        let dst_rows = push(ints, &blocks.dst_rows)?;
        let mut relations = Vec::with_capacity(blocks.relations.len());
        for (r, block) in blocks.relations.iter().enumerate() {
            let mut at = RelationPlaces::default();
            // What no convolution reads was not checked either.
            if layer.convs.iter().any(|conv| conv.relation == r) {
                at.offsets = push(ints, &block.offsets)?;
                at.indices = push(ints, &block.indices)?;
                at.coefficients = push(ints, bytemuck::cast_slice(block.coefficients.as_deref().unwrap_or_default()))?;
            }
            relations.push(at);
        }
        places.push(LayerPlaces { dst_rows, relations });
    }
    Ok(places)
}

/// What a forward pass needs in every slot. Known before anything runs, because growing a slot loses its content.
fn sizes(plan: &DevicePlan, batch: &Batch<'_>, ints: usize) -> Sizes {
    let mut sizes = [0; Slot::COUNT];
    let mut need = |slot: Slot, rows: usize, dim: usize| {
        let elements = (rows as u64).saturating_mul(dim as u64);
        sizes[slot as usize] = sizes[slot as usize].max(elements);
    };
    need(Slot::Ints, ints, 1);
    for (l, (layer, blocks)) in plan.layers.iter().zip(&batch.layers).enumerate() {
        let (src, dst) = (blocks.num_src, blocks.num_dst);
        need(rows_after(l), src, layer.in_dim);
        need(rows_after(l + 1), dst, layer.out_dim);
        if layer.normalize_after {
            need(Slot::Summed, dst, layer.out_dim);
        }
        for conv in &layer.convs {
            if let Some(project) = &conv.project {
                need(Slot::Projected, src, project.outputs);
            }
            match &conv.aggregator {
                DeviceAggregator::Pool(pool) => need(Slot::Transformed, src, pool.outputs),
                DeviceAggregator::Lstm(lstm) => {
                    need(Slot::Transformed, src, lstm.input.outputs);
                    need(Slot::State, dst, lstm.hidden.saturating_mul(3));
                }
                _ => {}
            }
            need(Slot::Aggregated, dst, conv.neighbour.inputs);
            if conv.normalize {
                need(Slot::Convolved, dst, layer.out_dim);
            }
        }
    }
    if let Some(head) = &plan.head {
        need(Slot::Logits, batch.layers.last().map_or(0, |layer| layer.num_dst), head.outputs);
    }
    sizes
}

/// A size that fits a 32-bit kernel parameter: [`Scratch::reserve`] has refused larger ones.
fn word(value: usize) -> Result<u32, EngineError> {
    u32::try_from(value).map_err(|_| EngineError::Batch(format!("{value} is over 32 bits")))
}

/// A forward pass while it is recorded.
struct Pass<'s, 'b> {
    gpu: &'s Gpu,
    session: Session<'s>,
    batch: &'s Batch<'b>,
    hooks: &'s mut dyn Hooks,
    places: &'s [LayerPlaces],
}

impl<'s> Pass<'s, '_> {
    fn layer(&mut self, l: usize, layer: &'s DeviceLayer, blocks: &'s LayerBlocks) -> Result<(), EngineError> {
        let out = rows_after(l + 1);
        let sum = if layer.normalize_after { Slot::Summed } else { out };
        for (c, conv) in layer.convs.iter().enumerate() {
            let last = c + 1 == layer.convs.len();
            let mut flag = if c > 0 { flags::ACCUMULATE } else { 0 };
            if last && layer.relu {
                flag |= flags::RELU;
            }
            if conv.normalize {
                self.conv(l, conv, blocks, Slot::Convolved, 0)?;
                self.normalize(Slot::Convolved, sum, blocks.num_dst, layer.out_dim, flag)?;
            } else {
                self.conv(l, conv, blocks, sum, flag)?;
            }
        }
        if layer.normalize_after {
            self.normalize(sum, out, blocks.num_dst, layer.out_dim, 0)?;
        }
        Ok(())
    }

    /// `target (+)= neighbour(aggregate(x)) + root(x_dst)`, in this order; ReLU with the last product.
    fn conv(
        &mut self,
        l: usize,
        conv: &'s DeviceConv,
        blocks: &'s LayerBlocks,
        target: Slot,
        flag: u32,
    ) -> Result<(), EngineError> {
        let rows = rows_after(l);
        let x = match &conv.project {
            Some(project) => {
                self.gemm(project, rows, None, blocks.num_src, Slot::Projected, flags::RELU)?;
                Slot::Projected
            }
            None => rows,
        };
        self.aggregate(l, conv, blocks, x)?;
        let own = self.places[l].dst_rows;
        match &conv.root {
            Some(root) => {
                let before = flag & !flags::RELU;
                self.gemm(&conv.neighbour, Slot::Aggregated, None, blocks.num_dst, target, before)?;
                self.gemm(root, rows, Some(own), blocks.num_dst, target, flag | flags::ACCUMULATE)
            }
            None => self.gemm(&conv.neighbour, Slot::Aggregated, None, blocks.num_dst, target, flag),
        }
    }

    /// Fills [`Slot::Aggregated`] with one row per destination.
    fn aggregate(
        &mut self,
        l: usize,
        conv: &'s DeviceConv,
        blocks: &'s LayerBlocks,
        x: Slot,
    ) -> Result<(), EngineError> {
        let dim = conv.project.as_ref().map_or(conv.in_dim, |project| project.outputs);
        match &conv.aggregator {
            DeviceAggregator::Mean => self.segment(Kernel::SegmentSum, segment::MEAN, l, conv, blocks, (x, dim)),
            DeviceAggregator::Sum => self.segment(Kernel::SegmentSum, segment::SUM, l, conv, blocks, (x, dim)),
            DeviceAggregator::Gcn => self.segment(Kernel::SegmentSum, segment::GCN, l, conv, blocks, (x, dim)),
            DeviceAggregator::Max => self.segment(Kernel::SegmentMax, 0, l, conv, blocks, (x, dim)),
            DeviceAggregator::Coefficients => self.segment(Kernel::SegmentWeighted, 0, l, conv, blocks, (x, dim)),
            DeviceAggregator::Pool(pool) => {
                self.gemm(pool, x, None, blocks.num_src, Slot::Transformed, flags::RELU)?;
                self.segment(Kernel::SegmentMax, 0, l, conv, blocks, (Slot::Transformed, pool.outputs))
            }
            DeviceAggregator::Lstm(lstm) => self.lstm(l, conv, lstm, blocks, x),
            DeviceAggregator::Reducer => self.reduce(l, conv, blocks, (x, dim)),
        }
    }

    /// `target = x · Wᵀ + b` for `rows` rows of x, or for the rows that the index list at `index` names.
    fn gemm(
        &mut self,
        linear: &'s DeviceLinear,
        x: Slot,
        index: Option<u32>,
        rows: usize,
        target: Slot,
        mut flag: u32,
    ) -> Result<(), EngineError> {
        if linear.bias.is_some() {
            flag |= flags::BIAS;
        }
        if index.is_some() {
            flag |= flags::GATHER;
        }
        let bias = linear.bias.as_ref().unwrap_or(&linear.weight);
        let operands = [
            Operand::Slot(x),
            Operand::Weight(&linear.weight),
            Operand::Weight(bias),
            Operand::Slot(Slot::Ints),
            Operand::Slot(target),
        ];
        let [rows, cols, inner] = [word(rows)?, word(linear.outputs)?, word(linear.inputs)?];
        let tiles = u64::from(rows).div_ceil(GEMM_TILE[0]) * u64::from(cols).div_ceil(GEMM_TILE[1]);
        self.session.run(Kernel::Gemm, &operands, [rows, cols, inner, flag, index.unwrap_or(0), 0, 0], tiles)
    }

    fn segment(
        &mut self,
        kernel: Kernel,
        mode: u32,
        l: usize,
        conv: &DeviceConv,
        blocks: &LayerBlocks,
        (x, dim): (Slot, usize),
    ) -> Result<(), EngineError> {
        let layer = &self.places[l];
        let at = relation_places(layer, conv)?;
        let iterations = if kernel == Kernel::SegmentMax { loops::max } else { loops::sum };
        check_loops(self.gpu, l, conv, blocks, iterations)?;
        let operands = [Operand::Slot(x), Operand::Slot(Slot::Ints), Operand::Slot(Slot::Aggregated)];
        let params = [word(blocks.num_dst)?, word(dim)?, mode, at.offsets, at.indices, layer.dst_rows, at.coefficients];
        let elements = u64::from(params[0]) * u64::from(params[1]);
        self.session.run(kernel, &operands, params, elements.div_ceil(SEGMENT_WIDTH))
    }

    fn normalize(&mut self, x: Slot, target: Slot, rows: usize, dim: usize, flag: u32) -> Result<(), EngineError> {
        let params = [word(rows)?, word(dim)?, flag, 0, 0, 0, 0];
        self.session.run(Kernel::Normalize, &[Operand::Slot(x), Operand::Slot(target)], params, rows as u64)
    }

    fn lstm(
        &mut self,
        l: usize,
        conv: &DeviceConv,
        lstm: &'s DeviceLstm,
        blocks: &LayerBlocks,
        x: Slot,
    ) -> Result<(), EngineError> {
        self.gemm(&lstm.input, x, None, blocks.num_src, Slot::Transformed, 0)?;
        let at = relation_places(&self.places[l], conv)?;
        let operands = [
            Operand::Slot(Slot::Transformed),
            Operand::Weight(&lstm.recurrent),
            Operand::Weight(&lstm.biases),
            Operand::Slot(Slot::Ints),
            Operand::Slot(Slot::State),
            Operand::Slot(Slot::Aggregated),
        ];
        let pad_to = lstm.pad_to.unwrap_or(0);
        check_loops(self.gpu, l, conv, blocks, |degree| loops::lstm(degree.max(pad_to), lstm.hidden))?;
        let params = [word(blocks.num_dst)?, word(lstm.hidden)?, at.offsets, at.indices, pad_to, 0, 0];
        self.session.run(Kernel::Lstm, &operands, params, blocks.num_dst as u64)
    }

    /// Lets the plugin reduce. At layer 0 without a projection its rows are the batch's own; otherwise they are read back.
    fn reduce(
        &mut self,
        l: usize,
        conv: &DeviceConv,
        blocks: &LayerBlocks,
        (x, dim): (Slot, usize),
    ) -> Result<(), EngineError> {
        let block = blocks
            .relations
            .get(conv.relation)
            .ok_or_else(|| EngineError::Batch(format!("layer {l} has no relation {}", conv.relation)))?;
        let gathered = if x == Slot::RowsA && l == 0 {
            gather(self.batch.features, dim, block)
        } else {
            gather(&fetch_one(&mut self.session, (x, blocks.num_src * dim))?, dim, block)
        };
        let rows = self.hooks.reduce(l, conv.relation, dim, &block.offsets, &gathered).map_err(EngineError::Hook)?;
        sagehost_engine::rules::check_reduced(&rows, blocks.num_dst, dim)?;
        self.session.put_owned(Slot::Aggregated, rows);
        Ok(())
    }
}

fn relation_places(layer: &LayerPlaces, conv: &DeviceConv) -> Result<RelationPlaces, EngineError> {
    let at = layer.relations.get(conv.relation).copied();
    at.ok_or_else(|| EngineError::Batch(format!("the batch has no relation {}", conv.relation)))
}

/// Refuses a destination with so many neighbours (or padded steps) that the driver would skip some of them.
fn check_loops(
    gpu: &Gpu,
    l: usize,
    conv: &DeviceConv,
    blocks: &LayerBlocks,
    iterations: impl FnOnce(u32) -> u64,
) -> Result<(), EngineError> {
    let degrees = blocks.relations.get(conv.relation).map_or(&[][..], |block| &block.offsets).windows(2);
    let longest = || degrees.map(|ends| ends[1] - ends[0]).max().unwrap_or(0);
    match gpu.cuts_loops(|| iterations(longest())) {
        Some(most) => Err(EngineError::Batch(format!(
            "layer {l}, relation {}: the longest neighbourhood is too long for this adapter, whose driver ends a shader's \
             loops after {most} iterations: serve smaller fan-outs, or use a GPU or the CPU backend",
            conv.relation
        ))),
        None => Ok(()),
    }
}

/// One row per edge. The block's indices were checked against the number of rows.
fn gather(rows: &[f32], dim: usize, block: &RelationBlock) -> Vec<f32> {
    let mut out = Vec::with_capacity(block.indices.len() * dim);
    for &index in &block.indices {
        out.extend_from_slice(&rows[index as usize * dim..][..dim]);
    }
    out
}
