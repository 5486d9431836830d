// SPDX-License-Identifier: BSD-2-Clause
//! `.via` and `.authority` of a backend: connections to it go through another backend, which learns from a PROXY header where they are to go.

use crate::code::DiagnosticCode;
use crate::program::{BackendAddress, BackendDecl, BackendId, ViaDecl};
use crate::symbols::{SymbolKind, SymbolMeaning};
use crate::token::Token;
use crate::vcc::{LookupScope, Vcc, VccResult};

/// The attributes of a backend that matter for `.via`.
#[derive(Default)]
pub struct ViaFields {
    /// The other backend, and the token of the attribute.
    pub backend: Option<(BackendId, Token)>,
    pub authority: Option<Token>,
    pub host_header: Option<Token>,
}

impl Vcc<'_> {
    /// Reads the name of the backend that `.via` names.
    pub fn via_field(&mut self) -> VccResult<BackendId> {
        let first = self.at;
        let id = self.symbol(SymbolKind::Backend, LookupScope::Whole)?;
        self.refer(id, first);
        let name = self.tokens[first];
        let SymbolMeaning::Global(Some(index)) = self.syms.get(id).what else {
            return self.fail_at(DiagnosticCode::Undeclared, "Backend is not yet defined\n", &name);
        };
        let other = &self.program.backends[index as usize];
        if other.via.is_some() {
            return self.fail_at(DiagnosticCode::Field, "Cannot stack .via backends at\n", &name);
        }
        if other.address == BackendAddress::None {
            return self.fail_at(DiagnosticCode::Field, ".via needs a backend with an address\n", &name);
        }
        self.skip_c(b';')?;
        Ok(index)
    }

    /// Completes the declaration of a backend that has `.via`, and checks what can't stand beside it.
    pub fn via(&mut self, fields: &ViaFields, host: Option<&Token>, decl: &mut BackendDecl) -> VccResult {
        let Some((backend, token)) = fields.backend else {
            if let Some(token) = fields.authority {
                self.begin(DiagnosticCode::Field, ".authority has no effect without .via.\n");
                self.show(&token);
                self.warn();
            }
            return Ok(());
        };
        let Some(host) = host else {
            return self.fail_at(DiagnosticCode::Field, "Cannot set both .via and .path.\n", &token);
        };
        // The connection is the other backend's.
        let alone = [(".ssl", decl.tls.is_some()), (".preamble", decl.preamble.is_some())];
        if let Some((name, _)) = alone.iter().find(|(_, is_there)| *is_there) {
            let text = format!("{name} can not be used with .via: set it for the backend that .via names\n");
            return self.fail_at(DiagnosticCode::Field, &text, &token);
        }
        self.fix_address(decl, host)?;
        decl.via = Some(ViaDecl { backend, authority: self.authority(fields, host)? });
        Ok(())
    }

    /// Keeps the addresses that the name has now: the PROXY header says one of them.
    fn fix_address(&mut self, decl: &mut BackendDecl, host: &Token) -> VccResult {
        match &mut decl.address {
            BackendAddress::Inet { v4: None, v6: None, .. } => {
                let text = ".host has no address now, which .via needs when the VCL is loaded\n";
                self.fail_at(DiagnosticCode::Address, text, host)
            }
            BackendAddress::Inet { name, .. } => {
                *name = None;
                Ok(())
            }
            BackendAddress::Unix(_) | BackendAddress::None => Ok(()),
        }
    }

    /// The name for the PROXY header. It becomes the server name of TLS, which no address can be (RFC 6066, 3).
    fn authority(&mut self, fields: &ViaFields, host: &Token) -> VccResult<String> {
        let (field, token) = match (&fields.authority, &fields.host_header) {
            (Some(token), _) => ("", token),
            (None, Some(token)) => ("host_header", token),
            (None, None) => ("host", host),
        };
        let text = self.content_text(token);
        if Self::is_address(&text) {
            let text = match field {
                "" => ".authority can not be an ip address with .via.\n".to_owned(),
                field => format!(
                    ".{field} used as authority can not be an ip address with .via.\nHint: configure .authority explicitly\n"
                ),
            };
            return self.fail_at(DiagnosticCode::Field, &text, token);
        }
        Ok(text.split(':').next().unwrap_or_default().to_owned())
    }
}
