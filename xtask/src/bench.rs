//! `cargo xtask bench NAME`: speed, measured from outside with a load tool, written to `target/bench/NAME.json`.

mod open_loop;
mod stages;
mod wrk;

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::paths;
use crate::run::{on_path, output, step};
use crate::stage::{Example, Server, Stage};

/// Measure, print a table and write `target/bench/NAME.json`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// What to measure.
    #[arg(value_enum)]
    name: Name,
    /// Seconds for each figure.
    #[arg(long, default_value_t = 8)]
    seconds: u32,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Name {
    /// The demo server over HTTP: requests/s and latencies at 1, 8 and 64 connections, and what each stage costs.
    Predict,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match args.name {
        Name::Predict => predict(args.seconds),
    }
}

/// Not the demo's, which may be running.
const PORT: u16 = 8090;

const CONNECTIONS: [u32; 3] = [1, 8, 64];

/// The kinds of request, and the floor: a page that does nothing, on the same server over the same connections.
const KINDS: [(&str, &str, &str); 3] = [
    ("floor", "GET /livez", "floor.lua"),
    ("predict", "POST /v1/graphsage/predict, one node, scores", "predict.lua"),
    ("score", "POST /v1/score, with pre- and post-processor", "score.lua"),
];

fn predict(seconds: u32) -> Result<()> {
    if !on_path("wrk") {
        bail!("wrk is not installed: run `cargo xtask setup`, or `apt-get install wrk`");
    }
    let mut stage = Stage::set(Example::Transfers, PORT)?;
    let server = step("Serve", || stage.serve("cpu"))?;
    let mut figures = Vec::new();
    step("Warm up", || wrk::run(&server, "predict.lua", 8, 2).map(drop))?;
    for (kind, what, script) in KINDS {
        step(&format!("{kind}: {what}"), || {
            for connections in CONNECTIONS {
                figures.push(measure(&server, kind, script, connections, seconds)?);
            }
            Ok(())
        })?;
    }
    let capacity = figure(&figures, "predict", 8)["requests_per_s"].as_f64().unwrap_or(0.0);
    let open = step("Open loop at half of capacity, twice: the second run is the noise", || {
        let runs = [1, 2].map(|_| open_loop::run(&server, capacity / 2.0, seconds));
        let [first, second] = runs;
        Ok(json!({ "rate": capacity / 2.0, "first": first?, "again": second? }))
    })?;
    print_table(&figures);
    println!("open loop at {:.0}/s: {}", capacity / 2.0, open);
    write("predict", &json!({ "machine": machine()?, "seconds": seconds, "closed_loop": figures, "open_loop": open }))
}

/// One figure, with the in-process cost of each stage over the same requests beside it.
fn measure(server: &Server, kind: &str, script: &str, connections: u32, seconds: u32) -> Result<Value> {
    let before = stages::read(server)?;
    let mut figure = wrk::run(server, script, connections, seconds)?;
    let stages = stages::read(server)?.since(&before);
    figure["kind"] = json!(kind);
    figure["connections"] = json!(connections);
    figure["stages_us"] = stages.mean_us();
    Ok(figure)
}

fn figure<'a>(figures: &'a [Value], kind: &str, connections: u32) -> &'a Value {
    figures.iter().find(|f| f["kind"] == kind && f["connections"] == connections).unwrap_or(&Value::Null)
}

fn print_table(figures: &[Value]) {
    println!(
        "\n{:<8} {:>5} {:>11} {:>9} {:>9} {:>9} {:>9}",
        "kind", "conn", "requests/s", "of floor", "P50 ms", "P95 ms", "P99 ms"
    );
    for f in figures {
        let number = |name: &str| f[name].as_f64().unwrap_or(f64::NAN);
        let connections = f["connections"].as_u64().unwrap_or(0);
        let floor = figures.iter().find(|g| g["kind"] == "floor" && g["connections"] == connections);
        let share = number("requests_per_s") / floor.and_then(|g| g["requests_per_s"].as_f64()).unwrap_or(f64::NAN);
        println!(
            "{:<8} {connections:>5} {:>11.0} {:>8.0}% {:>9.3} {:>9.3} {:>9.3}",
            f["kind"].as_str().unwrap_or("?"),
            number("requests_per_s"),
            share * 100.0,
            number("p50_ms"),
            number("p95_ms"),
            number("p99_ms")
        );
    }
    println!("\nmean cost of each stage, µs (sample, gather and dense are of the batch that a request was in):");
    for f in figures.iter().filter(|f| f["kind"] != "floor") {
        println!("{:<8} {:>5} {}", f["kind"].as_str().unwrap_or("?"), f["connections"], f["stages_us"]);
    }
}

/// What it was measured on.
fn machine() -> Result<Value> {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|l| l.strip_prefix("model name"))
        .map(|l| l.trim_start_matches([' ', '\t', ':']).to_string());
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let commit = output(Command::new("git").args(["rev-parse", "--short", "HEAD"]).current_dir(paths::root()))
        .unwrap_or_default();
    Ok(json!({ "cpu": model, "cores": cores, "commit": commit.trim() }))
}

fn write(name: &str, value: &Value) -> Result<()> {
    let folder = paths::target()?.join("bench");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let path = folder.join(format!("{name}.json"));
    std::fs::write(&path, serde_json::to_string_pretty(value)?).with_context(|| path.display().to_string())?;
    println!("written to {}", path.display());
    Ok(())
}
