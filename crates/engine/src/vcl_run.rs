// SPDX-License-Identifier: BSD-2-Clause
//! Runs VCL over a transaction: the same for both sides. It waits for modules, keeps the values that subroutines have for
//! each other, and lets nobody hear of the end of a subroutine before its bans and purges are durable. Steps match that
//! end in the subroutine's own type ([`tables::vclsubs::SubAction`]).

use std::future::Future;
use std::sync::Arc;

use shm::vsl::TxnLog;
use tables::tags::Tag;
use tables::vclsubs::{Action, Method};
use vrt::{LoadedVcl, Machine, Privates, RunOutcome, VclLocation};

use crate::contain::RunningVcl;
use crate::engine::Engine;
use crate::invalidations::Invalidations;
use crate::pool;

const HAS_VCL: &str = "a transaction that runs VCL has one";

/// The VCL of a transaction and what its subroutines leave to each other.
#[derive(Default)]
pub(crate) struct VclRun {
    /// `None` until a request has got one.
    vcl: Option<Arc<LoadedVcl>>,
    /// The VCL before the one that `return (vcl(..))` chose.
    first: Option<Arc<LoadedVcl>>,
    /// Made for the first subroutine.
    machine: Option<Box<Machine>>,
    pub task: Privates,
    pub invalidations: Invalidations,
}

impl VclRun {
    pub fn of(vcl: Arc<LoadedVcl>) -> Self {
        VclRun { vcl: Some(vcl), ..VclRun::default() }
    }

    /// A run of the VCL that a page began with, for a fragment.
    pub fn of_fragment(&self) -> Self {
        let vcl = self.first.clone().or_else(|| self.vcl.clone());
        VclRun { vcl, first: self.first.clone(), ..VclRun::default() }
    }

    pub fn loaded(&self) -> &Arc<LoadedVcl> {
        self.vcl.as_ref().expect(HAS_VCL)
    }

    /// Goes on with the VCL that `return (vcl(..))` names.
    pub fn select(&mut self, vcl: Arc<LoadedVcl>) {
        let before = self.vcl.replace(vcl);
        self.first = self.first.take().or(before);
    }

    /// Place where the last subroutine ended.
    pub fn ended_at(&self) -> Option<VclLocation<'_>> {
        self.machine.as_ref()?.ended_at()
    }

    /// Place where the last subroutine set `beresp.uncacheable`.
    pub fn uncacheable_at(&self) -> Option<VclLocation<'_>> {
        self.machine.as_ref()?.uncacheable_at()
    }

    /// Leaves the machine to other transactions.
    pub fn leave_machine(&mut self) {
        self.machine.take().into_iter().for_each(pool::leave_machine);
    }

    fn start(&mut self, method: Method) -> Box<Machine> {
        let mut machine = self.machine.take().unwrap_or_else(pool::machine);
        machine.start(self.loaded(), method);
        machine
    }
}

/// A side of a transaction, over which VCL runs.
pub(crate) trait VclSide {
    fn engine(&self) -> &Engine;
    fn vcl_and_log(&mut self) -> (&mut VclRun, &mut TxnLog);
    fn vcl_run(&mut self) -> &mut VclRun {
        self.vcl_and_log().0
    }
    fn is_traced(&self) -> bool;
    /// Runs a machine that was started with `method` over this side.
    fn advance(&mut self, machine: &mut Machine, method: Method) -> RunOutcome;
    async fn wait<F: Future>(&mut self, future: F) -> F::Output;
    /// True if the run counts nothing (`lacquer explain`).
    fn is_trial(&self) -> bool;
}

/// Runs `method` to its end. A failure is an action, too.
pub(crate) async fn run(side: &mut impl VclSide, method: Method) -> Action {
    if let Some(action) = end_at_once(side, method) {
        return action;
    }
    // The machine works on its side, so it can't be a part of it meanwhile.
    let mut machine = side.vcl_run().start(method);
    let mut action = loop {
        let running = RunningVcl(side.engine().main);
        let outcome = side.advance(&mut machine, method);
        drop(running);
        match outcome {
            RunOutcome::Done(action) => break action,
            RunOutcome::Wait(future) => {
                let value = side.wait(future).await;
                machine.resume(value);
            }
            RunOutcome::OutOfBudget => rt::give_way().await,
            RunOutcome::Failed(_) => break Action::Fail,
        }
    };
    side.vcl_run().machine = Some(machine);
    if !side.vcl_run().invalidations.is_empty() && settle(side).await.is_err() {
        action = Action::Fail;
    }
    if matches!(action, Action::Fail) && !side.is_trial() {
        side.engine().main.vcl_fail.inc();
    }
    action
}

/// The end of a subroutine that does nothing but return.
fn end_at_once(side: &mut impl VclSide, method: Method) -> Option<Action> {
    if side.is_traced() {
        return None;
    }
    let (vcl, log) = side.vcl_and_log();
    let VclRun { vcl: Some(vcl), machine, .. } = vcl else { return None };
    machine.get_or_insert_with(pool::machine).end_at_once(vcl, method, log)
}

/// Waits until bans and purges are durable: the transaction's result may tell of them.
async fn settle(side: &mut impl VclSide) -> Result<(), ()> {
    let mut invalidations = std::mem::take(&mut side.vcl_run().invalidations);
    let Some(kept) = side.engine().settled(&mut invalidations) else { return Ok(()) };
    side.wait(kept).await.map_err(|reason| side.vcl_and_log().1.putf(Tag::VclError, format_args!("{reason}")))
}
