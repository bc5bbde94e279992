-- The end of every script: one line that `cargo xtask bench` reads.
function done(summary, latency, requests)
  local e = summary.errors
  local format = 'sagehost-bench {"requests": %d, "duration_us": %d, "errors": %d, "p50_us": %d, "p95_us": %d, "p99_us": %d}'
  print(string.format(format, summary.requests, summary.duration, e.connect + e.read + e.write + e.status + e.timeout,
    latency:percentile(50), latency:percentile(95), latency:percentile(99)))
end
