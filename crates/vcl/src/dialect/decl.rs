// SPDX-License-Identifier: BSD-2-Clause
//! Translates top-level declarations: backends, directors, probes, ACLs, imports.

use super::DialectResult;
use super::late::Saint;
use super::names::NameKind;
use super::out::Out;
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::diag::DiagnosticDraft;
use crate::token::Tok;

impl Walker<'_> {
    /// Translates one declaration. For a director, returns the subroutine that creates it.
    pub fn declaration(&mut self) -> DialectResult<Option<Out>> {
        if self.tok() == Tok::InlineC && self.empty_c() {
            return Ok(None);
        }
        match (self.tok(), self.word()) {
            (Tok::Id, "sub") => self.sub_decl().map(|()| None),
            (Tok::Id, "acl") => self.acl().map(|()| None),
            (Tok::Id, "backend") => self.backend_decl().map(|()| None),
            (Tok::Id, "director") => self.director().map(Some),
            (Tok::Id, "probe") => self.probe().map(|()| None),
            (Tok::Id, "import") => {
                while !matches!(self.tok(), Tok::C(b';') | Tok::End) {
                    self.keep();
                }
                self.keep_c(b';').map(|()| None)
            }
            (Tok::InlineC, _) => match self.accept_language_c(false) {
                Some(done) => done.map(|()| None),
                None => self.inline_c(),
            },
            (Tok::Id, "vcl") => self.fail(DiagnosticCode::Version, "A file that says its version is no old one.\n"),
            _ => {
                let text = format!(
                    "Expected one of\n\t'acl', 'sub', 'backend', 'director', 'probe' or 'import'\nFound: '{}' at\n",
                    self.word()
                );
                Err(DiagnosticDraft::at(DiagnosticCode::Syntax, text, self.place(self.at)).hinted(self.hint_outside()))
            }
        }
    }

    fn named(&mut self, of: NameKind) -> DialectResult<String> {
        self.keep();
        self.expect(Tok::Id)?;
        let name = self.word().to_owned();
        let now = self.names.now(of, &name);
        if now != name {
            self.note(self.at, self.at, &now, "the name is taken");
        }
        self.put(&now);
        Ok(now)
    }

    fn acl(&mut self) -> DialectResult {
        self.named(NameKind::Acl)?;
        if self.is_c(b'{') && self.has_host_bits() {
            let reason =
                "an entry has bits set that its mask leaves out: since 7.0 that is an error unless the acl says so";
            self.note(self.at, self.at, "-pedantic {", reason);
            self.insert(" -pedantic");
        }
        self.keep_c(b'{')?;
        while !self.is_c(b'}') {
            match self.tok() {
                Tok::End => {
                    return Err(DiagnosticDraft::new(DiagnosticCode::Unclosed, "End of input while in an acl\n"));
                }
                Tok::Str => self.literal()?,
                _ => self.keep(),
            }
        }
        self.keep();
        Ok(())
    }

    /// True if an entry of the acl whose `{` is here has bits set beyond its mask. Host names don't count.
    fn has_host_bits(&self) -> bool {
        let end = self.block_end(self.at);
        (self.at..end).filter(|at| self.tok_at(*at) == Tok::Str).any(|at| {
            let slash = self.after(at);
            let bits = self.after(slash);
            self.tok_at(slash) == Tok::C(b'/')
                && self.tok_at(bits) == Tok::Int
                && self.text_at(bits).parse().is_ok_and(|bits| beyond_mask(self.text_at(at).trim_matches('"'), bits))
        })
    }

    fn probe(&mut self) -> DialectResult {
        self.named(NameKind::Probe)?;
        self.fields()
    }

    fn backend_decl(&mut self) -> DialectResult {
        let (first, name) = (self.at, self.after(self.at));
        if self.dns_members.contains(self.text_at(name)) {
            let reason = "its address is in the list of a dns director, which has no probe, and nothing else names it";
            self.note(first, name, "", reason);
            self.comments_of(first);
            self.drop_until(self.block_end(self.after(name)));
            return Ok(());
        }
        let now = self.named(NameKind::Backend)?;
        self.saint_backend(&now);
        self.fields()
    }

    fn fields(&mut self) -> DialectResult {
        self.enter()?;
        self.keep_c(b'{')?;
        while !self.is_c(b'}') {
            let first = self.at;
            if self.is("set") {
                return self.fail(
                    DiagnosticCode::Untranslatable,
                    "This is VCL 1.0: leave out \"set\" and \"backend\" in front of a backend's fields.\n",
                );
            }
            let name = self.after(first);
            if self.is_c(b'.') && self.text_at(name) == "saintmode_threshold" {
                self.threshold(first)?;
                continue;
            }
            self.keep_c(b'.')?;
            self.expect(Tok::Id)?;
            self.keep();
            self.keep_c(b'=')?;
            if self.is_c(b'{') {
                self.fields()?;
                // Some programs have a semicolon after a probe.
                if self.is_c(b';') {
                    self.keep();
                }
                continue;
            }
            while !self.is_c(b';') {
                match self.tok() {
                    Tok::End | Tok::C(b'}' | b'{') => return self.expect(Tok::C(b';')),
                    Tok::Str => self.literal()?,
                    Tok::Id => {
                        let now = self.names.now(NameKind::Probe, self.word());
                        self.put(&now);
                    }
                    _ => self.keep(),
                }
            }
            self.keep();
        }
        self.keep();
        self.leave();
        Ok(())
    }

    /// Translates a director to an object; its inline backends become declarations in the same place.
    fn director(&mut self) -> DialectResult<Out> {
        let first = self.at;
        let name_at = self.after(first);
        let kind_at = self.after(name_at);
        let open = self.after(kind_at);
        for (at, tok) in [(name_at, Tok::Id), (kind_at, Tok::Id), (open, Tok::C(b'{'))] {
            if self.tok_at(at) != tok {
                self.at = at;
                self.expect(tok)?;
            }
        }
        let name = self.text_at(name_at).to_owned();
        let now = self.names.now(NameKind::Backend, &name);
        let kind = self.text_at(kind_at).to_owned();
        let (class, weighted) = match kind.as_str() {
            "round-robin" => ("round_robin", false),
            "fallback" => ("fallback", false),
            "random" => ("random", true),
            "hash" | "client" => ("hash", true),
            "dns" => return self.dns_director(first, &now, open),
            _ => return self.fail_range(DiagnosticCode::Field, "Unknown director policy\n", kind_at, kind_at),
        };
        let gap = {
            let i = self.item();
            self.slice(i.src, i.gap, i.start).to_owned()
        };
        self.out.own(&gap);
        self.drop_until(open);
        let mut members = Vec::new();
        while !self.is_c(b'}') {
            if self.is_c(b'.') {
                self.director_field()?;
                continue;
            }
            let member = self.member(&now, members.len())?;
            members.push(member);
        }
        self.drop_until(self.at);
        let new = format!("new {now} = directors.{class}();");
        let reason = match kind.as_str() {
            "hash" => "a director is an object; this one chooses by the hash when the origin is asked",
            "client" => "a director is an object; this one chooses by client.identity when the origin is asked",
            _ => "a director is an object",
        };
        self.note(first, kind_at, &new, reason);
        let mut init = Out::default();
        let (src, start, _) = self.place(first);
        let end = self.items[kind_at].end;
        init.instead(src, start, end, &format!("sub vcl_init {{\n    {new}\n"));
        for (_, weight) in &mut members {
            *weight = weighted.then(|| weight.take().unwrap_or_else(|| "1".to_owned()));
        }
        for (backend, weight) in &members {
            let weight = weight.as_ref().map_or_else(String::new, |weight| format!(", {weight}"));
            init.instead(src, start, end, &format!("    {now}.add_backend({backend}{weight});\n"));
        }
        init.instead(src, start, end, "}\n");
        self.saints.push(Saint::Director { name: now, class, members });
        Ok(init)
    }

    fn director_field(&mut self) -> DialectResult {
        let first = self.at;
        let name = self.after(first);
        let mut end = name;
        while !matches!(self.tok_at(end), Tok::C(b';' | b'}' | b'{') | Tok::End) {
            end = self.after(end);
        }
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            return self.expect(Tok::C(b';'));
        }
        if self.text_at(name) != "retries" {
            return self.fail_range(DiagnosticCode::Field, "Unknown field of a director\n", first, name);
        }
        let value = self.after(self.after(name));
        if self.tok_at(value) != Tok::Int || self.after(value) != end {
            self.at = value;
            return self.expect(Tok::Int);
        }
        self.warn(first, end, "", "a director tries each healthy backend once now");
        self.drop_until(end);
        Ok(())
    }

    /// Translates `{ .backend = name; .weight = 2; }`. Returns the weight and the backend's name; an inline backend
    /// becomes a declaration.
    fn member(&mut self, director: &str, index: usize) -> DialectResult<(String, Option<String>)> {
        self.expect(Tok::C(b'{'))?;
        let open = self.at;
        self.drop_until(open);
        let (mut backend, mut weight) = (None, None);
        while !self.is_c(b'}') {
            let field = self.after(self.at);
            let equals = self.after(field);
            let value = self.after(equals);
            if !self.is_c(b'.') || self.tok_at(equals) != Tok::C(b'=') {
                return self.fail(DiagnosticCode::Field, "Expected a field of a director's member\n");
            }
            match (self.text_at(field), self.tok_at(value)) {
                ("backend", Tok::Id) => {
                    backend = Some(self.names.now(NameKind::Backend, self.text_at(value)));
                    self.drop_until(value);
                    self.end_of_field()?;
                }
                ("backend", Tok::C(b'{')) => {
                    let name = inline_name(director, index);
                    let at = self.at;
                    self.drop_until(equals);
                    let (src, start, _) = self.place(at);
                    self.out.instead(src, start, self.items[equals].end, &format!("backend {name}"));
                    self.saint_backend(&name);
                    self.fields()?;
                    self.out.own("\n\n");
                    backend = Some(name);
                    if self.is_c(b';') {
                        self.drop_until(self.at);
                    }
                }
                ("weight", Tok::Int) if self.text_at(value).trim_start_matches('0').is_empty() => {
                    return self.fail_range(
                        DiagnosticCode::Field,
                        "The .weight must be higher than zero.\n",
                        value,
                        value,
                    );
                }
                ("weight", Tok::Int) => {
                    weight = Some(self.text_at(value).to_owned());
                    self.drop_until(value);
                    self.end_of_field()?;
                }
                _ => {
                    return self.fail_range(
                        DiagnosticCode::Field,
                        "Unknown field of a director's member\n",
                        self.at,
                        field,
                    );
                }
            }
        }
        self.drop_until(self.at);
        match backend {
            Some(backend) => Ok((backend, weight)),
            None => self.fail_range(DiagnosticCode::Field, "A director's member has no .backend\n", open, open),
        }
    }

    fn end_of_field(&mut self) -> DialectResult {
        self.expect(Tok::C(b';'))?;
        self.drop_until(self.at);
        Ok(())
    }

    /// The name of a director's first member; an inline one gets its name here.
    pub fn inline_member(&self, director: &str) -> String {
        let declared = self.names.declared.get(&(NameKind::Backend, director.to_owned()));
        let Some(mut at) = declared.copied() else { return director.to_owned() };
        while at + 1 < self.items.len() && self.text_at(at) != "backend" {
            at = self.after(at);
            if self.tok_at(at) == Tok::End {
                break;
            }
        }
        let value = self.after(self.after(at));
        match self.tok_at(value) {
            Tok::Id => self.names.now(NameKind::Backend, self.text_at(value)),
            _ => inline_name(&self.names.now(NameKind::Backend, director), 0),
        }
    }
}

/// True if an address has bits set beyond a mask; short IPv4 addresses are networks.
fn beyond_mask(address: &str, bits: u32) -> bool {
    let parts = address.split('.').count();
    let whole = if parts < 4 && !address.contains(':') {
        address.to_owned() + &".0".repeat(4 - parts)
    } else {
        address.to_owned()
    };
    let most = if whole.contains(':') { 128 } else { 32 };
    bits <= most && whole.parse().map_or(true, |ip| crate::acls::masked(ip, bits) != ip)
}

fn inline_name(director: &str, index: usize) -> String {
    format!("{director}_{index}")
}
