// SPDX-License-Identifier: BSD-2-Clause
//! The index of tags: the objects of each tag, and the tags of each object.
//!
//! Tags and objects have small numbers. A tag lists its objects' numbers (4 bytes each). An object lists its links in
//! the order of the tags' numbers: a tag and the object's position in that tag's list (8 bytes). So the cost of
//! removing an object doesn't depend on the number of other objects with its tags. Tables grow in parts, so that no
//! growth takes long under the lock.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Weak};

use hashbrown::HashTable;

use crate::objcore::Objcore;

/// Hash tables that stand for one: each grows by itself.
const PARTS: usize = 64;
/// Places that a slab gets at once, when it is large.
const CHUNK: usize = 4096;

#[derive(Default)]
pub(super) struct Index {
    names: Parts,
    tags: Slab<Tag>,
    addresses: Parts,
    objects: Slab<Object>,
    hasher: RandomState,
    /// References: links of all objects.
    references: usize,
    /// Bytes of the texts, and of the lists of members and links below.
    text_bytes: usize,
    member_bytes: usize,
    link_bytes: usize,
}

struct Parts {
    tables: Box<[HashTable<u32>]>,
    bytes: usize,
}

/// Values with numbers, which are used again.
struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

struct Tag {
    name: Box<[u8]>,
    members: Vec<u32>,
}

struct Object {
    /// Weak handle. Its address isn't reused while the handle exists.
    oc: Weak<Objcore>,
    links: Box<[Link]>,
}

#[derive(Clone, Copy)]
struct Link {
    tag: u32,
    /// Position in the tag's list of members.
    at: u32,
}

/// The memory that the index takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Footprint {
    pub tags: usize,
    pub references: usize,
    pub objects: usize,
}

impl Footprint {
    pub fn all(self) -> usize {
        self.tags + self.references + self.objects
    }
}

impl Index {
    pub fn tags(&self) -> usize {
        self.tags.len()
    }

    pub fn references(&self) -> usize {
        self.references
    }

    pub fn footprint(&self) -> Footprint {
        Footprint {
            tags: self.names.bytes + self.tags.bytes() + self.text_bytes,
            references: self.member_bytes + self.link_bytes,
            objects: self.addresses.bytes + self.objects.bytes(),
        }
    }

    pub fn insert(&mut self, oc: &Arc<Objcore>, names: &[Box<[u8]>]) {
        let mut numbers: Vec<u32> = names.iter().map(|name| self.tag(name)).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let object = self.objects.next();
        let links: Box<[Link]> = numbers.into_iter().map(|tag| Link { tag, at: self.join(tag, object) }).collect();
        self.references += links.len();
        self.link_bytes += size_of_val(&*links);
        let address = Arc::as_ptr(oc) as usize;
        self.objects.put(object, Object { oc: Arc::downgrade(oc), links });
        let Index { addresses, objects, .. } = self;
        addresses.insert(hash_of(address), object, |number| hash_of(objects.at(number).address()));
    }

    /// Forgets an object; whether it was listed.
    pub fn remove(&mut self, address: usize) -> bool {
        let objects = &self.objects;
        let is_it = |number: u32| objects.at(number).address() == address;
        let Some(number) = self.addresses.remove(hash_of(address), is_it) else { return false };
        let Object { links, .. } = self.objects.take(number);
        self.references -= links.len();
        self.link_bytes -= size_of_val(&*links);
        links.iter().for_each(|link| self.part(*link));
        if self.objects.len() == 0 {
            self.shrink();
        }
        true
    }

    /// The names of an object's tags.
    pub fn names(&self, address: usize) -> impl Iterator<Item = &[u8]> {
        let found = self.addresses.find(hash_of(address), |number| self.objects.at(number).address() == address);
        let links = found.map_or(&[][..], |object| &*self.objects.at(object).links);
        links.iter().map(|link| &*self.tags.at(link.tag).name)
    }

