//! The graph as a guest sees it: the sampling primitives in pieces, with a look at the clock before each, and never an edge
//! that is later than the call's newest as-of time.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use sagehost_graph::{GraphError, GraphView, Strategy, sampling};
use sagehost_types::limits::MAX_BATCH_EDGES;
use sagehost_types::{Block, Frontier, TimeMs};

use crate::error::ErrorKind;
use crate::limits::{TimedOut, check_time};
use crate::state::GuestError;

/// Destinations between two looks at the clock.
const CHUNK_NODES: usize = 1024;
/// Edges between two looks at the clock.
const CHUNK_EDGES: usize = 1 << 16;
/// Most positions that one row may pick: they are sorted in one go.
const MAX_ROW: usize = 1 << 18;
/// Bytes that an edge of a block takes in the guest's memory: source and id.
const EDGE_BYTES: usize = 16;

/// Why a primitive gave no answer.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The call is over.
    TimedOut(TimedOut),
    /// The guest is told.
    Guest(GuestError),
}

impl From<TimedOut> for CallError {
    fn from(error: TimedOut) -> Self {
        Self::TimedOut(error)
    }
}

impl From<GuestError> for CallError {
    fn from(error: GuestError) -> Self {
        Self::Guest(error)
    }
}

impl From<GraphError> for CallError {
    fn from(error: GraphError) -> Self {
        let kind = match &error {
            // A property of the node asked about and of the release's fan-out.
            GraphError::TooManyEdges(_) => ErrorKind::InvalidInput,
            GraphError::Damaged { .. } | GraphError::Io { .. } => ErrorKind::Unavailable,
            // The host checks requests before it calls a plugin: what is wrong here is the guest's arguments.
            _ => ErrorKind::Internal,
        };
        Self::Guest(GuestError::new(kind, error.to_string()))
    }
}

fn bad_argument(message: String) -> CallError {
    CallError::Guest(GuestError::new(ErrorKind::Internal, message))
}

/// One call's access to the graph.
#[derive(Clone)]
pub(crate) struct GraphAccess {
    view: Arc<dyn GraphView>,
    /// Absent where the role does not draw samples.
    salt: Option<Arc<str>>,
    /// The newest as-of time of the call: a guest may not ask for more.
    newest_ms: TimeMs,
    /// Most edges of one answer: what fits into the guest's memory.
    max_edges: usize,
}

impl GraphAccess {
    /// Access for a call on `frontier`, by an instance of at most `memory_limit` bytes.
    pub(crate) fn new(
        view: Arc<dyn GraphView>,
        salt: Option<Arc<str>>,
        frontier: &Frontier,
        memory_limit: usize,
    ) -> Self {
        let newest_ms = frontier.as_of_ms.iter().copied().max().unwrap_or(TimeMs::MIN);
        Self { view, salt, newest_ms, max_edges: (memory_limit / EDGE_BYTES).min(MAX_BATCH_EDGES) }
    }

    pub(crate) fn degrees(&self, end: Instant, relation: u32, dst: &Frontier) -> Result<Vec<u32>, CallError> {
        check_time(end)?;
        self.check_frontier(dst)?;
        let mut degrees = Vec::with_capacity(dst.len());
        for rows in chunks(dst.len(), CHUNK_NODES) {
            check_time(end)?;
            degrees.extend(sampling::degrees(&*self.view, relation, &part(dst, rows))?);
        }
        Ok(degrees)
    }

    pub(crate) fn pick(
        &self,
        end: Instant,
        (relation, hop): (u32, u32),
        dst: Frontier,
        offsets: &[u32],
        positions: &[u32],
    ) -> Result<Block, CallError> {
        check_time(end)?;
        self.check_frontier(&dst)?;
        check_offsets(offsets, dst.len(), positions.len())?;
        self.check_edges(positions.len())?;
        let mut joined = Joined::new(dst.len(), positions.len());
        let mut start = 0;
        while start < dst.len() {
            check_time(end)?;
            let first = offsets[start];
            // At least one row, and as many as keep the piece small.
            let rows = offsets[start + 1..]
                .iter()
                .take(CHUNK_NODES)
                .take_while(|&&next| (next - first) as usize <= CHUNK_EDGES)
                .count()
                .max(1);
            let row_offsets: Vec<u32> = offsets[start..=start + rows].iter().map(|o| o - first).collect();
            let row_positions = &positions[first as usize..offsets[start + rows] as usize];
            if rows == 1 && row_positions.len() > MAX_ROW {
                let picked = row_positions.len();
                return Err(bad_argument(format!("row {start} picks {picked} positions; at most {MAX_ROW} are taken")));
            }
            let rows = start..start + rows;
            let part = part(&dst, rows.clone());
            joined.rows(sampling::pick(&*self.view, relation, hop, &part, &row_offsets, row_positions)?)?;
            start = rows.end;
        }
        Ok(joined.finish(relation, hop, dst))
    }

