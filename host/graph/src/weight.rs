//! Edge weights as exact integers, so that sums do not depend on the order of adding and a weighted draw is the same on
//! every machine. See `docs/formats.md`.

/// Units in a weight of 1: about six decimal places.
pub const UNITS: f64 = 1_048_576.0;

/// The weight in units, rounded to the nearest (ties to even); a positive weight is at least one unit, so that it can be
/// drawn. `None` for a negative, non-finite or huge (2⁴³ and over) weight.
#[must_use]
pub fn fixed_point(weight: f32) -> Option<u64> {
    if !weight.is_finite() || weight < 0.0 {
        return None;
    }
    // Exact: an f32 times a power of two fits an f64.
    let units = (f64::from(weight) * UNITS).round_ties_even();
    if units >= 9_223_372_036_854_775_808.0 {
        return None;
    }
    Some(if weight > 0.0 { (units as u64).max(1) } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::fixed_point;

    #[test]
    fn weights_become_units() {
        assert_eq!(fixed_point(0.0), Some(0));
        assert_eq!(fixed_point(-0.0), Some(0));
        assert_eq!(fixed_point(1.0), Some(1 << 20));
        assert_eq!(fixed_point(0.5), Some(1 << 19));
        assert_eq!(fixed_point(f32::MIN_POSITIVE), Some(1));
        assert_eq!(fixed_point(1e12), Some(1_048_576 * 999_999_995_904));
        for bad in [-1.0, -f32::MIN_POSITIVE, f32::NAN, f32::INFINITY, f32::MAX, 8_796_093_022_208.0] {
            assert_eq!(fixed_point(bad), None, "{bad}");
        }
    }
}
