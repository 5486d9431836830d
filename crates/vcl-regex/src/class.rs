// SPDX-License-Identifier: BSD-2-Clause
//! Character classes and escapes of PCRE2 patterns.

use super::RegexError;
use super::node::{At, ByteSet, Node};
use super::parse::{Parser, Result, err};

/// The end of a class that begins at `open`, roughly: for skipping only.
pub(super) fn skip(pat: &[u8], open: usize) -> usize {
    let mut i = open + 1;
    if pat.get(i) == Some(&b'^') {
        i += 1;
    }
    if pat.get(i) == Some(&b']') {
        i += 1;
    }
    while i < pat.len() && pat[i] != b']' {
        match pat[i] {
            b'\\' => i += 1,
            b'[' => i = posix_end(pat, i).map_or(i, |end| end - 1),
            _ => {}
        }
        i += 1;
    }
    i
}

/// The end of `[:name:]`, `[.x.]` or `[=x=]` beginning at `at`.
fn posix_end(pat: &[u8], at: usize) -> Option<usize> {
    let mark = *pat.get(at + 1).filter(|b| b":.=".contains(b))?;
    let rest = pat.get(at + 2..)?;
    let close = rest.iter().position(|&b| matches!(b, b']' | b'[' | b'\\') || b == mark)?;
    (rest.get(close..close + 2) == Some(&[mark, b']'])).then_some(at + 2 + close + 2)
}

fn shorthand(letter: u8) -> Option<ByteSet> {
    let set = match letter.to_ascii_lowercase() {
        b'd' => ByteSet::EMPTY.with(b'0', b'9'),
        b'w' => word(),
        b's' => ByteSet::from_bytes(b" \t\n\x0b\x0c\r"),
        b'h' => ByteSet::from_bytes(b" \t\xa0"),
        b'v' => ByteSet::EMPTY.with(b'\n', b'\r').union(ByteSet::from_bytes(b"\x85")),
        _ => return None,
    };
    Some(if letter.is_ascii_uppercase() { set.not() } else { set })
}

fn word() -> ByteSet {
    ByteSet::from_bytes(b"_").with(b'0', b'9').with(b'a', b'z').with(b'A', b'Z')
}

/// Under `i`, upper and lower are alpha, before a negation.
fn posix(name: &[u8], caseless: bool) -> Option<ByteSet> {
    let (negated, name) = match name.strip_prefix(b"^") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    let e = ByteSet::EMPTY;
    let set = match name {
        b"lower" | b"upper" if caseless => e.with(b'a', b'z').with(b'A', b'Z'),
        b"alpha" => e.with(b'a', b'z').with(b'A', b'Z'),
        b"lower" => e.with(b'a', b'z'),
        b"upper" => e.with(b'A', b'Z'),
        b"alnum" => e.with(b'a', b'z').with(b'A', b'Z').with(b'0', b'9'),
        b"ascii" => e.with(0, 127),
        b"blank" => ByteSet::from_bytes(b" \t"),
        b"cntrl" => e.with(0, 31).with(127, 127),
        b"digit" => e.with(b'0', b'9'),
        b"graph" => e.with(33, 126),
        b"print" => e.with(32, 126),
        b"punct" => e.with(33, 47).with(58, 64).with(91, 96).with(123, 126),
        b"space" => ByteSet::from_bytes(b" \t\n\x0b\x0c\r"),
        b"word" => word(),
        b"xdigit" => e.with(b'0', b'9').with(b'a', b'f').with(b'A', b'F'),
        _ => return None,
    };
    Some(if negated { set.not() } else { set })
}

/// A member of a class: one byte can begin or end a range.
enum Member {
    Byte(u8),
    Set(ByteSet),
}