    pub(crate) fn sample(
        &self,
        end: Instant,
        (relation, hop): (u32, u32),
        dst: Frontier,
        fanout: i32,
        strategy: Strategy,
    ) -> Result<Block, CallError> {
        check_time(end)?;
        let salt = self.salt.as_deref().ok_or_else(|| bad_argument("only a sampler may draw samples".into()))?;
        self.check_frontier(&dst)?;
        let mut joined = Joined::new(dst.len(), 0);
        // A small fan-out bounds a piece by itself; otherwise degrees are needed to know a piece's size beforehand.
        let small = usize::try_from(fanout).is_ok_and(|fanout| fanout <= CHUNK_EDGES / CHUNK_NODES);
        for rows in chunks(dst.len(), CHUNK_NODES) {
            check_time(end)?;
            let part = part(&dst, rows);
            if small {
                joined.rows(sampling::sample(&*self.view, salt, relation, hop, &part, fanout, strategy)?)?;
                self.check_edges(joined.sources.len())?;
            } else {
                self.sample_large(end, (relation, hop), salt, &part, (fanout, strategy), &mut joined)?;
            }
        }
        Ok(joined.finish(relation, hop, dst))
    }

    /// Samples a piece of which the number of edges is not known beforehand, in smaller pieces.
    fn sample_large(
        &self,
        end: Instant,
        (relation, hop): (u32, u32),
        salt: &str,
        dst: &Frontier,
        (fanout, strategy): (i32, Strategy),
        joined: &mut Joined,
    ) -> Result<(), CallError> {
        let limit = u32::try_from(fanout).unwrap_or(u32::MAX);
        let degrees = sampling::degrees(&*self.view, relation, dst)?;
        let taken = |degree: u32| match strategy {
            Strategy::UniformWithReplacement if fanout >= 0 && degree > 0 => limit,
            _ => degree.min(limit),
        };
        let total: u64 = degrees.iter().map(|&degree| u64::from(taken(degree))).sum();
        self.check_edges(joined.sources.len().saturating_add(usize::try_from(total).unwrap_or(usize::MAX)))?;
        let mut start = 0;
        while start < dst.len() {
            check_time(end)?;
            let mut edges = 0;
            let rows = degrees[start..]
                .iter()
                .take_while(|&&degree| {
                    edges += taken(degree) as usize;
                    edges <= CHUNK_EDGES
                })
                .count();
            let degree = degrees[start];
            let range = match strategy {
                Strategy::Latest => true,
                Strategy::Uniform => taken(degree) == degree,
                Strategy::UniformWithReplacement => fanout < 0,
                // Whether the weights are usable is the primitive's to say.
                Strategy::Weighted => false,
            };
            if rows == 0 && range {
                let node = part(dst, start..start + 1);
                self.row(end, (relation, hop), &node, degree - taken(degree)..degree, joined)?;
                start += 1;
                continue;
            }
            let rows = start..start + rows.max(1);
            start = rows.end;
            joined.rows(sampling::sample(&*self.view, salt, relation, hop, &part(dst, rows), fanout, strategy)?)?;
        }
        Ok(())
    }

    /// One long row, in pieces.
    fn row(
        &self,
        end: Instant,
        (relation, hop): (u32, u32),
        node: &Frontier,
        positions: Range<u32>,
        joined: &mut Joined,
    ) -> Result<(), CallError> {
        let mut positions = positions.peekable();
        while positions.peek().is_some() {
            check_time(end)?;
            let piece: Vec<u32> = positions.by_ref().take(CHUNK_EDGES).collect();
            let count = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            joined.piece(sampling::pick(&*self.view, relation, hop, node, &[0, count], &piece)?);
        }
        joined.end_row()
    }

