// SPDX-License-Identifier: BSD-2-Clause
//! Writes a [`Node`] in the plain syntax that the engines share: every byte and set spelled out, every group explicit.

use std::fmt::Write;

use super::node::{At, ByteSet, Greed, Node};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// regex-automata. Subjects don't end in a newline, or the pattern doesn't heed it.
    Linear,
    /// The backtracking engine of fancy-regex.
    Backtracking,
}

/// The text of `node`; without `captures`, numbered groups become plain ones.
pub(super) fn emit(node: &Node, dialect: Dialect, captures: bool) -> String {
    let mut emitter = Emitter { out: String::new(), dialect, captures };
    emitter.node(node);
    emitter.out
}

struct Emitter {
    out: String,
    dialect: Dialect,
    captures: bool,
}

impl Emitter {
    fn node(&mut self, node: &Node) {
        match node {
            Node::Set(set) => self.set(set),
            Node::Cat(nodes) => nodes.iter().for_each(|node| self.part(node)),
            Node::Alt(nodes) => {
                for (i, node) in nodes.iter().enumerate() {
                    if i > 0 {
                        self.out.push('|');
                    }
                    self.node(node);
                }
            }
            Node::Group(node) if self.captures => self.wrap("(", node),
            Node::Group(node) => self.part(node),
            Node::Repeat { node, min, max, greed } => self.repeat(node, *min, *max, *greed),
            Node::At(at) => self.assertion(*at),
            Node::Look { ahead, negated, node } => self.wrap(
                match (ahead, negated) {
                    (true, false) => "(?=",
                    (true, true) => "(?!",
                    (false, false) => "(?<=",
                    (false, true) => "(?<!",
                },
                node,
            ),
            Node::Atomic(node) => self.wrap("(?>", node),
            Node::Backref { group, caseless } => {
                let flag = if *caseless { "i" } else { "" };
                let _ = write!(self.out, "(?{flag}:\\{group})");
            }
            Node::Keep => self.out.push_str("\\K"),
            Node::If { group, yes, no } => {
                let _ = write!(self.out, "(?({group})");
                self.part(yes);
                self.out.push('|');
                self.part(no);
                self.out.push(')');
            }
        }
    }

    fn part(&mut self, node: &Node) {
        match node {
            Node::Alt(_) => self.wrap("(?:", node),
            Node::Group(inner) if !self.captures && matches!(**inner, Node::Alt(_)) => self.wrap("(?:", inner),
            _ => self.node(node),
        }
    }

    fn wrap(&mut self, open: &str, node: &Node) {
        self.out.push_str(open);
        self.node(node);
        self.out.push(')');
    }

    fn repeat(&mut self, node: &Node, min: u32, max: Option<u32>, greed: Greed) {
        if node.fixed_len() == Some(0) {
            return self.repeated_nothing(node, min, max, greed);
        }
        if max == Some(0) {
            // Never runs, but its groups keep their numbers.
            self.out.push_str("(?:[^\\x00-\\xff]");
            self.part(node);
            return self.out.push_str(")?");
        }
        let possessive = greed == Greed::Possessive;
        if possessive {
            self.out.push_str("(?>");
        }
        match node {
            Node::Set(_) => self.node(node),
            Node::Group(_) if self.captures => self.node(node),
            _ => self.wrap("(?:", node),
        }
        let _ = match (min, max) {
            (0, None) => self.out.write_str("*"),
            (1, None) => self.out.write_str("+"),
            (0, Some(1)) => self.out.write_str("?"),
            (min, None) => write!(self.out, "{{{min},}}"),
            (min, Some(max)) if min == max => write!(self.out, "{{{min}}}"),
            (min, Some(max)) => write!(self.out, "{{{min},{max}}}"),
        };
        match greed {
            Greed::Lazy => self.out.push('?'),
            Greed::Possessive => self.out.push(')'),
            Greed::Greedy => {}
        }
    }

    /// Repeats a part that matches no bytes: it is tried once at most.
    fn repeated_nothing(&mut self, node: &Node, min: u32, max: Option<u32>, greed: Greed) {
        self.out.push_str(if greed == Greed::Possessive { "(?>" } else { "(?:" });
        if min == 0 && greed == Greed::Lazy {
            self.out.push('|');
        }
        if max == Some(0) {
            self.out.push_str("[^\\x00-\\xff]");
        }
        self.part(node);
        if min == 0 && greed != Greed::Lazy {
            self.out.push('|');
        }
        self.out.push(')');
    }

    fn assertion(&mut self, at: At) {
        self.out.push_str(match (at, self.dialect) {
            (At::Start, _) => "\\A",
            (At::End, _) | (At::Dollar, Dialect::Linear) => "\\z",
            (At::Dollar, Dialect::Backtracking) => "(?=\\n?\\z)",
            (At::LineStart, Dialect::Linear) => "(?m:^)",
            (At::LineStart, Dialect::Backtracking) => "(?:\\A|(?<=\\n)(?!\\z))",
            (At::LineEnd, _) => "(?m:$)",
            (At::Word, _) => "\\b",
            (At::NotWord, _) => "\\B",
        });
    }

    fn set(&mut self, set: &ByteSet) {
        if let Some(byte) = set.single() {
            return self.byte(byte);
        }
        let ranges = set.ranges();
        if ranges.is_empty() {
            return self.out.push_str("[^\\x00-\\xff]");
        }
        self.out.push('[');
        for (from, to) in ranges {
            self.byte(from);
            if to > from {
                self.out.push('-');
                self.byte(to);
            }
        }
        self.out.push(']');
    }

    fn byte(&mut self, byte: u8) {
        if byte.is_ascii_alphanumeric() {
            self.out.push(byte.into());
        } else {
            let _ = write!(self.out, "\\x{byte:02x}");
        }
    }
}
