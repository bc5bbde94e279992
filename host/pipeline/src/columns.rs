//! A request's features against a release's schema: pure, so that every rule of "missing" is in one place.
//!
//! A release knows two kinds of column: node columns, which are the model's input and which the graph holds for every node
//! it knows, and request columns, which only plugins see. A request may give either, as a list (node columns first) or by
//! name; `null` and absent both mean missing. A missing node column of a known node takes the graph's value; whatever is
//! still missing is filled or refuses the request, as the schema says.

use sagehost_release::spec::{Column, Schema};
use sagehost_types::{Code, Fault};

use crate::api::Features;

/// A seed's raw values, one per schema column (node columns first). `None` is missing and left to the pre-processor.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RawRow {
    /// Values in schema order.
    pub(crate) values: Vec<Option<f32>>,
    /// Whether the request gave any node column: then the seed's input row is not the graph's.
    pub(crate) overrides_node: bool,
}

/// A release's columns with their places.
#[derive(Clone, Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    node: usize,
}

impl Columns {
    /// The columns of a schema.
    #[must_use]
    pub(crate) fn new(schema: &Schema) -> Self {
        let columns = schema.node.iter().chain(&schema.request).cloned().collect();
        Self { columns, node: schema.node.len() }
    }

    /// How many node columns there are: the width of a model's input row.
    #[must_use]
    pub(crate) fn num_node(&self) -> usize {
        self.node
    }

    /// All names, node columns first.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.columns.iter().map(|c| c.name.as_str())
    }

    /// The node columns.
    #[must_use]
    pub(crate) fn node_columns(&self) -> &[Column] {
        &self.columns[..self.node]
    }

    /// Puts a request's features into the schema's order and settles what is missing.
    ///
    /// `known` is what is known of the seed without the request, from the first column on (NaN is missing): the graph's
    /// row, or the values of the request's own node. `at` is the JSON pointer of the features, for faults.
    ///
    /// # Errors
    /// [`Code::InvalidField`] for an unknown name, a wrong length or a non-finite number; [`Code::MissingField`] where the
    /// schema refuses a missing value.
    pub(crate) fn settle(&self, given: &Features, known: Option<&[f32]>, at: &str) -> Result<RawRow, Fault> {
        let mut values = self.place(given, at)?;
        let overrides_node = values[..self.node].iter().any(Option::is_some);
        if let Some(known) = known {
            for (value, &graph) in values.iter_mut().zip(known) {
                if value.is_none() && !graph.is_nan() {
                    *value = Some(graph);
                }
            }
        }
        for (index, (value, column)) in values.iter_mut().zip(&self.columns).enumerate() {
            if value.is_some() || column.plugin_fills {
                continue;
            }
            // A known node that overrides nothing is read from the graph as it stands; its own missing values are settled
            // where rows are gathered, with the same fill.
            *value = match column.fill {
                Some(fill) => Some(fill),
                None => return Err(self.missing(index, given, at)),
            };
        }
        Ok(RawRow { values, overrides_node })
    }

    fn place(&self, given: &Features, at: &str) -> Result<Vec<Option<f32>>, Fault> {
        let mut values = vec![None; self.columns.len()];
        match given {
            Features::Absent => {}
            Features::List(list) => {
                if list.len() != values.len() {
                    let names = self.names().collect::<Vec<_>>().join(", ");
                    let detail = format!("{} features given, the schema has {}: {names}", list.len(), values.len());
                    return Err(Fault::new(Code::InvalidField, detail).at(at));
                }
                values.copy_from_slice(list);
            }
            Features::Named(map) => {
                for (name, value) in map {
                    let Some(index) = self.columns.iter().position(|c| c.name == *name) else {
                        let names = self.names().collect::<Vec<_>>().join(", ");
                        let detail = format!("the schema has no column `{name}`; it has: {names}");
                        return Err(Fault::new(Code::InvalidField, detail).at(pointer(at, name)));
                    };
                    values[index] = *value;
                }
            }
        }
        match values.iter().position(|v| v.is_some_and(|v| !v.is_finite())) {
            None => Ok(values),
            Some(index) => {
                let detail = format!("column `{}` is not a finite number", self.columns[index].name);
                Err(Fault::new(Code::InvalidField, detail).at(self.field(index, given, at)))
            }
        }
    }

    fn missing(&self, index: usize, given: &Features, at: &str) -> Fault {
        let name = &self.columns[index].name;
        let detail = format!("column `{name}` is missing and the release's schema gives no fill value for it");
        Fault::new(Code::MissingField, detail).at(self.field(index, given, at))
    }

    fn field(&self, index: usize, given: &Features, at: &str) -> String {
        match given {
            Features::List(_) => format!("{at}/{index}"),
            Features::Absent | Features::Named(_) => pointer(at, &self.columns[index].name),
        }
    }
}

/// Appends a member name to a JSON pointer (RFC 6901 escapes).
fn pointer(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn column(name: &str, fill: Option<f32>, plugin_fills: bool) -> Column {
        Column { name: name.into(), fill, plugin_fills }
    }

    fn columns() -> Columns {
        Columns::new(&Schema {
            node: vec![column("age", Some(1.0), false), column("income", None, false)],
            request: vec![column("amount", None, true), column("hour", Some(12.0), false)],
        })
    }

    fn named(pairs: &[(&str, Option<f32>)]) -> Features {
        Features::Named(pairs.iter().map(|(n, v)| ((*n).to_string(), *v)).collect())
    }

    #[test]
    fn a_known_node_lends_its_row_and_null_means_missing() {
        let row = columns().settle(&named(&[("income", None)]), Some(&[f32::NAN, 7.0]), "/features").unwrap();
        assert_eq!(row.values, [Some(1.0), Some(7.0), None, Some(12.0)]);
        assert!(!row.overrides_node);
    }

    #[test]
    fn an_unknown_node_needs_what_the_schema_does_not_fill() {
        let fault = columns().settle(&Features::Absent, None, "/features").unwrap_err();
        assert_eq!((fault.code, fault.field.as_deref()), (Code::MissingField, Some("/features/income")));
        let list = Features::List(vec![None, Some(2.0), None, None]);
        let row = columns().settle(&list, None, "/features").unwrap();
        assert_eq!(row.values, [Some(1.0), Some(2.0), None, Some(12.0)]);
        assert!(row.overrides_node);
    }

    #[test]
    fn faults_name_the_field() {
        let at = |features: &Features| columns().settle(features, None, "/features").unwrap_err().field.unwrap();
        assert_eq!(at(&named(&[("a/b~", Some(1.0))])), "/features/a~1b~0");
        assert_eq!(at(&Features::List(vec![Some(1.0)])), "/features");
        assert_eq!(at(&Features::List(vec![Some(1.0), Some(f32::NAN), None, None])), "/features/1");
    }

    proptest! {
        #[test]
        fn list_and_names_say_the_same(values in proptest::collection::vec(proptest::option::of(-1e3_f32..1e3), 4)) {
            let columns = columns();
            let by_name = Features::Named(columns.names().map(String::from).zip(values.iter().copied()).collect());
            let list = columns.settle(&Features::List(values), None, "");
            let named = columns.settle(&by_name, None, "");
            prop_assert_eq!(list.is_ok(), named.is_ok());
            if let (Ok(list), Ok(named)) = (list, named) {
                prop_assert_eq!(list, named);
            }
        }
    }
}
