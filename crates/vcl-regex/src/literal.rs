// SPDX-License-Identifier: BSD-2-Clause
//! Patterns that need no regex at all, and parts of patterns that a test (not a substitution) needn't run.

use memchr::memmem::Finder;

use super::node::{At, ByteSet, Greed, Node};

#[derive(Debug)]
pub(super) enum Literal {
    Contains(Box<Finder<'static>>),
    Prefix(Box<[u8]>),
    /// `abc$`: also before a newline at the end.
    Suffix(Box<[u8]>),
    Equal(Box<[u8]>),
    /// `[a-z]`: one byte of several.
    OneOf(ByteSet),
    /// `www.example.com`, `a[bc]d`: text in which some bytes may be one of several.
    Loose(Box<Loose>),
}

#[derive(Debug)]
pub(super) struct Loose {
    sets: Vec<ByteSet>,
    /// The longest part that is plain text, and where it begins.
    core: Finder<'static>,
    at: usize,
}

impl Loose {
    /// `None`: too little of it is plain text for that to be looked for.
    fn from_nodes(nodes: &[Node]) -> Option<Loose> {
        let set = |node: &Node| match node {
            Node::Set(set) => Some(*set),
            _ => None,
        };
        let sets: Vec<ByteSet> = nodes.iter().map(set).collect::<Option<_>>()?;
        let (mut best, mut run) = ((0, Vec::new()), Vec::new());
        for (n, set) in sets.iter().enumerate() {
            match set.single() {
                Some(byte) => run.push(byte),
                None => run.clear(),
            }
            if run.len() > best.1.len() {
                best = (n + 1 - run.len(), run.clone());
            }
        }
        let (at, core) = best;
        (core.len() >= SHORTEST_NEED).then(|| Loose { sets, core: Finder::new(&core).into_owned(), at })
    }

    fn find_from(&self, subject: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        let mut core = from + self.at;
        loop {
            core += self.core.find(subject.get(core..)?)?;
            let range = core - self.at..core - self.at + self.sets.len();
            let text = subject.get(range.clone())?;
            if text.iter().zip(&self.sets).all(|(byte, set)| set.has(*byte)) {
                return Some(range);
            }
            core += 1;
        }
    }
}

impl Literal {
    pub(super) fn from_node(node: &Node) -> Option<Literal> {
        let nodes = match node {
            Node::Cat(nodes) => nodes.as_slice(),
            one => std::slice::from_ref(one),
        };
        let (start, nodes) = match nodes {
            [Node::At(At::Start), rest @ ..] => (true, rest),
            all => (false, all),
        };
        let (end, nodes) = match nodes {
            [rest @ .., Node::At(At::Dollar)] => (true, rest),
            all => (false, all),
        };
        let byte = |node: &Node| match node {
            Node::Set(set) => set.single(),
            _ => None,
        };
        if let ([Node::Set(set)], false, false) = (nodes, start, end) {
            return Some(Literal::OneOf(*set));
        }
        let Some(text) = nodes.iter().map(byte).collect::<Option<Vec<u8>>>() else {
            return if start || end {
                None
            } else {
                Loose::from_nodes(nodes).map(|loose| Literal::Loose(Box::new(loose)))
            };
        };
        Some(match (start, end) {
            (false, false) => Literal::Contains(Box::new(Finder::new(&text).into_owned())),
            (true, false) => Literal::Prefix(text.into()),
            (false, true) => Literal::Suffix(text.into()),
            (true, true) => Literal::Equal(text.into()),
        })
    }

    pub(super) fn find_from(&self, subject: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        match self {
            Literal::Contains(finder) => {
                let at = from + finder.find(&subject[from..])?;
                Some(at..at + finder.needle().len())
            }
            Literal::OneOf(set) => {
                let at = from + subject[from..].iter().position(|byte| set.has(*byte))?;
                Some(at..at + 1)
            }
            Literal::Suffix(text) => {
                let trimmed = subject.strip_suffix(b"\n").unwrap_or(subject);
                let places = [trimmed, subject].into_iter().filter(|s| s.ends_with(text));
                places.map(|s| s.len() - text.len()..s.len()).find(|range| range.start >= from)
            }
            Literal::Loose(loose) => loose.find_from(subject, from),
            Literal::Prefix(_) | Literal::Equal(_) => self.find(subject).filter(|_| from == 0),
        }
    }

