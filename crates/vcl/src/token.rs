// SPDX-License-Identifier: BSD-2-Clause
//! Tokens, and the source texts they point into.

use base::base64;

use crate::code::DiagnosticCode;
use crate::diag::{DiagnosticDraft, Fix, Hint, Span};
use crate::odd::{self, OddCharacter, OddKind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tok {
    Id,
    Int,
    Real,
    Str,
    Blob,
    InlineC,
    End,
    C(u8),
    Inc,
    Dec,
    And,
    Or,
    Le,
    Eq,
    Ne,
    Ge,
    Shr,
    Shl,
    AddTo,
    SubFrom,
    MulBy,
    DivBy,
    NoMatch,
}

pub(crate) const PAIRS: [(&[u8; 2], Tok); 15] = [
    (b"++", Tok::Inc),
    (b"--", Tok::Dec),
    (b"&&", Tok::And),
    (b"||", Tok::Or),
    (b"<=", Tok::Le),
    (b"==", Tok::Eq),
    (b"!=", Tok::Ne),
    (b">=", Tok::Ge),
    (b">>", Tok::Shr),
    (b"<<", Tok::Shl),
    (b"+=", Tok::AddTo),
    (b"-=", Tok::SubFrom),
    (b"*=", Tok::MulBy),
    (b"/=", Tok::DivBy),
    (b"!~", Tok::NoMatch),
];

pub(crate) const SINGLES: &[u8] = b"{}()*+-/%><=;!&.|~,";

impl Tok {
    pub fn expected(self) -> String {
        match self {
            Tok::Id => "ID".into(),
            Tok::Int => "CNUM".into(),
            Tok::Real => "FNUM".into(),
            Tok::Str => "CSTR".into(),
            Tok::Blob => "CBLOB".into(),
            Tok::InlineC => "CSRC".into(),
            Tok::End => "EOI".into(),
            Tok::C(c) => format!("'{}'", c as char),
            pair => {
                let text = PAIRS.iter().find(|(_, t)| *t == pair).map_or(*b"??", |(s, _)| **s);
                format!("'{}{}'", text[0] as char, text[1] as char)
            }
        }
    }
}

/// A token: a byte range of a source.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub tok: Tok,
    /// Bytes of delimiter at each end of a string.
    pub quote: u8,
    pub src: u32,
    pub start: u32,
    pub end: u32,
    /// A number's value, or a BLOB's index.
    pub num: f64,
}

impl Token {
    pub fn span(&self) -> Span {
        (self.src, self.start, self.end)
    }
}

#[derive(Debug)]
pub(crate) struct VclSource {
    pub name: String,
    pub kind: &'static str,
    pub text: Vec<u8>,
    /// The source that includes this one.
    pub parent: Option<u32>,
    /// For translated text, the original range of each piece.
    pub map: Option<crate::dialect::SourceMap>,
}

const NO_ESCAPES: &str = "Texts have no escapes: one with quotes in it stands in {\"...\"} or \"\"\"...\"\"\".\n";
const NO_BLOB: &str = "Illegal BLOB character:\nOutside of texts a ':' begins and ends a BLOB, :aGVsbG8=:; nothing else in VCL has one.\n";
const NO_TABLE: &str = "Illegal BLOB character:\nTables of pairs \"...\": \"...\" are of Fastly's VCL. Here: if and elsif, or a module: kvstore, var.\n";
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits `text`, which is source `src`, into tokens. Decoded BLOBs are appended to `blobs`.
pub(crate) fn lex(
    text: &[u8],
    src: u32,
    blobs: &mut Vec<Box<[u8]>>,
    out: &mut Vec<Token>,
) -> Result<(), DiagnosticDraft> {
    Lexer { text, src, at: 0, blobs, out }.run().map_err(|error| {
        // Non-ASCII characters may be the cause of an error that is reported before them.
        let found = if text.contains(&0) { Vec::new() } else { odd::find(text) };
        if found.is_empty() { error } else { odd_characters(text, src, &found) }
    })
}

