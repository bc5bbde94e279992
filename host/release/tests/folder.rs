//! Packing, copying, damaging and reading release folders on a real file system.

use std::fs;
use std::path::{Path, PathBuf};

use sagehost_release::manifest::MANIFEST_FILE;
use sagehost_release::{FolderState, Incomplete, Manifest, ReleaseError, check, inspect, pack};

const SPEC: &str = r#"
format = 1
kind = "graphsage"
graph = "g"
schema = { node = [{ name = "x" }] }
plugins = { sampler = { file = "plugins/s.wasm" } }
sampling = { hops = [{ fanout = 2 }] }
model = { layers = [{ convs = [{ relation = "r", aggregator = "mean", weights = "c" }] }] }
"#;

struct Fixture {
    folder: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Self { folder };
        fs::create_dir_all(fixture.source()).unwrap();
        fs::create_dir_all(fixture.plugins()).unwrap();
        fs::write(fixture.source().join("release.toml"), SPEC).unwrap();
        fs::write(fixture.source().join("weights.safetensors"), vec![7; 3000]).unwrap();
        fs::write(
            fixture.source().join("golden.json"),
            r#"{"format":1,"graph":{"nodes":[],"edges":{}},"examples":[]}"#,
        )
        .unwrap();
        fs::write(fixture.source().join("train.py"), "not part of a release").unwrap();
        fs::write(fixture.plugins().join("s.wasm"), "component").unwrap();
        fixture
    }

    fn source(&self) -> PathBuf {
        self.folder.path().join("source")
    }

    fn plugins(&self) -> PathBuf {
        self.folder.path().join("built")
    }

    fn repository(&self) -> PathBuf {
        self.folder.path().join("repository")
    }

    fn pack(&self, version: u64) -> Result<PathBuf, ReleaseError> {
        pack(&self.source(), &self.repository(), "m", version, &[self.plugins()], None)?;
        Ok(self.repository().join("m").join(version.to_string()))
    }
}

fn incomplete(folder: &Path) -> Incomplete {
    match inspect(folder, "m", 1) {
        FolderState::Incomplete(reason) => reason,
        other => panic!("{other:?}"),
    }
}