impl Parser<'_> {
    /// Reads on after `[`.
    pub(super) fn class(&mut self) -> Result<ByteSet> {
        let open = self.at - 1;
        if posix_end(self.pat, open).is_some() {
            return err(open, "POSIX named classes are supported only within a class");
        }
        let negated = self.eat(b"^");
        let mut set = ByteSet::EMPTY;
        let mut first = true;
        let mut quoting = false;
        loop {
            let Some(byte) = self.peek() else {
                return err(self.pat.len(), "missing terminating ] for character class");
            };
            if self.eat(b"\\E") {
                quoting = false;
                continue;
            }
            if !quoting && self.eat(b"\\Q") {
                quoting = true;
                continue;
            }
            if !quoting && self.flags.extended_more && (byte == b' ' || byte == b'\t') {
                self.at += 1;
                continue;
            }
            if !quoting && byte == b']' && !first {
                self.at += 1;
                break;
            }
            first = false;
            let low = self.member(quoting)?;
            set = set.union(self.maybe_range(low, quoting)?);
        }
        let set = if self.flags.caseless { set.folded() } else { set };
        Ok(if negated { set.not() } else { set })
    }

    /// `low`, or `low-high` when a range follows.
    fn maybe_range(&mut self, low: Member, quoting: bool) -> Result<ByteSet> {
        let dash = !quoting && self.peek() == Some(b'-');
        let next = self.pat.get(self.at + 1).copied();
        let range = dash && next.is_some_and(|b| b != b']') && !self.pat[self.at + 1..].starts_with(b"\\E]");
        if !range {
            return Ok(match low {
                Member::Byte(b) => ByteSet::from_bytes(&[b]),
                Member::Set(set) => set,
            });
        }
        self.at += 1;
        let Member::Byte(low) = low else { return err(self.at, "invalid range in character class") };
        let quoted = self.eat(b"\\Q");
        let at = self.at;
        match self.member(quoted)? {
            Member::Set(_) if self.pat[at] == b'[' => err(at + 1, "invalid range in character class"),
            Member::Set(_) => err(self.at, "invalid range in character class"),
            Member::Byte(high) if high < low => err(self.at - 1, "range out of order in character class"),
            Member::Byte(high) => {
                if quoted {
                    self.eat(b"\\E");
                }
                Ok(ByteSet::EMPTY.with(low, high))
            }
        }
    }

    fn member(&mut self, quoting: bool) -> Result<Member> {
        let byte = self.pat[self.at];
        self.at += 1;
        match byte {
            b'[' if !quoting => match posix_end(self.pat, self.at - 1) {
                Some(end) if self.pat[self.at] == b':' => {
                    let name = &self.pat[self.at + 1..end - 2];
                    if name == b"<" || name == b">" {
                        return err(self.at, "[[:<:]] and [[:>:]] aren't supported by Lacquer");
                    }
                    let Some(set) = posix(name, self.flags.caseless) else {
                        return err(self.at + 1, "unknown POSIX class name");
                    };
                    self.at = end;
                    Ok(Member::Set(set))
                }
                Some(_) => err(self.at - 1, "POSIX collating elements are not supported"),
                None => Ok(Member::Byte(byte)),
            },
            b'\\' if !quoting => self.class_escape(),
            _ => Ok(Member::Byte(byte)),
        }
    }

    fn class_escape(&mut self) -> Result<Member> {
        let Some(letter) = self.peek() else { return err(self.at, "\\ at end of pattern") };
        if let Some(set) = shorthand(letter) {
            self.at += 1;
            return Ok(Member::Set(set));
        }
        match letter {
            b'b' => {
                self.at += 1;
                Ok(Member::Byte(8))
            }
            b'N' => err(self.at + 1, "\\N is not supported in a class"),
            b'B' | b'R' | b'X' => err(self.at + 1, "escape sequence is invalid in character class"),
            b'p' | b'P' => err(self.at, PROPERTIES),
            b'1'..=b'7' => self.octal(3).map(Member::Byte),
            _ => match self.byte_escape()? {
                Some(byte) => Ok(Member::Byte(byte)),
                None => err(self.at + 1, "unrecognized character follows \\"),
            },
        }
    }

    /// After `\` outside of a class: the node, and whether it can be repeated.
    pub(super) fn escape(&mut self) -> Result<(Node, bool)> {
        let Some(letter) = self.peek() else { return err(self.at, "\\ at end of pattern") };
        if let Some(set) = shorthand(letter) {
            self.at += 1;
            return Ok((Node::Set(set), true));
        }
        let simple = match letter {
            b'A' => Some(At::Start),
            b'z' => Some(At::End),
            b'Z' => Some(At::Dollar),
            b'b' => Some(At::Word),
            b'B' => Some(At::NotWord),
            _ => None,
        };
        if let Some(at) = simple {
            self.at += 1;
            return Ok((Node::At(at), false));
        }
        match letter {
            b'N' if self.pat[self.at + 1..].starts_with(b"{U+") => {
                err(self.at + 1, "\\N{U+dddd} is supported only in Unicode (UTF) mode")
            }
            b'N' if self.pat.get(self.at + 1) == Some(&b'{') && !self.brace_is_count() => {
                err(self.at + 1, "PCRE2 does not support \\F, \\L, \\l, \\N{name}, \\U, or \\u")
            }
            b'N' => {
                self.at += 1;
                Ok((Node::Set(ByteSet::from_bytes(b"\n").not()), true))
            }
            b'R' => {
                self.at += 1;
                let two = Node::Cat(vec![Node::Set(ByteSet::from_bytes(b"\r")), Node::Set(ByteSet::from_bytes(b"\n"))]);
                let one = Node::Set(ByteSet::EMPTY.with(b'\n', b'\r').union(ByteSet::from_bytes(b"\x85")));
                Ok((Node::Atomic(Box::new(Node::Alt(vec![two, one]))), true))
            }
            b'K' => {
                self.at += 1;
                Ok((self.keep(self.at)?, false))
            }
            b'G' => err(self.at, "\\G isn't supported by Lacquer"),
            b'X' => err(self.at, "\\X isn't supported by Lacquer"),
            b'C' => err(self.at, "\\C isn't supported by Lacquer"),
            b'p' | b'P' => err(self.at, PROPERTIES),
            b'1'..=b'9' => self.numbered(),
            b'g' => self.g_reference(),
            b'k' => self.k_reference(),
            _ => match self.byte_escape()? {
                Some(byte) => Ok((self.literal(byte), true)),
                None => err(self.at, "unrecognized character follows \\"),
            },
        }
    }

    fn brace_is_count(&self) -> bool {
        let rest = &self.pat[self.at + 2..];
        let end = rest.iter().position(|&b| b == b'}').unwrap_or(0);
        end > 0 && rest[0].is_ascii_digit() && rest[..end].iter().all(|b| b.is_ascii_digit() || *b == b',')
    }

    /// `\1` is always a group; `\12` is when there are so many, else an octal number.
    fn numbered(&mut self) -> Result<(Node, bool)> {
        let start = self.at;
        let number = self.decimal();
        if self.is_group(number) || self.pat[start] >= b'8' {
            return Ok((self.backref(number, false, self.at - 1)?, true));
        }
        self.at = start;
        let byte = self.octal(3)?;
        Ok((self.literal(byte), true))
    }

    fn g_reference(&mut self) -> Result<(Node, bool)> {
        self.at += 1;
        let braced = self.eat(b"{");
        if !braced && matches!(self.peek(), Some(b'<' | b'\'')) {
            return err(self.at, "recursion and subroutine calls aren't supported by Lacquer");
        }
        let back = self.eat(b"-");
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return match braced && !back {
                true => Ok((self.named_backref(b'}')?, true)),
                false => err(
                    self.at,
                    "\\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number",
                ),
            };
        }
        let number = self.decimal();
        if braced && !self.eat(b"}") {
            return err(
                self.at,
                "\\g is not followed by a braced, angle-bracketed, or quoted name/number or by a plain number",
            );
        }
        Ok((self.backref(number, back, self.at - 1)?, true))
    }

    fn k_reference(&mut self) -> Result<(Node, bool)> {
        self.at += 1;
        let end = match self.peek() {
            Some(b'<') => b'>',
            Some(b'{') => b'}',
            Some(b'\'') => b'\'',
            _ => {
                return err(self.at, "\\k is not followed by a braced, angle-bracketed, or quoted name");
            }
        };
        self.at += 1;
        Ok((self.named_backref(end)?, true))
    }

    /// An escape that stands for one byte, at its letter; `None` when there is none such.
    fn byte_escape(&mut self) -> Result<Option<u8>> {
        let letter = self.pat[self.at];
        self.at += 1;
        Ok(Some(match letter {
            b'a' => 7,
            b'e' => 0x1b,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'0' => {
                self.at -= 1;
                self.octal(3)?
            }
            b'o' => self.braced_octal()?,
            b'x' => self.hex()?,
            b'c' => match self.peek() {
                None => return err(self.at, "\\c at end of pattern"),
                Some(b @ 0x20..=0x7e) => {
                    self.at += 1;
                    b.to_ascii_uppercase() ^ 0x40
                }
                Some(_) => return err(self.at, "\\c must be followed by a printable ASCII character"),
            },
            b'F' | b'L' | b'l' | b'U' | b'u' => {
                return err(self.at, "PCRE2 does not support \\F, \\L, \\l, \\N{name}, \\U, or \\u");
            }
            other if other.is_ascii_alphanumeric() => {
                self.at -= 1;
                return Ok(None);
            }
            other => other,
        }))
    }

    fn octal(&mut self, digits: usize) -> Result<u8> {
        let mut value = 0u32;
        for _ in 0..digits {
            let Some(digit @ b'0'..=b'7') = self.peek() else { break };
            value = value * 8 + u32::from(digit - b'0');
            self.at += 1;
        }
        u8::try_from(value).map_err(|_| RegexError {
            offset: self.at,
            text: "octal value is greater than \\377 in 8-bit non-UTF-8 mode",
        })
    }

    fn braced_octal(&mut self) -> Result<u8> {
        if !self.eat(b"{") {
            return err(self.at - 1, "missing opening brace after \\o");
        }
        self.braced(8, "non-octal character in \\o{} (closing brace missing?)")
    }

    fn hex(&mut self) -> Result<u8> {
        if self.eat(b"{") {
            return self.braced(16, "non-hex character in \\x{} (closing brace missing?)");
        }
        let mut value = 0;
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(16)) else { break };
            value = value * 16 + digit as u8;
            self.at += 1;
        }
        Ok(value)
    }

    fn braced(&mut self, radix: u32, bad: &'static str) -> Result<u8> {
        let (mut value, start) = (0u32, self.at);
        while let Some(digit) = self.peek().and_then(|b| char::from(b).to_digit(radix)) {
            value = value.saturating_mul(radix).saturating_add(digit);
            self.at += 1;
            if value > 255 {
                return err(self.at, "character code point value in \\x{} or \\o{} is too large");
            }
        }
        match self.peek() {
            Some(b'}') | None if self.at == start => err(self.at, "digits missing in \\x{} or \\o{} or \\N{U+}"),
            Some(b'}') => {
                self.at += 1;
                Ok(value as u8)
            }
            _ => err(self.at, bad),
        }
    }
}

const PROPERTIES: &str = "Unicode properties \\p and \\P aren't supported by Lacquer";
