//! Runs cases on a backend.

use super::batches::{OwnedBatch, Rng, select};
use super::generated::Median;
use super::{Case, TOLERANCE, cases, refusals};
use crate::backend::{Backend, Model, Output};
use crate::reference::Rows;

/// What a run of the suite found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cases that ran.
    pub cases: usize,
    /// One line for every fault.
    pub failures: Vec<String>,
    /// Largest error, relative to the largest magnitude of its output, and its case.
    pub worst: (f64, String),
}

impl Report {
    /// Ends a test.
    ///
    /// # Panics
    /// Where a case failed, listing all of them.
    pub fn assert_passed(&self) {
        assert!(
            self.failures.is_empty(),
            "{} faults in {} cases:\n{}",
            self.failures.len(),
            self.cases,
            self.failures.join("\n")
        );
    }
}

/// The whole suite: results, invariance, concurrent use, refusals.
#[must_use]
pub fn check(backend: &dyn Backend) -> Report {
    let mut report = check_cases(backend, &cases());
    report.failures.extend(refusals::check(backend));
    report
}

/// Results, invariance and concurrent use of some cases.
#[must_use]
pub fn check_cases(backend: &dyn Backend, cases: &[Case]) -> Report {
    let mut report = Report { cases: cases.len(), ..Report::default() };
    for case in cases {
        if let Err(why) = check_case(backend, case, &mut report.worst) {
            report.failures.push(format!("{}: {why}", case.name));
        }
    }
    report
}

fn check_case(backend: &dyn Backend, case: &Case, worst: &mut (f64, String)) -> Result<(), String> {
    let model = backend.load(&case.plan).map_err(|e| e.to_string())?;
    let full = run(model.as_ref(), &case.batch)?;
    let pairs = [
        ("embeddings", full.embedding_dim, &full.embeddings, &case.expected.embeddings),
        ("logits", full.out_dim, &full.logits, &case.expected.logits),
        ("scores", full.out_dim, &full.scores, &case.expected.scores),
    ];
    for (what, dim, got, want) in pairs {
        let error = compare(dim, got, want).map_err(|why| format!("{what}: {why}"))?;
        if error > worst.0 {
            *worst = (error, format!("{} {what}", case.name));
        }
    }
    invariance(model.as_ref(), case, &full)?;
    concurrency(model.as_ref(), case, &full)
}

fn run(model: &dyn Model, batch: &OwnedBatch) -> Result<Output, String> {
    model.forward(&batch.borrow(), &mut Median).map_err(|e| e.to_string())
}

fn compare(dim: usize, got: &[f32], want: &Rows) -> Result<f64, String> {
    if dim != want.dim || got.len() != want.data.len() {
        return Err(format!("{} values of width {dim}, expected {} of {}", got.len(), want.data.len(), want.dim));
    }
    let largest = want.data.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let mut worst = 0.0f64;
    for (i, (&got, &want)) in got.iter().zip(&want.data).enumerate() {
        let error = (f64::from(got) - want).abs();
        // Asked this way round, so that NaN does not fit.
        let fits = error <= TOLERANCE * largest;
        if !fits {
            return Err(format!("row {} column {}: {got:e}, expected {want:e} (of {largest:e})", i / dim, i % dim));
        }
        if largest > 0.0 {
            worst = worst.max(error / largest);
        }
    }
    Ok(worst)
}

/// The same destinations alone, in smaller batches, at other positions, next to rows that nobody asked for.
fn invariance(model: &dyn Model, case: &Case, full: &Output) -> Result<(), String> {
    let rows = case.batch.num_out();
    let mut rng = Rng(rows as u64);
    let mut selections: Vec<Vec<u32>> = vec![];
    if rows > 0 {
        let mut order: Vec<u32> = (0..rows as u32).collect();
        selections.extend([vec![0], vec![rows as u32 - 1], vec![rng.below(rows) as u32]]);
        for size in [rows, rows.min(2), rows.min(33), rows / 2 + 1] {
            rng.shuffle(&mut order);
            selections.push(order[..size].to_vec());
        }
    }
    for (i, seeds) in selections.iter().enumerate() {
        let part = run(model, &select(&case.batch, seeds, i % 3, &mut rng))?;
        for (at, &seed) in seeds.iter().enumerate() {
            let same = [
                (&part.embeddings, &full.embeddings, full.embedding_dim),
                (&part.logits, &full.logits, full.out_dim),
                (&part.scores, &full.scores, full.out_dim),
            ]
            .iter()
            .all(|(part, full, dim)| bits(&part[at * dim..][..*dim]).eq(bits(&full[seed as usize * dim..][..*dim])));
            if !same {
                return Err(format!(
                    "batch invariance: destination {seed} has other bits at position {at} of a batch of {}",
                    seeds.len()
                ));
            }
        }
    }
    Ok(())
}

/// Two threads in one model at once.
fn concurrency(model: &dyn Model, case: &Case, full: &Output) -> Result<(), String> {
    let both = std::thread::scope(|scope| {
        let threads = [0, 1].map(|_| scope.spawn(|| run(model, &case.batch)));
        threads.map(|t| t.join().unwrap_or_else(|_| Err("panicked".into())))
    });
    for output in both {
        let output = output?;
        if !(bits(&output.embeddings).eq(bits(&full.embeddings)) && bits(&output.scores).eq(bits(&full.scores))) {
            return Err("other bits on another thread".into());
        }
    }
    Ok(())
}

fn bits(values: &[f32]) -> impl Iterator<Item = u32> {
    values.iter().map(|v| v.to_bits())
}
