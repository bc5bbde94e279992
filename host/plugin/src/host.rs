//! The engine that every plugin of the process shares: compiling, and the clock that ends calls.

use std::collections::{HashMap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use sagehost_types::Digest;
use wasmtime::component::Component;
use wasmtime::{Config, Engine, OptLevel};

use crate::abi::v0_1::Program;
use crate::api::Role;
use crate::error::LoadError;
use crate::inspect::{Inspection, check_size, inspect_as};
use crate::limits::STACK;

/// Time between two ticks of the clock: how late a call may notice that its time is over.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// Compiled plugins that are kept although nothing uses them, for releases that are swapped back and forth.
const KEPT: usize = 16;

/// The engine could not be started.
#[derive(Debug, thiserror::Error)]
#[error("the WebAssembly engine could not be started: {0}")]
pub struct HostError(String);

/// The engine, its clock and the compiled plugins; one per process.
///
/// Instances are made on demand, not from wasmtime's pool: each plugin keeps its instances, so that one is made only at
/// start-up and after a failure, and a pool's slots would bound all plugins together instead of each by its release.
pub struct PluginHost {
    engine: Engine,
    _clock: Clock,
    compiled: Mutex<Cache>,
    compilations: AtomicU64,
    live: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Cache {
    /// By digest. The inner lock is held while compiling, so that equal requests compile once and others do not wait.
    slots: HashMap<Digest, Arc<Mutex<Weak<Compiled>>>>,
    /// Most recently used last.
    recent: VecDeque<Arc<Compiled>>,
}

/// A compiled plugin, shared by every release that names its digest.
pub struct Compiled {
    pub(crate) program: Program,
    inspection: Inspection,
}

impl Compiled {
    /// What the component says of itself.
    #[must_use]
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }

    /// Its role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.inspection.role
    }
}

impl PluginHost {
    /// Starts the engine and its clock.
    ///
    /// # Errors
    /// [`HostError`] where the machine cannot run compiled code, or no thread can be started.
    pub fn new() -> Result<Arc<Self>, HostError> {
        let mut config = Config::new();
        config
            .epoch_interruption(true)
            .max_wasm_stack(STACK)
            .cranelift_opt_level(OptLevel::Speed)
            .wasm_backtrace_max_frames(NonZeroUsize::new(8))
            // Equal inputs give equal bits on every machine.
            .relaxed_simd_deterministic(true)
            .wasm_memory64(false);
        let engine = Engine::new(&config).map_err(|error| HostError(format!("{error:#}")))?;
        let clock = Clock::start(engine.clone()).map_err(|error| HostError(error.to_string()))?;
        Ok(Arc::new(Self {
            engine,
            _clock: clock,
            compiled: Mutex::default(),
            compilations: AtomicU64::new(0),
            live: Arc::default(),
        }))
    }

    /// Compiles a component for a role, or finds it compiled. Blocking: tens of milliseconds for a small component in Rust,
    /// seconds for one that carries an interpreter.
    ///
    /// # Errors
    /// [`LoadError`].
    pub fn compile(&self, bytes: &[u8], role: Role) -> Result<Arc<Compiled>, LoadError> {
        check_size(bytes)?;
        let digest = Digest::of(bytes);
        let slot = {
            let mut cache = self.cache();
            cache.slots.retain(|_, slot| Arc::strong_count(slot) > 1 || lock(slot).strong_count() > 0);
            Arc::clone(cache.slots.entry(digest).or_default())
        };
        let mut slot = lock(&slot);
        let compiled = match slot.upgrade() {
            Some(compiled) => compiled,
            None => Arc::new(self.compile_new(bytes, digest)?),
        };
        *slot = Arc::downgrade(&compiled);
        drop(slot);
        let found = compiled.role();
        if found != role {
            return Err(LoadError::WrongRole { expected: role, found });
        }
        self.cache().used(&compiled);
        Ok(compiled)
    }

    fn compile_new(&self, bytes: &[u8], digest: Digest) -> Result<Compiled, LoadError> {
        let inspection = inspect_as(bytes, digest)?;
        self.compilations.fetch_add(1, Relaxed);
        let component =
            Component::from_binary(&self.engine, bytes).map_err(|error| LoadError::Compile(format!("{error:#}")))?;
        let program = Program::new(&self.engine, &component, inspection.role)?;
        Ok(Compiled { program, inspection })
    }

    /// How many components were compiled since the start.
    #[must_use]
    pub fn compilations(&self) -> u64 {
        self.compilations.load(Relaxed)
    }

    /// How many instances of all plugins exist now.
    #[must_use]
    pub fn instances_live(&self) -> usize {
        self.live.load(Relaxed)
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn live(&self) -> &Arc<AtomicUsize> {
        &self.live
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        lock(&self.compiled)
    }
}

impl Cache {
    fn used(&mut self, compiled: &Arc<Compiled>) {
        self.recent.retain(|other| !Arc::ptr_eq(other, compiled));
        self.recent.push_back(Arc::clone(compiled));
        if self.recent.len() > KEPT {
            self.recent.pop_front();
        }
    }
}

/// What a lock guards here stays whole when a holder panics: no update has two steps that depend on each other.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Advances the engine's epoch until it is dropped. A thread of its own: a spinning guest must not be able to hold it up.
struct Clock {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Clock {
    fn start(engine: Engine) -> std::io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("plugin-clock".into()).spawn(move || {
            while !stopped.load(Relaxed) {
                std::thread::park_timeout(TICK);
                engine.increment_epoch();
            }
        })?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread cannot panic: it has nothing to report.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for PluginHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PluginHost").field("live", &self.instances_live()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Compiled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compiled").field("inspection", &self.inspection).finish_non_exhaustive()
    }
}
