// SPDX-License-Identifier: BSD-2-Clause
//! A warning about a `return (restart)` that loops: the request comes back to it unchanged until `max_restarts` ends it
//! with 503.
//!
//! The analysis follows the paths from the start of each client-side subroutine to its restarts. A path is fine if on
//! it the request is changed, something with effects is called, `req.restarts` is tested, or a failed response (5xx)
//! led there, because another fetch may succeed. It is also fine if the subroutines before the lookup take another path
//! after the restart.

use std::collections::{HashMap, HashSet};

use tables::vclsubs::{Method, Return};
use tables::vclvars::{HeadId, Var};

use crate::code::DiagnosticCode;
use crate::program::{Callee, Compare, Op};
use crate::vcc::Vcc;

/// Subroutines that run again after a restart, before the one that restarted the request.
const BEFORE_LOOKUP: [Method; 2] = [Method::Recv, Method::Hash];
/// Subroutines that may restart, except vcl_recv.
const AFTER_RECV: [Method; 6] =
    [Method::Purge, Method::Hit, Method::Miss, Method::Pass, Method::Deliver, Method::Synth];
/// Functions of vmod std that change nothing and return the same after a restart.
const WITHOUT_EFFECT: [&str; 5] = ["cache_req_body", "healthy", "log", "syslog", "timestamp"];
/// Statuses that a test for a failed response compares with: `> 499` is such a test.
const FAILED: std::ops::RangeInclusive<u16> = 499..=599;
const MAX_OPS: usize = 200_000;

/// The kinds of paths that reach a place: idle ones, which change nothing, and others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Ways {
    idle: bool,
    other: bool,
}

impl Ways {
    fn add(&mut self, more: Ways) {
        self.idle |= more.idle;
        self.other |= more.other;
    }

    fn is_none(self) -> bool {
        !self.idle && !self.other
    }

    fn busy(self) -> Ways {
        Ways { idle: false, other: !self.is_none() }
    }
}

#[derive(Default)]
struct Findings {
    /// For each subroutine that is entered idle, the paths on which it returns to its caller.
    behind: HashMap<usize, Ways>,
    restarts: HashSet<u32>,
}

