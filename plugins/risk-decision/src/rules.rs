//! The rules' values: from settings, and from a policy over them.

use std::collections::BTreeSet;

use sagehost_plugin_sdk::decision::Thresholds;
use sagehost_plugin_sdk::{Entity, Error, Request, Settings};

use crate::score_map::ScoreMap;

/// Everything that a decision depends on besides the request.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) thresholds: Thresholds,
    pub(crate) map: ScoreMap,
    pub(crate) output: usize,
    pub(crate) recent_hours: f64,
    amount_column: Option<String>,
    amount_limit: Option<f64>,
    blocklist: BTreeSet<String>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            thresholds: Thresholds::default(),
            map: ScoreMap::default(),
            output: 0,
            recent_hours: 24.0,
            amount_column: None,
            amount_limit: None,
            blocklist: BTreeSet::new(),
        }
    }
}

impl Rules {
    /// Reads what is given and keeps the rest of `base`.
    pub(crate) fn read(settings: &mut Settings, base: &Self) -> Result<Self, String> {
        let rules = Self {
            thresholds: Thresholds::read(settings, base.thresholds)?,
            map: ScoreMap::read(settings, &base.map)?,
            output: settings.count("output")?.map_or(base.output, |number| number as usize),
            recent_hours: settings.number("recent_hours")?.unwrap_or(base.recent_hours),
            amount_column: settings.text("amount_column")?.or_else(|| base.amount_column.clone()),
            amount_limit: settings.number("amount_limit")?.or(base.amount_limit),
            blocklist: match settings.texts("blocklist")? {
                Some(entries) => entries.into_iter().collect(),
                None => base.blocklist.clone(),
            },
        };
        if rules.recent_hours <= 0.0 {
            return Err(format!("`recent_hours` must be above 0, but is {}", rules.recent_hours));
        }
        if rules.amount_limit.is_some() && rules.amount_column.is_none() {
            return Err("`amount_limit` needs `amount_column`".to_owned());
        }
        Ok(rules)
    }

    /// The first entity of the request that is on the blocklist.
    pub(crate) fn blocked<'a>(&self, request: &'a Request) -> Option<&'a Entity> {
        if self.blocklist.is_empty() {
            return None;
        }
        let blocked = |entity: &&Entity| {
            self.blocklist.contains(&entity.key) || self.blocklist.contains(&format!("{}:{}", entity.kind, entity.key))
        };
        request.entities.iter().find(blocked)
    }

    /// The request's amount and the limit that it is over. The raw amount counts, not what a pre-processor made of it.
    ///
    /// # Errors
    /// A column that the request does not have, even while there is no limit: a policy may bring one any time.
    pub(crate) fn over_limit(&self, request: &Request) -> Result<Option<(f64, f64)>, Error> {
        let Some(column) = &self.amount_column else { return Ok(None) };
        let amount = request.column(column)?.map(f64::from);
        Ok(amount.zip(self.amount_limit).filter(|(amount, limit)| amount > limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sagehost_plugin_sdk::Setting::{Number, Texts};
    use sagehost_plugin_sdk::testing::{request, settings};

    #[test]
    fn a_blocklist_names_keys_or_kinds_and_keys() {
        let blocked = |entry: &str| {
            let mut values = settings([("blocklist", Texts(vec![entry.into()]))]);
            let rules = Rules::read(&mut values, &Rules::default()).expect("good settings");
            rules.blocked(&request(&[])).is_some()
        };
        assert!(blocked("u1") && blocked("user:u1"));
        assert!(!blocked("u11") && !blocked("device:u1"));
    }

    #[test]
    fn a_limit_without_a_column_is_refused() {
        let error = Rules::read(&mut settings([("amount_limit", Number(5.0))]), &Rules::default()).err();
        assert_eq!(error, Some("`amount_limit` needs `amount_column`".into()));
    }

    #[test]
    fn reading_nothing_keeps_the_base() {
        let mut values = settings([("blocklist", Texts(vec!["u1".into()])), ("output", Number(1.0))]);
        let base = Rules::read(&mut values, &Rules::default()).expect("good settings");
        let same = Rules::read(&mut settings([]), &base).expect("nothing to refuse");
        assert!(same.blocked(&request(&[])).is_some());
        assert_eq!(same.output, 1);
    }
}
