// SPDX-License-Identifier: BSD-2-Clause
//! Reads PCRE2 syntax (pcre2pattern(3), as of 10.42, bytes, no UTF) into a [`Node`]. Recursion, branch reset, verbs,
//! callouts, Unicode properties, `\X`, `\C` and `\G` are refused by name.

use super::RegexError;
use super::class;
use super::node::{At, ByteSet, Greed, Node};

const MAX_NEST: u32 = 250;
const MAX_REPEAT: u32 = 65535;
const MAX_NAME: usize = 32;
/// PCRE2's 16-bit offsets allow about as much.
pub(super) const MAX_PATTERN: usize = 64 << 10;

pub(super) const NO_REFERENCE: &str = "reference to non-existent subpattern";
const NOT_BUILT: &str = "recursion and subroutine calls aren't supported by Lacquer";

#[derive(Clone, Copy, Default)]
pub(super) struct Flags {
    pub(super) caseless: bool,
    multiline: bool,
    dotall: bool,
    extended: bool,
    pub(super) extended_more: bool,
    ungreedy: bool,
    no_capture: bool,
    dup_names: bool,
}

pub(super) struct Parser<'p> {
    pub(super) pat: &'p [u8],
    pub(super) at: usize,
    pub(super) flags: Flags,
    groups: u32,
    total_groups: u32,
    names: Vec<(Vec<u8>, u32)>,
    /// Highest group referred to, and where.
    references: Vec<(u32, usize)>,
    depth: u32,
    in_look: u32,
}

pub(super) struct Parsed {
    pub(super) node: Node,
    pub(super) groups: u32,
}

pub(super) type Result<T> = std::result::Result<T, RegexError>;

pub(super) fn err<T>(offset: usize, text: &'static str) -> Result<T> {
    Err(RegexError { offset, text })
}

pub(super) fn parse(pat: &[u8]) -> Result<Parsed> {
    if pat.len() > MAX_PATTERN {
        return err(pat.len(), "regular expression is too large");
    }
    let mut parser = Parser {
        pat,
        at: 0,
        flags: Flags::default(),
        groups: 0,
        total_groups: count_groups(pat),
        names: Vec::new(),
        references: Vec::new(),
        depth: 0,
        in_look: 0,
    };
    let node = parser.alternatives()?;
    if parser.at < pat.len() {
        return err(parser.at, "unmatched closing parenthesis");
    }
    match parser.references.iter().find(|(group, _)| *group > parser.groups) {
        Some((_, at)) => err(*at, NO_REFERENCE),
        None => Ok(Parsed { node, groups: parser.groups }),
    }
}

/// About how many capturing groups there are: only to tell `\11` the group from `\11` the octal number.
fn count_groups(pat: &[u8]) -> u32 {
    let (mut count, mut i) = (0, 0);
    while i < pat.len() {
        match pat[i] {
            b'\\' => i += 1,
            b'[' => i = class::skip(pat, i),
            b'(' if pat.get(i + 1) != Some(&b'?') && pat.get(i + 1) != Some(&b'*') => count += 1,
            b'(' if matches!(pat.get(i + 2..i + 4), Some([b'<', c]) if !b"=!".contains(c)) => count += 1,
            b'(' if matches!(pat.get(i + 2..i + 4), Some([b'P', b'<'] | [b'\'', _])) => count += 1,
            _ => {}
        }
        i += 1;
    }
    count
}

