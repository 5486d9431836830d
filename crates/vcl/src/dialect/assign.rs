// SPDX-License-Identifier: BSD-2-Clause
//! Translates assignments and `unset`.

use tables::dialects::{Dialect, OldVar};

use super::DialectResult;
use super::ctx::{DialectCtx, TranslationOutcome};
use super::policy::{BACKEND, CACHEABLE, CARRIED, CARRIED_URL, HASH, METHOD};
use super::walk::Walker;
use crate::code::DiagnosticCode;
use crate::token::Tok;

/// The token indices of a `set`: start, name (first and last), value, semicolon.
struct Assignment {
    first: usize,
    name_at: usize,
    last: usize,
    value: usize,
    end: usize,
}

/// Variables whose assignment has no replacement in these contexts.
struct Dropped {
    names: &'static [&'static str],
    when: fn(DialectCtx) -> bool,
    reason: &'static str,
    /// True if the assignment may have had an effect.
    warning: bool,
}

const DROPPED: &[Dropped] = &[
    Dropped {
        names: &["req.hash"],
        when: |ctx| ctx != DialectCtx::Hash,
        reason: "the hash is made in vcl_hash only",
        warning: true,
    },
    Dropped {
        names: &["obj.prefetch"],
        when: |_| true,
        reason: "2.0 never fetched ahead; objects in grace are refreshed in the background now",
        warning: true,
    },
    Dropped {
        names: &["client.identity"],
        when: |ctx| ctx == DialectCtx::Fetch,
        reason: "a fetch has no client: its director has chosen already",
        warning: true,
    },
    Dropped { names: &["req.keep"], when: |_| true, reason: "nothing reads it any more", warning: true },
    Dropped {
        names: &["obj.ttl", "obj.grace", "obj.keep", "obj.cacheable"],
        when: |ctx| ctx == DialectCtx::Error,
        reason: "a response made in vcl_synth is never stored",
        warning: false,
    },
    Dropped {
        names: &["obj.grace", "obj.keep"],
        when: |ctx| ctx == DialectCtx::Hit,
        reason: "an object's times can't be changed in vcl_hit any more",
        warning: true,
    },
    Dropped {
        names: &["req.esi"],
        when: |ctx| ctx == DialectCtx::Fetch,
        reason: "a client's ESI isn't decided in a fetch",
        warning: true,
    },
    Dropped {
        names: &["req.grace"],
        when: |ctx| ctx == DialectCtx::Fetch,
        reason: "a fetch has no grace of its client's",
        warning: true,
    },
    Dropped {
        names: &["req.proto", "resp.proto", "beresp.proto", "bereq.proto", "obj.proto"],
        when: |_| true,
        reason: "a protocol's name is read only since 4.1",
        warning: true,
    },
];

