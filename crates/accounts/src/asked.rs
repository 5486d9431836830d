// SPDX-License-Identifier: BSD-2-Clause
//! The objects that were asked for, and by whom first: a table of fixed size. An object that two clients have asked for is *shared*, for
//! [`REMEMBERED`] only, so that a second crawl of the same pages is recognised. A refused request shares nothing. In each set, the solo object
//! that was asked for longest ago makes room, so a flood of URLs that nobody else wants displaces no shared one.

const WAYS: usize = 8;
/// Bits of what is noted with the first to ask.
const NOTE_BITS: u32 = 2;
/// Bits that stand for refused clients, each client for one of them, and of the epoch.
const REFUSED_BITS: u32 = 4;
const EPOCH_BITS: u32 = 8;
const LOW_BITS: u32 = NOTE_BITS + REFUSED_BITS + EPOCH_BITS;
const TAG: u32 = !((1 << LOW_BITS) - 1);
/// Seconds of an epoch. The count of epochs begins again after 64 hours, so what is forgotten is cleared before: the table is swept once in
/// [`SWEEP`] seconds, at most [`SWEPT`] sets at a time.
const EPOCH: f64 = 900.0;
const SWEEP: f64 = 86_400.0;
const SWEPT: u64 = 64;
/// Epochs for which a request is remembered: six hours.
const REMEMBERED: u32 = 24;
/// Bits of refused clients with which a crowd may want an object. At least as many clients were refused, and four on average.
const CROWD: u32 = 3;
/// Stands for more than one client.
const SHARED: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct AskedObject {
    /// Upper bits of the object's number, then its epoch, the bits of refused clients, and the note. 0 in all: a free place.
    tag: u32,
    /// Low bits of the client's key.
    first: u32,
}

impl AskedObject {
    fn is(&self, tag: u32) -> bool {
        self.tag & TAG == tag && self.tag != 0
    }

    fn refused(&self) -> u32 {
        self.tag >> NOTE_BITS & ((1 << REFUSED_BITS) - 1)
    }

    fn epoch(&self) -> u32 {
        self.tag >> (NOTE_BITS + REFUSED_BITS) & ((1 << EPOCH_BITS) - 1)
    }

    fn is_forgotten(&self, epoch: u32) -> bool {
        epoch.wrapping_sub(self.epoch()) & ((1 << EPOCH_BITS) - 1) >= REMEMBERED
    }

    fn before(&self, client: u64, epoch: u32) -> Before {
        match self.first {
            _ if self.is_forgotten(epoch) => Before::Never,
            SHARED => Before::Shared,
            one if one == first(client) => Before::Own,
            _ if self.refused().count_ones() >= CROWD => Before::Crowd,
            _ if self.refused() > 0 => Before::Refused,
            one => Before::Other(one, (self.tag & ((1 << NOTE_BITS) - 1)) as u8),
        }
    }
}

/// Earlier requests for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Before {
    Never,
    /// Other clients asked, and each was refused.
    Refused,
    /// Several others asked, and all were refused. Crawlers that repeat a request from other addresses do the same.
    Crowd,
    /// Only the same client did.
    Own,
    /// Only one other client did, whose key has these low bits, with its note.
    Other(u32, u8),
    Shared,
}

/// The end of a request for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// A hit, or the request of a client that reads: a shared object is remembered for longer.
    Read,
    Fetched,
    Refused,
}

pub(crate) struct AskedTable {
    sets: Vec<[AskedObject; WAYS]>,
    epoch: u32,
    swept: u64,
}

impl AskedTable {
    pub fn new(bytes: usize) -> Self {
        let sets = (bytes / size_of::<[AskedObject; WAYS]>()).max(1);
        AskedTable { sets: vec![[AskedObject::default(); WAYS]; 1 << sets.ilog2()], epoch: 0, swept: 0 }
    }

    pub fn bytes(&self) -> usize {
        self.sets.len() * size_of::<[AskedObject; WAYS]>()
    }

