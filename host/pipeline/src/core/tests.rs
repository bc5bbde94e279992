use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sagehost_types::Key;

use super::*;
use crate::api::{Features, InferRequest, RequestEdge, RequestNode, Seed, Want};
use crate::ready::make_ready;
use crate::release::LoadedRelease;
use crate::testing::{NODES, PAID, SPEC, Toy, ask, edges, graph, key, named, plain};

/// A request with known seeds, of which some override their features, and perhaps a node and edges of its own.
fn requests() -> impl proptest::strategy::Strategy<Value = InferRequest> {
    let seed = (0..NODES, option::weighted(0.3, 0_u8..3)).prop_map(|(place, b)| Seed {
        features: b.map_or(Features::Absent, |b| named(&[("b", f32::from(b))])),
        ..plain(place)
    });
    // Two requests may bring different nodes under one key.
    let own = (0_u64..2, 0_u8..3, vec((0..NODES + 1, -1_i64..22, 0_u8..4), 0..5));
    (vec(seed, 1..4), option::of(-1_i64..22), option::weighted(0.4, own)).prop_map(|(seeds, as_of_ms, own)| {
        let want = Want { decision: false, ..Want::default() };
        let mut request = InferRequest { as_of_ms, want, ..ask(seeds) };
        if let Some((number, b, edges)) = own {
            let new = Key::from(9000 + number);
            request.nodes.push(RequestNode { key: new.clone(), features: named(&[("b", f32::from(b))]) });
            request.seeds.push(Seed { key: new.clone(), features: Features::Absent });
            let edge = |(src, time, amount): (u64, i64, u8)| RequestEdge {
                relation: "paid".into(),
                src: if src == NODES { new.clone() } else { key(src) },
                dst: new.clone(),
                time_ms: Some(time),
                columns: [("amount".to_owned(), f32::from(amount))].into(),
            };
            request.edges = edges.into_iter().map(edge).collect();
        }
        request
    })
}

fn job(release: &LoadedRelease, request: &InferRequest) -> Job {
    let request = Arc::new(request.clone());
    let _asker = Arc::clone(&request);
    let job = make_ready(release, &request, Instant::now() + Duration::from_secs(600)).unwrap().job;
    Job { evidence: true, ..job }
}

/// Everything that a job was answered, floats as their bits.
fn bits(answer: &Result<JobResult, Fault>) -> String {
    let bits = |values: &[f32]| values.iter().map(|v| format!("{:08x}", v.to_bits())).collect::<String>();
    match answer {
        Ok(result) => {
            let seed = |s: &SeedOutcome| {
                let values = [&s.logits, &s.scores, &s.embedding].map(|values| bits(values));
                format!("{values:?} {:?}\n", s.evidence)
            };
            result.seeds.iter().map(seed).collect()
        }
        Err(fault) => fault.to_string(),
    }
}

/// Jobs of `release` in random batches against each of them alone on `oracle`.
fn batched_is_as_alone(release: &LoadedRelease, oracle: &LoadedRelease, cases: u32) {
    TestRunner::new(Config::with_cases(cases))
        .run(&vec(requests(), 1..6), |requests| {
            let together: Vec<Job> = requests.iter().map(|request| job(release, request)).collect();
            for (request, batched) in requests.iter().zip(release.core.execute(&together)) {
                let alone = oracle.core.execute(&[job(oracle, request)]);
                prop_assert!(batched.is_ok(), "{:?}", batched);
                prop_assert_eq!(bits(&alone[0]), bits(&batched));
            }
            Ok(())
        })
        .unwrap();
}

