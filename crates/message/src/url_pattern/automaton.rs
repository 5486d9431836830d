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

/// States of all automatons of a pattern.
pub(super) const MAX_STATES: usize = 256;

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

    pub fn states(&self) -> usize {
        self.0.len()
    }

    /// Looks at each state at most once per byte, and once at the end, and counts that in `steps`.
    pub fn matches(&self, text: &[u8], steps: &mut usize) -> bool {
        let (mut now, mut next) = (ActiveStates::new(), ActiveStates::new());
        now.enter(0);
        for &c in text {
            *steps += self.advance(&mut now, Some(c), &mut next);
            if next.len == 0 {
                return false;
            }
            now.clear();
            std::mem::swap(&mut now, &mut next);
        }
        *steps += self.advance(&mut now, None, &mut next);
        now.is_active[self.0.len()]
    }

    /// Goes on to the states behind the byte, and among those `now` without one. Returns the number of states.
    fn advance(&self, now: &mut ActiveStates, byte: Option<u8>, next: &mut ActiveStates) -> usize {
        let mut at = 0;
        while at < now.len {
            let state = usize::from(now.list[at]);
            at += 1;
            let goes_on = match self.0.get(state) {
                Some(State::Byte(own)) => byte == Some(*own),
                Some(State::NoSlash) => byte.is_some_and(|c| c != b'/'),
                Some(State::Any) => byte.is_some(),
                Some(State::Fork(other)) => {
                    now.enter(state + 1);
                    now.enter(*other);
                    false
                }
                Some(State::Jump(other)) => {
                    now.enter(*other);
                    false
                }
                None => false,
            };
            if goes_on {
                next.enter(state + 1);
            }
        }
        at
    }

    pub fn bytes(&self) -> usize {
        self.0.capacity() * size_of::<State>()
    }
}

struct ActiveStates {
    list: [u16; MAX_STATES + 1],
    len: usize,
    is_active: [bool; MAX_STATES + 1],
}

impl ActiveStates {
    fn new() -> Self {
        ActiveStates { list: [0; MAX_STATES + 1], len: 0, is_active: [false; MAX_STATES + 1] }
    }

    fn enter(&mut self, state: usize) {
        if !std::mem::replace(&mut self.is_active[state], true) {
            self.list[self.len] = state as u16;
            self.len += 1;
        }
    }

    fn clear(&mut self) {
        self.list[..self.len].iter().for_each(|&state| self.is_active[usize::from(state)] = false);
        self.len = 0;
    }
}
