// SPDX-License-Identifier: BSD-2-Clause
//! Statements.

use tables::dialects::{BARE, Dialect, OldSub, OldVar};

use super::names::Of;
use super::policy::{CACHEABLE, RESTART};
use super::walk::{Ctx, Kept, Walker};
use super::{Fail, R, known_file};
use crate::token::Tok;

/// Variables that are numbers.
const NUMBERS: [&str; 6] = ["obj.status", "beresp.status", "resp.status", "req.restarts", "server.port", "obj.hits"];

impl Walker<'_> {
    /// `{ ... }`
    pub fn block(&mut self) -> R<Kept> {
        self.enter()?;
        self.keep_c(b'{')?;
        let mut kept = Kept::No;
        loop {
            match self.tok() {
                Tok::C(b'{') => kept = kept.max(self.block()?),
                Tok::C(b'}') => {
                    self.keep();
                    self.leave();
                    return Ok(kept);
                }
                Tok::End => {
                    return Err(Fail::plain("End of input while in compound statement\n".to_owned()));
                }
                Tok::InlineC => return self.inline_c(),
                Tok::Id => {
                    let mark = self.out.mark();
                    let first = self.at;
                    let one = self.statement()?;
                    if one == Kept::No {
                        self.out.rollback(mark);
                        self.comments_of(first, self.at);
                    }
                    kept = kept.max(one);
                }
                _ => return self.fail("Expected an action, 'if', '{' or '}'\n"),
            }
        }
    }

    /// The comment before a statement that isn't there any more (unless it is there in another subroutine).
    fn comments_of(&mut self, first: usize, _: usize) {
        let i = self.items[first];
        if !self.ctx.only_bereq() && self.slice(i.src, i.gap, i.start).contains(['#', '/']) {
            self.out.verbatim(i.src, &self.sources[i.src as usize].text, i.gap, i.start);
        }
    }

    pub fn inline_c<T>(&self) -> R<T> {
        let i = self.item();
        let file = &self.sources[i.src as usize].name;
        let code = self.word();
        let hint = match () {
            () if known_file(file).is_some() => known_file(file).unwrap_or_default().to_owned(),
            () if code.contains("vcl_rewrite_accept_language") || code.contains("accept_language") => {
                known_file("accept-language.vcl").unwrap_or_default().to_owned()
            }
            () if code.contains("syslog") => "Write std.syslog(PRIORITY, text) instead.".to_owned(),
            () if code.contains("VRT_purge") => {
                "Write purge.hard() of vmod purge (in 3.0: `purge;`) instead.".to_owned()
            }
            () if code.contains("VRT_SetHdr") => "Write `set X.http.NAME = ...;` instead.".to_owned(),
            () if code.contains("VRT_GetHdr") => "Read req.http.NAME instead; regsub() takes it apart.".to_owned(),
            () if code.contains("VRT_r_now") || code.contains("time(") => "`now` and vmod std know times.".to_owned(),
            () if code.contains("digest") || code.contains("sha") || code.contains("md5") => {
                "Hashes are the business of a module (vmod blob, digest).".to_owned()
            }
            () => "Say it in VCL, or with the modules std, header, cookie, blob and directors.".to_owned(),
        };
        self.fail(&format!("Inline C isn't supported: {hint}\n"))
    }

    fn statement(&mut self) -> R<Kept> {
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
                self.sub_only(&[Ctx::Fetch], first)?;
                self.replace(first, end, "set beresp.do_esi = true;", "ESI is a property of the response");
                Ok(Kept::Yes)
            }
            "purge" if next == Tok::C(b';') => {
                let (first, end) = self.bare_statement()?;
                self.sub_only(&[Ctx::Hit, Ctx::Miss], first)?;
                self.replace(first, end, "purge.hard();", "vmod purge does it");
                Ok(Kept::Yes)
            }
            "rollback" => {
                let (first, end) = self.bare_statement()?;
                self.policy.std = true;
                let http = if self.ctx.backend() { "bereq" } else { "req" };
                self.replace(first, end, &format!("std.rollback({http});"), "vmod std does it");
                Ok(Kept::Yes)
            }
            "purge" | "ban" | "purge_url" | "ban_url" => self.ban(&word),
            "purge_hash" => self.fail(
                "purge_hash() has no counterpart: objects don't keep the text of their hash any more. Ban by what the hash is \
                 made of: ban(\"req.url ~ ... && req.http.host == ...\").\n",
            ),
            "hash_data" => self.hash_data(),
            "synthetic" => {
                if self.ctx != Ctx::Error {
                    return self.fail("'synthetic' is for vcl_error only.\n");
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
                Ok(Kept::Yes)
            }
            _ if BARE.contains(&word.as_str()) && next == Tok::C(b';') => self.bare(&word),
            _ => self.fail("Expected an action, 'if', '{' or '}'\n"),
        }
    }

    /// Whether a statement can say something of `bereq`.
    fn counts_for_bereq(&self) -> bool {
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

    /// The index after the last block of the `if` here.
    fn if_end(&self) -> usize {
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

    fn skip_statement(&mut self) -> R<Kept> {
        let end = if self.is("if") { self.if_end() } else { self.after(self.semicolon()) };
        while self.at < end && self.tok() != Tok::End {
            self.advance_silently();
        }
        Ok(Kept::No)
    }

    fn advance_silently(&mut self) {
        let mark = self.out.mark();
        self.skip();
        self.out.rollback(mark);
    }

    /// The `;` of the statement here.
    fn semicolon(&self) -> usize {
        let mut at = self.at;
        while !matches!(self.tok_at(at), Tok::C(b';' | b'}') | Tok::End) {
            at = self.after(at);
        }
        at
    }

    /// A statement of one word: its first and last token.
    fn bare_statement(&mut self) -> R<(usize, usize)> {
        let first = self.at;
        let end = self.after(first);
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            self.expect(Tok::C(b';'))?;
        }
        Ok((first, end))
    }

    fn replace(&mut self, first: usize, end: usize, new: &str, why: &str) {
        self.note(first, end, new, why);
        self.put_until(end, new);
    }

    fn sub_only(&self, where_: &[Ctx], at: usize) -> R {
        if where_.contains(&self.ctx) {
            return Ok(());
        }
        let places: Vec<&str> = where_.iter().map(|c| c.sub().name()).collect();
        let text =
            format!("'{}' is not for {}; it is for {}.\n", self.text_at(at), self.ctx.sub().name(), places.join(", "));
        self.fail_range(&text, at, at)
    }

    fn if_statement(&mut self) -> R<Kept> {
        // What only spoke of bereq leaves nothing on the client's side.
        let split = self.ctx.only_bereq() || matches!(self.ctx, Ctx::Miss | Ctx::Pass);
        let mut kept = if split { Kept::No } else { Kept::Yes };
        loop {
            // `if`, or what continues one.
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

    fn condition(&mut self) -> R {
        let open = self.at;
        self.keep_c(b'(')?;
        self.expr()?;
        if self.is_c(b'{') {
            let text = "Expected ')' got '{'\nThis bracket isn't closed before the block begins:\n";
            return Err(Fail(vec![
                ("Expected ')' got '{'\nat\n".to_owned(), Some(self.place(self.at))),
                (text.lines().nth(1).unwrap_or_default().to_owned() + "\n", Some(self.place(open))),
            ]));
        }
        if self.is_c(b')') && self.tok_at(self.after(self.at)) != Tok::C(b'{') {
            let next = self.after(self.at);
            if matches!(self.tok_at(next), Tok::And | Tok::Or | Tok::Eq | Tok::Ne | Tok::C(b'~' | b')') | Tok::NoMatch)
            {
                return Err(Fail(vec![
                    (format!("Expected '{{' got '{}'\nat\n", self.text_at(next)), Some(self.place(next))),
                    ("The condition ends at this bracket:\n".to_owned(), Some(self.place(self.at))),
                ]));
            }
        }
        self.keep_c(b')')
    }

    fn module_call(&mut self) -> R<Kept> {
        self.primary()?;
        self.keep_c(b';')?;
        Ok(Kept::Yes)
    }

    fn variant(&self, name: &str) -> Option<String> {
        match self.variants.get(&(name.to_owned(), self.ctx)) {
            Some(now) => now.clone(),
            None => Some(self.names.now(Of::Sub, name)),
        }
    }

    fn call(&mut self) -> R<Kept> {
        let first = self.at;
        self.keep();
        self.expect(Tok::Id)?;
        let name = self.word().to_owned();
        let Some(now) = self.variant(&name) else {
            self.skip();
            self.expect(Tok::C(b';'))?;
            self.skip();
            return Ok(Kept::No);
        };
        if now != name {
            self.note(first, self.at, &format!("call {now}"), "what is called has another name here");
        }
        self.put(&now);
        self.keep_c(b';')?;
        Ok(Kept::Yes)
    }

    // --- leaving

    fn legal(&self, word: &str, at: usize) -> R {
        let sub = self.ctx.sub();
        let legal = sub.returns(self.dialect);
        // What real files say of another release of theirs.
        let lenient = sub == OldSub::Fetch && matches!(word, "pass" | "hit_for_pass");
        if legal.contains(&word) || lenient {
            return Ok(());
        }
        let known = OldSub::ALL.iter().any(|s| s.returns(self.dialect).contains(&word));
        if !known {
            return self.fail_range("Expected return action name.\n", at, at);
        }
        let text = format!(
            "return ({word}) is not for {} in VCL {}; what it may return is: {}.\n",
            sub.name(),
            self.dialect.name(),
            legal.join(", ")
        );
        self.fail_range(&text, at, at)
    }

    /// `lookup;`
    fn bare(&mut self, word: &str) -> R<Kept> {
        let (first, end) = self.bare_statement()?;
        if self.dialect != Dialect::V20 {
            return self.fail(&format!(
                "A return action stands in brackets since VCL 2.1: please change \"{word};\" to \"return ({word});\".\n"
            ));
        }
        self.legal(word, first)?;
        self.leave_with(word, first, end)
    }

    fn return_statement(&mut self) -> R<Kept> {
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

    /// A statement that returns `word`, from token `first` to its `;`.
    fn leave_with(&mut self, word: &str, first: usize, end: usize) -> R<Kept> {
        if word == "error" {
            let new = if self.ctx == Ctx::Fetch { "return (error(501));" } else { "return (synth(501));" };
            self.replace(first, end, new, "an error without a number was 501");
            return Ok(Kept::Yes);
        }
        if word == "restart" {
            return self.leave_by_restart(first, end);
        }
        let (new, why) = match (self.ctx, word) {
            (Ctx::Recv, "lookup") => ("return (hash);", "vcl_hash comes next; lookup is what it returns"),
            (Ctx::Hash, "hash") => ("return (lookup);", "lookup comes next"),
            (Ctx::Pass, "pass") => ("return (fetch);", "vcl_pass goes on with the fetch"),
            (Ctx::Fetch, "pass" | "hit_for_pass") => {
                let two = self.dialect != Dialect::V30;
                let new = match two {
                    true => "if (beresp.ttl < 120s) { set beresp.ttl = 120s; } return (pass(beresp.ttl));",
                    false => "return (pass(beresp.ttl));",
                };
                (new, "hit-for-pass is pass with a time now")
            }
            (Ctx::Fetch, "deliver") => {
                self.policy.deliver_used = true;
                self.note(first, end, "call deliver_as_before; return (deliver);", self.policy.why_deliver());
                self.gap_then(first, end, "call deliver_as_before; ");
                return Ok(Kept::Yes);
            }
            _ => ("", ""),
        };
        if new.is_empty() {
            self.gap_then(first, end, "");
        } else {
            self.replace(first, end, new, why);
        }
        Ok(if self.ctx.only_bereq() { Kept::Weak } else { Kept::Yes })
    }

    /// Writes the statement from `first` to `end` after `before`; a bare word gets its `return`.
    fn gap_then(&mut self, first: usize, end: usize, before: &str) {
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

    fn leave_by_restart(&mut self, first: usize, end: usize) -> R<Kept> {
        if self.ctx == Ctx::Fetch {
            self.policy.failed = true;
            self.policy.restart_in_fetch = true;
            let new = format!("set bereq.http.{RESTART} = \"1\"; return (error(503));");
            let why = "a fetch can't restart its client: it fails with a mark, and vcl_deliver restarts";
            self.replace(first, end, &new, why);
        } else if self.text_at(first) == "return" {
            self.gap_then(first, end, "");
        } else {
            self.replace(first, end, "return (restart);", "an action stands in return () since 2.1");
        }
        Ok(Kept::Yes)
    }

    /// `restart;` and `restart rollback;`
    fn restart(&mut self) -> R<Kept> {
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
            if self.ctx == Ctx::Fetch {
                return self.leave_by_restart(first, end);
            }
            self.replace(first, end, "std.rollback(req); return (restart);", "vmod std does it");
            return Ok(Kept::Yes);
        }
        if self.dialect == Dialect::V30 {
            return self.fail("Please change \"restart\" to \"return (restart)\".\n");
        }
        let (first, end) = self.bare_statement()?;
        self.legal("restart", first)?;
        self.leave_by_restart(first, end)
    }

    /// `error 404 "text";`
    fn error(&mut self) -> R<Kept> {
        let first = self.at;
        self.legal("error", first)?;
        let action = if self.ctx == Ctx::Fetch { "error" } else { "synth" };
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
                self.insert("501");
            }
            // 2.x: a text alone.
            Tok::Id if self.dialect != Dialect::V30 && !NUMBERS.contains(&self.dotted(self.at).0.as_str()) => {
                self.tight = false;
                self.insert("501");
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
        Ok(Kept::Yes)
    }

    // --- bans, hashes

    fn ban(&mut self, word: &str) -> R<Kept> {
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
        Ok(Kept::Yes)
    }

    /// `req.url == req.url && req.http.host ~ "x"` as a string that says it.
    fn ban_words(&mut self) -> R {
        let mut before = String::new();
        loop {
            self.expect(Tok::Id)?;
            let (name, last) = self.dotted(self.at);
            if name.eq_ignore_ascii_case("obj.hash") {
                return self.fail("obj.hash has no counterpart: ban by what the hash is made of.\n");
            }
            let op = self.after(last);
            let op_text = match self.tok_at(op) {
                Tok::C(b'~') => "~",
                Tok::NoMatch => "!~",
                Tok::Eq => "==",
                Tok::Ne => "!=",
                _ => {
                    self.at = op;
                    return self.fail("Expected ~, !~, == or !=.\n");
                }
            };
            let low = name.to_ascii_lowercase();
            let field = ["req.http.", "obj.http."].iter().any(|p| low.len() > p.len() && low.starts_with(p));
            if !field && !matches!(low.as_str(), "req.url" | "obj.status") {
                return self.fail_range("Unknown purge variable.\n", self.at, last);
            }
            self.put_until(op, &format!("{before}\"{name} {op_text} \" +"));
            self.primary()?;
            if self.tok() != Tok::And {
                return Ok(());
            }
            self.put("+ \" && \" +");
            before.clear();
        }
    }

    fn hash_data(&mut self) -> R<Kept> {
        let first = self.at;
        self.sub_only(&[Ctx::Hash], first)?;
        self.keep();
        self.keep_c(b'(')?;
        self.string()?;
        self.keep_c(b')')?;
        self.keep_c(b';')?;
        Ok(Kept::Yes)
    }

    /// A string in brackets of our own, and the `;`.
    fn parenthesised(&mut self) -> R<Kept> {
        self.insert("(");
        self.tight = true;
        self.string()?;
        self.expect(Tok::C(b';'))?;
        self.insert(")");
        self.keep();
        Ok(Kept::Yes)
    }

    // --- variables

    fn unset(&mut self) -> R<Kept> {
        let first = self.at;
        let name_at = self.after(first);
        let (name, last) = self.dotted(name_at);
        let end = self.after(last);
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            self.expect(Tok::C(b';'))?;
        }
        if !name.contains(".http.") {
            return self.fail_range("Only http header variables can be unset.\n", name_at, last);
        }
        let Some(new) = self.target(&name, name_at, last)? else {
            self.drop_until(end);
            return Ok(Kept::No);
        };
        if self.is("remove") {
            self.note(first, first, "unset", "one word for it is left");
            self.put("unset");
        } else {
            self.keep();
        }
        self.put_name(last, &name, &new);
        self.keep_c(b';')?;
        Ok(Kept::Yes)
    }

    fn put_name(&mut self, last: usize, name: &str, new: &str) {
        if name == new {
            while self.at <= last {
                self.keep();
            }
        } else {
            self.put_until(last, new);
        }
    }

    /// What is set or unset is called now; `None` = that is said elsewhere, in this subroutine's other part.
    fn target(&mut self, name: &str, first: usize, last: usize) -> R<Option<String>> {
        let is_bereq = name.starts_with("bereq.");
        if (self.ctx.only_bereq() && !is_bereq) || (matches!(self.ctx, Ctx::Miss | Ctx::Pass) && is_bereq) {
            // Its places are checked all the same.
            self.quiet = true;
            let known = self.var_now(name, first, last, true);
            self.quiet = false;
            return known.map(|_| None);
        }
        if self.ctx == Ctx::Hit && name.starts_with("obj.http.") {
            return self.fail_range(
                "An object's fields can't be changed in vcl_hit: others may be reading it. Set the field of resp in vcl_deliver.\n",
                first,
                last,
            );
        }
        let new = self.var_now(name, first, last, true)?;
        if self.ctx == Ctx::Fetch && name.starts_with("req.") {
            let why = "the fetch has a request of its own: what is set in it reaches neither vcl_deliver nor a restart";
            self.warn(first, last, &new, why);
        }
        Ok(Some(new))
    }

    fn set(&mut self) -> R<Kept> {
        let first = self.at;
        let name_at = self.after(first);
        if self.tok_at(name_at) != Tok::Id {
            self.at = name_at;
            return self.expect(Tok::Id).map(|()| Kept::No);
        }
        let (name, last) = self.dotted(name_at);
        let low = name.to_ascii_lowercase();
        let value = self.after(self.after(last));
        let end = self.semicolon();
        if let Some(kept) = self.special_set(&low, first, name_at, last, value, end)? {
            return Ok(kept);
        }
        let Some(new) = self.target(&name, name_at, last)? else {
            self.drop_until(end);
            return Ok(Kept::No);
        };
        if self.ctx == Ctx::Fetch && new.starts_with("beresp.http.") {
            self.wrong_place(first, name_at, end);
        }
        self.keep();
        self.put_name(last, &name, &new);
        match self.tok() {
            Tok::C(b'=') | Tok::AddTo | Tok::SubFrom | Tok::MulBy | Tok::DivBy => self.keep(),
            _ => self.expect(Tok::C(b'='))?,
        }
        self.expr()?;
        self.keep_c(b';')?;
        Ok(Kept::Yes)
    }

    /// Warns of a field that is stored with the object though it says what became of one request.
    fn wrong_place(&mut self, first: usize, name_at: usize, end: usize) {
        let mut at = name_at;
        while at < end {
            let (name, last) = self.dotted(at);
            if self.tok_at(at) == Tok::Id && self.hit_fields.contains(&name.to_ascii_lowercase()) {
                let why = format!(
                    "{name} is set in vcl_hit, and vcl_fetch doesn't run on a hit: what is set here is stored, and every hit has it \
                     as the first response had; set the field of resp in vcl_deliver"
                );
                let line = format!("set {} ...", self.dotted(name_at).0);
                self.warn(first, end, &line, &why);
                return;
            }
            at = self.after(last);
        }
    }

    /// What isn't just called otherwise now.
    fn special_set(
        &mut self,
        name: &str,
        first: usize,
        name_at: usize,
        last: usize,
        value: usize,
        end: usize,
    ) -> R<Option<Kept>> {
        if let Some(var) = OldVar::find(name).filter(|v| !v.is_field()) {
            self.check_place(var, name_at, last, true)?;
        }
        let drop = |w: &mut Self, why: &str, warning: bool| -> R<Option<Kept>> {
            if w.tok_at(end) != Tok::C(b';') {
                w.at = end;
                w.expect(Tok::C(b';'))?;
            }
            if warning {
                w.warn(first, end, "", why)
            } else {
                w.note(first, end, "", why)
            }
            w.drop_until(end);
            Ok(Some(Kept::No))
        };
        let on_error = self.ctx == Ctx::Error;
        match name {
            "req.hash" => {
                if self.ctx != Ctx::Hash {
                    return drop(self, "the hash is made in vcl_hash only", true);
                }
                let op = self.after(last);
                if self.tok_at(op) != Tok::AddTo {
                    self.at = op;
                    self.expect(Tok::AddTo)?;
                }
                self.note(first, op, "hash_data()", "the hash isn't a variable any more");
                self.put_until(op, "hash_data(");
                self.tight = true;
                self.string()?;
                self.expect(Tok::C(b';'))?;
                self.insert(")");
                self.keep();
                Ok(Some(Kept::Yes))
            }
            "obj.prefetch" => {
                drop(self, "2.0 never fetched ahead; objects in grace are refreshed in the background now", false)
            }
            "beresp.saintmode" => {
                drop(self, "saint mode is a module's now (vmod saintmode): the backend isn't left out", true)
            }
            "req.keep" => drop(self, "nothing reads it any more", false),
            "obj.ttl" | "obj.grace" | "obj.keep" | "obj.cacheable" if on_error => {
                drop(self, "a response made in vcl_synth is never stored", false)
            }
            "obj.grace" | "obj.keep" if self.ctx == Ctx::Hit => {
                drop(self, "an object's times can't be changed in vcl_hit any more", true)
            }
            "obj.ttl" if self.ctx == Ctx::Hit => {
                self.policy.purge = true;
                let soon = self.tok_at(value) == Tok::Int && self.text_at(value).trim_start_matches('0').is_empty();
                if soon || self.tok_at(value) == Tok::C(b'-') {
                    self.warn(first, end, "purge.hard();", "an object ends by a purge, with all its variants");
                    self.put_until(end, "purge.hard();");
                } else {
                    self.warn(
                        first,
                        end,
                        "purge.soft(...);",
                        "an object's time can only be cut, with all its variants'",
                    );
                    let op = self.after(last);
                    self.put_until(op, "purge.soft(");
                    self.tight = true;
                    self.string()?;
                    self.expect(Tok::C(b';'))?;
                    self.insert(")");
                    self.keep();
                }
                Ok(Some(Kept::Yes))
            }
            "obj.cacheable" if self.ctx == Ctx::Hit && self.text_at(value) == "false" => {
                self.policy.purge = true;
                self.warn(first, end, "purge.hard();", "an object ends by a purge, with all its variants");
                self.put_until(end, "purge.hard();");
                Ok(Some(Kept::Yes))
            }
            "obj.cacheable" if self.ctx == Ctx::Hit => drop(self, "what is stored is cacheable", false),
            "obj.cacheable" | "beresp.cacheable" => {
                let new = match self.text_at(value) {
                    "true" => format!("set bereq.http.{CACHEABLE} = \"1\";"),
                    "false" => format!("unset bereq.http.{CACHEABLE};"),
                    _ => return self.fail_range("Expected true or false\n", value, value),
                };
                self.note(first, end, &new, "a mark takes the place of the variable");
                self.put_until(end, &new);
                Ok(Some(Kept::Yes))
            }
            "req.esi" => {
                if self.ctx == Ctx::Fetch {
                    return drop(self, "a client's ESI isn't decided in a fetch", true);
                }
                let new = match self.text_at(value) {
                    _ if self.ctx == Ctx::Deliver => format!("set resp.do_esi = {};", self.text_at(value)),
                    "false" => "set req.http.X-VCL-No-ESI = \"1\";".to_owned(),
                    "true" => "unset req.http.X-VCL-No-ESI;".to_owned(),
                    _ => return self.fail_range("Expected true or false\n", value, value),
                };
                self.policy.no_esi |= self.ctx != Ctx::Deliver;
                self.note(first, end, &new, "ESI is switched off for a response, in vcl_deliver");
                self.put_until(end, &new);
                Ok(Some(Kept::Yes))
            }
            "beresp.storage" if self.tok_at(value) == Tok::Str => {
                let store = self.text_at(value).trim_matches('"').to_owned();
                let new = format!("set beresp.storage = storage.{store};");
                self.note(first, end, &new, "a store is a value of its own type");
                self.put_until(end, &new);
                Ok(Some(Kept::Yes))
            }
            "req.grace" if self.ctx == Ctx::Fetch => drop(self, "a fetch has no grace of its client's", true),
            "req.proto" | "resp.proto" | "beresp.proto" | "bereq.proto" | "obj.proto" => {
                drop(self, "a protocol's name is read only since 4.1", true)
            }
            _ => Ok(None),
        }
    }
}
