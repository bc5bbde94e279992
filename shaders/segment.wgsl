// Aggregation of a destination's neighbour rows, read straight from the source rows through the block's offsets and
// indices (no gathered copy). One invocation computes one column of one destination, so that neighbouring invocations read
// neighbouring columns. The order of the sum is the block's edge order, in partial sums of CHUNK edges.

struct Params {
    dsts: u32,
    dim: u32,
    mode: u32,
    // Where each list starts in `ints`.
    offsets: u32,
    indices: u32,
    dst_rows: u32,
    coefficients: u32,
}

const MEAN: u32 = 1u;
const GCN: u32 = 2u;
// Partial sums keep the rounding error of a hub's sum near that of a pairwise sum.
const CHUNK: u32 = 64u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> ints: array<u32>;
@group(0) @binding(3) var<storage, read_write> y: array<f32>;

struct Place {
    inside: bool,
    dst: u32,
    col: u32,
    begin: u32,
    end: u32,
}

fn place(group: vec3<u32>, groups: vec3<u32>, local: u32) -> Place {
    let id = (group.x + group.y * groups.x) * 64u + local;
    if (id >= params.dsts * params.dim) {
        return Place(false, 0u, 0u, 0u, 0u);
    }
    let dst = id / params.dim;
    return Place(true, dst, id % params.dim, ints[params.offsets + dst], ints[params.offsets + dst + 1u]);
}

fn neighbour(edge: u32, col: u32) -> f32 {
    return x[ints[params.indices + edge] * params.dim + col];
}

// Sum, mean, or DGL's gcn: (sum + own row) / (degree + 1).
@compute @workgroup_size(64)
fn segment_sum(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = place(group, groups, local);
    if (!at.inside) {
        return;
    }
    var total = 0.0;
    for (var first = at.begin; first < at.end; first += CHUNK) {
        let last = min(first + CHUNK, at.end);
        var part = 0.0;
        for (var edge = first; edge < last; edge++) {
            part += neighbour(edge, at.col);
        }
        total += part;
    }
    let degree = at.end - at.begin;
    if (params.mode == MEAN && degree > 0u) {
        total = total / f32(degree);
    }
    if (params.mode == GCN) {
        let own = x[ints[params.dst_rows + at.dst] * params.dim + at.col];
        total = (total + own) / f32(degree + 1u);
    }
    y[at.dst * params.dim + at.col] = total;
}

// Σ coefficient · x.
@compute @workgroup_size(64)
fn segment_weighted(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = place(group, groups, local);
    if (!at.inside) {
        return;
    }
    var total = 0.0;
    for (var first = at.begin; first < at.end; first += CHUNK) {
        let last = min(first + CHUNK, at.end);
        var part = 0.0;
        for (var edge = first; edge < last; edge++) {
            part = fma(bitcast<f32>(ints[params.coefficients + edge]), neighbour(edge, at.col), part);
        }
        total += part;
    }
    y[at.dst * params.dim + at.col] = total;
}

// By bits: a compiler may assume that a float comparison never meets a NaN.
fn is_nan(value: f32) -> bool {
    return (bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u;
}

// Element-wise maximum; 0 without neighbours, NaN if any of them is NaN.
@compute @workgroup_size(64)
fn segment_max(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let at = place(group, groups, local);
    if (!at.inside) {
        return;
    }
    var largest = 0.0;
    if (at.begin < at.end) {
        largest = neighbour(at.begin, at.col);
        for (var edge = at.begin + 1u; edge < at.end; edge++) {
            let value = neighbour(edge, at.col);
            if (value > largest || is_nan(value)) {
                largest = value;
            }
            if (is_nan(largest)) {
                break;
            }
        }
    }
    y[at.dst * params.dim + at.col] = largest;
}
