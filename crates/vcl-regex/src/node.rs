// SPDX-License-Identifier: BSD-2-Clause
//! A pattern as a tree, flags already applied: what the parser gives and the emitters read.

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ByteSet([u64; 4]);

impl ByteSet {
    pub(super) const EMPTY: ByteSet = ByteSet([0; 4]);

    pub(super) fn from_bytes(bytes: &[u8]) -> ByteSet {
        bytes.iter().fold(ByteSet::EMPTY, |set, &b| set.with(b, b))
    }

    pub(super) fn with(mut self, from: u8, to: u8) -> ByteSet {
        for b in from..=to {
            self.0[b as usize >> 6] |= 1 << (b & 63);
        }
        self
    }

    pub(super) fn union(self, other: ByteSet) -> ByteSet {
        ByteSet(std::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub(super) fn not(self) -> ByteSet {
        ByteSet(self.0.map(|word| !word))
    }

    pub(super) fn has(&self, b: u8) -> bool {
        self.0[b as usize >> 6] & (1 << (b & 63)) != 0
    }

    /// The set with the other case of every ASCII letter in it.
    pub(super) fn folded(self) -> ByteSet {
        let letters = (b'a'..=b'z').chain(b'A'..=b'Z').filter(|&b| self.has(b));
        letters.fold(self, |set, b| set.with(b ^ 0x20, b ^ 0x20))
    }

    /// The only member, when there is just one.
    pub(super) fn single(&self) -> Option<u8> {
        let count: u32 = self.0.iter().map(|word| word.count_ones()).sum();
        if count == 1 { (0..=255).find(|&b| self.has(b)) } else { None }
    }

    pub(super) fn ranges(&self) -> Vec<(u8, u8)> {
        let mut out: Vec<(u8, u8)> = Vec::new();
        for b in (0..=255u8).filter(|&b| self.has(b)) {
            match out.last_mut() {
                Some(last) if last.1 as u16 + 1 == b as u16 => last.1 = b,
                _ => out.push((b, b)),
            }
        }
        out
    }
}

impl std::fmt::Debug for ByteSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x?}", self.ranges())
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Greed {
    Greedy,
    Lazy,
    Possessive,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// The assertions `^` and `\A`.
    Start,
    /// The assertion `\z` alone.
    End,
    /// `$`, `\Z`: at the end or before a newline there.
    Dollar,
    /// The assertion `^` under `m`.
    LineStart,
    /// The assertion `$` under `m`.
    LineEnd,
    /// The assertion `\b` alone.
    Word,
    /// The assertion `\B` alone.
    NotWord,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Node {
    Set(ByteSet),
    Cat(Vec<Node>),
    Alt(Vec<Node>),
    /// A numbered group; numbers rise in order of the opening parentheses.
    Group(Box<Node>),
    Repeat {
        node: Box<Node>,
        min: u32,
        max: Option<u32>,
        greed: Greed,
    },
    At(At),
    Look {
        ahead: bool,
        negated: bool,
        node: Box<Node>,
    },
    Atomic(Box<Node>),
    Backref {
        group: u32,
        caseless: bool,
    },
    Keep,
    /// The condition `(?(group)yes|no)` of PCRE.
    If {
        group: u32,
        yes: Box<Node>,
        no: Box<Node>,
    },
}

impl Node {
    pub(super) const EMPTY: Node = Node::Cat(Vec::new());

    pub(super) fn needs_backtracking(&self) -> bool {
        match self {
            Node::Set(_) | Node::At(_) => false,
            Node::Cat(nodes) | Node::Alt(nodes) => nodes.iter().any(Node::needs_backtracking),
            Node::Group(node) => node.needs_backtracking(),
            Node::Repeat { greed: Greed::Possessive, .. } => true,
            Node::Repeat { node, .. } => node.needs_backtracking(),
            Node::Look { .. } | Node::Atomic(_) | Node::Backref { .. } | Node::Keep | Node::If { .. } => true,
        }
    }

    /// True when its meaning depends on a newline at the very end of the subject.
    pub(super) fn cares_for_last_newline(&self) -> bool {
        match self {
            Node::At(at) => matches!(at, At::Dollar | At::LineStart),
            Node::Set(_) | Node::Backref { .. } | Node::Keep => false,
            Node::Cat(nodes) | Node::Alt(nodes) => nodes.iter().any(Node::cares_for_last_newline),
            Node::Group(node) | Node::Repeat { node, .. } | Node::Look { node, .. } | Node::Atomic(node) => {
                node.cares_for_last_newline()
            }
            Node::If { yes, no, .. } => yes.cares_for_last_newline() || no.cares_for_last_newline(),
        }
    }

    /// True when it may match no bytes at all; may say so wrongly, but never the other way.
    pub(super) fn may_be_empty(&self) -> bool {
        match self {
            Node::Set(_) => false,
            Node::Cat(nodes) => nodes.iter().all(Node::may_be_empty),
            Node::Alt(nodes) => nodes.iter().any(Node::may_be_empty),
            Node::Group(node) | Node::Atomic(node) => node.may_be_empty(),
            Node::Repeat { node, min, .. } => *min == 0 || node.may_be_empty(),
            Node::At(_) | Node::Look { .. } | Node::Backref { .. } | Node::Keep => true,
            Node::If { yes, no, .. } => yes.may_be_empty() || no.may_be_empty(),
        }
    }

    pub(super) fn fixed_len(&self) -> Option<usize> {
        match self {
            Node::Set(_) => Some(1),
            Node::At(_) | Node::Look { .. } | Node::Keep => Some(0),
            Node::Backref { .. } => None,
            Node::Cat(nodes) => nodes.iter().try_fold(0usize, |sum, node| sum.checked_add(node.fixed_len()?)),
            Node::Alt(nodes) => {
                let first = nodes.first()?.fixed_len()?;
                nodes.iter().all(|node| node.fixed_len() == Some(first)).then_some(first)
            }
            Node::Group(node) | Node::Atomic(node) => node.fixed_len(),
            Node::Repeat { node, min, max, .. } if *max == Some(*min) => node.fixed_len()?.checked_mul(*min as usize),
            Node::Repeat { .. } => None,
            Node::If { yes, no, .. } => yes.fixed_len().filter(|len| no.fixed_len() == Some(*len)),
        }
    }
}
