//! What a graph consists of: the part of a snapshot's manifest that requests, releases and plugins refer to.

use serde::{Deserialize, Serialize};

/// Integer or string keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// Unsigned 64-bit integers.
    U64,
    /// UTF-8 strings.
    String,
}

/// A relation: a named kind of directed edge. `received` and `sent` of one transfer are two relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationSchema {
    /// The relation's name: part of every sample's random key.
    pub name: String,
    /// Whether edges have event times.
    pub timed: bool,
    /// Names of the numeric edge columns.
    #[serde(default)]
    pub columns: Vec<String>,
    /// Which of `columns` is the weight, if any.
    #[serde(default)]
    pub weight: Option<String>,
}

impl RelationSchema {
    /// A column's index.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<u32> {
        self.columns.iter().position(|c| c == name).and_then(|i| u32::try_from(i).ok())
    }

    /// The weight column's index.
    #[must_use]
    pub fn weight_column(&self) -> Option<u32> {
        self.weight.as_deref().and_then(|name| self.column(name))
    }
}

/// A graph's names and columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GraphSchema {
    /// The kind of key.
    pub key_type: KeyType,
    /// Names of the node feature columns, in the order of a row.
    pub features: Vec<String>,
    /// Relations; a relation's index is its place here.
    pub relations: Vec<RelationSchema>,
}

impl GraphSchema {
    /// A relation's index.
    #[must_use]
    pub fn relation(&self, name: &str) -> Option<u32> {
        self.relations.iter().position(|r| r.name == name).and_then(|i| u32::try_from(i).ok())
    }
}

impl GraphSchema {
    /// What is wrong with the names: a sentence each, none where the schema can be used.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        repeated(&self.features, "feature column", &mut problems);
        let names: Vec<_> = self.relations.iter().map(|r| r.name.clone()).collect();
        repeated(&names, "relation", &mut problems);
        for relation in &self.relations {
            if !sagehost_types::ids::valid_name(&relation.name) {
                problems.push(format!(
                    "`{}` cannot name a relation: letters, digits, `-`, `_` and `.`, starting with a letter or digit",
                    relation.name
                ));
            }
            repeated(&relation.columns, &format!("column of relation `{}`", relation.name), &mut problems);
            if let Some(weight) = relation.weight.as_deref().filter(|weight| relation.column(weight).is_none()) {
                problems.push(format!("relation `{}` has no column `{weight}` to weigh by", relation.name));
            }
        }
        problems
    }
}

fn repeated(names: &[String], what: &str, problems: &mut Vec<String>) {
    let mut seen = std::collections::HashSet::with_capacity(names.len());
    for name in names {
        if name.is_empty() {
            problems.push(format!("a {what} has an empty name"));
        } else if !seen.insert(name) {
            problems.push(format!("{what} `{name}` is named twice"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_reported_together() {
        let relation = |name: &str, columns: &[&str], weight: Option<&str>| RelationSchema {
            name: name.into(),
            timed: false,
            columns: columns.iter().map(ToString::to_string).collect(),
            weight: weight.map(Into::into),
        };
        let mut schema = GraphSchema {
            key_type: KeyType::U64,
            features: vec!["a".into(), "b".into()],
            relations: vec![relation("sent", &["amount"], Some("amount"))],
        };
        assert_eq!(schema.problems(), [""; 0]);
        schema.features.push("a".into());
        schema.relations.push(relation("sent", &["x", "x"], Some("y")));
        schema.relations.push(relation("a/b", &[], None));
        assert_eq!(schema.problems().len(), 5, "{:?}", schema.problems());
    }
}
