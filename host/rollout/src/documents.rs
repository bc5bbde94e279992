//! The documents that say what is desired: the same in etcd (JSON) and in a folder (TOML). See `docs/rollout.md`.
//!
//! A document that cannot be read, or that breaks a rule, is refused with its reason; the one that it would have replaced
//! stays in force.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sagehost_release::paths::{parse_version, path_problem};
use sagehost_release::{Problems, validate};
use sagehost_types::Digest;
use sagehost_types::ids::valid_name;
use serde::de::{DeserializeOwned, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest document, in bytes.
pub const MAX_DOCUMENT: usize = 1 << 20;
/// Most documents of a source.
pub const MAX_DOCUMENTS: usize = 10_000;
/// Endpoints that a route can be for.
pub const ENDPOINTS: [&str; 2] = ["predict", "score"];
/// Most refused documents that are remembered.
const MAX_REFUSED: usize = 256;
/// Longest author or reason, in bytes.
const MAX_NOTE: usize = 1024;

/// A release's name among the documents.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReleaseKey {
    /// The model.
    pub model: String,
    /// The version.
    pub version: u64,
}

impl fmt::Display for ReleaseKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.model, self.version)
    }
}

/// `releases/<model>/<version>`: a release that may serve. In a folder it is the release's folder itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReleaseDoc {
    /// The release's folder, relative to the repository. Absent: `<model>/<version>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The digest that the release must have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Who rolled it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `routes/<endpoint>`: which release answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteDoc {
    /// The model.
    pub model: String,
    /// Its version.
    pub version: VersionChoice,
}

impl fmt::Display for RouteDoc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            VersionChoice::Latest => write!(f, "{}@latest", self.model),
            VersionChoice::Number(version) => write!(f, "{}@{version}", self.model),
        }
    }
}

/// See [`RouteDoc::version`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersionChoice {
    /// `"latest"`: the highest version that is live.
    Latest,
    /// A version number.
    Number(u64),
}

impl Serialize for VersionChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Latest => serializer.serialize_str("latest"),
            Self::Number(number) => serializer.serialize_u64(*number),
        }
    }
}

impl<'de> Deserialize<'de> for VersionChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Choice;

        impl Visitor<'_> for Choice {
            type Value = VersionChoice;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"latest\" or a positive version number")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<VersionChoice, E> {
                if text == "latest" {
                    Ok(VersionChoice::Latest)
                } else {
                    Err(E::invalid_value(Unexpected::Str(text), &self))
                }
            }

            fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<VersionChoice, E> {
                match number {
                    0 => Err(E::invalid_value(Unexpected::Unsigned(0), &self)),
                    number => Ok(VersionChoice::Number(number)),
                }
            }

            fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<VersionChoice, E> {
                match u64::try_from(number) {
                    Ok(number) => self.visit_u64(number),
                    Err(_) => Err(E::invalid_value(Unexpected::Signed(number), &self)),
                }
            }
        }

        deserializer.deserialize_any(Choice)
    }
}

/// `policies/<name>`: thresholds and lists that roll out without a new model.
#[derive(Clone, Debug, PartialEq)]
pub struct PolicyDoc {
    /// Its name.
    pub name: String,
    /// Its author's number; it goes with every decision that used it.
    pub version: u64,
    /// Booleans, numbers, texts, and lists of numbers or of texts.
    pub values: BTreeMap<String, toml::Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyBody {
    version: u64,
    #[serde(default)]
    values: BTreeMap<String, toml::Value>,
}

/// A document's text.
#[derive(Clone, Copy, Debug)]
pub enum Body<'a> {
    /// As in etcd.
    Json(&'a [u8]),
    /// As in a folder.
    Toml(&'a str),
}

impl Body<'_> {
    fn read<T: DeserializeOwned>(self) -> Result<T, String> {
        let size = match self {
            Self::Json(bytes) => bytes.len(),
            Self::Toml(text) => text.len(),
        };
        if size > MAX_DOCUMENT {
            return Err(format!("has {size} bytes; the limit is {MAX_DOCUMENT}"));
        }
        match self {
            // A list would be taken for the fields in their order.
            Self::Json(bytes) if bytes.trim_ascii_start().first() != Some(&b'{') => Err("is not a JSON object".into()),
            Self::Json(bytes) => serde_json::from_slice(bytes).map_err(|e| e.to_string()),
            Self::Toml(text) => {
                toml::from_str(text).map_err(|e: toml::de::Error| e.to_string().trim().replace('\n', " "))
            }
        }
    }
}

/// A release's document with the source's revision of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Documented {
    /// The document.
    pub doc: ReleaseDoc,
    /// When it was last written: a document that is written again, even unchanged, lets a rejected release be tried again.
    pub revision: i64,
}

/// Everything that is desired.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Documents {
    /// Releases that may serve.
    pub releases: BTreeMap<ReleaseKey, Documented>,
    /// Routes by endpoint.
    pub routes: BTreeMap<String, RouteDoc>,
    /// Policies by name.
    pub policies: BTreeMap<String, Arc<PolicyDoc>>,
    /// Documents that were refused, and why.
    pub refused: BTreeMap<String, String>,
    /// The source's revision that this is.
    pub revision: i64,
}

