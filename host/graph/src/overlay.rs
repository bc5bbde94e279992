//! The overlay: nodes and edges that only requests know, laid over a graph for one batch. Nothing of it enters the graph.
//!
//! Extra nodes come after the base's (dense ids from `base.num_nodes()`); extra edges have bit 63 of their id set. One
//! overlay serves all requests of a batch. What a request brings along is its own: an extra edge joins the request's own
//! nodes and the base's, and extra nodes are named by the dense id that the builder gives, never looked up by key, so that
//! two requests may use one key for different nodes.

use std::sync::Arc;

use sagehost_types::{GraphVersion, Key, Node, TimeMs};

use crate::error::GraphError;
use crate::memory::{
    check_column, check_edge, check_features, check_key, gather_rows, not_weighted, push_edge, table_error,
};
use crate::schema::{GraphSchema, RelationSchema};
use crate::tables::{EdgeList, EdgeTable, TableFault, at, column_value, visible};
use crate::view::{GraphView, Visible};

/// Set in the ids of extra edges.
pub const EXTRA_EDGE: u64 = 1 << 63;

/// An extra node.
#[derive(Clone, Debug)]
struct ExtraNode {
    key: Key,
    key_hash: u64,
    /// The base node whose in-edges it has, if it has none of its own.
    alias_of: Option<Node>,
}

/// A graph with the extra nodes of one batch. See [`OverlayBuilder`].
pub struct Overlay {
    base: Arc<dyn GraphView>,
    first: Node,
    nodes: Vec<ExtraNode>,
    features: Vec<f32>,
    /// One per relation; rows are extra nodes.
    relations: Vec<EdgeTable>,
}

/// Collects what a batch's requests bring along: for each request [`OverlayBuilder::next_request`], then its nodes, then
/// its edges.
pub struct OverlayBuilder {
    base: Arc<dyn GraphView>,
    first: Node,
    nodes: Vec<ExtraNode>,
    features: Vec<f32>,
    edges: Vec<EdgeList>,
    /// The current request's first extra node.
    request: Node,
}

impl OverlayBuilder {
    /// An overlay over `base` without extra nodes.
    #[must_use]
    pub fn new(base: Arc<dyn GraphView>) -> Self {
        let columns = |relation: &RelationSchema| vec![Vec::new(); relation.columns.len()];
        let relations = &base.schema().relations;
        let edges = relations.iter().map(|r| EdgeList { columns: columns(r), ..EdgeList::default() }).collect();
        let first = base.num_nodes();
        Self { base, first, nodes: Vec::new(), features: Vec::new(), edges, request: first }
    }

    /// Begins the next request: it cannot reach the extra nodes of those before it.
    pub fn next_request(&mut self) {
        self.request = self.end();
    }

    /// A node of the request's own, with whatever in-edges [`OverlayBuilder::edge`] gives it. Whether the base has a node
    /// with this key is not asked.
    ///
    /// # Errors
    /// [`GraphError::BadArgument`] for a key of the wrong kind or a row that does not fit the graph's feature columns.
    pub fn node(&mut self, key: Key, features: &[f32]) -> Result<Node, GraphError> {
        check_key(&key, self.base.schema().key_type)?;
        let key_hash = key.hash();
        self.push(ExtraNode { key, key_hash, alias_of: None }, features)
    }

    /// A second self of a base node: the same key (so the same draws) and in-edges, another feature row. A seed whose
    /// features the request overrides.
    ///
    /// # Errors
    /// [`GraphError::NoSuchNode`], or [`GraphError::BadArgument`] for a row that does not fit.
    pub fn alias(&mut self, of: Node, features: &[f32]) -> Result<Node, GraphError> {
        let (key, key_hash) = (self.base.key(of)?, self.base.key_hash(of)?);
        self.push(ExtraNode { key, key_hash, alias_of: Some(of) }, features)
    }

