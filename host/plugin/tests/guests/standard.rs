//! The plugins that `cargo xtask plugins` builds: the standard ones and the fixtures that misbehave.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_graph::{Growth, Hop, Strategy, sample_hops, verify_blocks};
use sagehost_plugin::{ErrorKind, Plugin, PluginConfig, PluginError, PluginHost, Role, Rows, Setting, inspect};
use sagehost_types::{Block, Frontier};

use crate::roles::graph;
use crate::{config, context, load, logged, request, settings, soon};

fn folder() -> PathBuf {
    let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/plugins");
    std::env::var_os("SAGEHOST_PLUGINS").map_or_else(built, PathBuf::from)
}

fn component(name: &str) -> Vec<u8> {
    let path = folder().join(name).with_extension("wasm");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}: run `cargo xtask plugins`", path.display()))
}

const FIXTURES: [Role; 5] = [Role::Sampler, Role::EdgeWeigher, Role::Reducer, Role::PreProcessor, Role::PostProcessor];

/// A fixture whose every call does what `mode` says.
fn fixture(host: &Arc<PluginHost>, role: Role, mode: &str) -> Result<Plugin, PluginError> {
    let compiled = load(host, &component(&format!("fixture-{role}")), role);
    let config = PluginConfig { settings: vec![("mode".into(), Setting::Text(mode.into()))], ..config("fixture") };
    Plugin::new(host, compiled, config)
}

fn seeds() -> Frontier {
    Frontier { nodes: vec![0, 0, 1], as_of_ms: vec![25, 100, 100] }
}

fn hops() -> Vec<Hop> {
    vec![Hop { relations: vec![0], fanout: 2 }, Hop { relations: vec![0], fanout: -1 }]
}

fn blocks(plugin: &Plugin, deadline: Instant) -> Result<Vec<Block>, PluginError> {
    plugin.sample(&graph(), &"salt".into(), &seeds(), &hops(), Growth::Resample, deadline)
}

/// Calls a plugin in its role.
fn call(plugin: &Plugin, deadline: Instant) -> Result<(), PluginError> {
    match plugin.role() {
        Role::Sampler => blocks(plugin, deadline).map(drop),
        Role::EdgeWeigher => {
            let view = graph();
            let block = sagehost_graph::sample(&*view, "salt", 0, 0, &seeds(), -1, Strategy::Uniform).unwrap();
            plugin.weigh(&view, 0, &block, deadline).map(drop)
        }
        Role::Reducer => {
            let rows = Rows { dim: 2, offsets: &[0, 1], rows: &[1.0, 2.0] };
            plugin.reduce(0, rows, deadline).map(drop)
        }
        Role::PreProcessor => plugin.prepare(&context(), &request(&[Some(1.0)]), deadline).map(drop),
        Role::PostProcessor => crate::roles::decide_until(plugin, 0.5, "p", &["k"], deadline).map(drop),
    }
}

#[test]
fn every_built_plugin_is_of_its_role() {
    for (name, role) in [
        ("standardize", Role::PreProcessor),
        ("uniform-sampler", Role::Sampler),
        ("latest-sampler", Role::Sampler),
        ("trust-weigher", Role::EdgeWeigher),
        ("median-reducer", Role::Reducer),
        ("amount-decision", Role::PostProcessor),
        ("risk-decision", Role::PostProcessor),
        ("velocity-decision", Role::PostProcessor),
    ] {
        let found = inspect(&component(name)).unwrap();
        assert_eq!((found.role, found.wit_version.as_str()), (role, "0.1.0"), "{name}");
        let foreign = found.imports.iter().find(|import| !import.starts_with("sagehost:plugin/"));
        assert_eq!(foreign, None, "{name}");
    }
}

