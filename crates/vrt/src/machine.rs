// SPDX-License-Identifier: BSD-2-Clause
//! The machine: runs one subroutine of a VCL over a transaction. Where it is and what it holds are data, so that a
//! module may wait and a long program yields.

use std::sync::Arc;

use tables::vclvars::{Method, Return};

use crate::ctx::{Ctx, Failure, Wait};
use crate::loaded::LoadedVcl;
use crate::value::Value;

/// What a subroutine ended with. [`Action::name`] is the word in VCL.
#[derive(Debug, Clone, PartialEq)]
#[allow(missing_docs)]
pub enum Action {
    Abandon,
    Deliver,
    /// Backend side: make a synthetic object. 503 and no reason when VCL gave none.
    Error {
        status: u16,
        reason: Option<Vec<u8>>,
    },
    Fail,
    Fetch,
    Hash,
    Lookup,
    Ok,
    Pass,
    /// Backend side, `return (pass(DURATION))`: hit-for-pass for that long, in seconds. Plain `return (pass)` of
    /// `vcl_backend_response` is `Pass`.
    PassFor(f64),
    Pipe,
    Purge,
    Restart,
    Retry,
    /// Client side: a synthetic response.
    Synth {
        status: u16,
        reason: Option<Vec<u8>>,
    },
    /// Starts over with the VCL of that label.
    Vcl(String),
}

impl Action {
    /// The word that `return` has for it.
    pub fn kind(&self) -> Return {
        match self {
            Action::Abandon => Return::Abandon,
            Action::Deliver => Return::Deliver,
            Action::Error { .. } => Return::Error,
            Action::Fail => Return::Fail,
            Action::Fetch => Return::Fetch,
            Action::Hash => Return::Hash,
            Action::Lookup => Return::Lookup,
            Action::Ok => Return::Ok,
            Action::Pass | Action::PassFor(_) => Return::Pass,
            Action::Pipe => Return::Pipe,
            Action::Purge => Return::Purge,
            Action::Restart => Return::Restart,
            Action::Retry => Return::Retry,
            Action::Synth { .. } => Return::Synth,
            Action::Vcl(_) => Return::Vcl,
        }
    }
}

/// Why [`Machine::run`] came back.
pub enum Outcome {
    /// The subroutine ended. `VCL_return` is logged.
    Done(Action),
    /// A module waits: await the future, give its result to [`Machine::resume`], run again.
    Wait(Wait<Result<Value, Failure>>),
    /// Many steps ran: yield to others, then run again.
    OutOfBudget,
    /// VCL failed: the text is logged as `VCL_Error`, then `VCL_return fail`. To be handled as [`Action::Fail`].
    Failed(Failure),
}

/// Runs one subroutine at a time; kept with its transaction and reused, so that running allocates nothing.
#[derive(Default)]
pub struct Machine {
    vcl: Option<Arc<LoadedVcl>>,
}

impl Machine {
    /// Nothing runs yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a subroutine. The machine must not be in another.
    pub fn start(&mut self, vcl: &Arc<LoadedVcl>, method: Method) {
        let _ = (vcl, method, &self.vcl);
        todo!()
    }

    /// Runs until the subroutine ends, waits or has used its budget. Logs `VCL_call` first and `VCL_return` last.
    pub fn run(&mut self, ctx: &mut dyn Ctx) -> Outcome {
        let _ = ctx;
        todo!()
    }

    /// What the future of [`Outcome::Wait`] gave; the next [`Machine::run`] goes on with it.
    pub fn resume(&mut self, value: Result<Value, Failure>) {
        let _ = value;
        todo!()
    }
}
