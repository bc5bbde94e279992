//! Input rows: fill what is missing, standardise. One place, so that a row is the same bits whether it comes from the
//! graph, from a request or from a golden example.

use sagehost_engine::plan::Scaler;
use sagehost_types::{Code, Fault};

use crate::columns::Columns;

/// From raw model-input values to the model's space.
pub(crate) struct InputRows {
    names: Vec<String>,
    fill: Vec<Option<f32>>,
    scaler: Option<Scaler>,
}

impl InputRows {
    pub(crate) fn new(columns: &Columns, scaler: Option<Scaler>) -> Self {
        let node = columns.node_columns();
        Self {
            names: node.iter().map(|c| c.name.clone()).collect(),
            fill: node.iter().map(|c| c.fill).collect(),
            scaler,
        }
    }

    /// Width of a row.
    pub(crate) fn width(&self) -> usize {
        self.names.len()
    }

    /// Fills and standardises rows in place. `whose` names a row's node for the fault.
    ///
    /// # Errors
    /// [`Code::MissingField`] where a value is missing and the schema gives no fill for it.
    pub(crate) fn prepare(&self, rows: &mut [f32], whose: impl Fn(usize) -> String) -> Result<(), Fault> {
        if self.width() == 0 {
            return Ok(());
        }
        for (index, row) in rows.chunks_exact_mut(self.width()).enumerate() {
            for (column, value) in row.iter_mut().enumerate() {
                if value.is_nan() {
                    *value = self.fill[column].ok_or_else(|| {
                        let detail = format!(
                            "node {} has no value for column `{}` and the release's schema gives no fill value for it",
                            whose(index),
                            self.names[column]
                        );
                        Fault::new(Code::MissingField, detail)
                    })?;
                }
            }
            if let Some(Scaler { shift, scale }) = &self.scaler {
                for ((value, shift), scale) in row.iter_mut().zip(shift).zip(scale) {
                    *value = (*value - shift) * scale;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_release::spec::{Column, Schema};

    #[test]
    fn fills_before_it_standardises_and_names_what_it_cannot_fill() {
        let column = |name: &str, fill| Column { name: name.into(), fill, plugin_fills: false };
        let schema = Schema { node: vec![column("a", Some(4.0)), column("b", None)], request: Vec::new() };
        let scaler = Scaler { shift: vec![2.0, 0.0], scale: vec![0.5, 1.0] };
        let rows = InputRows::new(&Columns::new(&schema), Some(scaler));
        let mut values = [f32::NAN, 3.0, 0.0, 1.0];
        rows.prepare(&mut values, |i| i.to_string()).unwrap();
        assert_eq!(values, [1.0, 3.0, -1.0, 1.0]);
        let fault = rows.prepare(&mut [1.0, f32::NAN], |_| "x7".into()).unwrap_err();
        assert!(fault.detail.contains("node x7") && fault.detail.contains("`b`"), "{fault}");
    }
}
