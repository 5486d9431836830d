// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are listeners of the server which loads the VCL: a request that goes to one comes back. Where all of them
//! would, the VCL is refused. Where VCL may choose another backend, it is a warning: a node of a cluster names itself, too.

use tables::vclvars::{Method, Return, Var};

use crate::code::Code;
use crate::program::{BackendAddress, Op};
use crate::symbols::What;
use crate::vcc::{Access, R, Vcc};

/// A backend that is one of the server's listeners.
#[derive(Debug)]
pub(crate) struct OwnBackend {
    /// Index into [`crate::Program::backends`].
    backend: u32,
    /// The token of its name.
    at: usize,
    /// The listener's name and address.
    listener: String,
}

impl Vcc<'_> {
    /// Notes a backend whose declaration has the name at token `at`, if it is a listener of the server's.
    pub fn note_own_backend(&mut self, backend: u32, at: usize) {
        let address = &self.program.backends[backend as usize].address;
        let may_move = matches!(address, BackendAddress::Inet { name: Some(_), .. }) && self.options.lazy_hosts;
        if !may_move && let Some(listener) = self.outside.own_listener(address) {
            self.own_backends.push(OwnBackend { backend, at, listener });
        }
    }

    /// Refuses a program whose every fetch would come back to the server, and remarks on other backends that are listeners of its.
    pub fn check_own_backends(&mut self) -> R {
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
            return self.fail_at(Code::OwnListener, &text, &token);
        }
        for OwnBackend { backend, at, listener } in own {
            let name = &self.program.backends[backend as usize].name;
            let text = format!(
                "Backend {name} is this server's own listener {listener}: what is fetched from it comes back to this server.\n"
            );
            self.remark(Code::OwnListener, at, at, &text);
        }
        Ok(())
    }

    /// Whether requests may go elsewhere than to the default backend, or are told apart by the listener that took them.
    fn may_choose_backend(&self) -> bool {
        let mut uses = self.procs.iter().flat_map(|proc| &proc.uses);
        let may_choose = uses.any(|used| match self.syms.get(used.sym).what {
            What::Scalar(Var::ReqBackendHint | Var::BereqBackend) => used.access == Access::Write,
            What::Scalar(var) => var.name().starts_with("local."),
            _ => false,
        });
        may_choose || !self.program.labels.is_empty()
    }

    /// Whether vcl_recv answers every request itself, before anything is tested.
    fn never_fetches(&self) -> bool {
        let recv = self.procs.iter().find(|proc| proc.method == Some(Method::Recv));
        let is_turn = |op: &&Op| {
            matches!(
                op,
                Op::Jump { .. } | Op::JumpIf { .. } | Op::JumpUnless { .. } | Op::CallSub { .. } | Op::Return { .. }
            ) || matches!(op, Op::ReturnStatus { .. } | Op::ReturnPass | Op::ReturnFail | Op::ReturnVcl { .. })
        };
        let first = recv.and_then(|recv| recv.code.iter().find(is_turn));
        matches!(first, Some(Op::ReturnStatus { action: Return::Synth, .. }))
    }
}
