use proptest::prelude::*;
use sagehost_types::Frontier;

use super::*;
use crate::memory::MemoryGraph;
use crate::neighbourhood::{Growth, Hop, sample_hops};
use crate::sampling;
use crate::testing::{RawGraph, graphs, graphs_and_frontiers};

fn raw(key_type: KeyType) -> RawGraph {
    let edges = (0..40_u64).map(|i| ((i % 3 == 0) as u32, i % 5, (i * i) % 4, (i as i64 * 7) % 11, (i % 6) as f32));
    RawGraph { key_type, nodes: 5, edges: edges.collect() }
}

/// Writes and opens a snapshot; the folder goes when the guard does.
fn snapshot(graph: &MemoryGraph) -> (tempfile::TempDir, Snapshot) {
    let folder = tempfile::tempdir().unwrap();
    write(graph, &folder.path().join("graph")).unwrap();
    let snapshot = Snapshot::open(folder.path().join("graph")).unwrap();
    (folder, snapshot)
}

/// Everything that a view says.
fn everything(view: &dyn GraphView) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{:?} {} {}\n", view.schema(), view.num_nodes(), view.latest_ms());
    for node in 0..=view.num_nodes() {
        let key = view.key(node);
        let found = key.as_ref().ok().and_then(|key| view.find(key));
        let mut row = vec![0.0; view.schema().features.len()];
        let gathered = view.gather(&[node], &mut row).is_ok();
        writeln!(text, "{key:?} {found:?} {:?} {gathered} {row:?}", view.key_hash(node)).unwrap();
        for relation in 0..=view.schema().relations.len() as u32 {
            for as_of in [TimeMs::MIN, -1, 0, 3, 5, 100, TimeMs::MAX] {
                let visible = view.visible(relation, node, as_of);
                writeln!(text, "{visible:?}").unwrap();
                let Ok(visible) = visible else { continue };
                for position in 0..=visible.degree.min(100) {
                    let edge = visible.first.saturating_add(u64::from(position));
                    let (source, time) = (view.source(relation, edge), view.edge_time(relation, edge));
                    let values = [view.edge_value(relation, 0, edge), view.edge_value(relation, 1, edge)];
                    writeln!(
                        text,
                        "{source:?} {time:?} {values:?} {:?}",
                        view.weight_prefix(relation, visible, position)
                    )
                    .unwrap();
                }
            }
        }
    }
    text
}

/// Samples in every way; errors are fine, panics are not.
fn sample_all(view: &dyn GraphView) -> Vec<Result<Vec<sagehost_types::Block>, GraphError>> {
    let mut seeds = Frontier::default();
    (0..view.num_nodes().min(8)).for_each(|node| seeds.push(node, 5));
    let hop = |fanout| Hop { relations: vec![0], fanout };
    let strategies = [sampling::Strategy::Uniform, sampling::Strategy::Weighted, sampling::Strategy::Latest];
    strategies
        .into_iter()
        .map(|strategy| sample_hops(view, "s", &seeds, &[hop(3), hop(2)], Growth::Resample, strategy))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_snapshot_says_what_the_graph_in_memory_says((raw, dst) in graphs_and_frontiers()) {
        let graph = raw.build();
        let (folder, snapshot) = snapshot(&graph);
        prop_assert_eq!(everything(&snapshot), everything(&graph));
        snapshot.verify().unwrap();
        drop(snapshot);
        let reopened = Snapshot::open(folder.path().join("graph")).unwrap();
        let hops = [Hop { relations: vec![0, 1], fanout: 3 }, Hop { relations: vec![0], fanout: 2 }];
        let draw = |view: &dyn GraphView| {
            sample_hops(view, "salt", &dst, &hops, Growth::Reuse, sampling::Strategy::Uniform).unwrap()
        };
        prop_assert_eq!(draw(&reopened), draw(&graph));
    }

    #[test]
    fn equal_content_has_an_equal_lineage(raw in graphs()) {
        let (_folder, first) = snapshot(&raw.build());
        let (_other, second) = snapshot(&raw.build());
        prop_assert_eq!(first.version(), second.version());
        prop_assert_eq!(first.version().lineage.len(), 16);
        let mut changed = raw.clone();
        changed.edges.push((1, 0, 0, 0, 0.0));
        let (_third, third) = snapshot(&changed.build());
        prop_assert_ne!(first.version(), third.version());
    }
}

#[test]
fn nothing_is_overwritten_and_nothing_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let graph = raw(KeyType::U64).build();
    let dir = folder.path().join("deep/er/graph");
    write(&graph, &dir).unwrap();
    let error = write(&graph, &dir).unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    let left: Vec<_> = std::fs::read_dir(dir.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["graph"]);
    assert!(write(&graph, Path::new("/")).is_err());
}

