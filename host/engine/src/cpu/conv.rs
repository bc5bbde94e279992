//! One convolution: sources made ready, then tiles of destinations, each aggregated, multiplied and finished in turn.

use super::aggregate::{self, Sources};
use super::dense::{Dense, Packed, TILE};
use super::finish::{self, Bias};
use super::lstm::CpuLstm;
use super::scratch::{Scratch, grown};
use super::simd::Level;
use crate::backend::{Hooks, LayerBlocks, RelationBlock};
use crate::error::EngineError;
use crate::plan::{Aggregator, Conv};
use crate::rules::check_reduced;

/// A loaded convolution.
pub(crate) struct CpuConv {
    relation: usize,
    project: Option<Dense>,
    kind: Kind,
    /// Width of an aggregated row.
    aggregated: usize,
    /// Whether a destination's own row follows the aggregated one in the product's input.
    root: bool,
    /// Neighbour and root weights side by side: one product gives the sum of both.
    weights: Packed,
    bias: Bias,
    normalize: bool,
}

enum Kind {
    Mean,
    Sum,
    Max,
    Pool(Dense),
    Lstm(CpuLstm),
    Gcn,
    Coefficients,
    Reducer,
}

/// What a convolution must know about its layer.
#[derive(Clone, Copy)]
pub(crate) struct Stage {
    pub(crate) level: Level,
    /// Index of the layer.
    pub(crate) layer: usize,
    /// The layer's first convolution: its rows are stored, later ones are added.
    pub(crate) first: bool,
    /// The layer's last convolution applies the activation …
    pub(crate) relu: bool,
    /// … and then the normalisation.
    pub(crate) normalize_after: bool,
}

impl CpuConv {
    pub(crate) fn new(conv: &Conv) -> Self {
        let kind = match &conv.aggregator {
            Aggregator::Mean => Kind::Mean,
            Aggregator::Sum => Kind::Sum,
            Aggregator::Max => Kind::Max,
            Aggregator::Pool(fc) => Kind::Pool(Dense::new(fc)),
            Aggregator::Lstm(lstm) => Kind::Lstm(CpuLstm::new(lstm)),
            Aggregator::Gcn => Kind::Gcn,
            Aggregator::Coefficients => Kind::Coefficients,
            Aggregator::Reducer => Kind::Reducer,
        };
        let weights: Vec<_> = [Some(&conv.neighbour), conv.root.as_ref()].into_iter().flatten().collect();
        Self {
            relation: conv.relation,
            project: conv.project.as_ref().map(Dense::new),
            kind,
            aggregated: conv.neighbour.weight.cols,
            root: conv.root.is_some(),
            weights: Packed::new(&weights.iter().map(|l| &l.weight).collect::<Vec<_>>()),
            bias: Bias::new(conv.neighbour.weight.rows, weights.iter().map(|l| l.bias.as_deref())),
            normalize: conv.normalize,
        }
    }

