// SPDX-License-Identifier: BSD-2-Clause
//! Names: finds the symbol that a word or a dotted name stands for, and declares new ones.

use tables::vclvars::{HeadId, Type};

use crate::code::DiagnosticCode;
use crate::symbols::{ALWAYS, SymId, SymbolKind, SymbolMeaning, Ty};
use crate::token::{Tok, Token};
use crate::vcc::{CompileStopped, LookupScope, Vcc, VccResult};

impl Vcc<'_> {
    pub fn expect_name(&mut self, what: &str) -> VccResult {
        self.expect(Tok::Id)?;
        let first = self.at;
        let mut end = first + 1;
        let mut bad = None;
        while self.tokens[end].tok == Tok::C(b'.') {
            bad = Some('.');
            end += 1;
            if self.tokens[end].tok != Tok::Id {
                break;
            }
            end += 1;
        }
        let Some(bad) = bad else { return Ok(()) };
        let name: String = self.tokens[first..end].iter().map(|t| self.text_of(t)).collect();
        self.begin(
            DiagnosticCode::ReservedName,
            &format!("Name of {what}, '{name}', contains illegal character '{bad}'\n"),
        );
        self.show_until(first, end);
        Err(CompileStopped)
    }

    fn has_vcl_prefix(text: &[u8]) -> bool {
        text.len() >= 4 && text[..4].eq_ignore_ascii_case(b"vcl_")
    }

    /// Looks up the name at the current token. Returns its symbol (`None` if unknown, without a message) and the token
    /// after it.
    fn look(&mut self, kind: SymbolKind, look: LookupScope) -> VccResult<(Option<SymId>, usize, String)> {
        let mut at = self.at;
        let mut name = String::new();
        let mut found: Option<(SymId, usize)> = None;
        let mut fields = None;
        let whole = loop {
            let token = self.tokens[at];
            if token.tok == Tok::Str && self.syntax < 41 {
                return self.fail_at(
                    DiagnosticCode::Version,
                    "Quoted headers are available for VCL >= 4.1.\nAt:",
                    &token,
                );
            }
            // Dots in a quoted header name don't separate parts.
            let part = if token.tok == Tok::Str { self.content_text(&token) } else { self.text_of(&token) };
            name.push_str(&part.replace('.', "\u{1}"));
            let lower = name.to_ascii_lowercase();
            let hit = match (self.syms.find(&lower, kind, self.syntax, self.syntax, self.syntax), fields) {
                (None, Some((parent, head))) => Some(self.make_field(parent, head, &name, &part, &token)?),
                (hit, _) => hit,
            };
            fields = None;
            if let Some(id) = hit {
                found = Some((id, at + 1));
                if let SymbolMeaning::Fields(head) = self.syms.get(id).what {
                    fields = Some((id, head));
                }
            }
            let next = |n: usize| self.tokens.get(at + n).map(|t| t.tok);
            match (next(1), next(2)) {
                (Some(Tok::C(b'.')), Some(Tok::Id)) => {}
                (Some(Tok::C(b'.')), Some(Tok::Str)) if fields.is_some() => {}
                _ => break hit.is_some(),
            }
            name.push('.');
            at += 2;
        };
        let vmod = found.is_some_and(|(id, _)| self.syms.get(id).kind == SymbolKind::Vmod);
        match found {
            Some((id, after)) if look == LookupScope::Partial && !vmod => Ok((Some(id), after, name)),
            Some((id, after)) if whole => Ok((Some(id), after, name)),
            _ => Ok((None, at + 1, name)),
        }
    }

    fn make_field(&mut self, parent: SymId, head: HeadId, name: &str, field: &str, token: &Token) -> VccResult<SymId> {
        if field.len() >= 127 {
            let shown: String = field.chars().take(20).collect();
            return self.fail_at(DiagnosticCode::HeaderName, &format!("HTTP header ({shown}..) is too long.\n"), token);
        }
        if field.is_empty() {
            let name = &name[..name.len() - usize::from(name.ends_with('.'))];
            return self.fail_at(
                DiagnosticCode::HeaderName,
                &format!("Symbol '{name}.\"\"' has wrong type (none), expected var:\n"),
                token,
            );
        }
        if let Some(bad) = field.bytes().find(|c| !is_token_byte(*c)) {
            let shown = (bad as char).escape_default().to_string();
            return self.fail_at(
                DiagnosticCode::HeaderName,
                &format!("Invalid character '{shown}' in header name.\n"),
                token,
            );
        }
        let Some(index) = self.pool.header(field.as_bytes()) else {
            return self.fail(DiagnosticCode::Limit, "Too many different header names.\n");
        };
        let id = self.syms.add(name, SymbolKind::Var, Ty::T(Type::Header), ALWAYS, SymbolMeaning::Field(head, index));
        let (read, write, unset) = {
            let p = self.syms.get(parent);
            (p.read, p.write, p.unset)
        };
        let sym = self.syms.get_mut(id);
        sym.noref = true;
        (sym.read, sym.write, sym.unset) = (read, write, unset);
        Ok(id)
    }

    /// Looks up the symbol at the current token and moves past it. Returns `None` without moving if there is none.
    pub fn try_symbol(&mut self, kind: SymbolKind, look: LookupScope) -> VccResult<Option<SymId>> {
        let (id, end, _) = self.look(kind, look)?;
        let Some(id) = id else { return Ok(None) };
        let first = self.at;
        self.at = end;
        self.check_kind(id, kind, first)?;
        Ok(Some(id))
    }

    /// Looks up the symbol at the current token and fails if there is none.
    pub fn symbol(&mut self, kind: SymbolKind, look: LookupScope) -> VccResult<SymId> {
        let first = self.at;
        let (id, end, name) = self.look(kind, look)?;
        self.at = end;
        match id {
            Some(id) => self.check_kind(id, kind, first).map(|()| id),
            None if self.import_unasked(&name) => {
                self.at = first;
                self.symbol(kind, look)
            }
            None => self.not_found(&name, kind, first),
        }
    }

    fn not_found<T>(&mut self, name: &str, kind: SymbolKind, first: usize) -> VccResult<T> {
        let written: String = self.tokens[first..self.at].iter().map(|t| self.text_of(t)).collect();
        self.begin(DiagnosticCode::UnknownName, &format!("Symbol not found: '{written}'"));
        let other = self.syms.find(&name.to_ascii_lowercase(), kind, self.syntax, 40, 41);
        if let Some(sym) =
            other.map(|id| self.syms.get(id)).filter(|s| !matches!(s.kind, SymbolKind::Object | SymbolKind::Instance))
        {
            let (lo, hi) = sym.versions;
            let lo = if lo >= 40 { format!(" {}.{} <=", lo / 10, lo % 10) } else { String::new() };
            let hi = if hi <= 41 { format!(" <= {}.{}", hi / 10, hi % 10) } else { String::new() };
            self.say(&format!(" (Only available when{lo} VCL syntax{hi})"));
        }
        if kind == SymbolKind::None && self.tokens[first.saturating_sub(1)].tok == Tok::C(b'}') {
            self.hint_misspelt_else(&written);
        }
        self.hint_name(&written, kind, first, self.at.saturating_sub(1).max(first));
        self.fail_since(DiagnosticCode::UnknownName, "\nAt: ", first)
    }

    fn check_kind(&mut self, id: SymId, kind: SymbolKind, first: usize) -> VccResult {
        let sym = self.syms.get(id);
        if kind == SymbolKind::None || kind == sym.kind {
            return Ok(());
        }
        let (is, def, reference) = (sym.kind.name(), sym.def, sym.reference);
        let written: String = self.tokens[first..self.at].iter().map(|t| self.text_of(t)).collect();
        self.begin(
            DiagnosticCode::WrongKind,
            &format!("Symbol '{written}' has wrong type ({is}), expected {}:\nAt: ", kind.name()),
        );
        self.show_until(first, self.at);
        match (def, reference) {
            (Some(def), _) => self.fail_at(
                DiagnosticCode::WrongKind,
                "Symbol was defined here: ",
                &self.tokens[def as usize].to_owned(),
            ),
            (_, Some(at)) => self.fail_at(
                DiagnosticCode::WrongKind,
                "Symbol was declared here: ",
                &self.tokens[at as usize].to_owned(),
            ),
            _ => {
                self.say("Symbol was builtin\n");
                Err(CompileStopped)
            }
        }
    }

    pub fn define(&mut self, id: SymId, at: usize) {
        let sym = self.syms.get_mut(id);
        sym.def.get_or_insert(at as u32);
        sym.defs += 1;
    }

    pub fn refer(&mut self, id: SymId, at: usize) {
        let sym = self.syms.get_mut(id);
        sym.reference.get_or_insert(at as u32);
        sym.refs += 1;
    }

    pub fn create(&mut self, kind: SymbolKind, ty: Type, what: SymbolMeaning) -> VccResult<SymId> {
        let token = self.token();
        if self.syntax >= 41 && kind != SymbolKind::Sub && Self::has_vcl_prefix(self.bytes_of(&token)) {
            return self.fail(DiagnosticCode::ReservedName, "Symbols named 'vcl_*' are reserved.\nAt:");
        }
        let name = self.text_of(&token);
        let versions = (self.syntax, self.syntax);
        self.next();
        Ok(self.syms.add(&name, kind, Ty::T(ty), versions, what))
    }

    /// Returns the symbol for a declaration of a global: a new one, or one that was only referred to so far.
    pub fn declare(&mut self, ty: Type) -> VccResult<SymId> {
        let kind = SymbolKind::of_global(ty).expect("only globals are declared");
        let first = self.at;
        let token = self.token();
        let name = self.text_of(&token);
        let found = self.syms.find(&name.to_ascii_lowercase(), SymbolKind::None, self.syntax, self.syntax, self.syntax);
        // Varnish before 7 had a separate namespace for actions.
        let found = match found.map(|id| self.syms.get(id).kind) {
            Some(SymbolKind::Action) => self.syms.namesake(&name.to_ascii_lowercase(), kind),
            _ => found,
        };
        let id = match found {
            None => self.create(kind, ty, SymbolMeaning::Global(None))?,
            Some(id) => {
                let sym = self.syms.get(id);
                match sym.def {
                    Some(def) if sym.kind == kind => {
                        let word = kind.name();
                        let word = format!("{}{}", word[..1].to_ascii_uppercase(), &word[1..]);
                        self.begin(DiagnosticCode::Redefined, &format!("{word} '{name}' redefined.\n"));
                        return self.redefined(&token, def);
                    }
                    Some(def) => {
                        self.begin(DiagnosticCode::Redefined, &format!("Name '{name}' already defined.\n"));
                        return self.redefined(&token, def);
                    }
                    None if sym.kind != kind => {
                        let text = format!("Name {name} must have type '{}'.\n", sym.kind.name());
                        return self.fail(DiagnosticCode::WrongKind, &text);
                    }
                    None => {
                        self.next();
                        id
                    }
                }
            }
        };
        let sym = self.syms.get_mut(id);
        (sym.kind, sym.ty, sym.defs) = (kind, Ty::T(ty), 1);
        sym.def = Some(first as u32);
        Ok(id)
    }

    fn redefined<T>(&mut self, token: &Token, def: u32) -> VccResult<T> {
        self.show(token);
        let def = self.tokens[def as usize];
        self.fail_at(DiagnosticCode::Redefined, "First definition:\n", &def)
    }
}

fn is_token_byte(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c)
}
