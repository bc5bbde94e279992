//! Batches that own their features, and cutting smaller batches out of them.

use crate::backend::{Batch, LayerBlocks, RelationBlock};

/// A small generator (SplitMix64), so that the suite is the same everywhere.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n as u64) as usize
    }

    /// Uniform in [−1, 1).
    pub fn signed(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    /// `n` values in [−scale, scale).
    pub fn values(&mut self, n: usize, scale: f32) -> Vec<f32> {
        (0..n).map(|_| self.signed() * scale).collect()
    }

    /// A random order of `items`.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// A [`Batch`] that owns its features.
#[derive(Clone, Debug, Default)]
pub struct OwnedBatch {
    /// Width of an input row.
    pub in_dim: usize,
    /// See [`Batch::features`].
    pub features: Vec<f32>,
    /// See [`Batch::layers`].
    pub layers: Vec<LayerBlocks>,
}

impl OwnedBatch {
    /// The batch as backends take it.
    #[must_use]
    pub fn borrow(&self) -> Batch<'_> {
        Batch { features: &self.features, layers: self.layers.clone() }
    }

    /// Rows that come out.
    #[must_use]
    pub fn num_out(&self) -> usize {
        self.layers.last().map_or(0, |l| l.num_dst)
    }
}

/// The batch that computes only `seeds` (rows of `batch`'s output, each once), in that order, with the sources of every
/// layer in a random order and `strangers` rows more that nobody asked for.
#[must_use]
pub fn select(batch: &OwnedBatch, seeds: &[u32], strangers: usize, rng: &mut Rng) -> OwnedBatch {
    let mut wanted = seeds.to_vec();
    let mut layers = Vec::with_capacity(batch.layers.len());
    for layer in batch.layers.iter().rev() {
        let mut keep = vec![false; layer.num_src];
        for &dst in &wanted {
            keep[layer.dst_rows[dst as usize] as usize] = true;
            for relation in &layer.relations {
                edges(relation, dst).for_each(|e| keep[relation.indices[e] as usize] = true);
            }
        }
        for _ in 0..strangers.min(layer.num_src) {
            keep[rng.below(layer.num_src)] = true;
        }
        let mut sources: Vec<u32> = (0..layer.num_src as u32).filter(|&s| keep[s as usize]).collect();
        rng.shuffle(&mut sources);
        let mut place = vec![u32::MAX; layer.num_src];
        sources.iter().enumerate().for_each(|(at, &s)| place[s as usize] = at as u32);
        layers.push(LayerBlocks {
            num_src: sources.len(),
            num_dst: wanted.len(),
            dst_rows: wanted.iter().map(|&d| place[layer.dst_rows[d as usize] as usize]).collect(),
            relations: layer.relations.iter().map(|r| cut(r, &wanted, &place)).collect(),
        });
        wanted = sources;
    }
    layers.reverse();
    let row = |s: &u32| &batch.features[*s as usize * batch.in_dim..][..batch.in_dim];
    OwnedBatch { in_dim: batch.in_dim, features: wanted.iter().flat_map(row).copied().collect(), layers }
}

fn cut(relation: &RelationBlock, wanted: &[u32], place: &[u32]) -> RelationBlock {
    let mut block = RelationBlock { offsets: vec![0], indices: vec![], coefficients: None };
    let mut coefficients = vec![];
    for &dst in wanted {
        for edge in edges(relation, dst) {
            block.indices.push(place[relation.indices[edge] as usize]);
            coefficients.extend(relation.coefficients.as_ref().map(|c| c[edge]));
        }
        block.offsets.push(block.indices.len() as u32);
    }
    block.coefficients = relation.coefficients.as_ref().map(|_| coefficients);
    block
}

fn edges(relation: &RelationBlock, dst: u32) -> std::ops::Range<usize> {
    relation.offsets[dst as usize] as usize..relation.offsets[dst as usize + 1] as usize
}
