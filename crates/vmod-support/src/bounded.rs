// SPDX-License-Identifier: BSD-2-Clause
//! A table with a bound, for keys that clients choose: when it is full, an entry makes room, so that no client's keys make a call of
//! another client fail. Each call looks at a few entries alone, whatever the table's size.

use std::borrow::Borrow;
use std::hash::{BuildHasher, Hash, RandomState};

use hashbrown::HashTable;

/// Entries that one call of [`BoundedMap::make_room`] looks at.
const FEW: usize = 8;

/// The worth of an entry to its table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Worth {
    /// The entry is of no use any more.
    Nothing,
    /// The entry may go; of several the one with the smallest number does.
    Some(f64),
    /// The entry never makes room for another.
    Kept,
}

/// The table. Entries lie side by side, so that a hand can go round over them.
#[derive(Debug)]
pub struct BoundedMap<K, V> {
    entries: Vec<(K, V)>,
    index: HashTable<usize>,
    hasher: RandomState,
    hand: usize,
}

impl<K, V> Default for BoundedMap<K, V> {
    fn default() -> Self {
        BoundedMap { entries: Vec::new(), index: HashTable::new(), hasher: RandomState::new(), hand: 0 }
    }
}

impl<K: Hash + Eq, V> BoundedMap<K, V> {
    /// An empty table with room for that many entries.
    pub fn with_capacity(room: usize) -> Self {
        let (entries, index) = (Vec::with_capacity(room), HashTable::with_capacity(room));
        BoundedMap { entries, index, ..Self::default() }
    }

    /// Number of entries that are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The value of a key.
    pub fn get<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.place(key).map(|at| &self.entries[at].1)
    }

    /// The value of a key, to be changed.
    pub fn get_mut<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.place(key).map(|at| &mut self.entries[at].1)
    }

    /// True if there is such a key.
    pub fn contains_key<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.place(key).is_some()
    }

    /// Sets a key's value, whatever the table's size: [`BoundedMap::make_room`] comes first.
    pub fn insert(&mut self, key: K, value: V) -> &mut V {
        let at = match self.place(&key) {
            Some(at) => {
                self.entries[at].1 = value;
                at
            }
            None => {
                let (hash, at) = (self.hasher.hash_one(&key), self.entries.len());
                self.entries.push((key, value));
                let (entries, hasher) = (&self.entries, &self.hasher);
                self.index.insert_unique(hash, at, |&at| hasher.hash_one(&entries[at].0));
                at
            }
        };
        &mut self.entries[at].1
    }

    /// Takes a key out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = self.place(key)?;
        Some(self.remove_at(at))
    }

    /// Keeps the entries for which that holds; looks at all.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        for at in (0..self.entries.len()).rev() {
            if !keep(&self.entries[at].1) {
                self.remove_at(at);
            }
        }
    }

    /// Before a new key is set in a table that is to have no more than `most`: looks at the next few entries, drops those that are worth
    /// nothing and, as far as that isn't enough, those that are worth least. Where more than half of `most` are kept, the table may grow to
    /// twice as many as are kept.
    pub fn make_room(&mut self, most: usize, worth: impl Fn(&V) -> Worth) {
        let (mut few, mut count) = ([(0.0, 0); FEW], 0);
        for _ in 0..FEW.min(self.entries.len()) {
            self.hand = self.hand.min(self.entries.len()).checked_sub(1).unwrap_or(self.entries.len() - 1);
            let value = match worth(&self.entries[self.hand].1) {
                Worth::Kept => continue,
                Worth::Nothing => f64::NEG_INFINITY,
                Worth::Some(value) => value,
            };
            few[count] = (value, self.hand);
            count += 1;
        }
        let few = &mut few[..count];
        few.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let useless = few.iter().take_while(|(value, _)| *value == f64::NEG_INFINITY).count();
        // Two, as one is added: so a table that grew shrinks again.
        let surplus = (self.entries.len() - useless + 1).saturating_sub(most).min(2);
        let going = &mut few[..(useless + surplus).min(count)];
        // From behind: what takes the place of an entry that goes is the last one.
        going.sort_unstable_by_key(|(_, at)| std::cmp::Reverse(*at));
        going.iter().for_each(|&(_, at)| drop(self.remove_at(at)));
    }

    fn place<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
    {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |&at| self.entries[at].0.borrow() == key).copied()
    }

    fn remove_at(&mut self, at: usize) -> V {
        let hash = self.hasher.hash_one(&self.entries[at].0);
        if let Ok(found) = self.index.find_entry(hash, |&other| other == at) {
            found.remove();
        }
        let last = self.entries.len() - 1;
        if at != last {
            let hash = self.hasher.hash_one(&self.entries[last].0);
            if let Some(place) = self.index.find_mut(hash, |&other| other == last) {
                *place = at;
            }
        }
        self.entries.swap_remove(at).1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_worth_least_makes_room() {
        let mut map = BoundedMap::default();
        for n in 0..4 {
            map.insert(n, f64::from(10 - n));
        }
        map.make_room(4, |worth| Worth::Some(*worth));
        assert_eq!((0..4).map(|n| map.contains_key(&n)).collect::<Vec<_>>(), [true, true, true, false]);
        map.make_room(4, |worth| Worth::Some(*worth));
        assert_eq!(map.len(), 3, "there was room");
    }

    #[test]
    fn what_is_kept_stays() {
        let mut map = BoundedMap::default();
        for n in 0..1000 {
            map.make_room(100, |is_kept| if *is_kept { Worth::Kept } else { Worth::Some(0.0) });
            map.insert(n, n < 50);
        }
        assert!((0..50).all(|n| map.contains_key(&n)));
        assert!(map.len() < 130, "{}", map.len());
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0_u8..4, 0_u8..40, 0_u8..4), 0..300)) {
            let (mut map, mut model) = (BoundedMap::default(), HashMap::new());
            for (what, key, value) in steps {
                match what {
                    0 => prop_assert_eq!(map.remove(&key), model.remove(&key)),
                    1 => {
                        map.retain(|other| *other != value);
                        model.retain(|_, other| *other != value);
                    }
                    _ => {
                        if !map.contains_key(&key) {
                            map.make_room(20, |value| if *value == 0 { Worth::Nothing } else { Worth::Some(f64::from(*value)) });
                            model.retain(|key, value| map.get(key) == Some(value));
                        }
                        map.insert(key, value);
                        model.insert(key, value);
                    }
                }
                prop_assert!(map.len() <= 20 && map.len() == model.len());
                prop_assert!((0..40).all(|key| map.get(&key) == model.get(&key)));
            }
        }
    }
}
