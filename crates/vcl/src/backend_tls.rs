// SPDX-License-Identifier: BSD-2-Clause
//! The TLS attributes of a backend: `.ssl`, `.ssl_*` and `.certificate`, as in Varnish 9 and Varnish Enterprise, and
//! the files of authorities and of revoked certificates.

use std::sync::Arc;

use crate::code::DiagnosticCode;
use crate::program::{TlsDecl, TlsFile};
use crate::source::TlsFileKind;
use crate::token::Token;
use crate::vcc::{Vcc, VccResult};

/// The attributes seen so far, each with its token.
#[derive(Default)]
pub(crate) struct TlsFields {
    ssl: Option<(bool, Token)>,
    sni: Option<(bool, Token)>,
    verify_peer: Option<(bool, Token)>,
    verify_host: Option<(bool, Token)>,
    ca_file: Option<(TlsFile, Token)>,
    crl_file: Option<(TlsFile, Token)>,
    certificate: Option<(TlsFile, Token)>,
}

impl TlsFields {
    fn has_changed_flag(&self) -> bool {
        let is = |given: &Option<(bool, Token)>, value| given.as_ref().is_some_and(|(is, _)| *is == value);
        is(&self.sni, false) || is(&self.verify_peer, false) || is(&self.verify_host, true)
    }

    /// The list of revoked certificates, if no certificate is verified and nothing would read the list.
    fn revoked_unverified(&self) -> Option<&Token> {
        let is_checked = self.verify_peer.as_ref().is_none_or(|(is, _)| *is);
        self.crl_file.as_ref().filter(|_| !is_checked).map(|(_, token)| token)
    }

    fn first(&self) -> Option<&Token> {
        let flags = [&self.sni, &self.verify_peer, &self.verify_host];
        flags.into_iter().flatten().map(|(_, token)| token).min_by_key(|token| (token.src, token.start))
    }
}

impl Vcc<'_> {
    pub(crate) fn tls_field(&mut self, field: &str, token: Token, fields: &mut TlsFields) -> VccResult {
        match field {
            "ssl" => fields.ssl = Some((self.flag_field()?, token)),
            "ssl_sni" => self.either_field(&mut fields.sni, token, false)?,
            "ssl_nosni" => self.either_field(&mut fields.sni, token, true)?,
            "ssl_verify_peer" => self.either_field(&mut fields.verify_peer, token, false)?,
            "ssl_noverify" => self.either_field(&mut fields.verify_peer, token, true)?,
            "ssl_verify_host" => fields.verify_host = Some((self.flag_field()?, token)),
            "ssl_ca_file" => fields.ca_file = Some((self.file_field(TlsFileKind::Authorities)?, token)),
            "ssl_crl_file" => fields.crl_file = Some((self.file_field(TlsFileKind::Revoked)?, token)),
            _ => fields.certificate = Some((self.file_field(TlsFileKind::Certificate)?, token)),
        }
        Ok(())
    }

    fn flag_field(&mut self) -> VccResult<bool> {
        let value = self.unsigned()?;
        self.skip_c(b';')?;
        Ok(value != 0)
    }

    /// Compiles one of two attributes with the same meaning; `negated` is the inverse of the other.
    fn either_field(&mut self, given: &mut Option<(bool, Token)>, token: Token, negated: bool) -> VccResult {
        let value = self.unsigned()? != 0;
        let value = value != negated;
        if let Some((before, first)) = given.replace((value, token))
            && before != value
        {
            let (shown, other) = (self.token_name(&token), self.token_name(&first));
            return self.fail_at(
                DiagnosticCode::Field,
                &format!("Setting of field {shown} conflicts with field {other}.\n"),
                &token,
            );
        }
        self.skip_c(b';')
    }

    /// Compiles a file name. The file is searched for like an included one.
    fn file_field(&mut self, kind: TlsFileKind) -> VccResult<TlsFile> {
        let value = self.text_field()?;
        let name = self.content_text(&value);
        match self.outside.tls_file(&name, kind) {
            Ok((path, text)) => Ok(TlsFile { path, text: Arc::from(text) }),
            Err(reason) => self.fail_at(DiagnosticCode::File, &format!("{reason}\n"), &value),
        }
    }

    /// Builds the declaration; `None` without TLS.
    pub(crate) fn tls_decl(&mut self, fields: TlsFields, has_path: bool) -> VccResult<Option<TlsDecl>> {
        match fields.ssl {
            Some((true, token)) if has_path => {
                self.fail_at(DiagnosticCode::Field, ".ssl can not be used with .path.\n", &token)
            }
            Some((true, _)) => {
                if let Some(token) = fields.revoked_unverified() {
                    return self.fail_at(
                        DiagnosticCode::Field,
                        ".ssl_crl_file can not be used without .ssl_verify_peer\n",
                        token,
                    );
                }
                let file = |given: Option<(TlsFile, Token)>| given.map(|(file, _)| file);
                Ok(Some(TlsDecl {
                    sni: fields.sni.is_none_or(|(is, _)| is),
                    verify_peer: fields.verify_peer.is_none_or(|(is, _)| is),
                    verify_host: fields.verify_host.is_some_and(|(is, _)| is),
                    ca_file: file(fields.ca_file),
                    crl_file: file(fields.crl_file),
                    certificate: file(fields.certificate),
                }))
            }
            Some((false, token)) if fields.has_changed_flag() => {
                self.fail_at(DiagnosticCode::Field, "ssl_* options can not be used without .ssl enabled\n", &token)
            }
            Some((false, _)) | None => self.without_tls(&fields).map(|()| None),
        }
    }

    /// Refuses a file that nothing would read. Flags are ignored with a warning, as in Varnish 9.
    fn without_tls(&mut self, fields: &TlsFields) -> VccResult {
        let files = [
            ("ssl_ca_file", &fields.ca_file),
            ("ssl_crl_file", &fields.crl_file),
            ("certificate", &fields.certificate),
        ];
        if let Some((name, token)) = files.into_iter().find_map(|(name, given)| Some((name, given.as_ref()?.1))) {
            return self.fail_at(
                DiagnosticCode::Field,
                &format!(".{name} can not be used without .ssl enabled\n"),
                &token,
            );
        }
        if fields.ssl.is_none()
            && let Some(token) = fields.first()
        {
            let token = *token;
            self.begin(DiagnosticCode::Field, "ssl_* options do nothing without .ssl = 1.\n");
            self.show(&token);
            self.warn();
        }
        Ok(())
    }
}
