//! Post-processor: turns the model's score into a decision with reasons.
//!
//! The model's score (output `output`, a probability) is mapped by the straight lines through the points
//! (`map_from[i]`, `map_to[i]`), level outside of them; without points it stays as it is. The mapped score is compared with
//! `review` and `decline`. A blocklisted entity is declined; an amount over the limit is at least reviewed.
//!
//! | setting | type | meaning |
//! |---|---|---|
//! | `review`, `decline` | numbers | mapped scores from which on a request is reviewed or declined |
//! | `output` | number, optional | which of the model's outputs is the score; 0 by default |
//! | `map_from`, `map_to` | numbers, optional | the points of the score map, `map_from` ascending, `map_to` not falling |
//! | `amount_column` | text, optional | the schema's column that holds the amount; one that is not there is an error |
//! | `amount_limit` | number, optional | the largest amount that needs no review |
//! | `blocklist` | texts, optional | keys (`u17`) or kinds and keys (`device:d4`) that are declined |
//! | `recent_hours` | number, optional | what counts as recent in the reasons; 24 by default |
//!
//! A policy document may give any of them: its values come first, then the settings.
//!
//! A request that leaves the amount out is under the limit. A blocklist entry that never matches is no error, whatever kind
//! it names: a request need not have every kind of entity.

mod rules;
mod score_map;

use std::borrow::Cow;

use sagehost_plugin_sdk::decision::{Outcome, recent, score_of, with_policy};
use sagehost_plugin_sdk::{
    Context, Decision, Error, Evidence, ModelOutput, Policy, PostProcessor, Request, Settings, export_post_processor,
};

use crate::rules::Rules;

/// The plugin.
#[derive(Debug)]
pub struct Risk {
    rules: Rules,
}

impl PostProcessor for Risk {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        let rules = Rules::read(settings, &Rules::default())?;
        settings.finish()?;
        Ok(Self { rules })
    }

    fn decide(
        &self,
        ctx: &Context,
        request: &Request,
        _prepared: &[f32],
        output: &ModelOutput,
        evidence: &Evidence,
        policy: &Policy,
    ) -> Result<Decision, Error> {
        let rules = if policy.values.is_empty() {
            Cow::Borrowed(&self.rules)
        } else {
            Cow::Owned(with_policy(policy, |values| Rules::read(values, &self.rules))?)
        };
        let score = rules.map.map(score_of(output, rules.output)?);
        let (mut outcome, threshold) = rules.thresholds.outcome(score)?;

        let mut reasons = Vec::new();
        if let Some(entity) = rules.blocked(request) {
            outcome = Outcome::Decline;
            reasons.push(format!("{} {} is on the blocklist", entity.kind, entity.key));
        }
        if let Some((amount, limit)) = rules.over_limit(request)? {
            outcome = outcome.max(Outcome::Review);
            reasons.push(format!("amount {amount:.2} is over the limit of {limit:.2}"));
        }
        if let Some(threshold) = threshold {
            let (score, threshold) = (shown(score), shown(threshold));
            reasons.push(format!("risk score {score} reaches the threshold of {threshold}"));
        }
        reasons.push(neighbourhood(evidence, ctx.as_of_ms, rules.recent_hours));
        Ok(Decision { score, decision: outcome.as_str().to_owned(), reasons })
    }
}

/// What the graph says, in a sentence.
fn neighbourhood(evidence: &Evidence, as_of_ms: i64, hours: f64) -> String {
    if evidence.degree == 0 {
        return "no neighbours are known: the score rests on the features alone".to_owned();
    }
    let recent = recent(evidence, None, as_of_ms, hours);
    let (sampled, degree) = (evidence.keys.len(), evidence.degree);
    format!("{recent} of {sampled} sampled neighbours (of {degree}) are from the last {hours} h")
}

/// A mapped score of hundreds needs no decimals, a probability does.
fn shown(score: f64) -> String {
    if score.abs() >= 10.0 { format!("{score:.0}") } else { format!("{score:.3}") }
}

