//! Post-processor: thresholds on the score, and review of amounts over a limit. The smallest useful rule, and the one to copy.
//!
//! | setting | type | meaning |
//! |---|---|---|
//! | `review`, `decline` | numbers | scores from which on a request is reviewed or declined; a policy document may give them |
//! | `limit` | number | the largest amount that needs no review |

use sagehost_plugin_sdk::decision::{Outcome, Thresholds, score_of, with_policy};
use sagehost_plugin_sdk::{
    Context, Decision, Error, Evidence, ModelOutput, Policy, PostProcessor, Request, Settings, export_post_processor,
};

/// The plugin: what `configure` read.
pub struct AmountDecision {
    thresholds: Thresholds,
    limit: f64,
}

impl PostProcessor for AmountDecision {
    fn configure(settings: &mut Settings) -> Result<Self, String> {
        let thresholds = Thresholds::read(settings, Thresholds::default())?;
        let limit = settings.required_number("limit")?;
        settings.finish()?; // an unknown setting is an error: it refuses the release
        Ok(Self { thresholds, limit })
    }

    fn decide(
        &self,
        _ctx: &Context,
        request: &Request,
        _prepared: &[f32],
        output: &ModelOutput,
        evidence: &Evidence,
        policy: &Policy,
    ) -> Result<Decision, Error> {
        let thresholds = with_policy(policy, |values| Thresholds::read(values, self.thresholds))?;
        let score = score_of(output, 0)?;
        let (mut outcome, reached) = thresholds.outcome(score)?;
        let mut reasons = Vec::new();
        if let Some(threshold) = reached {
            reasons.push(format!("score {score:.3} reaches the threshold of {threshold:.3}"));
        }
        // A schema without the column is an error. `None` is a value that the schema leaves to a pre-processor to fill.
        if let Some(amount) = request.column("amount")?.map(f64::from).filter(|amount| *amount > self.limit) {
            outcome = outcome.max(Outcome::Review);
            reasons.push(format!("amount {amount:.2} is over the limit of {:.2}", self.limit));
        }
        reasons.push(format!("the graph shows {} neighbours", evidence.degree));
        Ok(Decision { score, decision: outcome.as_str().to_owned(), reasons })
    }
}

export_post_processor!(AmountDecision);

#[cfg(test)]
mod tests;
