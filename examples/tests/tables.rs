//! The tables can be imported as they are; the real data where they are here: in `$SAGEHOST_DATA` or `../shared/data`. Nothing
//! is downloaded.

use std::path::Path;

use sagehost_examples::data::Finder;
use sagehost_examples::{ExampleError, bitcoin, cora, transfers};
use sagehost_graph::import::{self, Silent, Summary};

fn finder() -> Finder {
    Finder::offline(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
}

/// The result, or `None` where there are no data: other people's data are not committed.
fn or_skip<T>(result: Result<T, ExampleError>) -> Option<T> {
    match result {
        Err(ExampleError::Missing { what, looked, .. }) => {
            eprintln!("SKIPPED: {what} is not here; looked for {looked:?}");
            None
        }
        other => Some(other.expect("the data that are here are the published ones")),
    }
}

fn columns(path: &Path) -> (Vec<String>, Vec<csv::StringRecord>) {
    let mut reader = csv::Reader::from_path(path).unwrap();
    let names = reader.headers().unwrap().iter().map(String::from).collect();
    (names, reader.records().map(Result::unwrap).collect())
}

fn import(tables: &Path) -> Summary {
    import::build(&tables.join("graph.toml"), &tables.join("snapshot"), &mut Silent).unwrap_or_else(|e| panic!("{e}"))
}

fn relations(summary: &Summary) -> Vec<(&str, u64)> {
    summary.relations.iter().map(|(name, edges)| (name.as_str(), *edges)).collect()
}

#[test]
fn transfers_is_imported() {
    let out = tempfile::tempdir().unwrap();
    transfers::generate(out.path(), transfers::SEED).unwrap();
    let graph = import(out.path());
    assert_eq!((graph.nodes, graph.features), (20_000, 5));
    assert_eq!(relations(&graph), [("received", 200_000), ("sent", 200_000)]);
}

#[test]
fn bitcoin_otc_is_whole() {
    let out = tempfile::tempdir().unwrap();
    let Some(summary) = or_skip(bitcoin::convert(&finder(), out.path())) else { return };
    assert_eq!(summary, bitcoin::Summary { users: 5881, ratings: 35_592 });
    let (names, ratings) = columns(&out.path().join("ratings.csv"));
    assert_eq!(names, ["rater", "ratee", "rating", "time"]);
    assert_eq!(ratings.iter().filter(|r| r[2].starts_with('-')).count(), 3_563);
    let (names, users) = columns(&out.path().join("users.csv"));
    assert_eq!((names, users.len()), (vec!["user".to_owned(), "one".to_owned()], 5881));
    assert_eq!(relations(&import(out.path())), [("rated-by", 35_592), ("rates", 35_592)]);
}

#[test]
fn cora_is_whole() {
    let out = tempfile::tempdir().unwrap();
    let Some(summary) = or_skip(cora::convert(&finder(), out.path())) else { return };
    assert_eq!(summary, cora::Summary { papers: 2708, citations: 5278 });
    let (_, papers) = columns(&out.path().join("nodes.csv"));
    let split = |name: &str| papers.iter().filter(|p| &p[2] == name).count();
    assert_eq!((split("train"), split("val"), split("test")), (140, 500, 1000));
    assert!(papers.iter().flat_map(|p| p[3].split(' ')).all(|word| word.parse::<u32>().unwrap() < 1433));
    let graph = import(out.path());
    assert_eq!((graph.nodes, graph.features), (2708, 1433));
    assert_eq!(relations(&graph), [("cites", 10_556)]);
}
