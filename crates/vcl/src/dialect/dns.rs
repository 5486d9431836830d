// SPDX-License-Identifier: BSD-2-Clause
//! dns directors: the backend is the address of the request's host name (plus a suffix), if the director lists that
//! address. They are translated to vmod dynamic with the list as an acl.

use std::collections::BTreeSet;

use super::DialectResult;
use super::names::NameKind;
use super::out::Out;
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::token::Tok;

/// Defaults of the old compiler: the port, and the TTL of an answer.
const PORT: &str = "\"80\"";
const TTL: &str = "60s";

/// Fields of `.list`, and the corresponding arguments.
const FIELDS: [(&str, &str); 6] = [
    ("port", "port"),
    ("host_header", "host_header"),
    ("connect_timeout", "connect_timeout"),
    ("first_byte_timeout", "first_byte_timeout"),
    ("between_bytes_timeout", "between_bytes_timeout"),
    ("max_connections", "max_connections"),
];

#[derive(Default)]
struct Dns {
    /// Arguments of the object: name and value.
    args: Vec<(&'static str, String)>,
    /// Entries of the acl that replaces `.list`.
    list: Vec<String>,
    /// The members' values of the connection fields, which must be equal in all of them.
    members: Option<Vec<Option<String>>>,
}

impl Dns {
    fn set(&mut self, arg: &'static str, text: String) {
        match self.args.iter_mut().find(|(known, _)| *known == arg) {
            Some((_, known)) => *known = text,
            None => self.args.push((arg, text)),
        }
    }
}

impl Walker<'_> {
    /// The suffix of a director's host names, as written.
    pub fn dns_suffix(&self, director: &str) -> Option<String> {
        let declared = *self.names.declared.get(&(NameKind::Backend, director.to_owned()))?;
        let open = (declared..self.items.len()).find(|at| self.tok_at(*at) == Tok::C(b'{'))?;
        let end = self.block_end(open);
        let name = (open..end).find(|at| self.tok_at(*at) == Tok::Id && self.text_at(*at) == "suffix")?;
        let value = self.after(self.after(name));
        (self.tok_at(value) == Tok::Str).then(|| self.text_at(value).to_owned())
    }

    pub fn dns_director(&mut self, first: usize, now: &str, open: usize) -> DialectResult<Out> {
        let gap = self.gap_text();
        self.out.own(&gap);
        let kind_end = self.items[open.saturating_sub(1).max(first)].end;
        self.drop_until(open);
        let mut dns = Dns { args: vec![("port", PORT.to_owned()), ("ttl", TTL.to_owned())], ..Dns::default() };
        while !self.is_c(b'}') {
            if self.is_c(b'{') {
                self.dns_member(&mut dns)?;
                continue;
            }
            self.dns_field(&mut dns)?;
        }
        self.drop_until(self.at);
        let reason = "a director is an object; vmod dynamic looks the host up when it is set and again when the origin is asked, and takes in turn what \
                   the list has";
        let list: String = dns.list.iter().map(|entry| format!(" {entry};")).collect();
        let args: String = dns.args.iter().map(|(name, value)| format!("{name} = {value}, ")).collect();
        let new = format!("new {now} = dynamic.director({args}whitelist = {now}_list);");
        self.warn(first, open, &new, reason);
        let (src, start, _) = self.place(first);
        let mut init = Out::default();
        if self.needs_backend(first) {
            init.instead(src, start, kind_end, &format!("backend {now}_none none;\n\n"));
        }
        init.instead(src, start, kind_end, &format!("acl {now}_list -pedantic {{{list} }}\n\n"));
        init.instead(src, start, kind_end, &format!("sub vcl_init {{\n    {new}\n}}\n"));
        Ok(init)
    }

