// SPDX-License-Identifier: BSD-2-Clause
//! Hints for fixing an error. They are lines of their own after the message, because scripts and test programs depend
//! on the messages' text.

mod syntax;

use base::spelling::nearest;
use tables::vclsubs::{Method, Return};
use tables::vclvars::Type;
use tables::vmods::{self, VmodArg};

use crate::check::WrongUse;
use crate::diag::{Fix, Hint, Span, line_and_pos, origin};
use crate::outline::{self, Outline};
use crate::symbols::{Symbol, SymbolKind, SymbolMeaning, Ty};
use crate::token::{Tok, Token};
use crate::vcc::{SubState, SymbolAccess, Vcc};

pub(crate) use syntax::{dot, sign};

/// Words of older releases, and their current equivalents.
const OLD_WORDS: [(&str, &str); 33] = [
    ("ban_url", "ban(\"req.url ~ \" + req.url)"),
    ("bereq.request", "bereq.method"),
    ("beresp.cacheable", "beresp.ttl > 0s"),
    ("beresp.response", "beresp.reason"),
    ("beresp.saintmode", "saintmode, a module"),
    ("beresp.storage_hint", "beresp.storage = storage.NAME"),
    ("client.port", "std.port(client.ip), after `import std;`"),
    ("deliver", "return (deliver)"),
    ("error", "return (synth(404, \"Not Found\"))"),
    ("esi", "set beresp.do_esi = true"),
    ("fetch", "return (fetch)"),
    ("hash", "return (hash)"),
    ("log", "std.log(\"...\"), after `import std;`"),
    ("lookup", "return (hash)"),
    ("obj.cacheable", "beresp.ttl > 0s"),
    ("obj.response", "resp.reason in vcl_synth, beresp.reason in vcl_backend_error"),
    ("panic", "return (fail)"),
    ("pass", "return (pass)"),
    ("pipe", "return (pipe)"),
    ("purge", "return (purge) in vcl_recv"),
    ("purge_url", "ban(\"req.url ~ \" + req.url)"),
    ("remove", "unset"),
    ("req.backend", "req.backend_hint"),
    ("req.backend.healthy", "std.healthy(req.backend_hint), after `import std;`"),
    ("req.esi", "resp.do_esi in vcl_deliver"),
    ("req.hash", "hash_data(...) in vcl_hash"),
    ("req.request", "req.method"),
    ("req_top.request", "req_top.method"),
    ("restart", "return (restart)"),
    ("retry", "return (retry)"),
    ("rollback", "std.rollback(req), after `import std;`"),
    ("server.port", "std.port(server.ip), after `import std;`"),
    ("synth", "return (synth(200, \"OK\"))"),
];

/// Subroutines of other releases, the equivalent subroutine if there is one, and the hint.
const OTHER_SUBS: [(&str, &str, &str); 3] = [
    ("vcl_fetch", "vcl_backend_response", "It is called vcl_backend_response since 4.0."),
    ("vcl_error", "", "Since 4.0 it is vcl_synth for answers of our own, and vcl_backend_error for failed fetches."),
    ("vcl_response", "vcl_backend_response", "It is called vcl_backend_response."),
];

const SUBS_OF_4: [&str; 5] =
    ["vcl_backend_error", "vcl_backend_fetch", "vcl_backend_response", "vcl_purge", "vcl_synth"];

pub(crate) const DECLARED: [&str; 7] = ["sub", "acl", "backend", "probe", "import", "vcl", "director"];

pub(crate) const ELSE_WORDS: [&str; 4] = ["else", "elsif", "elseif", "elif"];

/// Maximum number of listed names that begin alike.
const MAX_KIN: usize = 12;