/// The toy release without its unweighted relation, sampled by weight.
fn weighted() -> String {
    let spec = SPEC.replace("[limits]", "growth = \"resample\"\nstrategy = \"weighted\"\n[limits]");
    spec.lines().filter(|line| !line.contains("knows")).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_request_gets_the_same_bits_alone_and_in_any_batch() {
    let release = Toy::new("").load();
    batched_is_as_alone(&release, &release, 96);
    let release = Toy::on(graph(&edges()), &weighted()).load();
    batched_is_as_alone(&release, &release, 48);
}

#[test]
fn plugins_that_read_the_graph_see_one_present_at_a_time() {
    let sampler = "[plugins.sampler]\nfile = \"plugins/latest-sampler.wasm\"\ncall_ms = 60000\n";
    let weigher = "[plugins.edge-weigher]\nfile = \"plugins/trust-weigher.wasm\"\ncall_ms = 60000\n\
                   settings = { half_life_days = 1 }\n";
    let spec = SPEC.replace("aggregator = \"mean\"", "aggregator = \"weigher\"");
    let release = Toy::on(graph(&edges()), &format!("{spec}{sampler}{weigher}")).load();
    // What this plugin draws is what the native sampler draws, whatever times meet in a batch.
    let native = spec.replace("[limits]", "strategy = \"latest\"\n[limits]");
    let native = Toy::on(graph(&edges()), &format!("{native}{weigher}")).load();
    batched_is_as_alone(&release, &native, 16);

    let plugins = &release.core.shared.plugins;
    let calls = || plugins.sampler.as_ref().unwrap().stats().calls;
    let before = calls();
    let at = |as_of| job(&release, &InferRequest { as_of_ms: Some(as_of), ..ask(vec![plain(1)]) });
    assert!(release.core.execute(&[at(3), at(7), at(3)]).iter().all(Result::is_ok));
    assert_eq!(calls() - before, 2, "a call for each time, whose jobs share it");
}

#[test]
fn what_is_later_than_the_as_of_time_does_not_exist() {
    let all = Toy::new("").load();
    for as_of in [-1, 0, 7, 13, 19] {
        let past: Vec<_> = edges().into_iter().filter(|e| e.0 != PAID || e.3 <= as_of).collect();
        let past = Toy::on(graph(&past), SPEC).load();
        for place in 0..NODES {
            let request = InferRequest { as_of_ms: Some(as_of), ..ask(vec![plain(place)]) };
            let answer = |release: &LoadedRelease| bits(&release.core.execute(&[job(release, &request)])[0]);
            assert_eq!(answer(&all), answer(&past), "node {place} as of {as_of}");
        }
    }
}

#[test]
fn a_fault_costs_only_the_job_that_has_it() {
    let release = Toy::on(graph(&edges()), &weighted()).load();
    let new = Key::from(9000);
    let edge = |amount: f32| RequestEdge {
        relation: "paid".into(),
        src: key(1),
        dst: new.clone(),
        time_ms: Some(1),
        columns: [("amount".to_owned(), amount)].into(),
    };
    let mut bad = ask(vec![Seed { key: new.clone(), features: Features::Absent }]);
    bad.nodes = vec![RequestNode { key: new.clone(), features: named(&[("b", 1.0)]) }];
    // More edges than the fan-out, so that weights are looked at; one is negative.
    bad.edges = vec![edge(1.0), edge(2.0), edge(3.0), edge(-1.0)];
    let mut late = job(&release, &ask(vec![plain(3)]));
    late.deadline = Instant::now();
    let good = [ask(vec![plain(1)]), ask(vec![plain(2), plain(2)])];
    let jobs = [job(&release, &good[0]), job(&release, &bad), late, job(&release, &good[1])];
    let answers = release.core.execute(&jobs);
    assert_eq!(answers[1].as_ref().map(|_| ()).unwrap_err().code, Code::InvalidField);
    assert_eq!(answers[2].as_ref().map(|_| ()).unwrap_err().code, Code::DeadlineExceeded);
    for (place, request) in [(0, &good[0]), (3, &good[1])] {
        assert_eq!(bits(&answers[place]), bits(&release.core.execute(&[job(&release, request)])[0]));
        assert!(answers[place].is_ok());
    }
}

#[test]
fn equal_seeds_are_computed_once() {
    let release = Toy::new("").load();
    let over = |b: f32| Seed { features: named(&[("b", b)]), ..plain(4) };
    let later = InferRequest { as_of_ms: Some(3), ..ask(vec![plain(4)]) };
    let requests = [ask(vec![plain(4), plain(4), over(1.0), over(2.0)]), ask(vec![over(1.0), plain(4)]), later];
    let jobs: Vec<Job> = requests.iter().map(|request| job(&release, request)).collect();
    let prepared = release.core.prepare(&jobs.iter().collect::<Vec<_>>()).unwrap();
    assert_eq!(prepared.places, [vec![0, 0, 1, 2], vec![1, 0], vec![3]]);
    assert_eq!(prepared.seeds.len(), 4, "node, as-of time and features");
}
