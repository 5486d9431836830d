// SPDX-License-Identifier: BSD-2-Clause
//! A query's grammar: or, and, not, groups, comparisons.

use tables::tags::TagMask;

use super::lex::{QueryToken, QueryTokenKind, place};
use super::{Compare, Expr, FloatOperand, Level, Operand, Test};
use crate::names::{self, NameError};
use crate::{number, select};

const MAX_DEPTH: u32 = 60;

pub fn parse(text: &str, tokens: &[QueryToken], caseless: bool) -> Result<Option<Expr>, String> {
    let mut parser = Parser { text, tokens, at: 0, depth: 0, caseless };
    let mut all = Vec::new();
    loop {
        while parser.here().kind == QueryTokenKind::End {
            if parser.at + 1 == tokens.len() {
                return Ok(if all.is_empty() { None } else { Some(any(all)) });
            }
            parser.at += 1;
        }
        let line = parser.or()?;
        if parser.here().kind != QueryTokenKind::End {
            return Err(parser.error("Expected EOI got"));
        }
        all.push(line);
    }
}

fn any(mut members: Vec<Expr>) -> Expr {
    if members.len() == 1 { members.remove(0) } else { Expr::Or(members) }
}

struct Parser<'a> {
    text: &'a str,
    /// The last one is an end, and is never passed.
    tokens: &'a [QueryToken],
    at: usize,
    depth: u32,
    caseless: bool,
}

