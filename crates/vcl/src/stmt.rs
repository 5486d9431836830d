// SPDX-License-Identifier: BSD-2-Clause
//! Statements.

use tables::vclsubs::{Method, Return};
use tables::vclvars::Type;

use crate::code::DiagnosticCode;
use crate::emit::BodyPart;
use crate::hint::ELSE_WORDS;
use crate::ir::{Expr, IrNode};
use crate::lint::SetTarget;
use crate::program::{Math, ObjectDecl, Op};
use crate::symbols::{StatementWord, SymId, SymbolKind, SymbolMeaning, Ty};
use crate::token::{Tok, Token};
use crate::vcc::{CompileStopped, LookupScope, SymbolAccess, SymbolUse, Vcc, VccResult};

const NOT_REACHED: &str = "This is never reached: what stands before it always leaves the subroutine.\n";

impl Vcc<'_> {
    pub fn add_use(&mut self, first: usize, last: usize, sym: SymId, access: SymbolAccess) {
        let (first, last) = (first as u32, last as u32);
        if let Some(current) = self.current {
            self.procs[current].uses.push(SymbolUse { first, last, sym, access });
        }
    }

    /// Compiles `{ ... }`. Returns true if every path through it leaves the subroutine.
    pub fn block(&mut self) -> VccResult<bool> {
        self.enter()?;
        self.skip_c(b'{')?;
        self.step();
        let (mut ends, mut said) = (false, false);
        loop {
            // A second `return` is a common and harmless safeguard.
            if ends && !said && matches!(self.tok(), Tok::C(b'{') | Tok::Id) && !self.here_is("return") {
                said = true;
                self.remark(DiagnosticCode::Unreachable, self.at, self.at, NOT_REACHED);
            }
            match self.tok() {
                Tok::C(b'{') => ends |= self.block()?,
                Tok::C(b'}') => {
                    self.next();
                    break;
                }
                Tok::InlineC => return self.inline_c(),
                Tok::End => return self.text_ends(),
                Tok::Id => {
                    let (outer, token) = (self.emission.statement, self.token());
                    self.emission.statement = Some(self.place(&token));
                    ends |= self.statement()?;
                    self.emission.statement = outer;
                }
                _ => return self.fail(DiagnosticCode::Syntax, "Expected an action, 'if', '{' or '}'\n"),
            }
        }
        self.leave();
        Ok(ends)
    }

    /// Reports a text that ends inside a subroutine. Varnish shows its own built-in VCL here.
    fn text_ends<T>(&mut self) -> VccResult<T> {
        let says = "Symbol cannot be used here: the text ends inside a subroutine.\n";
        match self.hint_text_ends() {
            Some(brace) => self.fail_at(DiagnosticCode::Unclosed, says, &brace),
            None => self.fail(DiagnosticCode::Unclosed, says),
        }
    }

    pub fn inline_c<T>(&mut self) -> VccResult<T> {
        if self.options.allow_inline_c {
            return self.fail(
                DiagnosticCode::InlineC,
                "Inline-C is not supported: say it in VCL, or with std, header or cookie functions\n",
            );
        }
        self.hint("VCL and its modules (std, header, cookie, digest, uuid, geoip2, accept, ...) do what inline C is used for.");
        self.fail(DiagnosticCode::InlineC, "Inline-C not allowed\n")
    }

    /// Returns true if the statement always leaves the subroutine.
    fn statement(&mut self) -> VccResult<bool> {
        let first = self.at;
        if ELSE_WORDS.iter().any(|word| self.here_is(word)) {
            self.hint_else();
        }
        let id = match self.symbol(SymbolKind::None, LookupScope::Partial) {
            Ok(id) => id,
            Err(CompileStopped) => return self.fail(DiagnosticCode::UnknownName, "Symbol not found.\n"),
        };
        let sym = self.syms.get(id);
        let (what, mask) = (sym.what, sym.action);
        if !mask.is_empty() {
            self.add_use(first, first, id, SymbolAccess::Action);
        }
        match what {
            SymbolMeaning::Action(StatementWord::If) => return self.if_statement(),
            SymbolMeaning::Action(action) => {
                self.action(action)?;
                return Ok(action == StatementWord::Return);
            }
            SymbolMeaning::Func(import, func) => {
                let call = self.function_call(import, func, id).and_then(|e| self.skip_c(b';').map(|()| e));
                let e = self.in_statement(call, first)?;
                self.emit_statement(e)?;
            }
            SymbolMeaning::Instance(_) => {
                self.expect(Tok::C(b'.'))?;
                self.at = first;
                let e = self.postfix(Type::Void)?;
                self.skip_c(b';')?;
                self.emit_statement(e)?;
            }
            SymbolMeaning::Class(_, _, object) if self.names_method(object) => {
                return self.fail(DiagnosticCode::WrongKind, "Syntax error.\n");
            }
            _ => {
                self.hint_open_braces(first);
                return self.fail(DiagnosticCode::WrongKind, "Symbol cannot be used here.\n");
            }
        }
        Ok(false)
    }

    fn in_statement<T>(&mut self, e: VccResult<T>, first: usize) -> VccResult<T> {
        if e.is_err() && self.at != first {
            self.say("While compiling function call:\n\n");
            self.show_until(first, self.at);
        }
        e
    }

    fn action(&mut self, action: StatementWord) -> VccResult {
        match action {
            StatementWord::Ban => {
                let e = self.text_argument(Type::String)?;
                self.emit_value(e)?;
                self.emit(Op::Ban)
            }
            StatementWord::Call => self.call_sub(),
            StatementWord::HashData => {
                let e = self.text_argument(Type::Strands)?;
                self.emit_hash(e)
            }
            StatementWord::If => self.if_statement().map(drop),
            StatementWord::New => self.new_object(),
            StatementWord::Return => self.return_statement(),
            StatementWord::Set => self.set(),
            StatementWord::Synthetic => {
                let e = self.text_argument(Type::Strands)?;
                self.emit_synthetic(e)
            }
            StatementWord::Unset => self.unset(),
        }
    }

    fn text_argument(&mut self, want: Type) -> VccResult<Expr> {
        self.skip_c(b'(')?;
        let e = self.expr(want)?;
        self.skip_c(b')')?;
        self.skip_c(b';')?;
        Ok(e)
    }

    /// Returns true if one branch is always taken and each leaves the subroutine.
    fn if_statement(&mut self) -> VccResult<bool> {
        let (mut ends, mut leaves) = (Vec::new(), true);
        loop {
            let token = self.token();
            self.emission.statement = Some(self.place(&token));
            self.skip_c(b'(')?;
            let cond = self.expr(Type::Bool)?;
            self.skip_c(b')')?;
            let otherwise = self.emit_branch(&cond, false)?;
            leaves &= self.block()?;
            let more = self.else_if()?;
            if more == Else::None {
                self.patch(&otherwise);
                break;
            }
            ends.push(self.emit_jump(Op::Jump { to: 0 })?);
            self.patch(&otherwise);
            if more == Else::Block {
                leaves &= self.block()?;
                self.patch(&ends);
                return Ok(leaves);
            }
        }
        self.patch(&ends);
        self.step();
        Ok(false)
    }

    fn else_if(&mut self) -> VccResult<Else> {
        if self.here_is("elseif") || self.here_is("elsif") || self.here_is("elif") {
            self.next();
            return Ok(Else::If);
        }
        if !self.here_is("else") {
            return Ok(Else::None);
        }
        self.next();
        if self.is_c(b'{') {
            return Ok(Else::Block);
        }
        if self.here_is("if") {
            self.next();
            return Ok(Else::If);
        }
        if self.is_c(b'(') {
            self.hint("A condition needs an `if`: else if (...) { ... }");
        }
        self.hint("What it is for stands in braces: else { ... }");
        self.fail(DiagnosticCode::Syntax, "'else' must be followed by 'if' or '{'\n")
    }

    fn call_sub(&mut self) -> VccResult {
        self.expect(Tok::Id)?;
        let first = self.at;
        let id = match self.try_symbol(SymbolKind::None, LookupScope::Partial)? {
            Some(id) => id,
            None => self.create(SymbolKind::Sub, Type::Sub, SymbolMeaning::Global(None))?,
        };
        self.refer(id, first);
        if self.syms.get(id).kind == SymbolKind::Sub {
            let current = self.current.expect("statements are in a subroutine");
            self.procs[current].calls.push((first as u32, id));
            self.emit(Op::CallSub { sub: id })?;
            return self.skip_c(b';');
        }
        // No function of ours returns a SUB, so this can't be a call.
        self.at = first;
        self.expr(Type::Sub)?;
        self.fail(DiagnosticCode::WrongKind, "Calling a SUB value is not supported.\n")
    }

    fn set(&mut self) -> VccResult {
        self.expect(Tok::Id)?;
        let first = self.at;
        let id = self.symbol(SymbolKind::Var, LookupScope::Whole)?;
        self.add_use(first, self.at - 1, id, SymbolAccess::Write);
        let sym = self.syms.get(id);
        let (what, ty) = (sym.what, sym.ty);
        let Ty::T(ty) = ty else { return self.expect(Tok::C(b'=')) };
        let (op, want) = self.assignment(ty)?;
        match what {
            SymbolMeaning::Field(head, field) => {
                let mut e = self.expr(want)?;
                if op.is_some() {
                    let old = Expr::new(IrNode::Field(head, field), Type::Strings);
                    e = Expr::new(IrNode::Join(vec![old, e]), Type::Strings);
                }
                self.skip_c(b';')?;
                self.note_set(first, SetTarget::Field(head, field), Some(&e));
                self.remark_framing(first, field);
                self.emit_text(e)?;
                self.emit(Op::SetFieldText { head, field })
            }
            SymbolMeaning::Scalar(var) => {
                let e = self.expr(want)?;
                self.skip_c(b';')?;
                self.note_set(first, SetTarget::Var(var), None);
                if op.is_none() {
                    self.remark_zero(first, var, &e);
                }
                match (ty, op) {
                    (Type::Body, _) => self.emit_body(e, BodyPart { append: op.is_some() }),
                    (Type::String, None) => {
                        self.emit_text(e)?;
                        self.emit(Op::SetVarText { var })
                    }
                    (Type::String, Some(_)) => {
                        let old = Expr::new(IrNode::Var(var), Type::Strings);
                        self.emit_text(Expr::new(IrNode::Join(vec![old, e]), Type::Strings))?;
                        self.emit(Op::SetVarText { var })
                    }
                    (_, None) => {
                        self.emit_value(e)?;
                        self.emit(Op::SetVar { var })
                    }
                    (_, Some(how)) => {
                        self.emit(Op::PushVar { var })?;
                        self.emit_value(e)?;
                        self.emit(Op::Math { how, result: ty })?;
                        self.emit(Op::SetVar { var })
                    }
                }
            }
            // `check` reports that the variable is read-only.
            _ => {
                self.expr(want)?;
                self.skip_c(b';')
            }
        }
    }

    /// Compiles the operator of a `set`. Returns it and the type of its right side.
    fn assignment(&mut self, ty: Type) -> VccResult<(Option<Math>, Type)> {
        let op = match self.tok() {
            Tok::AddTo => Some(Math::Add),
            Tok::SubFrom => Some(Math::Sub),
            Tok::MulBy => Some(Math::Mul),
            Tok::DivBy => Some(Math::Div),
            _ => None,
        };
        let want = match (ty, op) {
            (Type::String | Type::Header, None | Some(Math::Add)) => Some(Type::Strands),
            (Type::Body, None | Some(Math::Add)) => Some(Type::Body),
            (Type::Int, _) => Some(Type::Int),
            (Type::Time, None) => Some(Type::Time),
            (Type::Time | Type::Duration, Some(Math::Add | Math::Sub)) => Some(Type::Duration),
            (Type::Time | Type::Duration, Some(_)) => Some(Type::Real),
            (Type::Duration, None) => Some(Type::Duration),
            (_, None) => Some(ty),
            (_, Some(_)) => None,
        };
        match (op, want) {
            (Some(op), Some(want)) => {
                self.next();
                Ok((Some(op), want))
            }
            (_, want) => {
                self.skip_c(b'=')?;
                Ok((None, want.unwrap_or(ty)))
            }
        }
    }

    fn unset(&mut self) -> VccResult {
        self.expect(Tok::Id)?;
        let first = self.at;
        let id = self.symbol(SymbolKind::Var, LookupScope::Whole)?;
        let sym = self.syms.get(id);
        let (what, unset) = (sym.what, sym.unset);
        if unset.is_empty() {
            self.show_until(first, self.at);
            return self.fail_nowhere(DiagnosticCode::ReadOnly, "Variable cannot be unset.\n");
        }
        self.add_use(first, self.at - 1, id, SymbolAccess::Unset);
        self.skip_c(b';')?;
        match what {
            SymbolMeaning::Field(head, field) => {
                self.remark_framing(first, field);
                self.emit(Op::UnsetField { head, field })
            }
            SymbolMeaning::Scalar(var) => self.emit(Op::UnsetVar { var }),
            _ => Err(CompileStopped),
        }
    }

    fn return_statement(&mut self) -> VccResult {
        let current = self.current.expect("statements are in a subroutine");
        if self.is_c(b';') && self.procs[current].method.is_none() {
            self.next();
            return self.emit(Op::Leave);
        }
        self.skip_c(b'(')?;
        self.expect(Tok::Id)?;
        let mut word = self.text_of(&self.token());
        // In vcl_hit, `fetch` of 4.0 was called `miss` in 4.1 and 5.
        if word == "miss" && self.procs[current].method == Some(Method::Hit) {
            word = Return::Fetch.name().to_owned();
        }
        let Some(action) = Return::ALL.into_iter().find(|r| r.name() == word) else {
            let method = self.procs[current].method;
            self.hint_return(&word, method, self.at);
            return self.fail(DiagnosticCode::Return, "Expected return action name.\n");
        };
        let at = self.at as u32;
        self.procs[current].returns[action as usize].get_or_insert(at);
        self.next();
        if self.is_c(b'(') {
            self.return_argument(action)?;
        } else if matches!(action, Return::Synth | Return::Vcl) {
            return self.fail(DiagnosticCode::Argument, "Missing argument.\n");
        } else {
            let op = self.procs[current].code.len() as u32;
            self.procs[current].leaves.push((op, at));
            self.emit(Op::Return { action })?;
        }
        self.skip_c(b')')?;
        self.skip_c(b';')
    }

    fn return_argument(&mut self, action: Return) -> VccResult {
        let open: Token = self.token();
        self.next();
        match action {
            Return::Synth | Return::Error => {
                let status = self.expr(Type::Int)?;
                self.emit_value(status)?;
                let with_reason = self.is_c(b',');
                if with_reason {
                    self.next();
                    let reason = self.expr(Type::String)?;
                    self.emit_value(reason)?;
                }
                self.emit(Op::ReturnStatus { action, with_reason })?;
            }
            Return::Vcl => {
                self.expect(Tok::Id)?;
                let id = self.symbol(SymbolKind::Vcl, LookupScope::Whole)?;
                let SymbolMeaning::Label(label) = self.syms.get(id).what else { return Err(CompileStopped) };
                let label = self.use_label(label as usize);
                self.emit(Op::ReturnVcl { label })?;
            }
            Return::Pass => {
                let e = self.expr(Type::Duration)?;
                self.emit_value(e)?;
                self.emit(Op::ReturnPass)?;
            }
            Return::Fail => {
                let e = self.expr(Type::String)?;
                self.emit_value(e)?;
                self.emit(Op::ReturnFail)?;
            }
            _ => return self.fail_at(DiagnosticCode::Argument, "Arguments not allowed.\n", &open),
        }
        self.skip_c(b')')
    }

    fn new_object(&mut self) -> VccResult {
        self.expect_name("VCL object")?;
        let id = self.declare(Type::Instance)?;
        self.syms.get_mut(id).noref = true;
        self.skip_c(b'=')?;
        self.expect(Tok::Id)?;
        let first = self.at;
        let class = self.symbol(SymbolKind::Object, LookupScope::Whole)?;
        self.add_use(first, self.at - 1, class, SymbolAccess::Read);
        let SymbolMeaning::Class(import, module, object) = self.syms.get(class).what else {
            return Err(CompileStopped);
        };
        let index = self.program.objects.len() as u32;
        let name = self.syms.get(id).name.clone();
        self.program.objects.push(ObjectDecl { name, import, class: object.name.to_owned() });
        let sym = self.syms.get_mut(id);
        (sym.ty, sym.what) = (Ty::Object(module, object), SymbolMeaning::Instance(index));
        let call = self.constructor_call(index, object);
        if call.is_err() {
            self.say("While compiling function call:\n");
        }
        let call = call?;
        self.skip_c(b';')?;
        self.emit_new(call)
    }
}

#[derive(PartialEq)]
enum Else {
    None,
    If,
    Block,
}
