//! What a rollout acts on.

use std::collections::BTreeMap;
use std::sync::Arc;

use sagehost_release::ReleaseFolder;

use crate::documents::{PolicyDoc, RouteDoc};

/// Loads releases and takes the table of what is live.
pub trait Target: Send + Sync + 'static {
    /// A loaded release.
    type Loaded: Send + Sync + 'static;

    /// Verifies, compiles, warms up, checks golden examples. Called on a blocking thread, one release at a time; must end
    /// by itself (nothing else is loaded meanwhile).
    ///
    /// # Errors
    /// The reason that is shown to the operator. The release is then not tried again until something about it changes.
    fn load(&self, release: &ReleaseFolder) -> Result<Arc<Self::Loaded>, String>;

    /// Makes this table the live one: one atomic store. Called on an async thread; must not block.
    fn publish(&self, table: Table<Self::Loaded>);
}

/// What is live. Replaced as a whole.
#[derive(Debug)]
pub struct Table<L> {
    /// Releases by model and version. The highest version is the latest.
    pub models: BTreeMap<String, BTreeMap<u64, Arc<L>>>,
    /// Routes by endpoint. An endpoint without one takes the latest version of the only model.
    pub routes: BTreeMap<String, RouteDoc>,
    /// Policies by name.
    pub policies: BTreeMap<String, Arc<PolicyDoc>>,
    /// Documents that are there and could not be used, by name, and why.
    pub refused: BTreeMap<String, String>,
}
