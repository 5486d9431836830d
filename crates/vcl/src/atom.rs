// SPDX-License-Identifier: BSD-2-Clause
//! The atoms of expressions: literals, names, calls, and properties of them.

use tables::vclvars::{Type, Var};

use crate::code::DiagnosticCode;
use crate::diag::{Fix, Hint};
use crate::expr::text_of;
use crate::ir::{Expr, IrNode};
use crate::symbols::{SymbolKind, SymbolMeaning, Ty};
use crate::token::{Tok, Token};
use crate::vcc::{CompileStopped, LookupScope, SymbolAccess, Vcc, VccResult};

/// True for types that a declaration makes and that a name not yet declared may have.
fn is_global(ty: Ty) -> bool {
    matches!(ty, Ty::T(t) if SymbolKind::of_global(t).is_some())
}

impl Vcc<'_> {
    pub fn postfix(&mut self, want: Type) -> VccResult<Expr> {
        let mut e = self.atom(want)?;
        let mut properties = 0;
        while self.is_c(b'.') {
            self.next();
            self.expect(Tok::Id)?;
            properties += 1;
            if properties > crate::vcc::MAX_DEPTH {
                return self.fail(DiagnosticCode::Limit, "Too many properties of properties.\n");
            }
            e = self.property(e)?;
        }
        Ok(e)
    }

    fn property(&mut self, e: Expr) -> VccResult<Expr> {
        let token = self.token();
        let word = self.text_of(&token).to_ascii_lowercase();
        let (node, ty): (fn(Box<Expr>) -> IrNode, Type) = match (e.ty, word.as_str()) {
            (Ty::Object(_, object), _) => {
                let IrNode::Object(index) = e.node else { return self.unknown_property(&e, &token) };
                let name = self.text_of(&token);
                let Some(method) = object.method(&name) else { return self.unknown_property(&e, &token) };
                self.next();
                return self.method_call(index, method, &token);
            }
            (Ty::T(Type::Strings), "upper") => (|e| IrNode::Case(true, e), Type::Strings),
            (Ty::T(Type::Strings), "lower") => (|e| IrNode::Case(false, e), Type::Strings),
            (Ty::T(Type::Backend), "resolve") => (IrNode::Resolve, Type::Backend),
            (Ty::T(Type::Stevedore), "free_space") => (|e| IrNode::StoreProperty(0, e), Type::Bytes),
            (Ty::T(Type::Stevedore), "used_space") => (|e| IrNode::StoreProperty(1, e), Type::Bytes),
            (Ty::T(Type::Stevedore), "happy") => (|e| IrNode::StoreProperty(2, e), Type::Bool),
            _ => return self.unknown_property(&e, &token),
        };
        self.next();
        if !(e.ty == Type::Stevedore) {
            self.skip_c(b'(')?;
            self.skip_c(b')')?;
        }
        Ok(Expr::new(node(Box::new(e)), ty))
    }

    fn unknown_property<T>(&mut self, e: &Expr, token: &Token) -> VccResult<T> {
        let before: String = self.tokens[self.at.saturating_sub(2)..=self.at].iter().map(|t| self.text_of(t)).collect();
        let left_out = match e.ty {
            Ty::Object(module, object) => {
                self.hint_left_out(&format!("{}.{}.{}", module.name, object.name, self.text_of(token)))
            }
            Ty::T(_) => false,
        };
        if e.ty == Type::Strings && self.tokens[self.at.saturating_sub(2)].tok == Tok::Str {
            let fix = Fix::replace(self.tokens[self.at - 1].span(), " + ");
            self.hint(Hint::with("Texts are joined by +.", fix));
        } else if !left_out {
            self.hint_name(&before, SymbolKind::None, self.at.saturating_sub(2), self.at);
        }
        let name = self.token_name(token);
        self.fail_at(DiagnosticCode::UnknownName, &format!("Unknown property {name} for type {}\n", e.ty.name()), token)
    }

    fn atom(&mut self, want: Type) -> VccResult<Expr> {
        match self.tok() {
            Tok::C(b'(') => {
                self.next();
                let e = self.any(want)?;
                self.skip_c(b')')?;
                Ok(e)
            }
            Tok::Id => self.name(want),
            Tok::Str => self.literal(want),
            Tok::C(b'-') if matches!(want, Type::Int | Type::Real | Type::Duration | Type::Strings) => {
                self.next();
                if matches!(self.tok(), Tok::Int | Tok::Real) {
                    return self.number(want, -1.0);
                }
                let e = self.any(want)?;
                let ty = e.ty;
                if !matches!(ty, Ty::T(Type::Int | Type::Real | Type::Duration | Type::Bytes)) {
                    return self
                        .fail(DiagnosticCode::Type, &format!("Operator - not possible on {}\n", ty.user_name()));
                }
                Ok(Expr { node: IrNode::Negate(Box::new(e)), ty })
            }
            Tok::Int | Tok::Real => self.number(want, 1.0),
            Tok::Blob => {
                let index = self.token().num as u32;
                self.next();
                Ok(Expr::new(IrNode::Blob(index), Type::Blob))
            }
            _ => {
                if self.is_c(b'!') && want == Type::Regex {
                    let fix = Fix::replace(self.token().span(), "!~");
                    self.hint(Hint::with("\"doesn't match\" is written !~.", fix));
                } else if self.is_c(b'&') || self.is_c(b'|') {
                    self.hint("\"and\" is written &&, and \"or\" ||.");
                } else {
                    self.hint_no_value(want);
                }
                let found = self.token_name(&self.token());
                let wanted = Ty::T(want).user_name();
                self.fail(DiagnosticCode::Syntax, &format!("Unknown token {found} when looking for {wanted}\n\n"))
            }
        }
    }

    fn number(&mut self, want: Type, sign: f64) -> VccResult<Expr> {
        if want == Type::Bytes {
            return Ok(Expr::new(IrNode::Bytes(self.byte_size()?), Type::Bytes));
        }
        let token = self.token();
        let num = sign * token.num;
        self.next();
        if self.tok() == Tok::Id {
            let unit = self.duration_unit()?;
            return Ok(Expr::new(IrNode::Duration(num * unit), Type::Duration));
        }
        if want == Type::Real || token.tok == Tok::Real {
            return Ok(Expr::new(IrNode::Real(num), Type::Real));
        }
        Ok(Expr::new(IrNode::Int(num as i64), Type::Int))
    }

    fn literal(&mut self, want: Type) -> VccResult<Expr> {
        let token = self.token();
        let content = self.content(&token).to_vec();
        match want {
            Type::Ip => {
                if content.first() == Some(&b'/') {
                    let shown = self.token_name(&token);
                    return self.fail(DiagnosticCode::Address, &format!("Cannot convert to an IP address: {shown}"));
                }
                let address = self.resolve_one(&content, &token)?;
                self.next();
                let index = self.pool.string(address.to_string().as_bytes());
                Ok(Expr::new(IrNode::Ip(index), Type::Ip))
            }
            Type::Regex => {
                let index = self.regex()?;
                self.next();
                Ok(Expr::new(IrNode::Regex(index), Type::Regex))
            }
            _ => {
                self.next();
                let index = self.pool.string(&content);
                Ok(Expr::new(IrNode::Str(index), Type::Strings))
            }
        }
    }

    /// Compiles a pattern: string constants joined by `+`. Stays on its last token.
    fn regex(&mut self) -> VccResult<u32> {
        let first = self.at;
        let mut pattern = self.content(&self.token()).to_vec();
        while self.peek(1).tok == Tok::C(b'+') {
            self.next();
            self.next();
            self.expect(Tok::Str)?;
            pattern.extend_from_slice(self.content(&self.token()));
        }
        if let Some(index) = self.pool.known_regex(&pattern) {
            return Ok(index);
        }
        match self.options.check_regex.map_or(Ok(None), |check| check(&pattern)) {
            Ok(None) => {}
            Ok(Some(odd)) => self.remark(DiagnosticCode::NeverMatches, first, self.at, odd),
            Err(reason) => {
                self.hint_pattern(&pattern);
                self.begin(DiagnosticCode::Regex, &format!("Regexp compilation error:\n\n{reason}\n\n"));
                let end = self.at.max(first + 1);
                self.show_until(first, end);
                return Err(CompileStopped);
            }
        }
        Ok(self.pool.regex(&pattern))
    }

    fn name(&mut self, want: Type) -> VccResult<Expr> {
        let first = self.at;
        let dotted = self.peek(1).tok == Tok::C(b'.');
        let id = match self.try_symbol(SymbolKind::None, LookupScope::Partial)? {
            Some(id) if is_global(Ty::T(want)) && self.syms.get(id).kind == SymbolKind::Action && !dotted => {
                let kind = SymbolKind::of_global(want).expect("it is a global");
                let lower = self.text_of(&self.tokens[first]).to_ascii_lowercase();
                match self.syms.namesake(&lower, kind) {
                    Some(id) => id,
                    None => {
                        self.at = first;
                        self.create(kind, want, SymbolMeaning::Global(None))?
                    }
                }
            }
            Some(id) => id,
            None if is_global(Ty::T(want)) && !dotted => {
                let kind = SymbolKind::of_global(want).expect("it is a global");
                self.create(kind, want, SymbolMeaning::Global(None))?
            }
            None => self.symbol(SymbolKind::None, LookupScope::Partial)?,
        };
        self.refer(id, first);
        let sym = self.syms.get(id);
        let (kind, ty, what, read_only_void) = (sym.kind, sym.ty, sym.what, sym.ty == Type::Void);
        if kind == SymbolKind::Func && read_only_void {
            return self.fail(DiagnosticCode::WrongKind, "Function returns VOID:\n");
        }
        let e = match what {
            SymbolMeaning::Instance(index) => return Ok(Expr { node: IrNode::Object(index), ty }),
            SymbolMeaning::Scalar(var) => {
                self.add_use(first, first, id, SymbolAccess::Read);
                match var {
                    Var::ReqXid | Var::BereqXid | Var::SessXid => {
                        let id = Expr::new(IrNode::Var(var), Type::Int);
                        if want == Type::Int { id } else { text_of(id) }
                    }
                    _ => text_type(Expr { node: IrNode::Var(var), ty }),
                }
            }
            SymbolMeaning::Store(index) => Expr::new(IrNode::Store(index), Type::Stevedore),
            SymbolMeaning::Field(head, field) => {
                self.add_use(first, first, id, SymbolAccess::Read);
                if want == Type::Header {
                    return Ok(Expr::new(IrNode::Header(head, field), Type::Header));
                }
                Expr::new(IrNode::Field(head, field), Type::Strings)
            }
            SymbolMeaning::Bool(value) => Expr::new(IrNode::Bool(value), Type::Bool),
            SymbolMeaning::Regsub { all } => {
                let e = self.regsub(all);
                self.in_call(e, first)?
            }
            SymbolMeaning::Default => self.default_word(want, first)?,
            SymbolMeaning::Func(import, func) => {
                let e = self.function_call(import, func, id);
                text_type(self.in_call(e, first)?)
            }
            SymbolMeaning::Sub(_) if want != Type::Sub => return self.sub_misused(id, first),
            SymbolMeaning::Sub(_) => Expr::new(IrNode::Sub(id), Type::Sub),
            SymbolMeaning::Global(_) => match kind {
                SymbolKind::Backend => Expr::new(IrNode::Backend(id), Type::Backend),
                SymbolKind::Acl => Expr::new(IrNode::Acl(id), Type::Acl),
                SymbolKind::Probe if want == Type::Strings => self.name_as_text(id),
                SymbolKind::Probe => Expr::new(IrNode::Probe(id), Type::Probe),
                SymbolKind::Sub if want != Type::Sub => return self.sub_misused(id, first),
                SymbolKind::Sub => Expr::new(IrNode::Sub(id), Type::Sub),
                _ => return self.not_in_expression(id, first),
            },
            SymbolMeaning::Class(_, _, object) if self.names_method(object) => {
                let e = self.fail(DiagnosticCode::WrongKind, "Syntax error.\n");
                return self.in_call(e, first);
            }
            SymbolMeaning::Nothing
            | SymbolMeaning::Action(_)
            | SymbolMeaning::Fields(_)
            | SymbolMeaning::Class(..)
            | SymbolMeaning::Label(_)
            | SymbolMeaning::Module(..) => {
                return self.not_in_expression(id, first);
            }
        };
        Ok(e)
    }

    pub fn names_method(&self, object: &tables::vmods::VmodObjectType) -> bool {
        self.is_c(b'.') && object.method(&self.text_of(&self.peek(1))).is_some()
    }

    fn name_as_text(&mut self, id: u32) -> Expr {
        let name = self.syms.get(id).name.clone();
        let index = self.pool.string(name.as_bytes());
        Expr::new(IrNode::Str(index), Type::Strings)
    }

    fn in_call<T>(&mut self, e: VccResult<T>, first: usize) -> VccResult<T> {
        if e.is_err() {
            self.say("While compiling function call:\n\n");
            self.show_until(first, self.at);
        }
        e
    }

    fn sub_misused<T>(&mut self, id: u32, first: usize) -> VccResult<T> {
        let name = self.syms.get(id).name.clone();
        let e =
            self.fail(DiagnosticCode::WrongKind, &format!("Symbol '{name}' can only be used as a SUB expression\n"));
        self.in_call(e, first)
    }

    fn not_in_expression<T>(&mut self, id: u32, first: usize) -> VccResult<T> {
        let sym = self.syms.get(id);
        let (kind, def) = (sym.kind.name(), sym.def);
        let token = self.tokens[first];
        let name = self.text_of(&token);
        let cannot = self.wording("can not", "cannot");
        self.begin(
            DiagnosticCode::WrongKind,
            &format!("Symbol '{name}' type ({kind}) {cannot} be used in expression.\n"),
        );
        match def {
            Some(def) => {
                self.show(&token);
                let def = self.tokens[def as usize];
                self.fail_at(DiagnosticCode::WrongKind, "That symbol was defined here:\n", &def)
            }
            None => self.stop_at(&token),
        }
    }

    fn default_word(&mut self, want: Type, first: usize) -> VccResult<Expr> {
        match want {
            Type::Backend => Ok(Expr::new(IrNode::DefaultBackend, Type::Backend)),
            Type::Probe => {
                if self.program.default_probe.is_none() {
                    let e = self.no_default_probe();
                    return self.in_call(e, first);
                }
                Ok(Expr::new(IrNode::DefaultProbe, Type::Probe))
            }
            _ => {
                let token = self.tokens[first];
                let e = self.fail_at(DiagnosticCode::ReservedName, "Symbol 'default' is a reserved word.\n", &token);
                self.in_call(e, first)
            }
        }
    }

    pub fn no_default_probe<T>(&mut self) -> VccResult<T> {
        let found = self.token_name(&self.token());
        self.fail(DiagnosticCode::Undeclared, &format!("No default probe defined\n{found} at\n"))
    }

    fn regsub(&mut self, all: bool) -> VccResult<Expr> {
        let e = self.regsub_call(all);
        if e.is_err() {
            self.hint("It takes (TEXT, PATTERN, REPLACEMENT).");
        }
        e
    }

    fn regsub_call(&mut self, all: bool) -> VccResult<Expr> {
        self.skip_c(b'(')?;
        let text = self.expr(Type::String)?;
        self.skip_c(b',')?;
        let regex = self.expr(Type::Regex)?;
        self.skip_c(b',')?;
        let with = self.expr(Type::String)?;
        self.skip_c(b')')?;
        Ok(Expr::new(IrNode::Regsub(all, Box::new([text, regex, with])), Type::Strings))
    }
}

/// Widens STRING to the type of several strings, which `+` may join.
fn text_type(mut e: Expr) -> Expr {
    if e.ty == Type::String {
        e.ty = Ty::T(Type::Strings);
    }
    e
}
