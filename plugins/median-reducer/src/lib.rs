//! Reducer: the median of each channel over a destination's neighbours, so that a few extreme ones do not move it. Of an even
//! number it is the mean of the middle two; of none it is 0. It takes no settings.

use sagehost_plugin_sdk::{BatchContext, Error, Reducer, Settings, export_reducer};

/// The plugin.
#[derive(Debug)]
pub struct Median;

impl Reducer for Median {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        settings.finish()?;
        Ok(Self)
    }

    fn reduce(
        &self,
        _: &BatchContext,
        _layer: u32,
        dim: usize,
        offsets: &[u32],
        rows: &[f32],
    ) -> Result<Vec<f32>, Error> {
        let mut out = Vec::with_capacity(offsets.len().saturating_sub(1) * dim);
        let mut channel_values = Vec::new();
        for ends in offsets.windows(2) {
            let neighbours = rows
                .get(ends[0] as usize * dim..ends[1] as usize * dim)
                .ok_or_else(|| Error::Internal(format!("offsets {ends:?} do not fit {} numbers", rows.len())))?;
            for channel in 0..dim {
                channel_values.clear();
                channel_values.extend(neighbours.iter().skip(channel).step_by(dim));
                out.push(median(&mut channel_values));
            }
        }
        Ok(out)
    }
}

/// The median; reorders `values`.
fn median(values: &mut [f32]) -> f32 {
    if values.is_empty() {
        return 0.0;
    }
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (below, &mut upper, _) = values.select_nth_unstable_by(middle, f32::total_cmp);
    if !even {
        return upper;
    }
    let lower = below.iter().copied().max_by(f32::total_cmp).unwrap_or(upper);
    // Halved first, so that two huge values do not overflow.
    lower * 0.5 + upper * 0.5
}

export_reducer!(Median);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting;
    use sagehost_plugin_sdk::testing::{batch_context, settings};

    #[test]
    fn odd_even_and_none() {
        assert_eq!(median(&mut [3.0, -1.0, 100.0]), 3.0);
        assert_eq!(median(&mut [4.0, 1.0, 100.0, 2.0]), 3.0);
        assert_eq!(median(&mut [7.0]), 7.0);
        assert_eq!(median(&mut [f32::MAX, f32::MAX]), f32::MAX);
        assert_eq!(median(&mut []), 0.0);
    }

    #[test]
    fn agrees_with_sorting() {
        let mut state = 12345_u32;
        for length in 1..40_usize {
            let mut values: Vec<f32> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as f32 - 128.0
                })
                .collect();
            let mut sorted = values.clone();
            sorted.sort_by(f32::total_cmp);
            let want = f32::midpoint(sorted[(length - 1) / 2], sorted[length / 2]);
            assert_eq!(median(&mut values), want, "{sorted:?}");
        }
    }

    #[test]
    fn reduces_each_channel_of_each_destination() {
        let rows = [1.0, 10.0, 3.0, 30.0, 2.0, 20.0, 5.0, 50.0];
        let got = Median.reduce(&batch_context(), 0, 2, &[0, 3, 3, 4], &rows);
        assert_eq!(got, Ok(vec![2.0, 20.0, 0.0, 0.0, 5.0, 50.0]));
    }

    #[test]
    fn refuses_offsets_that_do_not_fit_and_settings() {
        assert!(Median.reduce(&batch_context(), 0, 2, &[0, 2], &[1.0, 2.0]).is_err());
        assert!(Median::configure(&mut settings([("x", Setting::Flag(true))])).is_err());
    }
}