struct Lexer<'a> {
    text: &'a [u8],
    src: u32,
    at: usize,
    blobs: &'a mut Vec<Box<[u8]>>,
    out: &'a mut Vec<Token>,
}

pub(crate) fn is_id_start(c: u8) -> bool {
    c.is_ascii_alphabetic()
}

pub(crate) fn is_id(c: u8) -> bool {
    c.is_ascii_alphanumeric() || c == b'_' || c == b'-'
}

impl Lexer<'_> {
    fn fail<T>(&self, code: DiagnosticCode, message: &str, start: usize, end: usize) -> Result<T, DiagnosticDraft> {
        Err(DiagnosticDraft::at(code, message, (self.src, start as u32, end as u32)))
    }

    fn run(&mut self) -> Result<(), DiagnosticDraft> {
        if let Some(at) = self.text.iter().position(|c| *c == 0) {
            let reason = match self.text {
                [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "This file is in UTF-16; VCL is ASCII or UTF-8.\n",
                _ => "This is a NUL byte.\n",
            };
            return self.fail(DiagnosticCode::Character, &format!("Syntax error at\n{reason}"), at, at + 1);
        }
        // Some editors write it at the beginning of a file.
        if self.text.starts_with(BYTE_ORDER_MARK) {
            self.at = BYTE_ORDER_MARK.len();
        }
        while self.at < self.text.len() {
            let rest = &self.text[self.at..];
            match rest {
                [b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c, ..] => self.at += 1,
                [b'#', ..] | [b'/', b'/', ..] => self.at += line_end(rest),
                [b'/', b'*', ..] => self.comment()?,
                [b':', ..] => self.blob()?,
                [b'"', b'"', b'"', ..] => self.delimited(3, b"\"\"\"", "long-string", Tok::Str)?,
                [b'{', b'"', ..] => self.delimited(2, b"\"}", "long-string", Tok::Str)?,
                [b'"', ..] => self.delimited(1, b"\"", "string", Tok::Str)?,
                [b'C', b'{', ..] => self.delimited(2, b"}C", "inline C source", Tok::InlineC)?,
                _ => self.word()?,
            }
        }
        self.push(Tok::End, self.text.len(), 0.0);
        Ok(())
    }

    fn push(&mut self, tok: Tok, end: usize, num: f64) {
        self.out.push(Token { tok, quote: 0, src: self.src, start: self.at as u32, end: end as u32, num });
        self.at = end;
    }

    fn comment(&mut self) -> Result<(), DiagnosticDraft> {
        let mut q = self.at + 2;
        while q < self.text.len() {
            match self.text[q..] {
                [b'/', b'*', ..] => {
                    let (first, second) = (self.at as u32, q as u32);
                    let text = "/* ... */ comment contains /*\n";
                    let mut nested = DiagnosticDraft::at(DiagnosticCode::Unclosed, text, (self.src, first, first + 2));
                    nested.show((self.src, second, second + 2));
                    return Err(nested);
                }
                [b'*', b'/', ..] => {
                    self.at = q + 2;
                    return Ok(());
                }
                _ => q += 1,
            }
        }
        self.fail(DiagnosticCode::Unclosed, "Unterminated /* ... */ comment, starting at\n", self.at, self.at + 2)
    }

    fn delimited(&mut self, len: usize, close: &[u8], what: &str, tok: Tok) -> Result<(), DiagnosticDraft> {
        let body = &self.text[self.at + len..];
        let end = match what {
            // A plain string ends on its line.
            "string" => body.iter().position(|c| matches!(c, b'"' | b'\n' | b'\r')).filter(|n| body[*n] == b'"'),
            _ => body.windows(close.len()).position(|w| w == close),
        };
        let Some(n) = end else {
            let reason = match what {
                "long-string" if len == 2 => "A text that begins with {\" ends with \"}.\n",
                "long-string" => "A text that begins with \"\"\" ends with \"\"\".\n",
                "string" if self.at > 0 && self.text[self.at - 1] == b'\\' => NO_ESCAPES,
                "string" => "A text in \"...\" ends on its line; one of several stands in {\"...\"}.\n",
                _ => "",
            };
            return self.fail(
                DiagnosticCode::Unclosed,
                &format!("Unterminated {what}, starting at\n{reason}"),
                self.at,
                self.at + len,
            );
        };
        let quote = if tok == Tok::Str { len as u8 } else { 0 };
        self.push(tok, self.at + len + n + len, 0.0);
        self.out.last_mut().expect("just pushed").quote = quote;
        Ok(())
    }

    /// Decodes a BLOB. The choice of message follows varnishd's test cases: varnishd looks only at whole groups of
    /// four, so an error in the last few bytes of a source lacks its colon.
    fn blob(&mut self) -> Result<(), DiagnosticDraft> {
        let from = self.at + 1;
        let rest = &self.text[from..];
        let stop = base64_stop(rest);
        let wholes = rest.len() - rest.len() % 4;
        let end = rest.get(stop);
        if end == Some(&b':') && stop.is_multiple_of(4) {
            let bytes = base64::decode(&rest[..stop]).expect("valid up to its stop");
            let index = self.blobs.len();
            self.blobs.push(bytes.into());
            self.push(Tok::Blob, from + stop + 1, index as f64);
            return Ok(());
        }
        let after_text = self.out.last().is_some_and(|token| token.tok == Tok::Str);
        let (text, at) = match end {
            _ if stop >= wholes => ("Missing colon at end of BLOB:\n", wholes),
            Some(b':') => ("BLOB must have n*4 base64 characters\n", stop),
            Some(b'=') => ("Wrong padding ('=') in BLOB:\n", stop),
            _ if stop > 0 => ("Illegal BLOB character:\n", stop),
            _ => (if after_text { NO_TABLE } else { NO_BLOB }, stop),
        };
        self.fail(DiagnosticCode::Blob, text, self.at, (from + at + 1).min(self.text.len()))
    }

    fn word(&mut self) -> Result<(), DiagnosticDraft> {
        let rest = &self.text[self.at..];
        if let Some((_, tok)) = PAIRS.iter().find(|(pair, _)| rest.starts_with(*pair)) {
            self.push(*tok, self.at + 2, 0.0);
        } else if SINGLES.contains(&rest[0]) {
            self.push(Tok::C(rest[0]), self.at + 1, 0.0);
        } else if is_id_start(rest[0]) {
            let n = rest.iter().take_while(|c| is_id(**c)).count();
            self.push(Tok::Id, self.at + n, 0.0);
        } else if rest[0].is_ascii_digit() {
            self.number()?;
        } else {
            let reason = match rest[0] {
                b'\'' | b'`' => "Texts stand in double quotes: \"...\".\n",
                b'\\' => NO_ESCAPES,
                b'_' => "Names begin with a letter.\n",
                _ => "",
            };
            return self.fail(DiagnosticCode::Character, &format!("Syntax error at\n{reason}"), self.at, self.at + 1);
        }
        Ok(())
    }

    /// RFC 8941 limits the digits: 15 for an integer; 12 before and 3 after a point. Varnish before 7.0 had no limit,
    /// so a number with a unit may have more; it isn't a structured header value.
    fn number(&mut self) -> Result<(), DiagnosticDraft> {
        let rest = &self.text[self.at..];
        let whole = rest.iter().take_while(|c| c.is_ascii_digit()).count();
        if rest.get(whole) != Some(&b'.') {
            if whole > 15 && !has_unit(&rest[whole..]) {
                return self.fail(DiagnosticCode::Limit, "Too many digits for integer.\n", self.at, self.at + whole);
            }
            self.no_exponent(self.at + whole)?;
            let num = number(&rest[..whole]);
            self.push(Tok::Int, self.at + whole, num);
            return Ok(());
        }
        let part = rest[whole + 1..].iter().take_while(|c| c.is_ascii_digit()).count();
        let end = whole + 1 + part;
        if (whole > 12 || part > 3) && !has_unit(&rest[end..]) {
            return self.fail(DiagnosticCode::Limit, "Too many digits for real.\n", self.at, self.at + end);
        }
        self.no_exponent(self.at + end)?;
        let num = number(&rest[..end]);
        self.push(Tok::Real, self.at + end, num);
        Ok(())
    }

    /// Refuses `1e3`, which looks like a number but is read as a number and a word.
    fn no_exponent(&self, end: usize) -> Result<(), DiagnosticDraft> {
        match self.text.get(end) {
            Some(c @ (b'e' | b'E')) => {
                let text = format!("Unexpected character '{}'.\n", char::from(*c));
                self.fail(DiagnosticCode::Syntax, &text, self.at, end + 1)
            }
            _ => Ok(()),
        }
    }
}

