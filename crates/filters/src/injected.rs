// SPDX-License-Identifier: BSD-2-Clause
//! Filters that modules inject into the chain of one body, and where in its list they run.
//!
//! They work on the plain body: in front of the first one its coding is undone. On part of a body (206), or one in a
//! coding that we don't know, they make no sense and let it be.

use std::any::Any;

use message::Coding;

use crate::{Filter, FilterList, FilterName};

/// Filters for one body. A name in `beresp.filters` or `resp.filters` says where each runs; those that go by themselves run
/// also when the list hasn't their name. The others run only when it has.
#[derive(Default)]
pub struct InjectedFilters(Option<Box<Entries>>);

/// In a box, as few transactions have any. Never empty but for those that run by now.
struct Entries(Vec<InjectedEntry>);

struct InjectedEntry {
    goes_by_itself: bool,
    filter: Box<dyn Filter>,
}

/// Side of the cache that a list is for: it decides in front of what a filter goes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheSide {
    /// `beresp.filters`: before ESI is parsed and the body is packed.
    Fetch,
    /// `resp.filters`: before a range is cut out.
    Deliver,
}

impl CacheSide {
    /// True if a filter that goes by itself goes in front of this one.
    fn is_stop(self, name: FilterName<'_>) -> bool {
        match (self, name) {
            (CacheSide::Fetch, FilterName::Esi | FilterName::EsiGzip | FilterName::Gzip | FilterName::Pack(_))
            | (CacheSide::Deliver, FilterName::Range) => true,
            (
                CacheSide::Fetch,
                FilterName::Gunzip
                | FilterName::Range
                | FilterName::TestGunzip
                | FilterName::Unpack(_)
                | FilterName::Check(_)
                | FilterName::Injected(_),
            )
            | (
                CacheSide::Deliver,
                FilterName::Esi
                | FilterName::EsiGzip
                | FilterName::Gunzip
                | FilterName::Gzip
                | FilterName::TestGunzip
                | FilterName::Pack(_)
                | FilterName::Unpack(_)
                | FilterName::Check(_)
                | FilterName::Injected(_),
            ) => false,
        }
    }
}

