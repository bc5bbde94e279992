//! Where releases end. The last holder of a release may be a request's future on an I/O thread, and taking a release apart
//! (plugin instances, device buffers) is not its work: a thread of its own holds what left the table until nobody else does.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::Context as _;
use sagehost_pipeline::LoadedRelease;

/// How often it is looked whether a retired release is still held: requests end within their deadlines, so a release ends
/// soon after.
const LOOK: Duration = Duration::from_millis(100);

/// Takes releases that left the table.
pub(crate) struct Retired(mpsc::Sender<Arc<LoadedRelease>>);

impl Retired {
    /// Starts the thread; it ends with this handle.
    ///
    /// # Errors
    /// Where the system has no thread.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let (sender, arriving) = mpsc::channel();
        let thread = std::thread::Builder::new().name("sagehost-retired".into());
        thread.spawn(move || wait(&arriving)).context("cannot start the thread that ends releases")?;
        Ok(Self(sender))
    }

    /// Hands a release over.
    pub(crate) fn take(&self, release: Arc<LoadedRelease>) {
        // The thread lives as long as this handle; were it gone, the release would end here.
        let _ = self.0.send(release);
    }
}

fn wait(arriving: &mpsc::Receiver<Arc<LoadedRelease>>) {
    let mut held: Vec<Arc<LoadedRelease>> = Vec::new();
    loop {
        let arrived = if held.is_empty() { arriving.recv().map_err(Into::into) } else { arriving.recv_timeout(LOOK) };
        match arrived {
            Ok(release) => held.push(release),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        held.retain(|release| {
            let needed = Arc::strong_count(release) > 1;
            if !needed {
                tracing::info!(release = %release.id(), "ended: its last request is answered");
            }
            needed
        });
    }
}
