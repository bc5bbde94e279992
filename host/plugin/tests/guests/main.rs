//! Plugins that behave and plugins that do not, through the crate's public interface.

mod components;
mod faults;
mod loading;
mod roles;
mod standard;

use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sagehost_plugin::{
    Compiled, Context, Feature, Plugin, PluginConfig, PluginError, PluginHost, Request, Role, Setting,
};

/// A limit that no call of a test reaches unless it is meant to, however busy the machine is.
const GENEROUS: Duration = Duration::from_secs(60);

fn config(name: &str) -> PluginConfig {
    PluginConfig {
        name: name.into(),
        release: "test@1".into(),
        settings: vec![],
        call_limit: GENEROUS,
        memory_limit: 4 << 20,
        max_instances: 2,
    }
}

fn load(host: &Arc<PluginHost>, bytes: &[u8], role: Role) -> Arc<Compiled> {
    host.compile(bytes, role).unwrap()
}

fn pre_processor(host: &Arc<PluginHost>, change: impl FnOnce(&mut PluginConfig)) -> Result<Plugin, PluginError> {
    let mut config = config("fixture");
    change(&mut config);
    Plugin::new(host, load(host, &components::pre_processor(), Role::PreProcessor), config)
}

fn context() -> Context {
    Context { request_id: "r-1".into(), as_of_ms: 100 }
}

fn request(values: &[Option<f32>]) -> Request {
    let features = values.iter().map(|value| Feature { name: "f".into(), value: *value }).collect();
    Request { entities: vec![], features }
}

/// Calls with `mode` as the first of three features.
fn prepare(plugin: &Plugin, mode: f32) -> Result<Vec<f32>, PluginError> {
    plugin.prepare(&context(), &request(&[Some(mode), None, Some(2.5)]), soon())
}

/// What a call on this thread logs, beside its result.
fn logged<T>(call: impl FnOnce() -> T) -> (String, T) {
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);
    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let result = tracing::subscriber::with_default(subscriber, call);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (text, result)
}

fn soon() -> Instant {
    Instant::now() + GENEROUS
}

fn settings(value: Setting) -> Vec<(String, Setting)> {
    vec![("key".into(), value)]
}
