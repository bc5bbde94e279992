//! The nodes file.

use super::Progress;
use super::config::{FeaturesConfig, NodesFile};
use super::csv_file::{CsvFile, Row};
use super::values;
use crate::error::GraphError;
use crate::memory::MemoryBuilder;
use crate::schema::KeyType;

/// Reads every node; dense ids follow the file's order.
pub(super) fn read(
    file: &CsvFile,
    nodes: &NodesFile,
    key_type: KeyType,
    builder: &mut MemoryBuilder,
    progress: &mut dyn Progress,
) -> Result<(), GraphError> {
    let id = file.known(&nodes.id.text)?;
    let columns =
        nodes.features.columns().iter().map(|column| file.known(&column.text)).collect::<Result<Vec<_>, _>>()?;
    let mut values = Vec::new();
    file.rows("nodes", progress, |row| {
        let key = values::key(row.text(id)?, key_type).map_err(|detail| row.bad(id, detail))?;
        values.clear();
        match &nodes.features {
            FeaturesConfig::Columns(_) => {
                for &column in &columns {
                    values.push(values::feature(row.text(column)?).map_err(|detail| row.bad(column, detail))?);
                }
            }
            FeaturesConfig::Indices { width, .. } => {
                values.resize(*width, 0.0);
                columns.iter().try_for_each(|&column| ones(row, column, &mut values))?;
            }
        }
        builder.node(key, &values).map_err(|error| row.wrap(error))?;
        Ok(())
    })
}

/// Sets the positions that a cell lists to 1.
fn ones(row: &Row<'_>, column: usize, values: &mut [f32]) -> Result<(), GraphError> {
    for text in row.text(column)?.split_ascii_whitespace() {
        let value = text.parse().ok().and_then(|position: usize| values.get_mut(position));
        let Some(value) = value else {
            return Err(row.error(format!("`{text}` is no position below the width, {}", values.len())));
        };
        *value = 1.0;
    }
    Ok(())
}
