//! Real requests and what came back, readable at a glance; and how to try it oneself.

use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use sagehost_examples::expected::Expected;
use serde_json::{Value, json};

use crate::stage::{Example, Server, Stage};

/// Asks and prints.
pub(crate) fn show(stage: &Stage, server: &Server) -> Result<()> {
    if stage.example == Example::Cora {
        return classes(server, &[0, 1, 1708, 2000, 2707]);
    }
    let expected = Expected::read(&stage.expected())?;
    let mut users: Vec<(u64, f64)> = expected.nodes.iter().copied().zip(expected.scores.iter().copied()).collect();
    users.sort_by(|a, b| b.1.total_cmp(&a.1));
    // The riskiest two, one in the middle and the safest, as the training script saw them.
    let places = [0, 1, users.len() / 2, users.len().saturating_sub(1)];
    let asked = places.iter().filter_map(|&place| users.get(place)).map(|(user, _)| *user);
    let features = |amount: f64| json!({ "amount": amount });
    let mut requests: Vec<Value> = asked.map(|user| json!({ "user_id": user, "as_of": expected.as_of_ms })).collect();
    if stage.example == Example::Transfers {
        for request in &mut requests {
            request["features"] = features(120.0);
        }
    }
    if let (Example::Transfers, Some((safest, _))) = (stage.example, users.last()) {
        // The rule knows more than the model: an amount limit, a blocklist, and a customer whom nobody knows yet.
        requests.push(json!({ "user_id": safest, "features": features(12_500.0) }));
        requests.push(json!({ "user_id": safest, "features": features(120.0), "device_id": "d-stolen-1" }));
        let stranger = json!({ "age_days": 2.0, "kyc_level": 1.0, "amount": 950.0 });
        requests.push(json!({ "user_id": 900_001, "features": stranger }));
    }
    decisions(server, &requests)
}

fn post(server: &Server, path: &str, body: &Value) -> Result<(Value, f64)> {
    let started = Instant::now();
    let address = format!("http://{}{path}", server.address);
    let mut answer = ureq::post(&address).send_json(body).with_context(|| format!("POST {path} {body}"))?;
    let answer = answer.body_mut().read_json().with_context(|| format!("the answer to {body}"))?;
    Ok((answer, started.elapsed().as_secs_f64() * 1e3))
}

fn decisions(server: &Server, requests: &[Value]) -> Result<()> {
    // An amount is shown where the requests have one.
    let with_amount = requests.iter().any(|request| request["features"]["amount"].is_number());
    let amount = |text: String| if with_amount { format!("{text:>9} ") } else { String::new() };
    let heading = amount("amount".into());
    println!("{:<8} {heading}{:>8} {:<9} {:<13} {:>6}  reasons", "user", "score", "decision", "release", "ms");
    for request in requests {
        let (answer, ms) = post(server, "/v1/score", request)?;
        let reasons = answer["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
        let release = format!("{}@{}", answer["model"].as_str().unwrap_or("?"), answer["version"]);
        println!(
            "{:<8} {}{:>8.1} {:<9} {release:<13} {ms:>6.2}  {}",
            request["user_id"].to_string(),
            amount(request["features"]["amount"].as_f64().map_or_else(|| "?".into(), |sum| format!("{sum:.2}"))),
            answer["score"].as_f64().unwrap_or(f64::NAN),
            answer["decision"].as_str().unwrap_or("?"),
            reasons.join("; ")
        );
    }
    Ok(())
}

fn classes(server: &Server, papers: &[u64]) -> Result<()> {
    println!("{:<8} {:<24} {:>12} {:<10} {:>7}", "paper", "class", "probability", "release", "ms");
    for paper in papers {
        let (answer, ms) = post(server, "/v1/graphsage/predict", &json!({ "nodes": [paper] }))?;
        let scores = answer["results"][0]["scores"].as_object();
        let best = scores.into_iter().flatten().max_by(|a, b| {
            let value = |v: &Value| v.as_f64().unwrap_or(f64::MIN);
            value(a.1).total_cmp(&value(b.1))
        });
        let (class, p) = best.map_or(("?", f64::NAN), |(class, p)| (class.as_str(), p.as_f64().unwrap_or(f64::NAN)));
        println!("{paper:<8} {class:<24} {p:>12.4} {:<10} {ms:>7.2}", format!("cora@{}", answer["version"]));
    }
    Ok(())
}

/// The address and lines to try, which work as they are printed: they name nodes of this example's graph.
pub(crate) fn invitation(stage: &Stage, server: &Server) -> Result<()> {
    let (address, admin) = (&server.address, &server.admin);
    let nodes = Expected::read(&stage.expected())?.nodes;
    let [first, second, ..] = nodes.as_slice() else { bail!("{}: fewer than two nodes", stage.expected().display()) };
    let post = |path: &str, body: &Value| {
        println!("  curl -s http://{address}{path} -H 'content-type: application/json' -d '{body}'");
    };
    println!("\nIt serves at http://{address}; management is at http://{admin}. Try:\n");
    match stage.example {
        Example::Transfers => post("/v1/score", &json!({ "user_id": first, "features": { "amount": 950 } })),
        Example::BitcoinOtc => post("/v1/score", &json!({ "user_id": first })),
        // It has no rule that decides.
        Example::Cora => {}
    }
    post("/v1/graphsage/predict", &json!({ "nodes": [first, second], "return": ["scores"] }));
    println!("  curl -s http://{address}/v1/graphsage/health");
    println!("  curl -s http://{admin}/admin/releases");
    println!("  curl -s http://{admin}/metrics\n");
    let policies = if stage.repository().join("_policies").exists() { ", or change _policies/" } else { "" };
    println!("Its model repository is {}: put another version there{policies}.", stage.repository().display());
    Ok(())
}
