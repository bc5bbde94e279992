//! What the tests on one Vulkan device share.
//!
//! The Vulkan loader reads its environment when it is first used, and changing a running process's environment is not
//! safe. So each test runs itself again in a process of its own whose environment names the one driver. A missing driver
//! fails the test, unless `SAGEHOST_SKIP_GPU_TESTS=1` says that this machine has none.

use std::path::Path;
use std::process::Command;
use std::time::Instant;

use sagehost_engine::conformance::{self, OwnedBatch, Rng};
use sagehost_engine::plan::{
    Activation, Aggregator, Conv, Head, HeadActivation, Layer, Linear, Lstm, Matrix, ModelPlan,
};
use sagehost_engine::{Backend, EngineError, LayerBlocks, NoHooks, RelationBlock};
use sagehost_engine_wgpu::{KERNEL_GENERATION, Selector, WgpuBackend, adapters};

const CHILD: &str = "SAGEHOST_GPU_TEST_CHILD";

/// A driver and the device that it offers.
pub(crate) struct Driver {
    /// Where its manifest may lie; the first that exists.
    pub(crate) manifests: &'static [&'static str],
    /// Part of the adapter's name.
    pub(crate) adapter: &'static str,
    /// The Debian package that brings it.
    pub(crate) package: &'static str,
    /// Ends a shader's loops after 65,535 iterations.
    pub(crate) cuts_loops: bool,
}

impl Driver {
    /// Runs `body` in a process in which the loader sees this driver only. `test` is the calling test's name.
    pub(crate) fn run(&self, test: &str, body: impl FnOnce(&WgpuBackend)) {
        if std::env::var_os(CHILD).is_some() {
            body(&self.backend());
            return;
        }
        let Some(manifest) = self.manifests.iter().find(|path| Path::new(path).exists()) else {
            if std::env::var("SAGEHOST_SKIP_GPU_TESTS").is_ok_and(|value| value == "1") {
                eprintln!("{test}: SKIPPED, {} has no driver here", self.adapter);
                return;
            }
            panic!(
                "no Vulkan driver at {:?}: apt-get install -y --no-install-recommends libvulkan1 {}, or set \
                 SAGEHOST_SKIP_GPU_TESTS=1",
                self.manifests, self.package
            );
        };
        let output = Command::new(std::env::current_exe().expect("the test's own path"))
            .args([test, "--exact", "--nocapture", "--test-threads=1"])
            .env(CHILD, "1")
            .env("VK_DRIVER_FILES", manifest)
            // The older name of the same variable.
            .env("VK_ICD_FILENAMES", manifest)
            // Mesa's layer that orders devices for a desktop, and complains where there is none.
            .env("NODEVICE_SELECT", "1")
            .output()
            .expect("the test starts again");
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        print!("{text}");
        // A filter that matches no test succeeds too.
        let ran = output.status.success() && text.contains("1 passed");
        assert!(ran, "{test} on {}: {}\n{text}", self.adapter, output.status);
    }

    fn backend(&self) -> WgpuBackend {
        let selector = Selector { name_contains: Some(self.adapter.into()), allow_software: true };
        WgpuBackend::new(&selector).unwrap_or_else(|e| panic!("{}: {e}", self.adapter))
    }

    /// The whole conformance suite.
    pub(crate) fn conformance(&self, test: &str) {
        self.run(test, |backend| {
            let start = Instant::now();
            let report = conformance::check(backend);
            eprintln!(
                "{}: {} cases in {:.1} s, worst error {:.1e} in {}",
                backend.numerics_id(),
                report.cases,
                start.elapsed().as_secs_f64(),
                report.worst.0,
                report.worst.1
            );
            report.assert_passed();
            assert!(report.cases > 50, "the suite has shrunk to {} cases", report.cases);
        });
    }