impl Parser<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.pat.get(self.at).copied()
    }

    pub(super) fn eat(&mut self, text: &[u8]) -> bool {
        let found = self.pat[self.at..].starts_with(text);
        if found {
            self.at += text.len();
        }
        found
    }

    fn alternatives(&mut self) -> Result<Node> {
        let mut all = vec![self.sequence()?];
        while self.eat(b"|") {
            all.push(self.sequence()?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { Node::Alt(all) })
    }

    fn sequence(&mut self) -> Result<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        // Whether the last node may take a quantifier.
        let mut repeatable = false;
        while let Some(byte) = self.peek() {
            if byte == b'|' || byte == b')' {
                break;
            }
            if self.flags.extended && self.skip_space() {
                continue;
            }
            if self.eat(b"\\E") || self.comment()? {
                continue;
            }
            if self.eat(b"\\Q") {
                let before = nodes.len();
                self.quoted(&mut nodes);
                repeatable |= nodes.len() > before;
                continue;
            }
            if let Some((min, max)) = self.quantifier()? {
                if !repeatable {
                    return err(self.at - 1, "quantifier does not follow a repeatable item");
                }
                let greed = self.greed();
                let node = Box::new(nodes.pop().expect("repeatable is only set with a node"));
                nodes.push(Node::Repeat { node, min, max, greed });
                repeatable = false;
                continue;
            }
            match self.item()? {
                Some((node, can_repeat)) => {
                    nodes.push(node);
                    repeatable = can_repeat;
                }
                None => repeatable = false,
            }
        }
        Ok(if nodes.len() == 1 { nodes.remove(0) } else { Node::Cat(nodes) })
    }

    /// White space and `#` comments under `x`.
    fn skip_space(&mut self) -> bool {
        match self.peek() {
            Some(b' ' | b'\t' | b'\n' | 0x0b | 0x0c | b'\r') => self.at += 1,
            Some(b'#') => {
                let rest = &self.pat[self.at..];
                self.at += rest.iter().position(|&b| b == b'\n').map_or(rest.len(), |i| i + 1);
            }
            _ => return false,
        }
        true
    }

    fn comment(&mut self) -> Result<bool> {
        if !self.eat(b"(?#") {
            return Ok(false);
        }
        match self.pat[self.at..].iter().position(|&b| b == b')') {
            Some(i) => self.at += i + 1,
            None => return err(self.pat.len(), "missing ) after (?# comment"),
        }
        Ok(true)
    }

    fn quoted(&mut self, nodes: &mut Vec<Node>) {
        while self.at < self.pat.len() && !self.eat(b"\\E") {
            let byte = self.pat[self.at];
            nodes.push(self.literal(byte));
            self.at += 1;
        }
    }

    pub(super) fn literal(&self, byte: u8) -> Node {
        let set = ByteSet::from_bytes(&[byte]);
        Node::Set(if self.flags.caseless { set.folded() } else { set })
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        let found = match self.peek() {
            Some(b'*') => (0, None),
            Some(b'+') => (1, None),
            Some(b'?') => (0, Some(1)),
            Some(b'{') => return self.counted(),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(found))
    }

    /// `{n}`, `{n,}`, `{n,m}`; anything else after a brace is text.
    fn counted(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        let rest = &self.pat[self.at + 1..];
        let Some(close) = rest.iter().position(|&b| b == b'}') else { return Ok(None) };
        let inner = &rest[..close];
        let (low, high) = match inner.iter().position(|&b| b == b',') {
            Some(comma) => (&inner[..comma], Some(&inner[comma + 1..])),
            None => (inner, None),
        };
        let digits = |text: &[u8]| text.iter().all(u8::is_ascii_digit);
        if low.is_empty() || !digits(low) || !high.is_none_or(digits) {
            return Ok(None);
        }
        let start = self.at + 1;
        let number = |text: &[u8], from: usize| {
            let mut value = 0u32;
            for (i, digit) in text.iter().enumerate() {
                value = value * 10 + u32::from(digit - b'0');
                if value > MAX_REPEAT {
                    return err(from + i + 1, "number too big in {} quantifier");
                }
            }
            Ok(value)
        };
        let min = number(low, start)?;
        let max = match high {
            None => Some(min),
            Some([]) => None,
            Some(text) => Some(number(text, start + low.len() + 1)?),
        };
        if max.is_some_and(|max| max < min) {
            return err(start + close, "numbers out of order in {} quantifier");
        }
        self.at = start + close + 1;
        Ok(Some((min, max)))
    }

    fn greed(&mut self) -> Greed {
        if self.eat(b"+") {
            return Greed::Possessive;
        }
        if self.eat(b"?") != self.flags.ungreedy { Greed::Lazy } else { Greed::Greedy }
    }

    /// One item, and whether a quantifier may follow; `None` for a change of flags.
    fn item(&mut self) -> Result<Option<(Node, bool)>> {
        let byte = self.pat[self.at];
        self.at += 1;
        let flags = self.flags;
        Ok(Some(match byte {
            b'.' if flags.dotall => (Node::Set(ByteSet::EMPTY.not()), true),
            b'.' => (Node::Set(ByteSet::from_bytes(b"\n").not()), true),
            b'^' => (Node::At(if flags.multiline { At::LineStart } else { At::Start }), false),
            b'$' => (Node::At(if flags.multiline { At::LineEnd } else { At::Dollar }), false),
            b'[' => (Node::Set(self.class()?), true),
            b'\\' => self.escape()?,
            b'(' => {
                if self.depth >= MAX_NEST {
                    return err(self.at, "parentheses are too deeply nested");
                }
                self.depth += 1;
                let item = self.group()?;
                self.depth -= 1;
                return Ok(item.map(|node| (node, true)));
            }
            other => (self.literal(other), true),
        }))
    }

    /// Reads on after `(`.
    fn group(&mut self) -> Result<Option<Node>> {
        let outer = self.flags;
        if self.peek() == Some(b'*') {
            return self.verb();
        }
        if !self.eat(b"?") {
            let node = if outer.no_capture { self.inside(outer)? } else { self.capture(outer)? };
            return Ok(Some(node));
        }
        let kind_at = self.at;
        let Some(kind) = self.peek() else { return err(self.at, "missing closing parenthesis") };
        self.at += 1;
        let node = match kind {
            b':' => self.inside(outer)?,
            b'=' => self.look(true, false, outer, kind_at)?,
            b'!' => self.look(true, true, outer, kind_at)?,
            b'<' if self.eat(b"=") => self.look(false, false, outer, kind_at)?,
            b'<' if self.eat(b"!") => self.look(false, true, outer, kind_at)?,
            b'>' => Node::Atomic(Box::new(self.inside(outer)?)),
            b'<' => self.named(b'>', outer)?,
            b'\'' => self.named(b'\'', outer)?,
            b'P' => match self.peek() {
                Some(b'<') => {
                    self.at += 1;
                    self.named(b'>', outer)?
                }
                Some(b'=') => {
                    self.at += 1;
                    self.named_backref(b')')?
                }
                Some(b'>') => return err(self.at, NOT_BUILT),
                None => return err(self.at, "missing closing parenthesis"),
                Some(_) => return err(self.at, "unrecognized character after (?P"),
            },
            b'(' => self.condition(outer)?,
            b'|' => return err(self.at, "branch reset groups (?| aren't supported by Lacquer"),
            b'C' => return err(self.at, "callouts (?C) aren't supported by Lacquer"),
            b'R' | b'&' | b'0'..=b'9' => return err(self.at, NOT_BUILT),
            b'+' | b'-' if self.peek().is_some_and(|b| b.is_ascii_digit()) => return err(self.at, NOT_BUILT),
            _ => {
                self.at -= 1;
                return self.set_flags(outer);
            }
        };
        Ok(Some(node))
    }

    /// Up to and with the closing parenthesis; flags set inside end there.
    fn inside(&mut self, outer: Flags) -> Result<Node> {
        let node = self.alternatives()?;
        self.flags = outer;
        if self.eat(b")") { Ok(node) } else { err(self.at, "missing closing parenthesis") }
    }

    fn capture(&mut self, outer: Flags) -> Result<Node> {
        self.groups += 1;
        Ok(Node::Group(Box::new(self.inside(outer)?)))
    }

    fn look(&mut self, ahead: bool, negated: bool, outer: Flags, start: usize) -> Result<Node> {
        self.in_look += 1;
        let node = self.inside(outer)?;
        self.in_look -= 1;
        let fixed = match &node {
            Node::Alt(branches) => branches.iter().all(|branch| branch.fixed_len().is_some()),
            one => one.fixed_len().is_some(),
        };
        if !ahead && !fixed {
            return err(start.saturating_sub(2), "lookbehind assertion is not fixed length");
        }
        Ok(Node::Look { ahead, negated, node: Box::new(node) })
    }

    pub(super) fn name(&mut self, end: u8) -> Result<Vec<u8>> {
        let rest = &self.pat[self.at..];
        let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
        let len = rest.iter().position(|b| !word(b)).unwrap_or(rest.len());
        match rest.first() {
            None => return err(self.at, "subpattern name expected"),
            Some(b) if b.is_ascii_digit() => return err(self.at, "subpattern name must start with a non-digit"),
            Some(_) if len == 0 => return err(self.at, "subpattern name expected"),
            Some(_) if len > MAX_NAME => {
                return err(self.at + MAX_NAME + 1, "subpattern name is too long (maximum 32 code units)");
            }
            Some(_) => {}
        }
        self.at += len;
        if self.peek() != Some(end) {
            return err(self.at, "syntax error in subpattern name (missing terminator?)");
        }
        self.at += 1;
        Ok(rest[..len].to_vec())
    }

    fn named(&mut self, end: u8, outer: Flags) -> Result<Node> {
        let name = self.name(end)?;
        if !outer.dup_names && self.names.iter().any(|(other, _)| *other == name) {
            return err(self.at, "two named subpatterns have the same name (PCRE2_DUPNAMES not set)");
        }
        self.names.push((name, self.groups + 1));
        self.capture(outer)
    }

    /// The number of a named group. Only groups that come before are known: references forward can't match anyway.
    fn group_of(&mut self, name: &[u8], at: usize) -> Result<u32> {
        match self.names.iter().find(|(other, _)| other == name) {
            Some((_, group)) => Ok(*group),
            None => err(at, NO_REFERENCE),
        }
    }

    pub(super) fn named_backref(&mut self, end: u8) -> Result<Node> {
        let at = self.at;
        let name = self.name(end)?;
        let group = self.group_of(&name, at)?;
        Ok(Node::Backref { group, caseless: self.flags.caseless })
    }

    /// `\1`, `\g{-1}`: `back` counts groups from here backwards.
    pub(super) fn backref(&mut self, number: u32, back: bool, at: usize) -> Result<Node> {
        let group = match back {
            true => self.groups.checked_sub(number).map(|n| n + 1).filter(|_| number > 0),
            false => Some(number),
        };
        let Some(group) = group.filter(|group| *group > 0) else { return err(at, NO_REFERENCE) };
        self.references.push((group, at));
        Ok(Node::Backref { group, caseless: self.flags.caseless })
    }

    pub(super) fn is_group(&self, number: u32) -> bool {
        number < 10 || number <= self.total_groups
    }

    pub(super) fn keep(&self, at: usize) -> Result<Node> {
        if self.in_look > 0 {
            return err(at, "\\K is not allowed in lookarounds (but see PCRE2_EXTRA_ALLOW_LOOKAROUND_BSK)");
        }
        Ok(Node::Keep)
    }

    /// Reads on after `(?(`.
    fn condition(&mut self, outer: Flags) -> Result<Node> {
        let at = self.at;
        let group = match self.peek() {
            Some(b'0'..=b'9') => {
                let number = self.decimal();
                if !self.eat(b")") {
                    return err(self.at, "missing closing parenthesis for condition");
                }
                self.references.push((number.max(1), at));
                number
            }
            Some(b'?' | b'*') => return err(at, "conditions that are assertions aren't supported by Lacquer"),
            Some(b'R') => return err(at, NOT_BUILT),
            Some(b'+' | b'-') => return err(at, "relative conditions aren't supported by Lacquer"),
            Some(open @ (b'<' | b'\'')) => {
                self.at += 1;
                let name = self.name(if open == b'<' { b'>' } else { open })?;
                if !self.eat(b")") {
                    return err(self.at, "missing closing parenthesis for condition");
                }
                self.group_of(&name, at + 1)?
            }
            _ => {
                let name = self.name(b')')?;
                if name == b"DEFINE" {
                    return err(at, NOT_BUILT);
                }
                self.group_of(&name, at)?
            }
        };
        let (yes, no) = match self.inside(outer)? {
            Node::Alt(branches) if branches.len() > 2 => {
                return err(at, "conditional subpattern contains more than two branches");
            }
            Node::Alt(mut branches) => {
                let no = branches.pop().unwrap_or(Node::EMPTY);
                (branches.pop().unwrap_or(Node::EMPTY), no)
            }
            node => (node, Node::EMPTY),
        };
        Ok(Node::If { group, yes: Box::new(yes), no: Box::new(no) })
    }

    /// Saturates: too large a number is no group of anything.
    pub(super) fn decimal(&mut self) -> u32 {
        let mut value = 0u32;
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            value = value.saturating_mul(10).saturating_add(u32::from(digit - b'0'));
            self.at += 1;
        }
        value
    }

    /// Reads `(?flags)` and `(?flags:...)`.
    fn set_flags(&mut self, outer: Flags) -> Result<Option<Node>> {
        let mut flags = outer;
        let mut on = true;
        let mut caret = false;
        if self.eat(b"^") {
            flags = Flags { ungreedy: outer.ungreedy, dup_names: outer.dup_names, ..Flags::default() };
            caret = true;
        }
        loop {
            let Some(byte) = self.peek() else { return err(self.at, "missing closing parenthesis") };
            self.at += 1;
            match byte {
                b'i' => flags.caseless = on,
                b'm' => flags.multiline = on,
                b's' => flags.dotall = on,
                b'n' => flags.no_capture = on,
                b'U' => flags.ungreedy = on,
                b'J' => flags.dup_names = on,
                b'x' => {
                    flags.extended = on;
                    flags.extended_more = on && self.eat(b"x");
                    if !on {
                        self.eat(b"x");
                    }
                }
                b'-' if on && !caret => on = false,
                b')' => {
                    self.flags = flags;
                    return Ok(None);
                }
                b':' => {
                    self.flags = flags;
                    return self.inside(outer).map(Some);
                }
                _ => return err(self.at - 1, "unrecognized character after (? or (?-"),
            }
        }
    }

    /// `(*...`: only the spelled-out assertions and atomic groups.
    fn verb(&mut self) -> Result<Option<Node>> {
        let start = self.at;
        self.at += 1;
        let rest = &self.pat[self.at..];
        let len = rest.iter().position(|b| !b.is_ascii_alphabetic() && *b != b'_').unwrap_or(rest.len());
        if len == 0 {
            return err(start, "quantifier does not follow a repeatable item");
        }
        self.at += len;
        let outer = self.flags;
        if !self.eat(b":") {
            return err(self.at, "verbs (*...) aren't supported by Lacquer");
        }
        Ok(Some(match &rest[..len] {
            b"atomic" => Node::Atomic(Box::new(self.inside(outer)?)),
            b"pla" | b"positive_lookahead" => self.look(true, false, outer, start)?,
            b"nla" | b"negative_lookahead" => self.look(true, true, outer, start)?,
            b"plb" | b"positive_lookbehind" => self.look(false, false, outer, start)?,
            b"nlb" | b"negative_lookbehind" => self.look(false, true, outer, start)?,
            _ => return err(self.at, "verbs (*...) aren't supported by Lacquer"),
        }))
    }
}