#[test]
fn every_role_contains_every_fault() {
    let host = PluginHost::new().unwrap();
    for role in FIXTURES {
        call(&fixture(&host, role, "ok").unwrap(), soon()).unwrap();
        for (mode, kind) in [
            ("trap", ErrorKind::Trap),
            ("recurse", ErrorKind::Trap),
            ("grow", ErrorKind::Memory),
            ("wrong-length", ErrorKind::BadOutput),
            ("invalid-input", ErrorKind::InvalidInput),
            ("missing", ErrorKind::Missing),
            ("unavailable", ErrorKind::Unavailable),
            ("internal", ErrorKind::Internal),
        ] {
            let plugin = fixture(&host, role, mode).unwrap();
            for _ in 0..2 {
                let error = call(&plugin, soon()).unwrap_err();
                assert_eq!(error.kind, kind, "{role} {mode}: {error}");
            }
        }
        let deadline = || Instant::now() + Duration::from_millis(50);
        for mode in ["spin", "spin-in-host-call"] {
            let error = call(&fixture(&host, role, mode).unwrap(), deadline()).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Timeout, "{role} {mode}: {error}");
        }
        // Too much for the instance's memory, or more than was due.
        let error = call(&fixture(&host, role, "huge-output").unwrap(), soon()).unwrap_err();
        assert!(matches!(error.kind, ErrorKind::Memory | ErrorKind::BadOutput), "{role}: {error}");
        call(&fixture(&host, role, "log-flood").unwrap(), soon()).unwrap();
        if role != Role::Sampler {
            assert_eq!(call(&fixture(&host, role, "nan").unwrap(), soon()).unwrap_err().kind, ErrorKind::BadOutput);
        }
        assert_eq!(fixture(&host, role, "refuse-settings").unwrap_err().kind, ErrorKind::Configure);
        assert_eq!(fixture(&host, role, "trap-in-configure").unwrap_err().kind, ErrorKind::Trap);
    }
    assert_eq!(host.instances_live(), 0);
    assert_eq!(host.compilations(), FIXTURES.len() as u64);
}

#[test]
fn a_panic_tells_its_message_and_the_log_the_guests_functions() {
    let host = PluginHost::new().unwrap();
    for role in FIXTURES {
        let plugin = fixture(&host, role, "trap").unwrap();
        let (log, error) = logged(|| call(&plugin, soon()).unwrap_err());
        let short = format!("plugin `fixture` ({role}): trapped: panic: this fixture traps");
        assert_eq!(error.to_string(), short);
        assert!(log.contains("panicking") && log.contains("panicked at"), "{log}");
        assert_eq!(error.to_string(), call(&plugin, soon()).unwrap_err().to_string());
    }
    let error = fixture(&host, Role::Reducer, "trap-in-configure").unwrap_err();
    assert_eq!(error.message, "trapped: panic: this fixture traps in configure");
}

#[test]
fn a_column_that_the_schema_lacks_is_an_error_of_every_call() {
    let host = PluginHost::new().unwrap();
    let compiled = load(&host, &component("risk-decision"), Role::PostProcessor);
    let settings = [
        ("review", Setting::Number(0.5)),
        ("decline", Setting::Number(0.9)),
        ("amount_column", Setting::Text("amounts".into())),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
    let plugin = Plugin::new(&host, compiled, PluginConfig { settings, ..config("risk-decision") }).unwrap();
    let error = crate::roles::decide(&plugin, 0.5, "p", &["k"]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal, "{error}");
    assert!(error.message.contains("`amounts`"), "{error}");
}

#[test]
fn the_uniform_sampler_is_the_native_one() {
    let host = PluginHost::new().unwrap();
    let compiled = load(&host, &component("uniform-sampler"), Role::Sampler);
    let plugin = Plugin::new(&host, compiled, config("uniform-sampler")).unwrap();
    let view = graph();
    for growth in [Growth::Resample, Growth::Reuse] {
        let native = sample_hops(&*view, "salt", &seeds(), &hops(), growth, Strategy::Uniform).unwrap();
        let sampled = plugin.sample(&view, &"salt".into(), &seeds(), &hops(), growth, soon()).unwrap();
        assert_eq!(sampled, native, "{growth:?}");
        verify_blocks(&*view, &seeds(), &hops(), growth, &sampled).unwrap();
    }
}

#[test]
fn blocks_that_name_the_future_do_not_pass_verification() {
    let host = PluginHost::new().unwrap();
    for mode in ["future", "wrong-source", "nan"] {
        let sampled = blocks(&fixture(&host, Role::Sampler, mode).unwrap(), soon()).unwrap();
        assert!(verify_blocks(&*graph(), &seeds(), &hops(), Growth::Resample, &sampled).is_err(), "{mode}");
    }
}

#[test]
fn settings_reach_a_standard_plugin() {
    let host = PluginHost::new().unwrap();
    let compiled = load(&host, &component("standardize"), Role::PreProcessor);
    let good = vec![
        ("columns".into(), Setting::Texts(vec!["f".into()])),
        ("mean".into(), Setting::Numbers(vec![1.0])),
        ("std".into(), Setting::Numbers(vec![2.0])),
        ("fill".into(), Setting::Numbers(vec![5.0])),
    ];
    let config = PluginConfig { settings: good, ..config("standardize") };
    let plugin = Plugin::new(&host, Arc::clone(&compiled), config.clone()).unwrap();
    assert_eq!(plugin.prepare(&context(), &request(&[Some(4.0), None]), soon()).unwrap(), [1.5, 2.0]);
    let unknown = PluginConfig { settings: settings(Setting::Flag(true)), ..config };
    assert_eq!(Plugin::new(&host, compiled, unknown).unwrap_err().kind, ErrorKind::Configure);
}
