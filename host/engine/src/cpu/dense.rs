//! Matrix products in fixed tiles.
//!
//! `gemm` gives a row other bits in matrices of other heights, and splits the inner dimension by the machine's caches. So
//! it is only ever called with [`TILE`] rows, at most [`PANEL`] columns and at most [`DEPTH`] of the inner dimension: each
//! output is then one chain of multiply-adds in order of the inner index, whatever the row's place in its tile and
//! whatever its peers. Weights are packed in panels of that shape once, when the model is loaded; with them tiles are as
//! fast as one call for the whole matrix (`docs/engine.md`).

use super::finish::{self, Bias};
use super::scratch::{Tile, grown};
use super::simd::Level;
use crate::plan::{Linear, Matrix};

/// Rows of a call: a common multiple of the rows that `gemm`'s AVX-512 (6) and AVX2 (4) kernels take at once.
pub(crate) const TILE: usize = 12;
/// Columns of a call: what its AVX-512 kernel takes at once.
const PANEL: usize = 64;
/// Columns are padded to a multiple of this, the widest vector: `gemm` then reads packed weights where they lie.
const LANES: usize = 16;
/// Longest inner dimension of a call. Up to 512 `gemm` does not look at cache sizes; half of that loses less to rounding
/// and is about as fast.
const DEPTH: usize = 256;
/// Shortest inner dimension: below it `gemm` has other kernels.
const MIN_DEPTH: usize = 4;

/// Weights, transposed and packed for tiles.
#[derive(Debug)]
pub(crate) struct Packed {
    depth: usize,
    cols: usize,
    step: usize,
    /// Panel by panel, each `depth × width` row-major.
    panels: Vec<f32>,
}

impl Packed {
    /// Packs `[out, in]` matrices of equal height side by side: the product's input is their inputs, concatenated.
    pub(crate) fn new(parts: &[&Matrix]) -> Self {
        let inner: usize = parts.iter().map(|m| m.cols).sum();
        let out = parts.first().map_or(0, |m| m.rows);
        let depth = inner.max(MIN_DEPTH);
        let cols = out.next_multiple_of(LANES);
        let step = depth.div_ceil(depth.div_ceil(DEPTH));
        let mut panels = Vec::with_capacity(depth * cols);
        for from in (0..cols).step_by(PANEL) {
            let columns = from..cols.min(from + PANEL);
            for part in parts {
                for k in 0..part.cols {
                    let weight = |c: usize| if c < out { part.data[c * part.cols + k] } else { 0.0 };
                    panels.extend(columns.clone().map(weight));
                }
            }
            panels.resize(panels.len() + (depth - inner) * columns.len(), 0.0);
        }
        Self { depth, cols, step, panels }
    }

    /// Width of an input row: at least [`MIN_DEPTH`], what is over the weights' own must be 0 in the input.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Width of an output row, padding included.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// `y = x · weights` for [`TILE`] rows of [`Packed::depth`] into [`TILE`] rows of [`Packed::cols`].
    pub(crate) fn multiply(&self, x: &[f32], y: &mut [f32]) {
        assert!(x.len() >= TILE * self.depth && y.len() >= TILE * self.cols, "tile too small");
        for from in (0..self.cols).step_by(PANEL) {
            let width = PANEL.min(self.cols - from);
            for k in (0..self.depth).step_by(self.step) {
                let inner = self.step.min(self.depth - k);
                let weights = &self.panels[from * self.depth + k * width..][..inner * width];
                // SAFETY: the output's last element, row TILE − 1 and column from + width − 1, is inside `y`, and the
                // input's, row TILE − 1 and inner index k + inner − 1, is inside `x`, by the assertion above; `weights`
                // is inner × width by its slice. Nothing overlaps: `y` is borrowed mutably.
                unsafe {
                    gemm::gemm(
                        TILE,
                        width,
                        inner,
                        y.as_mut_ptr().add(from),
                        1,
                        self.cols as isize,
                        k > 0,
                        x.as_ptr().add(k),
                        1,
                        self.depth as isize,
                        weights.as_ptr(),
                        1,
                        width as isize,
                        1.0f32,
                        1.0f32,
                        false,
                        false,
                        false,
                        gemm::Parallelism::None,
                    );
                }
            }
        }
    }
}

/// A linear layer.
#[derive(Debug)]
pub(crate) struct Dense {
    weights: Packed,
    bias: Bias,
    in_dim: usize,
}

impl Dense {
    pub(crate) fn new(linear: &Linear) -> Self {
        Self {
            weights: Packed::new(&[&linear.weight]),
            bias: Bias::new(linear.weight.rows, [linear.bias.as_deref()]),
            in_dim: linear.weight.cols,
        }
    }

    /// With two biases, as an LSTM has them.
    pub(crate) fn with_biases(weight: &Matrix, biases: [&[f32]; 2]) -> Self {
        Self { weights: Packed::new(&[weight]), bias: Bias::new(weight.rows, biases.map(Some)), in_dim: weight.cols }
    }

    pub(crate) fn out_dim(&self) -> usize {
        self.bias.len()
    }

    pub(crate) fn bias(&self) -> &[f32] {
        &self.bias
    }

