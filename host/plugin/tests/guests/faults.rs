//! Guests that trap, spin, eat memory or answer nonsense cost their own call only.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_plugin::{ErrorKind, Plugin, PluginError, PluginHost, Role, Setting};

use crate::components::{self, mode};
use crate::{GENEROUS, config, context, load, logged, pre_processor, prepare, request, settings, soon};

/// The call in `mode` fails as said, and the next call works.
fn fails(plugin: &Plugin, mode: f32, kind: ErrorKind) -> PluginError {
    let error = prepare(plugin, mode).unwrap_err();
    assert_eq!(error.kind, kind, "{error}");
    assert_eq!((&*error.plugin, error.role), ("fixture", Role::PreProcessor));
    assert_eq!(prepare(plugin, 0.0).unwrap(), [0.0, 0.0, 2.5]);
    error
}

#[test]
fn every_fault_costs_its_own_call() {
    let host = PluginHost::new().unwrap();
    let plugin = pre_processor(&host, |_| {}).unwrap();
    let error = fails(&plugin, mode::TRAP, ErrorKind::Trap);
    assert_eq!(error.message, "trapped: wasm `unreachable` instruction executed");
    let error = fails(&plugin, mode::GROW, ErrorKind::Memory);
    assert!(error.message.contains("4194304"), "names the limit: {error}");
    let error = fails(&plugin, mode::RECURSE, ErrorKind::Trap);
    assert!(error.message.contains("stack"), "{error}");
    let error = fails(&plugin, mode::SHORT, ErrorKind::BadOutput);
    assert!(error.message.contains("2 prepared values; 3 are expected"), "{error}");
    fails(&plugin, mode::NAN, ErrorKind::BadOutput);
    fails(&plugin, mode::OUT_OF_BOUNDS, ErrorKind::BadOutput);
    fails(&plugin, mode::BAD_TEXT, ErrorKind::Trap);

    let stats = plugin.stats();
    assert_eq!(stats.calls, 14);
    assert_eq!(stats.errors_of(ErrorKind::Trap), 3);
    assert_eq!(stats.errors_of(ErrorKind::Memory), 1);
    assert_eq!(stats.errors_of(ErrorKind::BadOutput), 3);
    // An answer that can be read and is wrong does not harm the instance.
    assert_eq!((stats.live, stats.discarded, stats.created), (1, 5, 6));
}

#[test]
fn what_happened_inside_a_guest_is_in_the_log_and_not_in_the_error() {
    let host = PluginHost::new().unwrap();
    let plugin = pre_processor(&host, |config| config.call_limit = Duration::from_millis(100)).unwrap();
    for (mode, function) in [(mode::TRAP, "give_up"), (mode::SPIN, "<wasm function"), (mode::RECURSE, "recurse")] {
        let (log, error) = logged(|| prepare(&plugin, mode).unwrap_err());
        assert!(!error.to_string().contains(function), "{error}");
        let parts = [function, "plugin=fixture", "role=\"pre-processor\"", "release=test@1", "request_id=\"r-1\""];
        for part in parts.into_iter().chain([&*error.message]) {
            assert!(log.contains(part), "{part}: {log}");
        }
    }
    // What the plugin says of the request is the answer's, not the log's.
    let (log, _) = logged(|| prepare(&plugin, mode::ERROR).unwrap_err());
    assert_eq!(log, "");
}

#[test]
fn errors_of_the_contract_keep_their_kind_and_the_instance() {
    let host = PluginHost::new().unwrap();
    let plugin = pre_processor(&host, |_| {}).unwrap();
    let kinds = [ErrorKind::InvalidInput, ErrorKind::Missing, ErrorKind::Unavailable, ErrorKind::Internal];
    for (i, kind) in kinds.into_iter().enumerate() {
        let error = fails(&plugin, mode::ERROR + i as f32, kind);
        assert_eq!(error.message, "refused");
    }
    assert_eq!(plugin.stats().discarded, 0);
}

#[test]
fn a_spinning_guest_is_stopped_and_others_go_on() {
    let host = PluginHost::new().unwrap();
    let spinner = pre_processor(&host, |config| config.call_limit = Duration::from_millis(300)).unwrap();
    let other = pre_processor(&host, |_| {}).unwrap();
    for how in [mode::SPIN, mode::CALL_HOST] {
        let start = Instant::now();
        std::thread::scope(|scope| {
            let spinning = scope.spawn(|| prepare(&spinner, how).unwrap_err());
            let mut answered = 0;
            while !spinning.is_finished() {
                prepare(&other, 0.0).unwrap();
                answered += 1;
            }
            let error = spinning.join().unwrap();
            assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
            assert_eq!(error.message, "exceeded its time limit of 300 ms");
            assert!(answered > 0);
        });
        assert!(start.elapsed() >= Duration::from_millis(300));
        assert!(start.elapsed() < GENEROUS);
        prepare(&spinner, 0.0).unwrap();
    }
}

