//! The rule, natively.

use sagehost_plugin_sdk::Setting::Number;
use sagehost_plugin_sdk::testing::{context, evidence, output, policy, raw, request, settings};

use super::*;

fn decide(features: &[(&str, Option<f32>)], score: f32, policy: &Policy) -> Result<Decision, Error> {
    let values = [("review", Number(0.5)), ("decline", Number(0.75)), ("limit", Number(1000.0))];
    let plugin = AmountDecision::configure(&mut settings(values)).expect("good settings");
    let request = request(features);
    plugin.decide(&context(), &request, &raw(&request), &output(score), &evidence("transfer", &[0, 1]), policy)
}

#[test]
fn a_large_amount_is_reviewed_and_a_missing_one_is_not() {
    let large = decide(&[("amount", Some(1200.0))], 0.25, &policy([])).expect("a decision");
    assert_eq!((large.score, large.decision.as_str()), (0.25, "review"));
    assert_eq!(large.reasons, ["amount 1200.00 is over the limit of 1000.00", "the graph shows 2 neighbours"]);
    let missing = decide(&[("amount", None)], 0.25, &policy([])).expect("a decision");
    assert_eq!(missing.decision, "approve");
    assert_eq!(missing.reasons, ["the graph shows 2 neighbours"]);
}

#[test]
fn a_large_amount_never_lowers_what_the_score_says() {
    let declined = decide(&[("amount", Some(1200.0))], 0.875, &policy([])).expect("a decision");
    assert_eq!(declined.decision, "decline");
    assert_eq!(declined.reasons[0], "score 0.875 reaches the threshold of 0.750");
}

#[test]
fn the_policy_comes_before_the_settings() {
    let strict = decide(&[("amount", Some(1.0))], 0.25, &policy([("review", Number(0.125))])).expect("a decision");
    assert_eq!(strict.decision, "review");
}

#[test]
fn what_is_not_there_is_an_error() {
    assert!(decide(&[("sum", Some(1.0))], 0.25, &policy([])).is_err(), "the column");
    let no_limit = AmountDecision::configure(&mut settings([]));
    assert!(no_limit.is_err_and(|error| error.contains("`limit`")), "the setting");
}
