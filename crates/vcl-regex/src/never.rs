// SPDX-License-Identifier: BSD-2-Clause
//! Patterns that can't match, whatever the subject: an anchor with text on its wrong side, an empty set. Only what is
//! certain is found.

use super::node::{At, ByteSet, Node};

#[derive(Clone, Copy)]
struct Neighbours {
    /// Bytes that must stand before it.
    before: usize,
    /// Bytes that must stand after it.
    after: usize,
    /// True if one of those may be a newline.
    newline: bool,
}

const ALONE: Neighbours = Neighbours { before: 0, after: 0, newline: false };

pub(super) fn never(node: &Node) -> Option<&'static str> {
    if is_dead(node, ALONE) {
        return Some("This pattern can never match: ^ and $ stand for the ends of the text.\n");
    }
    has_dead_branch(node, ALONE)
        .then_some("An alternative in this pattern can never match: ^ and $ stand for the ends of the text.\n")
}

fn is_dead(node: &Node, around: Neighbours) -> bool {
    match node {
        Node::Set(set) => *set == ByteSet::EMPTY,
        Node::At(At::Start) => around.before > 0,
        Node::At(At::End) => around.after > 0,
        Node::At(At::Dollar) => around.after > usize::from(around.newline),
        Node::Group(inner) | Node::Atomic(inner) => is_dead(inner, around),
        Node::Repeat { node, min, .. } => *min > 0 && is_dead(node, around),
        Node::Cat(nodes) => parts(nodes, around).any(|(node, around)| is_dead(node, around)),
        Node::Alt(nodes) => !nodes.is_empty() && nodes.iter().all(|node| is_dead(node, around)),
        Node::At(At::LineStart | At::LineEnd | At::Word | At::NotWord) => false,
        Node::Look { .. } | Node::Backref { .. } | Node::Keep | Node::If { .. } => false,
    }
}

/// True if one of several alternatives is dead that has text of its own.
fn has_dead_branch(node: &Node, around: Neighbours) -> bool {
    match node {
        Node::Group(inner) | Node::Atomic(inner) => has_dead_branch(inner, around),
        Node::Repeat { node, max, .. } => *max == Some(1) && has_dead_branch(node, around),
        Node::Cat(nodes) => parts(nodes, around).any(|(node, around)| has_dead_branch(node, around)),
        Node::Alt(nodes) => {
            nodes.iter().any(|node| least(node) > 0 && is_dead(node, around) || has_dead_branch(node, around))
        }
        _ => false,
    }
}

/// The nodes of a sequence, with what stands around each.
fn parts(nodes: &[Node], around: Neighbours) -> impl Iterator<Item = (&Node, Neighbours)> {
    // What stands after each, summed up once from the end: a sequence may be a text of many thousand letters.
    let mut after = vec![(around.after, around.newline); nodes.len()];
    for at in (1..nodes.len()).rev() {
        let (bytes, newline) = after[at];
        after[at - 1] = (bytes.saturating_add(least(&nodes[at])), newline || may_have_newline(&nodes[at]));
    }
    let mut before = around.before;
    nodes.iter().zip(after).map(move |(node, (after, newline))| {
        let around = Neighbours { before, after, newline };
        before = before.saturating_add(least(node));
        (node, around)
    })
}

fn least(node: &Node) -> usize {
    match node {
        Node::Set(_) => 1,
        Node::Cat(nodes) => nodes.iter().map(least).fold(0, usize::saturating_add),
        Node::Alt(nodes) => nodes.iter().map(least).min().unwrap_or(0),
        Node::Group(inner) | Node::Atomic(inner) => least(inner),
        Node::Repeat { node, min, .. } => least(node).saturating_mul(*min as usize),
        Node::If { yes, no, .. } => least(yes).min(least(no)),
        Node::At(_) | Node::Look { .. } | Node::Backref { .. } | Node::Keep => 0,
    }
}

fn may_have_newline(node: &Node) -> bool {
    match node {
        Node::Set(set) => set.has(b'\n'),
        Node::Cat(nodes) | Node::Alt(nodes) => nodes.iter().any(may_have_newline),
        Node::Group(inner) | Node::Atomic(inner) | Node::Repeat { node: inner, .. } => may_have_newline(inner),
        Node::If { yes, no, .. } => may_have_newline(yes) || may_have_newline(no),
        Node::Backref { .. } => true,
        Node::At(_) | Node::Look { .. } | Node::Keep => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Regex;

    #[track_caller]
    fn check(pattern: &str, says: &str) {
        let said = Regex::new(pattern.as_bytes()).unwrap().never().unwrap_or("");
        assert!(said.starts_with(says) && said.is_empty() == says.is_empty(), "{pattern}: {said:?}");
    }

    #[test]
    fn anchors_with_text_on_their_wrong_side() {
        for pattern in ["a^b", "foo$bar", "(/x$)(/y)", "a(^b|^c)", "x+\\Ay", "a\\zb", "(a$)+b", "^/a$/b"] {
            check(pattern, "This pattern can never match");
        }
        for pattern in ["^/(^foo|bar)", "(/a$|/b)/c", "x(?:^y|z)?"] {
            check(pattern, "An alternative in this pattern");
        }
    }

    /// Each letter once: by pairs this would not end.
    #[test]
    fn a_long_text_is_walked_once() {
        let mut nodes: Vec<Node> = (0..500_000).map(|_| Node::Set(ByteSet::from_bytes(b"a"))).collect();
        nodes.push(Node::At(At::Start));
        assert!(never(&Node::Cat(nodes)).is_some());
    }

    #[test]
    fn what_can_match_is_left_alone() {
        let fine = [
            "^a$",
            "(^|;)a(;|$)",
            "a*^b",
            "(?m)a$\nb^c",
            "a$\n",
            "a$\\n",
            "^(a|b)$",
            "(^a|b$)",
            "[?&]x(&|$)",
            "^^a$$",
            "",
            "x?^y",
            "(^/a/?$|^/b$)",
            "a(?=$)",
            "(^a)?b",
            "a$[^x]",
            "foo(?!bar$)",
            "\\bfoo$",
        ];
        for pattern in fine {
            check(pattern, "");
        }
    }
}
