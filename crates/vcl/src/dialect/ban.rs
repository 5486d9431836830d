// SPDX-License-Identifier: BSD-2-Clause
//! Translates bans, under each of their names, and the parts of the hash.

use super::DialectResult;
use super::ctx::{DialectCtx, TranslationOutcome};
use super::policy::HASH;
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::token::Tok;

impl Walker<'_> {
    pub fn ban(&mut self, word: &str) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        self.put("ban");
        self.keep_c(b'(')?;
        let next = self.after(self.dotted(self.at).1);
        let by_words = matches!(self.tok_at(next), Tok::C(b'~') | Tok::NoMatch | Tok::Eq | Tok::Ne);
        match word {
            "purge_url" | "ban_url" => {
                self.insert("\"req.url ~ \" + ");
                self.string()?;
                self.note(first, first, "ban(\"req.url ~ \" + ...)", "a ban is an expression");
            }
            "purge_hash" => {
                self.insert(&format!("\"obj.http.{HASH} ~ \" + "));
                self.string()?;
                self.note(first, first, "ban(\"obj.http...\")", "a field of the object keeps the text of its hash");
            }
            _ if self.tok() == Tok::Id && by_words => {
                self.ban_words()?;
                self.note(
                    first,
                    first,
                    "ban(\"...\")",
                    "what 2.x called purge is a ban, and its expression is a string",
                );
            }
            _ => {
                self.string()?;
                if word == "purge" {
                    self.note(first, first, "ban()", "what 2.x called purge is a ban; purge is something else now");
                }
            }
        }
        self.keep_c(b')')?;
        self.keep_c(b';')?;
        Ok(TranslationOutcome::Yes)
    }

    /// Translates a ban written as words, `req.url == req.url && req.http.host ~ "x"`, to a string.
    pub fn ban_words(&mut self) -> DialectResult {
        loop {
            self.expect(Tok::Id)?;
            let (name, last) = self.dotted(self.at);
            if name.eq_ignore_ascii_case("obj.hash") {
                return self.fail(
                    DiagnosticCode::Untranslatable,
                    "obj.hash has no counterpart: ban by what the hash is made of.\n",
                );
            }
            let op = self.after(last);
            let op_text = match self.tok_at(op) {
                Tok::C(b'~') => "~",
                Tok::NoMatch => "!~",
                Tok::Eq => "==",
                Tok::Ne => "!=",
                _ => {
                    self.at = op;
                    return self.fail(DiagnosticCode::Syntax, "Expected ~, !~, == or !=.\n");
                }
            };
            let low = name.to_ascii_lowercase();
            let field = ["req.http.", "obj.http."].iter().any(|p| low.len() > p.len() && low.starts_with(p));
            if !field && !matches!(low.as_str(), "req.url" | "obj.status") {
                return self.fail_range(DiagnosticCode::Untranslatable, "Unknown purge variable.\n", self.at, last);
            }
            self.put_until(op, &format!("\"{name} {op_text} \" +"));
            self.primary()?;
            if self.tok() != Tok::And {
                return Ok(());
            }
            self.put("+ \" && \" +");
        }
    }

    pub fn hash_data(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        self.sub_only(&[DialectCtx::Hash], first)?;
        self.keep();
        self.keep_c(b'(')?;
        self.string()?;
        self.keep_c(b')')?;
        self.keep_c(b';')?;
        Ok(TranslationOutcome::Yes)
    }

    /// Writes a string in added brackets, and the `;`.
    pub fn parenthesised(&mut self) -> DialectResult<TranslationOutcome> {
        self.insert("(");
        self.tight = true;
        self.string()?;
        self.expect(Tok::C(b';'))?;
        self.insert(")");
        self.keep();
        Ok(TranslationOutcome::Yes)
    }
}
