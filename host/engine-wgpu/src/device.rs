//! An open device: every wgpu call that can fail goes through [`Gpu::guarded`], so that validation errors, exhausted memory
//! and a lost device become [`EngineError::Device`] and never a panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use sagehost_engine::EngineError;

/// Longest wait for one submission. A healthy device answers in milliseconds, a software one in seconds; after this the
/// device hangs, and the caller's own deadline has passed long ago.
const WAIT: Duration = Duration::from_secs(120);

/// A device, its queue and what is known of its health.
pub(crate) struct Gpu {
    pub(crate) device: wgpu::Device,
    pub(crate) queue: wgpu::Queue,
    pub(crate) limits: wgpu::Limits,
    /// See [`crate::loops`].
    max_loops: Option<u64>,
    /// Why the device was lost. It never comes back: every later call answers with this.
    lost: Arc<OnceLock<String>>,
    /// Buffers and bind groups made so far; numbers the buffers as well.
    created: AtomicU64,
}

/// A buffer with a number of its own, by which cached bind groups know it.
pub(crate) struct GpuBuffer {
    pub(crate) id: u64,
    pub(crate) raw: wgpu::Buffer,
}

impl Gpu {
    /// Opens the adapter with all of its own limits and no optional feature.
    pub(crate) fn open(adapter: &wgpu::Adapter) -> Result<Self, EngineError> {
        let limits = adapter.limits();
        let needs = [
            ("invocations per workgroup", limits.max_compute_invocations_per_workgroup, 128),
            ("storage buffers per shader stage", limits.max_storage_buffers_per_shader_stage, 6),
            ("bytes of workgroup memory", limits.max_compute_workgroup_storage_size, 8192),
        ];
        for (what, has, needed) in needs {
            if has < needed {
                return Err(EngineError::Device(format!("the adapter has {has} {what}; the shaders need {needed}")));
            }
        }
        let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            label: Some("sagehost"),
            required_limits: limits.clone(),
            ..Default::default()
        }))
        .map_err(|e| EngineError::Device(format!("the adapter refused a device: {e}")))?;

        let lost = Arc::new(OnceLock::new());
        let seen = Arc::clone(&lost);
        device.set_device_lost_callback(move |reason, message| {
            // The first reason is the one that counts.
            let _ = seen.set(format!("{reason:?}: {message}"));
        });
        // Errors outside a scope (from a destructor, say) belong to no request; wgpu's own handler would panic.
        device.on_uncaptured_error(Arc::new(|error| tracing::error!(%error, "wgpu error outside any request")));
        let max_loops = crate::loops::limit(&adapter.get_info().driver);
        Ok(Self { device, queue, limits, max_loops, lost, created: AtomicU64::new(0) })
    }

    /// Runs `work`, and turns whatever went wrong on the device meanwhile into an error.
    pub(crate) fn guarded<T>(&self, work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
        self.check_lost()?;
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let result = work();
        let errors = [
            pollster::block_on(internal.pop()),
            pollster::block_on(memory.pop()),
            pollster::block_on(validation.pop()),
        ];
        self.check_lost()?;
        match errors.into_iter().flatten().next() {
            // What follows a refused call (a buffer that cannot be mapped, say) is less telling than the refusal.
            Some(error) => Err(EngineError::Device(error.to_string())),
            None => result,
        }
    }

    fn check_lost(&self) -> Result<(), EngineError> {
        match self.lost.get() {
            Some(why) => Err(EngineError::Device(format!("the device was lost ({why}); restart to use it again"))),
            None => Ok(()),
        }
    }

    /// Waits until a submission is done and its mapping callbacks were handed out.
    pub(crate) fn wait(&self, submission: wgpu::SubmissionIndex) -> Result<(), EngineError> {
        let poll = wgpu::PollType::Wait { submission_index: Some(submission), timeout: Some(WAIT) };
        // wgpu panics in poll when the driver reports a lost device. Nothing of ours is half changed by then.
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(poll))) {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(EngineError::Device(format!("waiting for the device: {error}"))),
            Err(_) => {
                let _ = self.lost.set("the driver reported a lost device".into());
                self.check_lost()
            }
        }
    }

    /// Waits for a mapping callback. Another thread's poll may be the one that runs it, a moment after ours returned.
    pub(crate) fn mapped(
        receiver: &std::sync::mpsc::Receiver<Result<(), wgpu::BufferAsyncError>>,
    ) -> Result<(), EngineError> {
        match receiver.recv_timeout(WAIT) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(EngineError::Device(format!("mapping a buffer: {error}"))),
            Err(error) => Err(EngineError::Device(format!("mapping a buffer: no answer from the device ({error})"))),
        }
    }

    /// Counts a new buffer or bind group; the result is never 0.
    pub(crate) fn count_object(&self) -> u64 {
        self.created.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Buffers and bind groups made so far.
    pub(crate) fn objects_created(&self) -> u64 {
        self.created.load(Ordering::Relaxed)
    }

    /// Most bytes that a shader can see of one buffer; below 4 GiB, so that shaders can count elements in 32 bits.
    pub(crate) fn max_storage(&self) -> u64 {
        self.limits.max_storage_buffer_binding_size.min(self.limits.max_buffer_size).min(u64::from(u32::MAX))
    }

    /// Whether the driver would end loops that run so often; where it would, the iterations that it lets run.
    pub(crate) fn cuts_loops(&self, iterations: impl FnOnce() -> u64) -> Option<u64> {
        self.max_loops.filter(|most| iterations() > *most)
    }

    /// A buffer of `bytes`, which must not be 0.
    pub(crate) fn buffer(&self, label: &str, bytes: u64, usage: wgpu::BufferUsages, mapped: bool) -> GpuBuffer {
        let raw = self.device.create_buffer(&wgpu::BufferDescriptor {
            label: Some(label),
            size: bytes,
            usage,
            mapped_at_creation: mapped,
        });
        GpuBuffer { id: self.count_object(), raw }
    }

    /// A read-only storage buffer that holds `values`.
    pub(crate) fn upload(&self, label: &str, values: &[f32]) -> Result<GpuBuffer, EngineError> {
        let bytes: &[u8] = bytemuck::cast_slice(values);
        if bytes.len() as u64 > self.max_storage() {
            return Err(EngineError::Device(format!(
                "{label} has {} bytes; a shader of this adapter can see {} of one buffer",
                bytes.len(),
                self.max_storage()
            )));
        }
        // A vec4 at least: an empty buffer cannot be bound.
        let buffer = self.buffer(label, (bytes.len() as u64).max(16), wgpu::BufferUsages::STORAGE, true);
        if !bytes.is_empty() {
            write_mapped(&buffer.raw, 0, bytes)?;
        }
        buffer.raw.unmap();
        Ok(buffer)
    }

    /// Workgroups as a grid: `count` of them may be more than one dimension takes. Kernels number them `x + y · width` and
    /// skip what is past the end.
    pub(crate) fn grid(&self, count: u64) -> Result<[u32; 2], EngineError> {
        grid(count, self.limits.max_compute_workgroups_per_dimension).ok_or_else(|| {
            EngineError::Batch(format!(
                "{count} workgroups are more than the adapter's {0} × {0}; serve smaller batches",
                self.limits.max_compute_workgroups_per_dimension
            ))
        })
    }
}

