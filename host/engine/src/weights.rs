//! Weights out of a safetensors file, and the convolutions that PyTorch Geometric and DGL name in it.
//!
//! Nothing is read from disk here: the caller hands in the (memory-mapped) bytes.

mod convs;

pub use convs::{AggregatorKind, ConvOptions};

use std::collections::BTreeSet;

use safetensors::{Dtype, SafeTensors};

use crate::error::EngineError;
use crate::plan::{Linear, Matrix, Scaler};

/// How many existing names an error lists at most.
const NAMES_IN_ERROR: usize = 20;

/// An open safetensors file. Remembers which tensors were asked for, see [`Weights::unused`].
pub struct Weights<'a> {
    file: SafeTensors<'a>,
    used: BTreeSet<String>,
}

impl<'a> Weights<'a> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`EngineError::Weights`] where the bytes are no safetensors file.
    pub fn open(bytes: &'a [u8]) -> Result<Self, EngineError> {
        let file = SafeTensors::deserialize(bytes)
            .map_err(|e| EngineError::Weights(format!("not a readable safetensors file: {e}")))?;
        Ok(Self { file, used: BTreeSet::new() })
    }

    /// Every tensor's name, sorted.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.file.names().into_iter().map(str::to_owned).collect();
        names.sort_unstable();
        names
    }

    /// Whether there is such a tensor.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.file.tensor(name).is_ok()
    }

    /// The tensors that nobody asked for, sorted: a plan that leaves some over has probably misread the model.
    #[must_use]
    pub fn unused(&self) -> Vec<String> {
        self.names().into_iter().filter(|n| !self.used.contains(n)).collect()
    }

    /// A tensor's shape and values as f32.
    ///
    /// # Errors
    /// [`EngineError::Weights`] where it is missing, not of a floating type up to 32 bits, or holds NaN or infinity.
    pub fn tensor(&mut self, name: &str) -> Result<(Vec<usize>, Vec<f32>), EngineError> {
        let Ok(view) = self.file.tensor(name) else {
            return Err(self.missing(name));
        };
        let bytes = view.data();
        let values: Vec<f32> = match view.dtype() {
            Dtype::F32 => four_bytes(bytes).map(f32::from_le_bytes).collect(),
            Dtype::F16 => two_bytes(bytes).map(|b| f16_to_f32(u16::from_le_bytes(b))).collect(),
            Dtype::BF16 => two_bytes(bytes).map(|b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)).collect(),
            other => {
                return Err(EngineError::Weights(format!(
                    "tensor `{name}` is {other:?}; this host reads F32, F16 and BF16: save the model as float32"
                )));
            }
        };
        if let Some(at) = values.iter().position(|v| !v.is_finite()) {
            return Err(EngineError::Weights(format!(
                "tensor `{name}` holds {} at flat index {at}: train or export the model again",
                values[at]
            )));
        }
        self.used.insert(name.to_owned());
        Ok((view.shape().to_vec(), values))
    }

    /// A two-dimensional tensor; `None` leaves a dimension open.
    ///
    /// # Errors
    /// As [`Weights::tensor`], and where the shape is another.
    pub fn matrix(&mut self, name: &str, rows: Option<usize>, cols: Option<usize>) -> Result<Matrix, EngineError> {
        let (shape, data) = self.tensor(name)?;
        match shape[..] {
            [r, c] if rows.is_none_or(|want| want == r) && cols.is_none_or(|want| want == c) && r > 0 && c > 0 => {
                Ok(Matrix { rows: r, cols: c, data })
            }
            _ => Err(EngineError::Weights(format!(
                "tensor `{name}` has shape {shape:?}, expected [{}, {}]",
                open(rows),
                open(cols)
            ))),
        }
    }

    /// A one-dimensional tensor; `None` leaves its length open.
    ///
    /// # Errors
    /// As [`Weights::tensor`], and where the shape is another.
    pub fn vector(&mut self, name: &str, len: Option<usize>) -> Result<Vec<f32>, EngineError> {
        let (shape, data) = self.tensor(name)?;
        match shape[..] {
            [n] if len.is_none_or(|want| want == n) => Ok(data),
            _ => Err(EngineError::Weights(format!("tensor `{name}` has shape {shape:?}, expected [{}]", open(len)))),
        }
    }

    /// `<prefix>.weight` and, where it exists, `<prefix>.bias`.
    ///
    /// # Errors
    /// As [`Weights::matrix`] and [`Weights::vector`].
    pub fn linear(&mut self, prefix: &str) -> Result<Linear, EngineError> {
        let weight = self.matrix(&join(prefix, "weight"), None, None)?;
        let bias = self.optional_vector(&join(prefix, "bias"), weight.rows)?;
        Ok(Linear { weight, bias })
    }

    /// The input standardisation from two tensors of `in_dim` values.
    ///
    /// # Errors
    /// As [`Weights::vector`].
    pub fn scaler(&mut self, shift: &str, scale: &str, in_dim: usize) -> Result<Scaler, EngineError> {
        Ok(Scaler { shift: self.vector(shift, Some(in_dim))?, scale: self.vector(scale, Some(in_dim))? })
    }

    fn optional_vector(&mut self, name: &str, len: usize) -> Result<Option<Vec<f32>>, EngineError> {
        if self.has(name) { self.vector(name, Some(len)).map(Some) } else { Ok(None) }
    }

    /// Names the missing tensor and its nearest existing relatives: those under the longest existing dotted prefix.
    fn missing(&self, name: &str) -> EngineError {
        let names = self.names();
        let mut prefix = name;
        let relatives: Vec<&String> = loop {
            prefix = prefix.rfind('.').map_or("", |at| &prefix[..at]);
            let found: Vec<&String> = names
                .iter()
                .filter(|n| prefix.is_empty() || n.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.')))
                .collect();
            if !found.is_empty() || prefix.is_empty() {
                break found;
            }
        };
        let listed: Vec<String> = relatives.iter().take(NAMES_IN_ERROR).map(|n| format!("`{n}`")).collect();
        let more = relatives.len().saturating_sub(NAMES_IN_ERROR);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let place = if prefix.is_empty() { "the file holds".into() } else { format!("under `{prefix}` there are") };
        let listed = if listed.is_empty() { "nothing".into() } else { listed.join(", ") };
        EngineError::Weights(format!("no tensor `{name}`; {place} {listed}{more}"))
    }
}

/// `prefix.name`, or `name` alone where the prefix is empty.
fn join(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn open(dim: Option<usize>) -> String {
    dim.map_or_else(|| "any".into(), |d| d.to_string())
}

fn four_bytes(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.as_chunks::<4>().0.iter().copied()
}

fn two_bytes(bytes: &[u8]) -> impl Iterator<Item = [u8; 2]> {
    bytes.as_chunks::<2>().0.iter().copied()
}

/// IEEE 754 binary16 to binary32; exact.
fn f16_to_f32(half: u16) -> f32 {
    let sign = if half & 0x8000 == 0 { 1.0f32 } else { -1.0 };
    let exponent = i32::from((half >> 10) & 0x1f);
    let fraction = f32::from(half & 0x3ff);
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    sign * magnitude
}

#[cfg(test)]
mod tests;