enum Name {
    Release(ReleaseKey),
    Route(String),
    Policy(String),
}

impl Name {
    fn parse(name: &str) -> Result<Self, &'static str> {
        let mut parts = name.split('/');
        let parsed = match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("releases"), Some(model), Some(version), None) if valid_name(model) => {
                let version =
                    parse_version(version).ok_or("the version must be a positive number without leading zeros")?;
                Self::Release(ReleaseKey { model: model.into(), version })
            }
            (Some("routes"), Some(endpoint), None, _) if ENDPOINTS.contains(&endpoint) => Self::Route(endpoint.into()),
            (Some("routes"), Some(_), None, _) => return Err("routes are for the endpoints `predict` and `score`"),
            (Some("policies"), Some(policy), None, _) if valid_name(policy) => Self::Policy(policy.into()),
            _ => return Err("expected releases/<model>/<version>, routes/<endpoint> or policies/<name>"),
        };
        Ok(parsed)
    }
}

impl Documents {
    /// Takes over a document, or refuses it and keeps the one that it would have replaced.
    pub fn put(&mut self, name: &str, body: Body<'_>, revision: i64) {
        match self.try_put(name, body, revision) {
            Ok(()) => drop(self.refused.remove(name)),
            Err(reason) => self.refuse(name, reason),
        }
    }

    pub(crate) fn refuse(&mut self, name: &str, reason: String) {
        if self.refused.len() < MAX_REFUSED || self.refused.contains_key(name) {
            self.refused.insert(name.to_string(), reason);
        }
    }

    fn try_put(&mut self, name: &str, body: Body<'_>, revision: i64) -> Result<(), String> {
        match Name::parse(name)? {
            Name::Release(key) => {
                let doc: ReleaseDoc = body.read()?;
                if let Some((path, problem)) = doc.path.as_ref().and_then(|path| Some((path, path_problem(path)?))) {
                    return Err(format!("path `{}` {problem}", path.escape_debug()));
                }
                if [&doc.author, &doc.reason].into_iter().flatten().any(|note| note.len() > MAX_NOTE) {
                    return Err(format!("author or reason has more than {MAX_NOTE} bytes"));
                }
                self.releases.insert(key, Documented { doc, revision });
            }
            Name::Route(endpoint) => {
                let route: RouteDoc = body.read()?;
                if !valid_name(&route.model) {
                    return Err(format!("`{}` cannot name a model", route.model.escape_debug()));
                }
                self.routes.insert(endpoint, route);
            }
            Name::Policy(name) => {
                let PolicyBody { version, values } = body.read()?;
                let mut problems = Problems::default();
                validate::values(&values, "values", &mut problems);
                if version == 0 {
                    return Err("version must be positive".into());
                }
                if !problems.is_empty() {
                    return Err(problems.to_string());
                }
                self.policies.insert(name.clone(), Arc::new(PolicyDoc { name, version, values }));
            }
        }
        Ok(())
    }

    /// Forgets a document.
    pub fn delete(&mut self, name: &str) {
        self.refused.remove(name);
        match Name::parse(name) {
            Ok(Name::Release(key)) => drop(self.releases.remove(&key)),
            Ok(Name::Route(endpoint)) => drop(self.routes.remove(&endpoint)),
            Ok(Name::Policy(policy)) => drop(self.policies.remove(&policy)),
            Err(_) => {}
        }
    }

    /// Takes over a full listing: what it does not name is gone, and what it names but cannot be read stays as it was.
    #[must_use]
    pub fn replaced_by<'a>(&self, listing: impl IntoIterator<Item = (&'a str, Body<'a>, i64)>, revision: i64) -> Self {
        let mut new = Self { revision, ..Self::default() };
        for (name, body, revision) in listing {
            match Name::parse(name) {
                Ok(Name::Release(key)) => {
                    if let Some(old) = self.releases.get(&key) {
                        new.releases.insert(key, old.clone());
                    }
                }
                Ok(Name::Route(endpoint)) => {
                    if let Some(old) = self.routes.get(&endpoint) {
                        new.routes.insert(endpoint, old.clone());
                    }
                }
                Ok(Name::Policy(policy)) => {
                    if let Some(old) = self.policies.get(&policy) {
                        new.policies.insert(policy, Arc::clone(old));
                    }
                }
                Err(_) => {}
            }
            new.put(name, body, revision);
        }
        new
    }

    /// Every document as its name, JSON value and revision: what [`Documents::put`] takes.
    pub(crate) fn to_json(&self) -> Result<BTreeMap<String, (serde_json::Value, i64)>, serde_json::Error> {
        let mut all = BTreeMap::new();
        for (key, Documented { doc, revision }) in &self.releases {
            all.insert(format!("releases/{}/{}", key.model, key.version), (serde_json::to_value(doc)?, *revision));
        }
        for (endpoint, route) in &self.routes {
            all.insert(format!("routes/{endpoint}"), (serde_json::to_value(route)?, 0));
        }
        for (name, policy) in &self.policies {
            let body = PolicyBody { version: policy.version, values: policy.values.clone() };
            all.insert(format!("policies/{name}"), (serde_json::to_value(body)?, 0));
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests;
