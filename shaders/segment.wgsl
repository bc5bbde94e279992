// Aggregation of a destination's neighbour rows, read straight from the source rows through the block's offsets and
// indices (no gathered copy). One invocation computes one column of one destination, so that neighbouring invocations read
// neighbouring columns. Sums are over the block's edges in their order, by blocks of 32 (see Cascade).

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
// Edges of a block, blocks of a group, groups of a set.
const BLOCK: u32 = 32u;

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

// A sum by levels: edges into blocks, 32 blocks into a group, 32 groups into a set, the sets one after the other. No chain
// of roundings is longer than 32 up to a million edges, so that a hub's sum is as accurate as a leaf's. Where a level ends
// depends on the edge's number alone. No compensated sum (Kahan's, Neumaier's): Vulkan lets a compiler regard
// (a + b) - a - b as zero, and then nothing is left of it.
struct Cascade {
    blocks: u32,
    group: f32,
    groups: f32,
    sets: f32,
}

fn add_block(sum: ptr<function, Cascade>, block: f32) {
    (*sum).blocks += 1u;
    (*sum).group += block;
    if ((*sum).blocks % BLOCK == 0u) {
        (*sum).groups += (*sum).group;
        (*sum).group = 0.0;
    }
    if ((*sum).blocks % (BLOCK * BLOCK) == 0u) {
        (*sum).sets += (*sum).groups;
        (*sum).groups = 0.0;
    }
}

fn total_of(sum: Cascade) -> f32 {
    return sum.sets + (sum.groups + sum.group);
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
    var sum = Cascade(0u, 0.0, 0.0, 0.0);
    for (var first = at.begin; first < at.end; first += BLOCK) {
        let last = min(first + BLOCK, at.end);
        var block = 0.0;
        for (var edge = first; edge < last; edge++) {
            block += neighbour(edge, at.col);
        }
        add_block(&sum, block);
    }
    var total = total_of(sum);
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
    var sum = Cascade(0u, 0.0, 0.0, 0.0);
    for (var first = at.begin; first < at.end; first += BLOCK) {
        let last = min(first + BLOCK, at.end);
        var block = 0.0;
        for (var edge = first; edge < last; edge++) {
            block = fma(bitcast<f32>(ints[params.coefficients + edge]), neighbour(edge, at.col), block);
        }
        add_block(&sum, block);
    }
    y[at.dst * params.dim + at.col] = total_of(sum);
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
