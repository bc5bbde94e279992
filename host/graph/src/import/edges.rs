//! The edge files.

use std::path::Path;

use sagehost_types::Node;

use super::Progress;
use super::config::RelationConfig;
use super::csv_file::{CsvFile, Row};
use super::values;
use crate::error::GraphError;
use crate::memory::MemoryBuilder;
use crate::schema::KeyType;

/// Reads a relation's edges in the file's order. Without a nodes file, keys become nodes as they appear.
pub(super) fn read(
    file: &CsvFile,
    relation: u32,
    config: &RelationConfig,
    key_type: KeyType,
    nodes_file: Option<&Path>,
    builder: &mut MemoryBuilder,
    progress: &mut dyn Progress,
) -> Result<(), GraphError> {
    let (from, to) = (file.known(&config.from.text)?, file.known(&config.to.text)?);
    let time = match &config.time {
        Some(time) => Some((file.known(&time.column.text)?, time.unit)),
        None => None,
    };
    let columns = config.value_columns().iter().map(|c| file.known(&c.text)).collect::<Result<Vec<_>, _>>()?;
    let mut values = Vec::with_capacity(columns.len());
    file.rows(&format!("relation {}", config.name.text), progress, |row| {
        let src = node(row, from, key_type, nodes_file, builder)?;
        let dst = node(row, to, key_type, nodes_file, builder)?;
        let time_ms = match time {
            Some((column, unit)) => {
                Some(values::time(row.text(column)?, unit).map_err(|detail| row.bad(column, detail))?)
            }
            None => None,
        };
        values.clear();
        for &column in &columns {
            values.push(values::number(row.text(column)?).map_err(|detail| row.bad(column, detail))?);
        }
        builder.edge(relation, src, dst, time_ms, &values).map_err(|error| row.wrap(error))?;
        // A self-loop is its own reverse.
        if config.symmetric && src != dst {
            builder.edge(relation, dst, src, time_ms, &values).map_err(|error| row.wrap(error))?;
        }
        Ok(())
    })
}

fn node(
    row: &Row<'_>,
    column: usize,
    key_type: KeyType,
    nodes_file: Option<&Path>,
    builder: &mut MemoryBuilder,
) -> Result<Node, GraphError> {
    let key = values::key(row.text(column)?, key_type).map_err(|detail| row.bad(column, detail))?;
    match (builder.find(&key), nodes_file) {
        (Some(node), _) => Ok(node),
        (None, None) => builder.node(key, &[]).map_err(|error| row.wrap(error)),
        (None, Some(file)) => Err(row.bad(column, &format!("is not a node: {} does not list it", file.display()))),
    }
}
