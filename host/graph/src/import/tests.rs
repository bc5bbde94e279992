use std::fs;

use sagehost_types::Key;

use super::*;
use crate::snapshot::Snapshot;
use crate::view::GraphView;

/// A folder with these files; the first is `graph.toml`.
fn folder(toml: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.toml"), toml).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn import(toml: &str, files: &[(&str, &str)]) -> Result<(tempfile::TempDir, Summary, Snapshot), GraphError> {
    let folder = folder(toml, files);
    let out = folder.path().join("snapshot");
    let summary = build(&folder.path().join("graph.toml"), &out, &mut Silent)?;
    let snapshot = Snapshot::open(out)?;
    Ok((folder, summary, snapshot))
}

fn refused(toml: &str, files: &[(&str, &str)]) -> String {
    import(toml, files).map(|(_, summary, _)| summary).unwrap_err().to_string()
}

const TRANSFERS: &str = r#"
format = 1
key = "u64"

[nodes]
file = "accounts.csv"
id = "account"
features = ["age_days", "balance"]

[[relations]]
name = "received"
file = "transfers.csv"
from = "sender"
to = "receiver"
time = { column = "time", unit = "s" }
weight = "amount"
columns = ["fee"]

[[relations]]
name = "sent"
file = "transfers.csv"
from = "receiver"
to = "sender"
time = { column = "time", unit = "s" }
columns = ["amount"]
"#;
const ACCOUNTS: &str = "account,age_days,balance,city\n30,1.5,\n10,2,3\n20,,NaN\n";

fn accounts() -> String {
    // Each row needs its city.
    ACCOUNTS
        .lines()
        .map(|line| if line.starts_with('a') { format!("{line}\n") } else { format!("{line},x\n") })
        .collect()
}

const TRANSFER_ROWS: &str =
    "sender,receiver,time,amount,fee\n10,20,100.5,2.5,0\n30,20,99,4,1\n10,20,100.5,1,2\n20,10,7,1,0\n";

#[test]
fn two_relations_come_from_one_file() {
    let (_folder, summary, graph) =
        import(TRANSFERS, &[("accounts.csv", &accounts()), ("transfers.csv", TRANSFER_ROWS)]).unwrap();
    assert_eq!((summary.nodes, summary.features, summary.latest_ms), (3, 2, 100_500));
    assert_eq!(summary.relations, [("received".to_owned(), 4), ("sent".to_owned(), 4)]);
    assert!(summary.notes.iter().any(|note| note.ends_with("accounts.csv: nothing uses column city")), "{summary}");
    graph.verify().unwrap();
    assert_eq!(graph.schema().relations[0].columns, ["fee", "amount"]);
    // Dense ids follow the file.
    let (b, a, c) = (0, 1, 2);
    assert_eq!(graph.find(&Key::Int(30)), Some(b));
    assert_eq!(graph.key(c).unwrap(), Key::Int(20));
    let mut rows = [0.0; 6];
    graph.gather(&[b, a, c], &mut rows).unwrap();
    assert_eq!((rows[0], rows[2], rows[3]), (1.5, 2.0, 3.0));
    assert!(rows[1].is_nan() && rows[4].is_nan() && rows[5].is_nan());
    // By time, then line.
    let seen = graph.visible(0, c, i64::MAX).unwrap();
    let edges: Vec<_> = (0..3)
        .map(|p| {
            let edge = seen.first + p;
            let amount = graph.edge_value(0, 1, edge).unwrap();
            (graph.source(0, edge).unwrap(), graph.edge_time(0, edge).unwrap(), amount)
        })
        .collect();
    assert_eq!(edges, [(b, 99_000, 4.0), (a, 100_500, 2.5), (a, 100_500, 1.0)]);
    assert_eq!(graph.weight_prefix(0, seen, 2).unwrap(), 15 << 19);
    assert_eq!(graph.visible(1, a, i64::MAX).unwrap().degree, 2);
    assert!(matches!(graph.weight_prefix(1, seen, 0), Err(GraphError::NotWeighted(_))));
}

