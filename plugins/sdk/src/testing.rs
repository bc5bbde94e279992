//! For native tests of plugins.

use std::collections::BTreeMap;

use crate::{
    BatchContext, Block, Context, Entity, Error, Evidence, Feature, Frontier, Graph, ModelOutput, NO_TIME,
    NamedSetting, Policy, Request, Setting, Settings, Strategy,
};

/// A named setting.
#[must_use]
pub fn setting(name: &str, value: Setting) -> NamedSetting {
    NamedSetting { name: name.to_owned(), value }
}

/// Settings from names and values.
///
/// # Panics
/// If a name appears twice.
#[must_use]
pub fn settings<const N: usize>(values: [(&str, Setting); N]) -> Settings {
    Settings::new(values.map(|(name, value)| setting(name, value)).to_vec()).expect("each setting once")
}

/// A graph in memory with the host's order and visibility: edges of a destination in order of time, and none later than
/// the as-of time. `Uniform` and `Weighted` draws are the host's own; here they take the oldest.
#[derive(Clone, Debug, Default)]
pub struct FakeGraph {
    edges: Vec<FakeEdge>,
    columns: BTreeMap<String, Vec<f32>>,
}

#[derive(Clone, Copy, Debug)]
struct FakeEdge {
    relation: u32,
    src: u64,
    dst: u64,
    time_ms: i64,
}

impl FakeGraph {
    /// Adds an edge; its id is the number of edges so far. Edges of one destination are added in order of time.
    #[must_use]
    pub fn edge(mut self, relation: u32, src: u64, dst: u64, time_ms: i64) -> Self {
        self.edges.push(FakeEdge { relation, src, dst, time_ms });
        self
    }

    /// Adds a column: a value for each edge.
    #[must_use]
    pub fn column(mut self, name: &str, values: &[f32]) -> Self {
        self.columns.insert(name.to_owned(), values.to_vec());
        self
    }

    fn visible(&self, relation: u32, node: u64, as_of_ms: i64) -> Vec<u64> {
        let visible = |edge: &FakeEdge| {
            edge.relation == relation && edge.dst == node && (edge.time_ms == NO_TIME || edge.time_ms <= as_of_ms)
        };
        (0..).zip(&self.edges).filter(|(_, edge)| visible(edge)).map(|(id, _)| id).collect()
    }

    fn block(&self, relation: u32, hop: u32, dst: &Frontier, rows: Vec<Vec<u64>>) -> Block {
        let mut offsets = vec![0];
        let mut edges = Vec::new();
        for row in rows {
            edges.extend(row);
            offsets.push(edges.len() as u32);
        }
        let sources = edges.iter().map(|&edge| self.edges[edge as usize].src).collect();
        Block { relation, hop, dst: dst.clone(), offsets, sources, edges }
    }
}

impl Graph for FakeGraph {
    fn degrees(&self, relation: u32, dst: &Frontier) -> Result<Vec<u32>, Error> {
        let rows = dst.nodes.iter().zip(&dst.as_of_ms);
        Ok(rows.map(|(&node, &as_of_ms)| self.visible(relation, node, as_of_ms).len() as u32).collect())
    }

    fn pick(
        &self,
        relation: u32,
        hop: u32,
        dst: &Frontier,
        offsets: &[u32],
        positions: &[u32],
    ) -> Result<Block, Error> {
        let mut rows = Vec::new();
        for ((ends, &node), &as_of_ms) in offsets.windows(2).zip(&dst.nodes).zip(&dst.as_of_ms) {
            let visible = self.visible(relation, node, as_of_ms);
            let picked = positions[ends[0] as usize..ends[1] as usize].iter();
            let row: Option<Vec<u64>> = picked.map(|&position| visible.get(position as usize).copied()).collect();
            rows.push(row.ok_or_else(|| Error::Internal(format!("a position of node {node} is not visible")))?);
        }
        Ok(self.block(relation, hop, dst, rows))
    }

