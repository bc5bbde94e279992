//! Golden examples: requests with their own subgraph and what they must give, checked before a release goes live.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_graph::{GraphSchema, KeyType, MemoryEdge, MemoryGraph, MemoryNode};
use sagehost_plugin::api::Policy;
use sagehost_release::LoadedFiles;
use sagehost_release::golden::{Example, GoldenGraph};
use sagehost_types::Key;

use crate::api::Features;
use crate::columns::Columns;
use crate::core::{Core, Shared};
use crate::job::OwnEdge;
use crate::rehearsal::{Rehearsal, Rehearsed, of_request};
use crate::release::bind;

/// Longest time for one example: they are small.
const EXAMPLE_LIMIT: Duration = Duration::from_secs(10);

/// Runs every example; the reason names the example and both values.
pub(crate) fn check(
    files: &LoadedFiles,
    columns: &Columns,
    relations: &[String],
    schema: &GraphSchema,
    shared: &Arc<Shared>,
    policy: &Policy,
) -> Result<(), String> {
    let golden = &files.golden;
    if golden.examples.is_empty() {
        return Ok(());
    }
    let graph = subgraph(&golden.graph, columns, schema).map_err(|e| format!("golden.json: graph: {e}"))?;
    let core = bind(&files.spec, columns, relations, Arc::new(graph), shared, &files.salt)?;
    for (number, example) in golden.examples.iter().enumerate() {
        run(&core, columns, policy, example)
            .map_err(|e| format!("golden example {number} (node {}): {e}", example.node))?;
    }
    Ok(())
}

fn run(core: &Core, columns: &Columns, policy: &Policy, example: &Example) -> Result<(), String> {
    let graph = &core.binding.graph;
    let node = graph.find(&example.node).ok_or("the subgraph does not have this node")?;
    let rehearsal = Rehearsal {
        request_id: "golden",
        node,
        features: &Features::Named(example.features.clone()),
        as_of_ms: example.as_of_ms.unwrap_or_else(|| graph.latest_ms()),
        full_neighbourhood: example.full_neighbourhood,
        deadline: Instant::now() + EXAMPLE_LIMIT,
    };
    let Rehearsed { outcome, decided } = rehearsal.run(core, columns, policy).map_err(|f| f.to_string())?;
    if outcome.logits.len() != example.logits.len() {
        return Err(format!("{} logits, expected {}", outcome.logits.len(), example.logits.len()));
    }
    for (index, (got, want)) in outcome.logits.iter().zip(&example.logits).enumerate() {
        // NaN is no match.
        if (got - want).is_nan() || (got - want).abs() > example.tolerance {
            return Err(format!("logit {index} is {got}, expected {want} ± {}", example.tolerance));
        }
    }
    // Asked even where no decision is expected: a rule that fails on everything must not go live.
    match (decided, &example.decision) {
        (Some(Ok(got)), Some(want)) if got.decision != *want => {
            Err(format!("the decision is `{}`, expected `{want}`", got.decision))
        }
        (Some(Err(fault)), None) if of_request(&fault) => Ok(()),
        (Some(Err(fault)), _) => Err(fault.to_string()),
        (Some(Ok(_)) | None, _) => Ok(()),
    }
}

/// The examples' graph, with the serving graph's relations and the release's node columns.
fn subgraph(golden: &GoldenGraph, columns: &Columns, serving: &GraphSchema) -> Result<MemoryGraph, String> {
    let text_keys = golden.nodes.iter().any(|n| matches!(n.key, Key::Text(_)));
    let schema = GraphSchema {
        key_type: if text_keys { KeyType::String } else { KeyType::U64 },
        features: columns.node_columns().iter().map(|c| c.name.clone()).collect(),
        relations: serving.relations.clone(),
    };
    let mut nodes = Vec::with_capacity(golden.nodes.len());
    for node in &golden.nodes {
        if node.features.len() != columns.num_node() {
            return Err(format!(
                "node {}: {} features, the schema has {}",
                node.key,
                node.features.len(),
                columns.num_node()
            ));
        }
        let features = node.features.iter().map(|v| v.unwrap_or(f32::NAN)).collect();
        nodes.push(MemoryNode { key: node.key.clone(), features });
    }
    let mut edges = Vec::new();
    for (name, list) in &golden.edges {
        let relation = schema.relation(name).ok_or_else(|| format!("the serving graph has no relation `{name}`"))?;
        let relation_schema = &schema.relations[relation as usize];
        for edge in list {
            let columns = OwnEdge::columns(relation_schema, &edge.columns)?;
            let (src, dst) = (edge.src.clone(), edge.dst.clone());
            edges.push(MemoryEdge { relation, src, dst, time_ms: edge.time_ms, columns });
        }
    }
    MemoryGraph::build(schema, &nodes, &edges).map_err(|e| e.to_string())
}