impl<'a> Parser<'a> {
    fn here(&self) -> &'a QueryToken {
        &self.tokens[self.at]
    }

    fn is(&self, sign: &str) -> bool {
        matches!(self.here().kind, QueryTokenKind::Sign(here) if here == sign)
    }

    fn next(&mut self) -> Result<(), String> {
        if self.at + 1 == self.tokens.len() {
            return Err("Ran out of input, something is missing or maybe unbalanced parenthesis\n".into());
        }
        self.at += 1;
        Ok(())
    }

    fn word(&self) -> &'a str {
        &self.text[self.here().at.clone()]
    }

    fn error(&self, what: &str) -> String {
        let got = match self.here().kind {
            QueryTokenKind::End => "end of input".to_owned(),
            _ => format!("'{}'", self.word()),
        };
        format!("{what} {got} {}", place(self.text, &self.here().at, None))
    }

    fn complain(&self, what: &str) -> String {
        format!("{what} {}", place(self.text, &self.here().at, None))
    }

    /// The value here, or an error that says what should stand here.
    fn value(&self, what: &str) -> Result<&'a str, String> {
        match self.here().kind {
            QueryTokenKind::Value => Ok(&self.here().value),
            _ => Err(self.complain(&format!("Expected {what} got '{}'", self.word()))),
        }
    }

    fn skip(&mut self, sign: &'static str) -> Result<(), String> {
        if !self.is(sign) {
            return Err(self.error(&format!("Expected '{sign}' got")));
        }
        self.next()
    }

    fn or(&mut self) -> Result<Expr, String> {
        let mut members = vec![self.and()?];
        while self.is("or") {
            self.next()?;
            members.push(self.and()?);
        }
        Ok(any(members))
    }

    fn and(&mut self) -> Result<Expr, String> {
        let mut members = vec![self.not()?];
        while self.is("and") {
            self.next()?;
            members.push(self.not()?);
        }
        Ok(if members.len() == 1 { members.remove(0) } else { Expr::And(members) })
    }

    fn not(&mut self) -> Result<Expr, String> {
        if !self.is("not") {
            return self.group();
        }
        self.next()?;
        Ok(Expr::Not(Box::new(self.group()?)))
    }

    fn group(&mut self) -> Result<Expr, String> {
        if !self.is("(") {
            return self.comparison();
        }
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.complain("Too many groups in groups"));
        }
        self.next()?;
        let inner = self.or()?;
        self.skip(")")?;
        self.depth -= 1;
        Ok(inner)
    }

    fn comparison(&mut self) -> Result<Expr, String> {
        let LeftSide { operand, is_vxid } = self.left()?;
        let operator = match self.here().kind {
            QueryTokenKind::Sign(sign) => sign,
            QueryTokenKind::End => "",
            QueryTokenKind::Value => "value",
        };
        let compare = match operator {
            "==" => Some(Compare::Eq),
            "!=" => Some(Compare::Ne),
            "<" => Some(Compare::Lt),
            ">" => Some(Compare::Gt),
            "<=" => Some(Compare::Le),
            ">=" => Some(Compare::Ge),
            _ => None,
        };
        if is_vxid && compare.is_none() {
            return Err(self.complain(&format!("Expected vxid operator got '{}'", self.word())));
        }
        let test = match (compare, operator) {
            (Some(compare), _) => {
                self.next()?;
                match (self.number()?, is_vxid) {
                    (Number::Int(n), true) => {
                        self.next()?;
                        return Ok(Expr::Vxid(compare, n));
                    }
                    (Number::Float(_), true) => {
                        let what = format!("Expected integer got '{}'", self.word());
                        return Err(format!("{what} {}", place(self.text, &self.here().at, Some(0))));
                    }
                    (Number::Int(n), false) => Test::Int(compare, n),
                    (Number::Float(x), false) => Test::Float(compare, x),
                }
            }
            (None, "" | "and" | "or" | ")") => return Ok(Expr::Record(Box::new((operand, Test::Exists)))),
            (None, "eq" | "ne") => {
                self.next()?;
                let text = self.value("string")?.to_owned();
                Test::Text { equal: operator == "eq", text, caseless: self.caseless }
            }
            (None, "~" | "!~") => {
                self.next()?;
                Test::Regex { matches: operator == "~", regex: Box::new(self.regex()?) }
            }
            (None, _) => return Err(self.complain(&format!("Expected operator got '{}'", self.word()))),
        };
        self.next()?;
        Ok(Expr::Record(Box::new((operand, test))))
    }

    fn number(&self) -> Result<Number, String> {
        let text = self.value("number")?;
        if text.contains('.') {
            let later = number::strtod(text.trim_end());
            let seven = number::exact(text).or(later);
            let (Some(seven), Some(later)) = (seven, later.or(seven)) else {
                return Err(self.complain("Floating point parse error"));
            };
            return Ok(Number::Float(FloatOperand { seven, later }));
        }
        match number::integer(text) {
            Some((n, rest)) if rest.trim_start().is_empty() => Ok(Number::Int(n)),
            _ => Err(self.complain("Integer parse error")),
        }
    }

    fn regex(&self) -> Result<vcl_regex::Regex, String> {
        let pattern = self.value("regular expression")?;
        select::regex(pattern, self.caseless).map_err(|(at, text)| {
            format!("Regular expression error: {text} {}", place(self.text, &self.here().at, Some(at)))
        })
    }

    fn left(&mut self) -> Result<LeftSide, String> {
        let level = if self.is("{") { Some(self.level()?) } else { None };
        let mut tags = TagMask::default();
        let (mut vxids, mut names) = (0, 0);
        loop {
            if self.is("vxid") {
                vxids += 1;
            } else {
                names += 1;
                names::glob(self.value("VSL tag name")?, &mut tags).map_err(|error| {
                    self.complain(match error {
                        NameError::None => "Tag name matches zero tags",
                        NameError::Ambiguous => "Tag name is ambiguous",
                        NameError::Syntax => "Syntax error in tag name",
                    })
                })?;
            }
            self.next()?;
            if !self.is(",") {
                break;
            }
            self.next()?;
        }
        let mut operand = Operand { tags, level, prefix: None, field: None };
        if self.is(":") {
            self.next()?;
            operand.prefix = Some(self.value("string")?.to_owned());
            self.next()?;
        }
        if self.is("[") {
            operand.field = Some(self.field()?);
        }
        let has_more = operand.level.is_some() || operand.field.is_some() || names > 0;
        if vxids > 1 || (vxids == 1 && (has_more || operand.prefix.as_ref().is_some_and(|p| !p.is_empty()))) {
            return Err(self.complain("Unexpected taglist selection for vxid"));
        }
        Ok(LeftSide { operand, is_vxid: vxids == 1 })
    }

    fn level(&mut self) -> Result<Level, String> {
        self.next()?;
        let (n, rest) = number::integer(self.value("integer")?).unwrap_or((0, self.here().value.as_str()));
        if n < 0 {
            return Err(self.complain("Expected positive integer"));
        }
        let level = match rest {
            "" => Level::Exactly(n),
            "-" => Level::UpTo(n),
            "+" => Level::From(n),
            _ => return Err(self.complain("Syntax error in level limit")),
        };
        self.next()?;
        self.skip("}")?;
        Ok(level)
    }

    fn field(&mut self) -> Result<usize, String> {
        self.next()?;
        let field = match number::integer(self.value("integer")?) {
            Some((n, "")) if n > 0 => usize::try_from(n).ok(),
            _ => None,
        };
        let field = field.ok_or_else(|| self.complain("Expected positive integer"))?;
        self.next()?;
        self.skip("]")?;
        Ok(field)
    }
}

struct LeftSide {
    operand: Operand,
    is_vxid: bool,
}

enum Number {
    Int(i64),
    Float(FloatOperand),
}
