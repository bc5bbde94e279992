//! `docs/http.md` against the code.

use std::fmt::Write as _;

use sagehost_types::{Code, limits};

use crate::json::MAX_DEPTH;
use crate::request::{GRAPH, GRAPH_EDGE, GRAPH_NODE, MAX_ENTITIES, MAX_TIMEOUT_MS, PREDICT, RETURN, SCORE};
use crate::settings::Settings;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/http.md");
const BEGIN: &str = "<!-- error codes: made from host/types/src/fault.rs by SAGEHOST_UPDATE_DOCS=1 cargo test --release -p sagehost-gateway -->\n";
const END: &str = "<!-- end of error codes -->";

fn codes() -> String {
    let mut text = String::from("| code | HTTP | gRPC | title |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let _ = writeln!(text, "| `{code}` | {} | {} | {} |", code.http(), code.grpc(), code.title());
    }
    text
}

#[test]
fn the_table_of_codes_is_the_codes() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the table's beginning");
    let (there, after) = rest.split_once(END).expect("the page has the table's end");
    if std::env::var_os("SAGEHOST_UPDATE_DOCS").is_some() {
        std::fs::write(PATH, format!("{before}{BEGIN}{}{END}{after}", codes())).unwrap();
        return;
    }
    assert_eq!(there, codes(), "docs/http.md is out of date: SAGEHOST_UPDATE_DOCS=1 makes its table anew");
}

/// The text from one heading to the next of the same or a higher level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n{heading}\n")).expect("the page has the heading");
    rest.split("\n## ").next().unwrap_or(rest)
}

#[test]
fn every_field_and_limit_is_documented() {
    let page = std::fs::read_to_string(PATH).unwrap();
    let graph = [GRAPH, GRAPH_NODE, GRAPH_EDGE].concat();
    for (heading, names) in [
        ("## `POST /v1/graphsage/predict`", &[PREDICT, RETURN].concat()),
        ("## `POST /v1/score`", &SCORE.to_vec()),
        ("### Graph", &graph),
    ] {
        for name in names {
            assert!(section(&page, heading).contains(&format!("`{name}`")), "{heading} says nothing of {name}");
        }
    }
    for (what, text) in [
        ("seeds", format!("1 to {}.", limits::MAX_SEEDS)),
        ("nodes", format!("At most {} entries with `key`", limits::MAX_REQUEST_NODES)),
        ("edges", format!("At most {} entries: `relation`", limits::MAX_REQUEST_EDGES)),
        ("entities", format!("at most {MAX_ENTITIES}, strings")),
        ("timeout", format!("1 to {MAX_TIMEOUT_MS};")),
        ("depth", format!("Nesting goes {MAX_DEPTH} deep")),
        ("body", format!("{} MiB by default", Settings::default().max_body >> 20)),
        ("request id", format!("1 to {} letters", crate::ids::MAX_REQUEST_ID)),
    ] {
        assert!(page.contains(&text), "the limit of {what} is not there: {text}");
    }
}
