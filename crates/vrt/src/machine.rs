// SPDX-License-Identifier: BSD-2-Clause
//! The machine: runs one subroutine of a VCL over a transaction. Where it is and what it holds are data, so that a
//! module may wait and a long program yields.

use std::sync::Arc;

use shm::vsl::TxnLog;
use tables::Tag;
use tables::vclsubs::{Action, Method};
use vcl::program::Op;
use vcl_regex::{Regex, Substitution};

use crate::ctx::{Ctx, VclFailure, VclWait};
use crate::exec::plain_action;
use crate::known::SubjectFacts;
use crate::loaded::LoadedVcl;
use crate::profile::{Looking, NoWatch, OpWatch, ProfileLook};
use crate::value::{Text, Value};

/// Reasons for [`Machine::run`] to return.
pub enum RunOutcome {
    /// The subroutine ended. `VCL_return` is logged.
    Done(Action),
    /// A module waits: await the future, give its result to [`Machine::resume`], run again.
    Wait(VclWait<Result<Value, VclFailure>>),
    /// Many steps ran: yield to others, then run again.
    OutOfBudget,
    /// VCL failed: the text is logged as `VCL_Error`, then `VCL_return fail`. To be handled as [`Action::Fail`].
    Failed(VclFailure),
}

/// Ops that one [`Machine::run`] executes at most, of some 50 nanoseconds each: the few subroutines of a request that stay below it
/// may run in one turn.
const BUDGET: u32 = 2_000;
/// Ops that matching a pattern counts beside the subject's length.
const MATCH_OPS: usize = 8;
/// Bytes of a subject that are matched in the time of an op, and by the backtracker.
const MATCHED_AN_OP: usize = 16;
const BACKTRACKED_AN_OP: usize = 1;
/// Bytes of a text that are moved, and logged, in the time of an op.
const MOVED_AN_OP: usize = 64;
/// Ops that each replaced match counts, without groups and with them.
const REPLACED_OPS: usize = 6;
const GROUPS_OPS: usize = 20;
/// Ops that one subroutine of the machine may execute in all. VCL has no loops, but calls can fan out without end.
const MAX_OPS: u64 = 50_000_000;
const MAX_TEXT: usize = 16 << 20;

/// Runs one subroutine at a time; kept with its transaction and reused, so that running allocates nothing.
#[derive(Default)]
pub struct Machine {
    pub(crate) vcl: Option<Arc<LoadedVcl>>,
    pub(crate) stack: Vec<Value>,
    pub(crate) text: Vec<u8>,
    /// Offset of each of them.
    pub(crate) marks: Vec<u32>,
    pub(crate) flag: bool,
    pub(crate) first_piece: Option<u32>,
    /// `now`: the same for a whole subroutine.
    pub(crate) now: f64,
    pub(crate) method: Option<Method>,
    pub(crate) pc: u32,
    /// True if `vsl_mask` lets `VCL_trace` through.
    pub(crate) traces: bool,
    /// True if each op is to be run by itself: for `VCL_trace`, or for a profile.
    pub(crate) stepwise: bool,
    look: Option<ProfileLook>,
    pub(crate) known: Vec<SubjectFacts>,
    /// The `regsub` that isn't through: what is done of it is the innermost text.
    pub(crate) substitution: Option<Substitution>,
    calls: Vec<u32>,
    /// Place where `beresp.uncacheable` was set last, and where that subroutine was called from.
    pub(crate) uncacheable_at: Option<(u32, Option<u32>)>,
    state: MachineState,
    ops: u64,
    /// Ops that the last op counts beyond one, of the budget.
    charged: u32,
}

/// A place in VCL, as people are told of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VclLocation<'a> {
    /// Name of the subroutine.
    pub sub: &'a str,
    /// The file; `<builtin>` for the built-in VCL.
    pub file: &'a str,
    /// Number of the line.
    pub line: u32,
}

impl VclLocation<'_> {
    /// True if it is in the built-in VCL.
    pub fn is_builtin(&self) -> bool {
        self.file == "<builtin>"
    }
}

impl std::fmt::Display for VclLocation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}:{}", self.sub, self.file, self.line)
    }
}

#[derive(Default)]
enum MachineState {
    #[default]
    Idle,
    Started,
    Running,
    /// A module waits; its call site says whether the result is pushed.
    Waiting {
        void: bool,
    },
    Resumed {
        void: bool,
        result: Result<Value, VclFailure>,
    },
}

pub(crate) enum AfterOp {
    Op,
    /// The op isn't through: it goes on when it is run again.
    Again,
    End(Action),
    Wait {
        void: bool,
        future: VclWait<Result<Value, VclFailure>>,
    },
}

