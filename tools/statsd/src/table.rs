// SPDX-License-Identifier: BSD-2-Clause
//! Names to values, in the order in which names came first. Names are hashed with a seed of this process, so that nobody
//! can choose names that collide.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

pub type StatName = Arc<[u8]>;

/// A table. Slots keep their number until [`StatsdTable::compact`].
#[derive(Debug)]
pub struct StatsdTable<T> {
    index: HashTable<u32>,
    slots: Vec<Option<(StatName, T)>>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for StatsdTable<T> {
    fn default() -> Self {
        StatsdTable { index: HashTable::new(), slots: Vec::new(), hasher: DefaultHashBuilder::default() }
    }
}

impl<T> StatsdTable<T> {
    pub fn len(&self) -> usize {
        self.index.len()
    }

    #[inline]
    pub fn find(&self, name: &[u8]) -> Option<u32> {
        let slots = &self.slots;
        self.index.find(self.hasher.hash_one(name), |at| name_at(slots, *at) == name).copied()
    }

    /// Adds a name that isn't there yet; answers its slot.
    pub fn insert(&mut self, name: StatName, value: T) -> u32 {
        debug_assert!(self.find(&name).is_none(), "a name is inserted once");
        let at = u32::try_from(self.slots.len()).expect("the budget allows far fewer names");
        let hash = self.hasher.hash_one(&name[..]);
        self.slots.push(Some((name, value)));
        let (slots, hasher) = (&self.slots, &self.hasher);
        self.index.insert_unique(hash, at, |at| hasher.hash_one(name_at(slots, *at)));
        at
    }

    #[inline]
    pub fn at(&mut self, at: u32) -> &mut T {
        &mut self.slots[at as usize].as_mut().expect("a slot in use").1
    }

    pub fn entry(&mut self, at: u32) -> (&StatName, &mut T) {
        let (name, value) = self.slots[at as usize].as_mut().expect("a slot in use");
        (name, value)
    }

    pub fn slot(&self, at: u32) -> Option<(&StatName, &T)> {
        self.slots.get(at as usize)?.as_ref().map(|(name, value)| (name, value))
    }

    #[cfg(test)]
    pub fn get(&self, name: &[u8]) -> Option<&T> {
        self.slots[self.find(name)? as usize].as_ref().map(|(_, value)| value)
    }

    pub fn remove(&mut self, name: &[u8]) -> Option<T> {
        let slots = &self.slots;
        let found = self.index.find_entry(self.hasher.hash_one(name), |at| name_at(slots, *at) == name).ok()?;
        let (at, _) = found.remove();
        self.slots[at as usize].take().map(|(_, value)| value)
    }

    /// Closes the gaps that removals left; slots get new numbers.
    pub fn compact(&mut self) {
        if self.slots.len() < 2 * self.index.len() + 64 {
            return;
        }
        self.slots.retain(Option::is_some);
        let (slots, hasher) = (&self.slots, &self.hasher);
        let mut index = HashTable::with_capacity(slots.len());
        for at in 0..slots.len() as u32 {
            index.insert_unique(hasher.hash_one(name_at(slots, at)), at, |at| hasher.hash_one(name_at(slots, *at)));
        }
        self.index = index;
    }

    pub fn iter(&self) -> impl Iterator<Item = (&StatName, &T)> {
        self.slots.iter().flatten().map(|(name, value)| (name, value))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&StatName, &mut T)> {
        self.slots.iter_mut().flatten().map(|(name, value)| (&*name, value))
    }

    /// The slots in use in the order in which JavaScript walks an object's members.
    pub fn in_script_order(&self) -> Vec<u32> {
        let used = (0u32..).zip(&self.slots).filter_map(|(at, slot)| Some((at, &slot.as_ref()?.0)));
        script_order(used, |(at, _)| *at)
    }
}

fn name_at<T>(slots: &[Option<(StatName, T)>], at: u32) -> &[u8] {
    &slots[at as usize].as_ref().expect("the index names slots in use").0
}

/// Sorts as ECMA-262 10.1.11.1 does: names that are array indices first, by value; all others as they came.
pub fn script_order<'a, I, R>(items: I, result: impl Fn(&I::Item) -> R) -> Vec<R>
where
    I: Iterator,
    I::Item: HasName<'a>,
{
    let (mut indices, mut rest) = (Vec::new(), Vec::new());
    for item in items {
        match array_index(item.name()) {
            Some(n) => indices.push((n, result(&item))),
            None => rest.push(result(&item)),
        }
    }
    indices.sort_by_key(|(n, _)| *n);
    indices.into_iter().map(|(_, at)| at).chain(rest).collect()
}

pub trait HasName<'a> {
    fn name(&self) -> &'a [u8];
}

impl<'a> HasName<'a> for (u32, &'a StatName) {
    fn name(&self) -> &'a [u8] {
        self.1
    }
}

impl<'a> HasName<'a> for &'a [u8] {
    fn name(&self) -> &'a [u8] {
        self
    }
}

fn array_index(name: &[u8]) -> Option<u32> {
    if name.len() > 10 || !name.first()?.is_ascii_digit() || (name[0] == b'0' && name.len() > 1) {
        return None;
    }
    std::str::from_utf8(name).ok()?.parse().ok().filter(|n| *n != u32::MAX && name.iter().all(u8::is_ascii_digit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn indices_come_first() {
        let mut table = StatsdTable::default();
        for name in ["b", "10", "a", "2", "01", "4294967295", "4294967294", "-1"] {
            table.insert(name.as_bytes().into(), ());
        }
        let order = table.in_script_order();
        let names: Vec<_> = order.iter().map(|at| String::from_utf8_lossy(table.entry(*at).0).into_owned()).collect();
        assert_eq!(names, ["2", "10", "4294967294", "b", "a", "01", "4294967295", "-1"]);
    }

    proptest! {
        #[test]
        fn is_a_map_that_keeps_order(ops in proptest::collection::vec((any::<bool>(), 0u8..30), 0..300)) {
            let (mut table, mut model) = (StatsdTable::default(), Vec::<u8>::new());
            for (add, key) in ops {
                let name = [key];
                if add && table.find(&name).is_none() {
                    table.insert(name[..].into(), key);
                    model.push(key);
                } else if !add {
                    prop_assert_eq!(table.remove(&name).is_some(), model.contains(&key));
                    model.retain(|k| *k != key);
                    table.compact();
                }
                prop_assert_eq!(table.iter().map(|(_, v)| *v).collect::<Vec<_>>(), model.clone());
                prop_assert_eq!(table.get(&name).is_some(), model.contains(&key));
            }
        }
    }
}
