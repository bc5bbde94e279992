use std::collections::HashMap;

use safetensors::tensor::{Dtype, TensorView, serialize};

use super::*;

fn file(tensors: &[(&str, Dtype, &[usize], Vec<u8>)]) -> Vec<u8> {
    let views: HashMap<String, TensorView<'_>> = tensors
        .iter()
        .map(|(name, dtype, shape, data)| {
            ((*name).to_owned(), TensorView::new(*dtype, shape.to_vec(), data).expect("consistent shape"))
        })
        .collect();
    serialize(views, None).expect("serialisable")
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn zeros(len: usize) -> Vec<u8> {
    f32s(&vec![0.25; len])
}

#[test]
fn a_missing_tensor_is_named_with_its_relatives() {
    let bytes = file(&[
        ("convs.0.lin_l.weight", Dtype::F32, &[2, 1], zeros(2)),
        ("convs.0.fc.weight", Dtype::F32, &[2, 1], zeros(2)),
        ("head.weight", Dtype::F32, &[2, 1], zeros(2)),
    ]);
    let mut weights = Weights::open(&bytes).expect("opens");
    let text = weights.matrix("convs.0.lin_r.weight", None, None).expect_err("missing").to_string();
    assert!(text.contains("`convs.0.lin_r.weight`") && text.contains("`convs.0.lin_l.weight`"), "{text}");
    assert!(!text.contains("head.weight"), "{text}");
    let text = weights.vector("nothing", None).expect_err("missing").to_string();
    assert!(text.contains("head.weight"), "{text}");
}

#[test]
fn shapes_types_and_values_are_checked() {
    let bytes = file(&[
        ("m", Dtype::F32, &[2, 3], zeros(6)),
        ("nan", Dtype::F32, &[2], f32s(&[0.0, f32::NAN])),
        ("inf", Dtype::F32, &[1], f32s(&[f32::INFINITY])),
        ("ints", Dtype::I64, &[1], vec![0; 8]),
    ]);
    let mut weights = Weights::open(&bytes).expect("opens");
    assert!(weights.matrix("m", Some(2), Some(3)).is_ok());
    for (found, says) in [
        (weights.matrix("m", Some(3), None).map(|_| ()), "expected [3, any]"),
        (weights.vector("m", None).map(|_| ()), "[2, 3]"),
        (weights.vector("nan", None).map(|_| ()), "NaN at flat index 1"),
        (weights.vector("inf", None).map(|_| ()), "inf at flat index 0"),
        (weights.vector("ints", None).map(|_| ()), "I64"),
    ] {
        let text = found.expect_err(says).to_string();
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(weights.unused(), ["inf", "ints", "nan"]);
    assert!(Weights::open(b"not safetensors").is_err());
}

#[test]
fn half_precision_is_widened_exactly() {
    let halves: Vec<u8> =
        [0x3c00u16, 0xc000, 0x7bff, 0x0001, 0x0400, 0x3555].iter().flat_map(|h| h.to_le_bytes()).collect();
    let brains: Vec<u8> = [0x3f80u16, 0xc000].iter().flat_map(|h| h.to_le_bytes()).collect();
    let bytes = file(&[("h", Dtype::F16, &[6], halves), ("b", Dtype::BF16, &[2], brains)]);
    let mut weights = Weights::open(&bytes).expect("opens");
    let h = weights.vector("h", None).expect("f16");
    assert_eq!(h, [1.0, -2.0, 65504.0, 2f32.powi(-24), 2f32.powi(-14), 0.333_251_95]);
    assert_eq!(weights.vector("b", None).expect("bf16"), [1.0, -2.0]);
}

#[test]
fn dgl_biases_are_summed_wherever_they_are() {
    let bytes = file(&[
        ("l.fc_neigh.weight", Dtype::F32, &[2, 1], zeros(2)),
        ("l.fc_neigh.bias", Dtype::F32, &[2], f32s(&[1.0, 2.0])),
        ("l.fc_self.weight", Dtype::F32, &[2, 1], zeros(2)),
        ("l.fc_self.bias", Dtype::F32, &[2], f32s(&[10.0, 20.0])),
        ("l.bias", Dtype::F32, &[2], f32s(&[100.0, 200.0])),
    ]);
    let mut weights = Weights::open(&bytes).expect("opens");
    let conv = weights.dgl_conv("l", ConvOptions::new(AggregatorKind::Mean)).expect("reads");
    assert_eq!(conv.neighbour.bias, Some(vec![111.0, 222.0]));
    assert_eq!(conv.root.expect("has a root").bias, None);
    assert!(weights.unused().is_empty());
}

#[test]
fn layouts_refuse_what_they_do_not_have() {
    let bytes = file(&[("lin_l.weight", Dtype::F32, &[2, 1], zeros(2))]);
    let mut weights = Weights::open(&bytes).expect("opens");
    let text = weights.pyg_conv("", ConvOptions::new(AggregatorKind::Lstm)).expect_err("no length").to_string();
    assert!(text.contains("pad_to"), "{text}");
    let text = weights.pyg_conv("", ConvOptions::new(AggregatorKind::Gcn)).expect_err("not PyG").to_string();
    assert!(text.contains("DGL"), "{text}");
    let options = ConvOptions { project: true, ..ConvOptions::new(AggregatorKind::Mean) };
    assert!(weights.dgl_conv("", options).is_err());
}
