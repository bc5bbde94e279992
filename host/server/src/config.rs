//! The server's configuration: one table of keys ([`KEYS`]) from which the parser, the environment's names and
//! `docs/configuration.md` all follow. A TOML file gives values, the environment overrides them, and every bad value is
//! reported together, each with its place.

mod source;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sagehost_types::ids::valid_name;
use source::{Place, Values};

/// One configuration key.
pub(crate) struct Key {
    /// Its name in the file: `section.name`.
    pub(crate) name: &'static str,
    /// The value when none is given; `None` where the key is required or has no default.
    pub(crate) default: Option<&'static str>,
    /// What it is for, in one line.
    pub(crate) doc: &'static str,
}

const fn key(name: &'static str, default: Option<&'static str>, doc: &'static str) -> Key {
    Key { name, default, doc }
}

/// Every key there is.
pub(crate) const KEYS: &[Key] = &[
    key("server.listen", Some("127.0.0.1:8080"), "Address of the inference API."),
    key("server.admin_listen", Some("127.0.0.1:8081"), "Address of the management pages: probes, metrics, releases."),
    key("server.max_body_bytes", Some("4194304"), "Largest request body; over it 413."),
    key("server.max_connections", Some("4096"), "Most open connections of the inference API."),
    key("server.io_threads", Some("1"), "Threads that read and write the network. They never compute."),
    key(
        "server.request_timeout_ms",
        Some("30000"),
        "Longest time for an answer, whatever the request and its release say.",
    ),
    key("server.header_timeout_ms", Some("60000"), "How long a request's head may take, and a connection be idle."),
    key("server.body_timeout_ms", Some("10000"), "How long a request's body may take."),
    key(
        "server.unready_ms",
        Some("0"),
        "When asked to stop, how long to go on accepting while `/readyz` says 503, so that load balancers turn away first.",
    ),
    key("server.shutdown_ms", Some("10000"), "Longest wait for accepted requests when the server is asked to stop."),
    key("engine.backend", Some("auto"), "`cpu`, `wgpu`, or `auto`: wgpu where there is a GPU, else cpu."),
    key(
        "engine.adapter",
        Some(""),
        "Part of the name of the GPU to use; empty takes the first. Naming one allows a software adapter.",
    ),
    key("engine.threads", Some("0"), "Compute threads, and as many guest threads; 0 means one per core."),
    key(
        "graphs",
        Some(""),
        "Graph snapshots by name, as `[graphs]` with `name = \"folder\"` (in the environment: `name=folder,name=folder`).",
    ),
    key("repository.folder", None, "The model repository: `<model>/<version>/`, `_routes/`, `_policies/`. Watched."),
    key(
        "repository.settle_ms",
        Some("2000"),
        "How long a release folder that does not match its manifest must be left unchanged before it is rejected.",
    ),
    key(
        "repository.state",
        Some(""),
        "File that keeps the last good state, from which a start without etcd serves; empty: `.sagehost-state.json` in the repository.",
    ),
    key(
        "etcd.endpoints",
        Some(""),
        "etcd servers, such as `http://127.0.0.1:2379`; empty: the folder alone decides what is live.",
    ),
    key("etcd.prefix", Some("/sagehost/"), "Prefix of the documents' keys."),
    key("etcd.user", Some(""), "User name, where etcd asks for one."),
    key("etcd.password", Some(""), "Its password; better given by the environment."),
    key("log.level", Some("info"), "Filter, as `info` or `sagehost=debug,info`."),
    key("log.format", Some("text"), "`text` or `json`."),
];

/// Which engine to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BackendChoice {
    /// A GPU where there is one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// A GPU; refuse to start without one.
    Wgpu,
}

