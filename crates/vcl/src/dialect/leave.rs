// SPDX-License-Identifier: BSD-2-Clause
//! Translates statements that leave a subroutine: return, error, restart, and the bare words of 2.0.

use tables::dialects::{Dialect, OldSub};

use super::DialectResult;
use super::ctx::{DialectCtx, TranslationOutcome};
use super::policy::{DELIVER_ERRORS, RESTART};
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::token::Tok;

const NUMBERS: [&str; 6] = ["obj.status", "beresp.status", "resp.status", "req.restarts", "server.port", "obj.hits"];

impl Walker<'_> {
    pub fn legal(&self, word: &str, at: usize) -> DialectResult {
        let sub = self.ctx.sub();
        let legal = sub.returns(self.dialect);
        // Accepts words of other releases that occur in real programs.
        let lenient = sub == OldSub::Fetch && matches!(word, "pass" | "hit_for_pass");
        if legal.contains(&word) || lenient {
            return Ok(());
        }
        let known = OldSub::ALL.iter().any(|s| s.returns(self.dialect).contains(&word));
        if !known {
            return self.fail_range(DiagnosticCode::Return, "Expected return action name.\n", at, at);
        }
        let text = format!(
            "return ({word}) is not for {} in VCL {}; what it may return is: {}.\n",
            sub.name(),
            self.dialect.name(),
            legal.join(", ")
        );
        self.fail_range(DiagnosticCode::Return, &text, at, at)
    }

    /// Translates a bare word like `lookup;`.
    pub fn bare(&mut self, word: &str) -> DialectResult<TranslationOutcome> {
        let (first, end) = self.bare_statement()?;
        if self.dialect != Dialect::V20 {
            return self.fail(DiagnosticCode::Untranslatable, &format!(
                "A return action stands in brackets since VCL 2.1: please change \"{word};\" to \"return ({word});\".\n"
            ));
        }
        self.legal(word, first)?;
        self.leave_with(word, first, end)
    }

    pub fn return_statement(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        let open = self.after(first);
        let word_at = self.after(open);
        let close = self.after(word_at);
        let end = self.after(close);
        for (at, tok) in [(open, Tok::C(b'(')), (word_at, Tok::Id), (close, Tok::C(b')')), (end, Tok::C(b';'))] {
            if self.tok_at(at) != tok {
                self.at = at;
                self.expect(tok)?;
            }
        }
        let word = self.text_at(word_at).to_owned();
        self.legal(&word, word_at)?;
        self.leave_with(&word, first, end)
    }

    /// Translates a statement that returns `word`, from token `first` to its `;`.
    pub fn leave_with(&mut self, word: &str, first: usize, end: usize) -> DialectResult<TranslationOutcome> {
        if word == "error" && self.ctx == DialectCtx::DeliverError {
            self.put_until(end, "return (deliver);");
            return Ok(TranslationOutcome::Yes);
        }
        if word == "error" {
            let new = if self.ctx == DialectCtx::Fetch { "return (error(501));" } else { "return (synth(501));" };
            self.replace(first, end, new, "an error without a number was 501");
            return Ok(TranslationOutcome::Yes);
        }
        if word == "restart" {
            return self.leave_by_restart(first, end);
        }
        let (new, reason) = match (self.ctx, word) {
            (DialectCtx::Recv, "lookup") => ("return (hash);", "vcl_hash comes next; lookup is what it returns"),
            (DialectCtx::Hash, "hash") => ("return (lookup);", "lookup comes next"),
            (DialectCtx::Error, "deliver") if self.policy.delivers => {
                let call = format!("call {DELIVER_ERRORS}; ");
                let reason = "vcl_deliver ran for what vcl_error had made, too";
                self.note(first, end, &format!("{call}return (deliver);"), reason);
                self.gap_then(first, end, &call);
                return Ok(TranslationOutcome::Yes);
            }
            (DialectCtx::MissBereq, "fetch") if self.policy.late => {
                self.policy.fetch_returns = true;
                self.gap_then(first, end, "call fetch_as_before; ");
                return Ok(TranslationOutcome::Weak);
            }
            (DialectCtx::Pass, "pass") => ("return (fetch);", "vcl_pass goes on with the fetch"),
            (DialectCtx::Fetch, "pass" | "hit_for_pass") => {
                let two = self.dialect != Dialect::V30;
                let new = match two {
                    true => "if (beresp.ttl < 120s) { set beresp.ttl = 120s; } return (pass(beresp.ttl + beresp.age));",
                    false => "return (pass(beresp.ttl + beresp.age));",
                };
                (new, "hit-for-pass is pass with a time now")
            }
            (DialectCtx::Fetch, "deliver") => {
                self.policy.deliver_used = true;
                self.note(first, end, "call deliver_as_before; return (deliver);", self.policy.deliver_note());
                self.gap_then(first, end, "call deliver_as_before; ");
                return Ok(TranslationOutcome::Yes);
            }
            _ => ("", ""),
        };
        self.policy.fetch_returns |= self.ctx == DialectCtx::MissBereq && word == "fetch";
        if new.is_empty() {
            self.gap_then(first, end, "");
        } else {
            self.replace(first, end, new, reason);
        }
        Ok(if self.ctx.only_bereq() { TranslationOutcome::Weak } else { TranslationOutcome::Yes })
    }

    /// Writes `before`, then the statement from `first` to `end`; a bare word gets its `return`.
    pub fn gap_then(&mut self, first: usize, end: usize, before: &str) {
        if self.text_at(first) != "return" {
            let new = format!("{before}return ({});", self.text_at(first));
            self.note(
                first,
                end,
                &format!("return ({});", self.text_at(first)),
                "an action stands in return () since 2.1",
            );
            self.put_until(end, &new);
            return;
        }
        if before.is_empty() {
            self.keep();
        } else {
            self.insert_after_gap(before);
        }
        while self.at <= end && self.tok() != Tok::End {
            self.keep();
        }
    }

    pub fn leave_by_restart(&mut self, first: usize, end: usize) -> DialectResult<TranslationOutcome> {
        if self.ctx == DialectCtx::Fetch {
            self.policy.failed = true;
            self.policy.restart_in_fetch = true;
            self.policy.std = true;
            let new = format!("set bereq.http.{RESTART} = \"1\"; return (error(beresp.status, beresp.reason));");
            let reason = "a fetch can't restart its client: it fails with a mark, and vcl_deliver restarts";
            self.replace(first, end, &new, reason);
        } else if self.text_at(first) == "return" {
            self.gap_then(first, end, "");
        } else {
            self.replace(first, end, "return (restart);", "an action stands in return () since 2.1");
        }
        Ok(TranslationOutcome::Yes)
    }

    pub fn restart(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        let next = self.after(first);
        if self.text_at(next) == "rollback" && self.tok_at(next) == Tok::Id {
            let end = self.after(next);
            if self.tok_at(end) != Tok::C(b';') {
                self.at = end;
                self.expect(Tok::C(b';'))?;
            }
            self.legal("restart", first)?;
            self.policy.std = true;
            if self.ctx == DialectCtx::Fetch {
                return self.leave_by_restart(first, end);
            }
            self.replace(first, end, "std.rollback(req); return (restart);", "vmod std does it");
            return Ok(TranslationOutcome::Yes);
        }
        if self.dialect == Dialect::V30 {
            return self.fail(DiagnosticCode::Untranslatable, "Please change \"restart\" to \"return (restart)\".\n");
        }
        let (first, end) = self.bare_statement()?;
        self.legal("restart", first)?;
        self.leave_by_restart(first, end)
    }

    pub fn error(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        self.legal("error", first)?;
        if self.ctx == DialectCtx::DeliverError {
            // The response is already an error.
            let end = self.semicolon();
            self.put_until(end, "return (deliver);");
            return Ok(TranslationOutcome::Yes);
        }
        let action = if self.ctx == DialectCtx::Fetch { "error" } else { "synth" };
        self.put(&format!("return ({action}("));
        self.tight = true;
        let bracket = self.is_c(b'(');
        if bracket {
            self.skip();
        }
        let mark = self.out.mark();
        match self.tok() {
            Tok::C(b';') | Tok::Str => {
                self.tight = false;
                self.insert("503");
            }
            // 2.x allows a text without a status.
            Tok::Id if self.dialect != Dialect::V30 && !NUMBERS.contains(&self.dotted(self.at).0.as_str()) => {
                self.tight = false;
                self.insert("503");
            }
            _ => self.product()?,
        }
        let status = self.written(mark);
        if bracket && self.is_c(b',') {
            self.skip();
        }
        if !matches!(self.tok(), Tok::C(b';' | b')')) {
            self.insert(",");
            self.string()?;
        }
        if bracket {
            self.expect(Tok::C(b')'))?;
            self.skip();
        }
        self.expect(Tok::C(b';'))?;
        self.note(
            first,
            first,
            &format!("return ({action}({}, ...))", status.trim()),
            "an error is an action with a number",
        );
        self.insert("))");
        self.keep();
        Ok(TranslationOutcome::Yes)
    }
}