/// Reports the first of a text's non-ASCII characters, and the count of each kind.
fn odd_characters(text: &[u8], src: u32, found: &[OddCharacter]) -> DiagnosticDraft {
    let first = &found[0];
    let c = odd::decode(&text[first.at.clone()]).0;
    let number = c.map_or(0, u32::from);
    let name = match first.kind {
        OddKind::Quote(_) => String::new(),
        OddKind::NoBreakSpace => "a no-break space".to_owned(),
        OddKind::Space => format!("a space of another kind (U+{number:04X})"),
        OddKind::ByteOrderMark => "a byte order mark (U+FEFF), which only begins a file".to_owned(),
        OddKind::ZeroWidth => format!("U+{number:04X}, a character without width"),
        OddKind::Dash => format!("a dash (U+{number:04X}); VCL's is -"),
        OddKind::FullWidth => format!("a full-width character (U+{number:04X})"),
        OddKind::Other if c.is_some() => format!("U+{number:04X}"),
        OddKind::Other => format!("the byte 0x{:02x}", text[first.at.start]),
    };
    let reason = if name.is_empty() {
        "This quote is a typographic one; VCL's is the plain \".".to_owned()
    } else {
        format!("This is {name}; outside of texts and comments VCL is ASCII.")
    };
    let (start, end) = (first.at.start as u32, first.at.end as u32);
    let edits = found.iter().filter(|odd| odd.is_replaced()).map(|odd| {
        let at = (src, odd.at.start as u32, odd.at.end as u32);
        (at, odd.ascii.into_iter().collect::<String>())
    });
    let fix = Fix { title: "Replace all such characters by VCL's".to_owned(), edits: edits.collect() };
    let hint = odd::summary(found).map(|text| Hint::with(text, fix));
    DiagnosticDraft::at(DiagnosticCode::Character, format!("Syntax error at\n{reason}\n"), (src, start, end))
        .hinted(hint)
}

fn has_unit(after: &[u8]) -> bool {
    after.first().is_some_and(|c| is_id_start(*c))
}

fn number(digits: &[u8]) -> f64 {
    std::str::from_utf8(digits).ok().and_then(|s| s.parse().ok()).unwrap_or(0.0)
}

pub(crate) fn line_end(text: &[u8]) -> usize {
    text.iter().position(|c| *c == b'\n').unwrap_or(text.len())
}

/// The end of valid base64: a byte that is no digit, misplaced padding, or something that contradicts the padding (a
/// digit after it, or bits left over before it).
fn base64_stop(text: &[u8]) -> usize {
    let (mut in_group, mut is_padded, mut left_over) = (0, false, false);
    for (at, c) in text.iter().enumerate() {
        let value = match base64::digit(*c) {
            _ if *c == b'=' && in_group < 2 => return at,
            None if *c == b'=' => {
                is_padded = true;
                0
            }
            None => return at,
            Some(_) if is_padded => return at - 1,
            Some(value) => value,
        };
        if is_padded && left_over {
            return at - 1;
        }
        in_group = (in_group + 1) % 4;
        left_over = match in_group {
            2 => value & 15 != 0,
            3 => value & 3 != 0,
            _ => false,
        };
    }
    text.len()
}
