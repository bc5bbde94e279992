// A one-layer LSTM over each destination's neighbours in the block's edge order; the result is the last step's hidden row,
// zeros where there is no step. One workgroup runs a whole destination, so that neither the number of dispatches nor any
// bit depends on other destinations' degrees.
//
// The input half of the gates, W_ih · x + b_ih, was computed once per source row by the gemm kernel into `gates`
// (sources × 4·hidden, in PyTorch's order: input, forget, cell, output). `w_hh` holds, for each input k and hidden unit j,
// the four gates' recurrent weights as one vec4 at k·hidden + j. `biases` is b_ih, then b_hh (4·hidden each).

struct Params {
    dsts: u32,
    hidden: u32,
    offsets: u32,
    indices: u32,
    // Steps to run whatever the degree, the missing rows being zero; 0: as many as there are neighbours.
    pad_to: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> gates: array<f32>;
@group(0) @binding(2) var<storage, read> w_hh: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> biases: array<f32>;
@group(0) @binding(4) var<storage, read> ints: array<u32>;
// dsts × 3 × hidden: two alternating hidden rows and the cell row.
@group(0) @binding(5) var<storage, read_write> state: array<f32>;
@group(0) @binding(6) var<storage, read_write> y: array<f32>;

// Cephes' expf: error below 1 ulp for results in the normal range; arguments are clamped to it, which saturates the
// sigmoid and the tanh that are built on it. The built-in exp may be off by 3 + 2·|x| ulp.
fn exp_f32(value: f32) -> f32 {
    // By bits, because a compiler may assume that there is no NaN; and a NaN must reach the score, where the host refuses it.
    if ((bitcast<u32>(value) & 0x7fffffffu) > 0x7f800000u) {
        return value;
    }
    let clamped = clamp(value, -87.0, 88.0);
    let n = floor(fma(clamped, 1.44269504, 0.5));
    var r = fma(n, -0.693359375, clamped);
    r = fma(n, 2.12194440e-4, r);
    var p = 1.9875691500e-4;
    p = fma(p, r, 1.3981999507e-3);
    p = fma(p, r, 8.3334519073e-3);
    p = fma(p, r, 4.1665795894e-2);
    p = fma(p, r, 1.6666665459e-1);
    p = fma(p, r, 5.0000001201e-1);
    let e = fma(p, r * r, r) + 1.0;
    return e * bitcast<f32>(u32(i32(n) + 127) << 23u);
}

fn sigmoid(value: f32) -> f32 {
    return 1.0 / (1.0 + exp_f32(-value));
}

// Cephes' tanhf.
fn tanh_f32(value: f32) -> f32 {
    let size = abs(value);
    if (size < 0.625) {
        let s = value * value;
        var p = -5.70498872745e-3;
        p = fma(p, s, 2.06390887954e-2);
        p = fma(p, s, -5.37397155531e-2);
        p = fma(p, s, 1.33314422036e-1);
        p = fma(p, s, -3.33332819422e-1);
        return fma(p * s, value, value);
    }
    let t = 1.0 - 2.0 / (exp_f32(2.0 * size) + 1.0);
    return select(t, -t, value < 0.0);
}

@compute @workgroup_size(64)
fn lstm(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let dst = group.x + group.y * groups.x;
    if (dst >= params.dsts) {
        return;
    }
    let hidden = params.hidden;
    let begin = ints[params.offsets + dst];
    let degree = ints[params.offsets + dst + 1u] - begin;
    let steps = max(degree, params.pad_to);
    let first = dst * 3u * hidden;
    let cell = first + 2u * hidden;

    for (var j = local; j < hidden; j += 64u) {
        state[first + j] = 0.0;
        state[cell + j] = 0.0;
    }
    storageBarrier();

    for (var step = 0u; step < steps; step++) {
        let now = first + (step % 2u) * hidden;
        let next = first + (1u - step % 2u) * hidden;
        for (var j = local; j < hidden; j += 64u) {
            var acc = vec4<f32>(0.0);
            for (var k = 0u; k < hidden; k++) {
                acc = fma(vec4<f32>(state[now + k]), w_hh[k * hidden + j], acc);
            }
            acc += vec4<f32>(biases[4u * hidden + j], biases[5u * hidden + j], biases[6u * hidden + j], biases[7u * hidden + j]);
            var from_x = vec4<f32>(biases[j], biases[hidden + j], biases[2u * hidden + j], biases[3u * hidden + j]);
            if (step < degree) {
                let row = ints[params.indices + begin + step] * 4u * hidden + j;
                from_x = vec4<f32>(gates[row], gates[row + hidden], gates[row + 2u * hidden], gates[row + 3u * hidden]);
            }
            let g = from_x + acc;
            let c = fma(sigmoid(g.y), state[cell + j], sigmoid(g.x) * tanh_f32(g.z));
            state[cell + j] = c;
            state[next + j] = sigmoid(g.w) * tanh_f32(c);
        }
        storageBarrier();
    }

    let last = first + (steps % 2u) * hidden;
    for (var j = local; j < hidden; j += 64u) {
        y[dst * hidden + j] = state[last + j];
    }
}
