//! What can go wrong in an engine.

/// An error of a backend or of reading weights.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The plan's shapes do not fit each other.
    #[error("model plan: {0}")]
    Plan(String),
    /// The weights file is not what the release says.
    #[error("weights: {0}")]
    Weights(String),
    /// The batch does not fit the model.
    #[error("batch: {0}")]
    Batch(String),
    /// A plugin that the forward pass called failed.
    #[error("plugin: {0}")]
    Hook(String),
    /// The device refused or was lost.
    #[error("device: {0}")]
    Device(String),
}
