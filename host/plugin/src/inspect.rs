//! What a component is, found out without compiling or running it.

use sagehost_types::Digest;
use wasmparser::{Encoding, Parser, Payload, Validator};

use crate::api::Role;
use crate::error::LoadError;
use crate::limits::MAX_COMPONENT;

/// The WIT package of the contract.
const PACKAGE: &str = "sagehost:plugin";
/// The versions of it that this host runs.
pub(crate) const SUPPORTED: &str = "0.1.x";

/// What a component says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The role that it was built for.
    pub role: Role,
    /// The version of `sagehost:plugin` that it was built against.
    pub wit_version: String,
    /// Names of its imports.
    pub imports: Vec<String>,
    /// Names of its exports.
    pub exports: Vec<String>,
    /// Its size in bytes.
    pub size: usize,
    /// The digest of its bytes.
    pub digest: Digest,
}

/// Reads a component's role, version, imports and exports. Types of functions are compared only when it is compiled.
///
/// # Errors
/// [`LoadError`], except its variants of roles and compiling.
pub fn inspect(bytes: &[u8]) -> Result<Inspection, LoadError> {
    inspect_as(bytes, Digest::of(bytes))
}

pub(crate) fn inspect_as(bytes: &[u8], digest: Digest) -> Result<Inspection, LoadError> {
    check_size(bytes)?;
    let Surface { imports, exports } = read_surface(bytes)?;
    let wit_version = check_versions(imports.iter().chain(&exports))?;
    let role = find_role(&exports)?;
    check_imports(&imports, role)?;
    Ok(Inspection { role, wit_version, imports, exports, size: bytes.len(), digest })
}

pub(crate) fn check_size(bytes: &[u8]) -> Result<(), LoadError> {
    if bytes.len() > MAX_COMPONENT {
        return Err(LoadError::TooLarge { size: bytes.len(), limit: MAX_COMPONENT });
    }
    Ok(())
}

struct Surface {
    imports: Vec<String>,
    exports: Vec<String>,
}

