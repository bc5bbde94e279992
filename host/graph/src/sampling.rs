//! The sampling primitives: pure functions of a graph view and a frontier. Each destination sees only edges up to its own
//! as-of time, whatever is asked.
//!
//! A draw is a function of the number of visible neighbours (for `weighted`, their weights), the release's salt, the
//! relation's name, the node's external key and the hop: see [`crate::rng`].

mod uniform;
mod weighted;

use sagehost_types::limits::MAX_BATCH_EDGES;
use sagehost_types::{Block, Frontier, TimeMs};

use crate::error::GraphError;
use crate::rng::{DrawKey, Draws};
use crate::schema::RelationSchema;
use crate::view::{GraphView, Visible};

/// How to choose among a node's visible in-neighbours when it has more than the fan-out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Uniformly, without replacement.
    #[default]
    Uniform,
    /// Uniformly, with replacement: always fan-out draws where there is any neighbour.
    UniformWithReplacement,
    /// By the relation's weight column, without replacement. Edges of weight 0 are taken only once no other is left.
    Weighted,
    /// The newest.
    Latest,
}

/// The visible in-degree of each destination.
///
/// # Errors
/// [`GraphError::BadArgument`] for a frontier whose lists differ in length, and those of [`GraphView::visible`].
pub fn degrees(view: &dyn GraphView, relation: u32, dst: &Frontier) -> Result<Vec<u32>, GraphError> {
    relation_schema(view, relation)?;
    check_frontier(dst)?;
    dst.iter().map(|(node, as_of)| Ok(view.visible(relation, node, as_of)?.degree)).collect()
}

/// The in-edges at the given positions: row `i` takes `positions[offsets[i]..offsets[i + 1]]` of `dst.nodes[i]`, 0 the
/// oldest. The block lists each row in canonical order, whatever the order of its positions; a repeated position is a
/// repeated edge.
///
/// # Errors
/// [`GraphError::BadArgument`] for offsets or positions that do not fit, [`GraphError::TooManyEdges`], and those of the
/// view.
pub fn pick(
    view: &dyn GraphView,
    relation: u32,
    hop: u32,
    dst: &Frontier,
    offsets: &[u32],
    positions: &[u32],
) -> Result<Block, GraphError> {
    relation_schema(view, relation)?;
    check_frontier(dst)?;
    if positions.len() > MAX_BATCH_EDGES {
        return Err(GraphError::TooManyEdges(MAX_BATCH_EDGES));
    }
    check_offsets(offsets, dst.len(), positions.len()).map_err(GraphError::BadArgument)?;
    let mut rows = Rows::new(view, relation, positions.len());
    let mut sorted = Vec::new();
    for ((node, as_of), bounds) in dst.iter().zip(offsets.windows(2)) {
        let visible = view.visible(relation, node, as_of)?;
        sorted.clear();
        sorted.extend_from_slice(&positions[bounds[0] as usize..bounds[1] as usize]);
        sorted.sort_unstable();
        if let Some(&last) = sorted.last().filter(|&&last| last >= visible.degree) {
            return Err(GraphError::BadArgument(format!(
                "position {last} of node {node}: it has {} visible in-edges by relation {relation}",
                visible.degree
            )));
        }
        rows.extend(visible, &sorted)?;
    }
    Ok(Block { relation, hop, dst: dst.clone(), offsets: offsets.to_vec(), sources: rows.sources, edges: rows.edges })
}

/// Samples up to `fanout` in-edges of each destination, in canonical order; below 0 means all. Where there are no more than
/// `fanout`, each is taken once (except with replacement).
///
/// # Errors
/// [`GraphError::TooManyEdges`] beyond [`MAX_BATCH_EDGES`]; [`GraphError::NotWeighted`] for `weighted` on a relation
/// without usable weights; [`GraphError::BadArgument`] for a frontier whose lists differ in length; those of the view.
pub fn sample(
    view: &dyn GraphView,
    salt: &str,
    relation: u32,
    hop: u32,
    dst: &Frontier,
    fanout: i32,
    strategy: Strategy,
) -> Result<Block, GraphError> {
    sample_within(view, salt, relation, hop, dst, fanout, strategy, MAX_BATCH_EDGES)
}

