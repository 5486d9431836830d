// SPDX-License-Identifier: BSD-2-Clause
//! dns directors: the backend is the address that the request's host name (and a suffix) has, if the director lists it. vmod
//! dynamic does that: its list is an acl here.

use super::R;
use super::names::Of;
use super::out::Out;
use super::walk::Walker;
use crate::token::Tok;

/// What the old compiler took for a port, and for how long an answer was good.
const PORT: &str = "\"80\"";
const TTL: &str = "60s";

/// Fields of `.list`, and the argument that each is now.
const FIELDS: [(&str, &str); 6] = [
    ("port", "port"),
    ("host_header", "host_header"),
    ("connect_timeout", "connect_timeout"),
    ("first_byte_timeout", "first_byte_timeout"),
    ("between_bytes_timeout", "between_bytes_timeout"),
    ("max_connections", "max_connections"),
];

/// What a dns director says.
#[derive(Default)]
struct Dns {
    /// Arguments of the object: name and value.
    args: Vec<(&'static str, String)>,
    /// Entries of the acl.
    list: Vec<String>,
}

impl Walker<'_> {
    /// The suffix of a director's names, as it is written.
    pub fn dns_suffix(&self, director: &str) -> Option<String> {
        let declared = *self.names.declared.get(&(Of::Backend, director.to_owned()))?;
        let open = (declared..self.items.len()).find(|at| self.tok_at(*at) == Tok::C(b'{'))?;
        let end = self.block_end(open);
        let name = (open..end).find(|at| self.tok_at(*at) == Tok::Id && self.text_at(*at) == "suffix")?;
        let value = self.after(self.after(name));
        (self.tok_at(value) == Tok::Str).then(|| self.text_at(value).to_owned())
    }

    /// The director whose `{` is at `open`.
    pub fn dns_director(&mut self, first: usize, now: &str, open: usize) -> R<Out> {
        let gap = self.gap_text();
        self.out.own(&gap);
        let kind_end = self.items[open.saturating_sub(1).max(first)].end;
        self.drop_until(open);
        let mut dns = Dns { args: vec![("port", PORT.to_owned()), ("ttl", TTL.to_owned())], list: Vec::new() };
        while !self.is_c(b'}') {
            if self.is_c(b'{') {
                return self.fail(
                    "A dns director's members are addresses of one port now: name them in its .list, as\n\
                     .list = { .port = \"80\"; \"192.0.2.0\"/24; }\n",
                );
            }
            self.dns_field(&mut dns)?;
        }
        self.drop_until(self.at);
        let why = "a director is an object; vmod dynamic looks the host up when it is set and again when the origin is asked, and takes in turn what \
                   the list has";
        let list: String = dns.list.iter().map(|entry| format!(" {entry};")).collect();
        let args: String = dns.args.iter().map(|(name, value)| format!("{name} = {value}, ")).collect();
        let new = format!("new {now} = dynamic.director({args}whitelist = {now}_list);");
        self.warn(first, open, &new, why);
        let (src, start, _) = self.place(first);
        let mut init = Out::default();
        if self.needs_backend(first) {
            init.instead(src, start, kind_end, &format!("backend {now}_none none;\n\n"));
        }
        init.instead(src, start, kind_end, &format!("acl {now}_list -pedantic {{{list} }}\n\n"));
        init.instead(src, start, kind_end, &format!("sub vcl_init {{\n    {new}\n}}\n"));
        Ok(init)
    }

    /// Whether all that the program declares are dns directors, and the one at `first` is the first of them.
    fn needs_backend(&self, first: usize) -> bool {
        let mut backends = self.names.declared.iter().filter(|((of, _), _)| *of == Of::Backend);
        backends.all(|((_, name), at)| self.directors.get(name).is_some_and(|kind| kind == "dns") && *at >= first)
    }

    /// `.ttl = 60s;` `.suffix = "..";` `.list = { ... }`
    fn dns_field(&mut self, dns: &mut Dns) -> R {
        let name = self.after(self.at);
        let equals = self.after(name);
        let value = self.after(equals);
        if !self.is_c(b'.') || self.tok_at(equals) != Tok::C(b'=') {
            return self.fail("Expected a field of a dns director: .list, .ttl or .suffix\n");
        }
        match (self.text_at(name), self.tok_at(value)) {
            ("suffix", Tok::Str) => self.field_value(value).map(drop),
            ("ttl", _) => {
                dns.args[1].1 = self.field_value(value)?;
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
            _ => self.fail_range("Unknown field of a dns director\n", self.at, name),
        }
    }

    /// What a field is set to, from `value` to before its `;`, which is passed.
    fn field_value(&mut self, value: usize) -> R<String> {
        let mut end = value;
        while !matches!(self.tok_at(end), Tok::C(b';' | b'}' | b'{') | Tok::End) {
            end = self.after(end);
        }
        if end == value {
            return self.fail_range("Expected a value\n", end, end);
        }
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            return self.expect(Tok::C(b';')).map(|()| String::new());
        }
        let text: String = (value..end).map(|at| self.text_at(at)).collect();
        self.drop_until(end);
        Ok(text)
    }

    /// A field of the list, or an address of it.
    fn dns_entry(&mut self, dns: &mut Dns) -> R {
        let first = self.at;
        if self.tok() == Tok::Str {
            let mut parts = self.word().trim_matches('"').split('.');
            let whole = parts.clone().count() == 4 && parts.all(|p| p.parse::<u8>().is_ok());
            if !whole {
                return self.fail("Expected an IPv4 address\n");
            }
            let entry = self.field_value(first)?;
            dns.list.push(entry);
            return Ok(());
        }
        let name = self.after(first);
        let value = self.after(self.after(name));
        if !self.is_c(b'.') {
            return self.fail("Expected an address, or a field of a dns director's list\n");
        }
        let field = self.text_at(name).to_owned();
        if field == "saintmode_threshold" {
            let end = self.after(value);
            let why =
                "vmod saintmode has an object for each backend that is declared, and these are made as they are found";
            self.warn(first, end, "", why);
            return self.field_value(value).map(drop);
        }
        let Some((_, arg)) = FIELDS.iter().find(|(known, _)| *known == field) else {
            return self.fail_range("Unknown field of a dns director's list\n", first, name);
        };
        let text = self.field_value(value)?;
        match dns.args.iter_mut().find(|(known, _)| known == arg) {
            Some((_, known)) => *known = text,
            None => dns.args.push((arg, text)),
        }
        Ok(())
    }
}
