//! One suite for every backend: results within 1e-5 of float64 (relative to the output's largest magnitude), batch
//! invariance to the bit, and refusal of what does not fit. For tests only (feature `conformance`): it panics where its
//! own data cannot be read.

mod batches;
mod checks;
mod generated;
mod libraries;
mod refusals;

pub use batches::{OwnedBatch, Rng, select};
pub use checks::{Report, check, check_cases};
pub use generated::Median;

use crate::plan::ModelPlan;
use crate::reference::Expected;

/// Largest error, relative to the largest magnitude of the output.
pub const TOLERANCE: f64 = 1e-5;

/// A model, a batch and what must come out.
#[derive(Clone, Debug)]
pub struct Case {
    /// Unique in the suite.
    pub name: String,
    /// The model. [`crate::plan::Aggregator::Reducer`] runs [`Median`].
    pub plan: ModelPlan,
    /// The batch.
    pub batch: OwnedBatch,
    /// In float64: from the libraries' own outputs or from [`crate::reference`].
    pub expected: Expected,
}

/// Every case: the reference models of PyTorch Geometric and DGL, then the generated ones.
#[must_use]
pub fn cases() -> Vec<Case> {
    let mut cases = libraries::cases();
    cases.extend(generated::cases());
    cases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reference;

    #[test]
    fn the_reference_agrees_with_the_libraries() {
        let cases = libraries::cases();
        assert_eq!(cases.len(), 32 + 8 + 2 + 20);
        for case in cases {
            let own = reference::forward(&case.plan, &case.batch.borrow(), &|_, _, _| unreachable!("no reducers here"));
            let theirs = &case.expected.embeddings;
            assert_eq!(own.embeddings.data.len(), theirs.data.len(), "{}", case.name);
            for (o, t) in own.embeddings.data.iter().zip(&theirs.data) {
                assert!((o - t).abs() < 1e-12, "{}: {o} and {t}", case.name);
            }
        }
    }

    #[test]
    fn case_names_are_unique_and_plans_valid() {
        let cases = cases();
        let names: std::collections::BTreeSet<&str> = cases.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(names.len(), cases.len());
        for case in &cases {
            case.plan.validate().unwrap_or_else(|e| panic!("{}: {e}", case.name));
            crate::BatchRules::new(&case.plan)
                .check(&case.batch.borrow())
                .unwrap_or_else(|e| panic!("{}: {e}", case.name));
        }
    }
}