    /// Adds this convolution's rows to `out`. `input` is the layer's rows and their width.
    pub(crate) fn forward(
        &self,
        stage: Stage,
        input: (&[f32], usize),
        blocks: &LayerBlocks,
        out: &mut [f32],
        scratch: &mut Scratch,
        hooks: &mut dyn Hooks,
    ) -> Result<(), EngineError> {
        let own = Sources { rows: input.0, dim: input.1 };
        let block = &blocks.relations[self.relation];
        let Scratch { projected, sources, aggregated, tile, state, .. } = scratch;
        let mut neighbours = own;
        if let Some(project) = &self.project {
            let rows = grown(projected, blocks.num_src * project.out_dim());
            project.run(stage.level, input, true, rows, tile);
            neighbours = Sources { rows, dim: project.out_dim() };
        }
        // Rows by destination, where they do not come out of the tile's own loop.
        let reduced;
        let mut ready: Option<&[f32]> = None;
        match &self.kind {
            Kind::Pool(fc) => {
                let rows = grown(sources, blocks.num_src * fc.out_dim());
                fc.run(stage.level, (neighbours.rows, neighbours.dim), true, rows, tile);
                neighbours = Sources { rows, dim: fc.out_dim() };
            }
            Kind::Lstm(lstm) => {
                let rows = grown(aggregated, blocks.num_dst * lstm.hidden());
                lstm.run(stage.level, (neighbours.rows, neighbours.dim), block, (sources, tile, state), rows);
                ready = Some(rows);
            }
            Kind::Reducer => {
                reduced = self.reduce(stage.layer, neighbours, block, sources, hooks)?;
                ready = Some(&reduced);
            }
            Kind::Mean | Kind::Sum | Kind::Max | Kind::Gcn | Kind::Coefficients => {}
        }

        let (depth, cols) = (self.weights.depth(), self.weights.cols());
        let x = grown(&mut tile.input, TILE * depth);
        let y = grown(&mut tile.output, TILE * cols);
        for (t, out) in out.chunks_mut(TILE * self.bias.len()).enumerate() {
            for (at, row) in x.chunks_exact_mut(depth).take(out.len() / self.bias.len()).enumerate() {
                let dst = t * TILE + at;
                let (to, rest) = row.split_at_mut(self.aggregated);
                let own_row = own.row(blocks.dst_rows[dst]);
                match ready {
                    Some(rows) => to.copy_from_slice(&rows[dst * self.aggregated..][..self.aggregated]),
                    None => self.aggregate(stage.level, neighbours, block, dst, own_row, to),
                }
                let filled = if self.root {
                    rest[..own.dim].copy_from_slice(own_row);
                    own.dim
                } else {
                    0
                };
                rest[filled..].fill(0.0);
            }
            self.weights.multiply(x, y);
            for (y, out) in y.chunks_exact_mut(cols).zip(out.chunks_exact_mut(self.bias.len())) {
                self.finish(stage, &mut y[..self.bias.len()], out);
            }
        }
        Ok(())
    }

    fn aggregate(
        &self,
        level: Level,
        sources: Sources<'_>,
        block: &RelationBlock,
        dst: usize,
        own: &[f32],
        to: &mut [f32],
    ) {
        let edges = block.offsets[dst] as usize..block.offsets[dst + 1] as usize;
        let neighbours = &block.indices[edges.clone()];
        match &self.kind {
            Kind::Max | Kind::Pool(_) => aggregate::max(level, sources, neighbours, to),
            Kind::Coefficients => {
                let coefficients = block.coefficients.as_deref().and_then(|c| c.get(edges)).unwrap_or_default();
                aggregate::weighted(level, sources, neighbours, coefficients, to);
            }
            Kind::Sum | Kind::Mean | Kind::Gcn | Kind::Lstm(_) | Kind::Reducer => {
                aggregate::sum(level, sources, neighbours, to);
                if matches!(self.kind, Kind::Gcn) {
                    aggregate::add_and_divide(level, to, own, neighbours.len() as f32 + 1.0);
                } else if matches!(self.kind, Kind::Mean) && neighbours.len() > 1 {
                    finish::divide(level, to, neighbours.len() as f32);
                }
            }
        }
    }

    /// Calls the reducer plugin with every neighbour row.
    fn reduce(
        &self,
        layer: usize,
        sources: Sources<'_>,
        block: &RelationBlock,
        gathered: &mut Vec<f32>,
        hooks: &mut dyn Hooks,
    ) -> Result<Vec<f32>, EngineError> {
        gathered.clear();
        gathered.reserve(block.indices.len() * sources.dim);
        block.indices.iter().for_each(|&i| gathered.extend_from_slice(sources.row(i)));
        let reduced =
            hooks.reduce(layer, self.relation, sources.dim, &block.offsets, gathered).map_err(EngineError::Hook)?;
        check_reduced(&reduced, block.offsets.len() - 1, sources.dim)?;
        Ok(reduced)
    }

    fn finish(&self, stage: Stage, y: &mut [f32], out: &mut [f32]) {
        let level = stage.level;
        if stage.first && !self.normalize {
            finish::store(level, y, &self.bias, out, stage.relu);
        } else {
            finish::accumulate(level, &self.bias, y);
            if self.normalize {
                finish::normalize(level, y);
            }
            if stage.first {
                out.copy_from_slice(y);
            } else {
                finish::accumulate(level, y, out);
            }
            if stage.relu {
                finish::relu_all(level, out);
            }
        }
        if stage.normalize_after {
            finish::normalize(level, out);
        }
    }
}