impl Walker<'_> {
    pub fn unset(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        let name_at = self.after(first);
        let (name, last) = self.dotted(name_at);
        let end = self.after(last);
        if self.tok_at(end) != Tok::C(b';') {
            self.at = end;
            self.expect(Tok::C(b';'))?;
        }
        if !name.contains(".http.") {
            return self.fail_range(
                DiagnosticCode::ReadOnly,
                "Only http header variables can be unset.\n",
                name_at,
                last,
            );
        }
        let Some(new) = self.target(&name, name_at, last)? else {
            self.drop_until(end);
            return Ok(TranslationOutcome::No);
        };
        if self.is("remove") {
            self.note(first, first, "unset", "one word for it is left");
            self.put("unset");
        } else {
            self.keep();
        }
        self.put_name(last, &name, &new);
        self.keep_c(b';')?;
        self.carry(&name, true);
        Ok(TranslationOutcome::Yes)
    }

    /// Makes a header that a fetch sets or unsets in the request visible to the client's side.
    fn carry(&mut self, name: &str, unset: bool) {
        let low = name.to_ascii_lowercase();
        if self.ctx != DialectCtx::Fetch || !self.carried.contains(&low) {
            return;
        }
        if low == "req.url" {
            self.policy.carry_url = true;
            self.insert(&format!(" set beresp.http.{CARRIED_URL} = bereq.url;"));
            return;
        }
        let field = &name["req.http.".len()..];
        let value = if unset { "\"\"".to_owned() } else { format!("bereq.http.{field}") };
        self.insert(&format!(" set beresp.http.{CARRIED}{field} = {value};"));
        self.policy.carry_field(field, unset);
    }

    pub fn put_name(&mut self, last: usize, name: &str, new: &str) {
        if name == new {
            while self.at <= last {
                self.keep();
            }
        } else {
            self.put_until(last, new);
        }
    }

    /// The current name of a variable that is set or unset; `None` if the statement belongs to this subroutine's other
    /// part.
    pub fn target(&mut self, name: &str, first: usize, last: usize) -> DialectResult<Option<String>> {
        let is_bereq = name.starts_with("bereq.");
        if (self.ctx.only_bereq() && !is_bereq) || (matches!(self.ctx, DialectCtx::Miss | DialectCtx::Pass) && is_bereq)
        {
            // The variable is checked here too, without notes.
            self.quiet = true;
            let known = self.var_now(name, first, last, true);
            self.quiet = false;
            return known.map(|_| None);
        }
        if self.ctx == DialectCtx::Hit && name.starts_with("obj.http.") {
            return self.fail_range(DiagnosticCode::WrongPlace,
                "An object's fields can't be changed in vcl_hit: others may be reading it. Set the field of resp in vcl_deliver.\n",
                first,
                last,
            );
        }
        let new = self.var_now(name, first, last, true)?;
        if self.ctx == DialectCtx::Fetch && name.starts_with("req.") {
            if self.carried.contains(&name.to_ascii_lowercase()) {
                let reason =
                    "the fetch has a request of its own: a field of the response takes this to where it is read";
                self.note(first, last, &new, reason);
            } else {
                let reason =
                    "the fetch has a request of its own: what is set in it reaches neither vcl_deliver nor a restart";
                self.warn(first, last, &new, reason);
            }
        }
        Ok(Some(new))
    }

    pub fn set(&mut self) -> DialectResult<TranslationOutcome> {
        let first = self.at;
        let name_at = self.after(first);
        if self.tok_at(name_at) != Tok::Id {
            self.at = name_at;
            return self.expect(Tok::Id).map(|()| TranslationOutcome::No);
        }
        let (name, last) = self.dotted(name_at);
        let low = name.to_ascii_lowercase();
        let value = self.after(self.after(last));
        let end = self.semicolon();
        if let Some(kept) = self.special_set(&low, &Assignment { first, name_at, last, value, end })? {
            return Ok(kept);
        }
        let Some(new) = self.target(&name, name_at, last)? else {
            self.drop_until(end);
            return Ok(TranslationOutcome::No);
        };
        if self.ctx == DialectCtx::Fetch && new.starts_with("beresp.http.") {
            self.wrong_place(first, name_at, end);
        }
        // Since 4.0, setting a status also sets its reason.
        let keeps_reason = matches!(low.as_str(), "obj.status" | "resp.status" | "beresp.status");
        let reason = new.replace(".status", ".reason");
        let mark = if self.ctx.backend() { "bereq.http.X-VCL-Reason" } else { "req.http.X-VCL-Reason" };
        let unset = self.unset_by(&low, value);
        if let Some(from) = &unset {
            let explanation = "before 3.0 a text that began with a field that isn't there unset what it was for";
            self.note(first, end, &format!("if ({from}) {{ set ... }} else {{ unset {new}; }}"), explanation);
            self.insert_after_gap(&format!("if ({from}) {{ "));
        } else if keeps_reason {
            let explanation = "since 4.0 a status brings its reason along: the one that was there stays";
            self.note(first, end, &format!("set {mark} = {reason}; ... set {reason} = {mark};"), explanation);
            self.insert_after_gap(&format!("set {mark} = {reason}; "));
        } else {
            self.keep();
        }
        self.put_name(last, &name, &new);
        match self.tok() {
            Tok::C(b'=') | Tok::AddTo | Tok::SubFrom | Tok::MulBy | Tok::DivBy => self.keep(),
            _ => self.expect(Tok::C(b'='))?,
        }
        self.expr()?;
        self.keep_c(b';')?;
        if unset.is_some() {
            self.insert(&format!(" }} else {{ unset {new}; }}"));
        }
        self.carry(&name, false);
        if low == "req.backend" && self.policy.asks_director && self.after(value) == end {
            let name = self.text_at(value).to_owned();
            let req = if self.ctx.backend() { "bereq" } else { "req" };
            self.insert(&format!(" set {req}.http.{BACKEND} = \"{name}\";"));
        }
        if keeps_reason {
            self.insert(&format!(" set {reason} = {mark}; unset {mark};"));
        }
        Ok(TranslationOutcome::Yes)
    }

    /// In 2.x, setting a header to an unset one unset it. Returns the current name of the header read at `value` if
    /// that applies to `name`.
    fn unset_by(&mut self, name: &str, value: usize) -> Option<String> {
        let (from, last) = self.dotted(value);
        let fields = name.contains(".http.") && from.to_ascii_lowercase().contains(".http.");
        if self.dialect == Dialect::V30 || !fields || self.tok_at(value) != Tok::Id {
            return None;
        }
        let quiet = std::mem::replace(&mut self.quiet, true);
        let now = self.var_now(&from, value, last, false);
        self.quiet = quiet;
        now.ok()
    }

    /// Warns about a header that is stored with the object although it describes a single request.
    pub fn wrong_place(&mut self, first: usize, name_at: usize, end: usize) {
        let mut at = name_at;
        while at < end {
            let (name, last) = self.dotted(at);
            if self.tok_at(at) == Tok::Id && self.hit_fields.contains(&name.to_ascii_lowercase()) {
                let reason = format!(
                    "{name} is set in vcl_hit, and vcl_fetch doesn't run on a hit: what is set here is stored, and every hit has it \
                     as the first response had; set the field of resp in vcl_deliver"
                );
                let line = format!("set {} ...", self.dotted(name_at).0);
                self.warn(first, end, &line, &reason);
                return;
            }
            at = self.after(last);
        }
    }

    /// Translates assignments that need more than a new name; `None` for all others.
    fn special_set(&mut self, name: &str, set: &Assignment) -> DialectResult<Option<TranslationOutcome>> {
        if let Some(var) = OldVar::find(name).filter(|v| !v.is_field()) {
            self.check_place(var, set.name_at, set.last, true)?;
        }
        if let Some(dropped) = DROPPED.iter().find(|d| d.names.contains(&name) && (d.when)(self.ctx)) {
            return self.drop_set(set, dropped.reason, dropped.warning).map(Some);
        }
        let in_hit = self.ctx == DialectCtx::Hit;
        match name {
            "req.hash" => self.set_hash(set),
            "beresp.saintmode" => self.saintmode(set.first, self.after(set.last), set.end),
            "obj.ttl" if in_hit => self.set_ttl_of_hit(set),
            "obj.cacheable" if in_hit && self.text_at(set.value) == "false" => Ok(self.purge_hard(set)),
            "obj.cacheable" if in_hit => self.drop_set(set, "what is stored is cacheable", false),
            "obj.cacheable" | "beresp.cacheable" => self.set_cacheable(set),
            "req.esi" => self.set_esi(set),
            "beresp.storage" if self.tok_at(set.value) == Tok::Str => {
                let store = self.text_at(set.value).trim_matches('"').to_owned();
                let new = format!("set beresp.storage = storage.{store};");
                Ok(self.replace_set(set, &new, "a store is a value of its own type"))
            }
            "bereq.request" if self.ctx == DialectCtx::MissBereq && self.dotted(set.value).0 == "req.request" => {
                self.policy.carry_method = true;
                let new = format!("set bereq.method = bereq.http.{METHOD};");
                let reason = "what is fetched to be stored is a GET; the client's method is told by a mark";
                Ok(self.replace_set(set, &new, reason))
            }
            "req.url" if self.ctx == DialectCtx::Fetch && !self.carried.contains(name) && self.url_read <= set.end => {
                self.drop_set(set, "nothing looks at the URL any more once it is fetched", false)
            }
            _ => return Ok(None),
        }
        .map(Some)
    }

    fn replace_set(&mut self, set: &Assignment, new: &str, reason: &str) -> TranslationOutcome {
        self.note(set.first, set.end, new, reason);
        self.put_until(set.end, new);
        TranslationOutcome::Yes
    }

    fn drop_set(&mut self, set: &Assignment, reason: &str, warning: bool) -> DialectResult<TranslationOutcome> {
        if self.tok_at(set.end) != Tok::C(b';') {
            self.at = set.end;
            self.expect(Tok::C(b';'))?;
        }
        if warning {
            self.warn(set.first, set.end, "", reason)
        } else {
            self.note(set.first, set.end, "", reason)
        }
        self.drop_until(set.end);
        Ok(TranslationOutcome::No)
    }

    fn set_hash(&mut self, set: &Assignment) -> DialectResult<TranslationOutcome> {
        let op = self.after(set.last);
        if self.tok_at(op) != Tok::AddTo {
            self.at = op;
            self.expect(Tok::AddTo)?;
        }
        self.note(set.first, op, "hash_data()", "the hash isn't a variable any more");
        self.put_until(op, "hash_data(");
        self.tight = true;
        let mark = self.out.mark();
        self.string()?;
        let text = self.written(mark);
        self.expect(Tok::C(b';'))?;
        self.insert(")");
        self.keep();
        if self.policy.purge_hash {
            self.insert(&format!(" set req.http.{HASH} = req.http.{HASH} + {text} + \"#\";"));
        }
        Ok(TranslationOutcome::Yes)
    }

    fn set_ttl_of_hit(&mut self, set: &Assignment) -> DialectResult<TranslationOutcome> {
        let is_zero = self.tok_at(set.value) == Tok::Int && self.text_at(set.value).trim_start_matches('0').is_empty();
        if is_zero || self.tok_at(set.value) == Tok::C(b'-') {
            return Ok(self.purge_hard(set));
        }
        self.policy.purge = true;
        let reason = "an object's time can only be cut, with all its variants'";
        self.warn(set.first, set.end, "purge.soft(...);", reason);
        self.put_until(self.after(set.last), "purge.soft(");
        self.tight = true;
        self.string()?;
        self.expect(Tok::C(b';'))?;
        self.insert(")");
        self.keep();
        Ok(TranslationOutcome::Yes)
    }

    fn purge_hard(&mut self, set: &Assignment) -> TranslationOutcome {
        self.policy.purge = true;
        self.warn(set.first, set.end, "purge.hard();", "an object ends by a purge, with all its variants");
        self.put_until(set.end, "purge.hard();");
        TranslationOutcome::Yes
    }

    fn set_cacheable(&mut self, set: &Assignment) -> DialectResult<TranslationOutcome> {
        let new = match self.text_at(set.value) {
            "true" => format!("set bereq.http.{CACHEABLE} = \"1\";"),
            "false" => format!("unset bereq.http.{CACHEABLE};"),
            _ => return self.fail_range(DiagnosticCode::Type, "Expected true or false\n", set.value, set.value),
        };
        Ok(self.replace_set(set, &new, "a mark takes the place of the variable"))
    }

    fn set_esi(&mut self, set: &Assignment) -> DialectResult<TranslationOutcome> {
        let new = match self.text_at(set.value) {
            value if self.ctx.delivers() => format!("set resp.do_esi = {value};"),
            "false" => "set req.http.X-VCL-No-ESI = \"1\";".to_owned(),
            "true" => "unset req.http.X-VCL-No-ESI;".to_owned(),
            _ => return self.fail_range(DiagnosticCode::Type, "Expected true or false\n", set.value, set.value),
        };
        self.policy.no_esi |= !self.ctx.delivers();
        Ok(self.replace_set(set, &new, "ESI is switched off for a response, in vcl_deliver"))
    }
}
