//! Sampler: draws each destination's neighbours uniformly, as the release's hops say, with the host's `sample` primitive. What
//! the host does natively for `strategy = "uniform"`, as the shortest sampler to start from.
//!
//! | setting | type | meaning |
//! |---|---|---|
//! | `replacement` | flag, optional | draw with replacement: always fan-out draws. Off by default |

use sagehost_plugin_sdk::{
    BatchContext, Block, Error, Frontier, Graph, Growth, Hop, Sampler, Settings, Strategy, export_sampler, sample_hops,
};

/// The plugin.
#[derive(Debug)]
pub struct Uniform {
    strategy: Strategy,
}

impl Sampler for Uniform {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        let replacement = settings.flag("replacement")?.unwrap_or(false);
        settings.finish()?;
        Ok(Self { strategy: if replacement { Strategy::UniformWithReplacement } else { Strategy::Uniform } })
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
            graph.sample(relation, hop, dst, fanout, self.strategy)
        })
    }
}

export_sampler!(Uniform);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting;
    use sagehost_plugin_sdk::testing::{FakeGraph, batch_context, frontier, settings};

    #[test]
    fn samples_every_hop_from_where_the_last_one_ended() {
        let graph = FakeGraph::default().edge(0, 2, 1, 10).edge(0, 3, 1, 20).edge(0, 4, 2, 5).edge(0, 5, 3, 99);
        let plugin = Uniform::configure(&mut settings([])).expect("no settings are needed");
        let hops = [Hop { relations: vec![0], fanout: 2 }, Hop { relations: vec![0], fanout: 2 }];
        let blocks = plugin.sample(&batch_context(), &graph, frontier(&[(1, 50)]), &hops, Growth::Reuse);
        let blocks = blocks.expect("a good graph");
        assert_eq!(blocks[0].sources, [2, 3]);
        assert_eq!(blocks[1].dst, frontier(&[(2, 50), (3, 50)]));
        assert_eq!(
            (blocks[1].sources.as_slice(), blocks[1].hop),
            ([4].as_slice(), 1),
            "an edge at 99 is invisible at 50"
        );
    }

    #[test]
    fn the_setting_chooses_the_strategy() {
        let strategy = |on| Uniform::configure(&mut settings([("replacement", Setting::Flag(on))])).map(|p| p.strategy);
        assert_eq!(strategy(true), Ok(Strategy::UniformWithReplacement));
        assert_eq!(strategy(false), Ok(Strategy::Uniform));
        let unknown = Uniform::configure(&mut settings([("replace", Setting::Flag(true))]));
        assert!(unknown.is_err_and(|error| error.contains("`replace`") && error.contains("`replacement`")));
    }
}
