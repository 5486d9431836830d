// SPDX-License-Identifier: BSD-2-Clause
//! Generates bytecode from typed expressions. Tests are fused with the branch that follows; text is built in a buffer.

use tables::vclvars::{Type, Var};

use crate::code::DiagnosticCode;
use crate::diag::origin;
use crate::ir::{Expr, IrNode};
use crate::program::{Compare, Op, SourceLocation};
use crate::symbols::Ty;
use crate::token::Token;
use crate::vcc::{CompileStopped, Vcc, VccResult};

const MAX_OPS: usize = 4 << 20;

#[derive(Debug, Default)]
pub(crate) struct Emission {
    pub ops: usize,
    steps: u32,
    /// The place of the statement that is compiled.
    pub statement: Option<u32>,
    /// The token that was located last: its offset and its place.
    located: Option<(usize, SourceLocation)>,
}

impl Emission {
    /// The place of the token at `start` in a source. Cheap if tokens are requested in order.
    fn locate(&mut self, source: u32, text: &[u8], start: usize) -> SourceLocation {
        let (mut line, mut pos, from) = match self.located {
            Some((offset, last)) if last.source == source && offset <= start => (last.line, last.pos - 1, offset),
            _ => (1, 0, 0),
        };
        for c in &text[from..start] {
            match c {
                b'\n' => (line, pos) = (line + 1, 0),
                b'\t' => pos = (pos & !7) + 8,
                _ => pos += 1,
            }
        }
        let place = SourceLocation { source, line, pos: pos + 1 };
        self.located = Some((start, place));
        place
    }
}

pub(crate) struct BodyPart {
    pub append: bool,
}

