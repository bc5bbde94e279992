//! One trait per role. `configure` reads the settings that the release gives; it must end with
//! [`Settings::finish`](crate::Settings::finish), so that a misspelt setting refuses the release.

use crate::{
    BatchContext, Block, Context, Decision, Error, Evidence, Frontier, Graph, Growth, Hop, ModelOutput, Policy,
    Request, Settings,
};

/// Chooses the neighbourhood that the model sees.
pub trait Sampler: Sized + 'static {
    /// Reads the settings.
    ///
    /// # Errors
    /// What is wrong with them: refuses the release.
    fn configure(settings: &mut Settings) -> Result<Self, String>;

    /// Every block of every hop, hop by hop, one block per relation in the hop's order. See
    /// [`sample_hops`](crate::sample_hops), which does the frontiers.
    ///
    /// # Errors
    /// Passed on to the caller of the request.
    fn sample(
        &self,
        ctx: &BatchContext,
        graph: &dyn Graph,
        seeds: Frontier,
        hops: &[Hop],
        growth: Growth,
    ) -> Result<Vec<Block>, Error>;
}

/// A linear aggregator: one coefficient per sampled edge.
pub trait EdgeWeigher: Sized + 'static {
    /// Reads the settings.
    ///
    /// # Errors
    /// What is wrong with them: refuses the release.
    fn configure(settings: &mut Settings) -> Result<Self, String>;

    /// Coefficients parallel to the block's edges, all finite.
    ///
    /// # Errors
    /// Passed on to the caller of the request.
    fn weigh(&self, ctx: &BatchContext, graph: &dyn Graph, layer: u32, block: &Block) -> Result<Vec<f32>, Error>;
}

/// A general aggregator: neighbour rows in, one row per destination out.
pub trait Reducer: Sized + 'static {
    /// Reads the settings.
    ///
    /// # Errors
    /// What is wrong with them: refuses the release.
    fn configure(settings: &mut Settings) -> Result<Self, String>;

    /// `rows` holds `dim` numbers an edge; row `i` of the result reduces edges `offsets[i]..offsets[i + 1]` and is zeros
    /// where there are none.
    ///
    /// # Errors
    /// Passed on to the caller of the request.
    fn reduce(
        &self,
        ctx: &BatchContext,
        layer: u32,
        dim: usize,
        offsets: &[u32],
        rows: &[f32],
    ) -> Result<Vec<f32>, Error>;
}

/// Turns a request's raw features into what model and rules take.
pub trait PreProcessor: Sized + 'static {
    /// Reads the settings.
    ///
    /// # Errors
    /// What is wrong with them: refuses the release.
    fn configure(settings: &mut Settings) -> Result<Self, String>;

    /// The prepared value of every feature, in the request's order: finite, with missing values filled.
    ///
    /// # Errors
    /// Passed on to the caller of the request.
    fn prepare(&self, ctx: &Context, request: &Request) -> Result<Vec<f32>, Error>;
}

/// Turns the model's outputs into a decision.
pub trait PostProcessor: Sized + 'static {
    /// Reads the settings.
    ///
    /// # Errors
    /// What is wrong with them: refuses the release.
    fn configure(settings: &mut Settings) -> Result<Self, String>;

    /// The decision on one seed. `prepared` is parallel to `request.features`.
    ///
    /// # Errors
    /// Passed on to the caller of the request.
    fn decide(
        &self,
        ctx: &Context,
        request: &Request,
        prepared: &[f32],
        output: &ModelOutput,
        evidence: &Evidence,
        policy: &Policy,
    ) -> Result<Decision, Error>;
}
