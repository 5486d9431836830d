// SPDX-License-Identifier: BSD-2-Clause
//! Filters that modules bring for one body, and where in its list of filters they run.
//!
//! They work on the plain body: in front of the first one gzip is unpacked. On part of a body (206), or one in another
//! coding, they make no sense and let it be.

use std::any::Any;

use crate::Filter;
use crate::fetch::next_name;

/// Filters for one body. A name in `beresp.filters` or `resp.filters` says where each runs; those that go by themselves run
/// also when the list hasn't their name. The others run only when it has.
#[derive(Default)]
pub struct Brought(Option<Box<Entries>>);

/// In a box, as few transactions have any. Never empty but for those that run by now.
struct Entries(Vec<Entry>);

struct Entry {
    goes_by_itself: bool,
    filter: Box<dyn Filter>,
}

/// Which side of the cache a list is for: it decides in front of what a filter goes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// `beresp.filters`: before ESI is parsed and the body is packed.
    Fetch,
    /// `resp.filters`: before a range is cut out.
    Deliver,
}

impl Side {
    fn is_stop(self, name: &[u8]) -> bool {
        match self {
            Side::Fetch => matches!(name, b"esi" | b"esi_gzip" | b"gzip"),
            Side::Deliver => name == b"range",
        }
    }
}

impl Brought {
    /// The filter of this type, made when there is none. It goes where the list has its name.
    pub fn named<T: Filter>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        self.get(false, make)
    }

    /// The filter of this type, made when there is none. It runs whether the list has its name or not.
    pub fn by_itself<T: Filter>(&mut self, make: impl FnOnce() -> T) -> &mut T {
        self.get(true, make)
    }

    fn get<T: Filter>(&mut self, goes_by_itself: bool, make: impl FnOnce() -> T) -> &mut T {
        let all = &mut self.0.get_or_insert_with(|| Box::new(Entries(Vec::new()))).0;
        let is_it = |entry: &Entry| (&*entry.filter as &dyn Any).is::<T>();
        let at = all.iter().position(is_it).unwrap_or_else(|| {
            all.push(Entry { goes_by_itself, filter: Box::new(make()) });
            all.len() - 1
        });
        all[at].goes_by_itself |= goes_by_itself;
        (&mut *all[at].filter as &mut dyn Any).downcast_mut().expect("found by its type")
    }

    /// The filter of this type, if it was brought.
    pub fn find<T: Filter>(&mut self) -> Option<&mut T> {
        self.entries_mut().find_map(|entry| (&mut *entry.filter as &mut dyn Any).downcast_mut())
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Whether some run that no list needs to name.
    pub fn goes_by_itself(&self) -> bool {
        self.entries().any(|entry| entry.goes_by_itself)
    }

    /// All are gone.
    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// The filter of that name; it runs once.
    pub(crate) fn take(&mut self, name: &[u8]) -> Option<Box<dyn Filter>> {
        let all = &mut self.0.as_mut()?.0;
        let at = all.iter().position(|entry| entry.filter.name().as_bytes() == name)?;
        Some(all.remove(at).filter)
    }

    fn has(&self, name: &[u8]) -> bool {
        self.entries().any(|entry| entry.filter.name().as_bytes() == name)
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.0.iter().flat_map(|all| &all.0)
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut().flat_map(|all| &mut all.0)
    }

    /// The list with the names of those that go by themselves, and `gunzip` where one would get a packed body; `None` when
    /// it stays as it is.
    pub fn complete(&self, names: &[u8], side: Side, is_gzip: bool) -> Option<Vec<u8>> {
        let mut rest = names;
        let mut words: Vec<&[u8]> = std::iter::from_fn(|| next_name(&mut rest)).collect();
        let before = words.len();
        for entry in self.entries().filter(|entry| entry.goes_by_itself) {
            let name = entry.filter.name().as_bytes();
            if !words.contains(&name) {
                let stop = words.iter().position(|word| side.is_stop(word));
                words.insert(stop.unwrap_or(words.len()), name);
            }
        }
        if let Some(first) = words.iter().position(|word| self.has(word))
            && is_gzip
            && !words[..first].contains(&&b"gunzip"[..])
        {
            words.insert(first, b"gunzip");
        }
        (words.len() != before).then(|| words.iter().flat_map(|word| [b" ", *word]).flatten().copied().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FilterError, State, Step};

    struct Upper;
    struct Lower;

    impl Filter for Upper {
        fn name(&self) -> &'static str {
            "upper"
        }
        fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<Step, FilterError> {
            let n = input.len().min(out.len());
            out[..n].copy_from_slice(&input[..n].to_ascii_uppercase());
            let state = match (n == input.len(), is_last) {
                (true, true) => State::End,
                (true, false) => State::Hungry,
                (false, _) => State::More,
            };
            Ok(Step { consumed: n, produced: n, state })
        }
    }

    impl Filter for Lower {
        fn name(&self) -> &'static str {
            "lower"
        }
        fn step(&mut self, _: &[u8], _: bool, _: &mut [u8]) -> Result<Step, FilterError> {
            Err(FilterError::Module { name: "lower", why: "no" })
        }
    }

    #[track_caller]
    fn check(list: &str, side: Side, is_gzip: bool, wanted: &str) {
        let mut brought = Brought::default();
        brought.by_itself(|| Upper);
        brought.named(|| Lower);
        let complete = brought.complete(list.as_bytes(), side, is_gzip);
        assert_eq!(complete.map_or(list.to_owned(), |list| String::from_utf8(list).unwrap()), wanted);
    }

    #[test]
    fn where_they_go() {
        check("", Side::Fetch, false, " upper");
        check("gzip", Side::Fetch, false, " upper gzip");
        check(" gunzip esi_gzip", Side::Fetch, true, " gunzip upper esi_gzip");
        check("testgunzip", Side::Fetch, true, " testgunzip gunzip upper");
        check("lower", Side::Fetch, true, " gunzip lower upper");
        check("gunzip upper gzip", Side::Fetch, true, "gunzip upper gzip");
        check(" esi range", Side::Deliver, true, " esi gunzip upper range");
        check(" esi gunzip range", Side::Deliver, true, " esi gunzip upper range");
    }

    #[test]
    fn none_changes_nothing() {
        let brought = Brought::default();
        assert!(brought.is_empty() && brought.complete(b"testgunzip", Side::Fetch, true).is_none());
        let mut brought = Brought::default();
        brought.named(|| Lower);
        assert!(brought.complete(b"testgunzip", Side::Fetch, true).is_none());
        assert!(brought.find::<Lower>().is_some() && brought.find::<Upper>().is_none());
    }

    #[test]
    fn each_runs_once() {
        let mut brought = Brought::default();
        brought.named(|| Lower);
        assert!(
            brought.take(b"upper").is_none() && brought.take(b"lower").is_some() && brought.take(b"lower").is_none()
        );
    }
}