impl Vcc<'_> {
    pub fn lint_restarts(&mut self) {
        if self.emission.ops > MAX_OPS
            || !self.procs.iter().any(|proc| proc.returns[Return::Restart as usize].is_some())
        {
            return;
        }
        let reached = |methods: &[Method]| -> Vec<bool> {
            let all: Vec<Vec<bool>> = methods.iter().map(|method| self.reached_from(*method)).collect();
            (0..self.procs.len()).map(|proc| all.iter().any(|reached| reached[proc])).collect()
        };
        let (before, after) = (reached(&BEFORE_LOOKUP), reached(&AFTER_RECV));
        let marks = self.marks(&before, &after);
        let tells = before.iter().enumerate().any(|(proc, reached)| *reached && self.takes_another_way(proc, &marks));
        let mut found = Findings::default();
        let mut methods = if tells { Vec::new() } else { AFTER_RECV.to_vec() };
        methods.push(Method::Recv);
        for method in methods {
            if let Some(proc) = self.procs.iter().position(|p| p.method == Some(method)) {
                self.idle_ways(proc, &marks, &mut found);
            }
        }
        for at in found.restarts {
            self.remark(DiagnosticCode::RestartLoop, at as usize - 2, at as usize + 1, TEXT);
        }
    }

    /// Headers that can distinguish a request from itself before a restart, in lower case: those of `req` that are set
    /// after vcl_recv, and custom headers that vcl_recv sets and tests.
    fn marks(&self, before: &[bool], after: &[bool]) -> HashSet<Vec<u8>> {
        let fields = |reached: &[bool], of: fn(Op) -> Option<u16>| -> HashSet<Vec<u8>> {
            let procs = self.procs.iter().zip(reached).filter(|(_, reached)| **reached);
            let fields = procs.flat_map(|(proc, _)| &proc.code).filter_map(|op| of(*op));
            fields.map(|field| self.pool.header_name(field).to_ascii_lowercase()).collect()
        };
        let set = |op: Op| match op {
            Op::SetFieldText { head: HeadId::Req, field } => Some(field),
            _ => None,
        };
        let tested = |op: Op| match op {
            Op::TestField { head: HeadId::Req, field }
            | Op::TestFieldStr { head: HeadId::Req, field, .. }
            | Op::TestFieldRegex { head: HeadId::Req, field, .. } => Some(field),
            _ => None,
        };
        let (again, mut marks) = (fields(before, tested), fields(after, set));
        let is_own = |name: &&Vec<u8>| name.starts_with(b"x-") && !name.starts_with(b"x-forwarded-");
        marks.extend(fields(before, set).intersection(&again).filter(is_own).cloned());
        marks
    }

    fn is_mark(&self, op: Op, marks: &HashSet<Vec<u8>>) -> bool {
        match op {
            Op::PushField { head: HeadId::Req, field }
            | Op::TextField { head: HeadId::Req, field }
            | Op::HashField { head: HeadId::Req, field }
            | Op::TestField { head: HeadId::Req, field }
            | Op::TestFieldStr { head: HeadId::Req, field, .. }
            | Op::TestFieldRegex { head: HeadId::Req, field, .. } => {
                marks.contains(&self.pool.header_name(field).to_ascii_lowercase())
            }
            _ => false,
        }
    }

    /// True if a subroutine before the lookup may act differently after a restart. Adding the client's address to
    /// X-Forwarded-For only the first time doesn't count.
    fn takes_another_way(&self, proc: usize, marks: &HashSet<Vec<u8>>) -> bool {
        let code = &self.procs[proc].code;
        code.iter().enumerate().any(|(at, op)| match *op {
            _ if !self.is_written_op(proc, at) => false,
            Op::PushVar { var: Var::ReqRestarts } | Op::TextVar { var: Var::ReqRestarts } => {
                !self.only_notes_the_client(code, at)
            }
            op => self.is_mark(op, marks),
        })
    }

    /// True if only changes of X-Forwarded-For depend on the test at `at`.
    fn only_notes_the_client(&self, code: &[Op], at: usize) -> bool {
        let jump = code[at..].iter().position(|op| matches!(op, Op::JumpIf { .. } | Op::JumpUnless { .. }));
        let Some((jump, Op::JumpIf { to } | Op::JumpUnless { to })) = jump.map(|n| (at + n, code[at + n])) else {
            return false;
        };
        // The other branch begins at the target of the jump that ends the first one.
        let end = match code.get(to as usize - 1) {
            Some(Op::Jump { to }) => *to as usize,
            _ => to as usize,
        };
        let is_it = |field: u16| self.pool.header_name(field).eq_ignore_ascii_case(b"x-forwarded-for");
        code[jump + 1..end.min(code.len())].iter().all(|op| match *op {
            Op::SetFieldText { head, field } | Op::UnsetField { head, field } => head == HeadId::Req && is_it(field),
            op => {
                !self.is_effect(op) && !matches!(op, Op::Return { .. } | Op::ReturnStatus { .. } | Op::CallSub { .. })
            }
        })
    }

    fn is_written_op(&self, proc: usize, at: usize) -> bool {
        let place = self.procs[proc].places.get(at).map(|place| self.program.map.places[*place as usize]);
        place.is_some_and(|place| {
            let source = &self.sources[place.source as usize];
            source.kind != "builtin" && source.map.is_none()
        })
    }

    /// True if an op changes something that is visible after a restart, or depends on something that will differ then.
    fn is_effect(&self, op: Op) -> bool {
        let is_of_request = |var: Var| var.name().starts_with("req.") || var.name().starts_with("client.");
        match op {
            Op::SetFieldText { head, .. } | Op::UnsetField { head, .. } => head == HeadId::Req,
            Op::SetVar { var } | Op::SetVarText { var } | Op::UnsetVar { var } => is_of_request(var),
            Op::PushVar { var } | Op::TextVar { var } => matches!(var, Var::Now | Var::ReqXid),
            Op::Ban => true,
            Op::Call { site } => {
                let call = &self.program.calls[site as usize];
                let import = &self.program.imports[call.import as usize];
                let is_idle = matches!(&call.callee, Callee::Function(name) if WITHOUT_EFFECT.contains(&name.as_str()));
                !(call.is_pure || import.module == "std" && is_idle)
            }
            _ => false,
        }
    }

    /// Follows the paths through a subroutine that is entered idle. Returns those that return to its caller.
    fn idle_ways(&self, proc: usize, marks: &HashSet<Vec<u8>>, found: &mut Findings) -> Ways {
        if let Some(ways) = found.behind.get(&proc) {
            return *ways;
        }
        let state = &self.procs[proc];
        let code = &state.code;
        // All jumps go forward.
        let mut before = vec![Ways::default(); code.len() + 1];
        before[0] = Ways { idle: true, other: false };
        let mut behind = Ways::default();
        for (at, op) in code.iter().enumerate() {
            let ways = before[at];
            if ways.is_none() {
                continue;
            }
            match *op {
                Op::Jump { to } => before[to as usize].add(ways),
                Op::JumpIf { to } | Op::JumpUnless { to } => {
                    before[to as usize].add(ways);
                    before[at + 1].add(ways);
                }
                Op::CallSub { sub } => {
                    let called = match self.callee(sub) {
                        Some(callee) if ways.idle => self.idle_ways(callee, marks, found),
                        _ => ways,
                    };
                    before[at + 1].add(Ways { idle: called.idle, other: called.other || ways.other });
                }
                Op::Return { action: Return::Restart } => {
                    let token = state.leaves.iter().find(|(op, _)| *op as usize == at);
                    found.restarts.extend(token.filter(|_| ways.idle).map(|(_, token)| *token));
                }
                Op::Return { .. }
                | Op::ReturnStatus { .. }
                | Op::ReturnVcl { .. }
                | Op::ReturnPass
                | Op::ReturnFail => {}
                Op::Leave => behind.add(ways),
                op => {
                    let is_told = self.is_mark(op, marks) || self.tells_rounds_apart(code, at);
                    before[at + 1].add(if is_told || self.is_effect(op) { ways.busy() } else { ways });
                }
            }
        }
        behind.add(before[code.len()]);
        found.behind.insert(proc, behind);
        behind
    }

    /// True if the op at `at` reads a count of restarts, or compares the status of a failed response.
    fn tells_rounds_apart(&self, code: &[Op], at: usize) -> bool {
        match code[at] {
            Op::PushVar { var: Var::ReqRestarts } | Op::TextVar { var: Var::ReqRestarts | Var::RespStatus } => true,
            Op::TestStatus { var: Var::RespStatus, status, .. } => FAILED.contains(&status),
            // Each restart is another hit, so an exact count differs; `obj.hits > 0` doesn't.
            Op::Compare { how } => match [2, 1].map(|back| Some(code[at.checked_sub(back)?])) {
                [Some(Op::PushVar { var: Var::ObjHits }), right] => {
                    let is_zero = matches!(right, Some(Op::PushInt { index }) if self.pool.int_at(index) == 0);
                    !(is_zero && matches!(how, Compare::Greater | Compare::NotEqual))
                }
                _ => false,
            },
            _ => false,
        }
    }
}

const TEXT: &str = "Nothing is changed before this restart: the request comes back here as it was, until max_restarts ends it with 503.\n\
                    Change the request first, or restart once: if (req.restarts == 0) { ... }\n";
