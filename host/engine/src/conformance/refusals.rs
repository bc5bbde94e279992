//! What every backend must refuse with a typed error instead of a panic or a wrong answer.

use super::batches::{OwnedBatch, Rng};
use super::generated::{broken_hook, sample};
use crate::backend::{Backend, Hooks, NoHooks};
use crate::error::EngineError;
use crate::plan::ModelPlan;

/// Breaks something.
type Break<T> = (&'static str, &'static str, fn(&mut T));

const BATCHES: [Break<OwnedBatch>; 17] = [
    ("mean", "too few features", |b| {
        b.features.pop();
    }),
    ("mean", "too many features", |b| b.features.push(0.0)),
    ("mean", "a layer too few", |b| {
        b.layers.pop();
    }),
    ("mean", "a layer too many", |b| b.layers.push(b.layers[0].clone())),
    ("mean", "rows that do not meet between layers", |b| b.layers[1].num_src += 1),
    ("mean", "no relation", |b| b.layers[0].relations.clear()),
    ("mean", "a missing destination row", |b| {
        b.layers[0].dst_rows.pop();
    }),
    ("mean", "a destination row out of range", |b| b.layers[0].dst_rows[0] = b.layers[0].num_src as u32),
    ("mean", "a source out of range", |b| b.layers[0].relations[0].indices[0] = u32::MAX),
    ("mean", "an offset too few", |b| {
        b.layers[0].relations[0].offsets.pop();
    }),
    ("mean", "no offsets", |b| b.layers[0].relations[0].offsets.clear()),
    ("mean", "offsets that fall", |b| b.layers[0].relations[0].offsets[1] = u32::MAX),
    ("mean", "offsets that do not start at 0", |b| b.layers[0].relations[0].offsets[0] = 1),
    ("mean", "edges after the last offset", |b| b.layers[0].relations[0].indices.push(0)),
    ("coefficients", "no coefficients", |b| b.layers[0].relations[0].coefficients = None),
    ("coefficients", "a coefficient too few", |b| {
        b.layers[0].relations[0].coefficients.as_mut().map(Vec::pop);
    }),
    ("padded-lstm", "a degree over the padded length", |b| {
        let block = &mut b.layers[0].relations[0];
        block.indices.extend([0; 100]);
        if let Some(last) = block.offsets.last_mut() {
            *last += 100;
        }
    }),
];

const PLANS: [Break<ModelPlan>; 9] = [
    ("mean", "no layers", |p| p.layers.clear()),
    ("mean", "no convolutions", |p| p.layers[0].convs.clear()),
    ("mean", "a width that does not fit the layer before", |p| p.layers[1].convs[0].neighbour.weight.cols += 1),
    ("mean", "a short weight", |p| {
        p.layers[0].convs[0].neighbour.weight.data.pop();
    }),
    ("mean", "a bias of another length", |p| p.layers[0].convs[0].neighbour.bias = Some(vec![0.0; 99])),
    ("mean", "a root of another height", |p| {
        p.layers[0].convs[0].root.iter_mut().for_each(|r| {
            r.weight.rows -= 1;
            r.weight.data.truncate(r.weight.rows * r.weight.cols);
        });
    }),
    ("mean", "NaN in a weight", |p| p.layers[0].convs[0].neighbour.weight.data[0] = f32::NAN),
    ("mean", "an input width of 0", |p| p.in_dim = 0),
    ("mean", "two convolutions of different heights", |p| {
        let mut other = p.layers[0].convs[0].clone();
        other.neighbour.weight.rows -= 1;
        other.neighbour.weight.data.truncate(other.neighbour.weight.rows * other.neighbour.weight.cols);
        p.layers[0].convs.push(other);
    }),
];

/// One line for everything that was not refused, or with another error.
pub(super) fn check(backend: &dyn Backend) -> Vec<String> {
    let mut failures = vec![];
    for (kind, what, broken) in BATCHES {
        let (plan, mut batch) = sample(kind, &mut Rng(7));
        broken(&mut batch);
        match run(backend, &plan, &batch, &mut NoHooks) {
            Err(EngineError::Batch(_)) => {}
            other => failures.push(format!("batch with {what}: {other:?} instead of a batch error")),
        }
    }
    for (kind, what, broken) in PLANS {
        let (mut plan, _) = sample(kind, &mut Rng(7));
        broken(&mut plan);
        match backend.load(&plan) {
            Err(EngineError::Plan(_)) => {}
            Err(other) => failures.push(format!("plan with {what}: {other} instead of a plan error")),
            Ok(_) => failures.push(format!("plan with {what}: loaded")),
        }
    }
    let (plan, batch) = sample("reducer", &mut Rng(7));
    let hooks: [(&str, &mut dyn Hooks); 3] = [
        ("no reducer", &mut NoHooks),
        (
            "a reducer that returns too little",
            &mut broken_hook(|rows| {
                rows.pop();
            }),
        ),
        ("a reducer that returns NaN", &mut broken_hook(|rows| rows[0] = f32::NAN)),
    ];
    for (what, hooks) in hooks {
        match run(backend, &plan, &batch, hooks) {
            Err(EngineError::Hook(_)) => {}
            other => failures.push(format!("{what}: {other:?} instead of a hook error")),
        }
    }
    failures
}

fn run(
    backend: &dyn Backend,
    plan: &ModelPlan,
    batch: &OwnedBatch,
    hooks: &mut dyn Hooks,
) -> Result<usize, EngineError> {
    Ok(backend.load(plan)?.forward(&batch.borrow(), hooks)?.scores.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::CpuBackend;
    use crate::conformance::Median;

    proptest! {
        /// Whatever is wrong with a batch, the answer is a result, not a panic.
        #[test]
        fn no_batch_panics(
            kind in prop::sample::select(vec!["mean", "pool", "padded-lstm", "gcn", "coefficients", "reducer"]),
            layer in 0usize..2,
            what in 0usize..8,
            at in any::<prop::sample::Index>(),
            value in prop_oneof![0u32..40, Just(u32::MAX)],
        ) {
            let (plan, mut batch) = sample(kind, &mut Rng(9));
            let blocks = &mut batch.layers[layer];
            let relation = &mut blocks.relations[0];
            match what {
                0 => blocks.num_src = value as usize,
                1 => blocks.num_dst = value as usize,
                2 => *at.get_mut(&mut blocks.dst_rows) = value,
                3 => *at.get_mut(&mut relation.offsets) = value,
                4 => *at.get_mut(&mut relation.indices) = value,
                5 => relation.offsets.truncate(value as usize),
                6 => relation.indices.resize(value.min(100) as usize, 0),
                _ => relation.coefficients = Some(vec![f32::INFINITY; value.min(100) as usize]),
            }
            if let Err(error) = run(&CpuBackend::new(), &plan, &batch, &mut Median) {
                prop_assert!(matches!(error, EngineError::Batch(_)), "{error}");
            }
        }
    }
}
