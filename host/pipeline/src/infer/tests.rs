use super::*;
use crate::api::{Endpoint, Features, RequestEdge, RequestNode, Seed, Want};
use crate::testing::{SPEC, Toy, ask, edges, graph, key, named, plain};
use sagehost_release::golden::{Example, Golden, GoldenEdge, GoldenGraph, GoldenNode};

const NEW: u64 = 9000;
const POST: &str = "[plugins.post-processor]\nfile = \"plugins/fixture-post-processor.wasm\"\ncall_ms = 60000\n\
                    [decision]\npolicy = \"p\"\n";

fn new(features: Features) -> Seed {
    Seed { key: Key::from(NEW), features }
}

fn node(key: Key) -> RequestNode {
    RequestNode { key, features: named(&[("b", 1.0)]) }
}

fn edge(src: Key, dst: Key) -> RequestEdge {
    RequestEdge { relation: "paid".into(), src, dst, time_ms: Some(1), columns: [].into() }
}

/// A request with a node of its own and one edge into it.
fn with_edge(change: impl FnOnce(&mut RequestEdge)) -> InferRequest {
    let mut edge = edge(key(0), Key::from(NEW));
    change(&mut edge);
    InferRequest { nodes: vec![node(Key::from(NEW))], edges: vec![edge], ..ask(vec![new(Features::Absent)]) }
}

async fn fault(live: &Arc<Live>, request: InferRequest) -> (Code, Option<String>) {
    let fault = infer(Arc::clone(live), request).await.unwrap_err();
    (fault.code, fault.field)
}

#[tokio::test]
async fn faults_name_their_place() {
    let live = Toy::new("").live();
    let score = |seed| InferRequest { endpoint: Endpoint::Score, ..ask(vec![seed]) };
    let owning = |nodes, seed| InferRequest { nodes, ..ask(vec![seed]) };
    let huge = || Seed { features: named(&[("b", f32::MAX), ("a", f32::MAX)]), ..plain(0) };
    let text = || Key::from("text");
    let decide = InferRequest { want: Want { decision: true, ..Want::default() }, ..ask(vec![plain(0)]) };
    let long = "x".repeat(MAX_KEY + 1);
    let cases = [
        (ask(vec![]), Code::InvalidField, "/nodes"),
        (ask(vec![Seed { key: Key::from(long.as_str()), ..plain(0) }]), Code::InvalidField, "/nodes"),
        (ask(vec![plain(0), new(Features::Absent)]), Code::UnknownNode, "/nodes/1"),
        (score(new(Features::Absent)), Code::UnknownNode, "/user_id"),
        (ask(vec![new(named(&[("a", 1.0)]))]), Code::MissingField, "/features/0/b"),
        (score(new(named(&[("a", 1.0)]))), Code::MissingField, "/features/b"),
        (ask(vec![Seed { key: text(), features: named(&[("b", 1.0)]) }]), Code::InvalidField, "/nodes/0"),
        (ask(vec![plain(0), huge()]), Code::NotFinite, "/nodes/1"),
        (score(huge()), Code::NotFinite, "/user_id"),
        (owning(vec![node(key(1))], plain(0)), Code::InvalidField, "/graph/nodes/0/key"),
        (owning(vec![node(text())], plain(0)), Code::InvalidField, "/graph/nodes/0/key"),
        (owning(vec![node(Key::from(NEW)), node(Key::from(NEW))], plain(0)), Code::InvalidField, "/graph/nodes/1"),
        (owning(vec![node(Key::from(NEW))], new(named(&[("b", 2.0)]))), Code::InvalidField, "/features/0"),
        (with_edge(|e| e.relation = "owes".into()), Code::InvalidField, "/graph/edges/0/relation"),
        (with_edge(|e| e.dst = key(1)), Code::InvalidField, "/graph/edges/0/dst"),
        (with_edge(|e| e.src = Key::from(NEW + 1)), Code::InvalidField, "/graph/edges/0/src"),
        (with_edge(|e| e.time_ms = None), Code::MissingField, "/graph/edges/0/time"),
        (with_edge(|e| e.relation = "knows".into()), Code::InvalidField, "/graph/edges/0/time"),
        (with_edge(|e| e.columns = [("x".to_owned(), 1.0)].into()), Code::InvalidField, "/graph/edges/0/columns"),
        (decide, Code::InvalidField, "/return"),
    ];
    for (request, code, field) in cases {
        let asked = format!("{request:?}");
        assert_eq!(fault(&live, request).await, (code, Some(field.to_owned())), "{asked:.300}");
    }
    let late = InferRequest { timeout: Some(Duration::ZERO), ..ask(vec![plain(0)]) };
    assert_eq!(fault(&live, late).await, (Code::DeadlineExceeded, None));
}

#[tokio::test]
async fn what_is_known_of_a_seed_is_not_asked_for_again() {
    let live = Toy::new("").live();
    let logits = async |request: InferRequest| {
        let answer = infer(Arc::clone(&live), request).await.unwrap();
        answer.results.into_iter().map(|result| result.logits).collect::<Vec<_>>()
    };
    let row = live.release.core.binding.row(2).unwrap();
    let same = Seed { features: named(&[("b", row[0]), ("a", row[1])]), ..plain(2) };
    let half = Seed { features: named(&[("a", row[1])]), ..plain(2) };
    let other = Seed { features: named(&[("b", row[0] + 1.0)]), ..plain(2) };
    let request_column = Seed { features: named(&[("mode", 1.0)]), ..plain(2) };
    let rows = logits(ask(vec![plain(2), same, half, request_column, other])).await;
    assert!(rows[..4].iter().all(|row| *row == rows[0]), "{rows:?}");
    assert_ne!(rows[4], rows[0]);

    // The same of a node that the request brings along.
    let mut request = with_edge(|_| {});
    request.seeds.push(new(named(&[("mode", 1.0)])));
    let rows = logits(request).await;
    assert_eq!(rows[0], rows[1]);
    assert_ne!(logits(ask(vec![new(named(&[("b", 1.0)]))])).await[0], rows[0], "its edge counts");
}

