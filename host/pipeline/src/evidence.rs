//! The sampled neighbours of a seed, as a post-processor sees them.

use std::sync::Arc;

use sagehost_graph::GraphView;
use sagehost_plugin::api::Evidence;
use sagehost_types::limits::MAX_EVIDENCE;
use sagehost_types::{Block, Fault, Node, TimeMs};

use crate::binding::graph_fault;

/// Collects the first hop's neighbours of seed number `row`: all relations, each in canonical order, at most the newest
/// [`MAX_EVIDENCE`] of each.
pub(crate) fn collect(
    view: &dyn GraphView,
    blocks: &[Block],
    row: usize,
    seed: (Node, TimeMs),
) -> Result<Evidence, Fault> {
    let mut evidence = Evidence::default();
    for block in blocks.iter().filter(|b| b.hop == 0) {
        let schema = view.schema().relations.get(block.relation as usize);
        let name: Arc<str> = schema.map(|s| s.name.as_str()).unwrap_or_default().into();
        let weight = schema.and_then(sagehost_graph::RelationSchema::weight_column);
        let visible = view.visible(block.relation, seed.0, seed.1).map_err(|e| graph_fault(&e))?;
        evidence.degree = evidence.degree.saturating_add(visible.degree);
        // Blocks are checked before they come here; a row that is not there has no neighbours.
        let bounds = (block.offsets.get(row), block.offsets.get(row + 1));
        let (Some(&start), Some(&end)) = bounds else { continue };
        let start = (start as usize).max((end as usize).saturating_sub(MAX_EVIDENCE));
        for position in start..end as usize {
            let (Some(&source), Some(&edge)) = (block.sources.get(position), block.edges.get(position)) else { break };
            let key = view.key(source).map_err(|e| graph_fault(&e))?;
            let time = view.edge_time(block.relation, edge).map_err(|e| graph_fault(&e))?;
            let weight = match weight {
                Some(column) => view.edge_value(block.relation, column, edge).map_err(|e| graph_fault(&e))?,
                None => 1.0,
            };
            evidence.relations.push(Arc::clone(&name));
            evidence.keys.push(key.to_string());
            evidence.times_ms.push(time);
            evidence.weights.push(weight);
        }
    }
    Ok(evidence)
}
