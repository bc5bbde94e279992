//! Post-processor: thresholds on the score, and review of accounts that take in many transfers in a short time, as mule
//! accounts do. A rule on the graph's evidence that the model need not have learnt.
//!
//! The score is the model's probability × 1000. An account with more than `max_in` sampled in-edges within the last
//! `window_hours` before the as-of time is at least reviewed. The evidence holds sampled neighbours only, so `max_in` must be
//! below the first hop's fan-out to have an effect.
//!
//! | setting | type | meaning |
//! |---|---|---|
//! | `review`, `decline` | numbers | scores of 0 to 1000 from which on a request is reviewed or declined |
//! | `window_hours` | number, above 0 | the window |
//! | `max_in` | number | in-edges within the window that are still normal |
//! | `relation` | text, optional | the relation whose edges are counted, as in the release's `convs`; all by default |
//! | `output` | number, optional | which of the model's outputs is the score; 0 by default |
//!
//! A policy document may give any of them: its values come first, then the settings.
//!
//! Take care with `relation`: a plugin sees the relations of the neighbours that were sampled, and not those that a release
//! could have, so a name that never occurs counts nothing and is no error. The last reason says how many were counted.

use sagehost_plugin_sdk::decision::{Outcome, Thresholds, recent, score_of, with_policy};
use sagehost_plugin_sdk::{
    Context, Decision, Error, Evidence, ModelOutput, Policy, PostProcessor, Request, Settings, export_post_processor,
};

/// The plugin.
#[derive(Clone, Debug)]
pub struct Velocity {
    thresholds: Thresholds,
    window_hours: Option<f64>,
    max_in: Option<u32>,
    relation: Option<String>,
    output: usize,
}

impl Velocity {
    /// Reads what is given and keeps the rest of `base`.
    fn read(settings: &mut Settings, base: Self) -> Result<Self, String> {
        let velocity = Self {
            thresholds: Thresholds::read(settings, base.thresholds)?,
            window_hours: settings.number("window_hours")?.or(base.window_hours),
            max_in: settings.count("max_in")?.or(base.max_in),
            relation: settings.text("relation")?.or(base.relation),
            output: settings.count("output")?.map_or(base.output, |number| number as usize),
        };
        match velocity.window_hours {
            Some(hours) if hours <= 0.0 => Err(format!("`window_hours` must be above 0, but is {hours}")),
            _ => Ok(velocity),
        }
    }
}

impl PostProcessor for Velocity {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        let nothing =
            Self { thresholds: Thresholds::default(), window_hours: None, max_in: None, relation: None, output: 0 };
        let velocity = Self::read(settings, nothing)?;
        settings.finish()?;
        Ok(velocity)
    }

    fn decide(
        &self,
        ctx: &Context,
        _request: &Request,
        _prepared: &[f32],
        output: &ModelOutput,
        evidence: &Evidence,
        policy: &Policy,
    ) -> Result<Decision, Error> {
        let rules = with_policy(policy, |values| Self::read(values, self.clone()))?;
        let (Some(hours), Some(max_in)) = (rules.window_hours, rules.max_in) else {
            return Err(Error::Internal(
                "neither the policy nor the settings give `window_hours` and `max_in`".to_owned(),
            ));
        };
        let score = score_of(output, rules.output)? * 1000.0;
        let (mut outcome, threshold) = rules.thresholds.outcome(score)?;

        let mut reasons = Vec::new();
        let seen = recent(evidence, rules.relation.as_deref(), ctx.as_of_ms, hours);
        if seen > max_in as usize {
            outcome = outcome.max(Outcome::Review);
            reasons.push(format!("{seen} or more transfers came in within {hours} h; {max_in} are normal"));
        }
        if let Some(threshold) = threshold {
            reasons.push(format!("risk score {score:.0} reaches the threshold of {threshold:.0}"));
        }
        if reasons.is_empty() {
            reasons.push(format!("{seen} transfers came in within {hours} h"));
        }
        Ok(Decision { score, decision: outcome.as_str().to_owned(), reasons })
    }
}

export_post_processor!(Velocity);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting::{Number, Text};
    use sagehost_plugin_sdk::testing::{context, evidence, output, policy, request, settings};

    const HOUR: i64 = 3_600_000;

    fn plugin() -> Velocity {
        Velocity::configure(&mut settings([
            ("review", Number(500.0)),
            ("decline", Number(800.0)),
            ("window_hours", Number(24.0)),
            ("max_in", Number(2.0)),
            ("relation", Text("transfer".into())),
        ]))
        .expect("good settings")
    }

    fn decide(score: f32, hours_ago: &[i64], policy: &Policy) -> Decision {
        let times: Vec<i64> = hours_ago.iter().map(|hours| context().as_of_ms - hours * HOUR).collect();
        let evidence = evidence("transfer", &times);
        plugin().decide(&context(), &request(&[]), &[], &output(score), &evidence, policy).expect("a decision")
    }

    #[test]
    fn many_recent_transfers_raise_to_review() {
        let many = decide(0.125, &[1, 2, 3, 48], &policy([]));
        assert_eq!((many.score, many.decision.as_str()), (125.0, "review"));
        assert_eq!(many.reasons, ["3 or more transfers came in within 24 h; 2 are normal"]);
        let few = decide(0.125, &[1, 2, 25, 48], &policy([]));
        assert_eq!(few.decision, "approve");
        assert_eq!(few.reasons, ["2 transfers came in within 24 h"]);
    }

    #[test]
    fn it_never_lowers_what_the_score_says() {
        let declined = decide(0.875, &[1, 2, 3], &policy([]));
        assert_eq!((declined.score, declined.decision.as_str()), (875.0, "decline"));
        assert_eq!(declined.reasons.len(), 2);
    }

    #[test]
    fn the_policy_comes_before_the_settings() {
        let decision = decide(0.125, &[1, 2, 3], &policy([("max_in", Number(3.0))]));
        assert_eq!(decision.decision, "approve");
    }

    #[test]
    fn another_relation_is_not_counted() {
        let times = vec![context().as_of_ms; 9];
        let decision =
            plugin().decide(&context(), &request(&[]), &[], &output(0.125), &evidence("device", &times), &policy([]));
        assert_eq!(decision.expect("a decision").decision, "approve");
    }

    #[test]
    fn bad_settings_are_refused() {
        let zero = Velocity::configure(&mut settings([("window_hours", Number(0.0))]));
        assert!(zero.is_err_and(|error| error.contains("above 0")));
        let unknown = Velocity::configure(&mut settings([("max_out", Number(1.0))]));
        assert!(unknown.is_err_and(|error| error.contains("`max_out`")));
    }
}
