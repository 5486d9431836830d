// SPDX-License-Identifier: BSD-2-Clause
//! The compiler's state and basic steps: the current token, messages, symbols.
//!
//! One pass over the tokens parses, checks types and emits code; what needs the whole program (unused names, returns,
//! variables by subroutine) is checked afterwards in `check`.

use std::collections::HashMap;

use tables::vclsubs::Method;
use tables::vclvars::{HeadId, Type};

use crate::code::DiagnosticCode;
use crate::diag::{self, Diagnostic, DiagnosticDraft, DiagnosticSeverity, Hint};
use crate::hint::DECLARED;
use crate::lint::{Remark, SetStatement};
use crate::own_listeners::OwnBackend;
use crate::program::{Op, Program, SourceLocation};
use crate::symbols::{ALWAYS, SymId, SymbolKind, SymbolMeaning, Symbols, Ty};
use crate::token::{Tok, Token, VclSource, is_id};
use crate::{CompileOptions, Sources};

#[derive(Debug)]
pub(crate) struct CompileStopped;

pub(crate) type VccResult<T = ()> = Result<T, CompileStopped>;

/// The use of a symbol in a subroutine, for `check`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SymbolAccess {
    Read,
    Write,
    Unset,
    Action,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SymbolUse {
    /// First and last token.
    pub first: u32,
    pub last: u32,
    pub sym: SymId,
    pub access: SymbolAccess,
}

#[derive(Debug, Default)]
pub(crate) struct SubState {
    pub name: String,
    pub method: Option<Method>,
    /// The token of its first definition's name.
    pub def: Option<u32>,
    pub code: Vec<Op>,
    pub places: Vec<u32>,
    /// The calls it makes: token and symbol.
    pub calls: Vec<(u32, SymId)>,
    pub uses: Vec<SymbolUse>,
    /// Calls of modules' functions and methods: first token, last token, function.
    pub works: Vec<(u32, u32, &'static tables::vmods::Func)>,
    /// Returns of an action without argument: the op and the token of the action.
    pub leaves: Vec<(u32, u32)>,
    /// The definition that leaves it on every path.
    pub ended: Option<u32>,
    /// For each action, the first token that returns it.
    pub returns: [Option<u32>; tables::vclsubs::Return::COUNT],
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LookupScope {
    /// The whole dotted name, or nothing.
    Whole,
    /// The longest prefix that is a known name.
    Partial,
}

/// Maximum nesting of blocks, and of expressions.
pub(crate) const MAX_DEPTH: u32 = 80;
/// Maximum size of all sources together, in bytes.
pub(crate) const MAX_SOURCE: usize = 8 << 20;
pub(crate) const MAX_OPS: usize = 4 << 20;

pub(crate) struct Vcc<'a> {
    pub options: &'a CompileOptions,
    pub outside: &'a dyn Sources,
    pub draft: DiagnosticDraft,
    pub found: Vec<Diagnostic>,
    lost: Vec<String>,
    pub sources: Vec<VclSource>,
    pub tokens: Vec<Token>,
    /// Index of the current token.
    pub at: usize,
    pub syntax: u8,
    pub syms: Symbols,
    pub procs: Vec<SubState>,
    pub current: Option<usize>,
    pub program: Program,
    pub builtin_subs: Vec<String>,
    pub depth: u32,
    pub steps: u32,
    pub first_backend: Option<SymId>,
    pub default_backend_named: bool,
    pub strings: HashMap<Box<[u8]>, u32>,
    pub fields: HashMap<Vec<u8>, u16>,
    pub regexes: HashMap<Box<[u8]>, u32>,
    pub ops: usize,
    pub source_bytes: usize,
    last_place: (u32, usize, SourceLocation),
    pub statement_place: Option<u32>,
    pub remarks: Vec<Remark>,
    pub sets: Vec<SetStatement>,
    pub own_backends: Vec<OwnBackend>,
}

impl<'a> Vcc<'a> {
    pub fn new(outside: &'a dyn Sources, options: &'a CompileOptions) -> Self {
        let mut vcc = Vcc {
            options,
            outside,
            draft: DiagnosticDraft::default(),
            found: Vec::new(),
            lost: Vec::new(),
            sources: Vec::new(),
            tokens: Vec::new(),
            at: 0,
            syntax: 0,
            syms: Symbols::with_language(),
            procs: Vec::new(),
            current: None,
            program: Program::default(),
            builtin_subs: Vec::new(),
            depth: 0,
            steps: 0,
            first_backend: None,
            default_backend_named: false,
            strings: HashMap::new(),
            fields: HashMap::new(),
            regexes: HashMap::new(),
            ops: 0,
            source_bytes: 0,
            last_place: (0, 0, SourceLocation { source: 0, line: 1, pos: 1 }),
            statement_place: None,
            remarks: Vec::new(),
            sets: Vec::new(),
            own_backends: Vec::new(),
        };
        vcc.predefine();
        vcc
    }