#[tokio::test]
async fn an_answer_has_what_was_asked_for_and_names_what_answered() {
    let toy = Toy::new(POST);
    let live = toy.live();
    let want = Want { scores: true, embeddings: true, decision: true };
    let answer = infer(Arc::clone(&live), InferRequest { want, ..ask(vec![plain(0), plain(5)]) }).await.unwrap();
    assert_eq!((answer.as_of_ms, answer.release.to_string()), (19, "toy@1".into()));
    assert!(answer.classes.is_empty(), "the release names none");
    assert_eq!(answer.results.iter().map(|r| r.key.clone()).collect::<Vec<_>>(), [key(0), key(5)]);
    for result in &answer.results {
        let decision = result.decision.as_ref().unwrap();
        assert_eq!((decision.decision.as_str(), decision.policy.as_deref()), ("approve", Some("p@0")));
        assert_eq!(decision.score, f64::from(result.scores[0]));
        assert_eq!((result.logits.len(), result.embedding.as_ref().unwrap().len()), (1, 3));
    }
    assert!(answer.timings.postprocess > Duration::ZERO);
    let plain_answer = infer(live, ask(vec![plain(0)])).await.unwrap();
    assert!(plain_answer.results[0].embedding.is_none() && plain_answer.results[0].decision.is_none());
    assert_eq!(plain_answer.results[0].logits, answer.results[0].logits);
    let metrics = toy.runtime.metrics.render();
    assert!(metrics.contains("sagehost_queue_depth{model=\"toy\"} 0"), "{metrics}");
}

#[test]
fn a_guest_thread_stops_once_nobody_waits() {
    let release = Toy::new("").load();
    let deadline = Instant::now() + Duration::from_secs(600);
    let request = Arc::new(ask(vec![new(named(&[("b", 1.0)]))]));
    let asker = Arc::clone(&request);
    assert!(make_ready(&release, &request, deadline).is_ok());
    drop(asker);
    let fault = make_ready(&release, &request, deadline).map(|_| ()).unwrap_err();
    assert_eq!(fault.code, Code::Cancelled);
}

#[test]
fn golden_examples_decide_whether_a_release_loads() {
    let toy = Toy::new(POST);
    let load = |change: &dyn Fn(&mut Golden)| {
        let mut files = toy.files();
        let node = |place: u64| GoldenNode { key: key(place), features: vec![Some(place as f32), None] };
        let edge =
            |src, dst, time| GoldenEdge { src: key(src), dst: key(dst), time_ms: Some(time), columns: [].into() };
        let example = Example {
            node: key(0),
            as_of_ms: None,
            features: [].into(),
            logits: vec![1e9],
            tolerance: 1e-4,
            decision: None,
            full_neighbourhood: true,
        };
        let graph = GoldenGraph {
            nodes: (0..4).map(node).collect(),
            edges: [("paid".to_owned(), vec![edge(1, 0, 5), edge(2, 1, 4), edge(3, 0, 6)])].into(),
        };
        files.golden = Golden { format: 1, graph, examples: vec![example] };
        change(&mut files.golden);
        LoadedRelease::load(&toy.runtime, files).map(|_| ())
    };
    let refusal = load(&|_| {}).unwrap_err();
    assert!(refusal.contains("golden example 0 (node 100)") && refusal.contains("expected 1000000000"), "{refusal}");
    // It says what it got; that is then what is expected.
    let got =
        |refusal: &str| refusal.split("logit 0 is ").nth(1).unwrap().split(',').next().unwrap().parse::<f32>().unwrap();
    let logit = got(&refusal);
    let right = |golden: &mut Golden| golden.examples[0].logits = vec![logit];
    assert_eq!(load(&right), Ok(()));
    let earlier = load(&|golden| golden.examples[0].as_of_ms = Some(5)).unwrap_err();
    assert_ne!(got(&earlier), logit, "an as-of time hides the later edge");
    let given = load(&|golden| golden.examples[0].features = [("b".to_owned(), Some(9.0))].into()).unwrap_err();
    assert_ne!(got(&given), logit, "given features override the subgraph's");

    let decision = |want: &'static str| {
        move |golden: &mut Golden| {
            golden.examples[0].logits = vec![logit];
            golden.examples[0].decision = Some(want.into());
        }
    };
    assert_eq!(load(&decision("approve")), Ok(()));
    assert!(load(&decision("decline")).unwrap_err().contains("`approve`, expected `decline`"));
    let unknown = load(&|golden| golden.examples[0].node = Key::from(NEW)).unwrap_err();
    assert!(unknown.contains("does not have this node"), "{unknown}");
}

#[test]
fn a_release_that_does_not_fit_its_graph_says_everything_that_is_missing() {
    let spec = SPEC.replace("\"knows\"", "\"owes\"").replace("name = \"a\"", "name = \"age\"");
    let toy = Toy::on(graph(&edges()), &spec);
    let refusal = LoadedRelease::load(&toy.runtime, toy.files()).map(|_| ()).unwrap_err();
    assert!(refusal.contains("feature column `age`") && refusal.contains("relation `owes`"), "{refusal}");
}