pub(crate) fn match_ops(regex: &Regex, bytes: usize) -> usize {
    let an_op = if regex.is_backtracking() { BACKTRACKED_AN_OP } else { MATCHED_AN_OP };
    MATCH_OPS + bytes / an_op
}

pub(crate) fn replacing_ops(matches: usize, captures: bool) -> usize {
    matches * if captures { GROUPS_OPS } else { REPLACED_OPS }
}

impl Machine {
    /// A machine that runs nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a subroutine. What it was in the middle of is forgotten.
    pub fn start(&mut self, vcl: &Arc<LoadedVcl>, method: Method) {
        self.hold(vcl);
        self.reset();
        let sub = vcl.program.methods[method as usize];
        self.pc = vcl.program.subs[sub as usize].entry;
        self.known.resize(vcl.program.lean.subjects.len(), SubjectFacts::default());
        self.method = Some(method);
        self.uncacheable_at = None;
        self.charged = 0;
        self.state = MachineState::Started;
    }

    /// Does all that a run does of a subroutine that only returns, as most do that a site's VCL leaves alone: the records, and the place
    /// of its end. `None`: there is more to do, or the VCL's runs are profiled. Not for a run that is traced.
    pub fn end_at_once(&mut self, vcl: &Arc<LoadedVcl>, method: Method, log: &mut TxnLog) -> Option<Action> {
        let pc = vcl.program.lean.ends[method as usize]?;
        let Op::Return { action } = vcl.program.code[pc as usize] else { return None };
        let is_ordinary = !is_housekeeping(method) && !vcl.profile.is_on();
        let action = plain_action(action).ok().filter(|action| is_ordinary && method.allows(action.word()))?;
        self.hold(vcl);
        (self.pc, self.uncacheable_at) = (pc, None);
        log.put(Tag::VclCall, method.log_name().as_bytes());
        log.put(Tag::VclReturn, action.word().name().as_bytes());
        Some(action)
    }

    fn hold(&mut self, vcl: &Arc<LoadedVcl>) {
        if !self.vcl.as_ref().is_some_and(|old| Arc::ptr_eq(old, vcl)) {
            self.vcl = Some(vcl.clone());
        }
    }

    /// Lets go of the VCL and of all values.
    pub fn clear(&mut self) {
        self.reset();
        self.vcl = None;
    }

    fn reset(&mut self) {
        self.stack.clear();
        self.text.clear();
        self.marks.clear();
        self.calls.clear();
        self.known.clear();
        self.substitution = None;
        (self.state, self.method, self.flag, self.ops) = (MachineState::Idle, None, false, 0);
    }

    /// The VCL of the last [`Machine::start`].
    pub fn vcl(&self) -> Option<&Arc<LoadedVcl>> {
        self.vcl.as_ref()
    }

    /// Position in the source: file, line and column of the op that runs next. For the watchdog and for errors.
    pub fn place(&self) -> Option<(&str, u32, u32)> {
        let program = &self.vcl.as_ref()?.program;
        let place = program.map.place(self.pc as usize)?;
        Some((&program.map.source(place)?.name, place.line, place.pos))
    }