    pub(crate) fn edge_times(&self, end: Instant, relation: u32, edges: &[u64]) -> Result<Vec<TimeMs>, CallError> {
        check_time(end)?;
        let mut times = Vec::with_capacity(edges.len());
        for piece in edges.chunks(CHUNK_NODES) {
            check_time(end)?;
            times.extend(self.visible_times(relation, piece)?);
        }
        Ok(times)
    }

    pub(crate) fn edge_column(
        &self,
        end: Instant,
        relation: u32,
        column: &str,
        edges: &[u64],
    ) -> Result<Vec<f32>, CallError> {
        check_time(end)?;
        let mut values = Vec::with_capacity(edges.len());
        for piece in edges.chunks(CHUNK_NODES) {
            check_time(end)?;
            self.visible_times(relation, piece)?;
            values.extend(sampling::edge_column(&*self.view, relation, column, piece)?);
        }
        Ok(values)
    }

    /// The times of edges. To the guest an edge of the future is no edge.
    fn visible_times(&self, relation: u32, edges: &[u64]) -> Result<Vec<TimeMs>, CallError> {
        let times = sampling::edge_times(&*self.view, relation, edges)?;
        match times.iter().zip(edges).find(|(time, _)| **time > self.newest_ms) {
            Some((_, &edge)) => Err(GraphError::NoSuchEdge { relation, edge }.into()),
            None => Ok(times),
        }
    }

    fn check_frontier(&self, dst: &Frontier) -> Result<(), CallError> {
        let (nodes, times) = (dst.nodes.len(), dst.as_of_ms.len());
        if nodes != times {
            return Err(bad_argument(format!("dst.nodes has {nodes} entries and dst.as-of-ms {times}")));
        }
        match dst.as_of_ms.iter().position(|&time| time > self.newest_ms) {
            Some(i) => Err(bad_argument(format!(
                "dst.as-of-ms[{i}] is {}, later than this call may see ({})",
                dst.as_of_ms[i], self.newest_ms
            ))),
            None => Ok(()),
        }
    }

    fn check_edges(&self, edges: usize) -> Result<(), CallError> {
        if edges > self.max_edges { Err(GraphError::TooManyEdges(self.max_edges).into()) } else { Ok(()) }
    }
}

fn check_offsets(offsets: &[u32], rows: usize, positions: usize) -> Result<(), CallError> {
    let fits = offsets.len() == rows + 1
        && offsets.first() == Some(&0)
        && offsets.is_sorted()
        && offsets.last().is_some_and(|&last| last as usize == positions);
    if fits {
        return Ok(());
    }
    Err(bad_argument(format!(
        "offsets must rise from 0 to the number of positions ({positions}), one more than destinations ({rows}); they \
         are {} long",
        offsets.len()
    )))
}

/// `0..len` in pieces of at most `size`.
fn chunks(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(size).map(move |start| start..(start + size).min(len))
}

fn part(dst: &Frontier, rows: Range<usize>) -> Frontier {
    Frontier { nodes: dst.nodes[rows.clone()].to_vec(), as_of_ms: dst.as_of_ms[rows].to_vec() }
}

/// A block as it is put together of pieces.
struct Joined {
    offsets: Vec<u32>,
    sources: Vec<u64>,
    edges: Vec<u64>,
}

impl Joined {
    fn new(rows: usize, edges: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { offsets, sources: Vec::with_capacity(edges), edges: Vec::with_capacity(edges) }
    }

    /// Appends whole rows.
    fn rows(&mut self, part: Block) -> Result<(), CallError> {
        let base = self.end()?;
        for &offset in part.offsets.iter().skip(1) {
            self.offsets.push(base.checked_add(offset).ok_or(GraphError::TooManyEdges(MAX_BATCH_EDGES))?);
        }
        self.piece(part);
        Ok(())
    }

    /// Appends a piece of a row.
    fn piece(&mut self, part: Block) {
        self.sources.extend(part.sources);
        self.edges.extend(part.edges);
    }

    fn end_row(&mut self) -> Result<(), CallError> {
        let end = self.end()?;
        self.offsets.push(end);
        Ok(())
    }

    fn end(&self) -> Result<u32, CallError> {
        u32::try_from(self.sources.len()).map_err(|_| GraphError::TooManyEdges(MAX_BATCH_EDGES).into())
    }

    fn finish(self, relation: u32, hop: u32, dst: Frontier) -> Block {
        Block { relation, hop, dst, offsets: self.offsets, sources: self.sources, edges: self.edges }
    }
}

#[cfg(test)]
mod tests;
