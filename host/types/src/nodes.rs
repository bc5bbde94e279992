//! Node sets and sampled neighbourhoods, in the field's words: frontier and block.

/// A dense node id: append-only within a lineage. Nodes that only a request knows come after the graph's own.
pub type Node = u64;

/// Milliseconds since the Unix epoch.
pub type TimeMs = i64;

/// The destinations of a hop with, for each, the time after which the graph is invisible to it. The two lists have the
/// same length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    /// Dense ids.
    pub nodes: Vec<Node>,
    /// As-of times, parallel to `nodes`: an edge with a later time does not exist for that destination.
    pub as_of_ms: Vec<TimeMs>,
}

impl Frontier {
    /// How many destinations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there is no destination.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Adds a destination.
    pub fn push(&mut self, node: Node, as_of_ms: TimeMs) {
        self.nodes.push(node);
        self.as_of_ms.push(as_of_ms);
    }

    /// The destinations in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Node, TimeMs)> + '_ {
        self.nodes.iter().copied().zip(self.as_of_ms.iter().copied())
    }
}

/// The sampled in-neighbours of a frontier by one relation: compressed rows by destination.
///
/// Row `i` (of `dst.nodes[i]`) is `sources[offsets[i]..offsets[i + 1]]`, in the graph's canonical order (event time,
/// then ingest sequence); `edges` is parallel to `sources`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The relation's index in the graph's schema.
    pub relation: u32,
    /// 0 is the hop nearest the seeds.
    pub hop: u32,
    /// The destinations.
    pub dst: Frontier,
    /// `dst.len() + 1` row starts, the first 0, never falling.
    pub offsets: Vec<u32>,
    /// The source node of each sampled edge.
    pub sources: Vec<Node>,
    /// The id of each sampled edge, for its columns.
    pub edges: Vec<u64>,
}

impl Block {
    /// The number of sampled edges.
    #[must_use]
    pub fn num_edges(&self) -> usize {
        self.sources.len()
    }
}