    /// Place where the last subroutine ended: its `return`, or what failed.
    pub fn ended_at(&self) -> Option<VclLocation<'_>> {
        self.source_location(self.pc)
    }

    /// Place where the last subroutine set `beresp.uncacheable`; in the built-in VCL's `vcl_beresp_hitmiss` that of its
    /// caller.
    pub fn uncacheable_at(&self) -> Option<VclLocation<'_>> {
        let (pc, caller) = self.uncacheable_at?;
        let location = self.source_location(pc)?;
        match caller {
            Some(caller) if location.is_builtin() => self.source_location(caller),
            _ => Some(location),
        }
    }

    fn source_location(&self, pc: u32) -> Option<VclLocation<'_>> {
        let program = &self.vcl.as_ref()?.program;
        let place = program.map.place(pc as usize)?;
        let sub = &program.subs[program.subs.partition_point(|sub| sub.entry <= pc).checked_sub(1)?];
        Some(VclLocation { sub: &sub.name, file: &program.map.source(place)?.name, line: place.line })
    }

    /// The op that runs matches so many bytes against a pattern.
    pub(crate) fn charge_match(&mut self, regex: &Regex, bytes: usize) {
        self.charge(match_ops(regex, bytes));
    }

    /// The op that runs moves a text so long.
    pub(crate) fn charge_text(&mut self, bytes: usize) {
        self.charge(bytes / MOVED_AN_OP);
    }

    pub(crate) fn charge(&mut self, ops: usize) {
        self.charged = self.charged.saturating_add(ops.min(BUDGET as usize) as u32);
    }

    /// True if the charge is a budget by itself.
    pub(crate) fn is_overcharged(&self) -> bool {
        self.charged >= BUDGET
    }

    pub(crate) fn note_uncacheable(&mut self) {
        self.uncacheable_at = Some((self.pc, self.calls.last().map(|back| back - 1)));
    }

    /// Runs until the subroutine ends, waits or has used its budget. Logs `VCL_call` first and `VCL_return` last.
    /// Panics when nothing was started, or when it waits and was not resumed.
    pub fn run(&mut self, ctx: &mut dyn Ctx) -> RunOutcome {
        // Taken and put back: no reference count that all threads share is touched on the way.
        let vcl = self.vcl.take().expect("a machine is started before it runs");
        let outcome = self.run_in(&vcl, ctx);
        self.vcl = Some(vcl);
        outcome
    }

    fn run_in(&mut self, vcl: &Arc<LoadedVcl>, ctx: &mut dyn Ctx) -> RunOutcome {
        let method = self.method.expect("a machine is started before it runs");
        self.traces = ctx.is_traced();
        let is_first = matches!(self.state, MachineState::Started);
        if is_first {
            self.look = vcl.profile.draw(method, vcl.program.code.len());
            // For the whole run: `LeanCode` has no returns from calls that it left out.
            self.stepwise =
                self.traces || vcl.program.lean.sets_trace || matches!(self.look, Some(ProfileLook::Ops(_)));
        }
        match std::mem::replace(&mut self.state, MachineState::Running) {
            MachineState::Idle | MachineState::Waiting { .. } => panic!("the machine has nothing to run"),
            MachineState::Running => {}
            MachineState::Started => self.begin(method, ctx),
            MachineState::Resumed { result: Err(failure), .. } => return self.fail(failure, ctx),
            MachineState::Resumed { void, result: Ok(value) } => {
                if !void {
                    self.stack.push(value);
                }
            }
        }
        match self.look.map(|look| vcl.profile.watch(look, method, vcl.program.code.len(), is_first)) {
            Some(Looking::Ops(mut watch)) => self.run_ops(&mut watch, vcl, ctx),
            Some(Looking::Whole(_timed)) => self.run_ops(&mut NoWatch, vcl, ctx),
            None => self.run_ops(&mut NoWatch, vcl, ctx),
        }
    }

    fn run_ops(&mut self, watch: &mut impl OpWatch, vcl: &Arc<LoadedVcl>, ctx: &mut dyn Ctx) -> RunOutcome {
        let program = &vcl.program;
        let code = if self.stepwise { &program.code } else { &program.lean.ops };
        // Most of what runs only says where to go on: that needs neither memory nor a detour by way of a `AfterOp`.
        let (mut pc, mut flag) = (self.pc, self.flag);
        let (mut left, mut ran) = (BUDGET, 0u32);
        while left > 0 {
            (left, ran) = (left - 1, ran + 1);
            let at = pc;
            match code[at as usize] {
                Op::Jump { to } => pc = to,
                Op::JumpIf { to } => pc = if flag { to } else { at + 1 },
                Op::JumpUnless { to } => pc = if flag { at + 1 } else { to },
                Op::Not => (flag, pc) = (!flag, at + 1),
                Op::CallSub { sub } => {
                    self.calls.push(at + 1);
                    pc = program.subs[sub as usize].entry;
                }
                Op::CallAt { to } => {
                    self.calls.push(at + 1);
                    pc = to;
                }
                Op::Leave => match self.calls.pop() {
                    Some(back) => pc = back,
                    None => {
                        self.pc = at;
                        return self.fail(VclFailure::new("VCL subroutine ended without a return"), ctx);
                    }
                },
                Op::TestField { head, field } => {
                    flag = ctx.head(head).is_some_and(|h| h.has(&*program.constants.headers[field as usize]));
                    pc += 1;
                }
                Op::Known { subject, test } if let Some(holds) = self.known(subject, test) => {
                    (flag, pc) = (holds, at + 1);
                }
                Op::Guards { at: first } => {
                    self.pc = at;
                    match self.guards(first, vcl, ctx) {
                        Ok(to) => (flag, pc) = (self.flag, to),
                        Err(failure) => return self.fail(failure, ctx),
                    }
                    left = left.saturating_sub(std::mem::take(&mut self.charged));
                }
                Op::Return { action } => {
                    self.pc = at;
                    let action = match plain_action(action) {
                        Ok(action) => action,
                        Err(failure) => return self.fail(failure, ctx),
                    };
                    watch.ran(at, at);
                    return self.end(action, ctx);
                }
                op => {
                    (self.pc, self.flag) = (at, flag);
                    match self.step(op, vcl, ctx) {
                        Ok(AfterOp::Op) => {
                            (flag, pc) = (self.flag, at + 1);
                            if self.charged > 0 {
                                left = left.saturating_sub(std::mem::take(&mut self.charged));
                            }
                        }
                        Ok(AfterOp::Again) => {
                            left = left.saturating_sub(std::mem::take(&mut self.charged));
                            continue;
                        }
                        Ok(AfterOp::End(action)) => {
                            watch.ran(at, at);
                            return self.end(action, ctx);
                        }
                        Ok(AfterOp::Wait { void, future }) => {
                            self.pc += 1;
                            watch.ran(at, self.pc);
                            self.state = MachineState::Waiting { void };
                            return RunOutcome::Wait(future);
                        }
                        Err(failure) => return self.fail(failure, ctx),
                    }
                }
            }
            watch.ran(at, pc);
        }
        (self.pc, self.flag) = (pc, flag);
        self.ops += u64::from(ran);
        if self.ops > MAX_OPS {
            return self.fail(VclFailure::new("VCL ran too many steps"), ctx);
        }
        RunOutcome::OutOfBudget
    }

    /// Sets the result of [`RunOutcome::Wait`]'s future; the next [`Machine::run`] goes on with it.
    pub fn resume(&mut self, result: Result<Value, VclFailure>) {
        self.state = match self.state {
            MachineState::Waiting { void } => MachineState::Resumed { void, result },
            _ => panic!("the machine doesn't wait"),
        };
    }

    fn begin(&mut self, method: Method, ctx: &mut dyn Ctx) {
        // As in varnishd: the time of the transaction's last timestamp. Subroutines outside of one look at the clock.
        self.now = match ctx.log().last() {
            last if last.0 > 0.0 => last.0,
            _ => ctx.clock().real().0,
        };
        if !is_housekeeping(method) {
            ctx.log().put(Tag::VclCall, method.log_name().as_bytes());
        }
    }

    fn end(&mut self, action: Action, ctx: &mut dyn Ctx) -> RunOutcome {
        let (method, word) = (self.method.expect("a machine is started before it runs"), action.word());
        if !method.allows(word) {
            return self.fail(VclFailure::new("VCL subroutine ended with another's return"), ctx);
        }
        if !is_housekeeping(method) {
            ctx.log().put(Tag::VclReturn, word.name().as_bytes());
        }
        // The rest is forgotten by the next start, or when the machine is given back.
        self.stack.clear();
        (self.state, self.method) = (MachineState::Idle, None);
        RunOutcome::Done(action)
    }

    fn fail(&mut self, failure: VclFailure, ctx: &mut dyn Ctx) -> RunOutcome {
        if !self.method.is_some_and(is_housekeeping) {
            ctx.log().put(Tag::VclError, failure.0.as_bytes());
            ctx.log().put(Tag::VclReturn, b"fail");
        }
        self.reset();
        RunOutcome::Failed(failure)
    }

    // --- the stack and the texts

    pub(crate) fn pop(&mut self) -> Value {
        self.stack.pop().expect("the compiler balances the stack")
    }

    pub(crate) fn push(&mut self, value: Value) {
        self.stack.push(value);
    }

    pub(crate) fn open_text(&mut self) {
        self.marks.push(self.text.len() as u32);
    }

    /// Offset of the innermost text; it is closed by truncating to there.
    pub(crate) fn close_text(&mut self) -> usize {
        self.marks.pop().expect("the compiler balances the texts") as usize
    }

    pub(crate) fn take_text(&mut self) -> Text {
        let from = self.close_text();
        let text = Text::copy(&self.text[from..]);
        self.text.truncate(from);
        text
    }

    pub(crate) fn check_text(&self, ctx: &mut dyn Ctx) -> Result<(), VclFailure> {
        if self.text.len() > MAX_TEXT {
            ctx.log().count_overflow();
            Err(VclFailure::new("Workspace overflow: a text longer than 16 MB"))
        } else {
            Ok(())
        }
    }

    pub(crate) fn trace(&self, vcl: &LoadedVcl, count: u32, ctx: &mut dyn Ctx) {
        let program = &vcl.program;
        let place = program.map.place(self.pc as usize).expect("each op has a place");
        let text = format!("{} {count} {}.{}.{}", vcl.name, place.source, place.line, place.pos);
        ctx.log().put_unmasked(Tag::VclTrace, text.as_bytes());
    }
}

fn is_housekeeping(method: Method) -> bool {
    matches!(method, Method::Init | Method::Fini)
}

const _: () = assert!(std::mem::size_of::<Op>() == 8);
