// SPDX-License-Identifier: BSD-2-Clause
//! Translates expressions: they are kept except for the names of variables, adjacent strings, and 2.x's `%xx`.

use tables::dialects::{Dialect, OldVar};

use super::DialectResult;
use super::ctx::DialectCtx;
use super::names::NameKind;
use super::policy::{BACKEND, CACHEABLE, CAN_GZIP, ESI_OFF, METHOD};
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::token::Tok;

const UNITS: [&str; 18] =
    ["ms", "s", "m", "h", "d", "w", "y", "b", "kb", "mb", "gb", "Mb", "Gb", "B", "KB", "MB", "GB", "TB"];

/// Headers that a request to the origin lacks or has with another value than the client's request.
const OWN_FIELDS: [&str; 8] = [
    "accept-encoding",
    "cache-control",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
];

impl Walker<'_> {
    pub fn expr(&mut self) -> DialectResult {
        self.enter()?;
        self.and()?;
        while self.tok() == Tok::Or {
            self.keep();
            self.and()?;
        }
        self.leave();
        Ok(())
    }

    fn and(&mut self) -> DialectResult {
        self.not()?;
        while self.tok() == Tok::And {
            self.keep();
            self.not()?;
        }
        Ok(())
    }

    fn not(&mut self) -> DialectResult {
        while self.is_c(b'!') {
            self.keep();
        }
        self.compare()
    }

    fn compare(&mut self) -> DialectResult {
        if let Some(other) = self.compared_backend(self.at).filter(|_| self.policy.asks_director) {
            let first = self.at;
            let op = self.text_at(self.after(self.dotted(first).1));
            let req = if self.ctx.backend() { "bereq" } else { "req" };
            let new = format!("{req}.http.{BACKEND} {op} \"{}\"", self.text_at(other));
            self.note(
                first,
                other,
                &new,
                "a director chooses one of its backends when it is set: its name is kept beside",
            );
            self.put_until(other, &new);
            return Ok(());
        }
        self.string()?;
        match self.tok() {
            Tok::C(b'~') | Tok::NoMatch => {
                self.keep();
                match self.tok() {
                    Tok::Id => {
                        let now = self.names.now(NameKind::Acl, self.word());
                        if now != self.word() {
                            self.note(self.at, self.at, &now, "the name is taken");
                        }
                        self.put(&now);
                        Ok(())
                    }
                    Tok::Str => self.literal(),
                    _ => self.expect(Tok::Str),
                }
            }
            Tok::Eq | Tok::Ne | Tok::Le | Tok::Ge | Tok::C(b'<' | b'>') => {
                self.keep();
                self.string()
            }
            _ => Ok(()),
        }
    }

    /// Translates sums, and strings joined by `+` or, before 3.0, by adjacency.
    pub fn string(&mut self) -> DialectResult {
        self.product()?;
        loop {
            match self.tok() {
                Tok::C(b'+' | b'-') => self.keep(),
                // The statement before it isn't terminated: these tokens are no values.
                Tok::Id if super::hint::BEGINS.contains(&self.word()) && !self.dotted_at(self.at) => {
                    return self.expect(Tok::C(b';'));
                }
                Tok::Id if matches!(self.word(), "and" | "or") && !self.dotted_at(self.at) => {
                    return self.expect(Tok::C(b')'));
                }
                Tok::Str | Tok::Id => {
                    let at = self.at;
                    self.insert(" +");
                    self.note(at, at, &format!("+ {}", self.word()), "strings are joined by + since 3.0");
                }
                _ => return Ok(()),
            }
            self.product()?;
        }
    }

    pub fn product(&mut self) -> DialectResult {
        self.primary()?;
        while let Tok::C(b'*' | b'/') = self.tok() {
            self.keep();
            self.primary()?;
        }
        Ok(())
    }

    pub fn primary(&mut self) -> DialectResult {
        match self.tok() {
            Tok::C(b'(') => {
                self.keep();
                self.expr()?;
                self.keep_c(b')')
            }
            Tok::C(b'-') => {
                self.enter()?;
                self.keep();
                self.primary()?;
                self.leave();
                Ok(())
            }
            Tok::Int | Tok::Real => {
                self.keep();
                if self.tok() == Tok::Id && UNITS.contains(&self.word()) && !self.called_or_dotted() {
                    self.keep();
                }
                Ok(())
            }
            Tok::Str => self.literal(),
            Tok::InlineC => self.inline_c(),
            Tok::Id => self.name(),
            _ => {
                let found = if self.tok() == Tok::End { "end of input" } else { self.word() };
                self.fail(DiagnosticCode::Syntax, &format!("Unknown token '{found}' when looking for a value:\n"))
            }
        }
    }

    fn dotted_at(&self, at: usize) -> bool {
        self.tok_at(self.after(at)) == Tok::C(b'.')
    }

    fn called_or_dotted(&self) -> bool {
        matches!(self.tok_at(self.after(self.at)), Tok::C(b'.' | b'('))
    }

    /// Translates a string. In 2.x, `%xx` in it is a byte.
    pub fn literal(&mut self) -> DialectResult {
        let item = self.item();
        if self.dialect == Dialect::V30 || item.quote != 1 || !self.word().contains('%') {
            self.keep();
            return Ok(());
        }
        let inner = &self.word()[1..self.word().len() - 1];
        let decoded = decode(inner);
        if decoded == inner {
            self.keep();
            return Ok(());
        }
        let new = if decoded.contains('"') { format!("{{\"{decoded}\"}}") } else { format!("\"{decoded}\"") };
        self.note(self.at, self.at, &new, "%xx in a string is nothing special since 3.0");
        self.put(&new);
        Ok(())
    }

    fn name(&mut self) -> DialectResult {
        let first = self.at;
        let (name, last) = self.dotted(first);
        if self.tok_at(self.after(last)) == Tok::C(b'(') {
            if name == "std.author" {
                return self.author(last);
            }
            return self.function(last);
        }
        if first == last {
            return self.plain_name(&name);
        }
        let new = self.var_now(&name, first, last, false)?;
        if new == name {
            while self.at <= last && self.tok() != Tok::End {
                self.keep();
            }
        } else {
            self.put_until(last, &new);
        }
        Ok(())
    }

    fn plain_name(&mut self, name: &str) -> DialectResult {
        match name {
            "now" | "true" | "false" => self.keep(),
            _ if self.names.is(NameKind::Backend, name) => {
                let now = self.backend_now(name);
                if now != name {
                    let reason =
                        if self.directors.contains_key(name) { "a director is an object" } else { "the name is taken" };
                    self.note(self.at, self.at, &now, reason);
                }
                self.put(&now);
            }
            // The compiler reports a better error.
            _ => self.keep(),
        }
        Ok(())
    }

    /// Translates `std.author(name)`, a joke function of 3.0.
    fn author(&mut self, last: usize) -> DialectResult {
        let who = self.after(self.after(last));
        let close = self.after(who);
        let name = match self.text_at(who) {
            "phk" => "Poul-Henning",
            "des" => "Dag-Erling",
            "kristian" => "Kristian",
            "mithrandir" => "Tollef",
            _ => {
                return self.fail_range(
                    DiagnosticCode::Argument,
                    "std.author() knows phk, des, kristian and mithrandir.\n",
                    who,
                    who,
                );
            }
        };
        if self.tok_at(close) != Tok::C(b')') {
            self.at = close;
            return self.expect(Tok::C(b')'));
        }
        let new = format!("\"{name}\"");
        self.note(self.at, close, &new, "vmod std doesn't know its authors any more");
        self.put_until(close, &new);
        Ok(())
    }

    /// Translates `name(argument, ...)`; the name ends at `last`.
    fn function(&mut self, last: usize) -> DialectResult {
        self.enter()?;
        while self.at <= last && self.tok() != Tok::End {
            self.keep();
        }
        self.keep_c(b'(')?;
        while !self.is_c(b')') {
            self.expr()?;
            if self.is_c(b',') {
                self.keep();
            } else {
                self.expect(Tok::C(b')'))?;
            }
        }
        self.keep_c(b')')?;
        self.leave();
        Ok(())
    }

    pub fn check_place(&self, var: &OldVar, first: usize, last: usize, write: bool) -> DialectResult {
        let sub = self.ctx.sub();
        if var.has(self.dialect, sub, write) {
            return Ok(());
        }
        let name = var.name.trim_end_matches('.');
        let how = if write { "set" } else { "read" };
        if !var.exists(self.dialect) {
            let have: Vec<&str> = Dialect::ALL.into_iter().filter(|d| var.exists(*d)).map(Dialect::name).collect();
            let text = format!("VCL {} has no {name}; {} has.\n", self.dialect.name(), have.join(", "));
            return self.fail_range(DiagnosticCode::UnknownName, &text, first, last);
        }
        let places = var.places(self.dialect, write);
        let mut text = if places.is_empty() {
            format!("{name} can't be {how}.\n")
        } else {
            format!("{name} can't be {how} in {}; it can in {}.\n", sub.name(), places.join(", "))
        };
        if sub == tables::dialects::OldSub::Fetch && name.starts_with("obj.") {
            text.push_str("The response in vcl_fetch is beresp since 2.1.\n");
        }
        self.fail_range(DiagnosticCode::WrongPlace, &text, first, last)
    }

    pub fn var_now(&mut self, name: &str, first: usize, last: usize, write: bool) -> DialectResult<String> {
        if name.starts_with("storage.") {
            return Ok(name.to_owned());
        }
        let Some(var) = OldVar::find(name) else {
            if name.contains('.') && tables::dialects::NEW_WORDS.contains(&name) {
                let text =
                    format!("{name} is a word of VCL 4, and this file is read as VCL {}.\n", self.dialect.name());
                return self.fail_range(DiagnosticCode::UnknownName, &text, first, last);
            }
            let unknown =
                self.fail_range(DiagnosticCode::UnknownName, &format!("Unknown variable '{name}'\n"), first, last);
            return unknown
                .map_err(|fail: crate::diag::DiagnosticDraft| fail.hinted(self.hint_variable(name, first, last)));
        };
        // 2.x has two names for a variable of the object that is being fetched.
        self.check_place(var, first, last, write)?;
        if let Some(new) = self.special_name(var.name, first, last)? {
            self.note(first, last, &new, "there is no variable for it any more");
            return Ok(new);
        }
        if self.ctx == DialectCtx::Fetch && !write && var.name == "req.http." {
            let (low, field) = (name.to_ascii_lowercase(), &name[var.name.len()..]);
            if OWN_FIELDS.contains(&&low[var.name.len()..]) && !self.fetch_sets.contains(&low) {
                let new = self.policy.own_field(field);
                self.note(first, last, &new, "the request to the origin doesn't have this field as the client's has");
                return Ok(new);
            }
        }
        let now = match self.ctx {
            // The request to the origin doesn't exist yet: it is copied from the client's.
            DialectCtx::Miss | DialectCtx::Pass if var.name.starts_with("bereq.") => match var.name {
                "bereq.http." => "req.http.",
                "bereq.url" => "req.url",
                "bereq.request" => "req.method",
                "bereq.proto" => "req.proto",
                // The value is only read in the part of the subroutine that also sets it.
                other => other,
            },
            DialectCtx::Error => var.synth,
            _ if self.ctx.backend() => var.backend,
            _ => var.client,
        };
        if now.is_empty() {
            let text = format!("{} has no counterpart in {}.\n", var.name.trim_end_matches('.'), self.ctx.sub().name());
            return self.fail_range(DiagnosticCode::Untranslatable, &text, first, last);
        }
        if now.starts_with("std.") {
            self.policy.std = true;
        }
        let field = if var.is_field() { &name[var.name.len()..] } else { "" };
        let new = format!("{now}{field}");
        if now != var.name {
            let reason = match self.ctx {
                _ if var.name.starts_with("obj.") => "what is fetched is beresp, what is made here is resp",
                _ if self.ctx.backend() && var.name.starts_with("req.") => "the fetch's request is bereq",
                _ if now.starts_with("std.") => "vmod std knows it",
                _ => "its name now",
            };
            self.note(first, last, &new, reason);
            return Ok(new);
        }
        // Keeps the user's spelling of a header.
        Ok(if var.is_field() { name.to_owned() } else { new })
    }

    /// Translates variables that have been replaced by an expression.
    fn special_name(&mut self, name: &str, first: usize, last: usize) -> DialectResult<Option<String>> {
        let reason =
            |w: &Self, text: &str| w.fail_range(DiagnosticCode::Untranslatable, text, first, last).map(|()| None);
        match name {
            "obj.cacheable" | "beresp.cacheable" if self.ctx == DialectCtx::Fetch => {
                Ok(Some(format!("bereq.http.{CACHEABLE}")))
            }
            "obj.cacheable" => Ok(Some("true".to_owned())),
            "obj.hits" if matches!(self.ctx, DialectCtx::Fetch | DialectCtx::DeliverError) => Ok(Some("0".to_owned())),
            "req.request" if self.ctx.backend() => {
                self.policy.carry_method = true;
                Ok(Some(format!("bereq.http.{METHOD}")))
            }
            "req.restarts" if self.ctx.backend() => {
                self.policy.carry_restarts = true;
                self.policy.std = true;
                Ok(Some("std.integer(bereq.http.X-VCL-Restarts, 0)".to_owned()))
            }
            "req.esi_level" if self.ctx.backend() => {
                self.policy.carry_esi_level = true;
                self.policy.std = true;
                Ok(Some("std.integer(bereq.http.X-VCL-ESI-Level, 0)".to_owned()))
            }
            "req.grace" | "req.ttl" if self.ctx.backend() => {
                self.policy.std = true;
                let mark = self.policy.own_time(name);
                Ok(Some(format!("std.duration(bereq.http.{mark} + \"s\", 0s)")))
            }
            "req.can_gzip" if self.ctx.backend() => {
                self.policy.carry_can_gzip = true;
                Ok(Some(format!("bereq.http.{CAN_GZIP}")))
            }
            "req.esi" if self.ctx.backend() => {
                self.policy.no_esi = true;
                self.policy.carry_esi = true;
                Ok(Some(format!("(!bereq.http.{ESI_OFF})")))
            }
            "req.esi" if self.ctx.delivers() => Ok(Some("resp.do_esi".to_owned())),
            "req.esi" if !self.ctx.backend() => {
                self.policy.no_esi = true;
                Ok(Some("(!req.http.X-VCL-No-ESI)".to_owned()))
            }
            "beresp.backend.ip" | "beresp.backend.port" => {
                reason(self, "Only the name of the backend is known since VCL 4.1: beresp.backend.name.\n")
            }
            // The time was set just before vcl_deliver ran; elsewhere it hadn't been set at all.
            "obj.lastuse" if matches!(self.ctx, DialectCtx::Deliver | DialectCtx::DeliverError) => {
                Ok(Some("0s".to_owned()))
            }
            "obj.lastuse" if self.ctx == DialectCtx::Hit => reason(
                self,
                "When an object was delivered last isn't kept any more. Its age is obj.age in VCL 4, how often it was hit obj.hits; \
                 to let it go when it is too old, set its times in vcl_fetch.\n",
            ),
            // A synthetic or fetched object had never been used.
            "obj.lastuse" => {
                self.policy.std = true;
                Ok(Some("(now - std.time(integer=0))".to_owned()))
            }
            "obj.hash" => reason(self, "Objects don't keep the text of their hash any more.\n"),
            _ => Ok(None),
        }
    }
}

fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let hex = bytes.get(at + 1..at + 3).and_then(|h| std::str::from_utf8(h).ok());
        let byte = hex.and_then(|h| u8::from_str_radix(h, 16).ok()).filter(u8::is_ascii_graphic);
        match byte {
            Some(byte) if bytes[at] == b'%' => {
                out.push(byte);
                at += 3;
            }
            _ => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::decode;

    #[test]
    fn percent_is_a_byte_only_before_two_digits() {
        assert_eq!(decode("a%22b"), "a\"b");
        assert_eq!(decode("100% of %zz%4"), "100% of %zz%4");
    }
}
