//! What the process uses, read when metrics are asked for.

/// Resident memory in bytes, from `/proc/self/status`; `None` where there is no such file.
pub(crate) fn resident_bytes() -> Option<i64> {
    parse_resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

fn parse_resident(status: &str) -> Option<i64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: i64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    #[test]
    fn reads_the_kernels_format() {
        assert_eq!(super::parse_resident("VmHWM:\t 9 kB\nVmRSS:\t    1234 kB\nThreads: 1\n"), Some(1234 * 1024));
        assert_eq!(super::parse_resident("VmRSS:\tmany\n"), None);
    }
}