impl Vcc<'_> {
    pub fn emit(&mut self, op: Op) -> VccResult {
        self.emission.ops += 1;
        if self.emission.ops > MAX_OPS {
            return self.fail(DiagnosticCode::Limit, "The program is too large.\n");
        }
        let place = match self.emission.statement {
            Some(place) => place,
            None => {
                let token = self.token();
                self.place(&token)
            }
        };
        let current = self.current.expect("code is in a subroutine");
        let proc = &mut self.procs[current];
        proc.code.push(op);
        proc.places.push(place);
        Ok(())
    }

    /// The index of a token's place, as `VCL_trace` shows it.
    pub fn place(&mut self, token: &Token) -> u32 {
        let token = origin(&self.sources, token);
        let text = &self.sources[token.src as usize].text;
        let place = self.emission.locate(token.src, text, token.start as usize);
        let places = &mut self.program.map.places;
        if places.last() != Some(&place) {
            places.push(place);
        }
        places.len() as u32 - 1
    }

    /// Emits a place that `VCL_trace` shows: the current token.
    pub fn step(&mut self) {
        self.emission.steps += 1;
        let statement = self.emission.statement.take();
        // The next op reports that the program is too large.
        let _ = self.emit(Op::Step { count: self.emission.steps });
        self.emission.statement = statement;
    }

    /// Emits a jump to be patched; returns its index.
    pub fn emit_jump(&mut self, op: Op) -> VccResult<usize> {
        self.emit(op)?;
        Ok(self.procs[self.current.expect("code is in a subroutine")].code.len() - 1)
    }

    /// Patches these jumps to the next op.
    pub fn patch(&mut self, jumps: &[usize]) {
        let code = &mut self.procs[self.current.expect("code is in a subroutine")].code;
        let here = code.len() as u32;
        for at in jumps {
            match &mut code[*at] {
                Op::Jump { to } | Op::JumpIf { to } | Op::JumpUnless { to } => *to = here,
                other => unreachable!("{other:?} is no jump"),
            }
        }
    }

    /// Evaluates `cond` and jumps if it equals `when`; falls through otherwise. Returns the jumps to patch.
    pub fn emit_branch(&mut self, cond: &Expr, when: bool) -> VccResult<Vec<usize>> {
        match &cond.node {
            IrNode::Not(inner) => self.emit_branch(inner, !when),
            // `a && b` is false if any operand is; `a || b` is true if any operand is.
            IrNode::All(parts) if !when => self.branch_any(parts, false),
            IrNode::Any(parts) if when => self.branch_any(parts, true),
            IrNode::All(parts) => self.branch_last(parts, true),
            IrNode::Any(parts) => self.branch_last(parts, false),
            IrNode::Bool(value) if *value == when => Ok(vec![self.emit_jump(Op::Jump { to: 0 })?]),
            IrNode::Bool(_) => Ok(Vec::new()),
            _ => {
                let inverted = self.emit_test(cond)?;
                let op = if when != inverted { Op::JumpIf { to: 0 } } else { Op::JumpUnless { to: 0 } };
                Ok(vec![self.emit_jump(op)?])
            }
        }
    }

    fn branch_any(&mut self, parts: &[Expr], when: bool) -> VccResult<Vec<usize>> {
        let mut jumps = Vec::new();
        for part in parts {
            jumps.extend(self.emit_branch(part, when)?);
        }
        Ok(jumps)
    }

    fn branch_last(&mut self, parts: &[Expr], when: bool) -> VccResult<Vec<usize>> {
        let (last, before) = parts.split_last().expect("it has operands");
        let mut out = Vec::new();
        for part in before {
            out.extend(self.emit_branch(part, !when)?);
        }
        let jumps = self.emit_branch(last, when)?;
        self.patch(&out);
        Ok(jumps)
    }

    /// Sets the flag to a condition without parts. Returns whether the flag is inverted.
    fn emit_test(&mut self, cond: &Expr) -> VccResult<bool> {
        match &cond.node {
            IrNode::Truth(inner) => {
                if let IrNode::Field(head, field) = inner.node {
                    self.emit(Op::TestField { head, field })?;
                } else {
                    self.push(inner)?;
                    self.emit(Op::Test)?;
                }
                Ok(false)
            }
            IrNode::Compare(how, pair) => self.emit_compare(*how, &pair.0, &pair.1),
            IrNode::Match(pair) => {
                match (&pair.0.node, &pair.1.node) {
                    (IrNode::Field(head, field), IrNode::Regex(index)) => {
                        self.emit(Op::TestFieldRegex { head: *head, field: *field, index: *index })?;
                    }
                    (IrNode::Var(var), IrNode::Regex(index)) if pair.0.ty == Type::Strings => {
                        self.emit(Op::TestVarRegex { var: *var, index: *index })?;
                    }
                    (_, IrNode::Regex(index)) => {
                        self.push(&pair.0)?;
                        self.emit(Op::TestRegex { index: *index })?;
                    }
                    _ => {
                        self.push(&pair.0)?;
                        self.push(&pair.1)?;
                        self.emit(Op::TestRegexValue)?;
                    }
                }
                Ok(false)
            }
            IrNode::InAcl(pair) => {
                self.push(&pair.0)?;
                self.push(&pair.1)?;
                self.emit(Op::TestAcl)?;
                Ok(false)
            }
            _ => {
                self.push(cond)?;
                self.emit(Op::Test)?;
                Ok(false)
            }
        }
    }

    fn emit_compare(&mut self, how: Compare, a: &Expr, b: &Expr) -> VccResult<bool> {
        let equality = matches!(how, Compare::Equal | Compare::NotEqual);
        let inverted = how == Compare::NotEqual;
        match (&a.node, &b.node) {
            (IrNode::Field(head, field), IrNode::Str(str)) if equality => {
                self.emit(Op::TestFieldStr { head: *head, field: *field, str: *str })?;
                Ok(inverted)
            }
            (IrNode::Var(var), IrNode::Str(str)) if equality && a.ty == Type::Strings => {
                self.emit(Op::TestVarStr { var: *var, str: *str })?;
                Ok(inverted)
            }
            (IrNode::Var(var @ (Var::BerespStatus | Var::ObjStatus | Var::RespStatus)), IrNode::Int(number))
                if let Ok(status) = u16::try_from(*number) =>
            {
                self.emit(Op::TestStatus { var: *var, how, status })?;
                Ok(false)
            }
            _ => {
                self.push(a)?;
                self.push(b)?;
                self.emit(Op::Compare { how })?;
                Ok(false)
            }
        }
    }

    pub fn emit_value(&mut self, e: Expr) -> VccResult {
        self.push(&e)
    }

    fn push(&mut self, e: &Expr) -> VccResult {
        let op = match &e.node {
            IrNode::Bool(value) => Op::PushBool { value: *value },
            IrNode::Int(value) => Op::PushInt { index: self.pool.int(*value) },
            IrNode::Bytes(value) => Op::PushBytes { index: self.pool.int(*value) },
            IrNode::Real(value) => Op::PushReal { index: self.pool.real(*value) },
            IrNode::Duration(value) => Op::PushDuration { index: self.pool.real(*value) },
            IrNode::Str(str) => Op::PushStr { str: *str },
            IrNode::Unset => Op::PushUnset,
            IrNode::Absent => Op::PushAbsent,
            IrNode::Word(word) => Op::PushEnum { word: self.pool.word(word) },
            IrNode::Blob(index) => Op::PushBlob { index: *index },
            IrNode::Regex(index) => Op::PushRegex { index: *index },
            IrNode::Ip(str) => Op::PushIp { str: *str },
            IrNode::Field(head, field) => Op::PushField { head: *head, field: *field },
            IrNode::Header(head, field) => Op::PushHeader { head: *head, field: *field },
            IrNode::Var(var) => Op::PushVar { var: *var },
            IrNode::Store(index) => Op::PushStore { index: *index },
            // Symbols; linking replaces them with the declarations' indices.
            IrNode::Backend(sym) => Op::PushBackend { index: *sym },
            IrNode::Probe(sym) => Op::PushProbe { index: *sym },
            IrNode::Acl(sym) => Op::PushAcl { index: *sym },
            IrNode::Sub(sym) => Op::PushSub { sub: *sym },
            IrNode::DefaultBackend => Op::PushDefaultBackend,
            IrNode::DefaultProbe => Op::PushDefaultProbe,
            IrNode::Join(parts) => {
                self.open_text(parts)?;
                Op::TextClose
            }
            IrNode::Text(inner) => {
                self.push(inner)?;
                let Ty::T(from) = inner.ty else { return Err(CompileStopped) };
                Op::ToString { from }
            }
            IrNode::Not(_)
            | IrNode::All(_)
            | IrNode::Any(_)
            | IrNode::Truth(_)
            | IrNode::Compare(..)
            | IrNode::Match(_)
            | IrNode::InAcl(_) => return self.push_condition(e),
            IrNode::Chain(first, steps) => {
                self.push(first)?;
                for (how, result, right) in steps {
                    self.push(right)?;
                    self.emit(Op::Math { how: *how, result: *result })?;
                }
                return Ok(());
            }
            IrNode::Negate(inner) => {
                self.push(inner)?;
                Op::Negate
            }
            IrNode::Regsub(all, parts) => {
                for part in parts.iter() {
                    self.push(part)?;
                }
                Op::Regsub { all: *all }
            }
            IrNode::Case(upper, inner) => {
                self.push(inner)?;
                Op::Case { upper: *upper }
            }
            IrNode::Resolve(inner) => {
                self.push(inner)?;
                Op::Resolve
            }
            IrNode::StoreProperty(which, inner) => {
                self.push(inner)?;
                Op::StoreProperty { which: *which }
            }
            IrNode::Call(site, args) => {
                for arg in args {
                    self.push_argument(arg)?;
                }
                Op::Call { site: *site }
            }
            IrNode::TimedCall(sub) => {
                self.emit(Op::PushClock)?;
                self.emit(Op::CallSub { sub: *sub })?;
                Op::SinceClock
            }
            IrNode::Object(_) => return self.fail(DiagnosticCode::WrongKind, "An object is no value.\n"),
        };
        self.emit(op)
    }

    /// Pushes an argument of a module's function. The end of a text's first piece is marked because some messages show
    /// only that piece.
    fn push_argument(&mut self, arg: &Expr) -> VccResult {
        let IrNode::Join(parts) = &arg.node else { return self.push(arg) };
        let (Some(first), rest) = (parts.first(), &parts[1..]) else { return self.push(arg) };
        self.open_text(std::slice::from_ref(first))?;
        self.emit(Op::TextMark)?;
        self.text_parts(rest)?;
        self.emit(Op::TextClose)
    }

    fn push_condition(&mut self, e: &Expr) -> VccResult {
        let no = self.emit_branch(e, false)?;
        self.emit(Op::PushBool { value: true })?;
        let end = self.emit_jump(Op::Jump { to: 0 })?;
        self.patch(&no);
        self.emit(Op::PushBool { value: false })?;
        self.patch(&[end]);
        Ok(())
    }

    /// Opens a buffer and appends a text.
    pub fn emit_text(&mut self, e: Expr) -> VccResult {
        match e.node {
            IrNode::Join(parts) => self.open_text(&parts),
            _ => self.open_text(std::slice::from_ref(&e)),
        }
    }

    fn open_text(&mut self, parts: &[Expr]) -> VccResult {
        self.emit(Op::TextOpen)?;
        self.text_parts(parts)
    }

    fn text_parts(&mut self, parts: &[Expr]) -> VccResult {
        for part in parts {
            match &part.node {
                IrNode::Join(inner) => self.text_parts(inner)?,
                IrNode::Str(str) => self.emit(Op::TextStr { str: *str })?,
                IrNode::Unset => {}
                IrNode::Field(head, field) => self.emit(Op::TextField { head: *head, field: *field })?,
                IrNode::Var(var) => self.emit(Op::TextVar { var: *var })?,
                IrNode::Text(inner) if matches!(inner.node, IrNode::Var(_)) => {
                    self.text_parts(std::slice::from_ref(inner))?
                }
                IrNode::Text(inner) => {
                    self.push(inner)?;
                    self.emit(Op::TextPop)?;
                }
                _ => {
                    self.push(part)?;
                    self.emit(Op::TextPop)?;
                }
            }
        }
        Ok(())
    }

    /// Emits `hash_data(...)`; each part is hashed as a separate piece.
    pub fn emit_hash(&mut self, e: Expr) -> VccResult {
        let parts = match e.node {
            IrNode::Join(parts) => parts,
            _ => vec![e],
        };
        for part in parts {
            if let IrNode::Field(head, field) = part.node {
                self.emit(Op::HashField { head, field })?;
            } else {
                self.emit_text(part)?;
                self.emit(Op::HashText)?;
            }
        }
        self.emit(Op::HashEnd)
    }

    /// Emits `synthetic()`: each piece is appended to the body, an unset one as `(null)`.
    pub fn emit_synthetic(&mut self, e: Expr) -> VccResult {
        let parts = match e.node {
            IrNode::Join(parts) => parts,
            _ => vec![e],
        };
        for part in parts {
            if let IrNode::Str(_) = part.node {
                self.emit_text(part)?;
                self.emit(Op::SetBodyText { append: true })?;
            } else {
                self.push(&part)?;
                self.emit(Op::AddBodyValue)?;
            }
        }
        Ok(())
    }

    pub fn emit_body(&mut self, e: Expr, part: BodyPart) -> VccResult {
        if e.ty == Type::Blob {
            self.push(&e)?;
            return self.emit(Op::SetBody { append: part.append });
        }
        self.emit_text(e)?;
        self.emit(Op::SetBodyText { append: part.append })
    }

    pub fn emit_statement(&mut self, e: Expr) -> VccResult {
        let void = match &e.node {
            IrNode::Call(site, _) => self.program.calls[*site as usize].returns == Type::Void,
            _ => false,
        };
        self.push(&e)?;
        if void { Ok(()) } else { self.emit(Op::Drop) }
    }

    pub fn emit_new(&mut self, call: Expr) -> VccResult {
        let IrNode::Call(site, args) = call.node else { return Err(CompileStopped) };
        for arg in &args {
            self.push(arg)?;
        }
        self.emit(Op::New { site })
    }
}