/// As [`sample`], refusing more than `budget` edges: what is left of the batch's.
#[expect(clippy::too_many_arguments, reason = "the primitive's own seven and the budget")]
pub(crate) fn sample_within(
    view: &dyn GraphView,
    salt: &str,
    relation: u32,
    hop: u32,
    dst: &Frontier,
    fanout: i32,
    strategy: Strategy,
    budget: usize,
) -> Result<Block, GraphError> {
    let schema = relation_schema(view, relation)?;
    check_frontier(dst)?;
    if strategy == Strategy::Weighted && schema.weight_column().is_none() {
        return Err(GraphError::NotWeighted(schema.name.clone()));
    }
    let key = DrawKey::new(salt, &schema.name);
    // Below 0: all.
    let limit = u32::try_from(fanout).ok();

    // Degrees first: the block is refused before anything of its size is allocated, and then allocated once.
    let mut ranges = Vec::with_capacity(dst.len());
    let mut offsets = Vec::with_capacity(dst.len() + 1);
    offsets.push(0);
    let mut total = 0_usize;
    for (node, as_of) in dst.iter() {
        let visible = view.visible(relation, node, as_of)?;
        total += taken(visible.degree, limit, strategy) as usize;
        if total > budget {
            return Err(GraphError::TooManyEdges(MAX_BATCH_EDGES));
        }
        ranges.push(visible);
        offsets.push(u32::try_from(total).map_err(|_| GraphError::TooManyEdges(MAX_BATCH_EDGES))?);
    }

    let mut rows = Rows::new(view, relation, total);
    let mut chooser = Chooser::default();
    for (&node, &visible) in dst.nodes.iter().zip(&ranges) {
        let count = taken(visible.degree, limit, strategy);
        let all = count == visible.degree && strategy != Strategy::UniformWithReplacement;
        if count == 0 {
            continue;
        }
        if all || limit.is_none() {
            rows.extend_range(visible, 0)?;
        } else if strategy == Strategy::Latest {
            rows.extend_range(visible, visible.degree - count)?;
        } else {
            let draws = key.draws(view.key_hash(node)?, hop);
            rows.extend(visible, chooser.choose(view, relation, visible, count, strategy, draws)?)?;
        }
    }
    Ok(Block { relation, hop, dst: dst.clone(), offsets, sources: rows.sources, edges: rows.edges })
}

/// Event times of edges; [`TimeMs::MIN`] for one without. Which of them a caller may know is for the caller to say: an
/// edge's id names no destination.
///
/// # Errors
/// [`GraphError::NoSuchRelation`], [`GraphError::NoSuchEdge`].
pub fn edge_times(view: &dyn GraphView, relation: u32, edges: &[u64]) -> Result<Vec<TimeMs>, GraphError> {
    relation_schema(view, relation)?;
    edges.iter().map(|&edge| view.edge_time(relation, edge)).collect()
}

/// A numeric column of edges, by its name.
///
/// # Errors
/// [`GraphError::NoSuchRelation`], [`GraphError::NoSuchColumn`], [`GraphError::NoSuchEdge`].
pub fn edge_column(view: &dyn GraphView, relation: u32, column: &str, edges: &[u64]) -> Result<Vec<f32>, GraphError> {
    let index = relation_schema(view, relation)?
        .column(column)
        .ok_or_else(|| GraphError::NoSuchColumn { relation, column: column.chars().take(128).collect() })?;
    edges.iter().map(|&edge| view.edge_value(relation, index, edge)).collect()
}

/// The relation's names, or that there is no such relation.
fn relation_schema(view: &dyn GraphView, relation: u32) -> Result<&RelationSchema, GraphError> {
    view.schema().relations.get(relation as usize).ok_or(GraphError::NoSuchRelation(relation))
}