    fn predefine(&mut self) {
        for method in Method::ALL {
            let index = self.procs.len() as u32;
            self.syms.builtin(method.sub_name(), SymbolKind::Sub, Type::Sub, SymbolMeaning::Sub(index));
            let name = method.sub_name().to_owned();
            self.procs.push(SubState { name, method: Some(method), ..SubState::default() });
        }
        for store in &self.options.stores {
            let index = self.program.stores.len() as u32;
            self.program.stores.push(store.clone());
            self.syms.builtin(
                &format!("storage.{store}"),
                SymbolKind::Var,
                Type::Stevedore,
                SymbolMeaning::Store(index),
            );
        }
        for (index, label) in self.options.labels.iter().enumerate() {
            let id = self.syms.builtin(label, SymbolKind::Vcl, Type::Vcl, SymbolMeaning::Label(index as u32));
            self.syms.get_mut(id).read = Method::Recv.set();
        }
    }

    /// Records a `return` to a label of the options. Returns its index in the program, which lists only labels in use.
    pub fn use_label(&mut self, index: usize) -> u32 {
        let name = &self.options.labels[index];
        let labels = &mut self.program.labels;
        let at = labels.iter().position(|label| label == name).unwrap_or_else(|| {
            labels.push(name.clone());
            labels.len() - 1
        });
        at as u32
    }

    // --- tokens

    pub fn token(&self) -> Token {
        self.tokens[self.at]
    }

    pub fn tok(&self) -> Tok {
        self.tokens[self.at].tok
    }

    pub fn peek(&self, ahead: usize) -> Token {
        self.tokens[(self.at + ahead).min(self.tokens.len() - 1)]
    }

    pub fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub fn bytes_of(&self, token: &Token) -> &[u8] {
        &self.sources[token.src as usize].text[token.start as usize..token.end as usize]
    }

    pub fn text_of(&self, token: &Token) -> String {
        String::from_utf8_lossy(self.bytes_of(token)).into_owned()
    }

    pub fn content(&self, token: &Token) -> &[u8] {
        let quote = token.quote as u32;
        &self.sources[token.src as usize].text[(token.start + quote) as usize..(token.end - quote) as usize]
    }

    pub fn content_text(&self, token: &Token) -> String {
        String::from_utf8_lossy(self.content(token)).into_owned()
    }

    pub fn is_word(&self, token: &Token, word: &str) -> bool {
        token.tok == Tok::Id && self.bytes_of(token) == word.as_bytes()
    }

    pub fn here_is(&self, word: &str) -> bool {
        self.is_word(&self.tokens[self.at], word)
    }

    pub fn expect(&mut self, tok: Tok) -> VccResult {
        if self.tok() == tok {
            return Ok(());
        }
        self.hint_expected(tok);
        let found = self.token_name(&self.token());
        let code = if tok == Tok::C(b'{') { DiagnosticCode::MissingBrace } else { DiagnosticCode::Syntax };
        self.fail(code, &format!("Expected {} got {found}\nat\n", tok.expected()))
    }

