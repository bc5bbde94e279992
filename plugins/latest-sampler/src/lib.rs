//! Sampler: the newest neighbours at or before each destination's as-of time. It shows how to write a policy of one's own with
//! the host's primitives: ask for the visible degrees, compute positions, pick them. Positions count from the oldest
//! visible edge, so the newest `k` of a degree `d` are `d - k .. d`; edges after the as-of time have no position at all.
//!
//! It takes no settings. What it returns equals the host's own `strategy = "latest"`.

use sagehost_plugin_sdk::{
    BatchContext, Block, Error, Frontier, Graph, Growth, Hop, Sampler, Settings, export_sampler, sample_hops,
};

/// The plugin.
#[derive(Debug)]
pub struct Latest;

impl Sampler for Latest {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        settings.finish()?;
        Ok(Self)
    }

    fn sample(
        &self,
        _: &BatchContext,
        graph: &dyn Graph,
        seeds: Frontier,
        hops: &[Hop],
        growth: Growth,
    ) -> Result<Vec<Block>, Error> {
        sample_hops(seeds, hops, growth, |relation, hop, dst, fanout| {
            let (offsets, positions) = newest(&graph.degrees(relation, dst)?, fanout);
            graph.pick(relation, hop, dst, &offsets, &positions)
        })
    }
}

/// Positions of the newest `fanout` edges (below 0: of all) for each degree, as offsets and a flat list.
fn newest(degrees: &[u32], fanout: i32) -> (Vec<u32>, Vec<u32>) {
    let most = u32::try_from(fanout).unwrap_or(u32::MAX);
    let mut offsets = Vec::with_capacity(degrees.len() + 1);
    let mut positions = Vec::new();
    offsets.push(0);
    for &degree in degrees {
        positions.extend(degree - degree.min(most)..degree);
        offsets.push(positions.len() as u32);
    }
    (offsets, positions)
}

export_sampler!(Latest);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::testing::{FakeGraph, batch_context, frontier, settings};
    use sagehost_plugin_sdk::{Setting, Strategy};

    #[test]
    fn positions_are_the_last_ones() {
        assert_eq!(newest(&[5, 0, 1], 2), (vec![0, 2, 2, 3], vec![3, 4, 0]));
        assert_eq!(newest(&[3, 1], -1), (vec![0, 3, 4], vec![0, 1, 2, 0]));
        assert_eq!(newest(&[3], 0), (vec![0, 0], vec![]));
    }

    #[test]
    fn equals_the_hosts_latest_and_never_sees_the_future() {
        let graph = FakeGraph::default()
            .edge(0, 2, 1, 10)
            .edge(0, 3, 1, 20)
            .edge(0, 4, 1, 30)
            .edge(0, 5, 1, 40)
            .edge(0, 6, 4, 7)
            .edge(0, 7, 4, 35);
        let seeds = frontier(&[(1, 30), (1, 100)]);
        let hops = [Hop { relations: vec![0], fanout: 2 }, Hop { relations: vec![0], fanout: 1 }];
        let blocks =
            Latest.sample(&batch_context(), &graph, seeds.clone(), &hops, Growth::Reuse).expect("a good graph");
        assert_eq!(blocks[0].sources, [3, 4, 4, 5], "at 30 the edge at 40 does not exist");
        let native = sample_hops(seeds, &hops, Growth::Reuse, |relation, hop, dst, fanout| {
            graph.sample(relation, hop, dst, fanout, Strategy::Latest)
        });
        assert_eq!(Ok(blocks), native);
    }

    #[test]
    fn takes_no_settings() {
        assert!(Latest::configure(&mut settings([("k", Setting::Number(3.0))])).is_err());
    }
}
