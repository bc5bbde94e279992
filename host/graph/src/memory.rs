//! A graph in memory: for golden examples, which carry their own subgraph, for imports before they are written, for tests.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::path::Path;
use std::sync::Arc;

use sagehost_types::limits::MAX_KEY;
use sagehost_types::{GraphVersion, Key, Node, TimeMs};

use crate::error::GraphError;
use crate::schema::{GraphSchema, KeyType, RelationSchema};
use crate::tables::{EdgeList, EdgeTable, TableFault, at, column_value, visible};
use crate::view::{GraphView, Visible};

/// A node to build from.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryNode {
    /// Its external key, of the schema's kind.
    pub key: Key,
    /// Its feature row, as wide as the schema's; NaN is missing.
    pub features: Vec<f32>,
}

/// An edge to build from.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEdge {
    /// The relation's index in the schema.
    pub relation: u32,
    /// Key of the source.
    pub src: Key,
    /// Key of the destination.
    pub dst: Key,
    /// Event time: given exactly where the relation has times.
    pub time_ms: Option<TimeMs>,
    /// A value for each of the relation's columns.
    pub columns: Vec<f32>,
}

/// A graph in memory. Its lineage is sixteen zeros: it has no history.
#[derive(Debug)]
pub struct MemoryGraph {
    schema: GraphSchema,
    version: GraphVersion,
    keys: Vec<Key>,
    key_hashes: Vec<u64>,
    ids: HashMap<Key, Node>,
    features: Vec<f32>,
    relations: Vec<EdgeTable>,
    latest_ms: TimeMs,
}

impl MemoryGraph {
    /// Builds a graph. Nodes get dense ids in order; edges are in ingest order.
    ///
    /// # Errors
    /// [`GraphError::BadArgument`] naming what does not fit: a repeated or unknown key, a row of another width, a time that
    /// is missing or too much, a value that is not finite.
    pub fn build(schema: GraphSchema, nodes: &[MemoryNode], edges: &[MemoryEdge]) -> Result<Self, GraphError> {
        let mut builder = MemoryBuilder::new(schema)?;
        for node in nodes {
            builder.node(node.key.clone(), &node.features)?;
        }
        for edge in edges {
            let id = |key: &Key| {
                builder.find(key).ok_or_else(|| GraphError::BadArgument(format!("an edge names `{key}`: no such node")))
            };
            let (src, dst) = (id(&edge.src)?, id(&edge.dst)?);
            builder.edge(edge.relation, src, dst, edge.time_ms, &edge.columns)?;
        }
        builder.finish()
    }

    pub(crate) fn keys(&self) -> &[Key] {
        &self.keys
    }

    pub(crate) fn key_hashes(&self) -> &[u64] {
        &self.key_hashes
    }

    pub(crate) fn features(&self) -> &[f32] {
        &self.features
    }

    pub(crate) fn relations(&self) -> &[EdgeTable] {
        &self.relations
    }

    fn table(&self, relation: u32) -> Result<&EdgeTable, GraphError> {
        self.relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))
    }
}

/// Collects a graph node by node and edge by edge.
pub(crate) struct MemoryBuilder {
    schema: GraphSchema,
    keys: Vec<Key>,
    ids: HashMap<Key, Node>,
    features: Vec<f32>,
    edges: Vec<EdgeList>,
}

impl MemoryBuilder {
    pub(crate) fn new(schema: GraphSchema) -> Result<Self, GraphError> {
        let problems = schema.problems();
        if !problems.is_empty() {
            return Err(GraphError::BadArgument(problems.join("; ")));
        }
        let columns = |relation: &RelationSchema| vec![Vec::new(); relation.columns.len()];
        let edges = schema.relations.iter().map(|r| EdgeList { columns: columns(r), ..EdgeList::default() }).collect();
        Ok(Self { schema, keys: Vec::new(), ids: HashMap::new(), features: Vec::new(), edges })
    }

    pub(crate) fn num_nodes(&self) -> u64 {
        self.keys.len() as u64
    }

    pub(crate) fn find(&self, key: &Key) -> Option<Node> {
        self.ids.get(key).copied()
    }

    /// Adds a node.
    pub(crate) fn node(&mut self, key: Key, features: &[f32]) -> Result<Node, GraphError> {
        check_key(&key, self.schema.key_type)?;
        check_features(features, &self.schema)?;
        let id = self.num_nodes();
        match self.ids.entry(key.clone()) {
            Entry::Occupied(_) => return Err(GraphError::BadArgument(format!("node `{key}` is there twice"))),
            Entry::Vacant(entry) => entry.insert(id),
        };
        self.keys.push(key);
        self.features.extend_from_slice(features);
        Ok(id)
    }