    pub(super) fn find(&self, subject: &[u8]) -> Option<std::ops::Range<usize>> {
        let trimmed = subject.strip_suffix(b"\n").unwrap_or(subject);
        match self {
            Literal::Contains(finder) => finder.find(subject).map(|at| at..at + finder.needle().len()),
            Literal::Prefix(text) => subject.starts_with(text).then_some(0..text.len()),
            Literal::Equal(text) => (subject == &**text || trimmed == &**text).then_some(0..text.len()),
            Literal::Loose(loose) => loose.find_from(subject, 0),
            Literal::OneOf(_) => self.find_from(subject, 0),
            // The leftmost place wins: before the last newline, if there is one.
            Literal::Suffix(_) => self.find_from(subject, 0),
        }
    }
}

/// The same test with less work: outer captures gone, `.*` at both ends gone.
pub(super) fn for_test(node: &Node) -> Node {
    let Node::Cat(nodes) = node else { return node.clone() };
    let mut rest = nodes.as_slice();
    while let [first, tail @ ..] = rest
        && is_any_star(first)
        && !tail.is_empty()
    {
        rest = tail;
    }
    while let [head @ .., last] = rest
        && is_any_star(last)
        && !head.is_empty()
    {
        rest = head;
    }
    match rest {
        [one] => one.clone(),
        _ => Node::Cat(rest.to_vec()),
    }
}

/// `.*` and the like: matches nothing as well as anything, so that a search may begin or end beside it.
fn is_any_star(node: &Node) -> bool {
    match node {
        Node::Repeat { node, min: 0, max: None, greed } => {
            *greed != Greed::Possessive && matches!(**node, Node::Set(_))
        }
        _ => false,
    }
}

/// Shortest text that is worth looking for, and the most of them for one pattern.
const SHORTEST_NEED: usize = 3;
const MAX_NEEDS: usize = 8;

/// See [`super::Regex::needs`]. `None`: nothing is known to be needed.
pub(super) fn needed(node: &Node) -> Option<Vec<Vec<u8>>> {
    match node {
        Node::Set(_) => longest_run(std::slice::from_ref(node)),
        Node::Cat(nodes) => {
            let parts = nodes.iter().filter_map(|part| if matches!(part, Node::Set(_)) { None } else { needed(part) });
            parts.chain(longest_run(nodes)).max_by_key(|texts| texts.iter().map(Vec::len).min())
        }
        Node::Alt(nodes) => {
            let all: Option<Vec<_>> = nodes.iter().map(needed).collect();
            all.map(|lists| lists.concat()).filter(|texts| texts.len() <= MAX_NEEDS)
        }
        Node::Group(inner) | Node::Atomic(inner) => needed(inner),
        Node::Repeat { node, min: 1.., .. } => needed(node),
        Node::Repeat { .. } | Node::At(_) | Node::Look { .. } | Node::Backref { .. } | Node::Keep | Node::If { .. } => {
            None
        }
    }
}

/// The longest text that these nodes, one after the other, hold.
fn longest_run(nodes: &[Node]) -> Option<Vec<Vec<u8>>> {
    let (mut best, mut run) = (Vec::new(), Vec::new());
    for node in nodes {
        match node {
            Node::Set(set) if letter(set).is_some() => run.extend(letter(set)),
            // Matches no bytes, so that what is before and after it is still one text.
            Node::At(_) | Node::Look { .. } | Node::Keep => {}
            _ => run.clear(),
        }
        if run.len() > best.len() {
            best.clone_from(&run);
        }
    }
    (best.len() >= SHORTEST_NEED).then(|| vec![best])
}

/// The one byte of a set, in lower case; the two cases of a letter are one.
fn letter(set: &super::node::ByteSet) -> Option<u8> {
    let folded = |byte: u8| byte.to_ascii_lowercase();
    if let Some(byte) = set.single() {
        return Some(folded(byte));
    }
    match set.ranges()[..] {
        [(a, b), (c, d)] if a == b && c == d && folded(a) == c && a != c => Some(c),
        _ => None,
    }
}
