//! A plugin of a release: one compiled component, its settings, and calls by role.

mod check;
mod failure;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sagehost_graph::{GraphView, Growth, Hop};
use sagehost_types::{Block, Frontier};
use wasmtime::{Store, UpdateDeadline};

use crate::abi::v0_1::{Answer, CallInfo};
use crate::api::{Context, Decision, Evidence, ModelOutput, PluginConfig, Policy, Request, Role, Rows};
use crate::error::{ErrorKind, PluginError};
use crate::host::{Compiled, PluginHost, TICK};
use crate::limits::{MESSAGE_BYTES, REQUEST_TRANSFER, TimedOut, line};
use crate::plugin::failure::{Failure, Window};
use crate::pool::{Instance, Live, Pool};
use crate::primitives::GraphAccess;
use crate::state::{GuestError, Identity, State};
use crate::stats::{Counters, Stats};

/// Longest time of the first `configure`: no request waits for it, and it may have tables to build.
const FIRST_CONFIGURE: Duration = Duration::from_secs(2);

/// One compiled component with one release's settings and limits. Calls may come from many threads.
pub struct Plugin {
    host: Arc<PluginHost>,
    compiled: Arc<Compiled>,
    config: PluginConfig,
    identity: Arc<Identity>,
    pool: Pool,
    counters: Arc<Counters>,
}

impl Plugin {
    /// Makes a first instance and configures it: a plugin that refuses its settings is found out here.
    ///
    /// # Errors
    /// `Configure` where the plugin refuses its settings; else as every call.
    pub fn new(host: &Arc<PluginHost>, compiled: Arc<Compiled>, config: PluginConfig) -> Result<Self, PluginError> {
        let identity =
            Identity { name: Arc::clone(&config.name), release: Arc::clone(&config.release), role: compiled.role() };
        let plugin = Self {
            host: Arc::clone(host),
            identity: Arc::new(identity),
            pool: Pool::new(config.max_instances),
            counters: Arc::default(),
            compiled,
            config,
        };
        let window = Window::from_now(FIRST_CONFIGURE, None);
        let first = plugin.create(&window).map(|instance| {
            if let Some(mut lease) = plugin.pool.lease(window.end) {
                lease.instance = Some(instance);
            }
        });
        plugin.counted(None, first)?;
        Ok(plugin)
    }

    /// The plugin's role.
    #[must_use]
    pub fn role(&self) -> Role {
        self.identity.role
    }