/// The names that the outermost component imports and exports.
fn read_surface(bytes: &[u8]) -> Result<Surface, LoadError> {
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotWasm);
    }
    let damaged = |error: wasmparser::BinaryReaderError| LoadError::Damaged(error.to_string());
    let mut surface = Surface { imports: Vec::new(), exports: Vec::new() };
    let mut depth = 0u32;
    for payload in Parser::new(0).parse_all(bytes) {
        match payload.map_err(damaged)? {
            Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => return Err(LoadError::CoreModule),
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    surface.imports.push(import.map_err(damaged)?.name.name.to_owned());
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    surface.exports.push(export.map_err(damaged)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Validator::new().validate_all(bytes).map_err(damaged)?;
    Ok(surface)
}

/// `interface` and `version` of a name such as `sagehost:plugin/graph@0.1.0`; `None` for other packages.
fn own_interface(name: &str) -> Option<(&str, &str)> {
    let rest = name.strip_prefix(PACKAGE)?.strip_prefix('/')?;
    Some(rest.split_once('@').unwrap_or((rest, "")))
}

/// Refuses versions that this host does not run. Of the others the newest: imports and exports of one build agree, and if
/// not, the newest is what the plugin needs.
fn check_versions<'a>(names: impl Iterator<Item = &'a String>) -> Result<String, LoadError> {
    let mut newest = None;
    for name in names {
        let Some((_, version)) = own_interface(name) else { continue };
        let Some(patch) = supported(version) else {
            return Err(LoadError::UnknownVersion {
                interface: name.clone(),
                found: range(version),
                supported: SUPPORTED,
            });
        };
        newest = newest.max(Some(patch));
    }
    Ok(newest.map_or_else(String::new, |patch| format!("0.1.{patch}")))
}

/// The patch number of a version that this host runs.
fn supported(version: &str) -> Option<u32> {
    version.strip_prefix("0.1.").filter(|patch| patch.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// The range of versions compatible with `version`, as in semantic versioning.
fn range(version: &str) -> String {
    let mut parts = version.splitn(3, '.');
    match (parts.next(), parts.next()) {
        (Some("0"), Some(minor)) => format!("0.{minor}.x"),
        (Some(major), Some(_)) => format!("{major}.x"),
        _ => "without a version".to_owned(),
    }
}

/// The exported interface that makes a role.
fn interface_of(role: Role) -> &'static str {
    match role {
        Role::Sampler => "sampling",
        Role::EdgeWeigher => "weighing",
        Role::Reducer => "reducing",
        Role::PreProcessor => "preparing",
        Role::PostProcessor => "deciding",
    }
}

fn find_role(exports: &[String]) -> Result<Role, LoadError> {
    let own: Vec<&str> = exports.iter().filter_map(|name| own_interface(name)).map(|(name, _)| name).collect();
    let roles: Vec<Role> = Role::ALL.into_iter().filter(|role| own.contains(&interface_of(*role))).collect();
    let problem = match roles.as_slice() {
        [] => "not a plugin of a known world",
        [role] if own.contains(&"configure") => return Ok(*role),
        [_] => "the interface `configure` is missing",
        _ => "the component plays several roles",
    };
    let exports = if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") };
    Err(LoadError::WrongWorld { problem, exports, expected: Role::ALL.map(Role::as_str).join(", ") })
}

fn check_imports(imports: &[String], role: Role) -> Result<(), LoadError> {
    let offered: &[&str] = if role.reads_graph() { &["types", "graph", "log"] } else { &["types", "log"] };
    for import in imports {
        if !own_interface(import).is_some_and(|(name, _)| offered.contains(&name)) {
            let offered = offered.iter().map(|name| format!("{PACKAGE}/{name}")).collect::<Vec<_>>().join(", ");
            return Err(LoadError::MissingImport { import: import.clone(), role, offered });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn versions_and_ranges() {
        for good in ["0.1.0", "0.1.12"] {
            assert!(supported(good).is_some(), "{good}");
        }
        for bad in ["", "0.1", "0.1.", "0.1.0-rc1", "0.10.0", "1.1.0", "0.2.0"] {
            assert!(supported(bad).is_none(), "{bad}");
        }
        let names = ["sagehost:plugin/log@0.1.9", "sagehost:plugin/types@0.1.10", "a:b/c@9.0.0"].map(str::to_owned);
        assert_eq!(check_versions(names.iter()).unwrap(), "0.1.10");
        assert_eq!(range("0.2.3"), "0.2.x");
        assert_eq!(range("1.4.0"), "1.x");
        assert_eq!(range(""), "without a version");
        assert_eq!(own_interface("sagehost:plugin/graph@0.1.0"), Some(("graph", "0.1.0")));
        assert_eq!(own_interface("sagehost:plugins/graph@0.1.0"), None);
        assert_eq!(own_interface("wasi:cli/run@0.2.0"), None);
    }

    #[test]
    fn what_is_not_a_component_is_named() {
        assert_eq!(inspect(b""), Err(LoadError::NotWasm));
        assert_eq!(inspect(b"#!/bin/sh"), Err(LoadError::NotWasm));
        assert_eq!(inspect(b"\0asm\x01\0\0\0"), Err(LoadError::CoreModule));
        assert!(matches!(inspect(b"\0asm\x0d\0"), Err(LoadError::Damaged(_))));
        assert!(matches!(inspect(b"\0asm\x0d\0\x01\0"), Err(LoadError::WrongWorld { .. })));
        let limit = MAX_COMPONENT;
        assert_eq!(inspect(&vec![0; limit + 1]), Err(LoadError::TooLarge { size: limit + 1, limit }));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_refused_and_never_panic(tail in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
            bytes.extend(tail);
            prop_assert!(inspect(&bytes).is_err());
        }
    }
}
