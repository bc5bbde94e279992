//! Buffers that forward passes use again: after warm-up a batch allocates nothing but its output (and the few bytes that
//! `gemm` keeps for itself).

use std::sync::{Mutex, PoisonError};

/// Most scratch sets that wait for use; more threads than that at once make their own and drop them.
const KEPT: usize = 64;
/// A set larger than this (in floats) is dropped after use, so that one giant batch does not hold its memory for ever.
const LARGEST: usize = 64 << 20;

/// The buffers of one forward pass.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// Rows between layers.
    pub(crate) rows: [Vec<f32>; 2],
    /// PyG's projected sources.
    pub(crate) projected: Vec<f32>,
    /// DGL's pooled sources; an LSTM's input gates; what a reducer gathers.
    pub(crate) sources: Vec<f32>,
    /// Rows by destination that are ready before the tiles are: an LSTM's.
    pub(crate) aggregated: Vec<f32>,
    /// One tile of a matrix product.
    pub(crate) tile: Tile,
    /// An LSTM's state for one tile.
    pub(crate) state: State,
}

/// See [`Scratch::tile`].
#[derive(Debug, Default)]
pub(crate) struct Tile {
    pub(crate) input: Vec<f32>,
    pub(crate) output: Vec<f32>,
}

/// See [`Scratch::state`].
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) hidden: Vec<f32>,
    pub(crate) cell: Vec<f32>,
    pub(crate) order: Vec<u32>,
}

impl Scratch {
    fn floats(&self) -> usize {
        let Self { rows: [a, b], projected, sources, aggregated, tile, state } = self;
        [a, b, projected, sources, aggregated, &tile.input, &tile.output, &state.hidden, &state.cell]
            .iter()
            .map(|v| v.capacity())
            .sum()
    }
}

/// The first `len` values of a buffer that grows and never shrinks. What is in them is left over from earlier use.
pub(crate) fn grown(buffer: &mut Vec<f32>, len: usize) -> &mut [f32] {
    if buffer.len() < len {
        buffer.resize(len, 0.0);
    }
    &mut buffer[..len]
}

/// Scratch sets that wait for use.
#[derive(Debug, Default)]
pub(crate) struct Pool(Mutex<Vec<Scratch>>);

impl Pool {
    pub(crate) fn take(&self) -> Scratch {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    pub(crate) fn put(&self, scratch: Scratch) {
        if scratch.floats() <= LARGEST {
            let mut sets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if sets.len() < KEPT {
                sets.push(scratch);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_used_again_but_giants_are_not_kept() {
        let pool = Pool::default();
        let mut scratch = pool.take();
        grown(&mut scratch.projected, 1000)[0] = 7.0;
        pool.put(scratch);
        let mut scratch = pool.take();
        assert_eq!(grown(&mut scratch.projected, 10)[0], 7.0);
        assert_eq!(scratch.projected.len(), 1000);
        scratch.sources.reserve_exact(LARGEST + 1);
        pool.put(scratch);
        assert_eq!(pool.take().floats(), 0);
    }
}