    /// Listing, choosing and refusing of adapters.
    pub(crate) fn selection(&self, test: &str) {
        self.run(test, |backend| {
            let found = adapters();
            let own = found.iter().find(|a| a.name == backend.adapter_name()).expect("the open adapter is listed");
            assert!(own.software);
            assert!(backend.numerics_id().starts_with(&format!("wgpu/vulkan/{}", own.name)));
            let generation = format!("/{KERNEL_GENERATION}");
            assert!(backend.numerics_id().ends_with(&generation), "{}", backend.numerics_id());
            let refused = |selector: Selector| WgpuBackend::new(&selector).err().expect("refused").to_string();
            let other = refused(Selector { name_contains: Some("no such device".into()), allow_software: true });
            assert!(other.contains("no such device") && other.contains(&own.name), "{other}");
            let strict = refused(Selector::default());
            assert!(strict.contains("software"), "{strict}");
        });
    }

    /// More workgroups than one dimension of a dispatch takes, in every kernel that has one a row or an element.
    pub(crate) fn large_dispatches(&self, test: &str) {
        self.run(test, |backend| {
            // 64 columns make 65,538 workgroups of the segment kernel, and as many rows for the one that normalises.
            const ROWS: usize = 65_538;
            const COLS: usize = 4;
            let plan = plan(Aggregator::Sum, [64, COLS], true);
            let batch = ring(ROWS, 64);
            let model = backend.load(&plan).expect("a valid plan");
            let output = model.forward(&batch.borrow(), &mut NoHooks).expect("a large batch");
            let want = sagehost_engine::reference::forward(&plan, &batch.borrow(), &|_, _, _| vec![]);
            assert_eq!(output.embeddings.len(), ROWS * COLS);
            for (i, (got, want)) in output.embeddings.iter().zip(&want.embeddings.data).enumerate() {
                assert!((f64::from(*got) - want).abs() <= 1e-5, "row {}: {got} instead of {want}", i / COLS);
            }
        });
    }

    /// A batch over a buffer's limit is refused by name, and the model goes on working.
    pub(crate) fn oversized_batch(&self, test: &str) {
        self.run(test, |backend| {
            // A projection of 2^17 sources to 2^15 columns would take 16 GiB.
            let mut plan = plan(Aggregator::Mean, [1, 1], false);
            let wide = 1 << 15;
            plan.layers[0].convs[0].project =
                Some(Linear { weight: Matrix { rows: wide, cols: 1, data: vec![1.0; wide] }, bias: None });
            plan.layers[0].convs[0].neighbour.weight = Matrix { rows: 1, cols: wide, data: vec![1.0; wide] };
            let model = backend.load(&plan).expect("the weights fit");
            let large = ring(1 << 17, 1);
            match model.forward(&large.borrow(), &mut NoHooks) {
                Err(EngineError::Batch(message)) => assert!(message.contains("projected rows"), "{message}"),
                other => panic!("{other:?} instead of a refusal"),
            }
            let small = ring(3, 1);
            let output = model.forward(&small.borrow(), &mut NoHooks).expect("a small batch after the refusal");
            assert_eq!(output.embeddings.len(), 3);
        });
    }