/// The whole configuration, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// `server.listen`.
    pub(crate) listen: SocketAddr,
    /// `server.admin_listen`.
    pub(crate) admin_listen: SocketAddr,
    /// `server.max_body_bytes`.
    pub(crate) max_body_bytes: usize,
    /// `server.max_connections`.
    pub(crate) max_connections: usize,
    /// `server.io_threads`.
    pub(crate) io_threads: usize,
    /// `server.request_timeout_ms`.
    pub(crate) request_timeout: Duration,
    /// `server.header_timeout_ms`.
    pub(crate) header_timeout: Duration,
    /// `server.body_timeout_ms`.
    pub(crate) body_timeout: Duration,
    /// `server.unready_ms`.
    pub(crate) unready: Duration,
    /// `server.shutdown_ms`.
    pub(crate) shutdown: Duration,
    /// `engine.backend`.
    pub(crate) backend: BackendChoice,
    /// `engine.adapter`.
    pub(crate) adapter: Option<String>,
    /// `engine.threads`, resolved.
    pub(crate) threads: usize,
    /// `graphs`.
    pub(crate) graphs: BTreeMap<String, PathBuf>,
    /// `repository.folder`.
    pub(crate) repository: PathBuf,
    /// `repository.settle_ms`.
    pub(crate) settle: Duration,
    /// `repository.state`, resolved.
    pub(crate) state: PathBuf,
    /// `etcd.*`.
    pub(crate) etcd: Option<EtcdConfig>,
    /// `log.level`.
    pub(crate) log_level: String,
    /// `log.format` is `json`.
    pub(crate) log_json: bool,
    /// What the environment says that no key understands.
    pub(crate) warnings: Vec<String>,
}

/// How to reach etcd.
#[derive(Clone, PartialEq)]
pub(crate) struct EtcdConfig {
    /// `etcd.endpoints`.
    pub(crate) endpoints: Vec<String>,
    /// `etcd.prefix`.
    pub(crate) prefix: String,
    /// `etcd.user` and `etcd.password`.
    pub(crate) login: Option<(String, String)>,
}

impl fmt::Debug for EtcdConfig {
    /// Leaves the password out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.as_ref().map(|(user, _)| user);
        f.debug_struct("EtcdConfig")
            .field("endpoints", &self.endpoints)
            .field("prefix", &self.prefix)
            .field("user", &user)
            .finish_non_exhaustive()
    }
}

/// Everything that is wrong with a configuration.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// One line a problem, each with its place.
    pub(crate) problems: Vec<String>,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the configuration has {} problem(s):", self.problems.len())?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n  {problem}"))
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads a file (none: defaults) and the environment.
    ///
    /// # Errors
    /// Every problem at once: unreadable file, bad TOML, unknown keys, bad values.
    pub(crate) fn read(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let text = match file {
            None => None,
            Some(path) => match std::fs::read_to_string(path) {
                Ok(text) => Some((path, text)),
                Err(error) => return Err(ConfigError { problems: vec![format!("{}: {error}", path.display())] }),
            },
        };
        Self::parse(text.as_ref().map(|(path, text)| (*path, text.as_str())), environment)
    }

    fn parse(
        file: Option<(&Path, &str)>,
        environment: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut values = Values::collect(file, environment);
        let repository = values.path("repository.folder");
        let state = values.path("repository.state");
        let config = Self {
            listen: values.get("server.listen", |t| t.parse().map_err(|_| "an address such as 127.0.0.1:8080")),
            admin_listen: values
                .get("server.admin_listen", |t| t.parse().map_err(|_| "an address such as 127.0.0.1:8081")),
            max_body_bytes: values.number("server.max_body_bytes", 1024, 1 << 30),
            max_connections: values.number("server.max_connections", 1, 1 << 20),
            io_threads: values.number("server.io_threads", 1, 256),
            request_timeout: values.millis("server.request_timeout_ms", 1),
            header_timeout: values.millis("server.header_timeout_ms", 1),
            body_timeout: values.millis("server.body_timeout_ms", 1),
            unready: values.millis("server.unready_ms", 0),
            shutdown: values.millis("server.shutdown_ms", 0),
            backend: values.get("engine.backend", |t| match t {
                "auto" => Ok(BackendChoice::Auto),
                "cpu" => Ok(BackendChoice::Cpu),
                "wgpu" => Ok(BackendChoice::Wgpu),
                _ => Err("auto, cpu or wgpu"),
            }),
            adapter: values.text("engine.adapter"),
            threads: match values.number("engine.threads", 0, 1024) {
                0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
                n => n,
            },
            graphs: graphs(&mut values),
            settle: values.millis("repository.settle_ms", 0),
            state: state.unwrap_or_else(|| repository.clone().unwrap_or_default().join(".sagehost-state.json")),
            repository: repository.unwrap_or_default(),
            etcd: etcd(&mut values),
            log_level: values.text("log.level").unwrap_or_default(),
            log_json: values.get("log.format", |t| match t {
                "text" => Ok(false),
                "json" => Ok(true),
                _ => Err("text or json"),
            }),
            warnings: Vec::new(),
        };
        if config.listen == config.admin_listen && config.listen.port() != 0 {
            values.problem("server.admin_listen", "must differ from server.listen");
        }
        let (problems, warnings) = values.into_findings();
        match problems.is_empty() {
            true => Ok(Self { warnings, ..config }),
            false => Err(ConfigError { problems }),
        }
    }
}

