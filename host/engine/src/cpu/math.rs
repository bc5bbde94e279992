//! exp, sigmoid, tanh and softmax of our own: the platform's differ between C libraries and versions, and these are the
//! same bits everywhere. No fused multiply-add, so that the compiler's choice of instructions cannot change a bit.
//!
//! Range reduction and polynomials are those of the Cephes library (`expf`, `tanhf`, S. L. Moshier).

use super::simd::vectorised;

/// Below this, exp gives 0: results that f32 holds only as subnormals are flushed.
const EXP_LOW: f32 = -87.336_54;
/// 1.5 · 2²³: adding it rounds to an integer and leaves that integer in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, of which the first has so few bits that its product with an exponent is exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

/// e^x for x ≤ 0, within 2 ulp; 0 below −87.3. NaN stays NaN.
#[inline(always)]
fn exp_negative(x: f32) -> f32 {
    let clamped = if x < EXP_LOW { EXP_LOW } else { x };
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = clamped - n * LN2_HIGH - n * LN2_LOW;
    let mut p = 1.987_569_1e-4 * r + 1.398_199_9e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let y = p * (r * r) + r + 1.0;
    // 2ⁿ by its exponent bits; n is between −126 and 0 here.
    let scale = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    if x < EXP_LOW { 0.0 } else { y * scale }
}

/// 1 / (1 + e^−x), within 3 ulp; exact 0 and 1 far out.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let e = exp_negative(-x.abs());
    (if x < 0.0 { e } else { 1.0 }) / (1.0 + e)
}

/// Hyperbolic tangent, within 3 ulp.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    let z = x * x;
    let mut p = -5.704_988_7e-3 * z + 2.063_909e-2;
    p = p * z - 5.373_971_6e-2;
    p = p * z + 1.333_144_2e-1;
    p = p * z - 3.333_328e-1;
    let near = p * z * x + x;
    let e = exp_negative(-2.0 * x.abs());
    let far = ((1.0 - e) / (1.0 + e)).copysign(x);
    if x.abs() < 0.625 { near } else { far }
}

vectorised! {
    /// Applies [`sigmoid`] in place.
    fn sigmoid_all(values: &mut [f32]) {
        for v in values {
            *v = sigmoid(*v);
        }
    }
}

vectorised! {
    /// Softmax of one row in place. The sum is sequential.
    fn softmax(row: &mut [f32]) {
        let mut top = f32::NEG_INFINITY;
        for v in row.iter() {
            top = if *v > top { *v } else { top };
        }
        for v in row.iter_mut() {
            *v = exp_negative(*v - top);
        }
        let mut sum = 0.0;
        for v in row.iter() {
            sum += *v;
        }
        for v in row {
            *v /= sum;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Level;

    /// Distance in units in the last place of the exact result.
    fn ulps(got: f32, exact: f64) -> f64 {
        let nearest = exact as f32;
        let unit = f64::from(f32::from_bits(nearest.abs().to_bits() + 1)) - f64::from(nearest.abs());
        (f64::from(got) - exact).abs() / unit
    }

    /// Every 1,001st float between two positive ones.
    fn sweep(from: f32, to: f32) -> impl Iterator<Item = f32> {
        (from.to_bits()..=to.to_bits()).step_by(1001).map(f32::from_bits)
    }

    #[test]
    fn exp_is_accurate() {
        for x in sweep(1e-10, 87.3) {
            let off = ulps(exp_negative(-x), f64::from(-x).exp());
            assert!(off <= 2.0, "exp(-{x}): {off} ulp");
        }
        assert_eq!(exp_negative(0.0), 1.0);
        for x in [-87.4, -1e3, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(exp_negative(x), 0.0);
        }
        assert!(exp_negative(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_and_tanh_are_accurate() {
        for x in sweep(1e-10, 80.0) {
            for x in [x, -x] {
                let off = ulps(sigmoid(x), 1.0 / (1.0 + (-f64::from(x)).exp()));
                assert!(off <= 3.0, "sigmoid({x}): {off} ulp");
                let off = ulps(tanh(x), f64::from(x).tanh());
                assert!(off <= 3.0, "tanh({x}): {off} ulp");
            }
        }
        for (x, s, t) in [(0.0, 0.5, 0.0), (f32::INFINITY, 1.0, 1.0), (f32::NEG_INFINITY, 0.0, -1.0)] {
            assert_eq!((sigmoid(x), tanh(x)), (s, t));
        }
        assert!(sigmoid(f32::NAN).is_nan() && tanh(f32::NAN).is_nan());
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let values: Vec<f32> = sweep(1e-6, 100.0).flat_map(|x| [x, -x]).collect();
        let run = |level| {
            let (mut s, mut m) = (values.clone(), values[values.len() - 1000..].to_vec());
            sigmoid_all(level, &mut s);
            softmax(level, &mut m);
            s.iter().chain(&m).map(|v| v.to_bits()).collect::<Vec<u32>>()
        };
        let baseline = run(Level::Baseline);
        for level in Level::available() {
            assert_eq!(run(level), baseline, "{level:?}");
        }
        for (v, s) in values.iter().zip(&baseline) {
            assert_eq!(sigmoid(*v).to_bits(), *s, "alone and in a loop");
        }
    }

    #[test]
    fn softmax_of_large_logits_is_finite() {
        let mut row = [1e4, -1e4, 0.0, 1e4];
        softmax(Level::detect(), &mut row);
        assert_eq!(row, [0.5, 0.0, 0.0, 0.5]);
    }
}
