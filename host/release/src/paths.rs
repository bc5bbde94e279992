//! Which paths a release may hold, and which folders may hold a release.

use std::path::Path;

use sagehost_types::ids::valid_name;

use crate::error::ReleaseError;

/// Longest path of a file inside a release, in bytes.
pub const MAX_PATH: usize = 512;
/// Most components of such a path.
pub const MAX_DEPTH: usize = 8;

/// Why `path` cannot be the path of a file inside a release (or of a release inside a repository), if it cannot.
///
/// Paths are relative, with forward slashes, without `.`, `..` or empty components: what they mean depends on nothing.
#[must_use]
pub fn path_problem(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        return Some("is empty");
    }
    if path.len() > MAX_PATH {
        return Some("is longer than 512 bytes");
    }
    if path.starts_with('/') {
        return Some("is absolute; paths are relative to the folder");
    }
    if path.contains('\\') || path.contains(':') {
        return Some("holds `\\` or `:`; use forward slashes");
    }
    if path.chars().any(char::is_control) {
        return Some("holds a control character");
    }
    if path.split('/').count() > MAX_DEPTH {
        return Some("has more than 8 components");
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some("has a component that is empty, `.` or `..`");
    }
    None
}

/// The version that a folder's name states: a positive decimal number without leading zeros.
#[must_use]
pub fn parse_version(name: &str) -> Option<u64> {
    let plain = !name.starts_with('0') && name.bytes().all(|b| b.is_ascii_digit());
    name.parse().ok().filter(|_| plain)
}

/// The model and version that a release folder's place `<model>/<version>` states.
///
/// # Errors
/// [`ReleaseError::BadName`] where the last two components are not a model's name and a version.
pub fn place_of(folder: &Path) -> Result<(String, u64), ReleaseError> {
    let bad = || ReleaseError::BadName {
        name: folder.display().to_string(),
        expected: "its last two folders must be <model>/<version>, such as mule-risk/1",
    };
    let mut parts = folder.components().rev().map(|c| c.as_os_str().to_str());
    let version = parts.next().flatten().and_then(parse_version).ok_or_else(bad)?;
    let model = parts.next().flatten().filter(|name| valid_name(name)).ok_or_else(bad)?;
    Ok((model.to_string(), version))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn refuses_every_way_out_of_the_folder() {
        let long = "x/".repeat(300) + "x";
        let deep = "x/".repeat(8) + "x";
        for bad in ["", "/etc/passwd", "../x", "a/../../x", "a//b", "a/", "./a", "a\\b", "C:/x", "a\nb", &long, &deep] {
            assert!(path_problem(bad).is_some(), "{bad}");
        }
        for good in ["release.toml", "plugins/a.wasm", "a/b/c/d", "..a", "a..b", "é.json"] {
            assert_eq!(path_problem(good), None, "{good}");
        }
    }

    #[test]
    fn places_are_model_and_version() {
        assert_eq!(place_of(Path::new("/r/mule-risk/12")).unwrap(), ("mule-risk".into(), 12));
        for bad in ["/r/mule-risk/0", "/r/mule-risk/01", "/r/mule-risk/x", "/r/_routes/1", "1", "/r/m/+1"] {
            assert!(place_of(Path::new(bad)).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn an_allowed_path_stays_inside(path in "[a.\\\\/:é ]{0,12}") {
            if path_problem(&path).is_none() {
                let joined = Path::new("/root").join(&path);
                prop_assert!(joined.starts_with("/root"));
                let plain = joined.components().all(|c| !matches!(c, std::path::Component::ParentDir));
                prop_assert!(plain);
                // Written again from its components it is the same: one file has one name.
                let again: Vec<_> = Path::new(&path).components().map(|c| c.as_os_str().to_str().unwrap()).collect();
                prop_assert_eq!(again.join("/"), path);
            }
        }
    }
}