    /// Adds an edge.
    pub(crate) fn edge(
        &mut self,
        relation: u32,
        src: Node,
        dst: Node,
        time_ms: Option<TimeMs>,
        columns: &[f32],
    ) -> Result<(), GraphError> {
        let schema = self.schema.relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))?;
        check_edge(schema, time_ms, columns)?;
        if let Some(&node) = [src, dst].iter().find(|&&node| node >= self.num_nodes()) {
            return Err(GraphError::NoSuchNode(node));
        }
        push_edge(&mut self.edges[relation as usize], src, dst, time_ms, columns);
        Ok(())
    }

    /// Sorts the edges.
    pub(crate) fn finish(self) -> Result<MemoryGraph, GraphError> {
        let Self { schema, keys, ids, features, edges } = self;
        let mut relations = Vec::with_capacity(edges.len());
        for (relation, list) in schema.relations.iter().zip(&edges) {
            let table = EdgeTable::build(keys.len(), relation.timed, relation.weight_column(), list);
            relations.push(table.map_err(|fault| {
                let row = match fault {
                    TableFault::Degree(row) | TableFault::Weight(row) => row,
                };
                table_error(fault, relation, keys.get(row).map(ToString::to_string).unwrap_or_default().as_str())
            })?);
        }
        let latest_ms = relations.iter().filter_map(|t| t.times.as_ref()?.iter().max().copied()).max().unwrap_or(0);
        let version = GraphVersion { lineage: "0000000000000000".into(), sequence: 0 };
        let key_hashes = keys.iter().map(Key::hash).collect();
        Ok(MemoryGraph { schema, version, keys, key_hashes, ids, features, relations, latest_ms })
    }
}

/// Adds a checked edge to a list.
pub(crate) fn push_edge(list: &mut EdgeList, src: Node, row: Node, time_ms: Option<TimeMs>, columns: &[f32]) {
    list.sources.push(src);
    list.rows.push(row);
    list.times.extend(time_ms);
    for (column, &value) in list.columns.iter_mut().zip(columns) {
        column.push(value);
    }
}

/// That a key is of the graph's kind and no longer than allowed.
pub(crate) fn check_key(key: &Key, key_type: KeyType) -> Result<(), GraphError> {
    match (key, key_type) {
        (Key::Int(_), KeyType::U64) => Ok(()),
        (Key::Text(text), KeyType::String) if text.is_empty() => Err(GraphError::BadArgument("a key is empty".into())),
        (Key::Text(text), KeyType::String) if text.len() > MAX_KEY => {
            Err(GraphError::BadArgument(format!("a key has {} bytes: at most {MAX_KEY} are allowed", text.len())))
        }
        (Key::Text(_), KeyType::String) => Ok(()),
        (Key::Int(_), KeyType::String) => {
            Err(GraphError::BadArgument(format!("key {key} is an integer: this graph's keys are strings")))
        }
        (Key::Text(text), KeyType::U64) => {
            let short: Arc<str> = text.chars().take(100).collect::<String>().into();
            Err(GraphError::BadArgument(format!(
                "key \"{short}\" is a string: this graph's keys are unsigned integers"
            )))
        }
    }
}

/// That a feature row fits the schema. NaN is a missing value; infinities are no values.
pub(crate) fn check_features(features: &[f32], schema: &GraphSchema) -> Result<(), GraphError> {
    if features.len() != schema.features.len() {
        return Err(GraphError::BadArgument(format!(
            "a feature row has {} values: the graph has {} feature columns",
            features.len(),
            schema.features.len()
        )));
    }
    if let Some((name, value)) = schema.features.iter().zip(features).find(|(_, value)| value.is_infinite()) {
        return Err(GraphError::BadArgument(format!("feature `{name}` is {value}: it must be finite, or missing")));
    }
    Ok(())
}

/// That an edge's time and columns fit its relation.
pub(crate) fn check_edge(schema: &RelationSchema, time_ms: Option<TimeMs>, columns: &[f32]) -> Result<(), GraphError> {
    let name = &schema.name;
    if schema.timed != time_ms.is_some() {
        let detail = if schema.timed { "has event times, but an edge has none" } else { "has no event times" };
        return Err(GraphError::BadArgument(format!("relation `{name}` {detail}")));
    }
    if columns.len() != schema.columns.len() {
        let detail = format!("{} columns, but an edge has {}", schema.columns.len(), columns.len());
        return Err(GraphError::BadArgument(format!("relation `{name}` has {detail}")));
    }
    if let Some((column, value)) = schema.columns.iter().zip(columns).find(|(_, value)| !value.is_finite()) {
        return Err(GraphError::BadArgument(format!("column `{column}` of relation `{name}` is {value}: not finite")));
    }
    Ok(())
}

