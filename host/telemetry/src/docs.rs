//! `docs/metrics.md`, made from the table.

use std::fmt::Write as _;

use crate::families::{Kind, TABLE};

fn page() -> String {
    let mut text = String::from(
        "# Metrics\n\n\
         Made from the table in `host/telemetry/src/families.rs`; to make it anew, run\n\
         `SAGEHOST_UPDATE_DOCS=1 cargo test --release -p sagehost-telemetry`.\n\n\
         `GET /metrics` on either listener answers in the Prometheus text format. An empty `model` label means that no \
         model was found\nfor the request. A series appears with its first value.\n\n\
         | metric | kind | labels | meaning |\n|---|---|---|---|\n",
    );
    for row in TABLE {
        let labels = row.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "| `{}` | {} | {labels} | {} |", row.name, row.kind.as_str(), row.help);
    }
    text.push_str("\n## Buckets\n\n");
    for (kind, what) in [
        (Kind::RequestTime, "`sagehost_request_duration_seconds`, in seconds"),
        (Kind::StageTime, "`sagehost_stage_duration_seconds`, in seconds"),
        (Kind::Size, "`sagehost_batch_size`, in requests"),
    ] {
        let bounds = kind.buckets().iter().map(f64::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, "- {what}: {bounds}.");
    }
    text.push_str(
        "\n## Questions and their queries\n\n\
         | question | query |\n|---|---|\n\
         | requests per second | `sum by (endpoint) (rate(sagehost_requests_total[1m]))` |\n\
         | P99 (likewise P50, P95) | `histogram_quantile(0.99, sum by (le) (rate(sagehost_request_duration_seconds_bucket[5m])))` |\n\
         | error rate | `sum(rate(sagehost_requests_total{code!=\"ok\"}[5m])) / sum(rate(sagehost_requests_total[5m]))` |\n\
         | mean time by stage | `rate(sagehost_stage_duration_seconds_sum[5m]) / rate(sagehost_stage_duration_seconds_count[5m])` |\n\
         | mean batch | `rate(sagehost_batch_size_sum[5m]) / rate(sagehost_batch_size_count[5m])` |\n",
    );
    text
}

#[test]
fn the_page_says_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
    let page = page();
    if std::env::var_os("SAGEHOST_UPDATE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(there, page, "docs/metrics.md is out of date: SAGEHOST_UPDATE_DOCS=1 makes it anew");
}
