// SPDX-License-Identifier: BSD-2-Clause
//! Typed expressions, between the parser and the bytecode.

use tables::vclvars::{HeadId, Type, Var};

use crate::program::{Compare, Math};
use crate::symbols::{SymId, Ty};

/// An expression with its type.
#[derive(Debug)]
pub(crate) struct Expr {
    pub node: Node,
    pub ty: Ty,
}

#[derive(Debug)]
pub(crate) enum Node {
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
    /// A field's name, not its value.
    Header(HeadId, u16),
    Var(Var),
    Store(u32),
    Backend(SymId),
    DefaultBackend,
    Probe(SymId),
    DefaultProbe,
    Acl(SymId),
    Sub(SymId),
    /// Several texts, joined.
    Join(Vec<Expr>),
    /// A value in its text form.
    Text(Box<Expr>),
    Not(Box<Expr>),
    All(Vec<Expr>),
    Any(Vec<Expr>),
    /// Whether a value counts as true.
    Truth(Box<Expr>),
    Compare(Compare, Box<(Expr, Expr)>),
    Match(Box<(Expr, Expr)>),
    InAcl(Box<(Expr, Expr)>),
    /// A first operand, and what is done with it from left to right; each step with its result's type.
    Chain(Box<Expr>, Vec<(Math, Type, Expr)>),
    Negate(Box<Expr>),
    Regsub(bool, Box<[Expr; 3]>),
    Case(bool, Box<Expr>),
    Resolve(Box<Expr>),
    StoreProperty(u8, Box<Expr>),
    Call(u32, Vec<Expr>),
    /// An object, before the method that is called on it.
    Object(u32),
}

impl Expr {
    pub fn new(node: Node, ty: Type) -> Expr {
        Expr { node, ty: Ty::T(ty) }
    }
}
