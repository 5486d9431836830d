// SPDX-License-Identifier: BSD-2-Clause
//! Translates statements.

use tables::dialects::BARE;

use super::ctx::{DialectCtx, TranslationOutcome};
use super::names::NameKind;
use super::walk::Walker;
use super::{DialectResult, known_file};
use crate::code::DiagnosticCode;
use crate::diag::DiagnosticDraft;
use crate::token::Tok;

impl Walker<'_> {
    pub fn block(&mut self) -> DialectResult<TranslationOutcome> {
        self.enter()?;
        self.keep_c(b'{')?;
        let mut kept = TranslationOutcome::No;
        loop {
            match self.tok() {
                Tok::C(b'{') => kept = kept.max(self.block()?),
                Tok::C(b'}') => {
                    self.keep();
                    self.leave();
                    return Ok(kept);
                }
                Tok::End => {
                    return Err(self.ended("End of input while in compound statement\n"));
                }
                Tok::InlineC if self.empty_c() => {}
                Tok::InlineC => match self.accept_language_c(true) {
                    Some(done) => {
                        done?;
                        kept = TranslationOutcome::Yes;
                    }
                    None => return self.inline_c(),
                },
                Tok::Id => {
                    let mark = self.out.mark();
                    let first = self.at;
                    let one = self.statement()?;
                    if one == TranslationOutcome::No {
                        self.out.rollback(mark);
                        self.comments_of(first);
                    }
                    kept = kept.max(one);
                }
                _ => return Err(self.no_action()),
            }
        }
    }

    /// Keeps the comment before a deleted statement, unless another subroutine has it.
    pub fn comments_of(&mut self, first: usize) {
        let i = self.items[first];
        if !self.ctx.only_bereq() && self.slice(i.src, i.gap, i.start).contains(['#', '/']) {
            self.out.verbatim(i.src, &self.sources[i.src as usize].text, i.gap, i.start);
        }
    }

    /// Deletes C that has only comments, such as an empty placeholder of a template.
    pub fn empty_c(&mut self) -> bool {
        if !says_nothing(self.word(), self.languages.is_some()) {
            return false;
        }
        let at = self.at;
        self.note(at, at, "", "C that says nothing");
        self.drop_until(at);
        true
    }

    pub fn inline_c<T>(&self) -> DialectResult<T> {
        let i = self.item();
        // The first C block often only includes headers for the next one.
        let later = (self.at..self.items.len()).filter(|at| self.tok_at(*at) == Tok::InlineC);
        let hint = known_file(&self.sources[i.src as usize].name)
            .or_else(|| later.map(|at| self.text_at(at)).find_map(instead_of_c))
            .unwrap_or("Say it in VCL, or with the modules std, header, cookie, blob and directors.");
        self.fail(DiagnosticCode::InlineC, &format!("Inline C isn't supported: {hint}\n"))
    }

    pub fn statement(&mut self) -> DialectResult<TranslationOutcome> {
        let word = self.word().to_owned();
        let next = self.tok_at(self.after(self.at));
        if self.ctx.only_bereq() && !self.counts_for_bereq() {
            return self.skip_statement();
        }
        if next == Tok::C(b'.') {
            return self.module_call();
        }
        match word.as_str() {
            "if" => self.if_statement(),
            "set" => self.set(),
            "unset" | "remove" => self.unset(),
            "call" => self.call(),
            "return" => self.return_statement(),
            "error" => self.error(),
            "restart" => self.restart(),
            "esi" => {
                let (first, end) = self.bare_statement()?;
                self.sub_only(&[DialectCtx::Fetch], first)?;
                self.replace(first, end, "set beresp.do_esi = true;", "ESI is a property of the response");
                Ok(TranslationOutcome::Yes)
            }
            "purge" if next == Tok::C(b';') => {
                let (first, end) = self.bare_statement()?;
                self.sub_only(&[DialectCtx::Hit, DialectCtx::Miss], first)?;
                self.replace(first, end, "purge.hard();", "vmod purge does it");
                Ok(TranslationOutcome::Yes)
            }
            "rollback" => {
                let (first, end) = self.bare_statement()?;
                self.policy.std = true;
                let http = if self.ctx.backend() { "bereq" } else { "req" };
                self.replace(first, end, &format!("std.rollback({http});"), "vmod std does it");
                Ok(TranslationOutcome::Yes)
            }
            "purge" | "ban" | "purge_url" | "ban_url" | "purge_hash" => self.ban(&word),
            "hash_data" => self.hash_data(),
            "synthetic" => {
                if self.ctx != DialectCtx::Error {
                    return self.fail(DiagnosticCode::Untranslatable, "'synthetic' is for vcl_error only.\n");
                }
                self.keep();
                self.parenthesised()
            }
            "log" => {
                let first = self.at;
                self.policy.std = true;
                self.put("std.log");
                self.note(first, first, "std.log()", "vmod std does it");
                self.parenthesised()
            }
            "panic" => {
                let first = self.at;
                self.policy.std = true;
                self.put("std.log(\"Panic: \" +");
                self.string()?;
                self.expect(Tok::C(b';'))?;
                self.insert(")");
                self.keep();
                self.insert(" return (fail);");
                self.warn(first, first, "std.log(...); return (fail);", "one request fails; the process goes on");
                Ok(TranslationOutcome::Yes)
            }
            _ if BARE.contains(&word.as_str()) && next == Tok::C(b';') => self.bare(&word),
            _ => Err(self.no_action()),
        }
    }

    pub fn counts_for_bereq(&self) -> bool {
        match self.word() {
            "if" => {
                let end = self.if_end();
                let mut at = self.at;
                while at < end {
                    let hit = match (self.tok_at(at), self.text_at(at)) {
                        (Tok::Id, "set" | "unset" | "remove") => self.dotted(self.after(at)).0.starts_with("bereq."),
                        (Tok::Id, "call") => self.variant(self.text_at(self.after(at))).is_some(),
                        _ => false,
                    };
                    if hit {
                        return true;
                    }
                    at += 1;
                }
                false
            }
            "set" | "unset" | "remove" => self.dotted(self.after(self.at)).0.starts_with("bereq."),
            "call" => self.variant(self.text_at(self.after(self.at))).is_some(),
            "return" => self.text_at(self.after(self.after(self.at))) == "fetch",
            _ => false,
        }
    }

    fn speaks_of_bereq(&self) -> bool {
        (self.at..self.if_end()).any(|at| match (self.tok_at(at), self.text_at(at)) {
            (Tok::Id, "set" | "unset" | "remove") => self.dotted(self.after(at)).0.starts_with("bereq."),
            (Tok::Id, "call") => true,
            _ => false,
        })
    }

    pub fn if_end(&self) -> usize {
        let mut at = self.at;
        loop {
            while self.tok_at(at) != Tok::C(b'{') && self.tok_at(at) != Tok::End {
                at = self.after(at);
            }
            at = self.after(self.block_end(at));
            if !matches!(self.text_at(at), "else" | "elseif" | "elsif" | "elif") || self.tok_at(at) == Tok::End {
                return at;
            }
        }
    }

    pub fn skip_statement(&mut self) -> DialectResult<TranslationOutcome> {
        let end = if self.is("if") { self.if_end() } else { self.after(self.semicolon()) };
        while self.at < end && self.tok() != Tok::End {
            self.advance_silently();
        }
        Ok(TranslationOutcome::No)
    }

    pub fn advance_silently(&mut self) {
        let mark = self.out.mark();
        self.skip();
        self.out.rollback(mark);
    }

    pub fn semicolon(&self) -> usize {
        let mut at = self.at;
        while !matches!(self.tok_at(at), Tok::C(b';' | b'}') | Tok::End) {
            at = self.after(at);
        }
        at
    }

    /// The first and last token of a statement of one word.
    pub fn bare_statement(&mut self) -> DialectResult<(usize, usize)> {
        let first = self.at;
        let end = self.after(first);
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            self.expect(Tok::C(b';'))?;
        }
        Ok((first, end))
    }

    pub fn replace(&mut self, first: usize, end: usize, new: &str, reason: &str) {
        self.note(first, end, new, reason);
        self.put_until(end, new);
    }

    pub fn sub_only(&self, where_: &[DialectCtx], at: usize) -> DialectResult {
        if where_.contains(&self.ctx) {
            return Ok(());
        }
        let places: Vec<&str> = where_.iter().map(|c| c.sub().name()).collect();
        let text =
            format!("'{}' is not for {}; it is for {}.\n", self.text_at(at), self.ctx.sub().name(), places.join(", "));
        self.fail_range(DiagnosticCode::WrongPlace, &text, at, at)
    }

    pub fn if_statement(&mut self) -> DialectResult<TranslationOutcome> {
        // Statements that only concerned bereq leave nothing on the client's side.
        let split = self.ctx.only_bereq()
            || (matches!(self.ctx, DialectCtx::Miss | DialectCtx::Pass) && self.speaks_of_bereq());
        let mut kept = if split { TranslationOutcome::No } else { TranslationOutcome::Yes };
        loop {
            // Keeps an `if`, or its continuation.
            self.keep();
            self.condition()?;
            kept = kept.max(self.block()?);
            match self.word() {
                _ if self.tok() != Tok::Id => return Ok(kept),
                "elseif" | "elsif" | "elif" => {}
                "else" => {
                    self.keep();
                    if !self.is("if") {
                        return Ok(kept.max(self.block()?));
                    }
                }
                _ => return Ok(kept),
            }
        }
    }

    pub fn condition(&mut self) -> DialectResult {
        let open = self.at;
        self.keep_c(b'(')?;
        self.expr()?;
        if self.is_c(b'{') {
            let mut fail =
                DiagnosticDraft::at(DiagnosticCode::Syntax, "Expected ')' got '{'\nat\n", self.place(self.at));
            fail.say("This bracket isn't closed before the block begins:\n");
            fail.show(self.place(open));
            return Err(fail.hinted(self.hint_bracket()));
        }
        if self.is_c(b')') && self.tok_at(self.after(self.at)) != Tok::C(b'{') {
            let next = self.after(self.at);
            if matches!(self.tok_at(next), Tok::And | Tok::Or | Tok::Eq | Tok::Ne | Tok::C(b'~' | b')') | Tok::NoMatch)
            {
                let text = format!("Expected '{{' got '{}'\nat\n", self.text_at(next));
                let mut fail = DiagnosticDraft::at(DiagnosticCode::MissingBrace, text, self.place(next));
                fail.say("The condition ends at this bracket:\n");
                fail.show(self.place(self.at));
                return Err(fail);
            }
        }
        self.keep_c(b')')
    }

    pub fn module_call(&mut self) -> DialectResult<TranslationOutcome> {
        self.primary()?;
        self.keep_c(b';')?;
        Ok(TranslationOutcome::Yes)
    }

    pub fn variant(&self, name: &str) -> Option<String> {
        match self.variants.get(&(name.to_owned(), self.ctx)) {
            Some(now) => now.clone(),
            None => Some(self.names.now(NameKind::Sub, name)),
        }
    }

    pub fn call(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        self.keep();
        self.expect(Tok::Id)?;
        let name = self.word().to_owned();
        let Some(now) = self.variant(&name) else {
            self.skip();
            self.expect(Tok::C(b';'))?;
            self.skip();
            return Ok(TranslationOutcome::No);
        };
        if now != name {
            self.note(first, self.at, &format!("call {now}"), "what is called has another name here");
        }
        self.put(&now);
        self.keep_c(b';')?;
        Ok(TranslationOutcome::Yes)
    }
}

