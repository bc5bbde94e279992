//! What is committed beside the training scripts can be packed: every release's settings and golden examples are valid, and
//! the policy document holds values that a policy may hold.

use std::fs;
use std::path::{Path, PathBuf};

use sagehost_release::error::Problems;
use sagehost_release::spec::PluginRole;
use sagehost_release::validate;

const RELEASES: [&str; 4] = [
    "transfers/releases/mule-risk/1",
    "transfers/releases/mule-risk/2",
    "bitcoin-otc/releases/trust-risk/1",
    "cora/releases/cora/1",
];

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn settings_and_golden_examples_are_valid() {
    for release in RELEASES {
        let folder = here(release);
        let text = fs::read_to_string(folder.join("release.toml")).unwrap();
        let spec = validate::parse_spec(release, &text).unwrap_or_else(|e| panic!("{e}"));
        let golden = fs::read(folder.join("golden.json")).unwrap();
        let golden = validate::parse_golden(release, &golden, &spec).unwrap_or_else(|e| panic!("{e}"));
        assert!(golden.examples.len() >= 3, "{release}");
        assert!(fs::metadata(folder.join("weights.safetensors")).unwrap().len() < 1 << 20, "{release}");
    }
}

#[test]
fn the_pre_processor_fills_as_the_schema_does() {
    // Two places say how a missing value is filled: for rows of the graph the schema, for a request's the plugin.
    for version in ["1", "2"] {
        let file = here("transfers/releases/mule-risk").join(version).join("release.toml");
        let spec = validate::parse_spec(version, &fs::read_to_string(&file).unwrap()).unwrap();
        let settings = &spec.plugins[&PluginRole::PreProcessor].settings;
        let names: Vec<&str> = settings["columns"].as_array().unwrap().iter().filter_map(toml::Value::as_str).collect();
        let fills: Vec<f64> = settings["fill"].as_array().unwrap().iter().filter_map(toml::Value::as_float).collect();
        let columns: Vec<&str> = spec.schema.node.iter().chain(&spec.schema.request).map(|c| c.name.as_str()).collect();
        assert_eq!(names, columns);
        for (column, &fill) in spec.schema.node.iter().zip(&fills) {
            assert!(column.fill.is_none_or(|schema| f64::from(schema) == fill), "{}", column.name);
        }
    }
}

#[test]
fn the_policy_is_a_policy() {
    let text = fs::read_to_string(here("transfers/policies/mule-policy.toml")).unwrap();
    let policy: toml::Table = toml::from_str(&text).unwrap();
    assert_eq!(policy.keys().collect::<Vec<_>>(), ["values", "version"]);
    let values = policy["values"].as_table().unwrap().clone().into_iter().collect();
    let mut problems = Problems::default();
    validate::values(&values, "values", &mut problems);
    assert!(problems.is_empty(), "{problems:?}");
}