/// Writes into a mapped buffer; `at` must be a multiple of 8, and the bytes of 4.
pub(crate) fn write_mapped(buffer: &wgpu::Buffer, at: u64, bytes: &[u8]) -> Result<(), EngineError> {
    let mut view = buffer
        .get_mapped_range_mut(at..at + bytes.len() as u64)
        .map_err(|e| EngineError::Device(format!("writing a mapped buffer: {e}")))?;
    view.copy_from_slice(bytes);
    Ok(())
}

/// The smallest near-even grid of at least `count` cells with sides of at most `side`.
fn grid(count: u64, side: u32) -> Option<[u32; 2]> {
    let height = count.div_ceil(u64::from(side).max(1)).max(1);
    let width = count.div_ceil(height).max(1);
    let [width, height] = [u32::try_from(width).ok()?, u32::try_from(height).ok()?];
    (width <= side && height <= side).then_some([width, height])
}

#[cfg(test)]
mod tests {
    use super::grid;

    #[test]
    fn a_grid_holds_all_and_wastes_less_than_a_line() {
        for side in [1u32, 7, 65_535] {
            for count in [0, 1, 2, 6, 7, 8, 48, 49, 65_535, 65_536, 200_000, 4_294_836_225] {
                match grid(count, side) {
                    Some([x, y]) => {
                        let cells = u64::from(x) * u64::from(y);
                        assert!(x <= side && y <= side && cells >= count, "{count} {side}: {x} × {y}");
                        assert!(cells - count <= u64::from(y).max(1), "{count} {side}: {x} × {y}");
                    }
                    None => assert!(count > u64::from(side).pow(2), "{count} {side}"),
                }
            }
        }
    }
}
