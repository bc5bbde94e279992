//! Recording of a forward pass: kernels and uploads in order, submitted together when something must be read back.

use std::sync::mpsc;

use sagehost_engine::EngineError;

use crate::device::{Gpu, write_mapped};
use crate::kernels::{Kernel, Kernels, MAX_BUFFERS, PARAM_BYTES};
use crate::scratch::{Operand, Scratch, Slot};

/// Values on their way to a slot.
enum Values<'s> {
    Borrowed(&'s [f32]),
    Floats(Vec<f32>),
    /// The index list; its memory goes back to the scratch.
    Ints(Vec<u32>),
}

impl Values<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(values) => bytemuck::cast_slice(values),
            Self::Floats(values) => bytemuck::cast_slice(values),
            Self::Ints(values) => bytemuck::cast_slice(values),
        }
    }
}

enum Command<'s> {
    Put { slot: Slot, values: Values<'s> },
    Run { kernel: Kernel, buffers: [Option<Operand<'s>>; MAX_BUFFERS], grid: [u32; 2], params: u32 },
}

/// One forward pass on one scratch.
pub(crate) struct Session<'s> {
    gpu: &'s Gpu,
    kernels: &'s Kernels,
    pub(crate) scratch: &'s mut Scratch,
    commands: Vec<Command<'s>>,
    /// Parameters of the recorded kernels, `stride` bytes each.
    params: Vec<u8>,
    stride: usize,
}

impl<'s> Session<'s> {
    pub(crate) fn new(gpu: &'s Gpu, kernels: &'s Kernels, scratch: &'s mut Scratch) -> Self {
        let stride = gpu.limits.min_uniform_buffer_offset_alignment.max(PARAM_BYTES as u32) as usize;
        Self { gpu, kernels, scratch, commands: vec![], params: vec![], stride }
    }

    /// Uploads rows that outlive the session.
    pub(crate) fn put(&mut self, slot: Slot, values: &'s [f32]) {
        self.commands.push(Command::Put { slot, values: Values::Borrowed(values) });
    }

    /// Uploads rows.
    pub(crate) fn put_owned(&mut self, slot: Slot, values: Vec<f32>) {
        self.commands.push(Command::Put { slot, values: Values::Floats(values) });
    }

    /// Uploads the scratch's index list.
    pub(crate) fn put_ints(&mut self) {
        let values = std::mem::take(&mut self.scratch.ints);
        self.commands.push(Command::Put { slot: Slot::Ints, values: Values::Ints(values) });
    }

    /// Runs a kernel over `groups` workgroups; nothing where that is 0.
    pub(crate) fn run(
        &mut self,
        kernel: Kernel,
        operands: &[Operand<'s>],
        params: [u32; 7],
        groups: u64,
    ) -> Result<(), EngineError> {
        if groups == 0 {
            return Ok(());
        }
        let grid = self.gpu.grid(groups)?;
        let mut buffers = [None; MAX_BUFFERS];
        buffers.iter_mut().zip(operands).for_each(|(to, from)| *to = Some(*from));
        let at = self.params.len();
        let offset = u32::try_from(at).map_err(|_| EngineError::Batch("too many kernels in one pass".into()))?;
        self.params.extend_from_slice(bytemuck::cast_slice(&params));
        self.params.resize(at + self.stride, 0);
        self.commands.push(Command::Run { kernel, buffers, grid, params: offset });
        Ok(())
    }

    /// Submits what was recorded and returns the first `count` values of each slot.
    pub(crate) fn fetch(&mut self, wanted: &[(Slot, usize)]) -> Result<Vec<Vec<f32>>, EngineError> {
        if self.commands.is_empty() && wanted.iter().all(|(_, count)| *count == 0) {
            return Ok(wanted.iter().map(|_| vec![]).collect());
        }
        let commands = std::mem::take(&mut self.commands);
        // Parameters first in the staging buffer, then the uploads in order.
        let mut staged = align(self.params.len() as u64);
        let mut places = Vec::with_capacity(commands.len());
        for command in &commands {
            places.push(staged);
            if let Command::Put { values, .. } = command {
                staged += align(values.bytes().len() as u64);
            }
        }
        let read: u64 = wanted.iter().map(|(_, count)| align(*count as u64 * 4)).sum();
        self.scratch.reserve_transfers(self.gpu, self.params.len() as u64, staged, read)?;

        let staging = self.scratch.staging.raw.clone();
        stage(&staging, 0, &self.params)?;
        for (command, &at) in commands.iter().zip(&places) {
            if let Command::Put { values, .. } = command {
                stage(&staging, at, values.bytes())?;
            }
        }
        staging.unmap();
        let submission = self.submit(&commands, &places, wanted);
        let outcome = self.receive(&staging, submission, wanted, read);
        self.params.clear();
        for command in commands {
            if let Command::Put { values: Values::Ints(mut ints), .. } = command {
                ints.clear();
                self.scratch.ints = ints;
            }
        }
        outcome
    }

    fn submit(&mut self, commands: &[Command<'s>], places: &[u64], wanted: &[(Slot, usize)]) -> wgpu::SubmissionIndex {
        let groups: Vec<Option<wgpu::BindGroup>> = commands.iter().map(|command| self.bind(command)).collect();
        let scratch = &*self.scratch;
        let mut encoder = self.gpu.device.create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        let staging = &scratch.staging.raw;
        if !self.params.is_empty() {
            encoder.copy_buffer_to_buffer(staging, 0, &scratch.params.raw, 0, self.params.len() as u64);
        }
        // Kernels that follow each other share a pass; wgpu puts the barriers between them.
        let mut pass: Option<wgpu::ComputePass<'static>> = None;
        for ((command, group), &at) in commands.iter().zip(&groups).zip(places) {
            match command {
                Command::Put { slot, values } => {
                    pass = None;
                    let bytes = values.bytes().len() as u64;
                    if bytes > 0 {
                        encoder.copy_buffer_to_buffer(staging, at, &scratch.slot(*slot).raw, 0, bytes);
                    }
                }
                Command::Run { kernel, grid, params, .. } => {
                    let pass = pass.get_or_insert_with(|| {
                        let description = wgpu::ComputePassDescriptor { label: None, timestamp_writes: None };
                        encoder.begin_compute_pass(&description).forget_lifetime()
                    });
                    pass.set_pipeline(&self.kernels.get(*kernel).raw);
                    pass.set_bind_group(0, group.as_ref(), &[*params]);
                    pass.dispatch_workgroups(grid[0], grid[1], 1);
                }
            }
        }
        drop(pass);
        let mut at = 0;
        for (slot, count) in wanted {
            let bytes = *count as u64 * 4;
            if bytes > 0 {
                encoder.copy_buffer_to_buffer(&scratch.slot(*slot).raw, 0, &scratch.readback.raw, at, bytes);
            }
            at += align(bytes);
        }
        self.gpu.queue.submit([encoder.finish()])
    }

    fn bind(&mut self, command: &Command<'s>) -> Option<wgpu::BindGroup> {
        let Command::Run { kernel, buffers, .. } = command else { return None };
        Some(self.scratch.group(self.gpu, self.kernels, *kernel, buffers))
    }

    /// Waits for the submission, maps the staging buffer again and copies the results out.
    fn receive(
        &self,
        staging: &wgpu::Buffer,
        submission: wgpu::SubmissionIndex,
        wanted: &[(Slot, usize)],
        read: u64,
    ) -> Result<Vec<Vec<f32>>, EngineError> {
        let readback = &self.scratch.readback.raw;
        let (sender, receiver) = mpsc::channel();
        let reply = |sender: mpsc::Sender<_>| {
            move |result| {
                // The receiver is gone only where waiting already failed.
                let _ = sender.send(result);
            }
        };
        if read > 0 {
            readback.map_async(wgpu::MapMode::Read, ..read, reply(sender.clone()));
        }
        staging.map_async(wgpu::MapMode::Write, .., reply(sender));
        self.gpu.wait(submission)?;
        for _ in 0..if read > 0 { 2 } else { 1 } {
            Gpu::mapped(&receiver)?;
        }
        let mut at = 0;
        let mut results = Vec::with_capacity(wanted.len());
        for (_, count) in wanted {
            let bytes = *count as u64 * 4;
            results.push(if bytes == 0 { vec![] } else { read_mapped(readback, at, bytes)? });
            at += align(bytes);
        }
        if read > 0 {
            readback.unmap();
        }
        Ok(results)
    }
}

fn stage(staging: &wgpu::Buffer, at: u64, bytes: &[u8]) -> Result<(), EngineError> {
    if bytes.is_empty() { Ok(()) } else { write_mapped(staging, at, bytes) }
}

fn read_mapped(buffer: &wgpu::Buffer, at: u64, bytes: u64) -> Result<Vec<f32>, EngineError> {
    let view = buffer
        .get_mapped_range(at..at + bytes)
        .map_err(|e| EngineError::Device(format!("reading a mapped buffer: {e}")))?;
    Ok(bytemuck::pod_collect_to_vec(&view))
}

/// Mapped ranges begin at multiples of 8.
fn align(bytes: u64) -> u64 {
    bytes.next_multiple_of(8)
}
