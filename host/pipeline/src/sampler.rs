//! The sampling stage: the release's plugin or the native sampler, and from blocks to the engine's layers.

use std::sync::Arc;
use std::time::Instant;

use sagehost_engine::{LayerBlocks, RelationBlock};
use sagehost_graph::{
    Assembled, AssembledLayer, GraphView, Growth, Hop, Part, Strategy, assemble, sample_hops, verify_blocks,
};
use sagehost_release::spec::{self, ReleaseSpec};
use sagehost_types::{Block, Code, Fault, Frontier};

use crate::binding::graph_fault;
use crate::plugins::Plugins;

/// A release's sampling settings, bound to relation indices.
pub(crate) struct SamplingPlan {
    hops: Vec<Hop>,
    growth: Growth,
    strategy: Strategy,
    salt: Arc<str>,
}

impl SamplingPlan {
    pub(crate) fn new(spec: &ReleaseSpec, relations: &[u32], salt: &str) -> Self {
        let hops = spec.sampling.hops.iter();
        Self {
            hops: hops.map(|hop| Hop { relations: relations.to_vec(), fanout: hop.fanout }).collect(),
            growth: match spec.sampling.growth {
                spec::Growth::Resample => Growth::Resample,
                spec::Growth::Reuse => Growth::Reuse,
            },
            strategy: match spec.sampling.strategy {
                spec::Strategy::Uniform => Strategy::Uniform,
                spec::Strategy::UniformWithReplacement => Strategy::UniformWithReplacement,
                spec::Strategy::Weighted => Strategy::Weighted,
                spec::Strategy::Latest => Strategy::Latest,
            },
            salt: salt.into(),
        }
    }

    /// Samples every hop of every seed. `full` takes all neighbours natively, whatever the release says.
    pub(crate) fn sample(
        &self,
        view: &Arc<dyn GraphView>,
        seeds: &Frontier,
        plugins: &Plugins,
        full: bool,
        deadline: Instant,
    ) -> Result<Vec<Block>, Fault> {
        if full {
            let hops: Vec<Hop> = self.hops.iter().map(|hop| Hop { fanout: -1, ..hop.clone() }).collect();
            return sample_hops(&**view, &self.salt, seeds, &hops, self.growth, self.strategy)
                .map_err(|e| graph_fault(&e));
        }
        let Some(sampler) = &plugins.sampler else {
            return sample_hops(&**view, &self.salt, seeds, &self.hops, self.growth, self.strategy)
                .map_err(|e| graph_fault(&e));
        };
        let sampled = sampler.sample(view, &self.salt, seeds, &self.hops, self.growth, deadline);
        let blocks = plugins.counted(sampler, sampled)?;
        // What a plugin says of the graph is checked: it cannot show the model an edge that is not there, or not yet.
        verify_blocks(&**view, seeds, &self.hops, self.growth, &blocks)
            .map_err(|e| Fault::new(Code::PluginFailed, format!("plugin `{}`: {e}", sampler.name())))?;
        Ok(blocks)
    }

    /// What the engine needs to know of sampled blocks.
    pub(crate) fn assemble(&self, seeds: &Frontier, blocks: &[Block]) -> Result<Assembled, Fault> {
        assemble(seeds, &self.hops, self.growth, blocks).map_err(|e| graph_fault(&e))
    }
}

/// The engine's layers of an assembled batch; `coefficients(layer, relation, parts)` gives those of an edge-weigher.
pub(crate) fn engine_layers(
    layers: Vec<AssembledLayer>,
    mut coefficients: impl FnMut(usize, usize, &[Part]) -> Result<Option<Vec<f32>>, Fault>,
) -> Result<Vec<LayerBlocks>, Fault> {
    let mut planned = Vec::with_capacity(layers.len());
    for (index, layer) in layers.into_iter().enumerate() {
        let mut relations = Vec::with_capacity(layer.relations.len());
        for (relation, edges) in layer.relations.into_iter().enumerate() {
            let coefficients = coefficients(index, relation, &edges.parts)?;
            relations.push(RelationBlock { offsets: edges.offsets, indices: edges.indices, coefficients });
        }
        let (num_src, num_dst, dst_rows) = (layer.num_src, layer.num_dst, layer.dst_rows);
        planned.push(LayerBlocks { num_src, num_dst, dst_rows, relations });
    }
    Ok(planned)
}
