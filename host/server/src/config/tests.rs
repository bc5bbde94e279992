use super::*;

fn parse(text: &str, environment: &[(&str, &str)]) -> Result<Config, Vec<String>> {
    let environment = environment.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string()));
    Config::parse(Some((Path::new("/etc/sagehost.toml"), text)), environment).map_err(|e| e.problems)
}

#[test]
fn defaults_need_only_the_repository() {
    let config = parse("[repository]\nfolder = \"models\"", &[]).unwrap();
    assert_eq!(config.repository, Path::new("/etc/models"));
    assert_eq!(config.state, Path::new("/etc/models/.sagehost-state.json"));
    assert_eq!(config.listen.port(), 8080);
    assert_eq!(config.etcd, None);
    assert!(config.threads >= 1);
}

#[test]
fn the_environment_overrides_every_key() {
    let environment = [
        ("SAGEHOST_SERVER_LISTEN", "0.0.0.0:1"),
        ("SAGEHOST_REPOSITORY_FOLDER", "here"),
        ("SAGEHOST_GRAPHS", "a=/x,b=y"),
        ("SAGEHOST_ETCD_ENDPOINTS", "http://a:1, http://b:2"),
        ("HOME", "/root"),
    ];
    let config = parse("[server]\nlisten = \"127.0.0.1:2\"\n[graphs]\nc = \"z\"", &environment).unwrap();
    assert_eq!(config.listen.to_string(), "0.0.0.0:1");
    assert_eq!(config.repository, Path::new("here"));
    assert_eq!(config.graphs.into_iter().collect::<Vec<_>>(), [("a".into(), "/x".into()), ("b".into(), "y".into())]);
    assert_eq!(config.etcd.unwrap().endpoints, ["http://a:1", "http://b:2"]);
}

#[test]
fn all_problems_are_reported_with_their_places() {
    let text = "[server]\nlisten = \"nowhere\"\nmax_body_bytes = 3\nlissten = 1\n[engine]\nbackend = \"tpu\"\n[etcd]\nprefix = \"x\"\n";
    let problems = parse(text, &[("SAGEHOST_LOG_FORMAT", "xml")]).unwrap_err();
    let expected = [
        "/etc/sagehost.toml:4: `server.lissten`: there is no such key",
        "configuration: `repository.folder`: is required",
        "/etc/sagehost.toml:2: `server.listen`: `nowhere` is not an address",
        "/etc/sagehost.toml:3: `server.max_body_bytes`: `3` is not a whole number from 1024",
        "/etc/sagehost.toml:6: `engine.backend`: `tpu` is not auto, cpu or wgpu",
        "/etc/sagehost.toml:8: `etcd.prefix`: must end with /",
        "$SAGEHOST_LOG_FORMAT: `log.format`: `xml` is not text or json",
    ];
    assert_eq!(problems.len(), expected.len(), "{problems:#?}");
    for (problem, expected) in problems.iter().zip(expected) {
        assert!(problem.starts_with(expected), "{problem} / {expected}");
    }
}

#[test]
fn a_strange_variable_is_a_warning() {
    let config =
        parse("[repository]\nfolder = \"m\"", &[("SAGEHOST_SERVICE_HOST", "10.0.0.1"), ("HOME", "/")]).unwrap();
    assert_eq!(config.warnings.len(), 1, "{:?}", config.warnings);
    assert!(config.warnings[0].contains("$SAGEHOST_SERVICE_HOST"));
}

#[test]
fn bad_toml_names_its_line() {
    let problems = parse("[server]\nlisten = = 1\n", &[]).unwrap_err();
    assert!(problems[0].starts_with("/etc/sagehost.toml:2: "), "{problems:?}");
}

#[test]
fn a_password_is_never_printed() {
    let text =
        "[repository]\nfolder = \"m\"\n[etcd]\nendpoints = [\"http://a:1\"]\nuser = \"u\"\npassword = \"hunter2\"";
    assert!(!format!("{:?}", parse(text, &[]).unwrap()).contains("hunter2"));
}

#[test]
fn the_documentation_is_current() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let on_disk = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        on_disk,
        documentation(),
        "run `cargo run --release -p sagehost -- serve --print-config-docs > docs/configuration.md`"
    );
}
