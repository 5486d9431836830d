// SPDX-License-Identifier: BSD-2-Clause
//! The query language of vsl-query(7): which transactions are shown, by what their records say.

mod eval;
mod lex;
mod parse;
#[cfg(test)]
mod tests;

use tables::tags::TagMask;
use vcl_regex::Regex;

use crate::group::Txn;

/// A query; several lines are alternatives.
#[derive(Debug)]
pub struct Query(Option<Expr>);

impl Query {
    /// Reads a query. With `caseless` (-C) texts and regexes don't heed case.
    ///
    /// # Errors
    /// What is wrong and where, in a few lines.
    pub fn new(text: &str, caseless: bool) -> Result<Query, String> {
        let tokens = lex::tokens(text)?;
        parse::parse(text, &tokens, caseless).map(Query)
    }

    pub fn matches(&self, group: &[Txn<'_>]) -> bool {
        self.0.as_ref().is_none_or(|expr| eval::eval(expr, group))
    }
}

#[derive(Debug)]
enum Expr {
    Or(Vec<Expr>),
    And(Vec<Expr>),
    Not(Box<Expr>),
    /// Some record of some transaction passes the test.
    Record(Box<(Operand, Test)>),
    /// The number of some transaction compares so.
    Vxid(Compare, i64),
}

#[derive(Debug)]
struct Operand {
    tags: TagMask,
    level: Option<Level>,
    /// The text before a colon, as headers have one.
    prefix: Option<String>,
    /// A word of the record, from 1.
    field: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum Level {
    Exactly(i64),
    UpTo(i64),
    From(i64),
}

#[derive(Debug)]
enum Test {
    Exists,
    Int(Compare, i64),
    Float(Compare, FloatOperand),
    Text { equal: bool, text: String, caseless: bool },
    Regex { matches: bool, regex: Box<Regex> },
}

/// A number of a query: as tools of 7.1 read it, with at most three digits behind its point, and as later ones do.
#[derive(Clone, Copy, Debug)]
struct FloatOperand {
    seven: f64,
    later: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Compare {
    Eq,
    Ne,
    Lt,
    Gt,
    Le,
    Ge,
}

impl Compare {
    fn holds<T: PartialOrd>(self, a: T, b: T) -> bool {
        match self {
            Compare::Eq => a == b,
            Compare::Ne => a != b,
            Compare::Lt => a < b,
            Compare::Gt => a > b,
            Compare::Le => a <= b,
            Compare::Ge => a >= b,
        }
    }
}