    /// A fault must not look like a zero: NaN goes through every kernel and reaches only the rows that read it. Rows whose
    /// squares overflow are normalised all the same.
    pub(crate) fn extreme_values(&self, test: &str) {
        self.run(test, |backend| {
            let mut rng = Rng(5);
            let mut matrix = |rows, cols| Matrix { rows, cols, data: rng.values(rows * cols, 0.5) };
            let pool = Linear { weight: matrix(4, 4), bias: None };
            let lstm = Lstm {
                weight_ih: matrix(16, 4),
                weight_hh: matrix(16, 4),
                bias_ih: vec![0.1; 16],
                bias_hh: vec![0.2; 16],
                pad_to: None,
            };
            let aggregators = [
                Aggregator::Mean,
                Aggregator::Sum,
                Aggregator::Max,
                Aggregator::Gcn,
                Aggregator::Pool(pool),
                Aggregator::Lstm(lstm),
            ];
            for aggregator in aggregators {
                for normalize in [false, true] {
                    let name = format!("{aggregator:?}, normalised: {normalize}");
                    let mut plan = plan(aggregator.clone(), [4, 4], normalize);
                    // Only the aggregated rows, so that no NaN comes in by the side.
                    plan.layers[0].convs[0].root = None;
                    let mut batch = ring(4, 4);
                    batch.features[..4].fill(f32::NAN);
                    let model = backend.load(&plan).expect("a valid plan");
                    let output = model.forward(&batch.borrow(), &mut NoHooks).expect("runs");
                    for (row, values) in output.scores.chunks(4).enumerate() {
                        let reads_nan = row < 2;
                        assert!(values.iter().all(|v| v.is_nan() == reads_nan), "{name}: row {row} is {values:?}");
                    }
                }
            }
            let plan = plan(Aggregator::Sum, [4, 4], true);
            let mut batch = ring(5, 4);
            batch.features.iter_mut().for_each(|v| *v *= 1e30);
            let output = backend.load(&plan).expect("valid").forward(&batch.borrow(), &mut NoHooks).expect("runs");
            let want = sagehost_engine::reference::forward(&plan, &batch.borrow(), &|_, _, _| vec![]);
            for (got, want) in output.embeddings.iter().zip(&want.embeddings.data) {
                assert!((f64::from(*got) - want).abs() <= 1e-5, "{got} instead of {want}");
            }
        });
    }

    /// The sum over very many neighbours of one sign is as accurate as the suite's smaller ones, and has the same bits
    /// beside other destinations.
    pub(crate) fn large_hub(&self, test: &str) {
        self.run(test, |backend| {
            let neighbours = if self.cuts_loops { 61_000 } else { 1_000_000 };
            for aggregator in [Aggregator::Sum, Aggregator::Mean, Aggregator::Gcn, Aggregator::Coefficients] {
                let name = format!("{aggregator:?}");
                let plan = bare_plan(aggregator, 3);
                let model = backend.load(&plan).expect("a valid plan");
                let alone = hub(&plan, 0, neighbours);
                let got = model.forward(&alone.borrow(), &mut NoHooks).expect("runs").embeddings;
                let want = sagehost_engine::reference::forward(&plan, &alone.borrow(), &|_, _, _| vec![]).embeddings;
                for (got, want) in got.iter().zip(&want.data) {
                    let error = (f64::from(*got) / want - 1.0).abs();
                    assert!(error <= 3e-6, "{name}: {got} instead of {want}, off by {error:.1e}");
                }
                let both = hub(&plan, 37, neighbours);
                let both = model.forward(&both.borrow(), &mut NoHooks).expect("runs").embeddings;
                assert_eq!(both[3..], got, "{name} beside another destination");
            }
        });
    }

