// SPDX-License-Identifier: BSD-2-Clause
//! Expressions: precedence, types and conversions. `want` is the type that the context prefers; it determines the types
//! of literals, and whether `+` joins text.

use tables::vclvars::{Type, Var};

use crate::code::DiagnosticCode;
use crate::ir::{Expr, IrNode};
use crate::program::{Compare, Math};
use crate::symbols::Ty;
use crate::token::Tok;
use crate::vcc::{Vcc, VccResult};

/// Typed uses of `+` and `-`: operator, types of the operands, type of the result. Any other `+` joins text.
const ADDS: [(Math, Type, Type, Type); 15] = {
    use Math::{Add, Sub};
    use Type::{Bytes, Duration, Int, Real, Time};
    [
        (Add, Bytes, Bytes, Bytes),
        (Sub, Bytes, Bytes, Bytes),
        (Add, Duration, Duration, Duration),
        (Sub, Duration, Duration, Duration),
        (Add, Int, Int, Int),
        (Sub, Int, Int, Int),
        (Add, Int, Real, Real),
        (Sub, Int, Real, Real),
        (Add, Real, Int, Real),
        (Sub, Real, Int, Real),
        (Add, Real, Real, Real),
        (Sub, Real, Real, Real),
        (Sub, Time, Time, Duration),
        (Add, Time, Duration, Time),
        (Sub, Time, Duration, Time),
    ]
};

fn is_text(ty: Type) -> bool {
    matches!(ty, Type::String | Type::Strands)
}

fn has_text_form(ty: Ty) -> bool {
    use Type::*;
    matches!(
        ty,
        Ty::T(
            Acl | Backend
                | Blob
                | Bool
                | Bytes
                | Duration
                | Header
                | Int
                | Ip
                | Real
                | Stevedore
                | Strands
                | Strings
                | Time
        )
    )
}

/// The type that `*` and `/` want on their right.
fn factor_type(ty: Ty) -> Option<Type> {
    match ty {
        Ty::T(Type::Bytes | Type::Duration | Type::Real) => Some(Type::Real),
        Ty::T(Type::Int) => Some(Type::Int),
        _ => None,
    }
}

const COMPARISONS: [(Tok, Compare); 6] = [
    (Tok::Eq, Compare::Equal),
    (Tok::Ne, Compare::NotEqual),
    (Tok::Le, Compare::LessOrEqual),
    (Tok::Ge, Compare::GreaterOrEqual),
    (Tok::C(b'<'), Compare::Less),
    (Tok::C(b'>'), Compare::Greater),
];

