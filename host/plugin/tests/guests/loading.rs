//! What is not a plugin is refused with a reason; what is, is compiled once.

use std::sync::Arc;

use sagehost_plugin::{ErrorKind, LoadError, Plugin, PluginHost, Role, inspect};
use sagehost_types::Digest;

use crate::{components, config, load};

#[test]
fn a_plugin_is_inspected_without_an_engine() {
    let bytes = components::sampler();
    let found = inspect(&bytes).unwrap();
    assert_eq!(found.role, Role::Sampler);
    assert_eq!(found.wit_version, "0.1.0");
    assert_eq!(found.size, bytes.len());
    assert_eq!(found.digest, Digest::of(&bytes));
    assert!(found.imports.contains(&"sagehost:plugin/graph@0.1.0".to_owned()), "{:?}", found.imports);
    assert_eq!(found.exports, ["sagehost:plugin/configure@0.1.0", "sagehost:plugin/sampling@0.1.0"]);
    for (bytes, role) in [
        (components::edge_weigher(), Role::EdgeWeigher),
        (components::reducer(), Role::Reducer),
        (components::pre_processor(), Role::PreProcessor),
        (components::post_processor(), Role::PostProcessor),
    ] {
        assert_eq!(inspect(&bytes).unwrap().role, role);
    }
}

#[test]
fn what_cannot_run_here_is_refused_with_its_reason() {
    let host = PluginHost::new().unwrap();
    let refused = |bytes: &[u8], role| host.compile(bytes, role).unwrap_err();
    let role = Role::PreProcessor;

    assert_eq!(refused(b"[package]", role), LoadError::NotWasm);
    assert_eq!(refused(&components::core_module(), role), LoadError::CoreModule);

    let error = refused(&components::other_world(), role);
    assert!(matches!(error, LoadError::WrongWorld { .. }), "{error}");
    assert!(error.to_string().contains("exports run") && error.to_string().contains("post-processor"), "{error}");

    let error = refused(&components::sampler(), role);
    assert_eq!(error, LoadError::WrongRole { expected: role, found: Role::Sampler });

    let error = refused(&components::pre_processor_of_0_2(), role);
    assert!(matches!(error, LoadError::UnknownVersion { .. }), "{error}");
    assert!(error.to_string().contains("0.2.x") && error.to_string().contains("0.1.x"), "{error}");

    let error = refused(&components::pre_processor_with_files(), role);
    assert!(matches!(&error, LoadError::MissingImport { import, .. } if import == "test:files/files"), "{error}");

    let error = refused(&components::reducer_with_graph(), Role::Reducer);
    assert!(matches!(&error, LoadError::MissingImport { import, .. } if import.contains("graph")), "{error}");

    let error = refused(&components::pre_processor_of_other_types(), role);
    assert!(matches!(error, LoadError::Mismatch { .. }), "{error}");
}

#[test]
fn exports_of_other_types_are_found_out_by_the_first_instance() {
    let host = PluginHost::new().unwrap();
    let compiled = load(&host, &components::pre_processor_of_other_answers(), Role::PreProcessor);
    let error = Plugin::new(&host, compiled, config("fixture")).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Internal, "{error}");
    assert!(error.message.contains("no instance could be made") && error.message.contains("type"), "{error}");
    assert_eq!(host.instances_live(), 0);
}

#[test]
fn a_truncated_component_is_refused_wherever_it_ends() {
    let bytes = components::pre_processor();
    for end in (0..bytes.len()).step_by(7) {
        match inspect(&bytes[..end]) {
            // Cut between two sections a file is whole, and lacks what came after.
            Err(LoadError::NotWasm | LoadError::Damaged(_) | LoadError::WrongWorld { .. }) => {}
            Err(error) => panic!("{end}: {error}"),
            // What came after may be nothing that a component needs: a custom section (its id is 0).
            Ok(_) => assert_eq!(bytes[end], 0, "{end}: a section that is needed was cut off"),
        }
    }
}

#[test]
fn equal_components_are_compiled_once() {
    let host = PluginHost::new().unwrap();
    let bytes = [components::pre_processor(), components::post_processor()];
    let roles = [Role::PreProcessor, Role::PostProcessor];
    for _ in 0..200 {
        // Nothing holds them between two swaps.
        drop(load(&host, &bytes[0], roles[0]));
        drop(load(&host, &bytes[1], roles[1]));
    }
    assert_eq!(host.compilations(), 2);

    let host = PluginHost::new().unwrap();
    std::thread::scope(|scope| {
        let compile = || scope.spawn(|| load(&host, &bytes[0], roles[0]));
        let all: Vec<_> = [compile(), compile(), compile()].into_iter().map(|t| t.join().unwrap()).collect();
        assert!(all.iter().all(|compiled| Arc::ptr_eq(compiled, &all[0])));
    });
    assert_eq!(host.compilations(), 1);
}