    fn sample(&self, relation: u32, hop: u32, dst: &Frontier, fanout: i32, how: Strategy) -> Result<Block, Error> {
        let rows = dst.nodes.iter().zip(&dst.as_of_ms).map(|(&node, &as_of_ms)| {
            let mut row = self.visible(relation, node, as_of_ms);
            if let Ok(fanout) = usize::try_from(fanout) {
                let surplus = row.len().saturating_sub(fanout);
                match how {
                    Strategy::Latest => drop(row.drain(..surplus)),
                    _ => row.truncate(fanout),
                }
            }
            row
        });
        Ok(self.block(relation, hop, dst, rows.collect()))
    }

    fn edge_times(&self, relation: u32, edges: &[u64]) -> Result<Vec<i64>, Error> {
        let time = |&edge: &u64| match self.edges.get(edge as usize) {
            Some(found) if found.relation == relation => Ok(found.time_ms),
            _ => Err(Error::InvalidInput(format!("relation {relation} has no edge {edge}"))),
        };
        edges.iter().map(time).collect()
    }

    fn edge_column(&self, _relation: u32, column: &str, edges: &[u64]) -> Result<Vec<f32>, Error> {
        let values =
            self.columns.get(column).ok_or_else(|| Error::InvalidInput(format!("no edge column `{column}`")))?;
        Ok(edges.iter().map(|&edge| values[edge as usize]).collect())
    }
}

/// A frontier from (node, as-of time) pairs.
#[must_use]
pub fn frontier(rows: &[(u64, i64)]) -> Frontier {
    Frontier { nodes: rows.iter().map(|row| row.0).collect(), as_of_ms: rows.iter().map(|row| row.1).collect() }
}

/// What a batched role is told.
#[must_use]
pub fn batch_context() -> BatchContext {
    BatchContext { release: "test@1".to_owned(), deadline_ms: 50 }
}

/// What a pre- or post-processor is told: a request as of 2020-01-01.
#[must_use]
pub fn context() -> Context {
    Context {
        request_id: "test".to_owned(),
        release: "test@1".to_owned(),
        as_of_ms: 1_577_836_800_000,
        deadline_ms: 50,
    }
}

/// A request of user `u1` with the given features.
#[must_use]
pub fn request(features: &[(&str, Option<f32>)]) -> Request {
    let feature = |&(name, value): &(&str, Option<f32>)| Feature { name: name.to_owned(), value };
    Request {
        entities: vec![Entity { kind: "user".to_owned(), key: "u1".to_owned() }],
        features: features.iter().map(feature).collect(),
    }
}

/// Raw features as they come out where there is no pre-processor; 0 in place of a missing one.
#[must_use]
pub fn raw(request: &Request) -> Vec<f32> {
    request.features.iter().map(|feature| feature.value.unwrap_or(0.0)).collect()
}

/// A model's answer of one sigmoid score.
#[must_use]
pub fn output(score: f32) -> ModelOutput {
    ModelOutput { logits: vec![(score / (1.0 - score)).ln()], scores: vec![score], embedding: Vec::new() }
}

/// Evidence of neighbours by one relation, named `n0`, `n1` …, at the given times; all of them were sampled.
#[must_use]
pub fn evidence(relation: &str, times_ms: &[i64]) -> Evidence {
    Evidence {
        relations: vec![relation.to_owned(); times_ms.len()],
        keys: (0..times_ms.len()).map(|number| format!("n{number}")).collect(),
        times_ms: times_ms.to_vec(),
        weights: vec![1.0; times_ms.len()],
        degree: times_ms.len() as u32,
    }
}

/// A policy document of version 1.
#[must_use]
pub fn policy<const N: usize>(values: [(&str, Setting); N]) -> Policy {
    let values = values.map(|(name, value)| setting(name, value)).to_vec();
    Policy { name: "test".to_owned(), version: 1, values }
}
