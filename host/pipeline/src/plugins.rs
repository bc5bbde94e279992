//! The plugins of a release, one at most for each role, and their settings from TOML.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sagehost_plugin::api::Setting;
use sagehost_plugin::{Plugin, PluginConfig, PluginError};
use sagehost_release::LoadedFiles;
use sagehost_release::spec::PluginRole;
use sagehost_telemetry::{Label, Metrics};
use sagehost_types::Fault;

use crate::release::Runtime;

/// See the module.
pub(crate) struct Plugins {
    pub(crate) sampler: Option<Plugin>,
    pub(crate) weigher: Option<Plugin>,
    pub(crate) reducer: Option<Plugin>,
    pub(crate) pre: Option<Plugin>,
    pub(crate) post: Option<Plugin>,
    metrics: Arc<Metrics>,
}

impl Plugins {
    /// Compiles (or finds compiled) every plugin of the release, instantiates and configures each once.
    pub(crate) fn load(runtime: &Runtime, files: &LoadedFiles) -> Result<Self, String> {
        let label: Arc<str> = files.id.to_string().into();
        let mut by_role: BTreeMap<PluginRole, Plugin> = BTreeMap::new();
        for (role, file) in &files.plugins {
            let compiled = runtime
                .plugins
                .compile(&file.bytes, plugin_role(*role))
                .map_err(|e| format!("{}: {e}", file.spec.file))?;
            let config = PluginConfig {
                name: name(&file.spec.file),
                release: Arc::clone(&label),
                settings: settings(&file.spec.settings).map_err(|e| format!("{}: {e}", file.spec.file))?,
                call_limit: Duration::from_millis(u64::from(file.spec.call_ms)),
                memory_limit: (file.spec.memory_mib as usize) << 20,
                // One instance for each thread that can be in a call.
                max_instances: match role {
                    PluginRole::PreProcessor | PluginRole::PostProcessor => runtime.guest_threads,
                    PluginRole::Sampler | PluginRole::EdgeWeigher | PluginRole::Reducer => runtime.compute.threads(),
                },
            };
            let plugin =
                Plugin::new(&runtime.plugins, compiled, config).map_err(|e| format!("{}: {e}", file.spec.file))?;
            by_role.insert(*role, plugin);
        }
        Ok(Self {
            sampler: by_role.remove(&PluginRole::Sampler),
            weigher: by_role.remove(&PluginRole::EdgeWeigher),
            reducer: by_role.remove(&PluginRole::Reducer),
            pre: by_role.remove(&PluginRole::PreProcessor),
            post: by_role.remove(&PluginRole::PostProcessor),
            metrics: Arc::clone(&runtime.metrics),
        })
    }

    /// Counts a call's result and makes its error a fault of the request.
    pub(crate) fn counted<T>(&self, plugin: &Plugin, result: Result<T, PluginError>) -> Result<T, Fault> {
        self.count(plugin, result.as_ref().err());
        result.map_err(Fault::from)
    }

    /// Counts a call.
    pub(crate) fn count(&self, plugin: &Plugin, error: Option<&PluginError>) {
        let error = error.map(|error| Label::from(error.kind.as_str()));
        self.metrics.plugin_call(Label::from(plugin.name()), Label::from(plugin.role().as_str()), error);
    }
}

fn plugin_role(role: PluginRole) -> sagehost_plugin::Role {
    match role {
        PluginRole::Sampler => sagehost_plugin::Role::Sampler,
        PluginRole::EdgeWeigher => sagehost_plugin::Role::EdgeWeigher,
        PluginRole::Reducer => sagehost_plugin::Role::Reducer,
        PluginRole::PreProcessor => sagehost_plugin::Role::PreProcessor,
        PluginRole::PostProcessor => sagehost_plugin::Role::PostProcessor,
    }
}

/// A plugin's name in messages and metrics: its file's stem.
fn name(file: &str) -> Arc<str> {
    let stem = std::path::Path::new(file).file_stem().and_then(|stem| stem.to_str());
    stem.unwrap_or(file).into()
}

/// Settings as a plugin takes them: booleans, numbers, texts, and lists of numbers or of texts.
pub fn settings(table: &BTreeMap<String, toml::Value>) -> Result<Vec<(String, Setting)>, String> {
    table.iter().map(|(name, value)| Ok((name.clone(), setting(name, value)?))).collect()
}

fn setting(name: &str, value: &toml::Value) -> Result<Setting, String> {
    let wrong =
        || format!("setting `{name}`: a plugin takes booleans, numbers, texts, and lists of numbers or of texts");
    Ok(match value {
        toml::Value::Boolean(flag) => Setting::Flag(*flag),
        toml::Value::String(text) => Setting::Text(text.clone()),
        toml::Value::Array(items) if items.iter().all(toml::Value::is_str) && !items.is_empty() => {
            Setting::Texts(items.iter().filter_map(toml::Value::as_str).map(String::from).collect())
        }
        toml::Value::Array(items) => {
            Setting::Numbers(items.iter().map(number).collect::<Option<_>>().ok_or_else(wrong)?)
        }
        value => Setting::Number(number(value).ok_or_else(wrong)?),
    })
}

fn number(value: &toml::Value) -> Option<f64> {
    match value {
        // Exact below 2^53, which settings are.
        toml::Value::Integer(number) => Some(*number as f64),
        toml::Value::Float(number) => Some(*number),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<(String, Setting)>, String> {
        settings(&toml::from_str(text).unwrap())
    }

    #[test]
    fn settings_keep_their_kind() {
        let read = read("a = true\nb = 3\nc = 0.5\nd = \"x\"\ne = [1, 2.5]\nf = [\"x\", \"y\"]\ng = []").unwrap();
        let expected = [
            ("a", Setting::Flag(true)),
            ("b", Setting::Number(3.0)),
            ("c", Setting::Number(0.5)),
            ("d", Setting::Text("x".into())),
            ("e", Setting::Numbers(vec![1.0, 2.5])),
            ("f", Setting::Texts(vec!["x".into(), "y".into()])),
            ("g", Setting::Numbers(vec![])),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn what_a_plugin_cannot_take_is_refused_by_name() {
        for text in ["bad = [1, \"x\"]", "bad = [[1]]", "bad = { a = 1 }", "bad = 2024-05-01", "bad = [true]"] {
            assert!(read(text).unwrap_err().contains("`bad`"), "{text}");
        }
    }
}
