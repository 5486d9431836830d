// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are selected when the origin is asked, as all were before 4.0: by directors with a key (client, hash,
//! dns), and by saint mode, which excludes backends for single objects. vmod saintmode does that with objects in front
//! of backends; a pass uses plain backends, as before. A header of the request names its backend or director.

use std::collections::BTreeSet;

use super::DialectResult;
use super::ctx::{DialectCtx, TranslationOutcome};
use super::names::NameKind;
use super::policy::BACKEND;
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::token::Tok;

const THRESHOLD: &str = "10";

#[derive(Debug)]
pub(crate) enum Saint {
    Backend { name: String, threshold: String },
    Director { name: String, class: &'static str, members: Vec<(String, Option<String>)> },
}

impl Walker<'_> {
    /// Translates `.saintmode_threshold = N;` of the current backend; the field is at `first`.
    pub fn threshold(&mut self, first: usize) -> DialectResult {
        let value = self.after(self.after(self.after(first)));
        let end = self.after(value);
        if self.tok_at(value) != Tok::Int || self.tok_at(end) != Tok::C(b';') {
            return self.fail_range(DiagnosticCode::Field, "Expected a number and a semicolon\n", value, end);
        }
        let number = self.text_at(value).to_owned();
        let (new, reason) = match self.saints.last_mut() {
            Some(Saint::Backend { name, threshold }) if self.policy.saint => {
                threshold.clone_from(&number);
                let new = format!("saintmode.saintmode({name}, {number})");
                (new, "saint mode is a module's now: its object has the threshold")
            }
            _ => (String::new(), "nothing sets beresp.saintmode"),
        };
        self.note(first, end, &new, reason);
        self.drop_until(end);
        Ok(())
    }

    pub fn saint_backend(&mut self, name: &str) {
        self.saints.push(Saint::Backend { name: name.to_owned(), threshold: THRESHOLD.to_owned() });
    }

    pub fn saintmode(&mut self, first: usize, equals: usize, end: usize) -> DialectResult<TranslationOutcome> {
        let reason = "saint mode is a module's now: each backend has an object of it, which vcl_backend_fetch chooses unless it passes; \
                   .saintmode_threshold, or 10, is how many objects make it sick for all";
        self.note(first, end, "if (!bereq.uncacheable) { saintmode.blacklist(...); }", reason);
        self.put_until(equals, "if (!bereq.uncacheable) { saintmode.blacklist(");
        self.tight = true;
        self.string()?;
        self.expect(Tok::C(b';'))?;
        self.insert(")");
        self.keep();
        self.insert(" }");
        Ok(TranslationOutcome::Yes)
    }

    pub fn find_late(&mut self) {
        self.policy.late = self.policy.saint || self.directors.keys().any(|name| self.has_key(name));
    }

    /// True if a header must record the selected backend: VCL selects one, or compares it.
    pub fn marks_late(&self) -> bool {
        self.policy.late && (self.policy.chooses || (self.policy.saint && self.asks_backend()))
    }

    fn asks_backend(&self) -> bool {
        (0..self.items.len()).any(|at| self.compared_backend(at).is_some())
    }

    fn saint_of(&self, name: &str) -> String {
        let mut saint = format!("{name}_saint");
        let taken = |saint: &str| self.names.declared.keys().any(|(_, name)| name.eq_ignore_ascii_case(saint));
        while taken(&saint) {
            saint.push('_');
        }
        saint
    }

    /// The vcl_init that creates saint mode's objects. It precedes the user's subroutines because their vcl_init may
    /// return.
    pub fn saint_init(&self) -> String {
        if !self.policy.saint || self.saints.is_empty() {
            return String::new();
        }
        let mut out =
            "# Saint mode: a backend is left out for an object that vcl_fetch put on its list.\nsub vcl_init {\n"
                .to_owned();
        for saint in &self.saints {
            match saint {
                Saint::Backend { name, threshold } => {
                    let object = self.saint_of(name);
                    out.push_str(&format!("    new {object} = saintmode.saintmode({name}, {threshold});\n"));
                }
                Saint::Director { .. } => {}
            }
        }
        for saint in &self.saints {
            let Saint::Director { name, class, members } = saint else { continue };
            let object = self.saint_of(name);
            out.push_str(&format!("    new {object} = directors.{class}();\n"));
            for (member, weight) in members {
                let weight = weight.as_ref().map_or_else(String::new, |weight| format!(", {weight}"));
                out.push_str(&format!("    {object}.add_backend({}.backend(){weight});\n", self.saint_of(member)));
            }
        }
        out + "}\n\n"
    }

