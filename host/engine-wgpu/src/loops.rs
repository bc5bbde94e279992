//! How often the kernels' loops run.
//!
//! Mesa's llvmpipe ends a shader invocation's loops after 65,535 iterations, all of its loops together, and reports nothing
//! (`LP_MAX_TGSI_LOOP_ITERATIONS`): a hub's sum would come out too small without a word. Work that takes more is refused
//! there. The tests hold these counts to llvmpipe's own. SwiftShader has no such limit, and none is known of a GPU's driver.

/// Iterations that all loops of an invocation have together on a driver of this name; `None`: as many as they want.
pub(crate) fn limit(driver: &str) -> Option<u64> {
    (driver == "llvmpipe").then_some(65_535)
}

/// Iterations of `gemm` over `inner`. Here and below a loop's last test, the one that fails, counts as well.
pub(crate) fn gemm(inner: usize) -> u64 {
    let stores = 4 * 5;
    inner.div_ceil(16) as u64 * (16 + 1 + 1) + 1 + stores
}

/// Iterations of `segment_sum` and `segment_weighted` for a destination with `degree` neighbours.
pub(crate) fn sum(degree: u32) -> u64 {
    u64::from(degree).div_ceil(32) * (32 + 1 + 1) + 1
}

/// Iterations of `segment_max`.
pub(crate) fn max(degree: u32) -> u64 {
    u64::from(degree) + 1
}

/// Iterations of `lstm` over so many steps.
pub(crate) fn lstm(steps: u32, hidden: usize) -> u64 {
    let units = hidden.div_ceil(64) as u64;
    // The third is the barrier's, found by trying (Mesa 22.3).
    let step = units.saturating_mul(hidden as u64 + 2) + 3;
    u64::from(steps).saturating_mul(step).saturating_add(1 + 2 * (units + 1))
}

/// Iterations of `normalize_rows` over rows of `dim`.
pub(crate) fn normalize(dim: usize) -> u64 {
    let tree = 6 + 1;
    2 * (dim.div_ceil(64) as u64 + 1) + tree
}
