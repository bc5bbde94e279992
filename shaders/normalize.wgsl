// y = act(x / max(‖x‖₂, 1e-12)) row by row, or act(y + …) with ACCUMULATE. One workgroup a row: 64 partial sums of squares in
// a fixed order, then a tree. A second sum, of scaled values, serves where the squares overflow: else such a row would
// become zeros without a word.

struct Params {
    rows: u32,
    dim: u32,
    flags: u32,
}

const ACCUMULATE: u32 = 2u;
const RELU: u32 = 8u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;

const TWO_TO_64: f32 = 18446744073709551616.0;
const TWO_TO_MINUS_64: f32 = 5.421010862427522e-20;

var<workgroup> partial: array<vec2<f32>, 64>;

@compute @workgroup_size(64)
fn normalize_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let row = group.x + group.y * groups.x;
    if (row >= params.rows) {
        return;
    }
    let start = row * params.dim;
    var squares = vec2<f32>(0.0);
    for (var col = local; col < params.dim; col += 64u) {
        let values = vec2<f32>(x[start + col], x[start + col] * TWO_TO_MINUS_64);
        squares = fma(values, values, squares);
    }
    partial[local] = squares;
    workgroupBarrier();
    for (var width = 32u; width > 0u; width = width / 2u) {
        if (local < width) {
            partial[local] += partial[local + width];
        }
        workgroupBarrier();
    }
    // A floor, not a maximum: a NaN norm must stay a NaN.
    let sums = partial[0];
    var norm = sqrt(sums.x);
    if (sums.x > 1e38) {
        norm = sqrt(sums.y) * TWO_TO_64;
    }
    if (norm < 1e-12) {
        norm = 1e-12;
    }
    for (var col = local; col < params.dim; col += 64u) {
        var value = x[start + col] / norm;
        if ((params.flags & ACCUMULATE) != 0u) {
            value = y[start + col] + value;
        }
        if ((params.flags & RELU) != 0u && value < 0.0) {
            value = 0.0;
        }
        y[start + col] = value;
    }
}
