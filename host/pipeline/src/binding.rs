//! A release's names bound to one graph: which graph column is which model input, which relation is which index.

use std::sync::Arc;

use sagehost_graph::GraphView;
use sagehost_types::{Code, Fault, Node};

use crate::columns::Columns;

/// See the module.
pub(crate) struct Binding {
    pub(crate) graph: Arc<dyn GraphView>,
    /// Graph column of each model input column.
    columns: Vec<usize>,
    /// Graph relation of each relation that the model reads, in the order that the plan counts them.
    pub(crate) relations: Vec<u32>,
    /// `columns` is 0, 1, 2 … over the whole row: rows can be read in place.
    identity: bool,
}

impl Binding {
    /// Binds a release to a graph; every name that the graph lacks is reported.
    pub(crate) fn new(graph: Arc<dyn GraphView>, columns: &Columns, relations: &[String]) -> Result<Self, String> {
        let schema = graph.schema();
        let mut lacking = Vec::new();
        let mut places = Vec::with_capacity(columns.num_node());
        for column in columns.node_columns() {
            match schema.features.iter().position(|name| *name == column.name) {
                Some(place) => places.push(place),
                None => lacking.push(format!("feature column `{}`", column.name)),
            }
        }
        let mut indices = Vec::with_capacity(relations.len());
        for name in relations {
            match schema.relation(name) {
                Some(index) => indices.push(index),
                None => lacking.push(format!("relation `{name}`")),
            }
        }
        if !lacking.is_empty() {
            return Err(format!("the graph does not have: {}", lacking.join(", ")));
        }
        let identity = places.len() == schema.features.len() && places.iter().enumerate().all(|(i, &p)| i == p);
        Ok(Self { columns: places, relations: indices, identity, graph })
    }

    /// Raw model-input rows of graph nodes into `out` (`nodes.len() × columns`), NaN where the graph has no value.
    pub(crate) fn gather(&self, nodes: &[Node], out: &mut [f32], scratch: &mut Vec<f32>) -> Result<(), Fault> {
        if self.identity {
            return self.graph.gather(nodes, out).map_err(|e| graph_fault(&e));
        }
        let width = self.graph.schema().features.len();
        scratch.clear();
        scratch.resize(nodes.len() * width, 0.0);
        self.graph.gather(nodes, scratch).map_err(|e| graph_fault(&e))?;
        if self.columns.is_empty() || width == 0 {
            return Ok(());
        }
        for (row, out) in scratch.chunks_exact(width).zip(out.chunks_exact_mut(self.columns.len())) {
            for (value, &column) in out.iter_mut().zip(&self.columns) {
                *value = row[column];
            }
        }
        Ok(())
    }

    /// One node's raw model-input row.
    pub(crate) fn row(&self, node: Node) -> Result<Vec<f32>, Fault> {
        let mut row = vec![0.0; self.columns.len()];
        self.gather(&[node], &mut row, &mut Vec::new())?;
        Ok(row)
    }
}

/// What a graph's error means to a request.
pub(crate) fn graph_fault(error: &sagehost_graph::GraphError) -> Fault {
    use sagehost_graph::GraphError as E;
    let code = match error {
        E::TooManyEdges(_) => Code::TooLarge,
        E::NotWeighted(_) | E::NoSuchColumn { .. } | E::BadArgument(_) => Code::InvalidField,
        _ => Code::Internal,
    };
    Fault::new(code, error.to_string())
}
