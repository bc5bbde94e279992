//! The last documents that a source gave, kept on disk, so that a start without etcd serves what served before.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::documents::{Body, Documents};

const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    format: u32,
    revision: i64,
    /// Name → (JSON value, revision of the document).
    documents: BTreeMap<String, (serde_json::Value, i64)>,
}

/// Writes the documents: to a file beside it first, synced, then renamed over it, so that it is always whole.
pub(crate) fn save(path: &Path, documents: &Documents) -> io::Result<()> {
    let saved = Saved { format: FORMAT, revision: documents.revision, documents: documents.to_json()? };
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut staging = path.as_os_str().to_owned();
    staging.push(".new");
    let mut file = File::create(&staging)?;
    file.write_all(&serde_json::to_vec(&saved)?)?;
    file.sync_all()?;
    fs::rename(&staging, path)?;
    File::open(folder)?.sync_all()
}

/// Reads them; `None` where there is no file yet.
pub(crate) fn load(path: &Path) -> io::Result<Option<Documents>> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let saved: Saved = serde_json::from_slice(&bytes)?;
    if saved.format != FORMAT {
        return Err(io::Error::other(format!("format {} is not known; this sagehost reads {FORMAT}", saved.format)));
    }
    let mut documents = Documents { revision: saved.revision, ..Documents::default() };
    for (name, (value, revision)) in &saved.documents {
        documents.put(name, Body::Json(&serde_json::to_vec(value)?), *revision);
    }
    Ok(Some(documents))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state/last-good.json");
        assert_eq!(load(&path).unwrap(), None);
        let mut documents = Documents { revision: 7, ..Documents::default() };
        documents.put("releases/m/2", Body::Json(br#"{"path":"x/y","author":"ann"}"#), 6);
        documents.put("routes/score", Body::Json(br#"{"model":"m","version":2}"#), 0);
        documents.put("policies/p", Body::Json(br#"{"version":3,"values":{"a":1.0,"b":1,"c":["x"],"d":0.1}}"#), 0);
        save(&path, &documents).unwrap();
        save(&path, &documents).unwrap();
        assert_eq!(load(&path).unwrap(), Some(documents));
        fs::write(&path, "{\"format\":").unwrap();
        assert!(load(&path).is_err());
        fs::write(&path, r#"{"format":2,"revision":1,"documents":{}}"#).unwrap();
        assert!(load(&path).unwrap_err().to_string().contains("format 2"));
    }
}
