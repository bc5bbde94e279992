//! `sagehost:plugin@0.1`: generated bindings, conversions to and from [`crate::api`], the host's side of the imports.

mod bindings;
mod convert;
mod imports;

use bindings::exports::sagehost::plugin::{configure, deciding, preparing, reducing, sampling, weighing};
use bindings::sagehost::plugin::{graph, log, types};
use sagehost_graph::{Growth, Hop};
use sagehost_types::{Block, Frontier};
use wasmtime::component::{Component, HasSelf, InstancePre, Linker};
use wasmtime::{Engine, Store};

use crate::api::{Context, Decision, Evidence, ModelOutput, Policy, Request, Role, Rows, Setting};
use crate::error::LoadError;
use crate::inspect::SUPPORTED;
use crate::state::{GuestError, State};

/// What a call gives back: wasmtime's error where the guest failed, else the guest's own answer.
pub(crate) type Answer<T> = wasmtime::Result<Result<T, GuestError>>;

/// A compiled component whose imports are linked.
pub(crate) struct Program {
    linked: InstancePre<State>,
    configure: configure::GuestIndices,
    role: RoleIndices,
}

/// Where the role's exports are.
enum RoleIndices {
    Sampler(sampling::GuestIndices),
    EdgeWeigher(weighing::GuestIndices),
    Reducer(reducing::GuestIndices),
    PreProcessor(preparing::GuestIndices),
    PostProcessor(deciding::GuestIndices),
}

impl Program {
    /// Links a component; the types of its imports are checked here, those of its exports by the first instance.
    pub(crate) fn new(engine: &Engine, component: &Component, role: Role) -> Result<Self, LoadError> {
        let mismatch =
            |error: wasmtime::Error| LoadError::Mismatch { supported: SUPPORTED, detail: format!("{error:#}") };
        let mut linker = Linker::<State>::new(engine);
        types::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(mismatch)?;
        graph::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(mismatch)?;
        log::add_to_linker::<_, HasSelf<_>>(&mut linker, |state| state).map_err(mismatch)?;
        let linked = linker.instantiate_pre(component).map_err(mismatch)?;
        let configure = configure::GuestIndices::new(&linked).map_err(mismatch)?;
        let role = match role {
            Role::Sampler => sampling::GuestIndices::new(&linked).map(RoleIndices::Sampler),
            Role::EdgeWeigher => weighing::GuestIndices::new(&linked).map(RoleIndices::EdgeWeigher),
            Role::Reducer => reducing::GuestIndices::new(&linked).map(RoleIndices::Reducer),
            Role::PreProcessor => preparing::GuestIndices::new(&linked).map(RoleIndices::PreProcessor),
            Role::PostProcessor => deciding::GuestIndices::new(&linked).map(RoleIndices::PostProcessor),
        };
        Ok(Self { linked, configure, role: role.map_err(mismatch)? })
    }

    /// Makes an instance in `store`.
    pub(crate) fn instantiate(&self, store: &mut Store<State>) -> wasmtime::Result<Guest> {
        let instance = self.linked.instantiate(&mut *store)?;
        let configure = self.configure.load(&mut *store, &instance)?;
        let role = match &self.role {
            RoleIndices::Sampler(indices) => RoleGuest::Sampler(indices.load(&mut *store, &instance)?),
            RoleIndices::EdgeWeigher(indices) => RoleGuest::EdgeWeigher(indices.load(&mut *store, &instance)?),
            RoleIndices::Reducer(indices) => RoleGuest::Reducer(indices.load(&mut *store, &instance)?),
            RoleIndices::PreProcessor(indices) => RoleGuest::PreProcessor(indices.load(&mut *store, &instance)?),
            RoleIndices::PostProcessor(indices) => RoleGuest::PostProcessor(indices.load(&mut *store, &instance)?),
        };
        Ok(Guest { configure, role })
    }
}

/// The exports of one instance.
pub(crate) struct Guest {
    configure: configure::Guest,
    role: RoleGuest,
}

enum RoleGuest {
    Sampler(sampling::Guest),
    EdgeWeigher(weighing::Guest),
    Reducer(reducing::Guest),
    PreProcessor(preparing::Guest),
    PostProcessor(deciding::Guest),
}

