// SPDX-License-Identifier: BSD-2-Clause
//! Warnings of statements that Varnish 7.1 and 9 take differently, where it is certain what they do here.

use tables::Compat;
use tables::vclvars::Var;

use crate::code::DiagnosticCode;
use crate::ir::{Expr, IrNode};
use crate::vcc::Vcc;

const FRAMING: &str = "Varnish refuses this from 7.4 on: Content-Length and Transfer-Encoding follow from the body. Here it has the \
                       effect that it has up to 7.3. `unset bereq.body` removes a request's body.\n";

/// Timeouts of which 0 was no value of their own up to 7.4, and ends a fetch in 9.
const TIMEOUTS: [Var; 2] = [Var::BereqFirstByteTimeout, Var::BereqBetweenBytesTimeout];

impl Vcc<'_> {
    /// Warns of a changed header that release 9 protects. The statement has been read up to its end.
    pub fn remark_framing(&mut self, first: usize, field: u16) {
        let name = self.pool.header_name(field);
        let framing: [&[u8]; 2] = [b"content-length", b"transfer-encoding"];
        let is_framing = framing.iter().any(|framing| name.eq_ignore_ascii_case(framing));
        if is_framing && self.options.compat.is_9() {
            self.remark(DiagnosticCode::ByRelease, first, self.at.saturating_sub(2), FRAMING);
        }
    }

    /// Warns of a timeout that is set to 0s. The statement has been read up to its end.
    pub fn remark_zero(&mut self, first: usize, var: Var, value: &Expr) {
        if TIMEOUTS.contains(&var) && matches!(value.node, IrNode::Duration(seconds) if seconds == 0.0) {
            self.remark_zero_timeout(first);
        }
    }

    /// Warns of a timeout of 0s, of a fetch or a backend.
    pub fn remark_zero_timeout(&mut self, first: usize) {
        let text = match self.options.compat {
            Compat::V7_1 => {
                "With --compat 7.1, 0s is no timeout of its own: that of the backend or the parameter counts. With --compat 9 it fails the \
                 fetch unless the bytes are there at once.\n"
            }
            Compat::V9 => {
                "With --compat 9, a timeout of 0s fails the fetch unless the bytes are there at once. Up to Varnish 7.4, and with --compat \
                 7.1, that of the backend or the parameter counts instead.\n"
            }
        };
        self.remark(DiagnosticCode::ByRelease, first, self.at.saturating_sub(2), text);
    }
}
