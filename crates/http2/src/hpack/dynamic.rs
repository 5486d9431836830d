// SPDX-License-Identifier: BSD-2-Clause
//! The dynamic table (RFC 7541 2.3.2, 4): what a peer refers to by number, the newest first.

use std::collections::VecDeque;

/// Bytes counted for an entry beside its name and value.
const OVERHEAD: usize = 32;

#[derive(Debug)]
struct DynamicEntry {
    at: u32,
    name_len: u32,
    value_len: u32,
    is_checked: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known<'a> {
    pub(super) name: &'a [u8],
    pub(super) value: &'a [u8],
    /// Name and value have only bytes that a field may have.
    pub(super) is_checked: bool,
}

/// Takes memory only as it is filled: at most its size for the bytes, and half as much for the entries.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: VecDeque<DynamicEntry>,
    /// The bytes of all entries in the order of their age; in front of them maybe some of entries that have left.
    bytes: Vec<u8>,
    used: usize,
    max: usize,
}

impl Table {
    pub(super) fn new(max: usize) -> Table {
        Table { max, ..Table::default() }
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }

    pub(super) fn resize(&mut self, max: usize) {
        self.max = max;
        self.evict(max);
        if max == 0 {
            *self = Table::default();
        }
    }

    /// The entry of this age, 0 for the newest.
    pub(super) fn get(&self, age: u64) -> Option<Known<'_>> {
        let entry = self.entries.get(usize::try_from(age).ok()?)?;
        let (name, rest) = self.bytes[entry.at as usize..].split_at(entry.name_len as usize);
        Some(Known { name, value: &rest[..entry.value_len as usize], is_checked: entry.is_checked })
    }

    /// Adds an entry. One that is larger than the table empties it (RFC 7541 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8], is_checked: bool) {
        let size = name.len() + value.len() + OVERHEAD;
        self.evict(self.max.saturating_sub(size));
        if size > self.max {
            return;
        }
        self.make_room(name.len() + value.len());
        let entry = DynamicEntry {
            at: self.bytes.len() as u32,
            name_len: name.len() as u32,
            value_len: value.len() as u32,
            is_checked,
        };
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_front(entry);
        self.used += size;
    }

    fn evict(&mut self, left: usize) {
        while self.used > left {
            let Some(oldest) = self.entries.pop_back() else { break };
            self.used -= oldest.name_len as usize + oldest.value_len as usize + OVERHEAD;
        }
        if self.entries.is_empty() {
            self.bytes.clear();
        }
    }

    /// Moves the bytes to the front when more would not fit behind them.
    fn make_room(&mut self, more: usize) {
        if self.bytes.len() + more <= self.max {
            return;
        }
        let begin = self.entries.back().map_or(self.bytes.len(), |oldest| oldest.at as usize);
        self.bytes.drain(..begin);
        self.entries.iter_mut().for_each(|entry| entry.at -= begin as u32);
        debug_assert!(self.bytes.len() + more <= self.max);
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes.capacity() + self.entries.capacity() * size_of::<DynamicEntry>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_oldest_leaves() {
        let mut table = Table::new(100);
        table.insert(b"a", b"1", true);
        table.insert(b"b", b"22", false);
        assert_eq!(table.get(0), Some(Known { name: b"b", value: b"22", is_checked: false }));
        assert_eq!(table.get(1), Some(Known { name: b"a", value: b"1", is_checked: true }));
        table.insert(b"c", b"3", true);
        assert_eq!((table.get(1).map(|known| known.name), table.get(2)), (Some(&b"b"[..]), None));
        table.insert(&[b'x'; 80], b"", true);
        assert_eq!(table.get(0), None);
        table.insert(b"d", b"4", true);
        table.resize(0);
        assert_eq!((table.get(0), table.memory()), (None, 0));
    }

    proptest! {
        #[test]
        fn like_a_simple_one(steps in prop::collection::vec((0..60usize, 0..60usize, any::<bool>()), 0..60), max in 0..400usize) {
            let (mut table, mut model) = (Table::new(max), Vec::<(Vec<u8>, Vec<u8>)>::new());
            for (i, (name, value, resize)) in steps.into_iter().enumerate() {
                let size = |model: &[(Vec<u8>, Vec<u8>)]| model.iter().map(|(n, v)| n.len() + v.len() + OVERHEAD).sum::<usize>();
                if resize {
                    table.resize(name * 8);
                    while size(&model) > name * 8 {
                        model.pop();
                    }
                    continue;
                }
                let (name, value) = (vec![i as u8; name], vec![!i as u8; value]);
                table.insert(&name, &value, true);
                model.insert(0, (name, value));
                while size(&model) > table.max() {
                    model.pop();
                }
                for (age, (name, value)) in model.iter().enumerate() {
                    prop_assert_eq!(table.get(age as u64), Some(Known { name, value, is_checked: true }));
                }
                prop_assert_eq!(table.get(model.len() as u64), None);
                prop_assert!(table.bytes.len() <= table.max());
            }
        }
    }
}
