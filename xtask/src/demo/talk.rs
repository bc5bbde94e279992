//! Real requests and what came back, readable at a glance; and how to try it oneself.

use std::time::Instant;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::stage::{Example, Server, Stage};

/// Asks and prints.
pub(crate) fn show(stage: &Stage, server: &Server) -> Result<()> {
    match stage.example {
        Example::Transfers => decisions(server, &[17, 4711, 12_345, 19_000, 101], &[120.0, 9_500.0]),
        Example::BitcoinOtc => decisions(server, &[1, 35, 2028, 3744, 4172], &[0.0]),
        Example::Cora => classes(server, &[0, 1, 1708, 2000, 2707]),
    }
}

fn post(server: &Server, path: &str, body: &Value) -> Result<(Value, f64)> {
    let started = Instant::now();
    let address = format!("http://{}{path}", server.address);
    let mut answer = ureq::post(&address).send_json(body).with_context(|| format!("POST {path} {body}"))?;
    let answer = answer.body_mut().read_json().with_context(|| format!("the answer to {body}"))?;
    Ok((answer, started.elapsed().as_secs_f64() * 1e3))
}

fn decisions(server: &Server, users: &[u64], amounts: &[f64]) -> Result<()> {
    println!("{:<8} {:>9} {:>9} {:<9} {:<14} {:>7}  reasons", "user", "amount", "score", "decision", "release", "ms");
    for user in users {
        for amount in amounts {
            let features = if *amount > 0.0 { json!({ "amount": amount }) } else { json!({}) };
            let (answer, ms) = post(server, "/v1/score", &json!({ "user_id": user, "features": features }))?;
            let reasons =
                answer["reasons"].as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>();
            let release = format!("{}@{}", answer["model"].as_str().unwrap_or("?"), answer["version"]);
            println!(
                "{user:<8} {amount:>9.2} {:>9.4} {:<9} {release:<14} {ms:>7.2}  {}",
                answer["score"].as_f64().unwrap_or(f64::NAN),
                answer["decision"].as_str().unwrap_or("?"),
                reasons.join("; ")
            );
        }
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

/// The address and lines to try.
pub(crate) fn invitation(stage: &Stage, server: &Server) {
    let (address, admin) = (&server.address, &server.admin);
    let ask = match stage.example {
        Example::Transfers => format!(
            "curl -s http://{address}/v1/score -H 'content-type: application/json' -d '{{\"user_id\": 17, \"features\": {{\"amount\": 950}}}}'"
        ),
        Example::BitcoinOtc => {
            format!("curl -s http://{address}/v1/score -H 'content-type: application/json' -d '{{\"user_id\": 35}}'")
        }
        Example::Cora => format!("curl -s http://{address}/v1/graphsage/health"),
    };
    println!("\nIt serves at http://{address}; management is at http://{admin}. Try:\n");
    println!("  {ask}");
    println!(
        "  curl -s http://{address}/v1/graphsage/predict -H 'content-type: application/json' -d '{{\"nodes\": [17, 101], \"return\": [\"scores\"]}}'"
    );
    println!("  curl -s http://{admin}/admin/releases");
    println!("  curl -s http://{admin}/metrics\n");
    println!(
        "Its model repository is {}: put another version there, or change _policies/.",
        stage.repository().display()
    );
}
