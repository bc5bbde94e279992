//! Where documents come from: each source emits all that is desired, whenever that changes.

use std::sync::Arc;

use crate::documents::Documents;
use crate::status::SourceStatus;

pub(crate) mod backoff;
pub(crate) mod etcd;
pub(crate) mod folder;
pub(crate) mod watcher;

/// What a source says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Feed {
    /// All documents; none before the source was read for the first time.
    pub(crate) documents: Option<Arc<Documents>>,
    /// How the source is.
    pub(crate) status: SourceStatus,
}
