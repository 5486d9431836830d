// SPDX-License-Identifier: BSD-2-Clause
//! Numbers of the log tags by release. [`Tag::number`] is the one in our own log, which is 7.1's with our additions behind it.
//! Releases 7.3 to 8.0 dropped three tags that 7.1 no longer wrote; release 9.0 put two in behind `BackendClose`.

use crate::tags::Tag;

/// Releases with numbers of their own: 6.0 to 7.2 (and our log), 7.3 to 8.0, 9.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagNumbers {
    Seven,
    Eight,
    Nine,
}

impl TagNumbers {
    #[inline]
    pub const fn tag(self, number: u8) -> Option<Tag> {
        self.table().tags[number as usize]
    }

    pub const fn number(self, tag: Tag) -> Option<u8> {
        match self.table().numbers[tag as usize] {
            0 => None,
            number => Some(number),
        }
    }

    const fn table(self) -> &'static NumberTable {
        match self {
            TagNumbers::Seven => &SEVEN,
            TagNumbers::Eight => &EIGHT,
            TagNumbers::Nine => &NINE,
        }
    }
}

/// Both directions. A tag that the release lacks has number 0.
struct NumberTable {
    tags: [Option<Tag>; 256],
    numbers: [u8; 256],
}

impl NumberTable {
    const EMPTY: NumberTable = NumberTable { tags: [None; 256], numbers: [0; 256] };

    const fn add(&mut self, tag: Tag, last: u8) -> u8 {
        let number = last + 1;
        self.tags[number as usize] = Some(tag);
        self.numbers[tag as usize] = number;
        number
    }
}

static SEVEN: NumberTable = {
    let (mut table, mut last) = (NumberTable::EMPTY, 0);
    while (last as usize) < Tag::ALL.len() {
        last = table.add(Tag::ALL[last as usize], last);
    }
    table
};

static EIGHT: NumberTable = later(&[]);
static NINE: NumberTable = later(&[Tag::BackendSsl, Tag::Tls]);

/// The tags of 7.1 without those that 7.3 dropped, with `added` behind `BackendClose` and `ReqTarget` at the end.
const fn later(added: &[Tag]) -> NumberTable {
    let (mut table, mut last, mut at) = (NumberTable::EMPTY, 0, 0);
    while at < Tag::VdpAcct as usize {
        let tag = Tag::ALL[at];
        if !matches!(tag, Tag::BackendReuse | Tag::Backend | Tag::BackendStart) {
            last = table.add(tag, last);
        }
        let mut more = 0;
        while matches!(tag, Tag::BackendClose) && more < added.len() {
            last = table.add(added[more], last);
            more += 1;
        }
        at += 1;
    }
    table.add(Tag::ReqTarget, last);
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_tags_agree_both_ways() {
        for numbers in [TagNumbers::Seven, TagNumbers::Eight, TagNumbers::Nine] {
            let known: Vec<u8> = (0..=255).filter(|n| numbers.tag(*n).is_some()).collect();
            assert_eq!(known, (1..=known.len() as u8).collect::<Vec<_>>(), "{numbers:?}");
            for number in known {
                assert_eq!(numbers.tag(number).and_then(|tag| numbers.number(tag)), Some(number), "{numbers:?}");
            }
        }
    }

    #[test]
    fn each_release_has_its_own() {
        // Counted in include/tbl/vsl_tags.h of 7.1.1, 8.0.0 and 9.0.2.
        let check = |tag: Tag, seven, eight, nine| {
            let all = [TagNumbers::Seven, TagNumbers::Eight, TagNumbers::Nine].map(|numbers| numbers.number(tag));
            assert_eq!(all, [seven, eight, nine].map(|n: u8| Some(n).filter(|n| *n > 0)), "{}", tag.name());
        };
        check(Tag::Debug, 1, 1, 1);
        check(Tag::BackendReuse, 7, 0, 0);
        check(Tag::BackendClose, 8, 7, 7);
        check(Tag::BackendSsl, 98, 0, 8);
        check(Tag::Tls, 97, 0, 9);
        check(Tag::HttpGarbage, 9, 8, 10);
        check(Tag::Backend, 12, 0, 0);
        check(Tag::ReqMethod, 15, 13, 15);
        check(Tag::ObjLost, 54, 52, 54);
        check(Tag::Begin, 76, 74, 76);
        check(Tag::Timestamp, 80, 78, 80);
        check(Tag::BackendStart, 86, 0, 0);
        check(Tag::H2RxHdr, 87, 84, 86);
        check(Tag::VdpAcct, 96, 93, 95);
        check(Tag::ReqTarget, 99, 94, 96);
    }
}
