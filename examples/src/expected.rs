//! What a training script computed for its test nodes, with full neighbourhoods: `expected/<version>.json`. A server that
//! serves the same weights must reproduce it.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::ExampleError;

/// The file. The lists are parallel: one entry for each test node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The format's number: 1.
    pub format: u32,
    /// The release's model.
    pub model: String,
    /// The release's version.
    pub version: String,
    /// The as-of time to ask at, in milliseconds since 1970; absent where the graph has no times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of_ms: Option<i64>,
    /// What `value` is.
    pub metric: Metric,
    /// The metric over all test nodes, as PyTorch's scores give it.
    pub value: f64,
    /// Keys of the test nodes.
    pub nodes: Vec<u64>,
    /// The truth: 0 or 1 for [`Metric::Auc`], the class for [`Metric::Accuracy`].
    pub labels: Vec<u32>,
    /// The release's scores (for [`Metric::Auc`]), rounded to 6 decimals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<f64>,
    /// The predicted classes (for [`Metric::Accuracy`]): places of the largest logits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<u32>,
}

/// How well a model does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Area under the ROC curve.
    Auc,
    /// The part of the nodes whose class was predicted.
    Accuracy,
}

impl Expected {
    /// Reads a file.
    ///
    /// # Errors
    /// What the system says; text that is no such JSON; lists that are not parallel.
    pub fn read(path: &Path) -> Result<Self, ExampleError> {
        let text = std::fs::read_to_string(path).map_err(ExampleError::io(path))?;
        let line = |line, what| ExampleError::Line { path: path.to_owned(), line, what };
        let expected: Self = serde_json::from_str(&text).map_err(|e| line(e.line(), e.to_string()))?;
        let told = match expected.metric {
            Metric::Auc => expected.scores.len(),
            Metric::Accuracy => expected.classes.len(),
        };
        let (nodes, labels) = (expected.nodes.len(), expected.labels.len());
        if expected.format != 1 || labels != nodes || told != nodes {
            let what = format!("format {}, {nodes} nodes, {labels} labels, {told} predictions", expected.format);
            return Err(line(1, what));
        }
        Ok(expected)
    }
}

/// The area under the ROC curve: the chance that a positive scores above a negative, ties counting half (Mann–Whitney).
/// `None` without a positive or without a negative. The slices are parallel; what is longer is left out.
#[must_use]
pub fn auc(labels: &[u32], scores: &[f64]) -> Option<f64> {
    let mut rows: Vec<(f64, bool)> = scores.iter().zip(labels).map(|(&score, &label)| (score, label != 0)).collect();
    rows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let positives = rows.iter().filter(|row| row.1).count() as f64;
    let negatives = rows.len() as f64 - positives;
    if positives == 0.0 || negatives == 0.0 {
        return None;
    }
    let mut below = 0.0;
    let mut wins = 0.0;
    for ties in rows.chunk_by(|a, b| a.0 == b.0) {
        let tied = ties.iter().filter(|row| row.1).count() as f64;
        let others = ties.len() as f64 - tied;
        wins += tied * (below + others / 2.0);
        below += others;
    }
    Some(wins / (positives * negatives))
}

/// The part of the labels that were predicted; `None` of none.
#[must_use]
pub fn accuracy(labels: &[u32], classes: &[u32]) -> Option<f64> {
    let right = labels.iter().zip(classes).filter(|(label, class)| label == class).count();
    (!labels.is_empty()).then(|| right as f64 / labels.len() as f64)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn auc_counts_pairs() {
        assert_eq!(auc(&[0, 1], &[0.1, 0.9]), Some(1.0));
        assert_eq!(auc(&[1, 0], &[0.1, 0.9]), Some(0.0));
        assert_eq!(auc(&[0, 1, 0, 1], &[0.5; 4]), Some(0.5));
        // scikit-learn's example of roc_auc_score.
        assert_eq!(auc(&[0, 0, 1, 1], &[0.1, 0.4, 0.35, 0.8]), Some(0.75));
        assert_eq!(auc(&[1, 1], &[0.1, 0.2]), None);
        assert_eq!(auc(&[], &[]), None);
    }

    #[test]
    fn accuracy_counts_hits() {
        assert_eq!(accuracy(&[1, 2, 3, 4], &[1, 2, 0, 4]), Some(0.75));
        assert_eq!(accuracy(&[], &[]), None);
    }

    /// What is committed must be consistent in itself: its metric follows from its own lists.
    #[test]
    fn the_committed_files_say_what_their_lists_say() {
        let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
        for file in [
            "transfers/expected/1.json",
            "transfers/expected/2.json",
            "bitcoin-otc/expected/1.json",
            "cora/expected/1.json",
        ] {
            let expected = Expected::read(&here.join(file)).unwrap();
            let value = match expected.metric {
                Metric::Auc => auc(&expected.labels, &expected.scores),
                Metric::Accuracy => accuracy(&expected.labels, &expected.classes),
            };
            let value = value.unwrap();
            assert!((value - expected.value).abs() < 1e-4, "{file}: {value} is not {}", expected.value);
        }
    }

    #[test]
    fn lists_that_are_not_parallel_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("1.json");
        let text = r#"{"format":1,"model":"m","version":"1","metric":"auc","value":1,"nodes":[1,2],"labels":[0,1],"scores":[0.1]}"#;
        std::fs::write(&path, text).unwrap();
        let error = Expected::read(&path).unwrap_err().to_string();
        assert!(error.contains("2 nodes, 2 labels, 1 predictions"), "{error}");
    }
}
