// SPDX-License-Identifier: BSD-2-Clause
//! Expressions of a tag: variables, texts, numbers, operators between blanks, parentheses.

/// Parentheses and `!` within each other, and operators of one expression.
const MAX: usize = 64;

#[derive(Debug, PartialEq, Clone)]
pub(super) enum Expr {
    /// A path; `.` is the context.
    Path(String),
    /// `$first` and the like.
    Own(Own),
    Text(String),
    Number(f64),
    Not(Box<Expr>),
    Two(Box<Expr>, Op, Box<Expr>),
}

/// Variables about a place in a section.
#[derive(Debug, PartialEq, Clone, Copy)]
pub(super) enum Own {
    First,
    Last,
    Type,
    Pos,
    Size,
}

#[derive(Debug, PartialEq, Clone, Copy)]
pub(super) enum Op {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl Op {
    fn parse(word: &str) -> Option<(u8, Op)> {
        Some(match word {
            "||" => (1, Op::Or),
            "&&" => (2, Op::And),
            "==" => (3, Op::Equal),
            "!=" => (3, Op::Unequal),
            "<" => (4, Op::Less),
            "<=" => (4, Op::LessEqual),
            ">" => (4, Op::Greater),
            ">=" => (4, Op::GreaterEqual),
            "+" => (5, Op::Add),
            "-" => (5, Op::Subtract),
            "*" => (6, Op::Multiply),
            "/" => (6, Op::Divide),
            "%" => (6, Op::Modulo),
            _ => return None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Token<'a> {
    Open,
    Close,
    Not,
    Text(&'a str),
    Word(&'a str),
}

const BAD: &str = "a tag is neither a variable nor an expression";

impl Expr {
    pub(super) fn parse(text: &str) -> Result<Expr, &'static str> {
        let tokens = tokens(text)?;
        if tokens.len() > MAX * 4 {
            return Err("an expression is too long");
        }
        let mut parser = Parser { tokens: &tokens, depth: 0 };
        let expr = parser.binary(1)?;
        if parser.tokens.is_empty() { Ok(expr) } else { Err(BAD) }
    }
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, &'static str> {
    let (mut rest, mut all) = (text.trim_start(), Vec::new());
    while let Some(first) = rest.chars().next() {
        let (token, len) = match first {
            '(' => (Token::Open, 1),
            ')' => (Token::Close, 1),
            '"' => {
                let end = rest[1..].find('"').ok_or("a text has no end")?;
                (Token::Text(&rest[1..1 + end]), end + 2)
            }
            '!' if !rest[1..].starts_with('=') => (Token::Not, 1),
            _ => {
                let is_end = |c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '{' | '}');
                let len = rest.find(is_end).unwrap_or(rest.len());
                if len == 0 {
                    return Err(BAD);
                }
                (Token::Word(&rest[..len]), len)
            }
        };
        all.push(token);
        rest = rest[len..].trim_start();
    }
    // `$ abc` is `$abc`.
    if let [Token::Word("$"), Token::Word(name)] = all[..] {
        return Ok(vec![Token::Word(match name {
            "first" => "$first",
            "last" => "$last",
            "type" => "$type",
            "pos" => "$pos",
            "size" => "$size",
            _ => return Err(BAD),
        })]);
    }
    Ok(all)
}

struct Parser<'t, 'a> {
    tokens: &'t [Token<'a>],
    depth: usize,
}

impl Parser<'_, '_> {
    fn binary(&mut self, least: u8) -> Result<Expr, &'static str> {
        let mut left = self.unary()?;
        while let Some(Token::Word(word)) = self.tokens.first()
            && let Some((binds, op)) = Op::parse(word)
            && binds >= least
        {
            self.tokens = &self.tokens[1..];
            let right = self.binary(binds + 1)?;
            left = Expr::Two(Box::new(left), op, Box::new(right));
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Expr, &'static str> {
        let (first, rest) = self.tokens.split_first().ok_or(BAD)?;
        self.tokens = rest;
        match first {
            Token::Text(text) => Ok(Expr::Text((*text).to_owned())),
            Token::Word(word) => Self::word(word),
            Token::Close => Err(BAD),
            Token::Open | Token::Not => {
                self.depth += 1;
                if self.depth > MAX {
                    return Err("an expression is too deep");
                }
                if *first == Token::Not {
                    return Ok(Expr::Not(Box::new(self.unary()?)));
                }
                let inner = self.binary(1)?;
                match self.tokens.split_first() {
                    Some((Token::Close, rest)) => self.tokens = rest,
                    _ => return Err(BAD),
                }
                Ok(inner)
            }
        }
    }

    fn word(word: &str) -> Result<Expr, &'static str> {
        let own = match word {
            "$first" => Some(Own::First),
            "$last" => Some(Own::Last),
            "$type" => Some(Own::Type),
            "$pos" => Some(Own::Pos),
            "$size" => Some(Own::Size),
            _ if word.starts_with('$') => return Err(BAD),
            _ => None,
        };
        let digits = word.strip_suffix(['f', 'd']);
        let is_number = |digits: &&str| {
            let unsigned = digits.strip_prefix('-').unwrap_or(digits);
            unsigned.starts_with(|c: char| c.is_ascii_digit())
                && unsigned.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        };
        Ok(match (own, digits.filter(is_number).and_then(|digits| digits.parse().ok())) {
            (Some(own), _) => Expr::Own(own),
            (None, Some(number)) => Expr::Number(number),
            (None, None) if Op::parse(word).is_some() => return Err(BAD),
            (None, None) => Expr::Path(word.to_owned()),
        })
    }
}
