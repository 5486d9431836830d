// SPDX-License-Identifier: BSD-2-Clause
//! The statements of a text's subroutines as written, for tools that explain a VCL. Complete only for VCL that
//! compiles; other text yields what can be read.

use crate::outline::patient_tokens;
use crate::token::{Tok, Token};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubDefinition {
    pub name: String,
    /// Byte offset of the name in the text.
    pub at: usize,
    pub line: u32,
    pub body: Vec<Statement>,
}

/// A statement. Expressions are quoted without comments and with single blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    pub line: u32,
    pub what: StatementKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementKind {
    /// Branches with their conditions; `else` has none.
    If(Vec<(Option<String>, Vec<Statement>)>),
    Block(Vec<Statement>),
    /// `set name = value;`, or another operator.
    Set {
        name: String,
        op: String,
        value: String,
    },
    Unset(String),
    Call(String),
    /// `return (action(arguments));`, without the outer brackets.
    Return {
        /// The action; empty for `return;`.
        action: String,
        arguments: String,
    },
    /// A call `name(arguments);`, or a `new`.
    Other {
        name: String,
        arguments: String,
    },
}

/// Maximum nesting, the same as the compiler's.
const MAX_DEPTH: usize = 100;

pub fn read(text: &[u8]) -> Vec<SubDefinition> {
    let (tokens, _) = patient_tokens(text);
    let mut reader = Reader { text, tokens: &tokens, at: 0, line: (0, 1) };
    let mut out = Vec::new();
    let mut depth = 0usize;
    while reader.at < tokens.len() {
        let is_sub = depth == 0 && reader.word(0) == b"sub" && reader.is_open(2);
        if is_sub {
            let name = tokens[reader.at + 1];
            reader.at += 2;
            let line = reader.line_of(&name);
            out.push(SubDefinition {
                name: reader.slice(&name, &name),
                at: name.start as usize,
                line,
                body: reader.block(0),
            });
            continue;
        }
        match tokens[reader.at].tok {
            Tok::C(b'{') => depth += 1,
            Tok::C(b'}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        reader.at += 1;
    }
    out
}

struct Reader<'a> {
    text: &'a [u8],
    tokens: &'a [Token],
    at: usize,
    /// The last byte offset whose line was counted, and that line.
    line: (usize, u32),
}

impl Reader<'_> {
    fn word(&self, ahead: usize) -> &[u8] {
        self.tokens.get(self.at + ahead).map_or(b"", |t| &self.text[t.start as usize..t.end as usize])
    }

    fn is_open(&self, ahead: usize) -> bool {
        self.tokens.get(self.at + ahead).is_some_and(|t| t.tok == Tok::C(b'{'))
    }

    fn line_of(&mut self, token: &Token) -> u32 {
        let (from, to) = (self.line.0, token.start as usize);
        // Callers ask in order, so the text is counted once.
        let (from, line) = if to < from { (0, 1) } else { self.line };
        let line = line + self.text[from..to].iter().filter(|c| **c == b'\n').count() as u32;
        self.line = (to, line);
        line
    }

    /// The text from one token to another, with gaps as one blank.
    fn slice(&self, first: &Token, last: &Token) -> String {
        let mut out = Vec::new();
        let mut end = first.start;
        let inside = self.tokens.iter().skip_while(|t| t.start < first.start).take_while(|t| t.end <= last.end);
        for token in inside {
            if token.start > end {
                out.push(b' ');
            }
            out.extend_from_slice(&self.text[token.start as usize..token.end as usize]);
            end = token.end;
        }
        String::from_utf8_lossy(&out).into_owned()
    }

    /// The text from the current token to before `end`.
    fn until(&mut self, end: usize) -> String {
        let first = self.at;
        self.at = end;
        match (self.tokens.get(first), end.checked_sub(1).and_then(|n| self.tokens.get(n))) {
            (Some(a), Some(b)) if first < end => self.slice(a, b),
            _ => String::new(),
        }
    }

    fn close(&self, open: u8, close: u8) -> usize {
        let mut depth = 0usize;
        for (n, token) in self.tokens.iter().enumerate().skip(self.at) {
            match token.tok {
                Tok::C(c) if c == open => depth += 1,
                Tok::C(c) if c == close => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return n;
                    }
                }
                _ => {}
            }
        }
        self.tokens.len()
    }

    /// The text in the brackets that open here; moves past them.
    fn brackets(&mut self) -> String {
        let end = self.close(b'(', b')');
        self.at += 1;
        let inner = self.until(end);
        self.at = end + 1;
        inner
    }

    fn semicolon(&self) -> usize {
        let rest = self.tokens.iter().enumerate().skip(self.at);
        rest.into_iter().find(|(_, t)| t.tok == Tok::C(b';')).map_or(self.tokens.len(), |(n, _)| n)
    }

    fn block(&mut self, depth: usize) -> Vec<Statement> {
        if depth > MAX_DEPTH {
            self.at = self.close(b'{', b'}') + 1;
            return Vec::new();
        }
        self.at += 1;
        let mut out = Vec::new();
        while let Some(token) = self.tokens.get(self.at).copied() {
            let line = self.line_of(&token);
            let what = match token.tok {
                Tok::C(b'}') => {
                    self.at += 1;
                    break;
                }
                Tok::C(b'{') => StatementKind::Block(self.block(depth + 1)),
                _ => self.statement(depth),
            };
            out.push(Statement { line, what });
        }
        out
    }

    fn statement(&mut self, depth: usize) -> StatementKind {
        match self.word(0) {
            b"if" => return StatementKind::If(self.branches(depth)),
            b"set" => {
                let ops = [Tok::C(b'='), Tok::AddTo, Tok::SubFrom, Tok::MulBy, Tok::DivBy];
                let (first, end) = (self.at + 1, self.semicolon());
                let op = (first..end).find(|n| ops.contains(&self.tokens[*n].tok)).unwrap_or(end);
                self.at = first;
                let name = self.until(op);
                let op = self.until((op + 1).min(end));
                let value = self.until(end);
                self.at = end + 1;
                return StatementKind::Set { name, op, value };
            }
            _ => {}
        }
        let end = self.semicolon();
        let what = match self.word(0) {
            b"unset" | b"remove" => {
                self.at += 1;
                StatementKind::Unset(self.until(end))
            }
            b"call" => {
                self.at += 1;
                StatementKind::Call(self.until(end))
            }
            b"return" => {
                self.at += 1;
                let inner = if self.word(0) == b"(" { self.brackets() } else { String::new() };
                let (action, arguments) = inner.split_once('(').unwrap_or((&inner, ""));
                let arguments = arguments.trim().strip_suffix(')').unwrap_or(arguments).trim();
                StatementKind::Return { action: action.trim().to_owned(), arguments: arguments.to_owned() }
            }
            _ => {
                let open = (self.at..end).find(|n| self.tokens[*n].tok == Tok::C(b'('));
                let name = self.until(open.unwrap_or(end));
                let arguments = if open.is_some() { self.brackets() } else { String::new() };
                StatementKind::Other { name: name.trim().to_owned(), arguments }
            }
        };
        self.at = end + 1;
        what
    }

    fn branches(&mut self, depth: usize) -> Vec<(Option<String>, Vec<Statement>)> {
        let mut out = Vec::new();
        self.at += 1;
        loop {
            let condition = self.brackets();
            out.push((Some(condition), self.block(depth + 1)));
            match (self.word(0), self.word(1)) {
                (b"elsif" | b"elseif" | b"elif", _) => self.at += 1,
                (b"else", b"if") => self.at += 2,
                (b"else", _) => {
                    self.at += 1;
                    out.push((None, self.block(depth + 1)));
                    return out;
                }
                _ => return out,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_read_as_written() {
        let text = b"vcl 4.1;\nacl a { \"x\"; }\nsub vcl_recv {\n  if (req.url ~ \"}\" && # c\n    !req.http.a) {\n    set req.http.b += \"1\" + f(2);\n  } else if (x) { unset req.http.c; }\n  else { { call d; } }\n  std.log(\"e\");\n  return (synth(405, \"No\"));\n}\nsub d { return; }\n";
        let subs = read(text);
        assert_eq!(subs.iter().map(|s| (s.name.as_str(), s.line)).collect::<Vec<_>>(), [("vcl_recv", 3), ("d", 12)]);
        let [first, log, last] = &subs[0].body[..] else { panic!("{subs:?}") };
        let StatementKind::If(branches) = &first.what else { panic!("{first:?}") };
        assert_eq!(branches[0].0.as_deref(), Some("req.url ~ \"}\" && !req.http.a"));
        let set = StatementKind::Set { name: "req.http.b".into(), op: "+=".into(), value: "\"1\" + f(2)".into() };
        assert_eq!(branches[0].1, [Statement { line: 6, what: set }]);
        assert_eq!(branches[1].1[0].what, StatementKind::Unset("req.http.c".into()));
        assert!(
            matches!(&branches[2].1[0].what, StatementKind::Block(inner) if inner[0].what == StatementKind::Call("d".into()))
        );
        assert_eq!(log.what, StatementKind::Other { name: "std.log".into(), arguments: "\"e\"".into() });
        assert_eq!(last.line, 10);
        assert_eq!(last.what, StatementKind::Return { action: "synth".into(), arguments: "405, \"No\"".into() });
        assert_eq!(subs[1].body[0].what, StatementKind::Return { action: String::new(), arguments: String::new() });
        for cut in 0..text.len() {
            read(&text[..cut]);
        }
    }
}
