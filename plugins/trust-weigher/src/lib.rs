//! Edge weigher: recent and trusted neighbours count for more.
//!
//! The raw coefficient of an edge is `0.5 ^ (age / half-life) × rating`. Age is the destination's as-of time minus the
//! edge's; an edge without a time has age 0. The rating is `clamp(column / scale, -1, 1)`, so it may be negative
//! (distrust), or 1 without a column. Each destination's coefficients are then divided by the sum of their absolute values:
//! Σ|c| = 1, or all 0 where every rating is 0. So only the ages' differences count, not how old the neighbourhood is.
//!
//! | setting | type | meaning |
//! |---|---|---|
//! | `half_life_days` | number, above 0 | the age at which an edge counts half |
//! | `weight_column` | text, optional | the edge column that holds the rating |
//! | `scale` | number, above 0, optional | the value of the column that is full trust; 1 by default |

use sagehost_plugin_sdk::{BatchContext, Block, EdgeWeigher, Error, Graph, NO_TIME, Settings, export_edge_weigher};

const DAY_MS: f64 = 86_400_000.0;

/// The plugin.
#[derive(Debug)]
pub struct Trust {
    half_life_ms: f64,
    weight_column: Option<String>,
    scale: f64,
}

impl EdgeWeigher for Trust {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        let half_life_days = settings.required_number("half_life_days")?;
        let weight_column = settings.text("weight_column")?;
        let scale = settings.number("scale")?;
        settings.finish()?;
        if half_life_days <= 0.0 {
            return Err(format!("setting `half_life_days` must be above 0, but is {half_life_days}"));
        }
        if scale.is_some() && weight_column.is_none() {
            return Err("setting `scale` needs `weight_column`".to_owned());
        }
        let scale = scale.unwrap_or(1.0);
        if scale <= 0.0 {
            return Err(format!("setting `scale` must be above 0, but is {scale}"));
        }
        Ok(Self { half_life_ms: half_life_days * DAY_MS, weight_column, scale })
    }

    fn weigh(&self, _: &BatchContext, graph: &dyn Graph, _layer: u32, block: &Block) -> Result<Vec<f32>, Error> {
        let times = graph.edge_times(block.relation, &block.edges)?;
        let ratings = self.ratings(graph, block)?;
        let mut coefficients = vec![0.0; block.edges.len()];
        for (ends, &as_of_ms) in block.offsets.windows(2).zip(&block.dst.as_of_ms) {
            let row = ends[0] as usize..ends[1] as usize;
            let (Some(out), Some(times), Some(ratings)) =
                (coefficients.get_mut(row.clone()), times.get(row.clone()), ratings.get(row))
            else {
                return Err(Error::Internal("the host's lists are not parallel to the block".to_owned()));
            };
            self.row(as_of_ms, times, ratings, out);
        }
        Ok(coefficients)
    }
}

impl Trust {
    fn ratings(&self, graph: &dyn Graph, block: &Block) -> Result<Vec<f64>, Error> {
        let Some(column) = &self.weight_column else { return Ok(vec![1.0; block.edges.len()]) };
        let values = graph.edge_column(block.relation, column, &block.edges)?;
        let rating = |(value, edge): (f32, &u64)| {
            if value.is_finite() {
                Ok((f64::from(value) / self.scale).clamp(-1.0, 1.0))
            } else {
                Err(Error::Internal(format!("column `{column}` of edge {edge} is {value}")))
            }
        };
        values.into_iter().zip(&block.edges).map(rating).collect()
    }

    /// One destination's coefficients.
    fn row(&self, as_of_ms: i64, times: &[i64], ratings: &[f64], out: &mut [f32]) {
        let age = |time_ms: i64| {
            if time_ms == NO_TIME { 0.0 } else { as_of_ms.saturating_sub(time_ms).max(0) as f64 }
        };
        // Ages count from the newest edge that has a rating, which the division by the sum cancels: else a neighbourhood
        // a thousand half-lives old would underflow to nothing.
        let rated = times.iter().zip(ratings).filter(|&(_, &rating)| rating != 0.0);
        let newest = rated.map(|(&time_ms, _)| age(time_ms)).fold(f64::INFINITY, f64::min);
        let raw: Vec<f64> = times
            .iter()
            .zip(ratings)
            .map(
                |(&time_ms, &rating)| {
                    if rating == 0.0 { 0.0 } else { rating * (-(age(time_ms) - newest) / self.half_life_ms).exp2() }
                },
            )
            .collect();
        let sum: f64 = raw.iter().map(|value| value.abs()).sum();
        for (out, value) in out.iter_mut().zip(raw) {
            *out = if sum > 0.0 { (value / sum) as f32 } else { 0.0 };
        }
    }
}

