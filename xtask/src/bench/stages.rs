//! What each stage costs inside the server, from its own metrics: sums and counts before and after.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::stage::Server;

/// Seconds and observations by stage.
pub(crate) struct Stages(BTreeMap<String, (f64, f64)>);

/// Reads the metrics page.
pub(crate) fn read(server: &Server) -> Result<Stages> {
    let text = ureq::get(format!("http://{}/metrics", server.admin)).call()?.body_mut().read_to_string()?;
    let mut stages = BTreeMap::<String, (f64, f64)>::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("sagehost_stage_duration_seconds_") else { continue };
        let Some((labels, value)) = rest.rsplit_once(' ') else { continue };
        let Some(stage) = labels.split("stage=\"").nth(1).and_then(|l| l.split('"').next()) else { continue };
        let value: f64 = value.parse().with_context(|| format!("metric {line}"))?;
        let entry = stages.entry(stage.to_string()).or_default();
        if labels.starts_with("sum") {
            entry.0 += value;
        } else if labels.starts_with("count") {
            entry.1 += value;
        }
    }
    Ok(Stages(stages))
}

impl Stages {
    /// What was added since.
    pub(crate) fn since(self, before: &Self) -> Self {
        let added = |(stage, (sum, count)): (String, (f64, f64))| {
            let (sum_before, count_before) = before.0.get(&stage).copied().unwrap_or_default();
            (stage, (sum - sum_before, count - count_before))
        };
        Self(self.0.into_iter().map(added).collect())
    }

    /// Mean microseconds by stage; a stage that nothing went through is left out.
    pub(crate) fn mean_us(&self) -> Value {
        let rounded = |(sum, count): (f64, f64)| (sum / count * 1e7).round() / 10.0;
        self.0.iter().filter(|(_, v)| v.1 > 0.0).map(|(stage, v)| (stage.clone(), json!(rounded(*v)))).collect()
    }
}