/// A table's fault in the user's words.
pub(crate) fn table_error(fault: TableFault, relation: &RelationSchema, key: &str) -> GraphError {
    let name = &relation.name;
    GraphError::BadArgument(match fault {
        TableFault::Degree(_) => format!("node `{key}` has over {} in-edges by relation `{name}`", u32::MAX),
        TableFault::Weight(_) => format!(
            "the weights of the in-edges of node `{key}` by relation `{name}` are too large for exact sums (over 10^13): \
             scale the column down"
        ),
    })
}

impl GraphView for MemoryGraph {
    fn schema(&self) -> &GraphSchema {
        &self.schema
    }

    fn version(&self) -> &GraphVersion {
        &self.version
    }

    fn num_nodes(&self) -> u64 {
        self.keys.len() as u64
    }

    fn latest_ms(&self) -> TimeMs {
        self.latest_ms
    }

    fn find(&self, key: &Key) -> Option<Node> {
        self.ids.get(key).copied()
    }

    fn key(&self, node: Node) -> Result<Key, GraphError> {
        usize::try_from(node).ok().and_then(|i| self.keys.get(i)).cloned().ok_or(GraphError::NoSuchNode(node))
    }

    fn key_hash(&self, node: Node) -> Result<u64, GraphError> {
        at(&self.key_hashes, node).ok_or(GraphError::NoSuchNode(node))
    }

    fn visible(&self, relation: u32, node: Node, as_of_ms: TimeMs) -> Result<Visible, GraphError> {
        let table = self.table(relation)?;
        let row =
            usize::try_from(node).ok().filter(|&row| row < self.keys.len()).ok_or(GraphError::NoSuchNode(node))?;
        visible(&table.offsets, table.times.as_deref(), table.num_edges(), row, as_of_ms).ok_or_else(|| {
            GraphError::Damaged {
                path: Path::new("the graph in memory").into(),
                detail: format!("the in-edges of node {node} by relation {relation} are out of bounds"),
            }
        })
    }

    fn source(&self, relation: u32, edge: u64) -> Result<Node, GraphError> {
        at(&self.table(relation)?.sources, edge).ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn edge_time(&self, relation: u32, edge: u64) -> Result<TimeMs, GraphError> {
        let table = self.table(relation)?;
        let none = GraphError::NoSuchEdge { relation, edge };
        match &table.times {
            Some(times) => at(times, edge).ok_or(none),
            None if edge < table.num_edges() => Ok(TimeMs::MIN),
            None => Err(none),
        }
    }

    fn edge_value(&self, relation: u32, column: u32, edge: u64) -> Result<f32, GraphError> {
        let table = self.table(relation)?;
        check_column(&self.schema, relation, column)?;
        let value =
            if edge < table.num_edges() { column_value(&table.columns, table.num_edges(), column, edge) } else { None };
        value.ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn weight_prefix(&self, relation: u32, visible: Visible, position: u32) -> Result<u64, GraphError> {
        let weights = self.table(relation)?.weights.as_ref().ok_or_else(|| not_weighted(&self.schema, relation))?;
        let edge = visible.first.saturating_add(u64::from(position));
        at(weights, edge).ok_or(GraphError::NoSuchEdge { relation, edge })
    }

    fn gather(&self, nodes: &[Node], out: &mut [f32]) -> Result<(), GraphError> {
        gather_rows(&self.features, self.schema.features.len(), self.num_nodes(), nodes, out)
    }
}

/// That the relation has such a column.
pub(crate) fn check_column(schema: &GraphSchema, relation: u32, column: u32) -> Result<(), GraphError> {
    match schema.relations.get(relation as usize) {
        None => Err(GraphError::NoSuchRelation(relation)),
        Some(names) if (column as usize) < names.columns.len() => Ok(()),
        Some(_) => Err(GraphError::NoSuchColumn { relation, column: column.to_string() }),
    }
}

/// That a relation cannot be sampled by weight.
pub(crate) fn not_weighted(schema: &GraphSchema, relation: u32) -> GraphError {
    schema
        .relations
        .get(relation as usize)
        .map_or(GraphError::NoSuchRelation(relation), |names| GraphError::NotWeighted(names.name.clone()))
}

/// Copies rows of a row-major table of `num_nodes` rows.
pub(crate) fn gather_rows(
    features: &[f32],
    width: usize,
    num_nodes: u64,
    nodes: &[Node],
    out: &mut [f32],
) -> Result<(), GraphError> {
    assert_eq!(out.len(), nodes.len() * width, "`out` must hold a row for each node");
    if width == 0 {
        // No row to copy, and so none to miss.
        return nodes.iter().find(|&&node| node >= num_nodes).map_or(Ok(()), |&node| Err(GraphError::NoSuchNode(node)));
    }
    for (&node, row) in nodes.iter().zip(out.chunks_exact_mut(width)) {
        let start = usize::try_from(node).ok().and_then(|node| node.checked_mul(width));
        let found = start.and_then(|start| features.get(start..start.checked_add(width)?));
        row.copy_from_slice(found.ok_or(GraphError::NoSuchNode(node))?);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