    pub fn skip(&mut self, tok: Tok) -> VccResult {
        self.expect(tok)?;
        self.next();
        Ok(())
    }

    pub fn skip_c(&mut self, c: u8) -> VccResult {
        self.skip(Tok::C(c))
    }

    pub fn is_c(&self, c: u8) -> bool {
        self.tok() == Tok::C(c)
    }

    /// The description of a token that was found, for messages.
    pub fn token_name(&self, token: &Token) -> String {
        match token.tok {
            Tok::End => "end of input".to_owned(),
            Tok::InlineC => "C{ ... }C".to_owned(),
            _ => format!("'{}'", self.text_of(token)),
        }
    }

    // --- messages

    pub fn begin(&mut self, code: DiagnosticCode, text: &str) {
        self.draft.code(code);
        self.draft.say(text);
    }

    pub fn say(&mut self, text: &str) {
        self.draft.say(text);
    }

    pub fn show(&mut self, token: &Token) {
        self.draft.show(token.span());
    }

    pub fn show_until(&mut self, first: usize, end: usize) {
        let last = self.tokens[end.saturating_sub(1).max(first)];
        self.draft.show_range(self.tokens[first].span(), last.span());
    }

    pub fn stop_at<T>(&mut self, token: &Token) -> VccResult<T> {
        self.show(token);
        Err(CompileStopped)
    }

    pub fn fail<T>(&mut self, code: DiagnosticCode, text: &str) -> VccResult<T> {
        let token = self.token();
        self.fail_at(code, text, &token)
    }

    pub fn fail_at<T>(&mut self, code: DiagnosticCode, text: &str, token: &Token) -> VccResult<T> {
        self.begin(code, text);
        self.stop_at(token)
    }

    pub fn fail_since<T>(&mut self, code: DiagnosticCode, text: &str, first: usize) -> VccResult<T> {
        self.begin(code, text);
        self.show_until(first, self.at);
        Err(CompileStopped)
    }

    pub fn fail_nowhere<T>(&mut self, code: DiagnosticCode, text: &str) -> VccResult<T> {
        self.begin(code, text);
        Err(CompileStopped)
    }

    /// Adds a hint. The first one wins: it is the most specific.
    pub fn hint(&mut self, hint: impl Into<Hint>) {
        self.draft.hint(hint.into());
    }

    pub fn warn(&mut self) {
        let draft = std::mem::take(&mut self.draft);
        self.found.push(draft.warning(&self.sources));
    }

    /// Records the error in `stopped` unless it was recorded before. Returns `Ok` if compilation can continue with code
    /// that doesn't depend on it.
    pub fn recover(&mut self, stopped: VccResult) -> VccResult {
        if stopped.is_err() {
            let draft = std::mem::take(&mut self.draft);
            let is_noted = draft == DiagnosticDraft::default() && self.unfailed().is_err();
            if !is_noted && !self.is_echo(&draft) {
                let error = draft.error(&self.sources);
                // A subroutine is checked once for each caller.
                if !self.found.iter().any(|other| (other.code, &other.place) == (error.code, &error.place)) {
                    self.found.push(error);
                }
            }
            if self.found.iter().filter(|one| one.severity == DiagnosticSeverity::Error).count()
                >= self.options.max_errors
            {
                return Err(CompileStopped);
            }
        }
        Ok(())
    }

    /// True if an error only follows from an error in the declaration of the name it mentions.
    fn is_echo(&self, draft: &DiagnosticDraft) -> bool {
        let Some((src, start, _)) = draft.first_place().filter(|_| draft.is_about_a_name()) else { return false };
        let text = &self.sources[src as usize].text[start as usize..];
        let word = text.iter().take_while(|c| is_id(**c)).count();
        self.lost.iter().any(|name| name.as_bytes() == &text[..word])
    }