    /// True if the program declares only dns directors and the one at `first` is the first of them.
    fn needs_backend(&self, first: usize) -> bool {
        let mut backends = self.names.declared.iter().filter(|((of, _), _)| *of == NameKind::Backend);
        backends.all(|((_, name), at)| self.directors.get(name).is_some_and(|kind| kind == "dns") && *at >= first)
    }

    /// Translates `{ .backend = NAME; }` or `{ .backend = { ... } }` to an address of the list.
    fn dns_member(&mut self, dns: &mut Dns) -> DialectResult {
        let open = self.at;
        let end = self.block_end(open);
        let point = self.after(open);
        let field = self.after(point);
        let value = self.after(self.after(field));
        if self.tok_at(point) != Tok::C(b'.') || self.text_at(field) != "backend" {
            return self.fail_range(
                DiagnosticCode::Field,
                "Expected .backend of a dns director's member\n",
                open,
                field,
            );
        }
        let declared = self.names.declared.get(&(NameKind::Backend, self.text_at(value).to_owned())).copied();
        let body = match (self.tok_at(value), declared) {
            (Tok::C(b'{'), _) => value,
            (Tok::Id, Some(at)) if self.tok_at(self.after(at)) == Tok::C(b'{') => self.after(at),
            _ => return self.fail_range(DiagnosticCode::Undeclared, "Reference to an unknown backend\n", value, value),
        };
        let Some(host) = self.backend_field(body, "host") else {
            return self.fail_range(DiagnosticCode::Field, "A member of a dns director has no .host\n", open, end);
        };
        let mine: Vec<Option<String>> = FIELDS.iter().map(|(field, _)| self.backend_field(body, field)).collect();
        if dns.members.as_ref().is_some_and(|others| *others != mine) {
            let reason =
                "A dns director's members are addresses of one port now, with the same timeouts: this one differs.\n";
            return self.fail_range(DiagnosticCode::Field, reason, open, end);
        }
        for ((_, arg), text) in FIELDS.iter().zip(&mine) {
            if let Some(text) = text {
                dns.set(arg, text.clone());
            }
        }
        dns.members = Some(mine);
        dns.list.push(host);
        self.drop_until(end);
        Ok(())
    }

    fn backend_field(&self, open: usize, name: &str) -> Option<String> {
        let end = self.block_end(open);
        let mut at = self.after(open);
        while at < end {
            let field = self.after(at);
            let value = self.after(self.after(field));
            if self.tok_at(at) == Tok::C(b'{') {
                at = self.block_end(at);
            } else if self.tok_at(at) == Tok::C(b'.') && self.text_at(field) == name {
                let words = (value..end).take_while(|at| self.tok_at(*at) != Tok::C(b';'));
                return Some(words.map(|at| self.text_at(at)).collect());
            }
            at = self.after(at);
        }
        None
    }

    /// Finds the backends that only dns directors use. They are replaced by their addresses.
    pub fn find_dns_members(&mut self) {
        let declared = |w: &Self, dns: bool| -> Vec<(String, usize)> {
            let backends = w.names.declared.iter().filter(|((of, _), _)| *of == NameKind::Backend);
            let is_dns = |name: &str| w.directors.get(name).is_some_and(|kind| kind == "dns");
            backends.filter(|((_, name), _)| is_dns(name) == dns).map(|((_, name), at)| (name.clone(), *at)).collect()
        };
        let open = |w: &Self, at: usize| (at..w.items.len()).find(|at| w.tok_at(*at) == Tok::C(b'{')).unwrap_or(at);
        let blocks: Vec<(usize, usize)> =
            declared(self, true).iter().map(|(_, at)| (open(self, *at), self.block_end(open(self, *at)))).collect();
        let inside = |at: usize| blocks.iter().any(|(from, to)| (*from..*to).contains(&at));
        let (mut members, mut others) = (BTreeSet::new(), BTreeSet::new());
        for at in 0..self.items.len().saturating_sub(1) {
            let next = self.after(at);
            if self.tok_at(next) == Tok::Id && self.tok_at(at) != Tok::C(b'.') && self.text_at(at) != "backend" {
                let all = if inside(next) { &mut members } else { &mut others };
                all.insert(self.text_at(next).to_owned());
            }
        }
        let first =
            self.names.declared.iter().filter(|((of, _), _)| *of == NameKind::Backend).min_by_key(|(_, at)| **at);
        let first = first.map(|((_, name), _)| name.clone());
        let plain = declared(self, false).into_iter().map(|(name, _)| name);
        let left =
            plain.filter(|name| members.contains(name) && !others.contains(name) && !self.directors.contains_key(name));
        self.dns_members = left.filter(|name| name != "default" && Some(name) != first.as_ref()).collect();
    }

