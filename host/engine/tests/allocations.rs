//! After warm-up a forward pass allocates its output and no buffer of its own.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use sagehost_engine::plan::{Activation, Aggregator, Conv, Head, HeadActivation, Linear, Lstm, Matrix};
use sagehost_engine::plan::{Layer, ModelPlan};
use sagehost_engine::{Backend, Batch, CpuBackend, LayerBlocks, NoHooks, RelationBlock};

/// Not counted: `gemm` keeps some tens of bytes a call on the heap. The smallest buffer of rows here has 3 kB.
const SMALL: usize = 1024;

static BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory of the allocation.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= SMALL {
            BYTES.fetch_add(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NODES: usize = 500;
const DIM: usize = 64;

fn linear() -> Linear {
    Linear { weight: matrix(DIM), bias: None }
}

fn matrix(rows: usize) -> Matrix {
    Matrix { rows, cols: DIM, data: vec![0.01; rows * DIM] }
}

fn plan(aggregator: &Aggregator) -> ModelPlan {
    let conv = Conv {
        relation: 0,
        aggregator: aggregator.clone(),
        project: Some(linear()),
        neighbour: linear(),
        root: Some(linear()),
        normalize: true,
    };
    let layer = Layer { convs: vec![conv], activation: Activation::Relu, normalize_after: false };
    let head = Head { linear: Some(linear()), activation: HeadActivation::Softmax };
    ModelPlan { in_dim: DIM, scaler: None, layers: vec![layer.clone(), layer], head }
}

#[test]
fn scratch_is_used_again() {
    let lstm = Lstm {
        weight_ih: matrix(4 * DIM),
        weight_hh: matrix(4 * DIM),
        bias_ih: vec![0.0; 4 * DIM],
        bias_hh: vec![0.0; 4 * DIM],
        pad_to: None,
    };
    let relation = RelationBlock {
        offsets: (0..=NODES as u32).map(|i| i * 3).collect(),
        indices: (0..NODES as u32 * 3).map(|e| e * 7 % NODES as u32).collect(),
        coefficients: None,
    };
    let block = LayerBlocks {
        num_src: NODES,
        num_dst: NODES,
        dst_rows: (0..NODES as u32).collect(),
        relations: vec![relation],
    };
    let features = vec![0.5; NODES * DIM];
    let batch = Batch { features: &features, layers: vec![block.clone(), block] };
    for aggregator in [Aggregator::Mean, Aggregator::Max, Aggregator::Pool(linear()), Aggregator::Lstm(lstm)] {
        let model = CpuBackend::new().load(&plan(&aggregator)).expect("a valid plan");
        model.forward(&batch, &mut NoHooks).expect("a valid batch");
        let before = BYTES.load(Ordering::Relaxed);
        let output = model.forward(&batch, &mut NoHooks).expect("a valid batch");
        let own = BYTES.load(Ordering::Relaxed) - before;
        let returned = 4 * (output.embeddings.len() + output.logits.len() + output.scores.len());
        assert_eq!(own, returned, "bytes allocated and bytes returned");
    }
}