    /// Skips the declaration at token `first`, which has an error. Nothing inside of a declaration looks like the
    /// beginning of one, so a missing or surplus '}' doesn't matter.
    pub fn skip_declaration(&mut self, first: usize) {
        let begins = |at: usize| {
            let [before, here, next] = [at - 1, at, at + 1].map(|at| self.tokens.get(at).copied());
            here.is_some_and(|here| here.tok == Tok::Id && DECLARED.contains(&&*self.text_of(&here)))
                && before.is_some_and(|before| matches!(before.tok, Tok::C(b'{' | b'}' | b';') | Tok::End))
                && next.is_some_and(|next| matches!(next.tok, Tok::Id | Tok::Real))
        };
        let end = (first + 1..self.tokens.len()).find(|at| self.tokens[*at].tok == Tok::End || begins(*at));
        let end = end.unwrap_or(self.tokens.len() - 1);
        let declares = [&DECLARED[..], &["new"]].concat();
        let pairs = self.tokens[first..end].windows(2).filter(|pair| pair[1].tok == Tok::Id);
        let names = pairs.filter(|pair| declares.iter().any(|word| self.is_word(&pair[0], word)));
        let names: Vec<String> = names.map(|pair| self.text_of(&pair[1])).collect();
        self.lost.extend(names);
        (self.at, self.depth, self.current, self.statement_place) = (end, 0, None, None);
    }

    pub fn unfailed(&self) -> VccResult {
        match self.found.iter().any(|one| one.severity == DiagnosticSeverity::Error) {
            true => Err(CompileStopped),
            false => Ok(()),
        }
    }

    /// Guards against deep nesting: call [`Vcc::leave`] after it.
    pub fn enter(&mut self) -> VccResult {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail(DiagnosticCode::Limit, "Too deeply nested.\n");
        }
        Ok(())
    }

    pub fn leave(&mut self) {
        self.depth -= 1;
    }

    // --- names

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
        let index = self.field_index(field)?;
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

    fn field_index(&mut self, field: &str) -> VccResult<u16> {
        if let Some(index) = self.fields.get(field.as_bytes()) {
            return Ok(*index);
        }
        let Ok(index) = u16::try_from(self.program.headers.len()) else {
            return self.fail(DiagnosticCode::Limit, "Too many different header names.\n");
        };
        self.program.headers.push(field.as_bytes().into());
        self.fields.insert(field.as_bytes().to_vec(), index);
        Ok(index)
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

    // --- constants

    pub fn string(&mut self, bytes: &[u8]) -> u32 {
        if let Some(index) = self.strings.get(bytes) {
            return *index;
        }
        let index = self.program.strings.len() as u32;
        self.program.strings.push(bytes.into());
        self.strings.insert(bytes.into(), index);
        index
    }

    pub fn real(&mut self, value: f64) -> u32 {
        self.program.reals.push(value);
        self.program.reals.len() as u32 - 1
    }

    pub fn int(&mut self, value: i64) -> u32 {
        self.program.ints.push(value);
        self.program.ints.len() as u32 - 1
    }

    /// The place of a token, as `VCL_trace` shows it. Cheap if tokens are requested in order.
    pub fn place(&mut self, token: &Token) -> u32 {
        let token = &diag::origin(&self.sources, token);
        let (src, offset, last) = self.last_place;
        let text = &self.sources[token.src as usize].text;
        let start = token.start as usize;
        let (mut line, mut pos, from) =
            if src == token.src && offset <= start { (last.line, last.pos - 1, offset) } else { (1, 0, 0) };
        for c in &text[from..start] {
            match c {
                b'\n' => (line, pos) = (line + 1, 0),
                b'\t' => pos = (pos & !7) + 8,
                _ => pos += 1,
            }
        }
        let place = SourceLocation { source: token.src, line, pos: pos + 1 };
        self.last_place = (token.src, start, place);
        if self.program.places.last() != Some(&place) {
            self.program.places.push(place);
        }
        self.program.places.len() as u32 - 1
    }
}

fn is_token_byte(c: u8) -> bool {
    c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c)
}
