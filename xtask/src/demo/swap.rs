//! The swap: requests run while version 2 is put into the repository, and none fails.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::paths;
use crate::stage::{Server, Stage};

/// Connections that ask without pause.
const ASKERS: u64 = 4;

/// One answer, or why there was none.
struct Seen {
    at: Instant,
    version: Result<u64, String>,
}

pub(crate) fn run(stage: &Stage, server: &Server) -> Result<()> {
    let plugins = paths::target()?.join("plugins");
    let (stop, (sender, answers)) = (AtomicBool::new(false), mpsc::channel());
    let mut put_at = Instant::now();
    let packed = std::thread::scope(|scope| {
        for asker in 0..ASKERS {
            let (sender, stop) = (sender.clone(), &stop);
            scope.spawn(move || ask(server, asker, stop, &sender));
        }
        std::thread::sleep(Duration::from_millis(500));
        put_at = Instant::now();
        let packed = stage.pack(2, &plugins);
        let deadline = Instant::now() + Duration::from_secs(20);
        while packed.is_ok() && Instant::now() < deadline && current_version(server) != Some(2) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(Duration::from_millis(500));
        stop.store(true, Ordering::Relaxed);
        packed
    });
    packed?;
    drop(sender);

    let (mut sent, mut failed, mut versions, mut first_new) = (0, Vec::new(), BTreeMap::<u64, usize>::new(), None);
    for seen in answers {
        sent += 1;
        match seen.version {
            Ok(version) => {
                *versions.entry(version).or_default() += 1;
                if version == 2 && first_new.is_none_or(|at| seen.at < at) {
                    first_new = Some(seen.at);
                }
            }
            Err(why) => failed.push(why),
        }
    }
    let counts = versions.iter().map(|(v, n)| format!("{n} from version {v}")).collect::<Vec<_>>().join(", ");
    println!("requests sent {sent}, failed {} ({counts})", failed.len());
    if let Some(at) = first_new {
        println!(
            "answers changed to version 2 {:.0} ms after its folder was begun",
            at.duration_since(put_at).as_secs_f64() * 1e3
        );
    }
    ensure!(failed.is_empty(), "requests failed during the swap, such as: {}", failed[0]);
    ensure!(versions.contains_key(&2), "version 2 did not become live; see GET /admin/releases");
    Ok(())
}

fn ask(server: &Server, asker: u64, stop: &AtomicBool, sender: &mpsc::Sender<Seen>) {
    let agent = ureq::Agent::new_with_defaults();
    let mut number = asker;
    while !stop.load(Ordering::Relaxed) {
        let body = json!({ "user_id": 1 + number % 20_000, "features": { "amount": 120.0 } });
        number += ASKERS;
        let answer = agent.post(format!("http://{}/v1/score", server.address)).send_json(&body);
        let version = match answer.and_then(|mut answer| answer.body_mut().read_json::<Value>()) {
            Ok(answer) => answer["version"].as_u64().ok_or_else(|| format!("no version in {answer}")),
            Err(error) => Err(error.to_string()),
        };
        // The receiver lives as long as the scope.
        let _ = sender.send(Seen { at: Instant::now(), version });
    }
}

fn current_version(server: &Server) -> Option<u64> {
    let mut answer = ureq::get(format!("http://{}/v1/graphsage/health", server.address)).call().ok()?;
    answer.body_mut().read_json::<Value>().ok()?["version"].as_u64()
}
