//! Convolutions by the tensor names of PyTorch Geometric and DGL.

use super::{Weights, join};
use crate::error::EngineError;
use crate::plan::{Aggregator, Conv, Linear, Lstm};

/// Which aggregator a convolution uses; its weights come from the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AggregatorKind {
    /// Mean.
    Mean,
    /// Sum.
    Sum,
    /// Element-wise maximum.
    Max,
    /// DGL's pool.
    Pool,
    /// LSTM.
    Lstm,
    /// DGL's gcn.
    Gcn,
    /// Coefficients from an edge-weigher plugin.
    Coefficients,
    /// A reducer plugin.
    Reducer,
}

/// What the weights file does not say about a convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOptions {
    /// See [`Conv::relation`].
    pub relation: usize,
    /// The aggregator.
    pub aggregator: AggregatorKind,
    /// PyG `normalize=True`.
    pub normalize: bool,
    /// PyG `project=True`.
    pub project: bool,
    /// PyG `root_weight`; DGL has a root for every aggregator but gcn.
    pub root: bool,
    /// PyG's LSTM: the length that neighbourhoods are padded to. DGL's does not pad.
    pub pad_to: Option<u32>,
}

impl ConvOptions {
    /// Relation 0 with a root and nothing else.
    #[must_use]
    pub fn new(aggregator: AggregatorKind) -> Self {
        Self { relation: 0, aggregator, normalize: false, project: false, root: true, pad_to: None }
    }
}

impl Weights<'_> {
    /// PyTorch Geometric's `SAGEConv`: `lin_l`, `lin_r` (root), `lin` (project), `aggr_module.lstm`.
    ///
    /// # Errors
    /// [`EngineError::Weights`] as [`Weights::matrix`]; where the aggregator is one that PyG does not have; where the
    /// LSTM has no padded length.
    pub fn pyg_conv(&mut self, prefix: &str, options: ConvOptions) -> Result<Conv, EngineError> {
        let aggregator = match options.aggregator {
            AggregatorKind::Mean => Aggregator::Mean,
            AggregatorKind::Sum => Aggregator::Sum,
            AggregatorKind::Max => Aggregator::Max,
            AggregatorKind::Coefficients => Aggregator::Coefficients,
            AggregatorKind::Reducer => Aggregator::Reducer,
            AggregatorKind::Lstm => {
                if options.pad_to.is_none() {
                    return Err(EngineError::Weights(format!(
                        "convolution `{prefix}`: an LSTM in PyG's layout needs `pad_to`, the length that neighbourhoods \
                         were padded to in training"
                    )));
                }
                Aggregator::Lstm(self.lstm(&join(prefix, "aggr_module.lstm"), options.pad_to)?)
            }
            AggregatorKind::Pool | AggregatorKind::Gcn => {
                return Err(EngineError::Weights(format!(
                    "convolution `{prefix}`: {:?} is an aggregator of DGL's layout, not of PyG's",
                    options.aggregator
                )));
            }
        };
        let project = if options.project { Some(self.linear(&join(prefix, "lin"))?) } else { None };
        let neighbour = self.linear(&join(prefix, "lin_l"))?;
        let root = if options.root { Some(self.linear(&join(prefix, "lin_r"))?) } else { None };
        Ok(Conv { relation: options.relation, aggregator, project, neighbour, root, normalize: options.normalize })
    }

    /// DGL's `SAGEConv`: `fc_self` (root), `fc_neigh`, `fc_pool`, `lstm`, `bias`. Versions of DGL keep the bias in
    /// different places; the sum of those present is what counts, and the plan holds it in `neighbour`.
    ///
    /// # Errors
    /// [`EngineError::Weights`] as [`Weights::matrix`]; where an option is one that DGL does not have.
    pub fn dgl_conv(&mut self, prefix: &str, options: ConvOptions) -> Result<Conv, EngineError> {
        if options.project || options.pad_to.is_some() {
            return Err(EngineError::Weights(format!(
                "convolution `{prefix}`: `project` and `pad_to` are of PyG's layout, not of DGL's"
            )));
        }
        let aggregator = match options.aggregator {
            AggregatorKind::Mean => Aggregator::Mean,
            AggregatorKind::Sum => Aggregator::Sum,
            AggregatorKind::Max => Aggregator::Max,
            AggregatorKind::Gcn => Aggregator::Gcn,
            AggregatorKind::Coefficients => Aggregator::Coefficients,
            AggregatorKind::Reducer => Aggregator::Reducer,
            AggregatorKind::Pool => Aggregator::Pool(self.linear(&join(prefix, "fc_pool"))?),
            AggregatorKind::Lstm => Aggregator::Lstm(self.lstm(&join(prefix, "lstm"), None)?),
        };
        let mut neighbour = self.linear(&join(prefix, "fc_neigh"))?;
        let mut root = if options.root && options.aggregator != AggregatorKind::Gcn {
            Some(self.linear(&join(prefix, "fc_self"))?)
        } else {
            None
        };
        let own = self.optional_vector(&join(prefix, "bias"), neighbour.weight.rows)?;
        for bias in [root.as_mut().and_then(|r| r.bias.take()), own].into_iter().flatten() {
            add_bias(&mut neighbour, bias);
        }
        Ok(Conv {
            relation: options.relation,
            aggregator,
            project: None,
            neighbour,
            root,
            normalize: options.normalize,
        })
    }

    fn lstm(&mut self, prefix: &str, pad_to: Option<u32>) -> Result<Lstm, EngineError> {
        let weight_hh = self.matrix(&join(prefix, "weight_hh_l0"), None, None)?;
        let gates = weight_hh.rows;
        if gates != 4 * weight_hh.cols {
            return Err(EngineError::Weights(format!(
                "tensor `{prefix}.weight_hh_l0` has shape [{gates}, {}], expected [4·hidden, hidden]",
                weight_hh.cols
            )));
        }
        Ok(Lstm {
            weight_ih: self.matrix(&join(prefix, "weight_ih_l0"), Some(gates), None)?,
            weight_hh,
            bias_ih: self.vector(&join(prefix, "bias_ih_l0"), Some(gates))?,
            bias_hh: self.vector(&join(prefix, "bias_hh_l0"), Some(gates))?,
            pad_to,
        })
    }
}

/// A root of another height than the neighbour weight is [`crate::ModelPlan::validate`]'s to name.
fn add_bias(linear: &mut Linear, bias: Vec<f32>) {
    match &mut linear.bias {
        Some(sum) => sum.iter_mut().zip(&bias).for_each(|(s, b)| *s += b),
        none => *none = Some(bias),
    }
}
