//! What happens to a row after its matrix product: bias, sum, activation and normalisation while it is in the L1 cache.

use super::simd::{Level, vectorised};

/// One value per output; zeros where the model has none, as adding 0 is cheaper than asking.
#[derive(Debug)]
pub(crate) struct Bias(Vec<f32>);

impl Bias {
    /// The sum of those present.
    pub(crate) fn new<'a>(len: usize, biases: impl IntoIterator<Item = Option<&'a [f32]>>) -> Self {
        let mut sum = vec![0.0; len];
        for bias in biases.into_iter().flatten() {
            sum.iter_mut().zip(bias).for_each(|(s, b)| *s += b);
        }
        Self(sum)
    }
}

impl std::ops::Deref for Bias {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

/// max(v, 0), but NaN stays NaN: a fault must not look like a zero.
#[inline(always)]
fn relu(v: f32) -> f32 {
    if v < 0.0 { 0.0 } else { v }
}

vectorised! {
    /// `out = y + bias`, then ReLU where asked for.
    fn store(y: &[f32], bias: &[f32], out: &mut [f32], activate: bool) {
        let sums = out.iter_mut().zip(y).zip(bias);
        if activate {
            for ((o, y), b) in sums {
                *o = relu(y + b);
            }
        } else {
            for ((o, y), b) in sums {
                *o = y + b;
            }
        }
    }
}

vectorised! {
    /// `out += y`.
    fn accumulate(y: &[f32], out: &mut [f32]) {
        for (o, y) in out.iter_mut().zip(y) {
            *o += y;
        }
    }
}

vectorised! {
    /// ReLU in place.
    fn relu_all(row: &mut [f32]) {
        for v in row {
            *v = relu(*v);
        }
    }
}

/// x / max(‖x‖₂, 1e-12) in place. The sum of squares is in f64, where squares of f32 neither overflow nor vanish, in eight
/// lanes, always the same ones.
pub(crate) fn normalize(level: Level, row: &mut [f32]) {
    let mut lanes = [0.0f64; 8];
    squares(level, row, &mut lanes);
    let [a, b, c, d, e, f, g, h] = lanes;
    let sum = ((a + b) + (c + d)) + ((e + f) + (g + h));
    divide(level, row, sum.sqrt().max(1e-12) as f32);
}

vectorised! {
    /// Adds each value's square to lane `index mod 8`.
    fn squares(row: &[f32], lanes: &mut [f64; 8]) {
        let (blocks, rest) = row.as_chunks::<8>();
        let mut sums = *lanes;
        for block in blocks {
            for (s, v) in sums.iter_mut().zip(block) {
                *s += f64::from(*v) * f64::from(*v);
            }
        }
        for (s, v) in sums.iter_mut().zip(rest) {
            *s += f64::from(*v) * f64::from(*v);
        }
        *lanes = sums;
    }
}

vectorised! {
    /// `row /= by`.
    fn divide(row: &mut [f32], by: f32) {
        for v in row {
            *v /= by;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn zero_tiny_and_huge_vectors() {
        let mut zero = [0.0; 5];
        normalize(Level::detect(), &mut zero);
        assert_eq!(zero, [0.0; 5]);
        let mut huge = [3e30f32, 4e30];
        normalize(Level::detect(), &mut huge);
        assert!((huge[0] - 0.6).abs() < 1e-6 && (huge[1] - 0.8).abs() < 1e-6, "{huge:?}");
        let mut tiny = [3e-30f32, 4e-30];
        normalize(Level::detect(), &mut tiny);
        assert!((tiny[0] / 3e-18 - 1.0).abs() < 1e-6 && (tiny[1] / 4e-18 - 1.0).abs() < 1e-6, "{tiny:?}");
    }

    #[test]
    fn relu_keeps_nan() {
        let mut row = [-1.0, f32::NAN, 2.0];
        relu_all(Level::detect(), &mut row);
        assert!(row[0] == 0.0 && row[1].is_nan() && row[2] == 2.0);
    }

    proptest! {
        #[test]
        fn every_level_gives_the_same_bits(values in prop::collection::vec(-1e3f32..1e3, 1..70)) {
            let run = |level| {
                let mut row = values.clone();
                normalize(level, &mut row);
                store(level, &values, &row.clone(), &mut row, true);
                accumulate(level, &values, &mut row);
                row.iter().map(|v| v.to_bits()).collect::<Vec<u32>>()
            };
            for level in Level::available() {
                prop_assert_eq!(run(level), run(Level::Baseline));
            }
        }
    }
}
