//! The answers' JSON. Floats are printed in the shortest form that reads back to the same bits.

use sagehost_pipeline::api::{Decision, InferResponse, SeedResult, Timings, Want};
use sagehost_types::{Code, Digest, Fault, Key, TimeMs};
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};

use crate::inference::{Health, ModelHealth};

#[derive(Serialize)]
struct Predict<'a> {
    model: &'a str,
    version: u64,
    release: Digest,
    graph_version: String,
    numerics_id: &'a str,
    as_of: TimeMs,
    results: Vec<Row<'a>>,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings_us: Option<Micros>,
}

#[derive(Serialize)]
struct Row<'a> {
    node: &'a Key,
    #[serde(skip_serializing_if = "Option::is_none")]
    scores: Option<Scores<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    logits: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
    #[serde(flatten)]
    decision: Option<Decided<'a>>,
}

#[derive(Serialize)]
struct Decided<'a> {
    score: f64,
    decision: &'a str,
    reasons: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<&'a str>,
}

#[derive(Serialize)]
struct Score<'a> {
    user_id: &'a Key,
    #[serde(flatten)]
    decided: Decided<'a>,
    model: &'a str,
    version: u64,
    release: Digest,
    graph_version: String,
    numerics_id: &'a str,
    as_of: TimeMs,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    timings_us: Option<Micros>,
}

/// Scores by class name, in the model's order; a list where the release names no classes.
struct Scores<'a> {
    classes: &'a [String],
    values: &'a [f32],
}

impl Serialize for Scores<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.classes.is_empty() {
            return self.values.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(self.values.len()))?;
        for (class, value) in self.classes.iter().zip(self.values) {
            map.serialize_entry(class, value)?;
        }
        map.end()
    }
}

/// Microseconds by stage.
#[derive(Serialize)]
struct Micros {
    route: f64,
    preprocess: f64,
    queue: f64,
    sample: f64,
    gather: f64,
    dense: f64,
    postprocess: f64,
}

impl From<&Timings> for Micros {
    fn from(timings: &Timings) -> Self {
        let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
        Self {
            route: micros(timings.route),
            preprocess: micros(timings.preprocess),
            queue: micros(timings.queue),
            sample: micros(timings.sample),
            gather: micros(timings.gather),
            dense: micros(timings.dense),
            postprocess: micros(timings.postprocess),
        }
    }
}

/// The body of a predict answer.
///
/// # Errors
/// [`Code::NotFinite`] for a number that JSON cannot carry; [`Code::Internal`] for an answer that lacks what was asked for.
pub(crate) fn predict(
    response: &InferResponse,
    want: Want,
    seeds: usize,
    request_id: &str,
    timings: bool,
) -> Result<Vec<u8>, Fault> {
    if response.results.len() != seeds {
        return Err(lacks(&format!("{} results for {seeds} nodes", response.results.len())));
    }
    let rows = response.results.iter().enumerate();
    let results = rows.map(|(i, result)| row(response, result, want, i)).collect::<Result<_, _>>()?;
    write(&Predict {
        model: &response.release.model,
        version: response.release.version,
        release: response.release.digest,
        graph_version: response.graph.to_string(),
        numerics_id: &response.numerics_id,
        as_of: response.as_of_ms,
        results,
        request_id,
        timings_us: timings.then(|| (&response.timings).into()),
    })
}

/// The body of a score answer.
///
/// # Errors
/// As [`predict`].
pub(crate) fn score(response: &InferResponse, request_id: &str, timings: bool) -> Result<Vec<u8>, Fault> {
    let [result] = response.results.as_slice() else {
        return Err(lacks(&format!("{} results for one user", response.results.len())));
    };
    write(&Score {
        user_id: &result.key,
        decided: decided(result.decision.as_ref(), 0)?,
        model: &response.release.model,
        version: response.release.version,
        release: response.release.digest,
        graph_version: response.graph.to_string(),
        numerics_id: &response.numerics_id,
        as_of: response.as_of_ms,
        request_id,
        timings_us: timings.then(|| (&response.timings).into()),
    })
}

fn row<'a>(response: &'a InferResponse, result: &'a SeedResult, want: Want, i: usize) -> Result<Row<'a>, Fault> {
    let mut row = Row { node: &result.key, scores: None, logits: None, embedding: None, decision: None };
    if want.scores {
        let classes = &response.classes[..];
        if !classes.is_empty() && classes.len() != result.scores.len() {
            return Err(lacks(&format!("{} scores for {} classes", result.scores.len(), classes.len())));
        }
        row.scores = Some(Scores { classes, values: finite(&result.scores, "score", i)? });
        row.logits = Some(finite(&result.logits, "logit", i)?);
    }
    if want.embeddings {
        let embedding = result.embedding.as_deref().ok_or_else(|| lacks("no embedding"))?;
        row.embedding = Some(finite(embedding, "embedding value", i)?);
    }
    if want.decision {
        row.decision = Some(decided(result.decision.as_ref(), i)?);
    }
    Ok(row)
}

fn decided(decision: Option<&Decision>, i: usize) -> Result<Decided<'_>, Fault> {
    let decision = decision.ok_or_else(|| lacks("no decision"))?;
    if !decision.score.is_finite() {
        return Err(not_finite("decision's score", i));
    }
    Ok(Decided {
        score: decision.score,
        decision: &decision.decision,
        reasons: &decision.reasons,
        policy: decision.policy.as_deref(),
    })
}

fn finite<'a>(values: &'a [f32], what: &str, i: usize) -> Result<&'a [f32], Fault> {
    match values.iter().all(|value| value.is_finite()) {
        true => Ok(values),
        false => Err(not_finite(what, i)),
    }
}

fn not_finite(what: &str, i: usize) -> Fault {
    let detail =
        format!("a {what} of result {i} is not a finite number; check the request's features and the model's weights");
    Fault::new(Code::NotFinite, detail)
}

fn lacks(what: &str) -> Fault {
    Fault::new(Code::Internal, format!("the pipeline's answer is not what was asked for: {what}"))
}

pub(crate) fn write(body: &impl Serialize) -> Result<Vec<u8>, Fault> {
    let mut text = serde_json::to_vec(body)
        .map_err(|error| Fault::new(Code::Internal, format!("the answer cannot be written: {error}")))?;
    // For whoever reads it in a terminal.
    text.push(b'\n');
    Ok(text)
}

#[derive(Serialize)]
struct HealthPage<'a> {
    status: &'a str,
    #[serde(flatten)]
    first: Option<ModelLine<'a>>,
    models: Vec<ModelLine<'a>>,
}

#[derive(Serialize)]
struct ModelLine<'a> {
    model: &'a str,
    version: u64,
    release: Digest,
    graph_version: String,
    backend: &'a str,
}

impl<'a> From<&'a ModelHealth> for ModelLine<'a> {
    fn from(model: &'a ModelHealth) -> Self {
        Self {
            model: &model.release.model,
            version: model.release.version,
            release: model.release.digest,
            graph_version: model.graph.to_string(),
            backend: &model.backend,
        }
    }
}

/// The body of `GET /v1/graphsage/health`.
pub(crate) fn health(health: &Health, status: &str) -> Result<Vec<u8>, Fault> {
    let first = health.models.first().map(Into::into);
    write(&HealthPage { status, first, models: health.models.iter().map(Into::into).collect() })
}

#[cfg(test)]
#[path = "tests/response.rs"]
mod tests;
