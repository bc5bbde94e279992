//! What decision plugins share: an ordered outcome, thresholds, and policy values over settings.

use crate::{Error, Evidence, ModelOutput, NO_TIME, Policy, Settings};

/// What is done with a request; ordered, so that a rule can raise it: `outcome.max(Outcome::Review)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Nothing against it.
    Approve,
    /// A person looks at it.
    Review,
    /// Refused.
    Decline,
}

impl Outcome {
    /// The word in the answer.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Review => "review",
            Self::Decline => "decline",
        }
    }
}

/// Scores from which on a request is reviewed or declined. Read from the settings `review` and `decline`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Thresholds {
    review: Option<f64>,
    decline: Option<f64>,
}

impl Thresholds {
    /// Reads what is given and keeps the rest of `base`.
    ///
    /// # Errors
    /// A value that is no number, a review threshold above the decline threshold.
    pub fn read(settings: &mut Settings, base: Self) -> Result<Self, String> {
        let review = settings.number("review")?.or(base.review);
        let decline = settings.number("decline")?.or(base.decline);
        match (review, decline) {
            (Some(review), Some(decline)) if review > decline => {
                Err(format!("`review` ({review}) must not be above `decline` ({decline})"))
            }
            _ => Ok(Self { review, decline }),
        }
    }

    /// The outcome of a score and, unless it is approved, the threshold that it reached.
    ///
    /// # Errors
    /// A threshold that neither policy nor settings gave: approving everything would be the worst default.
    pub fn outcome(&self, score: f64) -> Result<(Outcome, Option<f64>), Error> {
        let given = |name: &str, value: Option<f64>| {
            value.ok_or_else(|| Error::Internal(format!("neither the policy nor the settings give `{name}`")))
        };
        let (review, decline) = (given("review", self.review)?, given("decline", self.decline)?);
        Ok(if score >= decline {
            (Outcome::Decline, Some(decline))
        } else if score >= review {
            (Outcome::Review, Some(review))
        } else {
            (Outcome::Approve, None)
        })
    }
}

/// Reads a policy's values with the same code as the settings. A policy document may serve several releases, so values
/// that this plugin does not know are left alone: `read` does not call `finish`.
///
/// # Errors
/// What `read` says, with the policy's name.
pub fn with_policy<T>(policy: &Policy, read: impl FnOnce(&mut Settings) -> Result<T, String>) -> Result<T, Error> {
    let values = Settings::new(policy.values.clone());
    let read = values.and_then(|mut values| read(&mut values));
    read.map_err(|error| Error::Internal(format!("policy `{}` version {}: {error}", policy.name, policy.version)))
}

/// One score of the model.
///
/// # Errors
/// An output that the model does not have.
pub fn score_of(output: &ModelOutput, number: usize) -> Result<f64, Error> {
    let score = output.scores.get(number).copied().map(f64::from);
    let has = output.scores.len();
    score.ok_or_else(|| Error::Internal(format!("setting `output` is {number}, but the model has {has} outputs")))
}

/// How many sampled neighbours, of one relation or of all, have a time in the `window_hours` up to `as_of_ms`.
#[must_use]
pub fn recent(evidence: &Evidence, relation: Option<&str>, as_of_ms: i64, window_hours: f64) -> usize {
    let since = as_of_ms as f64 - window_hours * 3_600_000.0;
    let is_recent = |(&time_ms, name): (&i64, &String)| {
        time_ms != NO_TIME
            && time_ms <= as_of_ms
            && time_ms as f64 > since
            && relation.is_none_or(|relation| relation == name)
    };
    evidence.times_ms.iter().zip(&evidence.relations).filter(|&pair| is_recent(pair)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting::{Number, Text};
    use crate::testing::{evidence, output, policy, settings};

    #[test]
    fn thresholds_count_from_their_value_on() {
        let values = &mut settings([("review", Number(500.0)), ("decline", Number(800.0))]);
        let thresholds = Thresholds::read(values, Thresholds::default()).expect("good thresholds");
        assert_eq!(thresholds.outcome(499.9), Ok((Outcome::Approve, None)));
        assert_eq!(thresholds.outcome(500.0), Ok((Outcome::Review, Some(500.0))));
        assert_eq!(thresholds.outcome(800.0), Ok((Outcome::Decline, Some(800.0))));
    }

    #[test]
    fn a_policy_overrides_what_it_names_only() {
        let values = &mut settings([("review", Number(500.0)), ("decline", Number(800.0))]);
        let base = Thresholds::read(values, Thresholds::default()).expect("good thresholds");
        let policy = policy([("decline", Number(600.0)), ("someone_elses", Text("x".into()))]);
        let thresholds = with_policy(&policy, |values| Thresholds::read(values, base)).expect("a good policy");
        assert_eq!(thresholds.outcome(700.0), Ok((Outcome::Decline, Some(600.0))));
        assert_eq!(thresholds.outcome(500.0), Ok((Outcome::Review, Some(500.0))));
    }

    #[test]
    fn errors_name_the_policy() {
        let crossed = policy([("review", Number(2.0)), ("decline", Number(1.0))]);
        let result = with_policy(&crossed, |values| Thresholds::read(values, Thresholds::default()));
        let text = "policy `test` version 1: `review` (2) must not be above `decline` (1)";
        assert_eq!(result, Err(Error::Internal(text.into())));
    }

    #[test]
    fn missing_thresholds_do_not_approve() {
        assert!(Thresholds::default().outcome(0.0).is_err());
    }

    #[test]
    fn an_output_that_is_not_there_is_an_error() {
        assert_eq!(score_of(&output(0.5), 0), Ok(0.5));
        assert!(score_of(&output(0.5), 1).is_err());
    }

    #[test]
    fn recent_counts_the_window_and_the_relation() {
        const HOUR: i64 = 3_600_000;
        let evidence = evidence("transfer", &[0, HOUR, 2 * HOUR, NO_TIME]);
        assert_eq!(recent(&evidence, None, 2 * HOUR, 2.0), 2, "the window is open at its old end");
        assert_eq!(recent(&evidence, Some("transfer"), 2 * HOUR, 24.0), 3);
        assert_eq!(recent(&evidence, Some("device"), 2 * HOUR, 24.0), 0);
    }
}
