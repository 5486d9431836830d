// SPDX-License-Identifier: BSD-2-Clause
//! Calls of module functions, constructors and methods: arguments by position, then by name.

use tables::vclvars::Type;
use tables::vmods::{Default as Given, Effect, Func, VmodArg, VmodObjectType};

use crate::code::DiagnosticCode;
use crate::ir::{Expr, IrNode};
use crate::program::{CallSite, Callee};
use crate::symbols::SymId;
use crate::token::{Tok, Token};
use crate::vcc::{SymbolAccess, Vcc, VccResult};

impl Vcc<'_> {
    /// Compiles the arguments of a function; the current token follows its name.
    pub fn function_call(&mut self, import: u32, func: &'static Func, sym: SymId) -> VccResult<Expr> {
        let name_at = self.at.saturating_sub(1);
        let args = self.arguments(func.name, func.args)?;
        self.add_use(name_at, name_at, sym, SymbolAccess::Read);
        self.note_work(name_at, func);
        if self.program.imports[import as usize].name == "std"
            && func.name == "timed_call"
            && let [Expr { node: IrNode::Sub(sub), .. }] = args[..]
        {
            return self.timed_call(name_at, sub);
        }
        Ok(self.call_site(import, Callee::Function(func.name.to_owned()), args, func.ret, func.effect == Effect::Pure))
    }

    /// Compiles `std.timed_call(SUB)` to a call between two looks at the clock: modules can't run subroutines.
    fn timed_call(&mut self, name_at: usize, sub: SymId) -> VccResult<Expr> {
        let current = self.current.expect("calls are in a subroutine");
        self.procs[current].calls.push((name_at as u32, sub));
        Ok(Expr::new(IrNode::TimedCall(sub), Type::Duration))
    }

    /// Compiles the arguments of a method; the current token follows its name.
    pub fn method_call(&mut self, object: u32, method: &'static Func, _name: &Token) -> VccResult<Expr> {
        let import = self.program.objects[object as usize].import;
        let name_at = self.at.saturating_sub(1);
        let args = self.arguments(method.name, method.args)?;
        self.note_work(name_at, method);
        let callee = Callee::Method(object, method.name.to_owned());
        // The call isn't pure: the object may have changed since the last one.
        Ok(self.call_site(import, callee, args, method.ret, false))
    }

    /// Compiles the arguments of a constructor in `new`; the current token follows the class's name.
    pub fn constructor_call(&mut self, object: u32, class: &'static VmodObjectType) -> VccResult<Expr> {
        let import = self.program.objects[object as usize].import;
        let args = self.arguments(class.name, class.args)?;
        Ok(self.call_site(import, Callee::Constructor(object), args, Type::Void, false))
    }

    fn call_site(&mut self, import: u32, callee: Callee, args: Vec<Expr>, returns: Type, is_pure: bool) -> Expr {
        let site = self.program.calls.len() as u32;
        self.program.calls.push(CallSite { import, callee, args: args.len() as u16, returns, is_pure });
        let ty = if returns == Type::String { Type::Strings } else { returns };
        Expr::new(IrNode::Call(site, args), ty)
    }

    /// Compiles `(...)`: one expression for each parameter.
    fn arguments(&mut self, name: &str, params: &'static [VmodArg]) -> VccResult<Vec<Expr>> {
        let args = self.all_arguments(params);
        if args.is_err() {
            self.hint_call(name, params);
        }
        args
    }

    fn all_arguments(&mut self, params: &'static [VmodArg]) -> VccResult<Vec<Expr>> {
        self.skip_c(b'(')?;
        let mut given: Vec<Option<Expr>> = params.iter().map(|_| None).collect();
        for (param, slot) in params.iter().zip(&mut given) {
            if self.is_c(b')') || self.tok() == Tok::Id && self.peek(1).tok == Tok::C(b'=') {
                break;
            }
            *slot = Some(self.positional(param)?);
            if self.is_c(b')') {
                break;
            }
            self.skip_c(b',')?;
        }
        while self.tok() == Tok::Id {
            self.named(params, &mut given)?;
            if self.is_c(b')') {
                break;
            }
            self.skip_c(b',')?;
        }
        let mut args = Vec::with_capacity(params.len());
        for (n, (param, value)) in params.iter().zip(given).enumerate() {
            match value {
                Some(value) => args.push(value),
                None => args.push(self.left_out(n, param)?),
            }
        }
        self.skip_c(b')')?;
        Ok(args)
    }

    fn positional(&mut self, param: &VmodArg) -> VccResult<Expr> {
        let value = self.argument(param);
        if value.is_err() {
            let name = if param.name.is_empty() { "(unnamed argument)" } else { param.name };
            self.say(&format!("Expected argument: {} {name}\n\n", param.ty.name()));
        }
        value
    }

    fn named(&mut self, params: &'static [VmodArg], given: &mut [Option<Expr>]) -> VccResult {
        let word = self.text_of(&self.token());
        let Some(n) = params.iter().position(|p| !p.name.is_empty() && p.name == word) else {
            return self.fail(DiagnosticCode::Argument, &format!("Unknown argument '{word}'\n"));
        };
        if given[n].is_some() {
            return self.fail(DiagnosticCode::Argument, &format!("Argument '{word}' already used\n"));
        }
        self.next();
        self.skip_c(b'=')?;
        given[n] = Some(self.argument(&params[n])?);
        Ok(())
    }

    fn argument(&mut self, param: &VmodArg) -> VccResult<Expr> {
        if param.ty != Type::Enum {
            return self.expr(param.ty);
        }
        self.expect(Tok::Id)?;
        let word = self.text_of(&self.token());
        let Some(word) = param.values.iter().find(|v| **v == word) else {
            let list: String = param.values.iter().map(|v| format!("\t{v}\n")).collect();
            return self.fail(DiagnosticCode::Argument, &format!("Wrong enum value.  Expected one of:\n{list}"));
        };
        self.next();
        Ok(Expr::new(IrNode::Word(word), Type::Enum))
    }

    fn left_out(&mut self, n: usize, param: &VmodArg) -> VccResult<Expr> {
        if param.optional {
            return Ok(Expr::new(IrNode::Absent, param.ty));
        }
        let node = match param.default {
            None if param.name.is_empty() => {
                return self.fail(DiagnosticCode::Argument, &format!("Argument {} missing\n", n + 1));
            }
            None => return self.fail(DiagnosticCode::Argument, &format!("Argument '{}' missing\n", param.name)),
            Some(Given::Bool(value)) => IrNode::Bool(value),
            Some(Given::Int(value)) if param.ty == Type::Bytes => IrNode::Bytes(value),
            Some(Given::Int(value)) => IrNode::Int(value),
            Some(Given::Real(value)) if param.ty == Type::Duration => IrNode::Duration(value),
            Some(Given::Real(value)) => IrNode::Real(value),
            Some(Given::Str(text)) => IrNode::Str(self.pool.string(text.as_bytes())),
            Some(Given::Enum(word)) => IrNode::Word(word),
            Some(Given::Null) if matches!(param.ty, Type::String | Type::Strands) => IrNode::Unset,
            Some(Given::Null) => IrNode::Absent,
        };
        Ok(Expr::new(node, param.ty))
    }
}