    pub fn has(&self, tag: &[u8]) -> bool {
        self.number_of(tag).is_some()
    }

    /// Calls `look` for up to `most` objects below place `end` that a purge hits, and returns the place at which to
    /// continue. For a purge by prefix the places are numbers of tags, and one object of each is shown.
    pub fn visit(&self, purge: &[u8], end: usize, most: usize, look: impl FnMut(Arc<Objcore>)) -> usize {
        if let Some(prefix) = message::tags::prefix(purge) {
            return self.visit_prefix(prefix, end, most, look);
        }
        let Some(tag) = self.number_of(purge) else { return 0 };
        let members = &self.tags.at(tag).members;
        let end = end.min(members.len());
        let begin = end.saturating_sub(most);
        self.show(&members[begin..end], look);
        begin
    }

    fn visit_prefix(&self, prefix: &[u8], end: usize, most: usize, mut look: impl FnMut(Arc<Objcore>)) -> usize {
        let end = end.min(self.tags.places());
        let begin = end.saturating_sub(most);
        let tags = (begin..end).filter_map(|number| self.tags.get(number as u32));
        tags.filter(|tag| message::tags::begins_with(&tag.name, prefix))
            .for_each(|tag| self.show(&tag.members, &mut look));
        begin
    }

    /// Shows the objects of each URL's tag among the `most` below place `end`, with the tag. Returns the next place.
    pub fn visit_urls(&self, end: usize, most: usize, mut look: impl FnMut(&[u8], Arc<Objcore>)) -> usize {
        let end = end.min(self.tags.places());
        let begin = end.saturating_sub(most);
        let tags = (begin..end).filter_map(|number| self.tags.get(number as u32));
        for tag in tags.filter(|tag| message::tags::url(&tag.name).is_some()) {
            self.show(&tag.members, |oc| look(&tag.name, oc));
        }
        begin
    }

    fn show(&self, members: &[u32], look: impl FnMut(Arc<Objcore>)) {
        members.iter().filter_map(|object| self.objects.at(*object).oc.upgrade()).for_each(look);
    }

    fn number_of(&self, name: &[u8]) -> Option<u32> {
        self.names.find(self.hasher.hash_one(name), |number| *self.tags.at(number).name == *name)
    }

    fn tag(&mut self, name: &[u8]) -> u32 {
        if let Some(number) = self.number_of(name) {
            return number;
        }
        let number = self.tags.next();
        self.tags.put(number, Tag { name: name.into(), members: Vec::new() });
        self.text_bytes += name.len();
        let Index { names, tags, hasher, .. } = self;
        names.insert(hasher.hash_one(name), number, |number| hasher.hash_one(&*tags.at(number).name));
        number
    }

    /// Adds an object to a tag: its place there.
    fn join(&mut self, tag: u32, object: u32) -> u32 {
        let members = &mut self.tags.at_mut(tag).members;
        self.member_bytes -= list_bytes(members);
        if members.len() == members.capacity() {
            // Doubling would leave a quarter of a large list unused.
            members.reserve_exact((members.len() / 4).max(members.len().clamp(1, 4)));
        }
        members.push(object);
        self.member_bytes += list_bytes(members);
        members.len() as u32 - 1
    }

    /// Takes an object out of a tag's list; the last one moves into its place.
    fn part(&mut self, link: Link) {
        let tag = self.tags.at_mut(link.tag);
        self.member_bytes -= list_bytes(&tag.members);
        tag.members.swap_remove(link.at as usize);
        if tag.members.len() * 2 < tag.members.capacity() {
            tag.members.shrink_to(tag.members.len() + tag.members.len() / 4);
        }
        self.member_bytes += list_bytes(&tag.members);
        match tag.members.get(link.at as usize) {
            Some(&moved) => self.objects.at_mut(moved).link_to(link.tag).at = link.at,
            None if tag.members.is_empty() => self.forget(link.tag),
            None => {}
        }
    }

