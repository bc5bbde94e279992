//! The host's side of the interfaces `graph` and `log`. An error of the outer result ends the call; the inner one is for
//! the guest.

use super::bindings::sagehost::plugin::types::{BlockResult, Error, FrontierResult};
use super::bindings::sagehost::plugin::{graph, log, types};
use super::convert;
use crate::primitives::CallError;
use crate::state::State;

fn answer<T>(result: Result<T, CallError>) -> wasmtime::Result<Result<T, Error>> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(CallError::Guest(error)) => Ok(Err(convert::error(error))),
        Err(CallError::TimedOut(error)) => Err(error.into()),
    }
}

impl types::Host for State {}

impl graph::Host for State {
    fn degrees(&mut self, relation: u32, dst: FrontierResult) -> wasmtime::Result<Result<Vec<u32>, Error>> {
        let end = self.deadline();
        let dst = convert::frontier_back(dst);
        answer(self.graph().map_err(CallError::from).and_then(|graph| graph.degrees(end, relation, &dst)))
    }

    fn pick(
        &mut self,
        relation: u32,
        hop: u32,
        dst: FrontierResult,
        offsets: Vec<u32>,
        positions: Vec<u32>,
    ) -> wasmtime::Result<Result<BlockResult, Error>> {
        let end = self.deadline();
        let dst = convert::frontier_back(dst);
        let block = self
            .graph()
            .map_err(CallError::from)
            .and_then(|graph| graph.pick(end, (relation, hop), dst, &offsets, &positions));
        answer(block.map(convert::block_owned))
    }

    fn sample(
        &mut self,
        relation: u32,
        hop: u32,
        dst: FrontierResult,
        fanout: i32,
        how: graph::Strategy,
    ) -> wasmtime::Result<Result<BlockResult, Error>> {
        let end = self.deadline();
        let dst = convert::frontier_back(dst);
        let strategy = convert::strategy_back(how);
        let block = self
            .graph()
            .map_err(CallError::from)
            .and_then(|graph| graph.sample(end, (relation, hop), dst, fanout, strategy));
        answer(block.map(convert::block_owned))
    }

    fn edge_times(&mut self, relation: u32, edges: Vec<u64>) -> wasmtime::Result<Result<Vec<i64>, Error>> {
        let end = self.deadline();
        answer(self.graph().map_err(CallError::from).and_then(|graph| graph.edge_times(end, relation, &edges)))
    }

    fn edge_column(
        &mut self,
        relation: u32,
        column: String,
        edges: Vec<u64>,
    ) -> wasmtime::Result<Result<Vec<f32>, Error>> {
        let end = self.deadline();
        let values =
            self.graph().map_err(CallError::from).and_then(|graph| graph.edge_column(end, relation, &column, &edges));
        answer(values)
    }
}

impl log::Host for State {
    fn write(&mut self, level: log::Level, message: String) -> wasmtime::Result<()> {
        Ok(self.log(convert::level_back(level), &message)?)
    }
}
