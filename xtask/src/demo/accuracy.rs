//! What the training script found on the later part of the data, found again through HTTP.

use anyhow::{Context as _, Result, ensure};
use sagehost_examples::expected::{Expected, Metric, accuracy, auc};
use serde_json::{Value, json};

use crate::stage::{Server, Stage};

/// Largest difference of a score from the training framework's.
const TOLERANCE: f64 = 1e-4;
/// Nodes asked about in one request.
const CHUNK: usize = 128;

pub(crate) fn check(stage: &Stage, server: &Server) -> Result<()> {
    let expected = Expected::read(&stage.expected())?;
    let (mut scores, mut classes) = (Vec::new(), Vec::new());
    for nodes in expected.nodes.chunks(CHUNK) {
        let mut body = json!({ "nodes": nodes });
        if let Some(as_of) = expected.as_of_ms {
            body["as_of"] = json!(as_of);
        }
        let mut answer = ureq::post(format!("http://{}/v1/graphsage/predict", server.address)).send_json(&body)?;
        let answer: Value = answer.body_mut().read_json()?;
        for row in answer["results"].as_array().context("no results")? {
            let numbers =
                |values: &Value| values.as_array().map(|v| v.iter().filter_map(Value::as_f64).collect::<Vec<_>>());
            let logits = numbers(&row["logits"]).context("no logits")?;
            let best = (0..logits.len()).max_by(|&a, &b| logits[a].total_cmp(&logits[b])).context("no logits")?;
            classes.push(u32::try_from(best)?);
            let first = row["scores"].as_object().and_then(|s| s.values().next()).or_else(|| row["scores"].get(0));
            scores.push(first.and_then(Value::as_f64).context("no scores")?);
        }
    }
    let (name, value) = match expected.metric {
        Metric::Auc => {
            let far = scores.iter().zip(&expected.scores).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            println!("{} nodes, largest difference of a score from PyTorch's: {far:.1e}", scores.len());
            ensure!(far <= TOLERANCE, "scores differ from the training script's by up to {far}");
            ("AUC", auc(&expected.labels, &scores).context("one class only")?)
        }
        Metric::Accuracy => ("accuracy", accuracy(&expected.labels, &classes).context("no nodes")?),
    };
    println!("{name} {value:.4} through HTTP, {:.4} by the training script", expected.value);
    ensure!((value - expected.value).abs() <= TOLERANCE, "the server does not reproduce the training script");
    Ok(())
}