impl Vcc<'_> {
    fn hint_meant(&mut self, text: impl Into<String>, near: &str, first: usize, last: usize) {
        let fix = self.rename(near, first, last);
        self.hint(Hint::with(text, fix));
    }

    fn rename(&self, new: &str, first: usize, last: usize) -> Option<Fix<Span>> {
        let tokens = self.tokens.get(first..=last)?;
        let is_one =
            tokens.iter().all(|token| matches!(token.tok, Tok::Id | Tok::C(b'.')) && token.src == tokens[0].src);
        let (src, start, _) = tokens[0].span();
        let last = tokens.last()?;
        (is_one && is_dotted(new)).then(|| Fix::replace((src, start, last.end), new))
    }

    /// Adds a missing import to the file of token `at`, which uses it: after the imports before it, else after the version.
    pub fn import_fix(&self, module: &str, at: usize) -> Option<Fix<Span>> {
        let (src, at) = (self.tokens[at].src, self.tokens[at].start as usize);
        let text = &self.sources[src as usize].text;
        let outline = Outline::parse(text);
        let is_import = |d: &&outline::Declaration| d.kind == outline::DeclarationKind::Import && d.whole.end <= at;
        let imports = outline.declarations.iter().filter(is_import).map(|d| d.whole.end);
        let end_of = |from: usize| text[from..].iter().position(|c| *c == b';').map(|n| from + n + 1);
        let version = || {
            let names = outline.names(text);
            let name = names.first().filter(|name| &text[name.at.clone()] == b"vcl")?;
            end_of(name.at.end).filter(|end| *end <= at)
        };
        let (to, new) = match imports.max().or_else(version) {
            None => (0, format!("import {module};\n")),
            Some(end) => {
                let rest = text[end..].iter().position(|c| *c == b'\n').map(|n| &text[end..end + n]);
                let is_rest_empty = |rest: &[u8]| {
                    let rest = rest.trim_ascii();
                    rest.is_empty() || rest.starts_with(b"#") || rest.starts_with(b"//")
                };
                match rest.filter(|rest| is_rest_empty(rest)) {
                    Some(rest) => (end + rest.len() + 1, format!("import {module};\n")),
                    None => (end, format!(" import {module};")),
                }
            }
        };
        let to = u32::try_from(to).ok()?;
        Some(Fix::one(format!("Insert `import {module};`"), (src, to, to), new))
    }

    /// Quotes a word or a number that was meant as a text, unless more than the token belongs to it.
    fn quote_fix(&self, at: usize) -> Option<Fix<Span>> {
        let token = self.tokens.get(at)?;
        let after = self.sources[token.src as usize].text.get(token.end as usize);
        let is_all = after.is_none_or(|c| !matches!(c, b'.' | b'-' | b'_') && !c.is_ascii_alphanumeric());
        let is_word = matches!(token.tok, Tok::Id | Tok::Int | Tok::Real) && is_all;
        is_word.then(|| Fix::one("Put it in quotes", token.span(), format!("\"{}\"", self.text_of(token))))
    }

    /// Adds the unit to a number that was meant as seconds.
    fn seconds_fix(&self, token: &Token) -> Option<Fix<Span>> {
        let text = self.text_of(token);
        let is_number = matches!(token.tok, Tok::Int | Tok::Real);
        is_number.then(|| Fix::one(format!("Write {text}s"), token.span(), format!("{text}s")))
    }

    fn line_and_pos_of(&self, token: &Token) -> (u32, u32) {
        let token = origin(&self.sources, token);
        line_and_pos(&self.sources[token.src as usize].text, token.start as usize)
    }

    fn line_of(&self, token: &Token) -> u32 {
        self.line_and_pos_of(token).0
    }

    /// Corrects a word after the block of an `if` that is similar to one of those that may follow.
    pub fn hint_misspelt_else(&mut self, written: &str) {
        if let Some(near) = nearest(written, ELSE_WORDS.into_iter()) {
            let form = if near == "else" { "else { ... }, or else if (...) { ... }" } else { "else if (...) { ... }" };
            let at = self.at - 1;
            self.hint_meant(format!("Is {near} meant? It is written {form}."), near, at, at);
        }
    }

    pub fn hint_undefined(&mut self, name: &str, kind: SymbolKind, at: usize) {
        let declared = self.syms.all.iter().filter(|sym| sym.kind == kind && sym.defs > 0).map(|sym| sym.name.as_str());
        let default = (kind == SymbolKind::Backend && !self.program.backends.is_empty()).then_some("default");
        if let Some(near) = nearest(name, declared.chain(default)) {
            let near = near.to_owned();
            return self.hint_meant(format!("Is {near} meant?"), &near, at, at);
        }
        let body = match kind {
            SymbolKind::Acl => "{ \"127.0.0.1\"; }",
            SymbolKind::Backend => "{ .host = \"127.0.0.1\"; }",
            _ => "{ ... }",
        };
        self.hint(format!("Declare it, outside of subroutines: {} {name} {body}", kind.name()));
    }

    pub fn hint_unused(&mut self, name: &str, kind: SymbolKind) {
        let undeclared = |sym: &&Symbol| sym.kind == kind && sym.defs == 0 && sym.refs > 0;
        let names = self.syms.all.iter().filter(undeclared).map(|sym| sym.name.as_str());
        match nearest(name, names).map(str::to_owned) {
            Some(near) => self.hint(format!("{near} is used and never declared: is one name meant?")),
            None => self.hint(crate::UNUSED),
        }
    }

    pub fn hint_field(&mut self, name: &str, known: &[&str]) {
        match nearest(name, known.iter().copied()) {
            Some(near) => self.hint_meant(format!("Is .{near} meant?"), near, self.at - 2, self.at - 2),
            None => self.hint(format!("There are .{}.", known.join(", ."))),
        }
    }

    pub fn hint_pattern(&mut self, pattern: &[u8]) {
        self.hint(match pattern.first() {
            Some(b'*' | b'+' | b'?') => {
                "A pattern isn't a wildcard: any characters are .*, and those that mean themselves are escaped: \\* \\? \\."
            }
            _ => "Characters that mean themselves are escaped: \\. \\? \\( \\) \\[ \\* \\+",
        });
    }

    pub fn hint_outside(&mut self) {
        let (token, at) = (self.token(), self.at);
        let word = self.text_of(&token);
        let is_statement =
            self.syms.find(&word, SymbolKind::Action, 41, 40, 41).is_some() || word == "else" || word == "elsif";
        let hint = match token.tok {
            Tok::C(b'}') => {
                format!("There is one '}}' too many, or a '{{' is missing before it.{}", self.ended_before()).into()
            }
            Tok::C(b';') => Hint::with("No ';' follows a '}'.", Fix::delete(token.span(), ";")),
            Tok::Id if word == "director" => {
                "Since 4.0 directors are objects: `import directors;`, and `new d = directors.round_robin();` in vcl_init.".into()
            }
            Tok::Id if is_statement => {
                let ended = self.ended_before();
                format!("'{word}' stands inside a subroutine: sub vcl_recv {{ ... }}. Is there one '}}' too many before it?{ended}").into()
            }
            Tok::Id => match nearest(&word, ["acl", "sub", "backend", "probe", "import", "include"].into_iter()) {
                Some(near) => Hint::with(format!("Is '{near}' meant?"), self.rename(near, at, at)),
                None => return,
            },
            _ => return,
        };
        self.hint(hint);
    }

    /// The end of the subroutine before the current token: ` vcl_recv ended in line 7.`
    fn ended_before(&self) -> String {
        let before = &self.tokens[..self.at];
        let (Some(end), Some(sub)) = (before.last(), before.iter().rposition(|t| self.is_word(t, "sub"))) else {
            return String::new();
        };
        let name = self.text_of(&self.tokens[sub + 1]);
        if end.tok != Tok::C(b'}') || end.src != self.tokens[sub].src {
            return String::new();
        }
        format!(" {name} ended in line {}.", self.line_of(end))
    }

    pub fn hint_name(&mut self, written: &str, kind: SymbolKind, first: usize, last: usize) {
        let lower = written.to_ascii_lowercase();
        if let Some((_, now)) = OLD_WORDS.iter().find(|(old, _)| *old == lower) {
            let text = format!("Since 4.0 that is said by {now}.{}", self.or_is_old());
            let whole = self.tokens[first].span();
            let is_ended = first == last && self.tokens.get(last + 1).is_some_and(|token| token.tok == Tok::C(b';'));
            let is_statement = now.starts_with("return (") && !now.contains('"') && is_ended;
            let fix = if is_statement { Some(Fix::replace(whole, now)) } else { self.rename(now, first, last) };
            return self.hint(Hint::with(text, fix));
        }
        if kind == SymbolKind::Vcl {
            return self.hint("Labels are made by the CLI command vcl.label.");
        }
        let (module, rest) = lower.split_once('.').unwrap_or((&lower, ""));
        let imported = self.syms.find(module, SymbolKind::Vmod, 41, 40, 41).is_some();
        if let Some(import) = self.program.imports.iter().find(|i| i.name == module)
            && self.hint_left_out(&format!("{}.{rest}", import.module))
        {
            return;
        }
        if !imported && !rest.is_empty() {
            if let Some(other) = self.import_of(module) {
                return self.hint(format!("That module is imported as {other}."));
            }
            if self.options.modules.find(module).is_some() {
                let fix = self.import_fix(module, first);
                return self.hint(Hint::with(format!("`import {module};` is missing."), fix));
            }
        }
        if lower == "var" && rest.is_empty() {
            return self.hint("Variables of one's own are those of the module var: `import var;`, var.set(\"x\", \"1\"), var.get(\"x\").");
        }
        // In a name like `req.http.X`, only the part before the header's name can be wrong.
        if let Some((head, field)) = written.rsplit_once('.')
            && let Some(near) = nearest(
                &head.to_ascii_lowercase(),
                ["req.http", "bereq.http", "beresp.http", "obj.http", "resp.http"].into_iter(),
            )
            && head.matches('.').count() == 1
        {
            let near = format!("{near}.{field}");
            return self.hint_meant(format!("Is {near} meant?"), &near, first, last);
        }
        if rest.is_empty() && kind == SymbolKind::Var {
            return self.hint(format!("A request's field is req.http.{written}; VCL has no other variables of one's own but those of the module var."));
        }
        let syntax = self.syntax;
        let here = |sym: &&Symbol| {
            let known =
                !matches!(sym.what, SymbolMeaning::Nothing | SymbolMeaning::Fields(_) | SymbolMeaning::Global(None));
            known && sym.versions.0 <= syntax && sym.versions.1 >= syntax
        };
        let names: Vec<String> = self.syms.all.iter().filter(here).map(|sym| sym.full.clone()).collect();
        if let Some(near) = nearest(&lower, names.iter().map(String::as_str)) {
            return self.hint_meant(format!("Is {near} meant?"), near, first, last);
        }
        let mut kin: Vec<&str> =
            names.iter().map(String::as_str).filter(|n| n.split_once('.').is_some_and(|(a, _)| a == module)).collect();
        kin.sort_unstable();
        kin.dedup();
        if !kin.is_empty() && !rest.is_empty() && kin.len() <= MAX_KIN {
            let list = kin.join(", ");
            self.hint(format!("There are {list}."));
        } else if ["req", "bereq", "beresp", "resp"].contains(&module) && kind != SymbolKind::Func {
            let field = written.rsplit('.').next().unwrap_or_default();
            self.hint(format!("A field is {module}.http.{field}."));
        }
    }

    fn import_of(&self, module: &str) -> Option<String> {
        self.program.imports.iter().find(|i| i.module == module && i.name != module).map(|i| i.name.clone())
    }

    /// Explains a function or method, given by its full name, that the original module has and ours doesn't. Returns
    /// whether it is one.
    pub fn hint_left_out(&mut self, name: &str) -> bool {
        let Some(vmods::LeftOut(_, instead)) = self.options.modules.left_out(name) else { return false };
        self.hint(format!("That isn't built into Lacquer. Instead: {instead}."));
        true
    }

    pub fn hint_module(&mut self, name: &str, at: usize) {
        if vmods::Missing::find(name).is_some() {
            return;
        }
        if let Some(near) = nearest(name, self.options.modules.iter().map(|module| module.name)) {
            self.hint_meant(format!("Is {near} meant?"), near, at, at);
        }
    }

    pub fn hint_types(&mut self, found: Ty, wanted: Type, first: usize) {
        let text = self.text_of(&self.tokens[first]);
        let hint = match (found, wanted) {
            (Ty::T(Type::Int | Type::Real), Type::Duration) => {
                let fix = self.seconds_fix(&self.tokens[first]);
                return self.hint(Hint::with(format!("A duration has a unit: {text}s"), fix));
            }
            (Ty::T(Type::Strings), Type::Duration) if self.tokens[first].tok == Tok::Str => {
                "A duration has no quotes: 120s".to_owned()
            }
            (Ty::T(Type::Strings), Type::Duration) => "std.duration(TEXT, 0s) makes a duration of a text.".to_owned(),
            (Ty::T(Type::Strings), Type::Int) if self.tokens[first].tok == Tok::Str => {
                "A number has no quotes.".to_owned()
            }
            (Ty::T(Type::Strings), Type::Int) => "std.integer(TEXT, 0) makes a number of a text.".to_owned(),
            (Ty::T(Type::Strings), Type::Real) => "std.real(TEXT, 0.0) makes a number of a text.".to_owned(),
            (Ty::T(Type::Strings), Type::Ip) => "std.ip(TEXT, client.ip) makes an address of a text.".to_owned(),
            (Ty::T(Type::Strings), Type::Acl) => "A network is declared: acl name { \"10.0.0.0\"/8; }".to_owned(),
            (Ty::T(Type::Strings), Type::Regex) => {
                "A pattern is a text in quotes; re2.match() takes one that is made while running.".to_owned()
            }
            (Ty::T(Type::Strings), Type::Header) => "A field is named without quotes: req.http.Cookie".to_owned(),
            (Ty::T(Type::Strings), Type::Backend) => "A backend is named without quotes.".to_owned(),
            (Ty::T(Type::Acl), Type::Regex) => "Addresses are matched: std.ip(TEXT, client.ip) ~ ACL".to_owned(),
            (Ty::Object(_, object), Type::Backend) if object.method("backend").is_some() => {
                format!("Its method gives one: {text}.backend()")
            }
            _ => return,
        };
        self.hint(hint);
    }

    pub fn hint_no_value(&mut self, wanted: Type) {
        let before = self.tokens[self.at.saturating_sub(1)];
        if !matches!(self.tok(), Tok::C(b';' | b')' | b'}' | b',') | Tok::End) {
            return;
        }
        let example = match wanted {
            Type::Duration => "120s",
            Type::Int => "404",
            Type::Real => "0.5",
            Type::Bool => "true",
            Type::Bytes => "1MB",
            Type::String | Type::Strands | Type::Strings | Type::Body => "\"text\"",
            _ => return,
        };
        let after = self.token_name(&before);
        let empty = if example.starts_with('"') { ", an empty one \"\"" } else { "" };
        self.hint(format!("A value is missing after {after}: for example {example}{empty}."));
    }

    pub fn hint_compared(&mut self, left: Ty, right: Ty, first: usize) {
        if let Ty::T(wanted) = left {
            let wanted = if wanted == Type::Strings { Type::String } else { wanted };
            self.hint_types(right, wanted, first);
            if right == Type::Int && wanted == Type::String {
                let text = self.text_of(&self.tokens[first]);
                let fix = self.quote_fix(first);
                self.hint(Hint::with(format!("A text stands in quotes: \"{text}\""), fix));
            }
        }
    }

    /// Lists the subroutines in which a misused variable or action is allowed.
    pub fn hint_places(&mut self, u: &WrongUse) {
        let set = u.places;
        let what = match u.access {
            SymbolAccess::Read => "It can be read in",
            SymbolAccess::Write => "It can be set in",
            SymbolAccess::Unset => "It can be unset in",
            SymbolAccess::Action => "It is for",
            SymbolAccess::Call => "It works in",
        };
        let delivers =
            |p: &SubState| p.method == Some(Method::Deliver) && p.uses.iter().any(|other| other.first == u.first);
        if let Some(field) = u.name.strip_prefix("obj.http.")
            && self.procs.iter().any(delivers)
        {
            return self.hint(format!("In vcl_deliver the object's fields are the response's: resp.http.{field}"));
        }
        if set.is_empty() {
            return;
        }
        // Few programs have that subroutine: it is listed only for those, or if it is the only one.
        let refresh = Method::BackendRefresh;
        let is_odd = set != refresh.set() && !self.is_builtin_sub(refresh.sub_name());
        let names: Vec<&str> = set.iter().filter(|m| *m != refresh || !is_odd).map(Method::sub_name).collect();
        let names = names.join(", ");
        self.hint(format!("{what} {names}."));
    }

    pub fn hint_return(&mut self, word: &str, method: Option<Method>, at: usize) {
        let now = match word {
            "lookup" if method == Some(Method::Recv) => Some("hash"),
            "error" => Some("synth"),
            _ => None,
        };
        if let Some(now) = now {
            return self.hint_meant(format!("It is called {now} since 4.0."), now, at, at);
        }
        let old = match word {
            "hit_for_pass" => Some("Since 4.0: set beresp.uncacheable = true; return (deliver);"),
            "deliver" if method == Some(Method::Recv) => Some("An answer of our own is return (synth(200, \"OK\"))."),
            "restart" if method.is_some_and(|m| tables::vclsubs::Methods::BACKEND.has(m)) => {
                Some("A fetch is tried again by return (retry), in vcl_backend_response and vcl_backend_error.")
            }
            _ => None,
        };
        if let Some(old) = old {
            return self.hint(old);
        }
        let legal: Vec<&str> = match method {
            Some(method) => method.returns().iter().map(|r| r.name()).collect(),
            None => Return::ALL.iter().map(|r| r.name()).collect(),
        };
        match nearest(word, legal.iter().copied()) {
            Some(near) => self.hint_meant(format!("Is {near} meant?"), near, at, at),
            None => self.hint(format!("Legal here: {}.", legal.join(", "))),
        }
    }

    pub fn hint_sub(&mut self, name: &str, at: usize) {
        if let Some((_, now, reason)) = OTHER_SUBS.iter().find(|(other, ..)| *other == name) {
            let text = format!("{reason}{}", self.or_is_old());
            return self.hint_meant(text, now, at, at);
        }
        let near = nearest(name, self.builtin_subs.iter().map(String::as_str)).map(str::to_owned);
        if let Some(near) = near {
            self.hint_meant(format!("Is {near} meant?"), &near, at, at);
        }
    }

    /// The alternative for a file in which only the version is of 4.0.
    fn or_is_old(&self) -> &'static str {
        let is_own = |token: &Token| self.sources[token.src as usize].kind != "builtin";
        let pairs = self.tokens.windows(2).filter(|pair| self.is_word(&pair[0], "sub") && is_own(&pair[0]));
        let subs: Vec<String> = pairs.map(|pair| self.text_of(&pair[1]).to_ascii_lowercase()).collect();
        let has = |names: &[&str]| subs.iter().any(|sub| names.contains(&sub.as_str()));
        if self.syntax == 40 && has(&["vcl_fetch", "vcl_error"]) && !has(&SUBS_OF_4) {
            " Or the file is of 3.0 or 2.x, and its first line isn't: without `vcl 4.0;` it is compiled as what it is."
        } else {
            ""
        }
    }

    pub fn hint_call(&mut self, name: &str, params: &[VmodArg]) {
        let one = |arg: &VmodArg| {
            let name = if arg.name.is_empty() { String::new() } else { format!(" {}", arg.name) };
            let text = format!("{}{name}", arg.ty.name());
            if arg.may_be_left_out() { format!("[{text}]") } else { text }
        };
        let list: Vec<String> = params.iter().map(one).collect();
        self.hint(format!("It takes {name}({}).", list.join(", ")));
    }
}

/// True for a name, with or without dots.
fn is_dotted(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|c| c.is_ascii_alphanumeric() || matches!(c, b'.' | b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_words_are_in_order() {
        assert!(OLD_WORDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