#[test]
fn the_nearer_of_call_limit_and_deadline_counts() {
    let host = PluginHost::new().unwrap();
    let plugin = pre_processor(&host, |_| {}).unwrap();
    let deadline = Instant::now() + Duration::from_millis(100);
    let error = plugin.prepare(&context(), &request(&[Some(mode::SPIN)]), deadline).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    assert!(error.message.starts_with("was stopped at the request's deadline, after "), "{error}");
    let late = plugin.prepare(&context(), &request(&[]), Instant::now()).unwrap_err();
    assert_eq!(late.kind, ErrorKind::Timeout, "{late}");
    assert_eq!(plugin.stats().discarded, 1, "a call that never began harms no instance");
}

#[test]
fn calls_beyond_the_instances_wait_and_then_are_refused() {
    let host = PluginHost::new().unwrap();
    let plugin = pre_processor(&host, |config| {
        config.max_instances = 1;
        config.call_limit = Duration::from_secs(1);
    })
    .unwrap();
    std::thread::scope(|scope| {
        let spinning = scope.spawn(|| prepare(&plugin, mode::SPIN).unwrap_err());
        while plugin.stats().calls == 0 {
            std::thread::yield_now();
        }
        // It is about to take the only instance: calls are answered until it has, and then refused.
        loop {
            let hurried = plugin.prepare(&context(), &request(&[]), Instant::now() + Duration::from_millis(20));
            if hurried.is_err_and(|error| error.kind == ErrorKind::Unavailable) {
                break;
            }
            assert!(!spinning.is_finished());
        }
        assert_eq!(prepare(&plugin, 0.0).unwrap(), [0.0, 0.0, 2.5], "a patient call gets its turn");
        assert_eq!(spinning.join().unwrap().kind, ErrorKind::Timeout);
    });
    assert_eq!(plugin.stats().live, 1);
}

#[test]
fn a_thousand_traps_leave_no_instance_behind() {
    let host = PluginHost::new().unwrap();
    let plugin = pre_processor(&host, |_| {}).unwrap();
    for _ in 0..1000 {
        assert_eq!(prepare(&plugin, mode::TRAP).unwrap_err().kind, ErrorKind::Trap);
    }
    assert_eq!((plugin.stats().live, plugin.stats().discarded, host.instances_live()), (0, 1000, 0));
    prepare(&plugin, 0.0).unwrap();
    assert_eq!((plugin.stats().live, host.instances_live()), (1, 1));
    drop(plugin);
    assert_eq!(host.instances_live(), 0);
}

#[test]
fn configure_can_refuse_and_is_limited() {
    let host = PluginHost::new().unwrap();
    let error = pre_processor(&host, |config| config.settings = settings(Setting::Flag(true))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Configure);
    assert!(error.message.ends_with("refused"), "{error}");
    let error = pre_processor(&host, |config| config.settings = settings(Setting::Number(1.0))).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    for fine in [Setting::Text("x".into()), Setting::Numbers(vec![1.0]), Setting::Texts(vec!["a".into(), "b".into()])] {
        pre_processor(&host, |config| config.settings = settings(fine)).unwrap();
    }
    assert_eq!(host.instances_live(), 0);
}

#[test]
fn an_instance_may_not_begin_beyond_its_memory() {
    let host = PluginHost::new().unwrap();
    // The fixture's memory begins with two pages.
    let error = pre_processor(&host, |config| config.memory_limit = 65_536).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Memory, "{error}");
}

#[test]
fn an_answer_cannot_be_larger_than_what_it_came_from() {
    let host = PluginHost::new().unwrap();
    let compiled = load(&host, &components::amplifier(), Role::PostProcessor);
    let plugin = Plugin::new(&host, compiled, config("fixture")).unwrap();
    let error = crate::roles::decide(&plugin, 0.5, "p", &["k"]).unwrap_err();
    assert_eq!(error.kind, ErrorKind::BadOutput, "{error}");
}

#[test]
fn a_call_in_another_role_is_refused() {
    let host = PluginHost::new().unwrap();
    let plugin = Arc::new(pre_processor(&host, |_| {}).unwrap());
    let rows = sagehost_plugin::Rows { dim: 1, offsets: &[0], rows: &[] };
    assert_eq!(plugin.reduce(0, rows, soon()).unwrap_err().kind, ErrorKind::Internal);
}