impl Vcc<'_> {
    /// Compiles an expression of type `want`, conversions included.
    pub fn expr(&mut self, want: Type) -> VccResult<Expr> {
        let first = self.at;
        // A body may be a BLOB, so varnishd 7.1.1 refuses `resp.status + " "` for it; 6.x accepted that as text.
        let hoped = if is_text(want) || want == Type::Body { Type::Strings } else { want };
        let mut e = self.any(hoped)?;
        if e.ty == want {
            return Ok(e);
        }
        if is_text(want) {
            if !(e.ty == Type::Strings) {
                e = self.text_form(e, first)?;
            }
            e.ty = Ty::T(want);
            return Ok(e);
        }
        if want == Type::Body {
            if !(e.ty == Type::Blob || e.ty == Type::Strings) {
                e = self.text_form(e, first)?;
            }
            return Ok(e);
        }
        if want == Type::Bool {
            e = self.truth_of(e);
        }
        self.type_check(e, want, first)
    }

    fn type_check(&mut self, e: Expr, want: Type, first: usize) -> VccResult<Expr> {
        if e.ty == want {
            return Ok(e);
        }
        self.hint_types(e.ty, want, first);
        let wanted = Ty::T(want).user_name();
        self.fail_since(
            DiagnosticCode::Type,
            &format!("Expression has type {}, expected {wanted}\n", e.ty.user_name()),
            first,
        )
    }

    fn text_form(&mut self, e: Expr, first: usize) -> VccResult<Expr> {
        if !has_text_form(e.ty) {
            return self.fail_since(
                DiagnosticCode::Type,
                &format!("Cannot convert {} to STRING.\n", e.ty.user_name()),
                first,
            );
        }
        Ok(text_of(e))
    }

    fn truth_of(&mut self, e: Expr) -> Expr {
        match e.ty {
            Ty::T(Type::Backend | Type::Int | Type::Duration | Type::Strings) => {
                Expr::new(IrNode::Truth(Box::new(e)), Type::Bool)
            }
            _ => e,
        }
    }

    pub fn any(&mut self, want: Type) -> VccResult<Expr> {
        self.enter()?;
        let e = self.logic(want, Tok::Or, "||", Self::all, IrNode::Any);
        self.leave();
        e
    }

    fn all(&mut self, want: Type) -> VccResult<Expr> {
        self.logic(want, Tok::And, "&&", Self::not, IrNode::All)
    }

    fn logic(
        &mut self,
        want: Type,
        op: Tok,
        name: &str,
        part: fn(&mut Self, Type) -> VccResult<Expr>,
        make: fn(Vec<Expr>) -> IrNode,
    ) -> VccResult<Expr> {
        let first = self.at;
        let e = part(self, want)?;
        if self.tok() != op {
            return Ok(e);
        }
        let preceded = self.wording("preceeded", "preceded");
        let mut parts = vec![self.boolean(e, first, &format!("'{name}' must be {preceded} by BOOL"))?];
        while self.tok() == op {
            self.next();
            let first = self.at;
            let e = part(self, want)?;
            parts.push(self.boolean(e, first, &format!("'{name}' must be followed by BOOL"))?);
        }
        Ok(Expr::new(make(parts), Type::Bool))
    }

    fn boolean(&mut self, e: Expr, first: usize, complaint: &str) -> VccResult<Expr> {
        let e = self.truth_of(e);
        if e.ty == Type::Bool {
            return Ok(e);
        }
        self.fail_since(DiagnosticCode::Type, &format!("{complaint}, found {}.\n", e.ty.user_name()), first)
    }

    fn not(&mut self, want: Type) -> VccResult<Expr> {
        let first = self.at;
        if !self.is_c(b'!') {
            return self.comparison(want);
        }
        self.next();
        let e = self.comparison(want)?;
        let e = self.boolean(e, first, "'!' must be followed by BOOL")?;
        Ok(Expr::new(IrNode::Not(Box::new(e)), Type::Bool))
    }

    fn comparison(&mut self, want: Type) -> VccResult<Expr> {
        use Type::*;
        let e = self.sum(want)?;
        let tok = self.tok();
        let order = COMPARISONS.iter().find(|(t, _)| *t == tok).map(|(_, c)| *c);
        let equality = matches!(tok, Tok::Eq | Tok::Ne);
        let matching = matches!(tok, Tok::C(b'~') | Tok::NoMatch);
        match (e.ty, order) {
            (Ty::T(Int | Duration | Bytes | Real | Time | Strings), Some(how)) => self.compare(e, how),
            (Ty::T(Backend | Acl | Probe | Stevedore | Sub | Instance | Bool | Ip), Some(how)) if equality => {
                self.compare(e, how)
            }
            (Ty::T(Ip), None) if matching => self.matches(e, Acl),
            (Ty::T(Strings), None) if matching => self.matches(e, Regex),
            (_, None) if !matching => Ok(e),
            _ => {
                let op = self.text_of(&self.token());
                self.fail(DiagnosticCode::Type, &format!("Operator {op} not possible on {}\n", e.ty.user_name()))
            }
        }
    }

    fn compare(&mut self, e: Expr, how: Compare) -> VccResult<Expr> {
        let op = self.token();
        let Ty::T(ty) = e.ty else { return self.fail(DiagnosticCode::Type, "Operator not possible here\n") };
        self.next();
        let first = self.at;
        let (mut e, mut e2) = (e, self.sum(ty)?);
        if e2.ty == Type::Int || is_id(&e) && is_id(&e2) {
            (e, e2) = (id_number(e), id_number(e2));
        }
        // Up to Varnish 5.x, a backend compared with a text stood for its name.
        if ty == Type::Strings && e2.ty == Type::Backend && matches!(how, Compare::Equal | Compare::NotEqual) {
            e2 = text_of(e2);
        }
        if matches!(how, Compare::Equal | Compare::NotEqual) {
            self.remark_pattern(first, &e, &e2);
        }
        if e2.ty != e.ty {
            if e.ty == Type::Strings && e2.ty == Type::Int && !matches!(how, Compare::Equal | Compare::NotEqual) {
                self.hint("Texts have no order: std.integer(TEXT, 0) makes a number of one.");
            }
            self.hint_compared(e.ty, e2.ty, first);
            let op_text = self.text_of(&op);
            let (a, b) = (e.ty.user_name(), e2.ty.user_name());
            return self.fail_at(
                DiagnosticCode::Type,
                &format!("Comparison of different types: {a} '{op_text}' {b}\n"),
                &op,
            );
        }
        Ok(Expr::new(IrNode::Compare(how, Box::new((e, e2))), Type::Bool))
    }

    fn matches(&mut self, e: Expr, right: Type) -> VccResult<Expr> {
        let negated = self.tok() == Tok::NoMatch;
        self.next();
        let first = self.at;
        let e2 = self.postfix(right)?;
        let e2 = self.type_check(e2, right, first)?;
        let pair = Box::new((e, e2));
        let node = if right == Type::Acl { IrNode::InAcl(pair) } else { IrNode::Match(pair) };
        let e = Expr::new(node, Type::Bool);
        Ok(if negated { Expr::new(IrNode::Not(Box::new(e)), Type::Bool) } else { e })
    }

    /// Compiles a chain of `+` and `-`.
    fn sum(&mut self, want: Type) -> VccResult<Expr> {
        let first = self.at;
        let mut e = self.product(want)?;
        while matches!(self.tok(), Tok::C(b'+' | b'-')) {
            let op = self.token();
            let at = self.at;
            let math = if self.is_c(b'+') { Math::Add } else { Math::Sub };
            if math == Math::Sub {
                e = id_number(e);
            }
            let known = ADDS.iter().any(|(m, a, ..)| *m == math && e.ty == *a);
            self.next();
            let right = match e.ty {
                _ if !known && want == Type::Strings => Type::Strings,
                Ty::T(ty) => ty,
                Ty::Object(..) => Type::Instance,
            };
            let e2 = self.product(right)?;
            let row = ADDS.iter().find(|(m, a, b, _)| *m == math && e.ty == *a && e2.ty == *b);
            if let Some((_, _, _, result)) = row {
                e = chain(e, math, *result, e2);
            } else if math == Math::Add && (e.ty == Type::Strings || want == Type::Strings) {
                let left = if e.ty == Type::Strings { e } else { self.text_form(e, first)? };
                let right = if e2.ty == Type::Strings { e2 } else { self.text_form(e2, at + 1)? };
                e = self.join(left, right);
            } else {
                let op = self.text_of(&op);
                let (a, b) = (e.ty.user_name(), e2.ty.user_name());
                return self.fail_since(DiagnosticCode::Type, &format!("{a} {op} {b} not possible.\n"), at);
            }
        }
        Ok(e)
    }

    /// Joins two texts; adjacent constants become one.
    fn join(&mut self, left: Expr, right: Expr) -> Expr {
        let mut parts = match left.node {
            IrNode::Join(parts) => parts,
            _ => vec![left],
        };
        let more = match right.node {
            IrNode::Join(more) => more,
            _ => vec![right],
        };
        for part in more {
            if let (Some(IrNode::Str(a)), IrNode::Str(b)) = (parts.last().map(|p| &p.node), &part.node) {
                let both = [self.pool.text(*a), self.pool.text(*b)].concat();
                let joined = self.pool.string(&both);
                let last = parts.last_mut().expect("it has a last part");
                last.node = IrNode::Str(joined);
            } else {
                parts.push(part);
            }
        }
        if parts.len() == 1 {
            return parts.pop().expect("one part");
        }
        Expr::new(IrNode::Join(parts), Type::Strings)
    }

    /// Compiles a chain of `*`, `/` and `%`.
    fn product(&mut self, want: Type) -> VccResult<Expr> {
        let mut e = self.postfix(want)?;
        while let Tok::C(c @ (b'*' | b'/' | b'%')) = self.tok() {
            let op = self.token();
            e = id_number(e);
            if c == b'%' && !(e.ty == Type::Int) {
                return self.fail(DiagnosticCode::Type, "Operator % only possible on INT.\n");
            }
            let Some(factor) = factor_type(e.ty) else {
                let name = e.ty.user_name();
                return self
                    .fail(DiagnosticCode::Type, &format!("Operator {} not possible on type {name}.\n", c as char));
            };
            self.next();
            let e2 = self.postfix(factor)?;
            if !(e2.ty == Type::Int || e2.ty == factor) {
                let (a, b) = (e.ty.user_name(), e2.ty.user_name());
                return self.fail_at(DiagnosticCode::Type, &format!("{a} {} {b} not possible.\n", c as char), &op);
            }
            let math = match c {
                b'*' => Math::Mul,
                b'/' => Math::Div,
                _ => Math::Rem,
            };
            let Ty::T(result) = e.ty else { return self.fail(DiagnosticCode::Type, "Operator not possible here\n") };
            e = chain(e, math, result, e2);
        }
        Ok(e)
    }
}

/// The number that a transaction id is, which the releases before 7.3 have as a text. Any other expression as it is.
fn id_number(e: Expr) -> Expr {
    if is_id(&e)
        && let IrNode::Text(inner) = e.node
    {
        *inner
    } else {
        e
    }
}

fn is_id(e: &Expr) -> bool {
    matches!(&e.node, IrNode::Text(inner) if matches!(inner.node, IrNode::Var(Var::ReqXid | Var::BereqXid | Var::SessXid)))
}

pub(crate) fn text_of(e: Expr) -> Expr {
    Expr::new(IrNode::Text(Box::new(e)), Type::Strings)
}

/// Chains are evaluated from left to right, so the result of a chain can always be extended.
fn chain(e: Expr, math: Math, result: Type, right: Expr) -> Expr {
    let (first, mut steps) = match e.node {
        IrNode::Chain(first, steps) => (first, steps),
        node => (Box::new(Expr { node, ty: e.ty }), Vec::new()),
    };
    steps.push((math, result, right));
    Expr::new(IrNode::Chain(first, steps), result)
}