#[test]
fn bags_of_words_and_undirected_edges() {
    let toml = r#"
format = 1
key = "string"
[nodes]
file = "nodes.csv"
id = "id"
indices = { column = "words", width = 4 }
[[relations]]
name = "cites"
file = "edges.csv"
header = ["u", "v"]
delimiter = "\t"
from = "u"
to = "v"
symmetric = true
"#;
    let files = [("nodes.csv", "id,words\n\"a, b\",0 3\nc,\nd,3 3\n"), ("edges.csv", "a, b\tc\nc\td\nd\td\n")];
    let (_folder, summary, graph) = import(toml, &files).unwrap();
    assert_eq!(summary.relations, [("cites".to_owned(), 5)]);
    assert_eq!(graph.schema().features, ["f0", "f1", "f2", "f3"]);
    let mut rows = [0.0; 12];
    graph.gather(&[0, 1, 2], &mut rows).unwrap();
    assert_eq!(rows, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let neighbours = |node| {
        let seen = graph.visible(0, node, 0).unwrap();
        (0..u64::from(seen.degree)).map(|p| graph.source(0, seen.first + p).unwrap()).collect::<Vec<_>>()
    };
    // A self-loop is there once.
    assert_eq!((neighbours(0), neighbours(1), neighbours(2)), (vec![1], vec![0, 2], vec![1, 2]));
    assert_eq!(graph.find(&Key::from("a, b")), Some(0));
    let bad = [("nodes.csv", "id,words\na,0 4\n"), files[1]];
    assert!(refused(toml, &bad).ends_with("nodes.csv:2: `4` is no position below the width, 4"));
}

#[test]
fn nodes_may_come_from_edges_and_weights_be_negative() {
    let toml = r#"
format = 1
key = "u64"
[nodes]
from_edges = true
[[relations]]
name = "rated"
file = "ratings.csv"
header = ["rater", "ratee", "rating", "time"]
from = "rater"
to = "ratee"
time = { column = "time", unit = "ms" }
weight = "rating"
"#;
    let (_folder, summary, graph) = import(toml, &[("ratings.csv", "6,2,4,5\n6,5,-2,4\n1,6,1,3\n")]).unwrap();
    assert_eq!((graph.num_nodes(), graph.latest_ms()), (4, 5));
    // By first appearance.
    assert_eq!([6, 2, 5, 1].map(|key| graph.find(&Key::Int(key)).unwrap()), [0, 1, 2, 3]);
    assert!(summary.notes[0].contains("negative"), "{summary}");
    assert!(graph.info().to_string().contains("not for weighted sampling"));
    graph.gather(&[0], &mut []).unwrap();
}

#[test]
fn bad_rows_are_named_by_file_and_line() {
    let bad = |accounts: &str, transfers: &str| {
        let text = refused(TRANSFERS, &[("accounts.csv", accounts), ("transfers.csv", transfers)]);
        text.rsplit_once('/').unwrap().1.to_owned()
    };
    let head = "sender,receiver,time,amount,fee\n";
    let edge = |row: &str| {
        let text = refused(
            TRANSFERS,
            &[("accounts.csv", &accounts()), ("transfers.csv", &format!("{head}10,20,1,1,1\n{row}\n"))],
        );
        text.split_once("transfers.csv:").unwrap().1.to_owned()
    };
    assert!(edge("10,99,1,1,1").starts_with("3: column `receiver`: `99` is not a node: "));
    assert_eq!(edge("x,20,1,1,1"), "3: column `sender`: `x` is no unsigned 64-bit integer (the graph's keys are)");
    assert!(edge("10,20,noon,1,1").starts_with("3: column `time`: `noon` is no time"));
    assert_eq!(edge("10,20,1,,1"), "3: column `amount`: `` is empty: a number is expected");
    assert_eq!(edge("10,20,1,1e99,1"), "3: column `amount`: `1e99` is no finite number of 32 bits");
    assert_eq!(edge("10,20,1,1"), "3: 4 fields: 5 are expected");
    assert_eq!(bad("account,age_days,balance\n1,2,3\n\n1,2,3\n", head), "accounts.csv:4: node `1` is there twice");
    assert_eq!(
        bad("account,age_days,balance\n1,2,inf\n", head),
        "accounts.csv:2: column `balance`: `inf` is no finite number of 32 bits"
    );
    let huge =
        refused(TRANSFERS, &[("accounts.csv", &accounts()), ("transfers.csv", &format!("{head}10,20,1,1e13,1\n"))]);
    assert!(huge.contains("in-edges of node `20` by relation `received` are too large"), "{huge}");
    assert_eq!(
        bad("account,age_days,balance\r\n1,2,3\r\n\r\n2,x,3\r\n", head),
        "accounts.csv:4: column `age_days`: `x` is no number"
    );
    // A failed import leaves nothing.
    let folder = folder(TRANSFERS, &[("accounts.csv", "account,age_days,balance\nx,,\n"), ("transfers.csv", head)]);
    build(&folder.path().join("graph.toml"), &folder.path().join("out"), &mut Silent).unwrap_err();
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
}

#[test]
fn bad_values_are_reported_together_with_their_lines() {
    let toml = r#"format = 2
key = "uuid"
colour = "red"
[nodes]
file = 7
id = ""
features = "age"
[[relations]]
name = "sent"
file = "t.csv"
from = "a"
time = { column = "t", unit = "h", zone = 1 }
symmetric = "yes"
delimiter = "ab"
[[relations]]
nmae = "x"
"#;
    let Err(GraphError::Config { problems, .. }) = import(toml, &[]).map(|_| ()) else { panic!("not refused") };
    let text = problems.join("\n");
    for expected in [
        "line 3: colour: unknown key; known are format, key, nodes, relations",
        "line 1: format: 2 is unknown",
        "line 2: key: `uuid` is unknown: u64 or string",
        "line 5: nodes.file: a string is expected, not an integer",
        "line 6: nodes.id: is empty",
        "line 7: nodes.features: a list of strings is expected, not a string",
        "line 8: relations[0].to: is missing",
        "relations[0].time.unit: `h` is unknown: s or ms",
        "relations[0].time.zone: unknown key",
        "line 13: relations[0].symmetric: true or false is expected, not a string",
        "line 14: relations[0].delimiter: one ASCII character",
        "line 16: relations[1].nmae: unknown key",
        "relations[1].name: is missing",
    ] {
        assert!(text.contains(expected), "{expected}\nin\n{text}");
    }
    let missing = refused("", &[]);
    for key in ["format", "key", "nodes", "relations"] {
        assert!(missing.contains(&format!("{key}: is missing")), "{missing}");
    }
    assert!(refused("format = ", &[]).contains("line 1: not TOML"));
}

#[test]
fn missing_files_and_columns_are_reported_together() {
    let text = refused(TRANSFERS, &[("transfers.csv", "sender,receiver,when,amount\n")]);
    for expected in [
        "line 6: nodes.file: ",
        "line 15: relations[0].time.column: ",
        "has no column `time`, only: sender, receiver, when, amount",
        "relations[0].columns: ",
        "line 24: relations[1].time.column: ",
    ] {
        assert!(text.contains(expected), "{expected}\nin\n{text}");
    }
    let twice = TRANSFERS.replace("\"sent\"", "\"received\"");
    assert!(
        refused(&twice, &[("accounts.csv", &accounts()), ("transfers.csv", TRANSFER_ROWS)]).contains("named twice")
    );
    assert!(
        refused(TRANSFERS, &[("accounts.csv", "account,account\n"), ("transfers.csv", TRANSFER_ROWS)])
            .contains("two columns are named `account`")
    );
}

#[test]
fn progress_is_told() {
    #[derive(Default)]
    struct Stages(Vec<String>, u64);
    impl Progress for Stages {
        fn begin(&mut self, stage: &str, _: u64) {
            self.0.push(stage.to_owned());
        }
        fn advance(&mut self, done: u64) {
            self.1 = self.1.max(done);
        }
        fn end(&mut self) {}
    }
    let rows: String = (0..5000).map(|_| "10,20,1,1,1\n").collect();
    let transfers = format!("sender,receiver,time,amount,fee\n{rows}");
    let folder = folder(TRANSFERS, &[("accounts.csv", &accounts()), ("transfers.csv", &transfers)]);
    let mut stages = Stages::default();
    build(&folder.path().join("graph.toml"), &folder.path().join("out"), &mut stages).unwrap();
    assert_eq!(stages.0, ["nodes", "relation received", "relation sent", "sorting and writing"]);
    assert!(stages.1 > 40_000);
    let error = build(&folder.path().join("graph.toml"), &folder.path().join("out"), &mut Silent).unwrap_err();
    assert!(error.to_string().contains("exists already"));
}
