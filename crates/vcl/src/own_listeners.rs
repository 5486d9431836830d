// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are listeners of the server that loads the VCL, so a fetch from one comes back to the server. If every
//! fetch would, the VCL is refused. If VCL may choose another backend, it is a warning, because a cluster node also
//! lists itself.

use tables::vclsubs::{Method, Return};
use tables::vclvars::Var;

use crate::code::DiagnosticCode;
use crate::program::{BackendAddress, BackendDecl, Op};
use crate::symbols::SymbolMeaning;
use crate::vcc::{SymbolAccess, Vcc, VccResult};

#[derive(Debug)]
pub(crate) struct OwnBackend {
    /// An index into [`crate::Program::backends`].
    backend: u32,
    /// The token of its name.
    at: usize,
    /// Name and address of the listener.
    listener: String,
}

impl Vcc<'_> {
    /// Records the backend declared at token `at` if it is one of the server's listeners.
    pub fn note_own_backend(&mut self, backend: u32, at: usize) {
        let BackendDecl { address, via, .. } = &self.program.backends[backend as usize];
        if via.is_some() {
            return;
        }
        let may_move = matches!(address, BackendAddress::Inet { name: Some(_), .. }) && self.options.lazy_hosts;
        if !may_move && let Some(listener) = self.outside.own_listener(address) {
            self.facts.own_backends.push(OwnBackend { backend, at, listener });
        }
    }

    /// Refuses a program whose every fetch would come back to the server. Remarks on single backends that are its
    /// listeners.
    pub fn check_own_backends(&mut self) -> VccResult {
        let own = std::mem::take(&mut self.facts.own_backends);
        let default = own.iter().find(|own| self.program.default_backend == Some(own.backend));
        if let Some(default) = default
            && !self.may_choose_backend()
            && !self.never_fetches()
        {
            let OwnBackend { at, ref listener, .. } = *default;
            let name = &self.program.backends[default.backend as usize].name;
            let text = format!(
                "Backend {name} is this server's own listener {listener}: every request would come back to this server.\n"
            );
            self.hint("Name the address and port at which the site's own server listens, or another -a. In a container 127.0.0.1 is the container itself.");
            let token = self.tokens[at];
            return self.fail_at(DiagnosticCode::OwnListener, &text, &token);
        }
        for OwnBackend { backend, at, listener } in own {
            let name = &self.program.backends[backend as usize].name;
            let text = format!(
                "Backend {name} is this server's own listener {listener}: what is fetched from it comes back to this server.\n"
            );
            self.remark(DiagnosticCode::OwnListener, at, at, &text);
        }
        Ok(())
    }

    /// True if requests may go to another backend than the default one, or are distinguished by the listener that
    /// accepted them or by the client.
    fn may_choose_backend(&self) -> bool {
        let mut uses = self.procs.iter().flat_map(|proc| proc.uses.iter().map(|used| (&proc.name, used)));
        let may_choose = uses.any(|(name, used)| match self.syms.get(used.sym).what {
            SymbolMeaning::Scalar(Var::ReqBackendHint | Var::BereqBackend) => used.access == SymbolAccess::Write,
            // The built-in VCL hashes it where there is no Host.
            SymbolMeaning::Scalar(Var::ServerIp) => name != "vcl_builtin_hash",
            SymbolMeaning::Scalar(Var::ClientIp | Var::RemoteIp) => true,
            SymbolMeaning::Scalar(var) => var.name().starts_with("local."),
            _ => false,
        });
        may_choose || !self.program.labels.is_empty()
    }

    /// True if no path from vcl_recv leads to a backend.
    fn never_fetches(&self) -> bool {
        let mut endings = vec![None; self.procs.len()];
        let (mut seen, mut steps) = (Vec::new(), vec![Method::Recv]);
        while let Some(method) = steps.pop() {
            if seen.contains(&method) {
                continue;
            }
            seen.push(method);
            let Some(proc) = self.procs.iter().position(|proc| proc.method == Some(method)) else { return false };
            for action in self.endings(proc, &mut endings).actions() {
                match (method, action) {
                    (_, Return::Vcl) | (Method::Pipe, Return::Pipe) | (Method::BackendFetch, Return::Fetch) => {
                        return false;
                    }
                    (_, Return::Hash) => steps.extend([Method::Hit, Method::Miss, Method::Pass]),
                    (_, Return::Pass) => steps.push(Method::Pass),
                    (_, Return::Pipe) => steps.push(Method::Pipe),
                    (_, Return::Fetch) => steps.push(Method::BackendFetch),
                    _ => {}
                }
            }
        }
        true
    }

    /// The ways in which a subroutine may end. `known` holds those of subroutines that were looked at.
    fn endings(&self, proc: usize, known: &mut [Option<Endings>]) -> Endings {
        if let Some(endings) = known[proc] {
            return endings;
        }
        let code = &self.procs[proc].code;
        let mut all = Endings::default();
        // All jumps go forward. Calls don't recurse and aren't nested deeply: both were checked.
        let mut is_reached = vec![false; code.len() + 1];
        is_reached[0] = true;
        for (at, op) in code.iter().enumerate() {
            if !is_reached[at] {
                continue;
            }
            match *op {
                Op::Jump { to } => is_reached[to as usize] = true,
                Op::JumpIf { to } | Op::JumpUnless { to } => {
                    is_reached[to as usize] = true;
                    is_reached[at + 1] = true;
                }
                Op::CallSub { sub } => {
                    let callee = self.callee(sub).map(|callee| self.endings(callee, known));
                    is_reached[at + 1] |= callee.is_none_or(|callee| callee.comes_back);
                    all.returned |= callee.map_or(0, |callee| callee.returned);
                }
                Op::Leave => all.comes_back = true,
                Op::Return { action } | Op::ReturnStatus { action, .. } => all.returned |= 1 << action as u32,
                Op::ReturnPass => all.returned |= 1 << Return::Pass as u32,
                Op::ReturnVcl { .. } => all.returned |= 1 << Return::Vcl as u32,
                Op::ReturnFail => {}
                _ => is_reached[at + 1] = true,
            }
        }
        all.comes_back |= is_reached[code.len()];
        known[proc] = Some(all);
        all
    }
}

/// The ways in which a subroutine may end.
#[derive(Debug, Clone, Copy, Default)]
struct Endings {
    /// A bit for each [`Return`].
    returned: u32,
    /// True if it may return to its caller.
    comes_back: bool,
}

impl Endings {
    fn actions(self) -> impl Iterator<Item = Return> {
        Return::ALL.into_iter().filter(move |action| self.returned & 1 << *action as u32 != 0)
    }
}