    /// `out = x · weightᵀ + bias`, then ReLU where asked for. `rows` are the input rows and their width.
    pub(crate) fn run(&self, level: Level, rows: (&[f32], usize), relu: bool, out: &mut [f32], tile: &mut Tile) {
        let (x, dim) = rows;
        debug_assert_eq!(dim, self.in_dim);
        let depth = self.weights.depth;
        let y = grown(&mut tile.output, TILE * self.weights.cols);
        for (x, out) in x.chunks(TILE * dim).zip(out.chunks_mut(TILE * self.out_dim())) {
            // A whole tile of rows that need no padding is read where it lies.
            if x.len() == TILE * depth {
                self.weights.multiply(x, y);
            } else {
                let padded = grown(&mut tile.input, TILE * depth);
                for (from, to) in x.chunks_exact(dim).zip(padded.chunks_exact_mut(depth)) {
                    to[..dim].copy_from_slice(from);
                    to[dim..].fill(0.0);
                }
                self.weights.multiply(padded, y);
            }
            for (y, out) in y.chunks_exact(self.weights.cols).zip(out.chunks_exact_mut(self.out_dim())) {
                finish::store(level, y, &self.bias, out, relu);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::Rng;

    /// The plainest product in the order that the tiles promise: chains of fused multiply-adds, one per stretch of the
    /// inner dimension, added up.
    fn chain(x: &[f32], w: &[f32], step: usize) -> f32 {
        x.chunks(step)
            .zip(w.chunks(step))
            .map(|(x, w)| x.iter().zip(w).fold(0.0f32, |sum, (x, w)| x.mul_add(*w, sum)))
            .reduce(|sum, part| part + sum)
            .unwrap_or(0.0)
    }

    /// Shapes around every edge: vectors, panels, depth, and the ones for which `gemm` has kernels of their own.
    const SHAPES: [(usize, usize); 22] = [
        (1, 1),
        (1, 2),
        (2, 1),
        (3, 3),
        (16, 1),
        (1, 16),
        (17, 15),
        (16, 16),
        (64, 4),
        (65, 5),
        (63, 511),
        (64, 512),
        (64, 513),
        (1, 1433),
        (16, 1433),
        (64, 1433),
        (7, 2866),
        (128, 256),
        (200, 128),
        (96, 1025),
        (2, 2),
        (33, 1536),
    ];

    #[test]
    fn a_row_is_the_same_bits_at_every_place_beside_all_peers() {
        let mut rng = Rng(3);
        for (out, inner) in SHAPES {
            let weight = Matrix { rows: out, cols: inner, data: rng.values(out * inner, 1.0) };
            let packed = Packed::new(&[&weight]);
            let row = rng.values(inner, 1.0);
            let mut results: Vec<Vec<u32>> = vec![];
            for place in 0..TILE {
                for peers in [0.0, 1.0, 1e20, f32::NAN] {
                    let mut x = rng.values(TILE * packed.depth(), 1.0);
                    x.iter_mut().for_each(|v| *v *= peers);
                    let at = &mut x[place * packed.depth()..][..packed.depth()];
                    at.fill(0.0);
                    at[..inner].copy_from_slice(&row);
                    // Stale values in the output must not matter either.
                    let mut y = vec![f32::NAN; TILE * packed.cols()];
                    packed.multiply(&x, &mut y);
                    results.push(y[place * packed.cols()..][..out].iter().map(|v| v.to_bits()).collect());
                }
            }
            assert!(results.iter().all(|r| r == &results[0]), "[{out}, {inner}]: bits depend on place or peers");
            if Level::detect() != Level::Baseline {
                for (k, bits) in results[0].iter().enumerate() {
                    let want = chain(&row, &weight.data[k * inner..][..inner], packed.step);
                    assert_eq!(*bits, want.to_bits(), "[{out}, {inner}] column {k}: not the promised order");
                }
            }
        }
    }

    #[test]
    fn rows_are_the_same_in_every_count() {
        let mut rng = Rng(4);
        for (out, inner) in SHAPES {
            let linear = Linear {
                weight: Matrix { rows: out, cols: inner, data: rng.values(out * inner, 1.0) },
                bias: Some(rng.values(out, 1.0)),
            };
            let dense = Dense::new(&linear);
            let x = rng.values(40 * inner, 1.0);
            let mut whole = vec![0.0; 40 * out];
            dense.run(Level::detect(), (&x, inner), true, &mut whole, &mut Tile::default());
            for (from, count) in [(0, 1), (39, 1), (3, 12), (5, 13), (11, 29), (1, 24)] {
                let mut part = vec![0.0; count * out];
                dense.run(
                    Level::detect(),
                    (&x[from * inner..][..count * inner], inner),
                    true,
                    &mut part,
                    &mut Tile::default(),
                );
                assert_eq!(part, whole[from * out..][..count * out], "[{out}, {inner}] rows {from}..+{count}");
            }
        }
    }

    #[test]
    fn parts_are_concatenated() {
        let mut rng = Rng(5);
        let (a, b) = (
            Matrix { rows: 70, cols: 3, data: rng.values(210, 1.0) },
            Matrix { rows: 70, cols: 5, data: rng.values(350, 1.0) },
        );
        let both: Vec<f32> =
            a.data.chunks(3).zip(b.data.chunks(5)).flat_map(|(a, b)| a.iter().chain(b)).copied().collect();
        let whole = Matrix { rows: 70, cols: 8, data: both };
        assert_eq!(Packed::new(&[&a, &b]).panels, Packed::new(&[&whole]).panels);
    }
}
