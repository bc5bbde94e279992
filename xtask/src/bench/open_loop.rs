//! Open loop: requests start at fixed times whether or not earlier ones were answered, and latency counts from the time a
//! request was due, so that a stall shows in every request that it delays.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::stage::Server;

/// Connections: enough that one is free whenever a request is due, short of a stall.
const CONNECTIONS: usize = 16;

/// Asks `rate` times a second for some seconds and gives the percentiles.
pub(crate) fn run(server: &Server, rate: f64, seconds: u32) -> Result<Value> {
    let total = (rate * f64::from(seconds)) as usize;
    let (next, times, failures) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(total)), AtomicUsize::new(0));
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..CONNECTIONS {
            scope.spawn(|| {
                let agent = ureq::Agent::new_with_defaults();
                let address = format!("http://{}/v1/graphsage/predict", server.address);
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= total {
                        return;
                    }
                    let due = started + Duration::from_secs_f64(number as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    let body = json!({ "nodes": [1 + number * 7919 % 20_000] });
                    let answer = agent.post(&address).send_json(&body).and_then(|mut a| a.body_mut().read_to_string());
                    if answer.is_err() {
                        failures.fetch_add(1, Ordering::Relaxed);
                    }
                    if let Ok(mut times) = times.lock() {
                        times.push(due.elapsed());
                    }
                }
            });
        }
    });
    let failed = failures.into_inner();
    ensure!(failed == 0, "{failed} of {total} requests failed");
    let mut times = times.into_inner().unwrap_or_default();
    times.sort();
    let at = |q: f64| {
        times.get((times.len() as f64 * q) as usize).map_or(f64::NAN, |t| (t.as_secs_f64() * 1e6).round() / 1e3)
    };
    Ok(json!({ "requests": times.len(), "p50_ms": at(0.5), "p95_ms": at(0.95), "p99_ms": at(0.99) }))
}