    pub fn set_time(&mut self, seconds: f64) {
        self.epoch = (seconds / EPOCH) as u32 & ((1 << EPOCH_BITS) - 1);
        let sets = self.sets.len() as u64;
        let due = (seconds / SWEEP * sets as f64) as u64;
        // After a pause one whole sweep is enough.
        self.swept = self.swept.max(due.saturating_sub(sets));
        for _ in 0..SWEPT.min(due.saturating_sub(self.swept)) {
            let epoch = self.epoch;
            for asked in &mut self.sets[(self.swept % sets) as usize] {
                // The place stays in its order, and is free.
                if asked.tag != 0 && asked.is_forgotten(epoch) {
                    *asked = AskedObject::default();
                }
            }
            self.swept += 1;
        }
    }

    pub fn look(&self, object: u64, client: u64) -> Before {
        let (set, tag) = (&self.sets[self.set_of(object)], tag(object));
        set.iter().find(|asked| asked.is(tag)).map_or(Before::Never, |asked| asked.before(client, self.epoch))
    }

    /// Notes that the client asks for the object, and returns how it was asked for before. The first one's `note` comes back with the second.
    pub fn ask(&mut self, object: u64, client: u64, course: Course, note: u8) -> Before {
        let (at, tag, epoch) = (self.set_of(object), tag(object), self.epoch);
        let set = &mut self.sets[at];
        let known = set.iter().position(|asked| asked.is(tag));
        let before = known.map_or(Before::Never, |at| set[at].before(client, epoch));
        let mut asked = AskedObject { tag: tag | epoch << (NOTE_BITS + REFUSED_BITS), first: first(client) };
        let refused = known.map_or(0, |at| set[at].refused());
        match (before, known) {
            (Before::Own, _) if course == Course::Refused || refused == 0 => return Before::Own,
            (Before::Crowd, _) if course == Course::Refused => return Before::Crowd,
            (Before::Shared, _) if course != Course::Read => return Before::Shared,
            (Before::Other(..) | Before::Shared, _) => asked.first = SHARED,
            // The request wasn't counted, so nothing is pardoned later.
            (Before::Crowd, _) => {}
            (Before::Never | Before::Refused | Before::Own, _) => {
                let refused = if before == Before::Refused { refused } else { 0 };
                let refused = if course == Course::Refused { refused | refused_bit(client) } else { 0 };
                asked.tag |= u32::from(note) & ((1 << NOTE_BITS) - 1) | refused << NOTE_BITS;
            }
        }
        let place = known.unwrap_or_else(|| {
            // A free place is behind all others, and solo.
            let gives_way = |asked: &AskedObject| asked.first != SHARED || asked.tag == 0 || asked.is_forgotten(epoch);
            set.iter().rposition(gives_way).unwrap_or(WAYS - 1)
        });
        if known.is_none() || before == Before::Never {
            set.copy_within(..place, 1);
            set[0] = asked;
        } else {
            set[place] = asked;
        }
        before
    }

    fn set_of(&self, object: u64) -> usize {
        object as usize & (self.sets.len() - 1)
    }
}

fn tag(object: u64) -> u32 {
    ((object >> 32) as u32 & TAG).max(1 << LOW_BITS)
}

fn first(client: u64) -> u32 {
    (client as u32).max(1)
}

