//! Neighbour rows into one row, in canonical order, so that the bits are a function of the rows alone.
//!
//! Sums are over blocks of 32 neighbours, one after the other in f32, and the blocks' sums are added in f64: the sum over a
//! hub's hundred thousand neighbours is as accurate as over ten, at the cost of one wide add in 32.

use super::simd::vectorised;

/// Rows that a block's indices point into.
#[derive(Clone, Copy)]
pub(crate) struct Sources<'a> {
    pub(crate) rows: &'a [f32],
    pub(crate) dim: usize,
}

impl<'a> Sources<'a> {
    #[inline(always)]
    pub(crate) fn row(self, index: u32) -> &'a [f32] {
        &self.rows[index as usize * self.dim..][..self.dim]
    }
}

/// Neighbours that are added in f32.
const BLOCK: usize = 32;
/// Columns that are added in f64 at a time, on the stack.
const STRIPE: usize = 64;

/// `out = Σ rows` over some columns. Four rows at a time in one pass over `out`, added one after the other.
#[inline(always)]
fn sum_block(sources: Sources<'_>, from: usize, neighbours: &[u32], out: &mut [f32]) {
    let width = out.len();
    let row = |i: u32| &sources.row(i)[from..][..width];
    let Some((first, rest)) = neighbours.split_first() else {
        return out.fill(0.0);
    };
    out.copy_from_slice(row(*first));
    let (fours, rest) = rest.as_chunks::<4>();
    for four in fours {
        let [a, b, c, d] = four.map(row);
        for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *o = *o + a + b + c + d;
        }
    }
    for i in rest {
        for (o, v) in out.iter_mut().zip(row(*i)) {
            *o += v;
        }
    }
}

/// `out = Σ coefficient · row` over some columns, as [`sum_block`].
#[inline(always)]
fn weigh_block(sources: Sources<'_>, from: usize, neighbours: &[u32], coefficients: &[f32], out: &mut [f32]) {
    out.fill(0.0);
    let width = out.len();
    let row = |i: u32| &sources.row(i)[from..][..width];
    let ((fours, rest), (by_four, by_one)) = (neighbours.as_chunks::<4>(), coefficients.as_chunks::<4>());
    for (four, by) in fours.iter().zip(by_four) {
        let [a, b, c, d] = four.map(row);
        for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
            *o = *o + by[0] * a + by[1] * b + by[2] * c + by[3] * d;
        }
    }
    for (i, by) in rest.iter().zip(by_one) {
        for (o, v) in out.iter_mut().zip(row(*i)) {
            *o += by * v;
        }
    }
}

/// The larger one; the first where neither is.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if b > a { b } else { a }
}

/// Adds up blocks stripe by stripe; `block(n, from, out)` gives block `n`'s sum over the columns from `from` on.
#[inline(always)]
fn add_blocks(blocks: usize, out: &mut [f32], block: impl Fn(usize, usize, &mut [f32])) {
    for (s, out) in out.chunks_mut(STRIPE).enumerate() {
        let mut total = [0.0f64; STRIPE];
        for n in 0..blocks {
            block(n, s * STRIPE, out);
            for (t, o) in total.iter_mut().zip(out.iter()) {
                *t += f64::from(*o);
            }
        }
        for (o, t) in out.iter_mut().zip(&total) {
            *o = *t as f32;
        }
    }
}

vectorised! {
    /// `out = Σ rows`; zeros where there are none.
    fn sum(sources: Sources<'_>, neighbours: &[u32], out: &mut [f32]) {
        if neighbours.len() <= BLOCK {
            return sum_block(sources, 0, neighbours, out);
        }
        add_blocks(neighbours.len().div_ceil(BLOCK), out, |n, from, out| {
            let end = neighbours.len().min((n + 1) * BLOCK);
            sum_block(sources, from, &neighbours[n * BLOCK..end], out);
        });
    }
}

vectorised! {
    /// `out = max rows`; zeros where there are none.
    fn max(sources: Sources<'_>, neighbours: &[u32], out: &mut [f32]) {
        let Some((first, rest)) = neighbours.split_first() else {
            return out.fill(0.0);
        };
        out.copy_from_slice(sources.row(*first));
        let (fours, rest) = rest.as_chunks::<4>();
        for four in fours {
            let [a, b, c, d] = four.map(|i| sources.row(i));
            for ((((o, a), b), c), d) in out.iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *o = larger(larger(larger(larger(*o, *a), *b), *c), *d);
            }
        }
        for i in rest {
            for (o, v) in out.iter_mut().zip(sources.row(*i)) {
                *o = larger(*o, *v);
            }
        }
    }
}

vectorised! {
    /// `out = Σ coefficient · row`; zeros where there are none.
    fn weighted(sources: Sources<'_>, neighbours: &[u32], coefficients: &[f32], out: &mut [f32]) {
        if neighbours.len() <= BLOCK {
            return weigh_block(sources, 0, neighbours, coefficients, out);
        }
        add_blocks(neighbours.len().div_ceil(BLOCK), out, |n, from, out| {
            let edges = n * BLOCK..neighbours.len().min((n + 1) * BLOCK);
            weigh_block(sources, from, &neighbours[edges.clone()], &coefficients[edges], out);
        });
    }
}

vectorised! {
    /// `row = (row + own) / by`.
    fn add_and_divide(row: &mut [f32], own: &[f32], by: f32) {
        for (v, o) in row.iter_mut().zip(own) {
            *v = (*v + o) / by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Level;
    use proptest::prelude::*;

    /// The promised order, plainly.
    fn blocked(values: &[f32]) -> f32 {
        let sums = values.chunks(BLOCK).map(|b| b.iter().copied().reduce(|a, v| a + v).unwrap_or(0.0));
        sums.map(f64::from).fold(0.0, |a, v| a + v) as f32
    }

    #[test]
    fn hubs_lose_nothing() {
        let rows = vec![0.1f32; 3];
        let mut out = [0.0; 3];
        sum(Level::detect(), Sources { rows: &rows, dim: 3 }, &vec![0; 1_000_000], &mut out);
        let exact = 1e6 * f64::from(0.1f32);
        assert!((f64::from(out[2]) / exact - 1.0).abs() < 1e-6, "{}", out[2]);
    }

    proptest! {
        #[test]
        fn sums_are_in_the_promised_order_at_every_level(
            dim in 1usize..150,
            picks in prop::collection::vec(0u32..9, 0..100),
            seed in any::<u64>(),
        ) {
            let mut rng = crate::conformance::Rng(seed);
            let rows = rng.values(9 * dim, 1.0);
            let coefficients = rng.values(picks.len(), 1.0);
            let sources = Sources { rows: &rows, dim };
            for level in Level::available() {
                let (mut s, mut m, mut w) = (vec![7.0; dim], vec![7.0; dim], vec![7.0; dim]);
                sum(level, sources, &picks, &mut s);
                max(level, sources, &picks, &mut m);
                weighted(level, sources, &picks, &coefficients, &mut w);
                for k in 0..dim {
                    let column: Vec<f32> = picks.iter().map(|&i| rows[i as usize * dim + k]).collect();
                    prop_assert_eq!(s[k].to_bits(), blocked(&column).to_bits());
                    prop_assert_eq!(m[k], column.iter().copied().reduce(f32::max).unwrap_or(0.0));
                    let products: Vec<f32> = column.iter().zip(&coefficients).map(|(v, c)| v * c).collect();
                    prop_assert_eq!(w[k].to_bits(), blocked(&products).to_bits());
                }
            }
        }
    }
}