export_edge_weigher!(Trust);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting::{Number, Text};
    use sagehost_plugin_sdk::testing::{FakeGraph, batch_context, frontier, settings};
    use sagehost_plugin_sdk::{Frontier, Strategy};

    const DAY: i64 = 86_400_000;

    fn rated(half_life_days: f64, scale: f64) -> Trust {
        let column = ("weight_column", Text("rating".into()));
        let values = [("half_life_days", Number(half_life_days)), column, ("scale", Number(scale))];
        Trust::configure(&mut settings(values)).expect("good settings")
    }

    fn weigh(plugin: &Trust, graph: &FakeGraph, dst: &Frontier) -> Vec<f32> {
        let block = graph.sample(0, 0, dst, -1, Strategy::Uniform).expect("a good graph");
        plugin.weigh(&batch_context(), graph, 0, &block).expect("a good block")
    }

    fn close(got: &[f32], want: &[f32]) {
        assert_eq!(got.len(), want.len());
        let near = got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6);
        assert!(near, "{got:?} is not {want:?}");
    }

    #[test]
    fn an_edge_one_half_life_older_counts_half() {
        let plugin = Trust::configure(&mut settings([("half_life_days", Number(2.0))])).expect("good settings");
        let graph = FakeGraph::default().edge(0, 2, 1, 0).edge(0, 3, 1, 2 * DAY);
        close(&weigh(&plugin, &graph, &frontier(&[(1, 4 * DAY)])), &[1.0 / 3.0, 2.0 / 3.0]);
    }

    #[test]
    fn ratings_weigh_keep_their_sign_and_saturate_at_the_scale() {
        let graph = FakeGraph::default().edge(0, 2, 1, 0).edge(0, 3, 1, 0).edge(0, 4, 1, 0);
        let graph = graph.column("rating", &[5.0, -10.0, 40.0]);
        close(&weigh(&rated(1.0, 10.0), &graph, &frontier(&[(1, DAY)])), &[0.2, -0.4, 0.4]);
    }

    #[test]
    fn rows_are_normalised_apart_and_old_ones_do_not_vanish() {
        let graph =
            FakeGraph::default().edge(0, 2, 1, 0).edge(0, 3, 1, DAY).edge(0, 4, 5, 0).column("rating", &[1.0; 3]);
        let got = weigh(&rated(1.0, 1.0), &graph, &frontier(&[(1, 5000 * DAY), (9, 0), (5, 0)]));
        close(&got, &[1.0 / 3.0, 2.0 / 3.0, 1.0]);
    }

    #[test]
    fn all_zero_ratings_give_zeros_and_untimed_edges_are_new() {
        let graph = FakeGraph::default().edge(0, 2, 1, NO_TIME).edge(0, 3, 1, 0).column("rating", &[0.0, 0.0]);
        close(&weigh(&rated(1.0, 1.0), &graph, &frontier(&[(1, DAY)])), &[0.0, 0.0]);
        let graph = graph.column("rating", &[1.0, 1.0]);
        close(&weigh(&rated(1.0, 1.0), &graph, &frontier(&[(1, DAY)])), &[2.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn a_rating_that_is_no_number_is_an_error() {
        let graph = FakeGraph::default().edge(0, 2, 1, 0).column("rating", &[f32::NAN]);
        let block = graph.sample(0, 0, &frontier(&[(1, 1)]), -1, Strategy::Uniform).expect("a good graph");
        let result = rated(1.0, 1.0).weigh(&batch_context(), &graph, 0, &block);
        assert_eq!(result, Err(Error::Internal("column `rating` of edge 0 is NaN".into())));
    }

    #[test]
    fn bad_settings_are_refused() {
        let zero = Trust::configure(&mut settings([("half_life_days", Number(0.0))]));
        assert!(zero.is_err_and(|error| error.contains("above 0")));
        let lone = Trust::configure(&mut settings([("half_life_days", Number(1.0)), ("scale", Number(2.0))]));
        assert!(lone.is_err_and(|error| error.contains("`weight_column`")));
        let absent = Trust::configure(&mut settings([]));
        assert_eq!(absent.err(), Some("setting `half_life_days` is required".into()));
    }
}