/// Replaces each comment in C with a blank. Text in quotes is no comment.
fn without_comments(code: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(code.len()), code);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' | '\'' => quoted(rest, c),
            c => c.len_utf8(),
        };
        let (piece, after) = rest.split_at(length);
        out.push_str(if c == '/' && length > 1 { " " } else { piece });
        rest = after;
    }
    out
}

fn quoted(code: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = code.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == quote && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        ends
    });
    end.map_or(code.len(), |(at, _)| at + 1)
}

/// The hint for a piece of C, by the functions it calls.
fn instead_of_c(code: &str) -> Option<&'static str> {
    let code = without_comments(code);
    let calls = |names: &[&str]| names.iter().any(|name| code.contains(name));
    match () {
        () if calls(&["vcl_rewrite_accept_language", "accept_language", "Accept-Language:"]) => {
            known_file("accept-language.vcl")
        }
        () if calls(&["uuid"]) => Some("vmod uuid makes them: uuid.uuid_v4()."),
        () if calls(&["syslog("]) => Some("Write std.syslog(PRIORITY, text) instead."),
        () if calls(&["VRT_purge"]) => Some("Write purge.hard() of vmod purge (in 3.0: `purge;`) instead."),
        () if calls(&["inet_pton"]) => Some(
            "client.ip is the connection's, and can't be set. Compare the address that a proxy told with the acl in its place: \
             std.ip(req.http.X-Real-IP, client.ip) ~ NAME.",
        ),
        () if calls(&["GeoIP"]) => Some("vmod geoip2 looks an address up in MaxMind's files."),
        () if calls(&["VRT_SetHdr"]) => Some("Write `set X.http.NAME = ...;` instead."),
        () if calls(&["VRT_GetHdr"]) => Some("Read req.http.NAME instead; regsub() takes it apart."),
        () if calls(&["VRT_r_now", "time("]) => Some("`now` and vmod std know times."),
        () if calls(&["digest", "sha", "md5"]) => Some("Hashes are the business of a module (vmod blob, digest)."),
        () => None,
    }
}