    /// An edge into a node of this request, from one of its nodes or a base node. Edges with one time are ordered as given.
    ///
    /// # Errors
    /// [`GraphError::NoSuchRelation`], or [`GraphError::BadArgument`] naming what does not fit.
    pub fn edge(
        &mut self,
        relation: u32,
        src: Node,
        dst: Node,
        time_ms: Option<TimeMs>,
        columns: &[f32],
    ) -> Result<(), GraphError> {
        let schema = self.base.schema().relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))?;
        check_edge(schema, time_ms, columns)?;
        let end = self.end();
        let own = |node: Node| node >= self.request && node < end;
        if src >= self.first && !own(src) {
            return Err(GraphError::BadArgument(format!(
                "node {src} is none of this request's and none of the graph's"
            )));
        }
        let row = dst.checked_sub(self.first).filter(|_| own(dst));
        let node = row.and_then(|row| self.nodes.get(usize::try_from(row).ok()?));
        let (Some(row), Some(node)) = (row, node) else {
            return Err(GraphError::BadArgument(format!(
                "an edge ends in node {dst}, which the request did not bring along"
            )));
        };
        if node.alias_of.is_some() {
            let detail = format!("an edge ends in `{}`, whose in-edges are the graph's", node.key);
            return Err(GraphError::BadArgument(detail));
        }
        push_edge(&mut self.edges[relation as usize], src, row, time_ms, columns);
        Ok(())
    }

    /// The finished overlay.
    ///
    /// # Errors
    /// [`GraphError::BadArgument`] where weights are too large for exact sums.
    pub fn finish(self) -> Result<Overlay, GraphError> {
        let Self { base, first, nodes, features, edges, .. } = self;
        let mut relations = Vec::with_capacity(edges.len());
        for (schema, list) in base.schema().relations.iter().zip(&edges) {
            let table = EdgeTable::build(nodes.len(), schema.timed, schema.weight_column(), list);
            relations.push(table.map_err(|fault| {
                let row = match fault {
                    TableFault::Degree(row) | TableFault::Weight(row) => row,
                };
                table_error(fault, schema, nodes.get(row).map(|node| node.key.to_string()).unwrap_or_default().as_str())
            })?);
        }
        Ok(Overlay { base, first, nodes, features, relations })
    }

    /// One past the last extra node.
    fn end(&self) -> Node {
        self.first + self.nodes.len() as u64
    }

    fn push(&mut self, node: ExtraNode, features: &[f32]) -> Result<Node, GraphError> {
        check_features(features, self.base.schema())?;
        let id = self.end();
        self.nodes.push(node);
        self.features.extend_from_slice(features);
        Ok(id)
    }
}

impl Overlay {
    /// The extra node with this dense id; `None` for a base node.
    fn extra(&self, node: Node) -> Result<Option<&ExtraNode>, GraphError> {
        match node.checked_sub(self.first) {
            None => Ok(None),
            Some(row) => {
                let node =
                    usize::try_from(row).ok().and_then(|row| self.nodes.get(row)).ok_or(GraphError::NoSuchNode(node));
                node.map(Some)
            }
        }
    }

    /// The table and place of an extra edge; `None` for a base edge.
    fn extra_edge(&self, relation: u32, edge: u64) -> Result<Option<(&EdgeTable, u64)>, GraphError> {
        if edge & EXTRA_EDGE == 0 {
            return Ok(None);
        }
        let table = self.relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))?;
        let place = edge ^ EXTRA_EDGE;
        if place < table.num_edges() {
            Ok(Some((table, place)))
        } else {
            Err(GraphError::NoSuchEdge { relation, edge })
        }
    }
}

impl GraphView for Overlay {
    fn schema(&self) -> &GraphSchema {
        self.base.schema()
    }

    fn version(&self) -> &GraphVersion {
        self.base.version()
    }

    fn num_nodes(&self) -> u64 {
        self.first + self.nodes.len() as u64
    }

