// SPDX-License-Identifier: BSD-2-Clause
//! Typed expressions, between the parser and the bytecode.

use tables::vclvars::{HeadId, Type, Var};

use crate::program::{Compare, Math};
use crate::symbols::{SymId, Ty};

#[derive(Debug)]
pub(crate) struct Expr {
    pub node: IrNode,
    pub ty: Ty,
}

#[derive(Debug)]
pub(crate) enum IrNode {
    Bool(bool),
    Int(i64),
    Bytes(i64),
    Real(f64),
    Duration(f64),
    Str(u32),
    Unset,
    Absent,
    Word(&'static str),
    Blob(u32),
    Regex(u32),
    Ip(u32),
    Field(HeadId, u16),
    /// The name of a header, not its value.
    Header(HeadId, u16),
    Var(Var),
    Store(u32),
    Backend(SymId),
    DefaultBackend,
    Probe(SymId),
    DefaultProbe,
    Acl(SymId),
    Sub(SymId),
    Join(Vec<Expr>),
    Text(Box<Expr>),
    Not(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    Truth(Box<Expr>),
    Compare(Compare, Box<(Expr, Expr)>),
    Match(Box<(Expr, Expr)>),
    InAcl(Box<(Expr, Expr)>),
    /// The first operand and the operations from left to right, each with the type of its result.
    Chain(Box<Expr>, Vec<(Math, Type, Expr)>),
    Negate(Box<Expr>),
    Regsub(bool, Box<[Expr; 3]>),
    Case(bool, Box<Expr>),
    Resolve(Box<Expr>),
    StoreProperty(u8, Box<Expr>),
    Call(u32, Vec<Expr>),
    /// `std.timed_call(SUB)`: how long a call of the subroutine takes.
    TimedCall(SymId),
    /// The object of a method call.
    Object(u32),
}

impl Expr {
    pub fn new(node: IrNode, ty: Type) -> Expr {
        Expr { node, ty: Ty::T(ty) }
    }
}
