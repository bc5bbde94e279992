//! The score map: from a probability to the scale that people read.

use sagehost_plugin_sdk::Settings;

/// Straight lines between points, level outside of them; without points the identity.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ScoreMap {
    points: Vec<(f64, f64)>,
}

impl ScoreMap {
    /// Reads `map_from` and `map_to`, both or neither; neither keeps `base`.
    pub(crate) fn read(settings: &mut Settings, base: &Self) -> Result<Self, String> {
        let (from, to) = match (settings.numbers("map_from")?, settings.numbers("map_to")?) {
            (None, None) => return Ok(base.clone()),
            (Some(from), Some(to)) => (from, to),
            (Some(_), None) => return Err("`map_from` needs `map_to`".to_owned()),
            (None, Some(_)) => return Err("`map_to` needs `map_from`".to_owned()),
        };
        if from.len() != to.len() {
            return Err(format!("`map_from` has {} numbers and `map_to` {}", from.len(), to.len()));
        }
        if from.len() == 1 {
            return Err("a score map of one point maps everything to one score: give two or more".to_owned());
        }
        if let Some(at) = from.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(format!("`map_from` must ascend, but {} is followed by {}", from[at], from[at + 1]));
        }
        if let Some(at) = to.windows(2).position(|pair| pair[0] > pair[1]) {
            return Err(format!("`map_to` must not fall, but {} is followed by {}", to[at], to[at + 1]));
        }
        Ok(Self { points: from.into_iter().zip(to).collect() })
    }

    /// The mapped score.
    pub(crate) fn map(&self, score: f64) -> f64 {
        let (Some(first), Some(last)) = (self.points.first(), self.points.last()) else { return score };
        let after = self.points.partition_point(|point| point.0 <= score);
        match (after.checked_sub(1).and_then(|before| self.points.get(before)), self.points.get(after)) {
            (Some(a), Some(b)) => a.1 + (score - a.0) / (b.0 - a.0) * (b.1 - a.1),
            (None, _) => first.1,
            (_, None) => last.1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting::Numbers;
    use sagehost_plugin_sdk::testing::settings;

    fn read(from: &[f64], to: &[f64]) -> Result<ScoreMap, String> {
        let values = [("map_from", Numbers(from.to_vec())), ("map_to", Numbers(to.to_vec()))];
        ScoreMap::read(&mut settings(values), &ScoreMap::default())
    }

    #[test]
    fn straight_lines_between_points_and_level_outside() {
        let map = read(&[0.25, 0.5, 1.0], &[100.0, 600.0, 1000.0]).expect("a good map");
        for (score, want) in
            [(0.0, 100.0), (0.25, 100.0), (0.375, 350.0), (0.5, 600.0), (0.75, 800.0), (1.0, 1000.0), (2.0, 1000.0)]
        {
            assert_eq!(map.map(score), want, "{score}");
        }
    }

    #[test]
    fn no_points_are_the_identity() {
        assert_eq!(ScoreMap::default().map(0.3), 0.3);
        assert_eq!(read(&[], &[]), Ok(ScoreMap::default()));
    }

    #[test]
    fn never_falls() {
        let map = read(&[0.1, 0.2, 0.7, 0.9], &[0.0, 10.0, 10.0, 1000.0]).expect("a good map");
        let scores: Vec<f64> = (0..=1000).map(|step| map.map(f64::from(step) / 1000.0)).collect();
        assert!(scores.is_sorted());
    }

    #[test]
    fn bad_points_are_refused() {
        assert!(read(&[0.0, 1.0], &[0.0]).is_err());
        assert!(read(&[0.5], &[500.0]).is_err());
        assert!(read(&[0.0, 0.5, 0.5], &[0.0, 1.0, 2.0]).is_err_and(|error| error.contains("0.5 is followed by 0.5")));
        assert!(read(&[0.0, 1.0], &[5.0, 1.0]).is_err());
        let lone = [("map_to", Numbers(vec![1.0]))];
        assert!(ScoreMap::read(&mut settings(lone), &ScoreMap::default()).is_err());
    }
}