fn graphs(values: &mut Values) -> BTreeMap<String, PathBuf> {
    let mut graphs = BTreeMap::new();
    for (entry, place) in values.list("graphs") {
        match entry.split_once('=') {
            Some((name, path)) if valid_name(name) && !path.is_empty() => {
                graphs.insert(name.to_string(), place.resolve(path));
            }
            _ => values.problem_at(&place, "graphs", &format!("`{entry}` is not name=folder")),
        }
    }
    graphs
}

fn etcd(values: &mut Values) -> Option<EtcdConfig> {
    let endpoints: Vec<String> = values.list("etcd.endpoints").into_iter().map(|(text, _)| text).collect();
    for endpoint in &endpoints {
        if !endpoint.starts_with("http://") {
            values.problem(
                "etcd.endpoints",
                &format!("`{endpoint}` does not begin with http:// (TLS to etcd is not built in)"),
            );
        }
    }
    let prefix = values.text("etcd.prefix").unwrap_or_default();
    if !prefix.ends_with('/') {
        values.problem("etcd.prefix", "must end with /");
    }
    let login = match (values.text("etcd.user"), values.text("etcd.password")) {
        (Some(user), Some(password)) => Some((user, password)),
        (None, None) => None,
        _ => {
            values.problem("etcd.user", "a user needs a password and a password a user");
            None
        }
    };
    (!endpoints.is_empty()).then_some(EtcdConfig { endpoints, prefix, login })
}

/// The environment variable that overrides a key.
#[must_use]
pub(crate) fn variable(key: &str) -> String {
    format!("SAGEHOST_{}", key.replace('.', "_").to_uppercase())
}

/// `docs/configuration.md`, made from [`KEYS`].
#[must_use]
pub(crate) fn documentation() -> String {
    use fmt::Write as _;
    let mut text = String::from(
        "# Configuration\n\n`sagehost serve --config FILE` reads TOML; the environment overrides each key. Paths in the file are relative to\n\
         the file, paths in the environment to the working directory. `sagehost serve --print-config-docs` prints this page.\n\n\
         | key | environment | default | what it is for |\n|---|---|---|---|\n",
    );
    for Key { name, default, doc } in KEYS {
        let default = match default {
            None => "(required)".to_string(),
            Some("") => "(none)".to_string(),
            Some(text) => format!("`{text}`"),
        };
        // Writing into a String cannot fail.
        let _ = writeln!(text, "| `{name}` | `{}` | {default} | {doc} |", variable(name));
    }
    text
}

impl Place {
    /// A path as written at this place: relative to the file's folder, or to the working directory.
    fn resolve(&self, path: &str) -> PathBuf {
        match self {
            Self::File { path: file, .. } => file.parent().unwrap_or(Path::new("")).join(path),
            Self::Variable(_) | Self::Default => PathBuf::from(path),
        }
    }
}

#[cfg(test)]
mod tests;
