// SPDX-License-Identifier: BSD-2-Clause
//! The objects that were asked for, and by whom first: a table of fixed size. An object that two clients have asked for is *shared*. In each
//! set, the solo object that was asked for longest ago makes room, so a flood of URLs that nobody else wants displaces no shared one.

const WAYS: usize = 8;
/// Bits of what is noted with the first to ask.
const NOTE_BITS: u32 = 7;
/// Stands for more than one client.
const SHARED: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct AskedObject {
    /// Upper bits of the object's number, and [`NOTE_BITS`] of the note. 0 in both: a free place.
    tag: u32,
    /// Low bits of the client's key.
    first: u32,
}

impl AskedObject {
    fn is(&self, tag: u32) -> bool {
        self.tag >> NOTE_BITS == tag >> NOTE_BITS && self.tag != 0
    }
}

/// Earlier requests for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Never,
    /// Only the same client did.
    Own,
    /// Only one other client did, whose key has these low bits, with its note.
    Other(u32, u8),
    Shared,
}

pub(crate) struct AskedTable {
    sets: Vec<[AskedObject; WAYS]>,
}

impl AskedTable {
    pub fn new(bytes: usize) -> Self {
        let sets = (bytes / size_of::<[AskedObject; WAYS]>()).max(1);
        AskedTable { sets: vec![[AskedObject::default(); WAYS]; 1 << sets.ilog2()] }
    }

    pub fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[AskedObject; WAYS]>()
    }

    pub fn look(&self, object: u64, client: u64) -> Before {
        let (set, tag) = (&self.sets[self.set_of(object)], tag(object));
        set.iter().find(|asked| asked.is(tag)).map_or(Before::Never, |asked| before(asked, client))
    }

    /// Notes that the client asks for the object, and returns how it was asked for before. The first one's `note` comes back with the second.
    pub fn ask(&mut self, object: u64, client: u64, note: u8) -> Before {
        let (at, tag) = (self.set_of(object), tag(object));
        let set = &mut self.sets[at];
        if let Some(asked) = set.iter_mut().find(|asked| asked.is(tag)) {
            let before = before(asked, client);
            if let Before::Other(..) = before {
                asked.first = SHARED;
            }
            return before;
        }
        // A free place is behind all others, and solo.
        let oldest = set.iter().rposition(|asked| asked.first != SHARED || asked.tag == 0).unwrap_or(WAYS - 1);
        set.copy_within(..oldest, 1);
        let note = u32::from(note) & ((1 << NOTE_BITS) - 1);
        set[0] = AskedObject { tag: tag | note, first: first(client) };
        Before::Never
    }

    fn set_of(&self, object: u64) -> usize {
        object as usize & (self.sets.len() - 1)
    }
}

fn before(asked: &AskedObject, client: u64) -> Before {
    match asked.first {
        SHARED => Before::Shared,
        one if one == first(client) => Before::Own,
        one => Before::Other(one, (asked.tag & ((1 << NOTE_BITS) - 1)) as u8),
    }
}

fn tag(object: u64) -> u32 {
    ((object >> 32) as u32 & !((1 << NOTE_BITS) - 1)).max(1 << NOTE_BITS)
}

fn first(client: u64) -> u32 {
    (client as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 7 << 40;

    #[test]
    fn an_object_is_shared_once_a_second_client_asks() {
        let mut table = AskedTable::new(4096);
        assert_eq!(table.ask(HERE, 1, 5), Before::Never);
        assert_eq!(table.ask(HERE, 1, 5), Before::Own);
        assert_eq!((table.look(HERE, 2), table.look(HERE, 1)), (Before::Other(1, 5), Before::Own));
        assert_eq!(table.ask(HERE, 2, 5), Before::Other(1, 5));
        assert_eq!((table.ask(HERE, 1, 5), table.ask(HERE, 3, 5)), (Before::Shared, Before::Shared));
    }

    #[test]
    fn a_flood_of_solo_objects_displaces_no_shared_one() {
        let mut table = AskedTable::new(4096);
        for client in [1, 2] {
            table.ask(HERE, client, 5);
        }
        (8..10_000u64).for_each(|n| assert_eq!(table.ask(n << 40 | n, 3, 5), Before::Never));
        assert_eq!(table.look(HERE, 9), Before::Shared);
        assert_eq!(table.look(9_999 << 40 | 9_999, 3), Before::Own, "the latest is known");
        assert_eq!(table.look(9 << 40 | 9, 3), Before::Never, "an old one isn't");
        assert_eq!(table.bytes(), 4096);
    }

    #[test]
    fn shared_objects_make_room_when_there_is_nothing_else() {
        let mut table = AskedTable::new(1);
        for n in 1..20u64 {
            table.ask(n << 40, 1, 5);
            table.ask(n << 40, 2, 5);
        }
        assert_eq!((table.look(19 << 40, 3), table.look(1 << 40, 3)), (Before::Shared, Before::Never));
    }
}
