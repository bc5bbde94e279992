//! Golden examples against the spec that they are for.

use std::collections::BTreeSet;

use sagehost_types::limits::{MAX_REQUEST_EDGES, MAX_REQUEST_NODES, MAX_SEEDS};

use crate::error::{Problems, listed};
use crate::golden::{Example, Golden};
use crate::spec::ReleaseSpec;

pub(super) fn validate(golden: &Golden, spec: &ReleaseSpec) -> Problems {
    let mut problems = Problems::default();
    let p = &mut problems;
    let (nodes, examples) = (&golden.graph.nodes, &golden.examples);
    let edges: usize = golden.graph.edges.values().map(Vec::len).sum();
    for (place, count, limit) in [
        ("graph.nodes", nodes.len(), MAX_REQUEST_NODES),
        ("graph.edges", edges, MAX_REQUEST_EDGES),
        ("examples", examples.len(), MAX_SEEDS),
    ] {
        if count > limit {
            p.add(place, format!("has {count} entries; the limit is {limit}"));
        }
    }
    let width = spec.schema.node.len();
    let columns = listed(spec.schema.node.iter().map(|column| column.name.as_str()));
    let mut keys = BTreeSet::new();
    for (i, node) in nodes.iter().enumerate() {
        if !keys.insert(&node.key) {
            p.add(format!("graph.nodes[{i}].key"), format!("`{}` is listed twice", node.key));
        }
        if node.features.len() != width {
            let message = format!(
                "has {} values; schema.node of release.toml has {width} columns: {columns}",
                node.features.len()
            );
            p.add(format!("graph.nodes[{i}].features"), message);
        }
        if node.features.iter().flatten().any(|value| !value.is_finite()) {
            p.add(format!("graph.nodes[{i}].features"), "must be finite numbers or null");
        }
    }
    let relations: BTreeSet<&str> =
        spec.model.layers.iter().flat_map(|l| &l.convs).map(|c| c.relation.as_str()).collect();
    for (relation, list) in &golden.graph.edges {
        if !relations.contains(relation.as_str()) {
            let read = listed(relations.iter().copied());
            let message = format!("is a relation that the model does not read; the convs of release.toml read {read}");
            p.add(format!("graph.edges.{relation}"), message);
        }
        for (i, edge) in list.iter().enumerate() {
            for (end, key) in [("src", &edge.src), ("dst", &edge.dst)] {
                if !keys.contains(key) {
                    p.add(format!("graph.edges.{relation}[{i}].{end}"), format!("`{key}` is not in graph.nodes"));
                }
            }
        }
    }
    for (i, example) in examples.iter().enumerate() {
        if !keys.contains(&example.node) {
            p.add(format!("examples[{i}].node"), format!("`{}` is not in graph.nodes", example.node));
        }
        check_example(example, &format!("examples[{i}]"), spec, p);
    }
    problems
}

fn check_example(example: &Example, place: &str, spec: &ReleaseSpec, p: &mut Problems) {
    let known = |name: &String| spec.schema.node.iter().chain(&spec.schema.request).any(|c| c.name == *name);
    for name in example.features.keys().filter(|name| !known(name)) {
        let columns = listed(spec.schema.node.iter().chain(&spec.schema.request).map(|column| column.name.as_str()));
        p.add(format!("{place}.features.{name}"), format!("is no column of release.toml, whose columns are {columns}"));
    }
    let classes = spec.model.classes.len();
    if example.logits.is_empty() || (classes > 0 && example.logits.len() != classes) {
        let expected = if classes > 0 { classes.to_string() } else { "at least 1".into() };
        p.add(format!("{place}.logits"), format!("has {} values; expected {expected}", example.logits.len()));
    }
    if example.logits.iter().any(|value| !value.is_finite()) {
        p.add(format!("{place}.logits"), "must be finite numbers");
    }
    if !(example.tolerance.is_finite() && example.tolerance >= 0.0) {
        p.add(format!("{place}.tolerance"), "must be a finite number, not below 0");
    }
}