    /// The names of all backends that a request may have: the default and those that are set.
    fn choices(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::from([self.policy.default_name.clone()]);
        for at in 0..self.items.len() {
            let (name, last) = self.dotted(at);
            let value = self.after(self.after(last));
            if name.eq_ignore_ascii_case("req.backend") && self.names.is(NameKind::Backend, self.text_at(value)) {
                all.insert(self.text_at(value).to_owned());
            }
        }
        all
    }

    fn is_dns(&self, name: &str) -> bool {
        self.directors.get(name).is_some_and(|kind| kind == "dns")
    }

    /// True if a director selects by a property of the request.
    fn has_key(&self, name: &str) -> bool {
        self.directors.get(name).is_some_and(|kind| matches!(kind.as_str(), "client" | "hash" | "dns"))
    }

    /// `set bereq.backend = ...;` for a selected name, as a saint mode object or as itself.
    fn chosen(&mut self, name: &str, saint: bool) -> String {
        let plain = self.backend_now(name);
        if !saint {
            return format!("set bereq.backend = {plain};");
        }
        let object = self.saint_of(&self.names.now(NameKind::Backend, name));
        let call = plain.split_once(".backend(").map_or(")", |(_, args)| args);
        format!("set bereq.backend = {object}.backend({call};")
    }

    /// Selections as nested `if`s, each level indented by four more spaces.
    fn choose(&mut self, names: &[String], saint: bool, indent: &str) -> String {
        if !self.policy.asks_director {
            return names.iter().map(|name| format!("{indent}{}\n", self.chosen(name, saint))).collect();
        }
        let mut out = indent.to_owned();
        for (n, name) in names.iter().enumerate() {
            let or = if n > 0 { " else " } else { "" };
            out.push_str(&format!(
                "{or}if (bereq.http.{BACKEND} == \"{name}\") {{\n{indent}    {}\n{indent}}}",
                self.chosen(name, saint)
            ));
        }
        out + "\n"
    }

    pub fn late(&mut self) -> String {
        if !self.policy.late {
            return String::new();
        }
        self.ctx = DialectCtx::Fetch;
        let all: Vec<String> = self.choices().into_iter().collect();
        let keyed: Vec<String> = all.iter().filter(|name| self.has_key(name)).cloned().collect();
        // A program without any backend only gets the error about that.
        let any = self.policy.saint && !self.saints.is_empty();
        let saints: Vec<String> = all.into_iter().filter(|name| any && !self.is_dns(name)).collect();
        let mut lines = String::new();
        if !keyed.is_empty() {
            lines.push_str("    # A director that goes by a key has it now.\n");
            lines.push_str(&self.choose(&keyed, false, "    "));
        }
        if !saints.is_empty() {
            let choose = self.choose(&saints, true, "        ");
            lines.push_str(&format!("    if (!bereq.uncacheable) {{\n{choose}    }}\n"));
        }
        if self.policy.asks_director && !lines.is_empty() && !self.asks_backend() {
            lines.push_str(&format!("    unset bereq.http.{BACKEND};\n"));
        }
        match lines.as_str() {
            "" => String::new(),
            _ if self.policy.fetch_returns => {
                let sub = "sub vcl_backend_fetch {\n    call fetch_as_before;\n}\n\n";
                format!("sub fetch_as_before {{\n{lines}}}\n\n{sub}")
            }
            _ => format!("sub vcl_backend_fetch {{\n{lines}}}\n\n"),
        }
    }
}
