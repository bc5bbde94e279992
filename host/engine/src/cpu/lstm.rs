//! The LSTM aggregator, destinations in tiles, step by step.

use super::dense::{Dense, Packed, TILE};
use super::math::{sigmoid, tanh};
use super::scratch::{State, Tile, grown};
use super::simd::{Level, vectorised};
use crate::backend::RelationBlock;
use crate::plan::Lstm;

/// A loaded LSTM.
#[derive(Debug)]
pub(crate) struct CpuLstm {
    hidden: usize,
    /// Input to gates, with both biases.
    input: Dense,
    /// Hidden state to gates.
    recurrent: Packed,
    pad_to: Option<usize>,
}

impl CpuLstm {
    pub(crate) fn new(lstm: &Lstm) -> Self {
        Self {
            hidden: lstm.weight_hh.cols,
            input: Dense::with_biases(&lstm.weight_ih, [&lstm.bias_ih, &lstm.bias_hh]),
            recurrent: Packed::new(&[&lstm.weight_hh]),
            pad_to: lstm.pad_to.map(|p| p as usize),
        }
    }

    pub(crate) fn hidden(&self) -> usize {
        self.hidden
    }

    /// The last hidden state of every destination of `block`, into `num_dst × hidden` values of `out`.
    ///
    /// The input's part of the gates is computed once for each source. Destinations are taken in order of their length,
    /// so that those of a tile end together; the order changes nothing in a destination's own arithmetic.
    pub(crate) fn run(
        &self,
        level: Level,
        rows: (&[f32], usize),
        block: &RelationBlock,
        buffers: (&mut Vec<f32>, &mut Tile, &mut State),
        out: &mut [f32],
    ) {
        let (gates, tile, state) = buffers;
        let width = self.input.out_dim();
        let gates = grown(gates, rows.0.len() / rows.1 * width);
        self.input.run(level, rows, false, gates, tile);

        let edges =
            |dst: u32| &block.indices[block.offsets[dst as usize] as usize..block.offsets[dst as usize + 1] as usize];
        let num_dst = block.offsets.len() - 1;
        state.order.clear();
        state.order.extend(0..num_dst as u32);
        state.order.sort_unstable_by_key(|&dst| std::cmp::Reverse(edges(dst).len()));

        let (hidden, depth) = (self.hidden, self.recurrent.depth());
        let y = grown(&mut tile.output, TILE * self.recurrent.cols());
        let h = grown(&mut state.hidden, TILE * depth);
        let c = grown(&mut state.cell, TILE * hidden);
        for destinations in state.order.chunks(TILE) {
            h.fill(0.0);
            c.fill(0.0);
            // The first of a tile is its longest.
            let steps = self.pad_to.unwrap_or_else(|| destinations.first().map_or(0, |&d| edges(d).len()));
            for step in 0..steps {
                self.recurrent.multiply(h, y);
                for (at, &dst) in destinations.iter().enumerate() {
                    let neighbours = edges(dst);
                    let from_input = match neighbours.get(step) {
                        Some(&source) => &gates[source as usize * width..][..width],
                        // A row of padding is zeros, so that only the biases are left.
                        None if self.pad_to.is_some() => self.input.bias(),
                        None => break,
                    };
                    cell(
                        level,
                        &y[at * self.recurrent.cols()..][..width],
                        from_input,
                        &mut c[at * hidden..][..hidden],
                        &mut h[at * depth..][..hidden],
                    );
                }
            }
            for (at, &dst) in destinations.iter().enumerate() {
                out[dst as usize * hidden..][..hidden].copy_from_slice(&h[at * depth..][..hidden]);
            }
        }
    }
}

vectorised! {
    /// One step of one destination: gates in PyTorch's order (input, forget, cell, output).
    fn cell(recurrent: &[f32], input: &[f32], c: &mut [f32], h: &mut [f32]) {
        let hidden = c.len();
        let (ri, rf, rg, ro) = quarters(recurrent, hidden);
        let (xi, xf, xg, xo) = quarters(input, hidden);
        let h = &mut h[..hidden];
        for k in 0..hidden {
            let next = sigmoid(xf[k] + rf[k]) * c[k] + sigmoid(xi[k] + ri[k]) * tanh(xg[k] + rg[k]);
            c[k] = next;
            h[k] = sigmoid(xo[k] + ro[k]) * tanh(next);
        }
    }
}

#[inline(always)]
fn quarters(gates: &[f32], hidden: usize) -> (&[f32], &[f32], &[f32], &[f32]) {
    let (a, rest) = gates.split_at(hidden);
    let (b, rest) = rest.split_at(hidden);
    let (c, rest) = rest.split_at(hidden);
    (a, b, c, &rest[..hidden])
}
