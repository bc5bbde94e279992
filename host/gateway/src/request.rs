//! The two request bodies, read into what the pipeline takes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_pipeline::api::{Endpoint, Features, InferRequest, RequestEdge, RequestNode, Seed, Want};
use sagehost_types::ids::valid_name;
use sagehost_types::{Fault, limits};

use crate::decode::{self, At, Fields, unknown};
use crate::json::{Value, brief, parse};

/// Longest `timeout_ms`.
pub(crate) const MAX_TIMEOUT_MS: u64 = 600_000;
/// Most entities of a request.
pub(crate) const MAX_ENTITIES: usize = 32;

/// The fields of a `POST /v1/graphsage/predict` body.
pub(crate) const PREDICT: &[&str] =
    &["nodes", "features", "return", "as_of", "model", "entities", "graph", "timeout_ms", "timings"];
/// The fields of a `POST /v1/score` body; entity keys beside them are `ip` and whatever ends in `_id`.
pub(crate) const SCORE: &[&str] =
    &["user_id", "features", "as_of", "model", "entities", "graph", "timeout_ms", "timings", "ip", "*_id"];
/// The fields of `graph`.
pub(crate) const GRAPH: &[&str] = &["nodes", "edges"];
/// The fields of an entry of `graph.nodes`.
pub(crate) const GRAPH_NODE: &[&str] = &["key", "features"];
/// The fields of an entry of `graph.edges`.
pub(crate) const GRAPH_EDGE: &[&str] = &["relation", "src", "dst", "time", "columns"];
/// The values of `return`.
pub(crate) const RETURN: &[&str] = &["scores", "embeddings", "decision"];

/// A request as it was asked, with what only its response's form depends on.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: InferRequest,
    /// Whether the response says where the time went.
    pub(crate) timings: bool,
}

/// Reads the body of either endpoint.
///
/// # Errors
/// `Malformed` for what is not JSON; else `InvalidField` or `MissingField` with the field's JSON pointer.
pub(crate) fn read(endpoint: Endpoint, body: &[u8], request_id: &Arc<str>, arrived: Instant) -> Result<Asked, Fault> {
    let document = parse(body)?;
    let at = &At::Root;
    let fields = Fields::of(&document, at)?;
    let (seeds, mut entities, want) = match endpoint {
        Endpoint::Predict => {
            fields.only(PREDICT, at)?;
            let want = fields
                .get("return")
                .map_or(Ok(Want { scores: true, ..Want::default() }), |value| want(value, &At::Member(at, "return")))?;
            (seeds(fields, at)?, Vec::new(), want)
        }
        Endpoint::Score => {
            let entities = entity_fields(fields, at)?;
            let key = decode::key(fields.require("user_id", at)?, &At::Member(at, "user_id"))?;
            let features = optional(fields, "features", at, decode::features)?.unwrap_or(Features::Absent);
            (vec![Seed { key, features }], entities, Want { decision: true, ..Want::default() })
        }
    };
    if let Some(value) = fields.get("entities") {
        add_entities(&mut entities, value, &At::Member(at, "entities"))?;
    }
    let (nodes, edges) = optional(fields, "graph", at, graph)?.unwrap_or_default();
    let request = InferRequest {
        request_id: Arc::clone(request_id),
        endpoint,
        model: optional(fields, "model", at, model)?,
        seeds,
        entities,
        as_of_ms: optional(fields, "as_of", at, decode::time)?,
        nodes,
        edges,
        want,
        arrived,
        timeout: optional(fields, "timeout_ms", at, |value, at| decode::count(value, MAX_TIMEOUT_MS, at))?
            .map(Duration::from_millis),
    };
    let timings = optional(fields, "timings", at, decode::boolean)?.unwrap_or(false);
    Ok(Asked { request, timings })
}

fn optional<'v, T>(
    fields: Fields<'v>,
    name: &str,
    at: &At<'_>,
    read: impl FnOnce(&'v Value<'v>, &At<'_>) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    fields.get(name).map(|value| read(value, &At::Member(at, name))).transpose()
}

fn model(value: &Value<'_>, at: &At<'_>) -> Result<String, Fault> {
    let name = decode::text(value, limits::MAX_NAME, at)?;
    match valid_name(name) {
        true => Ok(name.to_string()),
        false => {
            let rule = "letters, digits, `-`, `_` and `.`, starting with a letter or digit";
            Err(at.invalid(format!("`{}` is not a model's name ({rule})", brief(name))))
        }
    }
}

fn want(value: &Value<'_>, at: &At<'_>) -> Result<Want, Fault> {
    let mut want = Want::default();
    let names = decode::array(value, RETURN.len(), at)?;
    if names.is_empty() {
        return Err(at.invalid(format!("nothing to return; choose among: {}", RETURN.join(", "))));
    }
    for (i, value) in names.iter().enumerate() {
        let at = &At::Index(at, i);
        match decode::text(value, limits::MAX_NAME, at)? {
            "scores" => want.scores = true,
            "embeddings" => want.embeddings = true,
            "decision" => want.decision = true,
            other => {
                let known = RETURN.join(", ");
                return Err(at.invalid(format!("`{}` cannot be returned; choose among: {known}", brief(other))));
            }
        }
    }
    Ok(want)
}

