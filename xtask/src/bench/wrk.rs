//! Closed loops by wrk: a fixed number of connections, each asking again as soon as it is answered.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::paths;
use crate::run::output;
use crate::stage::Server;

/// Printed by the scripts' `done` function, see `xtask/bench/report.lua`.
const MARK: &str = "sagehost-bench ";

/// Runs one of the scripts in `xtask/bench`.
///
/// # Errors
/// Where wrk fails, or any request did.
pub(crate) fn run(server: &Server, script: &str, connections: u32, seconds: u32) -> Result<Value> {
    let folder = paths::root().join("xtask/bench");
    let text = output(
        Command::new("wrk")
            // One thread: the server has the other core.
            .args(["-t1", &format!("-c{connections}"), &format!("-d{seconds}s"), "--latency", "-s"])
            .arg(folder.join(script))
            .arg(format!("http://{}", server.address))
            .current_dir(&folder),
    )?;
    let line = text
        .lines()
        .find_map(|l| l.strip_prefix(MARK))
        .with_context(|| format!("no report in wrk's output:\n{text}"))?;
    let report: Value = serde_json::from_str(line)?;
    let number = |name: &str| report[name].as_f64().with_context(|| format!("no {name} in {report}"));
    ensure!(number("errors")? == 0.0, "{} requests failed: {report}", report["errors"]);
    let requests = number("requests")?;
    Ok(json!({
        "requests": requests,
        "requests_per_s": requests / (number("duration_us")? / 1e6),
        "p50_ms": number("p50_us")? / 1e3,
        "p95_ms": number("p95_us")? / 1e3,
        "p99_ms": number("p99_us")? / 1e3,
    }))
}
