use std::sync::Arc;

use sagehost_types::{GraphVersion, ReleaseId};

use super::*;

fn response(classes: &[&str], scores: Vec<f32>, decision: Option<Decision>) -> InferResponse {
    InferResponse {
        release: ReleaseId { model: "m".into(), version: 1, digest: Digest::of(b"") },
        graph: GraphVersion { lineage: "l".into(), sequence: 0 },
        numerics_id: "cpu".into(),
        as_of_ms: 0,
        classes: classes.iter().map(ToString::to_string).collect::<Arc<[String]>>(),
        results: vec![SeedResult { key: Key::from(1), logits: vec![0.5], scores, embedding: None, decision }],
        timings: Timings::default(),
    }
}

fn scores() -> Want {
    Want { scores: true, ..Want::default() }
}

#[test]
fn scores_are_named_in_the_models_order() {
    let body = predict(&response(&["z", "a"], vec![0.1, 0.2], None), scores(), 1, "r", false).unwrap();
    assert!(String::from_utf8(body).unwrap().contains(r#""scores":{"z":0.1,"a":0.2}"#));
}

#[test]
fn answers_that_lack_something_are_our_fault() {
    let code = |result: Result<Vec<u8>, Fault>| result.unwrap_err().code;
    assert_eq!(code(predict(&response(&["a"], vec![0.1, 0.2], None), scores(), 1, "r", false)), Code::Internal);
    assert_eq!(code(predict(&response(&[], vec![], None), scores(), 2, "r", false)), Code::Internal);
    let want = Want { embeddings: true, ..Want::default() };
    assert_eq!(code(predict(&response(&[], vec![], None), want, 1, "r", false)), Code::Internal);
    assert_eq!(code(score(&response(&[], vec![], None), "r", false)), Code::Internal);
}

#[test]
fn a_decision_without_a_number_is_refused() {
    let decision = Decision { score: f64::NAN, decision: "approve".into(), reasons: vec![], policy: None };
    let fault = score(&response(&[], vec![], Some(decision)), "r", false).unwrap_err();
    assert_eq!(fault.code, Code::NotFinite);
}
