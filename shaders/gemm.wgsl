// y = act(x · wᵀ + bias), or act(y + (x · wᵀ + bias)) with ACCUMULATE.
//
// x: rows × inner, row-major; with GATHER row i of the product reads row ints[row_index + i] of x.
// w: cols × inner, row-major, as PyTorch writes a Linear's weight. y: rows × cols, row-major.
//
// One workgroup computes a tile of 32 rows × 64 columns, one invocation 4 × 4 of it. Every element is one chain of fused
// multiply-adds over k = 0, 1, …, inner - 1, whatever its place in a tile and however many rows there are: that is what
// makes a row's bits independent of its batch. Fixed sizes: 128 invocations and 6.5 KiB of shared memory fit every device.

struct Params {
    rows: u32,
    cols: u32,
    inner: u32,
    flags: u32,
    row_index: u32,
}

const GATHER: u32 = 1u;
const ACCUMULATE: u32 = 2u;
const BIAS: u32 = 4u;
const RELU: u32 = 8u;

const TILE_ROWS: u32 = 32u;
const TILE_COLS: u32 = 64u;
const TILE_INNER: u32 = 16u;
// Shared rows are one vec4 longer than the tile, so that the transposing writes fall into different banks.
const X_PITCH: u32 = 9u;
const W_PITCH: u32 = 17u;

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> w: array<f32>;
@group(0) @binding(3) var<storage, read> bias: array<f32>;
@group(0) @binding(4) var<storage, read> ints: array<u32>;
@group(0) @binding(5) var<storage, read_write> y: array<f32>;

// [k][four rows] and [k][four columns].
var<workgroup> x_tile: array<vec4<f32>, 144>;
var<workgroup> w_tile: array<vec4<f32>, 272>;

// Where row `row` starts in x. A row past the end reads row 0; nothing of it is stored.
fn x_start(row: u32) -> u32 {
    let inside = select(0u, row, row < params.rows);
    if ((params.flags & GATHER) != 0u) {
        return ints[params.row_index + inside] * params.inner;
    }
    return inside * params.inner;
}

fn w_start(col: u32) -> u32 {
    return select(0u, col, col < params.cols) * params.inner;
}

// Zero past the inner dimension on both sides: fma(0, 0, acc) adds nothing, whatever the data.
fn x_at(start: u32, k: u32) -> f32 {
    if (k < params.inner) {
        return x[start + k];
    }
    return 0.0;
}

fn w_at(start: u32, k: u32) -> f32 {
    if (k < params.inner) {
        return w[start + k];
    }
    return 0.0;
}

fn store(row: u32, first_col: u32, acc: vec4<f32>) {
    if (row >= params.rows) {
        return;
    }
    var values = acc;
    for (var i = 0u; i < 4u; i++) {
        let col = first_col + i;
        if (col < params.cols) {
            let at = row * params.cols + col;
            var value = values[i];
            if ((params.flags & BIAS) != 0u) {
                value += bias[col];
            }
            if ((params.flags & ACCUMULATE) != 0u) {
                value = y[at] + value;
            }
            // Not max(): a NaN must stay a NaN, so that the host refuses the score.
            if ((params.flags & RELU) != 0u && value < 0.0) {
                value = 0.0;
            }
            y[at] = value;
        }
    }
}

@compute @workgroup_size(128)
fn gemm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let tile = group.x + group.y * groups.x;
    let col_tiles = (params.cols + TILE_COLS - 1u) / TILE_COLS;
    let row_tile = tile / col_tiles;
    let first_row = row_tile * TILE_ROWS;
    let first_col = (tile % col_tiles) * TILE_COLS;
    // The last line of a two-dimensional dispatch is not full.
    if (first_row >= params.rows) {
        return;
    }

    // Loading: 16 neighbouring invocations read 16 neighbouring k of four rows.
    let load_k = local % TILE_INNER;
    let load_group = local / TILE_INNER;
    let row = first_row + load_group * 4u;
    let x_starts = vec4<u32>(x_start(row), x_start(row + 1u), x_start(row + 2u), x_start(row + 3u));
    let col = first_col + load_group * 4u;
    let w_starts_a = vec4<u32>(w_start(col), w_start(col + 1u), w_start(col + 2u), w_start(col + 3u));
    let w_starts_b = vec4<u32>(w_start(col + 32u), w_start(col + 33u), w_start(col + 34u), w_start(col + 35u));

    // Computing: 8 groups of four rows × 16 groups of four columns.
    let my_rows = local / 16u;
    let my_cols = local % 16u;
    var acc_0 = vec4<f32>(0.0);
    var acc_1 = vec4<f32>(0.0);
    var acc_2 = vec4<f32>(0.0);
    var acc_3 = vec4<f32>(0.0);

    for (var k = 0u; k < params.inner; k += TILE_INNER) {
        let at = k + load_k;
        x_tile[load_k * X_PITCH + load_group] =
            vec4<f32>(x_at(x_starts.x, at), x_at(x_starts.y, at), x_at(x_starts.z, at), x_at(x_starts.w, at));
        w_tile[load_k * W_PITCH + load_group] =
            vec4<f32>(w_at(w_starts_a.x, at), w_at(w_starts_a.y, at), w_at(w_starts_a.z, at), w_at(w_starts_a.w, at));
        w_tile[load_k * W_PITCH + load_group + 8u] =
            vec4<f32>(w_at(w_starts_b.x, at), w_at(w_starts_b.y, at), w_at(w_starts_b.z, at), w_at(w_starts_b.w, at));
        workgroupBarrier();

        for (var i = 0u; i < TILE_INNER; i++) {
            let a = x_tile[i * X_PITCH + my_rows];
            let b = w_tile[i * W_PITCH + my_cols];
            acc_0 = fma(vec4<f32>(a.x), b, acc_0);
            acc_1 = fma(vec4<f32>(a.y), b, acc_1);
            acc_2 = fma(vec4<f32>(a.z), b, acc_2);
            acc_3 = fma(vec4<f32>(a.w), b, acc_3);
        }
        workgroupBarrier();
    }

    let out_row = first_row + my_rows * 4u;
    let out_col = first_col + my_cols * 4u;
    store(out_row, out_col, acc_0);
    store(out_row + 1u, out_col, acc_1);
    store(out_row + 2u, out_col, acc_2);
    store(out_row + 3u, out_col, acc_3);
}
