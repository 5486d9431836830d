// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are listeners of the server that loads the VCL, so a fetch from one comes back to the server. If every
//! fetch would, the VCL is refused. If VCL may choose another backend, it is a warning, because a cluster node also
//! lists itself.

use tables::vclvars::{Method, Return, Var};

use crate::code::DiagnosticCode;
use crate::program::{BackendAddress, Op};
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
        let address = &self.program.backends[backend as usize].address;
        let may_move = matches!(address, BackendAddress::Inet { name: Some(_), .. }) && self.options.lazy_hosts;
        if !may_move && let Some(listener) = self.outside.own_listener(address) {
            self.own_backends.push(OwnBackend { backend, at, listener });
        }
    }

    /// Refuses a program whose every fetch would come back to the server. Remarks on single backends that are its
    /// listeners.
    pub fn check_own_backends(&mut self) -> VccResult {
        let own = std::mem::take(&mut self.own_backends);
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

    /// True if no way through vcl_recv ends in a fetch. What it calls counts as if it came back.
    fn never_fetches(&self) -> bool {
        let recv = self.procs.iter().find(|proc| proc.method == Some(Method::Recv));
        let code = recv.map_or(&[][..], |recv| &recv.code[..]);
        let (mut seen, mut ways) = (vec![false; code.len()], vec![0]);
        while let Some(at) = ways.pop() {
            let Some(op) = code.get(at) else { return false };
            if std::mem::replace(&mut seen[at], true) {
                continue;
            }
            match op {
                Op::Jump { to } => ways.push(*to as usize),
                Op::JumpIf { to } | Op::JumpUnless { to } => ways.extend([*to as usize, at + 1]),
                Op::Return { action: Return::Hash | Return::Pass | Return::Pipe }
                | Op::ReturnPass
                | Op::ReturnVcl { .. } => return false,
                Op::Return { .. } | Op::ReturnStatus { .. } | Op::ReturnFail => {}
                _ => ways.push(at + 1),
            }
        }
        true
    }
}