/// What every call tells the guest.
#[derive(Clone, Copy)]
pub(crate) struct CallInfo<'a> {
    pub(crate) release: &'a str,
    pub(crate) deadline_ms: u32,
}

impl<'a> CallInfo<'a> {
    fn batch(self) -> types::BatchContext<'a> {
        types::BatchContext { release: self.release, deadline_ms: self.deadline_ms }
    }

    fn request(self, context: &'a Context) -> types::Context<'a> {
        types::Context {
            request_id: &context.request_id,
            release: self.release,
            as_of_ms: context.as_of_ms,
            deadline_ms: self.deadline_ms,
        }
    }
}

/// The plugin's methods check the role before they call; this is for the compiler.
fn other_role<T>() -> wasmtime::Result<T> {
    Err(wasmtime::Error::msg("the instance plays another role"))
}

impl Guest {
    /// The inner error is the plugin's reason to refuse its settings.
    pub(crate) fn configure(
        &self,
        store: &mut Store<State>,
        settings: &[(String, Setting)],
    ) -> wasmtime::Result<Result<(), String>> {
        convert::with_settings(settings, |settings| self.configure.call_configure(store, settings))
    }

    pub(crate) fn sample(
        &self,
        store: &mut Store<State>,
        info: CallInfo<'_>,
        seeds: &Frontier,
        hops: &[Hop],
        growth: Growth,
    ) -> Answer<Vec<Block>> {
        let RoleGuest::Sampler(guest) = &self.role else { return other_role() };
        let hops: Vec<_> = hops.iter().map(convert::hop).collect();
        let blocks =
            guest.call_sample(store, info.batch(), convert::frontier(seeds), &hops, convert::growth(growth))?;
        Ok(blocks.map(|blocks| blocks.into_iter().map(convert::block_back).collect()).map_err(convert::error_back))
    }

    pub(crate) fn weigh(
        &self,
        store: &mut Store<State>,
        info: CallInfo<'_>,
        layer: u32,
        block: &Block,
    ) -> Answer<Vec<f32>> {
        let RoleGuest::EdgeWeigher(guest) = &self.role else { return other_role() };
        Ok(guest.call_weigh(store, info.batch(), layer, convert::block(block))?.map_err(convert::error_back))
    }

    pub(crate) fn reduce(
        &self,
        store: &mut Store<State>,
        info: CallInfo<'_>,
        layer: u32,
        rows: Rows<'_>,
    ) -> Answer<Vec<f32>> {
        let RoleGuest::Reducer(guest) = &self.role else { return other_role() };
        let Rows { dim, offsets, rows } = rows;
        Ok(guest.call_reduce(store, info.batch(), layer, dim, offsets, rows)?.map_err(convert::error_back))
    }

    pub(crate) fn prepare(
        &self,
        store: &mut Store<State>,
        info: CallInfo<'_>,
        context: &Context,
        request: &Request,
    ) -> Answer<Vec<f32>> {
        let RoleGuest::PreProcessor(guest) = &self.role else { return other_role() };
        convert::with_request(request, |request| {
            Ok(guest.call_prepare(store, info.request(context), request)?.map_err(convert::error_back))
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the contract's own six, the store and the call")]
    pub(crate) fn decide(
        &self,
        store: &mut Store<State>,
        info: CallInfo<'_>,
        context: &Context,
        request: &Request,
        prepared: &[f32],
        output: ModelOutput<'_>,
        evidence: &Evidence,
        policy: &Policy,
    ) -> Answer<Decision> {
        let RoleGuest::PostProcessor(guest) = &self.role else { return other_role() };
        let relations: Vec<&str> = evidence.relations.iter().map(|name| &**name).collect();
        let keys: Vec<&str> = evidence.keys.iter().map(String::as_str).collect();
        let evidence = convert::evidence(evidence, &relations, &keys);
        let output = convert::output(output);
        convert::with_request(request, |request| {
            convert::with_settings(&policy.values, |values| {
                let policy = deciding::Policy { name: &policy.name, version: policy.version, values };
                let context = info.request(context);
                let answer = guest.call_decide(store, context, request, prepared, output, evidence, policy)?;
                Ok(answer.map(convert::decision_back).map_err(convert::error_back))
            })
        })
    }
}