/// The bit of a refused client. It depends on other bits of the key than [`first`].
fn refused_bit(client: u64) -> u32 {
    1 << ((client >> 32) % u64::from(REFUSED_BITS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: u64 = 7 << 46;

    fn fetch(table: &mut AskedTable, object: u64, client: u64) -> Before {
        table.ask(object, client, Course::Fetched, 3)
    }

    #[test]
    fn an_object_is_shared_once_a_second_client_asks() {
        let mut table = AskedTable::new(4096);
        assert_eq!(fetch(&mut table, HERE, 1), Before::Never);
        assert_eq!(fetch(&mut table, HERE, 1), Before::Own);
        assert_eq!((table.look(HERE, 2), table.look(HERE, 1)), (Before::Other(1, 3), Before::Own));
        assert_eq!(fetch(&mut table, HERE, 2), Before::Other(1, 3));
        assert_eq!((fetch(&mut table, HERE, 1), fetch(&mut table, HERE, 3)), (Before::Shared, Before::Shared));
    }

    #[test]
    fn refused_requests_share_nothing_and_many_clients_are_a_crowd() {
        let mut table = AskedTable::new(4096);
        let [one, two, three] = [1, 2, 3].map(|n| n << 32 | n);
        let refuse = |table: &mut AskedTable, client| table.ask(HERE, client, Course::Refused, 3);
        assert_eq!((refuse(&mut table, one), refuse(&mut table, one)), (Before::Never, Before::Own));
        for _ in 0..9 {
            assert_eq!((refuse(&mut table, two), refuse(&mut table, one)), (Before::Refused, Before::Refused));
        }
        assert_eq!(table.look(HERE, three), Before::Refused, "two clients in turn stay two");
        refuse(&mut table, three);
        assert_eq!((table.look(HERE, one), refuse(&mut table, one)), (Before::Crowd, Before::Crowd));
        assert_eq!(fetch(&mut table, HERE, two), Before::Crowd);
        assert_eq!(table.look(HERE, one), Before::Other(two as u32, 0), "nobody is pardoned for it");
        assert_eq!(table.ask(HERE, one, Course::Read, 3), Before::Other(two as u32, 0));
        assert_eq!(table.look(HERE, three), Before::Shared);
    }

    #[test]
    fn a_fetch_after_refusals_counts_as_the_first() {
        let mut table = AskedTable::new(4096);
        table.ask(HERE, 1, Course::Refused, 3);
        assert_eq!(fetch(&mut table, HERE, 2), Before::Refused);
        assert_eq!(table.look(HERE, 1), Before::Other(2, 3));
        let mut table = AskedTable::new(4096);
        table.ask(HERE, 1, Course::Refused, 3);
        assert_eq!((fetch(&mut table, HERE, 1), table.look(HERE, 2)), (Before::Own, Before::Other(1, 3)));
    }

    #[test]
    fn sharing_is_forgotten_after_hours_unless_somebody_reads() {
        let mut table = AskedTable::new(4096);
        for client in [1, 2] {
            fetch(&mut table, HERE, client);
        }
        table.set_time(5.0 * 3600.0);
        assert_eq!(fetch(&mut table, HERE, 3), Before::Shared);
        table.set_time(6.5 * 3600.0);
        assert_eq!(fetch(&mut table, HERE, 4), Before::Never, "only crawlers came since");
        assert_eq!(table.ask(HERE, 5, Course::Read, 3), Before::Other(4, 3));
        table.set_time(10.0 * 3600.0);
        assert_eq!(table.ask(HERE, 6, Course::Read, 3), Before::Shared);
        table.set_time(15.0 * 3600.0);
        assert_eq!(fetch(&mut table, HERE, 7), Before::Shared, "it was read five hours ago");
        for day in 1..=30 {
            table.set_time((10.0 + 24.0 * f64::from(day)) * 3600.0);
            assert_eq!(table.look(HERE, 7), Before::Never, "{day} days later");
        }
    }

    #[test]
    fn a_flood_of_solo_objects_displaces_no_shared_one() {
        let mut table = AskedTable::new(4096);
        for client in [1, 2] {
            fetch(&mut table, HERE, client);
        }
        (8..10_000u64).for_each(|n| assert_eq!(fetch(&mut table, n << 46 | n, 3), Before::Never));
        assert_eq!(table.look(HERE, 9), Before::Shared);
        assert_eq!(table.look(9_999 << 46 | 9_999, 3), Before::Own, "the latest is known");
        assert_eq!(table.look(9 << 46 | 9, 3), Before::Never, "an old one isn't");
        assert_eq!(table.bytes(), 4096);
    }

    #[test]
    fn shared_objects_make_room_when_there_is_nothing_else() {
        let mut table = AskedTable::new(1);
        for n in 1..20u64 {
            fetch(&mut table, n << 46, 1);
            fetch(&mut table, n << 46, 2);
        }
        assert_eq!((table.look(19 << 46, 3), table.look(1 << 46, 3)), (Before::Shared, Before::Never));
    }
}