    /// The base's: what a request brings along does not move the time that it reads at.
    fn latest_ms(&self) -> TimeMs {
        self.base.latest_ms()
    }

    /// A base node: extra nodes cannot be found by key.
    fn find(&self, key: &Key) -> Option<Node> {
        self.base.find(key)
    }

    fn key(&self, node: Node) -> Result<Key, GraphError> {
        self.extra(node)?.map_or_else(|| self.base.key(node), |extra| Ok(extra.key.clone()))
    }

    fn key_hash(&self, node: Node) -> Result<u64, GraphError> {
        self.extra(node)?.map_or_else(|| self.base.key_hash(node), |extra| Ok(extra.key_hash))
    }

    fn visible(&self, relation: u32, node: Node, as_of_ms: TimeMs) -> Result<Visible, GraphError> {
        let Some(extra) = self.extra(node)? else { return self.base.visible(relation, node, as_of_ms) };
        if let Some(base_node) = extra.alias_of {
            return self.base.visible(relation, base_node, as_of_ms);
        }
        let table = self.relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))?;
        let row = usize::try_from(node - self.first).map_err(|_| GraphError::NoSuchNode(node))?;
        let found = visible(&table.offsets, table.times.as_deref(), table.num_edges(), row, as_of_ms)
            .ok_or(GraphError::NoSuchNode(node))?;
        Ok(Visible { first: found.first | EXTRA_EDGE, ..found })
    }

    fn source(&self, relation: u32, edge: u64) -> Result<Node, GraphError> {
        match self.extra_edge(relation, edge)? {
            None => self.base.source(relation, edge),
            Some((table, place)) => at(&table.sources, place).ok_or(GraphError::NoSuchEdge { relation, edge }),
        }
    }

    fn edge_time(&self, relation: u32, edge: u64) -> Result<TimeMs, GraphError> {
        match self.extra_edge(relation, edge)? {
            None => self.base.edge_time(relation, edge),
            Some((table, place)) => table
                .times
                .as_ref()
                .map_or(Some(TimeMs::MIN), |times| at(times, place))
                .ok_or(GraphError::NoSuchEdge { relation, edge }),
        }
    }

    fn edge_value(&self, relation: u32, column: u32, edge: u64) -> Result<f32, GraphError> {
        let Some((table, place)) = self.extra_edge(relation, edge)? else {
            return self.base.edge_value(relation, column, edge);
        };
        check_column(self.schema(), relation, column)?;
        column_value(&table.columns, table.num_edges(), column, place).ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn weight_prefix(&self, relation: u32, visible: Visible, position: u32) -> Result<u64, GraphError> {
        let edge = visible.first.saturating_add(u64::from(position));
        let Some((table, place)) = self.extra_edge(relation, edge)? else {
            return self.base.weight_prefix(relation, visible, position);
        };
        let weights = table.weights.as_ref().ok_or_else(|| not_weighted(self.schema(), relation))?;
        at(weights, place).ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn gather(&self, nodes: &[Node], out: &mut [f32]) -> Result<(), GraphError> {
        let width = self.schema().features.len();
        assert_eq!(out.len(), nodes.len() * width, "`out` must hold a row for each node");
        // Runs of base nodes go to the base together.
        let mut done = 0;
        for run in nodes.chunk_by(|&a, &b| (a < self.first) == (b < self.first)) {
            let rows = &mut out[done * width..(done + run.len()) * width];
            if run[0] < self.first {
                self.base.gather(run, rows)?;
            } else {
                let extra: Vec<Node> = run.iter().map(|&node| node - self.first).collect();
                gather_rows(&self.features, width, self.nodes.len() as u64, &extra, rows).map_err(
                    |error| match error {
                        GraphError::NoSuchNode(row) => GraphError::NoSuchNode(row + self.first),
                        other => other,
                    },
                )?;
            }
            done += run.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