fn seeds(fields: Fields<'_>, at: &At<'_>) -> Result<Vec<Seed>, Fault> {
    let at_nodes = &At::Member(at, "nodes");
    let keys = decode::array(fields.require("nodes", at)?, limits::MAX_SEEDS, at_nodes)?;
    if keys.is_empty() {
        return Err(at_nodes.invalid("no node is asked about"));
    }
    let at_features = &At::Member(at, "features");
    let features = optional(fields, "features", at, |value, at| decode::array(value, limits::MAX_SEEDS, at))?;
    if let Some(given) = features.filter(|features| features.len() != keys.len()) {
        let detail =
            format!("{} entries given for {} nodes; give one for each, null for none", given.len(), keys.len());
        return Err(at_features.invalid(detail));
    }
    let seed = |(i, value)| {
        let features = match features.and_then(|features| features.get(i)) {
            Some(value) => decode::features(value, &At::Index(at_features, i))?,
            None => Features::Absent,
        };
        Ok(Seed { key: decode::key(value, &At::Index(at_nodes, i))?, features })
    };
    keys.iter().enumerate().map(seed).collect()
}

/// The entity keys that stand beside a score request's own fields. Only names that cannot be a misspelt field count; the
/// kind is the name without `_id`, as `entities` names it: `device_id` is a `device`.
fn entity_fields(fields: Fields<'_>, at: &At<'_>) -> Result<Vec<(String, String)>, Fault> {
    let mut entities = Vec::new();
    for (name, value) in fields.iter() {
        if SCORE.contains(&name) && name != "ip" && name != "*_id" {
            continue;
        }
        if name != "ip" && !(name.ends_with("_id") && valid_name(name)) {
            return Err(unknown(name, SCORE, at));
        }
        if *value != Value::Null {
            push_entity(&mut entities, name, value, at)?;
        }
    }
    Ok(entities)
}

fn add_entities(entities: &mut Vec<(String, String)>, value: &Value<'_>, at: &At<'_>) -> Result<(), Fault> {
    for (name, value) in Fields::of(value, at)?.iter() {
        let here = &At::Member(at, name);
        if !valid_name(name) {
            let rule = "letters, digits, `-`, `_` and `.`, starting with a letter or digit";
            return Err(here.invalid(format!("`{}` is not an entity's name ({rule})", brief(name))));
        }
        if entities.iter().any(|(other, _)| other == kind(name)) {
            return Err(here.invalid(format!("`{name}` is also given as a field of the request; give it once")));
        }
        if *value != Value::Null {
            push_entity(entities, name, value, at)?;
        }
    }
    Ok(())
}

fn push_entity(entities: &mut Vec<(String, String)>, name: &str, value: &Value<'_>, at: &At<'_>) -> Result<(), Fault> {
    let at = &At::Member(at, name);
    if entities.len() >= MAX_ENTITIES {
        return Err(at.invalid(format!("more than {MAX_ENTITIES} entities given")));
    }
    entities.push((kind(name).to_string(), decode::entity(value, at)?));
    Ok(())
}

/// What an entity's key is a key of.
fn kind(name: &str) -> &str {
    name.strip_suffix("_id").filter(|kind| !kind.is_empty()).unwrap_or(name)
}

fn graph(value: &Value<'_>, at: &At<'_>) -> Result<(Vec<RequestNode>, Vec<RequestEdge>), Fault> {
    let fields = Fields::of(value, at)?;
    fields.only(GRAPH, at)?;
    let nodes = list(fields, "nodes", limits::MAX_REQUEST_NODES, at, graph_node)?;
    let edges = list(fields, "edges", limits::MAX_REQUEST_EDGES, at, graph_edge)?;
    Ok((nodes, edges))
}

fn list<'v, T>(
    fields: Fields<'v>,
    name: &str,
    most: usize,
    at: &At<'_>,
    read: impl Fn(&'v Value<'v>, &At<'_>) -> Result<T, Fault>,
) -> Result<Vec<T>, Fault> {
    let at = &At::Member(at, name);
    let Some(value) = fields.get(name) else {
        return Ok(Vec::new());
    };
    let items = decode::array(value, most, at)?.iter().enumerate();
    items.map(|(i, item)| read(item, &At::Index(at, i))).collect()
}

fn graph_node(value: &Value<'_>, at: &At<'_>) -> Result<RequestNode, Fault> {
    let fields = Fields::of(value, at)?;
    fields.only(GRAPH_NODE, at)?;
    Ok(RequestNode {
        key: decode::key(fields.require("key", at)?, &At::Member(at, "key"))?,
        features: optional(fields, "features", at, decode::features)?.unwrap_or(Features::Absent),
    })
}

fn graph_edge(value: &Value<'_>, at: &At<'_>) -> Result<RequestEdge, Fault> {
    let fields = Fields::of(value, at)?;
    fields.only(GRAPH_EDGE, at)?;
    let key = |name| decode::key(fields.require(name, at)?, &At::Member(at, name));
    Ok(RequestEdge {
        relation: decode::text(fields.require("relation", at)?, limits::MAX_NAME, &At::Member(at, "relation"))?.into(),
        src: key("src")?,
        dst: key("dst")?,
        time_ms: optional(fields, "time", at, decode::time)?,
        columns: optional(fields, "columns", at, decode::columns)?.unwrap_or_default(),
    })
}

#[cfg(test)]
#[path = "tests/request.rs"]
mod tests;