    fn forget(&mut self, number: u32) {
        let Tag { name, .. } = self.tags.take(number);
        self.text_bytes -= name.len();
        self.names.remove(self.hasher.hash_one(&*name), |other| other == number);
    }

    fn shrink(&mut self) {
        assert!(self.tags.len() == 0, "a tag without objects isn't kept");
        *self = Index { hasher: self.hasher.clone(), ..Index::default() };
    }
}

impl Object {
    fn address(&self) -> usize {
        self.oc.as_ptr() as usize
    }

    fn link_to(&mut self, tag: u32) -> &mut Link {
        let at = self.links.binary_search_by_key(&tag, |link| link.tag).expect("a member links to its tag");
        &mut self.links[at]
    }
}

impl Default for Parts {
    fn default() -> Self {
        Parts { tables: (0..PARTS).map(|_| HashTable::new()).collect(), bytes: 0 }
    }
}

impl Parts {
    /// The part for a hash, by bits that the tables themselves use last.
    fn part(hash: u64) -> usize {
        (hash >> 40) as usize % PARTS
    }

    fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        self.tables[Self::part(hash)].find(hash, |number| is_it(*number)).copied()
    }

    fn insert(&mut self, hash: u64, number: u32, hash_of: impl Fn(u32) -> u64) {
        let table = &mut self.tables[Self::part(hash)];
        self.bytes -= table.allocation_size();
        table.insert_unique(hash, number, |number| hash_of(*number));
        self.bytes += table.allocation_size();
    }

    fn remove(&mut self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let entry = self.tables[Self::part(hash)].find_entry(hash, |number| is_it(*number)).ok()?;
        Some(entry.remove().0)
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Numbers that were given out, used or free.
    fn places(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        full + self.chunks.last().map_or(0, Vec::len)
    }

    fn len(&self) -> usize {
        self.places() - self.free.len()
    }

    /// An unused number for [`Slab::put`].
    fn next(&mut self) -> u32 {
        if let Some(number) = self.free.pop() {
            return number;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first one begins small.
            self.chunks.push(Vec::with_capacity(if self.chunks.is_empty() { 0 } else { CHUNK }));
        }
        let number = u32::try_from(self.places()).expect("memory ends before");
        self.chunks.last_mut().expect("there is one now").push(None);
        number
    }

    fn put(&mut self, number: u32, value: T) {
        self.chunks[number as usize / CHUNK][number as usize % CHUNK] = Some(value);
    }

    fn take(&mut self, number: u32) -> T {
        let value = self.chunks[number as usize / CHUNK][number as usize % CHUNK].take();
        self.free.push(number);
        value.expect("who has a number has a value")
    }

    fn get(&self, number: u32) -> Option<&T> {
        self.chunks.get(number as usize / CHUNK)?.get(number as usize % CHUNK)?.as_ref()
    }

    fn at(&self, number: u32) -> &T {
        self.get(number).expect("who has a number has a value")
    }

    fn at_mut(&mut self, number: u32) -> &mut T {
        self.chunks[number as usize / CHUNK][number as usize % CHUNK].as_mut().expect("who has a number has a value")
    }

    fn bytes(&self) -> usize {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let values = full + self.chunks.last().map_or(0, Vec::capacity);
        values * size_of::<Option<T>>() + self.free.capacity() * size_of::<u32>()
    }
}

/// Addresses are multiples of 16: their upper bits are mixed into all.
fn hash_of(address: usize) -> u64 {
    let mixed = (address as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed ^ (mixed >> 32)
}

fn list_bytes(members: &Vec<u32>) -> usize {
    members.capacity() * size_of::<u32>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_small() {
        assert_eq!((size_of::<Option<Object>>(), size_of::<Link>()), (24, 8));
        assert!(size_of::<Option<Tag>>() <= 40, "{}", size_of::<Option<Tag>>());
    }
}