export_post_processor!(Risk);

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting::{Number, Numbers, Text, Texts};
    use sagehost_plugin_sdk::testing::{context, evidence, output, policy, raw, request, settings};

    fn plugin() -> Risk {
        Risk::configure(&mut settings([
            ("review", Number(500.0)),
            ("decline", Number(800.0)),
            ("map_from", Numbers(vec![0.0, 0.1, 1.0])),
            ("map_to", Numbers(vec![0.0, 500.0, 1000.0])),
            ("amount_column", Text("amount".into())),
            ("amount_limit", Number(1000.0)),
            ("blocklist", Texts(vec!["device:d4".into()])),
        ]))
        .expect("good settings")
    }

    fn decide(plugin: &Risk, request: &Request, score: f32, policy: &Policy) -> Decision {
        let now = context().as_of_ms;
        let evidence = evidence("transfer", &[now, now - 3_600_000, now - 90_000_000]);
        plugin.decide(&context(), request, &raw(request), &output(score), &evidence, policy).expect("a decision")
    }

    #[test]
    fn the_mapped_score_decides_and_the_graph_is_told() {
        let request = request(&[("amount", Some(10.0))]);
        let low = decide(&plugin(), &request, 0.0625, &policy([]));
        assert_eq!((low.score, low.decision.as_str()), (312.5, "approve"));
        assert_eq!(low.reasons, ["2 of 3 sampled neighbours (of 3) are from the last 24 h"]);
        let high = decide(&plugin(), &request, 1.0, &policy([]));
        assert_eq!((high.score, high.decision.as_str()), (1000.0, "decline"));
        assert_eq!(high.reasons[0], "risk score 1000 reaches the threshold of 800");
    }

    #[test]
    fn an_amount_over_the_limit_is_reviewed_and_a_missing_one_is_not() {
        let over = decide(&plugin(), &request(&[("amount", Some(1000.5))]), 0.0, &policy([]));
        assert_eq!(over.decision, "review");
        assert_eq!(over.reasons[0], "amount 1000.50 is over the limit of 1000.00");
        let missing = decide(&plugin(), &request(&[("amount", None)]), 0.0, &policy([]));
        assert_eq!(missing.decision, "approve");
    }

    #[test]
    fn an_amount_column_that_is_not_there_is_an_error_and_never_an_approval() {
        let refused = |plugin: &Risk, request: &Request, policy: &Policy| {
            let evidence = evidence("transfer", &[]);
            let result = plugin.decide(&context(), request, &raw(request), &output(0.0), &evidence, policy);
            matches!(result, Err(Error::Internal(text)) if text.contains("`amounts`") && text.contains("`amount`"))
        };
        let known = request(&[("amount", Some(1.0))]);
        let values = [
            ("review", Number(0.5)),
            ("decline", Number(0.9)),
            ("amount_column", Text("amounts".into())),
            ("amount_limit", Number(1000.0)),
        ];
        let misspelt = Risk::configure(&mut settings(values)).expect("the schema is not known yet");
        assert!(refused(&misspelt, &known, &policy([])));
        assert!(refused(&plugin(), &known, &policy([("amount_column", Text("amounts".into()))])));
        assert_eq!(decide(&plugin(), &known, 0.0, &policy([])).decision, "approve");
    }

    #[test]
    fn a_blocklisted_entity_is_declined_whatever_the_score() {
        let mut request = request(&[("amount", Some(1.0))]);
        request.entities.push(sagehost_plugin_sdk::Entity { kind: "device".into(), key: "d4".into() });
        let blocked = decide(&plugin(), &request, 0.0, &policy([]));
        assert_eq!((blocked.decision.as_str(), blocked.score), ("decline", 0.0));
        assert_eq!(blocked.reasons[0], "device d4 is on the blocklist");
    }

    #[test]
    fn the_policy_comes_before_the_settings() {
        let request = request(&[("amount", Some(10.0))]);
        let stricter = policy([("decline", Number(550.0)), ("blocklist", Texts(vec![]))]);
        assert_eq!(decide(&plugin(), &request, 0.25, &policy([])).decision, "review");
        assert_eq!(decide(&plugin(), &request, 0.25, &stricter).decision, "decline");
    }

    #[test]
    fn without_a_map_the_score_is_the_probability() {
        let values = [("review", Number(0.5)), ("decline", Number(0.9))];
        let plain = Risk::configure(&mut settings(values)).expect("good settings");
        let decision = decide(&plain, &request(&[]), 0.75, &policy([]));
        assert_eq!((decision.score, decision.decision.as_str()), (0.75, "review"));
        assert_eq!(decision.reasons[0], "risk score 0.750 reaches the threshold of 0.500");
    }

    #[test]
    fn an_unknown_node_says_so() {
        let request = request(&[("amount", None)]);
        let none = evidence("transfer", &[]);
        let decision = plugin().decide(&context(), &request, &[], &output(0.01), &none, &policy([]));
        let reasons = decision.expect("a decision").reasons;
        assert_eq!(reasons, ["no neighbours are known: the score rests on the features alone"]);
    }

    #[test]
    fn an_unknown_setting_refuses_the_release() {
        let error = Risk::configure(&mut settings([("declin", Number(1.0))])).err();
        assert!(error.is_some_and(|error| error.contains("unknown setting `declin`")));
    }
}