/// True if a piece of C has nothing but blanks and comments; with `with_headers` also `#include`s, which only served
/// replaced C.
fn says_nothing(code: &str, with_headers: bool) -> bool {
    let mut rest = code.strip_prefix("C{").and_then(|c| c.strip_suffix("}C")).unwrap_or(code).trim_start();
    while let Some(after) = match rest.get(..2) {
        Some("//") => Some(rest.split_once('\n').map_or("", |(_, after)| after)),
        Some("/*") => rest[2..].split_once("*/").map(|(_, after)| after),
        Some("#i") if with_headers && rest.starts_with("#include <") => {
            Some(rest.split_once('\n').map_or("", |(_, after)| after))
        }
        _ => None,
    } {
        rest = after.trim_start();
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_in_c_say_nothing_about_it() {
        let hint = |code: &str| instead_of_c(code).unwrap_or("none");
        assert!(hint("syslog(LOG_INFO, \"x\");").contains("std.syslog"));
        for comment in ["/* syslog(LOG_INFO, uuid); */", "// syslog(x)\n", "/* \" */ // uuid"] {
            assert_eq!(hint(comment), "none", "{comment}");
            assert!(hint(&format!("{comment}\nVRT_purge(sp);")).contains("purge.hard()"), "{comment}");
        }
        let language = "/* no syslog() here */ p = VRT_GetHdr(sp, HDR_REQ, \"\\020Accept-Language:\");";
        assert_eq!(hint(language), known_file("accept-language.vcl").unwrap());
        // Slashes within quotes don't begin a comment.
        assert!(hint("strcpy(s, \"http://\\\"//\"); VRT_purge(sp);").contains("purge.hard()"));
        assert_eq!(without_comments("a/**/b//c\nd '\\'' \"/*\" /*"), "a b \nd '\\'' \"/*\"  ");
    }
}