    fn dns_field(&mut self, dns: &mut Dns) -> DialectResult {
        let name = self.after(self.at);
        let equals = self.after(name);
        let value = self.after(equals);
        if !self.is_c(b'.') || self.tok_at(equals) != Tok::C(b'=') {
            return self.fail(DiagnosticCode::Field, "Expected a field of a dns director: .list, .ttl or .suffix\n");
        }
        match (self.text_at(name), self.tok_at(value)) {
            ("suffix", Tok::Str) => self.field_value(value).map(drop),
            ("ttl", _) => {
                let ttl = self.field_value(value)?;
                // vmod dynamic has no TTL of zero.
                let is_zero = ttl.trim_end_matches(|c: char| c.is_ascii_alphabetic()).parse() == Ok(0.0);
                dns.args[1].1 = if is_zero { "1ms".to_owned() } else { ttl };
                Ok(())
            }
            ("list", Tok::C(b'{')) => {
                self.drop_until(value);
                while !self.is_c(b'}') {
                    self.dns_entry(dns)?;
                }
                self.drop_until(self.at);
                Ok(())
            }
            _ => self.fail_range(DiagnosticCode::Field, "Unknown field of a dns director\n", self.at, name),
        }
    }

    /// The value of a field, from `value` to before its `;`. Moves past the `;`.
    fn field_value(&mut self, value: usize) -> DialectResult<String> {
        let mut end = value;
        while !matches!(self.tok_at(end), Tok::C(b';' | b'}' | b'{') | Tok::End) {
            end = self.after(end);
        }
        if end == value {
            return self.fail_range(DiagnosticCode::Field, "Expected a value\n", end, end);
        }
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            return self.expect(Tok::C(b';')).map(|()| String::new());
        }
        let text: String = (value..end).map(|at| self.text_at(at)).collect();
        self.drop_until(end);
        Ok(text)
    }

    fn dns_entry(&mut self, dns: &mut Dns) -> DialectResult {
        let first = self.at;
        if self.tok() == Tok::Str {
            let mut parts = self.word().trim_matches('"').split('.');
            let whole = parts.clone().count() == 4 && parts.all(|p| p.parse::<u8>().is_ok());
            if !whole {
                return self.fail(DiagnosticCode::Address, "Expected an IPv4 address\n");
            }
            let entry = self.field_value(first)?;
            dns.list.push(entry);
            return Ok(());
        }
        let name = self.after(first);
        let value = self.after(self.after(name));
        if !self.is_c(b'.') {
            return self.fail(DiagnosticCode::Address, "Expected an address, or a field of a dns director's list\n");
        }
        let field = self.text_at(name).to_owned();
        if field == "saintmode_threshold" {
            let end = self.after(value);
            let reason =
                "vmod saintmode has an object for each backend that is declared, and these are made as they are found";
            self.warn(first, end, "", reason);
            return self.field_value(value).map(drop);
        }
        let Some((_, arg)) = FIELDS.iter().find(|(known, _)| *known == field) else {
            return self.fail_range(DiagnosticCode::Field, "Unknown field of a dns director's list\n", first, name);
        };
        let text = self.field_value(value)?;
        dns.set(arg, text);
        Ok(())
    }
}