    /// The plugin's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.identity.name
    }

    /// The compiled component.
    #[must_use]
    pub fn compiled(&self) -> &Arc<Compiled> {
        &self.compiled
    }

    /// The plugin's counters.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.counters.snapshot()
    }

    /// Turns raw features into prepared ones: as many as the request has features, all finite.
    ///
    /// # Errors
    /// [`PluginError`].
    pub fn prepare(&self, context: &Context, request: &Request, deadline: Instant) -> Result<Vec<f32>, PluginError> {
        let answer = self.call(Role::PreProcessor, deadline, None, |Instance { store, guest }, info| {
            guest.prepare(store, info, context, request)
        });
        let expected = request.features.len();
        let checked = answer.and_then(|values| check::finite(values, expected, "prepared values"));
        self.counted(Some(context), checked)
    }

    /// Turns the model's outputs into a decision. `prepared` is parallel to the request's features.
    ///
    /// # Errors
    /// [`PluginError`].
    #[expect(clippy::too_many_arguments, reason = "the contract's own six and the deadline")]
    pub fn decide(
        &self,
        context: &Context,
        request: &Request,
        prepared: &[f32],
        output: ModelOutput<'_>,
        evidence: &Evidence,
        policy: &Policy,
        deadline: Instant,
    ) -> Result<Decision, PluginError> {
        let answer = self.call(Role::PostProcessor, deadline, None, |Instance { store, guest }, info| {
            guest.decide(store, info, context, request, prepared, output, evidence, policy)
        });
        self.counted(Some(context), answer.and_then(check::decision))
    }

    /// Samples every hop for every seed. The blocks are as many as hops and relations ask for, and otherwise **not
    /// verified**: see `sagehost_graph::verify_blocks`.
    ///
    /// # Errors
    /// [`PluginError`].
    pub fn sample(
        &self,
        view: &Arc<dyn GraphView>,
        salt: &Arc<str>,
        seeds: &Frontier,
        hops: &[Hop],
        growth: Growth,
        deadline: Instant,
    ) -> Result<Vec<Block>, PluginError> {
        let graph = self.graph(view, Some(salt), seeds);
        let answer = self.call(Role::Sampler, deadline, Some(graph), |Instance { store, guest }, info| {
            guest.sample(store, info, seeds, hops, growth)
        });
        self.counted(None, answer.and_then(|blocks| check::blocks(blocks, hops)))
    }

    /// Coefficients parallel to the block's edges, all finite. `layer` is the layer that they are used in.
    ///
    /// # Errors
    /// [`PluginError`].
    pub fn weigh(
        &self,
        view: &Arc<dyn GraphView>,
        layer: u32,
        block: &Block,
        deadline: Instant,
    ) -> Result<Vec<f32>, PluginError> {
        let graph = self.graph(view, None, &block.dst);
        let answer = self.call(Role::EdgeWeigher, deadline, Some(graph), |Instance { store, guest }, info| {
            guest.weigh(store, info, layer, block)
        });
        self.counted(None, answer.and_then(|values| check::finite(values, block.num_edges(), "coefficients")))
    }

    /// Reduces each destination's rows to one row of `dim` finite numbers.
    ///
    /// # Errors
    /// [`PluginError`].
    pub fn reduce(&self, layer: u32, rows: Rows<'_>, deadline: Instant) -> Result<Vec<f32>, PluginError> {
        let destinations = rows.offsets.len().saturating_sub(1);
        let answer = self.call(Role::Reducer, deadline, None, |Instance { store, guest }, info| {
            guest.reduce(store, info, layer, rows)
        });
        let expected = destinations.saturating_mul(rows.dim as usize);
        self.counted(None, answer.and_then(|values| check::finite(values, expected, "reduced values")))
    }

    fn graph(&self, view: &Arc<dyn GraphView>, salt: Option<&Arc<str>>, frontier: &Frontier) -> GraphAccess {
        GraphAccess::new(Arc::clone(view), salt.cloned(), frontier, self.config.memory_limit)
    }

    /// One call on an instance of its own. A failure of wasmtime's throws the instance away; an error that the guest
    /// returns does not.
    fn call<T>(
        &self,
        role: Role,
        deadline: Instant,
        graph: Option<GraphAccess>,
        run: impl FnOnce(&mut Instance, CallInfo<'_>) -> Answer<T>,
    ) -> Result<T, Failure> {
        self.counters.call();
        if role != self.role() {
            let message = format!("called as a {role}; it is a {}", self.role());
            return Err(Failure::new(ErrorKind::Internal, message));
        }
        let Some(mut lease) = self.pool.lease(deadline) else {
            let message = format!("all {} instances were busy until the deadline", self.pool.max());
            return Err(Failure::new(ErrorKind::Unavailable, message));
        };
        // The wait for an instance is not the plugin's time.
        let window = Window::from_now(self.config.call_limit, Some(deadline));
        if window.start >= deadline {
            return Err(Failure::new(ErrorKind::Timeout, "the request's deadline passed before the call"));
        }
        let mut instance = match lease.instance.take() {
            Some(instance) => instance,
            None => self.create(&window)?,
        };
        let Ok(remaining) = arm(&mut instance.store, window.end, graph) else {
            instance.store.data_mut().disarm();
            lease.instance = Some(instance);
            return Err(Failure::new(ErrorKind::Timeout, "its time was over before the call"));
        };
        let deadline_ms = u32::try_from(remaining.as_millis()).unwrap_or(u32::MAX);
        let answer = run(&mut instance, CallInfo { release: &self.identity.release, deadline_ms });
        instance.store.data_mut().disarm();
        match answer {
            Ok(answer) => {
                lease.instance = Some(instance);
                answer.map_err(|GuestError { kind, message }| Failure::new(kind, line(&message, MESSAGE_BYTES)))
            }
            Err(error) => {
                self.counters.discarded();
                Err(failure::describe(&error, &window, instance.store.data().panic()))
            }
        }
    }

    /// Makes and configures an instance.
    fn create(&self, window: &Window) -> Result<Instance, Failure> {
        let live = Live::new(&self.counters, self.host.live());
        let state = State::new(Arc::clone(&self.identity), self.config.memory_limit, live);
        let mut store = Store::new(self.host.engine(), state);
        store.limiter(|state| &mut state.memory);
        store.set_hostcall_fuel(match self.role() {
            Role::PreProcessor | Role::PostProcessor => REQUEST_TRANSFER.min(self.config.memory_limit),
            Role::Sampler | Role::EdgeWeigher | Role::Reducer => self.config.memory_limit,
        });
        // The clock only says when to look: how many ticks have passed depends on how busy the machine is.
        store.epoch_deadline_callback(|store| Ok(UpdateDeadline::Continue(ticks(store.data().remaining()?))));
        let failed = |error: &wasmtime::Error, panic: Option<&str>| {
            self.counters.discarded();
            failure::describe(error, window, panic)
        };
        arm(&mut store, window.end, None).map_err(|error| failed(&error.into(), None))?;
        let guest = self.compiled.program.instantiate(&mut store).map_err(|error| match failed(&error, None) {
            // Nothing was answered yet: the types of its exports are not the contract's.
            Failure { kind: ErrorKind::BadOutput, .. } => {
                let reason = line(&format!("{error:#}"), MESSAGE_BYTES);
                Failure::new(ErrorKind::Internal, format!("no instance could be made: {reason}"))
            }
            failure => failure,
        })?;
        let configured = guest.configure(&mut store, &self.config.settings);
        match configured.map_err(|error| failed(&error, store.data().panic()))? {
            Ok(()) => Ok(Instance { store, guest }),
            Err(reason) => {
                self.counters.discarded();
                let message = format!("it refuses its settings: {}", line(&reason, MESSAGE_BYTES));
                Err(Failure::new(ErrorKind::Configure, message))
            }
        }
    }

    /// Counts a failure, logs it and names the plugin in it.
    fn counted<T>(&self, context: Option<&Context>, result: Result<T, Failure>) -> Result<T, PluginError> {
        result.map_err(|failure| {
            self.counters.error(failure.kind);
            let Identity { name, release, role } = &*self.identity;
            if failure.is_logged() {
                tracing::warn!(
                    plugin = %name,
                    role = role.as_str(),
                    %release,
                    request_id = context.map(|context| &*context.request_id),
                    kind = failure.kind.as_str(),
                    functions = failure.functions,
                    "a plugin's call failed: {}",
                    failure.message
                );
            }
            PluginError { kind: failure.kind, plugin: Arc::clone(name), role: *role, message: failure.message }
        })
    }
}

impl std::fmt::Debug for Plugin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plugin").field("identity", &self.identity).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

/// Begins a call in a store; says how long it may take.
fn arm(store: &mut Store<State>, end: Instant, graph: Option<GraphAccess>) -> Result<Duration, TimedOut> {
    store.data_mut().arm(end, graph);
    let remaining = store.data().remaining()?;
    store.set_epoch_deadline(ticks(remaining));
    Ok(remaining)
}

fn ticks(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u64::MAX / 2)
}