impl InjectedFilters {
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
        let is_it = |entry: &InjectedEntry| (&*entry.filter as &dyn Any).is::<T>();
        let at = all.iter().position(is_it).unwrap_or_else(|| {
            all.push(InjectedEntry { goes_by_itself, filter: Box::new(make()) });
            all.len() - 1
        });
        all[at].goes_by_itself |= goes_by_itself;
        (&mut *all[at].filter as &mut dyn Any).downcast_mut().expect("found by its type")
    }

    pub fn find<T: Filter>(&mut self) -> Option<&mut T> {
        self.entries_mut().find_map(|entry| (&mut *entry.filter as &mut dyn Any).downcast_mut())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// True if some run that no list needs to name.
    pub fn goes_by_itself(&self) -> bool {
        self.entries().any(|entry| entry.goes_by_itself)
    }

    pub fn clear(&mut self) {
        self.0 = None;
    }

    /// The filter of that name; it runs once.
    pub(crate) fn take(&mut self, name: FilterName<'_>) -> Option<Box<dyn Filter>> {
        let all = &mut self.0.as_mut()?.0;
        let at = all.iter().position(|entry| entry.filter.name().as_bytes() == name.as_bytes())?;
        Some(all.remove(at).filter)
    }

    fn has(&self, name: &[u8]) -> bool {
        self.entries().any(|entry| entry.filter.name().as_bytes() == name)
    }

    fn entries(&self) -> impl Iterator<Item = &InjectedEntry> {
        self.0.iter().flat_map(|all| &all.0)
    }

    fn entries_mut(&mut self) -> impl Iterator<Item = &mut InjectedEntry> {
        self.0.iter_mut().flat_map(|all| &mut all.0)
    }

    /// The list with the names of those that go by themselves, and with the filter that undoes the body's coding where one
    /// of them would get a packed body. `coding`: what Content-Encoding says, `None` for one that we can't undo.
    pub fn complete(&self, list: FilterList, side: CacheSide, coding: Option<Coding>) -> FilterList {
        if self.is_empty() {
            return list;
        }
        let mut names: Vec<FilterName<'_>> = list.names().collect();
        let before = names.len();
        for entry in self.entries().filter(|entry| entry.goes_by_itself) {
            let name = FilterName::from(entry.filter.name().as_bytes());
            if !names.contains(&name) {
                let stop = names.iter().position(|there| side.is_stop(*there));
                names.insert(stop.unwrap_or(names.len()), name);
            }
        }
        if let Some(first) = names.iter().position(|name| self.has(name.as_bytes()))
            && let Some(undoing) = coding.and_then(FilterName::undoing)
            && !names[..first].contains(&undoing)
        {
            names.insert(first, undoing);
        }
        let completed = (names.len() != before).then(|| names.into_iter().collect());
        completed.unwrap_or(list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FilterError, FilterState, FilterStep};

    struct Upper;
    struct Lower;

    impl Filter for Upper {
        fn name(&self) -> &'static str {
            "upper"
        }
        fn step(&mut self, input: &[u8], is_last: bool, out: &mut [u8]) -> Result<FilterStep, FilterError> {
            let n = input.len().min(out.len());
            out[..n].copy_from_slice(&input[..n].to_ascii_uppercase());
            let state = match (n == input.len(), is_last) {
                (true, true) => FilterState::End,
                (true, false) => FilterState::Hungry,
                (false, _) => FilterState::More,
            };
            Ok(FilterStep { consumed: n, produced: n, state })
        }
    }

    impl Filter for Lower {
        fn name(&self) -> &'static str {
            "lower"
        }
        fn step(&mut self, _: &[u8], _: bool, _: &mut [u8]) -> Result<FilterStep, FilterError> {
            Err(FilterError::Module { name: "lower", reason: "no" })
        }
    }

    #[track_caller]
    fn check(list: &'static str, side: CacheSide, is_gzip: bool, wanted: &'static str) {
        let mut injected = InjectedFilters::default();
        injected.by_itself(|| Upper);
        injected.named(|| Lower);
        let complete = |coding| injected.complete(list.into(), side, coding);
        assert_eq!(complete(Some(if is_gzip { Coding::Gzip } else { Coding::Identity })), wanted.into());
        if !is_gzip {
            // What we can't undo is left as it is, the filter finds out.
            assert_eq!(complete(None), wanted.into());
        }
    }

    #[test]
    fn where_they_go() {
        check("", CacheSide::Fetch, false, " upper");
        check("gzip", CacheSide::Fetch, false, " upper gzip");
        check(" gunzip esi_gzip", CacheSide::Fetch, true, " gunzip upper esi_gzip");
        check("testgunzip", CacheSide::Fetch, true, " testgunzip gunzip upper");
        check("lower", CacheSide::Fetch, true, " gunzip lower upper");
        check("gunzip upper gzip", CacheSide::Fetch, true, "gunzip upper gzip");
        check(" esi range", CacheSide::Deliver, true, " esi gunzip upper range");
        check(" esi gunzip range", CacheSide::Deliver, true, " esi gunzip upper range");
    }

    #[test]
    fn none_changes_nothing() {
        let list = || FilterList::from("testgunzip");
        let injected = InjectedFilters::default();
        assert!(injected.is_empty() && injected.complete(list(), CacheSide::Fetch, Some(Coding::Gzip)) == list());
        let mut injected = InjectedFilters::default();
        injected.named(|| Lower);
        assert_eq!(injected.complete(list(), CacheSide::Fetch, Some(Coding::Gzip)), list());
        assert!(injected.find::<Lower>().is_some() && injected.find::<Upper>().is_none());
    }

    #[test]
    fn each_runs_once() {
        let mut injected = InjectedFilters::default();
        injected.named(|| Lower);
        assert!(
            injected.take(FilterName::Injected(b"upper")).is_none()
                && injected.take(FilterName::Injected(b"lower")).is_some()
                && injected.take(FilterName::Injected(b"lower")).is_none()
        );
    }
}
