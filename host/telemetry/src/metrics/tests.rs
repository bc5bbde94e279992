use std::collections::BTreeSet;
use std::sync::Arc;

use super::*;
use crate::families::{Kind, TABLE};

fn touched() -> (Metrics, Vec<GaugeGuard>) {
    let metrics = Metrics::new("1.2.3");
    let model = Label::from(&Arc::<str>::from("mule-risk"));
    metrics.request("predict".into(), model.clone(), OK.into(), Duration::from_micros(150));
    metrics.stage(Stage::Dense, Duration::from_micros(3));
    metrics.batch(model.clone(), 3);
    metrics.plugin_call("uniform".into(), "sampler".into(), None);
    metrics.plugin_call("uniform".into(), "sampler".into(), Some("trap".into()));
    metrics.release_swapped(model.clone());
    metrics.read_from(|| Readings { plugin_instances: 3, rejections: 2, source_errors: 1 });
    metrics.connection_refused("public".into());
    metrics.set_live([LiveRelease { model: model.clone(), version: 2, digest: "sha256:0".into() }]);
    let guards = vec![metrics.in_flight("predict".into()), metrics.connection("public".into()), metrics.queued(model)];
    (metrics, guards)
}

/// Name and label names of each line, histogram suffixes taken off.
fn exposed(text: &str) -> BTreeSet<(String, Vec<String>)> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let series = line.rsplit_once(' ').unwrap().0;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.trim_end_matches('}').split(',').filter_map(|pair| pair.split_once('='));
            let mut labels: Vec<_> = labels.map(|(name, _)| name.to_string()).filter(|name| name != "le").collect();
            labels.sort();
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix));
            (histogram.unwrap_or(name).to_string(), labels)
        })
        .collect()
}

#[test]
fn what_is_exposed_is_what_the_table_says() {
    let (metrics, _guards) = touched();
    let text = metrics.render();
    let table: BTreeSet<_> = TABLE
        .iter()
        .map(|row| {
            let mut labels: Vec<_> = row.labels.iter().map(ToString::to_string).collect();
            labels.sort();
            (row.name.to_string(), labels)
        })
        .collect();
    assert_eq!(exposed(&text), table);
    for row in TABLE {
        assert!(text.contains(&format!("# TYPE {} {}\n", row.name, row.kind.as_str())), "{}", row.name);
        assert!(text.contains(&format!("# HELP {} {}\n", row.name, row.help)), "{}", row.name);
    }
}

#[test]
fn requests_are_successes_and_failures() {
    let metrics = Metrics::new("0");
    for code in [OK, OK, "overloaded", "cancelled"] {
        metrics.request("score".into(), "m".into(), code.into(), Duration::from_millis(1));
    }
    let text = metrics.render();
    let sum: u64 = text
        .lines()
        .filter(|line| line.starts_with("sagehost_requests_total{"))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(sum, 4);
    assert!(text.contains(r#"sagehost_requests_total{endpoint="score",model="m",code="ok"} 2"#), "{text}");
    assert!(text.contains(r#"sagehost_request_duration_seconds_count{endpoint="score",model="m"} 4"#), "{text}");
}

#[test]
fn gauges_return_to_zero_with_their_guards() {
    let (metrics, guards) = touched();
    assert!(metrics.render().contains("sagehost_queue_depth{model=\"mule-risk\"} 1\n"));
    drop(guards);
    let text = metrics.render();
    for series in [
        "queue_depth{model=\"mule-risk\"}",
        "requests_in_flight{endpoint=\"predict\"}",
        "connections{listener=\"public\"}",
    ] {
        assert!(text.contains(&format!("sagehost_{series} 0\n")), "{series}");
    }
}

#[test]
fn live_releases_are_replaced() {
    let (metrics, _guards) = touched();
    metrics.set_live([LiveRelease { model: "mule-risk".into(), version: 3, digest: "sha256:1".into() }]);
    let text = metrics.render();
    assert!(text.contains("version=\"3\""));
    assert!(!text.contains("version=\"2\""));
}

#[test]
fn label_values_cannot_break_a_line() {
    let metrics = Metrics::new("0");
    let odd: Arc<str> = "a\"b\\c\nd".into();
    metrics.release_swapped(odd.into());
    assert!(metrics.render().contains(r#"sagehost_release_swaps_total{model="a\"b\\c\nd"} 1"#));
}

#[test]
fn buckets_rise() {
    for kind in [Kind::RequestTime, Kind::StageTime, Kind::Size] {
        assert!(kind.buckets().is_sorted_by(|a, b| a < b), "{kind:?}");
    }
    let ratio = |bounds: &[f64]| bounds.windows(2).map(|w| w[1] / w[0]).fold(0.0, f64::max);
    assert!(ratio(Kind::RequestTime.buckets()) < 1.3);
}