    /// llvmpipe ends a shader's loops after 65,535 iterations: the longest neighbourhood that is not refused there is
    /// computed to its end, and one more neighbour is refused. Other devices compute both.
    pub(crate) fn long_loops(&self, test: &str) {
        self.run(test, |backend| {
            let mut rng = Rng(9);
            let hidden = 64;
            let lstm = Lstm {
                weight_ih: Matrix { rows: 4 * hidden, cols: hidden, data: rng.values(4 * hidden * hidden, 0.2) },
                weight_hh: Matrix { rows: 4 * hidden, cols: hidden, data: rng.values(4 * hidden * hidden, 0.2) },
                bias_ih: rng.values(4 * hidden, 0.5),
                bias_hh: rng.values(4 * hidden, 0.5),
                pad_to: None,
            };
            let longest = [
                (Aggregator::Sum, 61_664),
                (Aggregator::Coefficients, 61_664),
                (Aggregator::Max, 65_534),
                (Aggregator::Lstm(lstm), 949),
            ];
            for (aggregator, longest) in longest {
                let dim = if matches!(aggregator, Aggregator::Lstm(_)) { hidden } else { 3 };
                let plan = bare_plan(aggregator, dim);
                let model = backend.load(&plan).expect("a valid plan");
                for neighbours in [longest, longest + 1] {
                    let mut batch = hub(&plan, 0, neighbours);
                    // The maximum is the last neighbour's, and no other's.
                    let last = batch.features.len() - dim;
                    batch.features[last..].fill(1.75);
                    let block = &mut batch.layers[0].relations[0];
                    for index in &mut block.indices {
                        *index = (*index).min(SOURCES as u32 - 2);
                    }
                    block.indices[neighbours - 1] = SOURCES as u32 - 1;
                    let got = model.forward(&batch.borrow(), &mut NoHooks);
                    if self.cuts_loops && neighbours > longest {
                        match got {
                            Err(EngineError::Batch(message)) => assert!(message.contains("loops"), "{message}"),
                            other => panic!("{other:?} instead of a refusal of {neighbours} neighbours"),
                        }
                        continue;
                    }
                    let got = got.expect("runs").embeddings;
                    let want =
                        sagehost_engine::reference::forward(&plan, &batch.borrow(), &|_, _, _| vec![]).embeddings;
                    let largest = want.data.iter().fold(0.0f64, |most, v| most.max(v.abs()));
                    for (got, want) in got.iter().zip(&want.data) {
                        let error = (f64::from(*got) - want).abs() / largest;
                        assert!(error <= 3e-6, "{neighbours} neighbours: {got} instead of {want}");
                    }
                }
            }
            // The widest product that is not refused, and one more.
            let mut plan = bare_plan(Aggregator::Mean, 1);
            for (width, fits) in [(58_224, true), (58_225, !self.cuts_loops)] {
                plan.in_dim = width;
                plan.layers[0].convs[0].neighbour.weight =
                    Matrix { rows: 1, cols: width, data: (0..width).map(|i| (i % 3) as f32 / 4096.0).collect() };
                match (backend.load(&plan), fits) {
                    (Err(EngineError::Device(message)), false) => assert!(message.contains("loops"), "{message}"),
                    (Ok(model), true) => {
                        let batch = ring(2, width);
                        let got = model.forward(&batch.borrow(), &mut NoHooks).expect("runs").embeddings;
                        let want = sagehost_engine::reference::forward(&plan, &batch.borrow(), &|_, _, _| vec![]);
                        for (got, want) in got.iter().zip(&want.embeddings.data) {
                            assert!((f64::from(*got) - want).abs() <= 1e-5, "{width}: {got} instead of {want}");
                        }
                    }
                    (Ok(_), false) => panic!("a width of {width} was taken"),
                    (Err(error), _) => panic!("{error}"),
                }
            }
        });
    }

    /// A warm model creates neither buffers nor bind groups: the same batch again costs no allocation on the device.
    pub(crate) fn warm_model(&self, test: &str) {
        self.run(test, |backend| {
            let model = backend.load(&plan(Aggregator::Mean, [8, 4], true)).expect("a valid plan");
            let batch = ring(300, 8);
            let first = model.forward(&batch.borrow(), &mut NoHooks).expect("runs");
            let created = backend.objects_created();
            for rows in [300, 7, 120] {
                model.forward(&ring(rows, 8).borrow(), &mut NoHooks).expect("runs");
            }
            assert_eq!(model.forward(&batch.borrow(), &mut NoHooks).expect("runs"), first);
            assert_eq!(backend.objects_created(), created);
        });
    }
}

/// One layer with a root term, and a sigmoid head where `normalize` is off.
fn plan(aggregator: Aggregator, dims: [usize; 2], normalize: bool) -> ModelPlan {
    let mut rng = Rng(3);
    let mut linear = |bias: bool| Linear {
        weight: Matrix { rows: dims[1], cols: dims[0], data: rng.values(dims[0] * dims[1], 0.2) },
        bias: bias.then(|| rng.values(dims[1], 0.5)),
    };
    let conv =
        Conv { relation: 0, aggregator, project: None, neighbour: linear(true), root: Some(linear(false)), normalize };
    let layer = Layer { convs: vec![conv], activation: Activation::Relu, normalize_after: false };
    let head = Head { linear: None, activation: HeadActivation::Sigmoid };
    ModelPlan { in_dim: dims[0], scaler: None, layers: vec![layer], head }
}

