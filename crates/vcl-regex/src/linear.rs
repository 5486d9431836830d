// SPDX-License-Identifier: BSD-2-Clause
//! The linear-time engine. Each thread has its own scratch space for each pattern, found by the pattern's slot number,
//! so that matching takes no lock.

use std::cell::RefCell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use regex_automata::meta::{Cache, Regex};
use regex_automata::util::primitives::NonMaxUsize;
use regex_automata::util::syntax;
use regex_automata::{HalfMatch, Input, Match};

use super::backtrack::Groups;

/// A pattern may not take more memory than this, compiled.
const SIZE_LIMIT: usize = 8 << 20;
/// Memory for the lazy automaton, per pattern and thread.
const CACHE_LIMIT: usize = 512 << 10;
/// Depth that non-capturing wrapping may add to a nesting of 250.
const NEST_LIMIT: u32 = 2000;

#[derive(Debug)]
pub(super) struct Linear {
    regex: Regex,
    slot: Slot,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum BuildError {
    TooLarge,
    Refused,
}

impl Linear {
    pub(super) fn new(text: &str) -> Result<Linear, BuildError> {
        let syntax = syntax::Config::new().unicode(false).utf8(false).nest_limit(NEST_LIMIT);
        let config = Regex::config()
            .utf8_empty(false)
            .nfa_size_limit(Some(SIZE_LIMIT))
            .onepass_size_limit(Some(256 << 10))
            .hybrid_cache_capacity(CACHE_LIMIT)
            .dfa(false);
        let built = Regex::builder().syntax(syntax).configure(config).build(text);
        let regex = built.map_err(|error| match error.size_limit() {
            Some(_) => BuildError::TooLarge,
            None => BuildError::Refused,
        })?;
        Ok(Linear { regex, slot: Slot::take() })
    }

    pub(super) fn is_match(&self, subject: &[u8]) -> bool {
        let input = Input::new(subject).earliest(true);
        let found: Option<HalfMatch> = self.with_cache(|cache| self.regex.search_half_with(cache, &input));
        found.is_some()
    }

    pub(super) fn find(&self, subject: &[u8], from: usize) -> Option<std::ops::Range<usize>> {
        let input = Input::new(subject).span(from..subject.len());
        let found: Option<Match> = self.with_cache(|cache| self.regex.search_with(cache, &input));
        found.map(|m| m.range())
    }

    pub(super) fn captures(&self, subject: &[u8], from: usize, groups: &mut Groups) -> bool {
        let input = Input::new(subject).span(from..subject.len());
        // Groups 0 to 10: regsub has \0 to \9, vmod re asks for the tenth.
        let mut slots: [Option<NonMaxUsize>; 22] = [None; 22];
        let wanted = slots.len().min(self.regex.group_info().slot_len());
        let found = self.with_cache(|cache| self.regex.search_slots_with(cache, &input, &mut slots[..wanted]));
        groups.clear();
        let range = |pair: &[Option<NonMaxUsize>]| Some(pair[0]?.get()..pair[1]?.get());
        groups.extend(slots[..wanted].chunks_exact(2).map(range));
        found.is_some()
    }

    fn with_cache<T>(&self, run: impl FnOnce(&mut Cache) -> T) -> T {
        let (index, birth) = (self.slot.index, self.slot.birth);
        // Taken out while in use, so that nothing breaks if `run` panics.
        let kept = CACHES.try_with(|all| all.borrow_mut().get_mut(index).and_then(Option::take)).ok().flatten();
        let mut entry = match kept {
            Some(entry) if entry.0 == birth => entry,
            _ => Box::new((birth, self.regex.create_cache())),
        };
        let result = run(&mut entry.1);
        // Err: this thread is ending.
        let _ = CACHES.try_with(|all| {
            let mut all = all.borrow_mut();
            if all.len() <= index {
                all.resize_with(index + 1, || None);
            }
            all[index] = Some(entry);
        });
        result
    }
}

/// A cache and the birth of its pattern.
type PatternCache = Box<(u64, Cache)>;

thread_local! {
    static CACHES: RefCell<Vec<Option<PatternCache>>> = const { RefCell::new(Vec::new()) };
}

/// Slots of patterns that are gone, for the next ones; and how many were ever in use at once.
static FREE: Mutex<(Vec<usize>, usize)> = Mutex::new((Vec::new(), 0));
static BIRTHS: AtomicU64 = AtomicU64::new(1);

/// A pattern's place in each thread's list of caches. A cache is valid for one birth only.
#[derive(Debug)]
struct Slot {
    index: usize,
    birth: u64,
}

impl Slot {
    fn take() -> Slot {
        let mut free = FREE.lock().unwrap_or_else(|poison| poison.into_inner());
        let index = free.0.pop().unwrap_or_else(|| {
            free.1 += 1;
            free.1 - 1
        });
        Slot { index, birth: BIRTHS.fetch_add(1, Ordering::Relaxed) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        FREE.lock().unwrap_or_else(|poison| poison.into_inner()).0.push(self.index);
    }
}