#[test]
fn a_missing_file_or_another_format_is_a_clear_error() {
    let (folder, snapshot) = snapshot(&raw(KeyType::String).build());
    let dir = folder.path().join("graph");
    for entry in &snapshot.manifest().files {
        let (from, to) = (dir.join(&entry.name), folder.path().join("away"));
        std::fs::rename(&from, &to).unwrap();
        let error = Snapshot::open(&dir).unwrap_err();
        assert!(matches!(&error, GraphError::Io { path, .. } if *path == from), "{error}");
        std::fs::rename(&to, &from).unwrap();
    }
    Snapshot::open(&dir).unwrap();
    // A file of another snapshot, of the same length.
    let (a, b) = (dir.join("relation-0-offsets.bin"), dir.join("relation-1-offsets.bin"));
    std::fs::copy(&a, &b).unwrap();
    let error = Snapshot::open(&dir).unwrap_err().to_string();
    assert!(error.ends_with("relation-1-offsets.bin: the header is of another file of a snapshot"), "{error}");
    let manifest = dir.join(MANIFEST);
    let text = std::fs::read_to_string(&manifest).unwrap();
    let refused = |text: &str| {
        std::fs::write(&manifest, text).unwrap();
        Snapshot::open(&dir).unwrap_err().to_string()
    };
    assert!(refused(&text.replace("\"format\": 1", "\"format\": 2")).contains("snapshot format 2"));
    assert!(refused(&text.replace("\"latest_ms\": 10", "\"latest_ms\": 11")).contains("altered"));
    assert!(refused("{}").contains("not a snapshot's manifest"));
    // Of a later sequence the lineage is not the content's digest: the counts must fit by themselves.
    let later = text.replace("\"sequence\": 0", "\"sequence\": 1");
    assert!(refused(&later.replace("\"num_nodes\": 5", "\"num_nodes\": 6")).contains("do not fit the counts"));
    assert!(refused(&later.replace("key-bytes.bin", "../../key-bytes.bin")).contains("files listed"));
    assert!(refused(&later.replace("\"num_nodes\": 5", "\"num_nodes\": 18446744073709551615")).contains("absurdly"));
}

#[test]
fn truncated_files_are_refused() {
    for key_type in [KeyType::U64, KeyType::String] {
        let (folder, snapshot) = snapshot(&raw(key_type).build());
        let dir = folder.path().join("graph");
        let names: Vec<_> = snapshot.manifest().files.iter().map(|file| file.name.clone()).collect();
        drop(snapshot);
        for name in names.iter().map(String::as_str).chain([MANIFEST]) {
            let path = dir.join(name);
            let whole = std::fs::read(&path).unwrap();
            let longer = [whole.as_slice(), &[0]].concat();
            for part in
                [&whole[..0], &whole[..1], &whole[..63.min(whole.len() - 1)], &whole[..whole.len() - 2], &longer]
            {
                if name == MANIFEST && part.len() > whole.len() {
                    continue;
                }
                std::fs::write(&path, part).unwrap();
                let error = Snapshot::open(&dir).unwrap_err();
                assert!(matches!(&error, GraphError::Damaged { path: at, .. } if *at == path), "{error}");
            }
            std::fs::write(&path, &whole).unwrap();
        }
        Snapshot::open(&dir).unwrap().verify().unwrap();
    }
}

#[test]
fn flipped_bits_are_found_by_verify_and_never_panic() {
    for key_type in [KeyType::U64, KeyType::String] {
        let (folder, snapshot) = snapshot(&raw(key_type).build());
        let dir = folder.path().join("graph");
        let names: Vec<_> = snapshot.manifest().files.iter().map(|file| file.name.clone()).collect();
        drop(snapshot);
        for name in names.iter().map(String::as_str).chain([MANIFEST]) {
            let path = dir.join(name);
            let whole = std::fs::read(&path).unwrap();
            // Every byte of a small file, some of a larger; a low and a high bit, so that values are slightly and wildly off.
            for at in (0..whole.len()).step_by(1 + whole.len() / 150) {
                for bit in [0, 7] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << bit;
                    // A new file: the old one may still be mapped.
                    std::fs::remove_file(&path).unwrap();
                    std::fs::write(&path, bytes).unwrap();
                    let Ok(damaged) = Snapshot::open(&dir) else { continue };
                    assert_ne!(name, MANIFEST, "byte {at}, bit {bit}");
                    everything(&damaged);
                    sample_all(&damaged);
                    assert!(matches!(damaged.verify(), Err(GraphError::Damaged { path: at, .. }) if at == path));
                }
            }
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, &whole).unwrap();
        }
        assert!(sample_all(&Snapshot::open(&dir).unwrap()).iter().all(Result::is_ok));
    }
}

#[test]
fn wild_contents_behind_sound_headers_never_panic() {
    let (folder, snapshot) = snapshot(&raw(KeyType::String).build());
    let dir = folder.path().join("graph");
    let files = snapshot.manifest().files.clone();
    drop(snapshot);
    for entry in &files {
        let path = dir.join(&entry.name);
        let whole = std::fs::read(&path).unwrap();
        for fill in [0x00, 0x01, 0x7f, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[section::HEADER..].fill(fill);
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, bytes).unwrap();
            let damaged = Snapshot::open(&dir).unwrap();
            everything(&damaged);
            sample_all(&damaged);
        }
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, &whole).unwrap();
    }
}

#[test]
fn info_tells_what_there_is() {
    let (_folder, snapshot) = snapshot(&raw(KeyType::String).build());
    let text = snapshot.info().to_string();
    for part in
        ["5, string keys, 2 features", "paid: 26 edges, timed, columns amount, double, weight amount", "knows: 14"]
    {
        assert!(text.contains(part), "{text}");
    }
}
