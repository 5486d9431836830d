// SPDX-License-Identifier: BSD-2-Clause
//! The automaton of a pattern: states that a text is in, advanced by one byte at a time, without going back.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Byte(u8),
    NoSlash,
    Any,
    /// Both the next state and that one hold, without a byte.
    Fork(usize),
    Jump(usize),
}

/// States in order; the text matches if the end behind the last one is reached with its last byte.
#[derive(Debug, Default)]
pub(super) struct Automaton(Vec<State>);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Repeat {
    #[default]
    Once,
    Optional,
    OneOrMore,
    Any,
}

impl Repeat {
    pub fn may_be_absent(self) -> bool {
        matches!(self, Repeat::Optional | Repeat::Any)
    }

    pub fn may_recur(self) -> bool {
        matches!(self, Repeat::OneOrMore | Repeat::Any)
    }
}

impl Automaton {
    pub fn literal(text: &[u8]) -> Self {
        let mut automaton = Automaton::default();
        automaton.push_text(text);
        automaton
    }

    pub fn push_text(&mut self, text: &[u8]) {
        self.0.extend(text.iter().map(|&c| State::Byte(c)));
    }

    pub fn push_wildcard(&mut self) {
        let begin = self.0.len();
        self.0.extend([State::Fork(begin + 3), State::Any, State::Jump(begin)]);
    }

    /// Appends at least one byte, none of which is a slash if the slash separates.
    pub fn push_segment(&mut self, has_slash: bool) {
        let begin = self.0.len();
        self.0.extend([if has_slash { State::Any } else { State::NoSlash }, State::Fork(begin)]);
    }

    pub fn push_repeated(&mut self, repeat: Repeat, piece: impl FnOnce(&mut Self)) {
        let skip = self.0.len();
        if repeat.may_be_absent() {
            self.0.push(State::Fork(0));
        }
        let begin = self.0.len();
        piece(self);
        if repeat.may_recur() {
            self.0.push(State::Fork(begin));
        }
        if repeat.may_be_absent() {
            self.0[skip] = State::Fork(self.0.len());
        }
    }

    pub fn matches(&self, text: &[u8]) -> bool {
        let mut now = ActiveStates::new(self.0.len() + 1);
        let mut next = ActiveStates::new(self.0.len() + 1);
        self.enter(&mut now, 0);
        for &c in text {
            for at in now.list.drain(..) {
                now.is_active[at] = false;
                let goes_on = match self.0.get(at) {
                    Some(State::Byte(byte)) => *byte == c,
                    Some(State::NoSlash) => c != b'/',
                    Some(State::Any) => true,
                    Some(State::Fork(_) | State::Jump(_)) | None => false,
                };
                if goes_on {
                    self.enter(&mut next, at + 1);
                }
            }
            if next.list.is_empty() {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
        }
        now.is_active[self.0.len()]
    }

    fn enter(&self, states: &mut ActiveStates, first: usize) {
        let mut open = vec![first];
        while let Some(at) = open.pop() {
            if std::mem::replace(&mut states.is_active[at], true) {
                continue;
            }
            states.list.push(at);
            match self.0.get(at) {
                Some(State::Fork(other)) => open.extend([at + 1, *other]),
                Some(State::Jump(other)) => open.push(*other),
                Some(State::Byte(_) | State::NoSlash | State::Any) | None => {}
            }
        }
    }

    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<State>()
    }
}

struct ActiveStates {
    list: Vec<usize>,
    is_active: Vec<bool>,
}

impl ActiveStates {
    fn new(len: usize) -> Self {
        ActiveStates { list: Vec::with_capacity(len), is_active: vec![false; len] }
    }
}