fn invalid(folder: &Path) -> String {
    match inspect(folder, "m", 1) {
        FolderState::Invalid(reason) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn packing_is_deterministic_idempotent_and_never_overwrites() {
    let fixture = Fixture::new();
    let folder = fixture.pack(1).unwrap();
    let manifest = fs::read(folder.join(MANIFEST_FILE)).unwrap();
    let again = pack(&fixture.source(), &fixture.repository(), "m", 1, &[fixture.plugins()], None).unwrap();
    assert!(!again.fresh, "an equal release is there already");
    let other = pack(&fixture.source(), &fixture.repository(), "m", 3, &[fixture.plugins()], None).unwrap();
    assert!(other.fresh);
    assert_eq!(fixture.pack(1).unwrap(), folder);
    assert_eq!(fs::read(folder.join(MANIFEST_FILE)).unwrap(), manifest);
    assert_eq!(fs::read(Fixture::new().pack(1).unwrap().join(MANIFEST_FILE)).unwrap(), manifest);

    fs::write(fixture.source().join("weights.safetensors"), vec![8; 3000]).unwrap();
    let error = fixture.pack(1).unwrap_err();
    assert!(matches!(error, ReleaseError::Exists { .. }), "{error}");
    assert_eq!(fs::read(folder.join(MANIFEST_FILE)).unwrap(), manifest);
    fixture.pack(2).unwrap();
    // Nothing is left behind by any of these.
    let mut names: Vec<_> =
        fs::read_dir(fixture.repository().join("m")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["1", "2", "3"]);
}

#[test]
fn a_packed_release_checks_and_loads() {
    let fixture = Fixture::new();
    let folder = fixture.pack(1).unwrap();
    let checked = check(&folder).unwrap();
    assert_eq!(checked.id.to_string(), "m@1");
    assert!(checked.notes[0].contains("no examples"), "{:?}", checked.notes);
    let FolderState::Complete(release) = inspect(&folder, "m", 1) else { panic!("not complete") };
    let loaded = release.load().unwrap();
    assert_eq!(loaded.weights, vec![7; 3000]);
    assert_eq!(loaded.plugins.values().next().unwrap().bytes, b"component");
    assert_eq!(loaded.id.digest, sagehost_types::Digest::of(&fs::read(folder.join(MANIFEST_FILE)).unwrap()));
    assert!(!folder.join("train.py").exists());
}

#[test]
fn copied_file_by_file_it_is_incomplete_until_the_last_byte() {
    let fixture = Fixture::new();
    let from = fixture.pack(1).unwrap();
    let files = ["release.toml", "weights.safetensors", "plugins/s.wasm", "golden.json", MANIFEST_FILE];
    // The manifest first, last, and in between.
    for start in 0..files.len() {
        let to = fixture.folder.path().join(format!("copy-{start}"));
        fs::create_dir_all(to.join("plugins")).unwrap();
        for file in files.iter().cycle().skip(start).take(files.len()) {
            let bytes = fs::read(from.join(file)).unwrap();
            for end in [bytes.len() / 2, bytes.len()] {
                let state = inspect(&to, "m", 1);
                assert!(matches!(state, FolderState::Incomplete(_)), "{start} {file} {state:?}");
                fs::write(to.join(file), &bytes[..end]).unwrap();
            }
        }
        assert!(matches!(inspect(&to, "m", 1), FolderState::Complete(_)));
    }
}

#[test]
fn damage_is_named() {
    let fixture = Fixture::new();
    let folder = fixture.pack(1).unwrap();
    let weights = folder.join("weights.safetensors");
    fs::write(&weights, vec![7; 2999]).unwrap();
    assert_eq!(incomplete(&folder).to_string(), "weights.safetensors has 2999 of 3000 bytes");
    fs::write(&weights, vec![7; 3001]).unwrap();
    assert!(incomplete(&folder).is_suspect());
    fs::write(&weights, vec![9; 3000]).unwrap();
    assert!(matches!(incomplete(&folder), Incomplete::Differs { file, .. } if file == "weights.safetensors"));
    fs::remove_file(&weights).unwrap();
    assert_eq!(incomplete(&folder), Incomplete::Missing { file: "weights.safetensors".into() });
    fs::create_dir(&weights).unwrap();
    assert!(invalid(&folder).contains("not a regular file"));
}

#[test]
fn what_changes_between_inspection_and_use_is_not_used() {
    let fixture = Fixture::new();
    let folder = fixture.pack(1).unwrap();
    let FolderState::Complete(release) = inspect(&folder, "m", 1) else { panic!("not complete") };
    fs::write(folder.join("plugins/s.wasm"), "COMPONENT").unwrap();
    let error = release.load().unwrap_err();
    assert!(matches!(&error, ReleaseError::Changed { file } if file == "plugins/s.wasm"), "{error}");
}

#[test]
fn a_release_cannot_pass_under_another_name() {
    let fixture = Fixture::new();
    let folder = fixture.pack(2).unwrap();
    assert!(invalid(&folder).contains("m@2"), "{}", invalid(&folder));
    let renamed = fixture.repository().join("m/3");
    fs::rename(&folder, &renamed).unwrap();
    assert!(check(&renamed).unwrap_err().to_string().contains("cannot pass under another name"));
}

#[test]
fn links_may_not_lead_out_of_the_folder() {
    let fixture = Fixture::new();
    let folder = fixture.pack(1).unwrap();
    let weights = folder.join("weights.safetensors");
    // Inside it is allowed: Kubernetes mounts a volume's files like this.
    fs::create_dir(folder.join("..data")).unwrap();
    fs::rename(&weights, folder.join("..data/w")).unwrap();
    std::os::unix::fs::symlink("..data/w", &weights).unwrap();
    assert!(matches!(inspect(&folder, "m", 1), FolderState::Complete(_)));
    fs::remove_file(&weights).unwrap();
    std::os::unix::fs::symlink(fixture.source().join("weights.safetensors"), &weights).unwrap();
    assert!(invalid(&folder).contains("link out of the release's folder"));
}

#[test]
fn sources_that_are_wrong_are_refused_before_anything_is_published() {
    let fixture = Fixture::new();
    let spec = fixture.source().join("release.toml");
    fs::write(&spec, SPEC.replace("fanout = 2", "fanout = 0")).unwrap();
    assert!(fixture.pack(1).unwrap_err().to_string().contains("sampling.hops[0].fanout"));
    fs::write(&spec, SPEC.replace("s.wasm", "absent.wasm")).unwrap();
    let error = fixture.pack(1).unwrap_err().to_string();
    assert!(error.contains("absent.wasm") && error.contains("built"), "{error}");
    fs::write(&spec, SPEC).unwrap();
    fs::remove_file(fixture.source().join("weights.safetensors")).unwrap();
    assert!(matches!(fixture.pack(1), Err(ReleaseError::Io { path, .. }) if path.ends_with("weights.safetensors")));
    let left = fs::read_dir(fixture.repository().join("m")).unwrap().count();
    assert_eq!(left, 0);
    assert!(matches!(fixture.pack(0), Err(ReleaseError::BadName { .. })));
}

#[test]
fn a_given_salt_is_kept() {
    let fixture = Fixture::new();
    pack(&fixture.source(), &fixture.repository(), "m", 1, &[fixture.plugins()], Some("pepper".into())).unwrap();
    let manifest = Manifest::from_json(&fs::read(fixture.repository().join("m/1/manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest.salt, "pepper");
    let empty = pack(&fixture.source(), &fixture.repository(), "m", 2, &[fixture.plugins()], Some(String::new()));
    assert!(matches!(empty, Err(ReleaseError::Invalid { .. })));
}
