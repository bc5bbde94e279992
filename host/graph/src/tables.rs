//! One relation's edges as columns, sorted by (destination, event time, ingest order), and how they are read: shared by the
//! in-memory graph, the overlay and the snapshot, whose columns are files.

use sagehost_types::{Node, TimeMs};

use crate::view::Visible;
use crate::weight::fixed_point;

/// Edges in ingest order.
#[derive(Clone, Debug, Default)]
pub(crate) struct EdgeList {
    pub(crate) sources: Vec<Node>,
    /// Row of each edge: its destination, counted from the table's first node.
    pub(crate) rows: Vec<Node>,
    /// Empty where the relation has no times.
    pub(crate) times: Vec<TimeMs>,
    /// One list per column.
    pub(crate) columns: Vec<Vec<f32>>,
}

/// Sorted edges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct EdgeTable {
    /// One more than rows.
    pub(crate) offsets: Vec<u64>,
    pub(crate) sources: Vec<Node>,
    /// `None` where the relation has no times.
    pub(crate) times: Option<Vec<TimeMs>>,
    /// Column after column: value `e` of column `c` is at `c · edges + e`.
    pub(crate) columns: Vec<f32>,
    /// Running sums of the fixed-point weights within each row; `None` without a weight column or with a negative weight.
    pub(crate) weights: Option<Vec<u64>>,
}

/// Why edges make no table; the row at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableFault {
    /// Over 2³² − 1 edges.
    Degree(usize),
    /// A weight, or the sum of the row's, is too large for fixed point.
    Weight(usize),
}

impl EdgeTable {
    /// Sorts edges into `rows` rows. Stable: edges of one row with one time keep their order.
    pub(crate) fn build(
        rows: usize,
        timed: bool,
        weight_column: Option<u32>,
        edges: &EdgeList,
    ) -> Result<Self, TableFault> {
        let mut offsets = vec![0_u64; rows + 1];
        for &row in &edges.rows {
            offsets[row as usize + 1] += 1;
        }
        if let Some(row) = offsets.iter().position(|&degree| degree > u64::from(u32::MAX)) {
            return Err(TableFault::Degree(row - 1));
        }
        for row in 0..rows {
            offsets[row + 1] += offsets[row];
        }
        let mut next = offsets.clone();
        let mut order = vec![0_usize; edges.rows.len()];
        for (edge, &row) in edges.rows.iter().enumerate() {
            let place = &mut next[row as usize];
            order[*place as usize] = edge;
            *place += 1;
        }
        if timed {
            for bounds in offsets.windows(2) {
                order[bounds[0] as usize..bounds[1] as usize].sort_by_key(|&edge| edges.times[edge]);
            }
        }
        let mut table = Self {
            sources: order.iter().map(|&edge| edges.sources[edge]).collect(),
            times: timed.then(|| order.iter().map(|&edge| edges.times[edge]).collect()),
            columns: edges.columns.iter().flat_map(|column| order.iter().map(|&edge| column[edge])).collect(),
            weights: None,
            offsets,
        };
        if let Some(column) = weight_column {
            let start = column as usize * order.len();
            table.weights = running_sums(&table.offsets, &table.columns[start..start + order.len()])?;
        }
        Ok(table)
    }

    pub(crate) fn num_edges(&self) -> u64 {
        self.sources.len() as u64
    }
}

/// See [`EdgeTable::weights`].
fn running_sums(offsets: &[u64], weights: &[f32]) -> Result<Option<Vec<u64>>, TableFault> {
    if weights.iter().any(|&weight| weight < 0.0) {
        return Ok(None);
    }
    let mut sums = Vec::with_capacity(weights.len());
    for (row, bounds) in offsets.windows(2).enumerate() {
        let mut sum = 0_u64;
        for &weight in &weights[bounds[0] as usize..bounds[1] as usize] {
            let units = fixed_point(weight).ok_or(TableFault::Weight(row))?;
            sum = sum.checked_add(units).ok_or(TableFault::Weight(row))?;
            sums.push(sum);
        }
    }
    Ok(Some(sums))
}

/// The visible in-edges of a row. `None` where the columns contradict each other (a damaged file).
pub(crate) fn visible(
    offsets: &[u64],
    times: Option<&[TimeMs]>,
    num_edges: u64,
    row: usize,
    as_of: TimeMs,
) -> Option<Visible> {
    let (&start, &end) = (offsets.get(row)?, offsets.get(row + 1)?);
    if end > num_edges {
        return None;
    }
    let mut degree = u32::try_from(end.checked_sub(start)?).ok()?;
    if let Some(times) = times {
        let times = times.get(usize::try_from(start).ok()?..usize::try_from(end).ok()?)?;
        // Most requests read at the newest time: one look instead of a search.
        if times.last().is_some_and(|&newest| newest > as_of) {
            degree = u32::try_from(times.partition_point(|&time| time <= as_of)).ok()?;
        }
    }
    Some(Visible { first: start, degree })
}

/// An element by a 64-bit index.
pub(crate) fn at<T: Copy>(values: &[T], index: u64) -> Option<T> {
    values.get(usize::try_from(index).ok()?).copied()
}

/// A value of a column-after-column table.
pub(crate) fn column_value(columns: &[f32], num_edges: u64, column: u32, edge: u64) -> Option<f32> {
    at(columns, u64::from(column).checked_mul(num_edges)?.checked_add(edge)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edges(list: &[(Node, Node, TimeMs, f32)]) -> EdgeList {
        EdgeList {
            sources: list.iter().map(|e| e.0).collect(),
            rows: list.iter().map(|e| e.1).collect(),
            times: list.iter().map(|e| e.2).collect(),
            columns: vec![list.iter().map(|e| e.3).collect()],
        }
    }

    #[test]
    fn edges_are_sorted_by_row_time_and_ingest_order() {
        let list = edges(&[(9, 1, 5, 1.0), (8, 0, 5, 2.0), (7, 1, 3, 0.5), (6, 1, 5, 0.0)]);
        let table = EdgeTable::build(3, true, Some(0), &list).unwrap();
        assert_eq!(table.offsets, [0, 1, 4, 4]);
        assert_eq!(table.sources, [8, 7, 9, 6]);
        assert_eq!(table.columns, [2.0, 0.5, 1.0, 0.0]);
        assert_eq!(table.weights.unwrap(), [2 << 20, 1 << 19, 3 << 19, 3 << 19]);
        let times = table.times.as_deref();
        let degree = |row, as_of| visible(&table.offsets, times, 4, row, as_of).unwrap().degree;
        assert_eq!([degree(1, 2), degree(1, 3), degree(1, 4), degree(1, 5), degree(2, 5)], [0, 1, 1, 3, 0]);
        assert_eq!(visible(&table.offsets, times, 4, 3, 5), None);
        assert_eq!(visible(&[4, 2], times, 4, 0, 5), None);
        assert_eq!(visible(&[0, 9], None, 4, 0, 5), None);
        assert_eq!(visible(&[0, 9], times, 9, 0, 5), None);
    }

    #[test]
    fn unusable_weights_are_found() {
        let table = |list: &[_]| EdgeTable::build(2, false, Some(0), &edges(list));
        assert_eq!(table(&[(0, 0, 0, -1.0)]).unwrap().weights, None);
        assert_eq!(table(&[(0, 1, 0, 1e13)]), Err(TableFault::Weight(1)));
        // Each fits, three do not.
        assert_eq!(table(&[(0, 0, 0, 8e12), (0, 0, 0, 8e12), (0, 0, 0, 8e12)]), Err(TableFault::Weight(0)));
    }
}
