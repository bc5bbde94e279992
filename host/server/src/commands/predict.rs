//! `sagehost predict`: asks a running server, and prints the answer so that a person can read it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use super::Usage;

/// Ask a running server about nodes.
///
/// Examples:
///   sagehost predict 17 4711
///   sagehost predict --return scores,decision --as-of 1767225600000 17
///   sagehost predict --score --feature amount=950 --feature hour=3 17
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Predict {
    /// Keys of the nodes to ask about.
    #[arg(required = true)]
    nodes: Vec<String>,
    /// The server's inference address.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    server: String,
    /// The model; the server's route decides where none is named.
    #[arg(long)]
    model: Option<String>,
    /// Read the graph as it was then: milliseconds since 1970, or RFC 3339.
    #[arg(long)]
    as_of: Option<String>,
    /// What to answer: scores, embeddings, decision.
    #[arg(long = "return", value_delimiter = ',', default_value = "scores")]
    wanted: Vec<String>,
    /// Ask `/v1/score` for a decision on one user instead of `/v1/graphsage/predict`.
    #[arg(long)]
    score: bool,
    /// A feature of the request, `name=value`; an empty value is null. Only with --score.
    #[arg(long = "feature", value_name = "NAME=VALUE", requires = "score")]
    features: Vec<String>,
    /// Keys are text even where they look like numbers: for a graph with string keys.
    #[arg(long)]
    text_keys: bool,
    /// Print the answer's JSON as it came.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Where the server cannot be reached or refuses; the message says what it said.
pub(crate) fn run(args: &Predict) -> anyhow::Result<()> {
    let (path, body) =
        if args.score { ("/v1/score", score_body(args)?) } else { ("/v1/graphsage/predict", predict_body(args)) };
    let address = format!("{}{path}", args.server.trim_end_matches('/'));
    // A refusal is an answer with a body worth reading, not a transport error.
    let settings =
        ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(Duration::from_secs(30)));
    let agent = ureq::Agent::new_with_config(settings.build());
    let started = Instant::now();
    let mut response = agent
        .post(&address)
        .send_json(&body)
        .with_context(|| format!("cannot reach {address}; is `sagehost serve` running there?"))?;
    let text = response.body_mut().read_to_string().context("the answer broke off")?;
    let elapsed = started.elapsed();
    let answer: Value = serde_json::from_str(&text).with_context(|| format!("not JSON from {address}: {text}"))?;
    if !response.status().is_success() {
        bail!("{}", refusal(&answer, response.status().as_u16()));
    }
    if args.json {
        println!("{text}");
    } else {
        print(&answer, elapsed);
    }
    Ok(())
}

impl Predict {
    fn key(&self, text: &str) -> Value {
        if self.text_keys { json!(text) } else { key(text) }
    }
}

/// Keys go as numbers where the text is exactly that number.
fn key(text: &str) -> Value {
    match text.parse::<u64>() {
        Ok(number) if number.to_string() == text => json!(number),
        _ => json!(text),
    }
}

fn as_of(text: &str) -> Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |ms| json!(ms))
}

fn predict_body(args: &Predict) -> Value {
    let nodes: Vec<Value> = args.nodes.iter().map(|n| args.key(n)).collect();
    let mut body = json!({ "nodes": nodes, "return": args.wanted });
    add_common(&mut body, args);
    body
}

fn score_body(args: &Predict) -> anyhow::Result<Value> {
    let [user] = args.nodes.as_slice() else {
        bail!(Usage(format!("--score asks about one user; {} were named", args.nodes.len())));
    };
    let mut features = serde_json::Map::new();
    for feature in &args.features {
        let (name, value) =
            feature.split_once('=').ok_or_else(|| Usage(format!("--feature `{feature}` is not NAME=VALUE")))?;
        let value = match value {
            "" | "null" => Value::Null,
            text => json!(text.parse::<f64>().map_err(|_| Usage(format!("--feature `{feature}`: not a number")))?),
        };
        features.insert(name.into(), value);
    }
    let mut body = json!({ "user_id": args.key(user), "features": features });
    add_common(&mut body, args);
    Ok(body)
}

fn add_common(body: &mut Value, args: &Predict) {
    if let Some(model) = &args.model {
        body["model"] = json!(model);
    }
    if let Some(text) = &args.as_of {
        body["as_of"] = as_of(text);
    }
}

fn refusal(answer: &Value, status: u16) -> String {
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    let field = if text("field").is_empty() { String::new() } else { format!(" (at {})", text("field")) };
    format!("{status} {}: {}{field}", text("code"), text("detail"))
}

fn print(answer: &Value, elapsed: Duration) {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::from("-"),
        other => other.to_string(),
    };
    let rows: Vec<&Value> = match answer["results"].as_array() {
        Some(results) => results.iter().collect(),
        None => vec![answer],
    };
    for row in rows {
        let who = if row["node"].is_null() { &row["user_id"] } else { &row["node"] };
        let mut line = format!("{:<14}", text(who));
        if !row["scores"].is_null() {
            line += &format!(" scores {}", row["scores"]);
        }
        if !row["decision"].is_null() {
            line += &format!(" score {} decision {}", text(&row["score"]), text(&row["decision"]));
            let reasons = row["reasons"].as_array().into_iter().flatten().map(text).collect::<Vec<_>>().join("; ");
            line += &format!(" because {}", if reasons.is_empty() { "-" } else { &reasons });
        }
        if let Some(embedding) = row["embedding"].as_array() {
            line += &format!(" embedding of {} numbers", embedding.len());
        }
        println!("{line}");
    }
    let release = format!("{}@{}", text(&answer["model"]), text(&answer["version"]));
    println!(
        "release {release}, graph {}, as of {}, {:.1} ms",
        text(&answer["graph_version"]),
        text(&answer["as_of"]),
        elapsed.as_secs_f64() * 1e3
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_spelling() {
        assert_eq!(key("17"), json!(17));
        assert_eq!(key("017"), json!("017"));
        assert_eq!(key("u-17"), json!("u-17"));
    }

    #[test]
    fn a_refusal_names_code_and_field() {
        let problem = json!({ "code": "unknown-node", "detail": "no such node", "field": "/nodes/0" });
        assert_eq!(refusal(&problem, 404), "404 unknown-node: no such node (at /nodes/0)");
    }
}
