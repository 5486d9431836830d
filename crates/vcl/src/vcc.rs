// SPDX-License-Identifier: BSD-2-Clause
//! The compiler's state and basic steps: the current token, messages, symbols.
//!
//! One pass over the tokens parses, checks types and emits code; what needs the whole program (unused names, returns,
//! variables by subroutine) is checked afterwards in `check`.

use tables::vclsubs::Method;
use tables::vclvars::Type;

use crate::code::DiagnosticCode;
use crate::constants::ConstantPool;
use crate::diag::{Diagnostic, DiagnosticDraft, DiagnosticSeverity, Hint};
use crate::emit::Emission;
use crate::hint::DECLARED;
use crate::lint::LintFacts;
use crate::program::{Op, Program};
use crate::symbols::{SymId, SymbolKind, SymbolMeaning, Symbols};
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
    /// A call of a module's function.
    Call,
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

pub(crate) struct Vcc<'a> {
    pub options: &'a CompileOptions,
    pub outside: &'a dyn Sources,
    pub draft: DiagnosticDraft,
    pub found: Vec<Diagnostic>,
    lost: Vec<String>,
    pub sources: Vec<VclSource>,
    pub tokens: Vec<Token>,
    pub at: usize,
    pub syntax: u8,
    pub syms: Symbols,
    pub procs: Vec<SubState>,
    pub current: Option<usize>,
    pub program: Program,
    pub builtin_subs: Vec<String>,
    pub depth: u32,
    pub first_backend: Option<SymId>,
    pub default_backend_named: bool,
    pub pool: ConstantPool,
    pub emission: Emission,
    pub source_bytes: usize,
    pub facts: LintFacts,
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
            first_backend: None,
            default_backend_named: false,
            pool: ConstantPool::default(),
            emission: Emission::default(),
            source_bytes: 0,
            facts: LintFacts::default(),
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

    /// The wording of a message of release 7.1, and the one that release 9 has for it.
    pub fn wording(&self, of_7_1: &'static str, of_9: &'static str) -> &'static str {
        if self.options.compat.is_9() { of_9 } else { of_7_1 }
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
        (self.at, self.depth, self.current, self.emission.statement) = (end, 0, None, None);
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
}
