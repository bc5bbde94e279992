//! `docs/formats.md` promises these values for ever; changing one changes every sample of every deployed release.

use sagehost_types::{Frontier, Key};

use crate::rng::{DrawKey, philox4x32_10};
use crate::sampling::{Strategy, sample};
use crate::testing::RawGraph;
use crate::view::GraphView as _;
use crate::weight::fixed_point;

#[test]
fn the_documented_vectors_hold() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/formats.md");
    let docs = std::fs::read_to_string(&path).unwrap();
    let mut lines = Vec::new();
    for (counter, key) in [([0; 4], [0; 2]), ([u32::MAX; 4], [u32::MAX; 2])] {
        lines.push(format!("philox {counter:08x?} {key:08x?} = {:08x?}", philox4x32_10(counter, key)));
    }
    for key in [Key::Int(0), Key::Int(42), Key::from(""), Key::from("42")] {
        lines.push(format!("key {key:?} = {:016x}", key.hash()));
    }
    let mut draws = DrawKey::new("salt", "received").draws(Key::Int(42).hash(), 1);
    let words: Vec<_> = draws.clone().take(6).collect();
    lines.push(format!("draws salt received 42 hop 1 = {words:08x?}"));
    let bounded: Vec<_> = (0..6).map(|_| draws.below_u32(10)).collect();
    lines.push(format!("draws salt received 42 hop 1 below 10 = {bounded:?}"));
    for weight in [1.0, 0.1, 1e-9] {
        lines.push(format!("weight {weight:?} = {}", fixed_point(weight).unwrap()));
    }
    // Ten edges into the node with key 7, with weights 1 to 10 and times 0 to 9.
    let edges = (0..10).map(|i| (0, 0, 0, i, (i + 1) as f32)).collect();
    let graph = RawGraph { key_type: crate::KeyType::U64, nodes: 1, edges }.build();
    assert_eq!(graph.key(0).unwrap(), Key::Int(7));
    let dst = Frontier { nodes: vec![0], as_of_ms: vec![9] };
    for strategy in [Strategy::Uniform, Strategy::UniformWithReplacement, Strategy::Weighted, Strategy::Latest] {
        for hop in 0..2 {
            let positions = sample(&graph, "salt", 0, hop, &dst, 4, strategy).unwrap().edges;
            lines.push(format!("sample salt paid 7 hop {hop} 4 of 10 {strategy:?} = {positions:?}"));
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let manifest = crate::snapshot::write(&graph, &folder.path().join("g")).unwrap();
    lines.push(format!("lineage = {}", manifest.lineage));
    let header = std::fs::read(folder.path().join("g/relation-0-times.bin")).unwrap();
    lines.push(format!("header = {:02x?}", &header[..40]));
    let missing: Vec<_> = lines.iter().filter(|line| !docs.contains(line.as_str())).map(String::as_str).collect();
    assert!(missing.is_empty(), "{} lacks:\n{}", path.display(), missing.join("\n"));
}