/// How many edges a destination of this degree gets.
fn taken(degree: u32, limit: Option<u32>, strategy: Strategy) -> u32 {
    match limit {
        None => degree,
        Some(limit) if strategy == Strategy::UniformWithReplacement => {
            if degree == 0 {
                0
            } else {
                limit
            }
        }
        Some(limit) => degree.min(limit),
    }
}

/// That every destination has an as-of time.
pub(crate) fn check_frontier(dst: &Frontier) -> Result<(), GraphError> {
    if dst.nodes.len() != dst.as_of_ms.len() {
        return Err(GraphError::BadArgument(format!(
            "the frontier has {} nodes and {} as-of times",
            dst.nodes.len(),
            dst.as_of_ms.len()
        )));
    }
    Ok(())
}

/// That `offsets` are `rows + 1` row starts over `values` values; the text says what is wrong.
pub(crate) fn check_offsets(offsets: &[u32], rows: usize, values: usize) -> Result<(), String> {
    if offsets.len() != rows + 1 {
        return Err(format!(
            "{} offsets for {rows} destinations: one more than destinations is expected",
            offsets.len()
        ));
    }
    if offsets.first() != Some(&0) {
        return Err("the first offset is not 0".into());
    }
    if let Some(row) = offsets.windows(2).position(|w| w[0] > w[1]) {
        return Err(format!("offsets fall after row {row}"));
    }
    match offsets.last() {
        Some(&last) if last as usize == values => Ok(()),
        last => Err(format!("the last offset is {}, but there are {values} values", last.copied().unwrap_or(0))),
    }
}

/// The edges of a block as they are collected.
struct Rows<'a> {
    view: &'a dyn GraphView,
    relation: u32,
    sources: Vec<u64>,
    edges: Vec<u64>,
}

impl<'a> Rows<'a> {
    fn new(view: &'a dyn GraphView, relation: u32, capacity: usize) -> Self {
        Self { view, relation, sources: Vec::with_capacity(capacity), edges: Vec::with_capacity(capacity) }
    }

    fn push(&mut self, edge: u64) -> Result<(), GraphError> {
        self.sources.push(self.view.source(self.relation, edge)?);
        self.edges.push(edge);
        Ok(())
    }

    /// The edges at these positions.
    fn extend(&mut self, visible: Visible, positions: &[u32]) -> Result<(), GraphError> {
        positions.iter().try_for_each(|&position| self.push(visible.first + u64::from(position)))
    }

    /// The edges from `start` to the newest.
    fn extend_range(&mut self, visible: Visible, start: u32) -> Result<(), GraphError> {
        (start..visible.degree).try_for_each(|position| self.push(visible.first + u64::from(position)))
    }
}

/// Chooses positions; keeps its scratch space from one destination to the next.
#[derive(Default)]
struct Chooser {
    positions: Vec<u32>,
    table: uniform::Table,
    tree: weighted::Tree,
}

impl Chooser {
    /// `count` positions in ascending order. For the strategies without replacement `count` is below the degree.
    fn choose(
        &mut self,
        view: &dyn GraphView,
        relation: u32,
        visible: Visible,
        count: u32,
        strategy: Strategy,
        mut draws: Draws,
    ) -> Result<&[u32], GraphError> {
        let positions = &mut self.positions;
        positions.clear();
        match strategy {
            Strategy::UniformWithReplacement => {
                positions.extend((0..count).map(|_| draws.below_u32(visible.degree)));
            }
            Strategy::Weighted => {
                let prefix = |position| view.weight_prefix(relation, visible, position);
                self.tree.draw(prefix, visible.degree, count, &mut draws, positions)?;
            }
            Strategy::Uniform => uniform::floyd(visible.degree, count, &mut draws, &mut self.table, positions),
            Strategy::Latest => positions.extend(visible.degree - count..visible.degree),
        }
        positions.sort_unstable();
        Ok(positions)
    }
}

#[cfg(test)]
mod tests;
