//! Whether what a plugin answered keeps to the contract.

use sagehost_graph::Hop;
use sagehost_types::Block;
use sagehost_types::limits::MAX_BATCH_EDGES;

use super::failure::Failure;
use crate::api::Decision;
use crate::error::ErrorKind;
use crate::limits::{DECISION_BYTES, REASON_BYTES, REASONS};

fn bad(message: String) -> Failure {
    Failure::new(ErrorKind::BadOutput, message)
}

/// A list of exactly `expected` finite numbers.
pub(super) fn finite(values: Vec<f32>, expected: usize, what: &str) -> Result<Vec<f32>, Failure> {
    if values.len() != expected {
        return Err(bad(format!("it returned {} {what}; {expected} are expected", values.len())));
    }
    match values.iter().position(|value| !value.is_finite()) {
        Some(i) => Err(bad(format!("number {i} of the {what} is {}: it must be finite", values[i]))),
        None => Ok(values),
    }
}

/// As many blocks as asked for, of no more edges than a batch may have.
pub(super) fn blocks(blocks: Vec<Block>, hops: &[Hop]) -> Result<Vec<Block>, Failure> {
    let expected: usize = hops.iter().map(|hop| hop.relations.len()).sum();
    if blocks.len() != expected {
        let count = blocks.len();
        return Err(bad(format!("it returned {count} blocks; one per hop and relation is expected: {expected}")));
    }
    let edges: usize = blocks.iter().map(Block::num_edges).sum();
    if edges > MAX_BATCH_EDGES {
        return Err(bad(format!("it returned {edges} edges; a batch may have {MAX_BATCH_EDGES}")));
    }
    Ok(blocks)
}

/// A finite score, and texts within their bounds.
pub(super) fn decision(decision: Decision) -> Result<Decision, Failure> {
    let Decision { score, decision: text, reasons } = &decision;
    if !score.is_finite() {
        return Err(bad(format!("its score is {score}: it must be finite")));
    }
    if text.is_empty() || text.len() > DECISION_BYTES {
        return Err(bad(format!("its decision has {} bytes; 1 to {DECISION_BYTES} are taken", text.len())));
    }
    if reasons.len() > REASONS {
        return Err(bad(format!("it gives {} reasons; at most {REASONS} are taken", reasons.len())));
    }
    if let Some(i) = reasons.iter().position(|reason| reason.len() > REASON_BYTES) {
        return Err(bad(format!("its reason {i} has {} bytes; at most {REASON_BYTES} are taken", reasons[i].len())));
    }
    Ok(decision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_counted_and_finite() {
        assert_eq!(finite(vec![1.0, -2.0], 2, "values"), Ok(vec![1.0, -2.0]));
        for bad in [vec![1.0], vec![1.0, 2.0, 3.0], vec![1.0, f32::NAN], vec![f32::INFINITY, 0.0]] {
            assert_eq!(finite(bad.clone(), 2, "values").unwrap_err().kind, ErrorKind::BadOutput, "{bad:?}");
        }
    }

    #[test]
    fn decisions_are_bounded() {
        let good = Decision { score: 0.5, decision: "approve".into(), reasons: vec!["é".repeat(256); 32] };
        assert_eq!(decision(good.clone()), Ok(good.clone()));
        let bad = [
            Decision { score: f64::NAN, ..good.clone() },
            Decision { decision: String::new(), ..good.clone() },
            Decision { decision: "x".repeat(65), ..good.clone() },
            Decision { reasons: vec![String::new(); 33], ..good.clone() },
            Decision { reasons: vec!["x".repeat(513)], ..good },
        ];
        for bad in bad {
            assert_eq!(decision(bad.clone()).unwrap_err().kind, ErrorKind::BadOutput, "{bad:?}");
        }
    }

    #[test]
    fn blocks_are_as_many_as_asked_for() {
        let hops = [Hop { relations: vec![0, 1], fanout: 5 }, Hop { relations: vec![0], fanout: 5 }];
        assert!(blocks(vec![Block::default(); 3], &hops).is_ok());
        assert_eq!(blocks(vec![Block::default(); 2], &hops).unwrap_err().kind, ErrorKind::BadOutput);
    }
}
