//! Direct dependencies: each resolves to one version, and `docs/dependencies.md` says why each is there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Result, bail};

use crate::paths::{self, Metadata};

/// Checks both workspaces.
///
/// # Errors
/// A list of what is wrong.
pub(crate) fn check() -> Result<()> {
    let page = paths::root().join("docs/dependencies.md");
    let mut faults = Vec::new();
    let text = fs::read_to_string(&page).unwrap_or_else(|error| {
        faults.push(format!("cannot read {}: {error}", page.display()));
        String::new()
    });
    let mut direct = BTreeSet::new();
    for workspace in [paths::root(), paths::root().join("plugins")] {
        let metadata = paths::metadata(&workspace, true)?;
        let names = direct_dependencies(&metadata);
        faults.extend(duplicates(&metadata, &names));
        direct.extend(names);
    }
    faults.extend(unexplained(&direct, &text));
    if faults.is_empty() {
        println!("{} direct dependencies", direct.len());
        return Ok(());
    }
    bail!("\n{}", faults.join("\n"))
}

/// Names of what workspace members depend on from a registry.
fn direct_dependencies(metadata: &Metadata) -> BTreeSet<String> {
    let members: BTreeSet<&String> = metadata.workspace_members.iter().collect();
    let own = metadata.packages.iter().filter(|package| members.contains(&package.id));
    let all = own.flat_map(|package| &package.dependencies);
    all.filter(|dependency| dependency.source.is_some()).map(|dependency| dependency.name.clone()).collect()
}

fn duplicates(metadata: &Metadata, direct: &BTreeSet<String>) -> Vec<String> {
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in &metadata.packages {
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    let twice = versions.into_iter().filter(|(name, versions)| direct.contains(*name) && versions.len() > 1);
    twice
        .map(|(name, versions)| {
            let versions = versions.into_iter().collect::<Vec<_>>().join(" and ");
            format!("`{name}` is a direct dependency and resolves to {versions} (see `cargo tree -i`)")
        })
        .collect()
}

/// The page names a dependency in backticks.
fn unexplained(direct: &BTreeSet<String>, page: &str) -> Vec<String> {
    let named: BTreeSet<&str> = page.split('`').skip(1).step_by(2).collect();
    let missing = direct.iter().filter(|name| !named.contains(name.as_str()));
    missing.map(|name| format!("docs/dependencies.md does not say why `{name}` is there")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        serde_json::from_value(serde_json::json!({
            "packages": [
                { "id": "own", "name": "own", "version": "0.1.0", "targets": [], "dependencies": [
                    { "name": "a", "source": "registry" }, { "name": "sibling", "source": null } ] },
                { "id": "a1", "name": "a", "version": "1.0.0", "targets": [], "dependencies": [
                    { "name": "b", "source": "registry" } ] },
                { "id": "a2", "name": "a", "version": "2.0.0", "targets": [], "dependencies": [] },
                { "id": "b1", "name": "b", "version": "1.0.0", "targets": [], "dependencies": [] },
                { "id": "b2", "name": "b", "version": "2.0.0", "targets": [], "dependencies": [] },
            ],
            "workspace_members": ["own"],
            "target_directory": "/t",
        }))
        .expect("the shape of cargo metadata")
    }

    #[test]
    fn only_what_members_name_is_direct() {
        assert_eq!(direct_dependencies(&metadata()), BTreeSet::from(["a".to_owned()]));
    }

    #[test]
    fn two_versions_of_a_direct_dependency_are_a_fault() {
        let faults = duplicates(&metadata(), &BTreeSet::from(["a".to_owned()]));
        assert_eq!(faults, ["`a` is a direct dependency and resolves to 1.0.0 and 2.0.0 (see `cargo tree -i`)"]);
    }

    #[test]
    fn names_are_looked_for_in_backticks() {
        let direct = BTreeSet::from(["serde".to_owned(), "serde_json".to_owned()]);
        let faults = unexplained(&direct, "| `serde_json` | JSON, over serde |");
        assert_eq!(faults, ["docs/dependencies.md does not say why `serde` is there"]);
    }
}