/// One layer that gives the aggregated rows of `dim` as they are.
fn bare_plan(aggregator: Aggregator, dim: usize) -> ModelPlan {
    let data = (0..dim * dim).map(|i| if i % (dim + 1) == 0 { 1.0 } else { 0.0 }).collect();
    let neighbour = Linear { weight: Matrix { rows: dim, cols: dim, data }, bias: None };
    let conv = Conv { relation: 0, aggregator, project: None, neighbour, root: None, normalize: false };
    let layer = Layer { convs: vec![conv], activation: Activation::None, normalize_after: false };
    ModelPlan { in_dim: dim, scaler: None, layers: vec![layer], head: Head::default() }
}

/// Rows of a [`hub`]'s batch.
const SOURCES: usize = 64;

/// A destination with `neighbours`, all of whose columns are positive and whose first is the same for all; behind another
/// one with `before` neighbours where that is not 0. Neither neighbours nor coefficients of the hub depend on `before`.
fn hub(plan: &ModelPlan, before: usize, neighbours: usize) -> OwnedBatch {
    let dim = plan.in_dim;
    let mut rng = Rng(11);
    let mut features: Vec<f32> = rng.values(SOURCES * dim, 1.0).iter().map(|v| v.abs() + 0.3).collect();
    features.chunks_mut(dim).for_each(|row| row[0] = 0.1);
    let mut block = RelationBlock { offsets: vec![0], ..RelationBlock::default() };
    let mut coefficients = vec![];
    for degree in [before, neighbours].into_iter().filter(|degree| *degree > 0) {
        let mut rng = Rng(degree as u64);
        block.indices.extend((0..degree).map(|_| rng.below(SOURCES) as u32));
        block.offsets.push(block.indices.len() as u32);
        coefficients.extend(rng.values(degree, 1.0).iter().map(|v| v.abs() + 0.1));
    }
    block.coefficients = (plan.layers[0].convs[0].aggregator == Aggregator::Coefficients).then_some(coefficients);
    let dsts = block.offsets.len() - 1;
    // The hub's own row is 0 in either batch.
    let dst_rows = (0..dsts as u32).rev().collect();
    let layer = LayerBlocks { num_src: SOURCES, num_dst: dsts, dst_rows, relations: vec![block] };
    OwnedBatch { in_dim: dim, features, layers: vec![layer] }
}

/// Every row reads itself and the row before it.
fn ring(rows: usize, dim: usize) -> OwnedBatch {
    let mut rng = Rng(rows as u64);
    let mut block = RelationBlock { offsets: vec![0], ..RelationBlock::default() };
    for row in 0..rows as u32 {
        block.indices.extend([row, row.checked_sub(1).unwrap_or(rows as u32 - 1)]);
        block.offsets.push(block.indices.len() as u32);
    }
    let layer =
        LayerBlocks { num_src: rows, num_dst: rows, dst_rows: (0..rows as u32).collect(), relations: vec![block] };
    OwnedBatch { in_dim: dim, features: rng.values(rows * dim, 1.0), layers: vec![layer] }
}

/// The tests of one device, in a file of its own.
#[macro_export]
macro_rules! device_tests {
    ($driver:expr; $($test:ident: $method:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                $driver.$method(stringify!($test));
            }
        )+
    };
    ($driver:expr) => {
        $crate::device_tests!(
            $driver;
            passes_the_conformance_suite: conformance,
            lists_chooses_and_refuses_adapters: selection,
            runs_more_workgroups_than_a_dimension_takes: large_dispatches,
            refuses_what_no_buffer_holds: oversized_batch,
            extreme_values_stay_what_they_are: extreme_values,
            no_loop_is_cut_short: long_loops,
            a_large_hub_is_summed_accurately: large_hub,
            warm_model_allocates_nothing: warm_model,
        );
    };
}
