// SPDX-License-Identifier: BSD-2-Clause
//! Damaged and hostile images: never a crash, a hang, a wrong byte; and of single bits and blocks, never an object that was
//! removed for good.

use base::Real;
use storage::{ObjectTimes, Record};

use super::bed::{Bed, NOW, SEGMENT, VersionLife, digest_of, record_of};
use crate::dice::DiskDice;
use crate::disk::Stage;
use crate::format::entry::{DiskEntryKind, EntryHead, HEAD};
use crate::format::object::{self, Chunk, ObjectTexts};
use crate::format::removal::Removal;
use crate::format::segment::{FooterLine, Trailer, encode_footer};
use crate::format::superblock::{FoundSuperblock, Superblock};
use crate::format::{BLOCK, FIRST_SEGMENT, UNIT, key_of};

/// Number of seeds: `DISK_SEEDS`, or `usual`.
fn seeds(usual: u64) -> u64 {
    std::env::var("DISK_SEEDS").map_or(usual, |text| text.parse().expect("a number"))
}

/// A store with history: objects of all sizes, some removed, some segments reclaimed.
fn grown(seed: u64) -> Bed {
    let mut bed = Bed::ready(seed, 8);
    for _ in 0..60 {
        let name = bed.dice.below(20) as u8;
        match bed.dice.below(6) {
            0 => bed.purge(name),
            1 => drop(bed.load_all(name)),
            _ => {
                let len = bed.dice.below(60_000) as usize;
                let _ = bed.put(name, len);
            }
        }
        bed.disk.tick(NOW);
        bed.settle();
        bed.trim();
    }
    if !seed.is_multiple_of(3) {
        let disk = bed.disk.clone();
        bed.run(disk.close()).expect("closing ends");
        bed.trim();
    }
    bed
}

fn reopened(mut bed: Bed, image: Vec<u8>) -> Bed {
    bed.restart(image);
    bed.settle();
    bed.load_everything();
    // It goes on, over all of its segments, whatever it was made of.
    for turn in 0..30 {
        let _ = bed.put((100 + turn % 8) as u8, 50_000);
        bed.disk.tick(NOW);
        bed.settle();
        bed.load_all((100 + turn % 8) as u8);
    }
    bed.load_everything();
    bed
}

#[test]
fn a_footer_that_is_lost_brings_nothing_back_that_was_removed_in_an_earlier_segment() {
    let mut bed = Bed::ready(11, 48);
    let removed = bed.put(1, 1000).unwrap();
    let disk = bed.disk.clone();
    bed.run(disk.sync()).unwrap().unwrap();
    assert!(bed.disk.remove(removed));
    bed.run(disk.sync()).unwrap().unwrap();
    bed.model.get_mut(&1).unwrap()[0].life = VersionLife::Dead;
    // Two segments are sealed at once.
    assert!((2..30).take_while(|&name| bed.put_at_once(name, 60_000).is_ok()).count() > 4);
    while bed.device.end_one(&mut bed.dice) {}
    bed.settle();
    let mut image = bed.device.image();
    let first = (removed.at * UNIT - FIRST_SEGMENT) / SEGMENT;
    let end_of = |segment: u64| (FIRST_SEGMENT + (segment + 1) * SEGMENT) as usize;
    let trailers = |segment| end_of(segment) - 2 * BLOCK..end_of(segment);
    for segment in [first, first + 1] {
        assert!(image[trailers(segment)].iter().any(|&byte| byte != 0), "it has a footer");
    }
    image[trailers(first + 1)].fill(0);
    bed.restart(image);
    bed.settle();
    assert!(bed.load_everything() > 2);
}

#[test]
fn flipped_bits_are_misses_and_bring_nothing_back() {
    let mut errors = 0;
    for seed in 0..seeds(20) {
        let mut bed = grown(seed);
        let mut image = bed.device.image();
        for _ in 0..1 + bed.dice.below(6) {
            let at = FIRST_SEGMENT + bed.dice.below(image.len() as u64 - FIRST_SEGMENT);
            image[at as usize] ^= 1 << bed.dice.below(8);
        }
        let bed = reopened(bed, image);
        assert_eq!(bed.disk.progress().stage, Stage::Ready);
        let counts = bed.disk.counts();
        errors += counts.checksum_errors + counts.segments_scanned + counts.segments_unjudged;
    }
    assert!(errors > 6, "the bits that were flipped are of some use: {errors}");
}

#[test]
fn a_lost_block_of_a_footer_costs_nothing_but_time() {
    for (part, seed) in (0..seeds(8)).map(|seed| (seed % 4, seed)) {
        let bed = grown(3 * seed + 1);
        let mut image = bed.device.image();
        let footers = footers(&image);
        assert!(!footers.is_empty());
        for (end, trailer) in footers {
            let parts = trailer.parts();
            let start = end - parts.len as usize;
            // One of a pair each: a copy of the removals, a trailer.
            let lost = [parts.removals[0], parts.removals[1], parts.trailers[0], parts.trailers[1]][part as usize];
            image[start + lost as usize..][..BLOCK].fill(0xee);
        }
        let mut whole = grown(3 * seed + 1);
        let mut there = Vec::new();
        for image in [whole.device.image(), image] {
            whole.restart(image);
            whole.settle();
            there.push(whole.load_everything());
        }
        assert_eq!(there[0], there[1], "seed {seed}");
        assert_eq!(whole.disk.counts().segments_unjudged, 0);
    }
}

/// The ends of the segments that have a footer, and the footers' trailers.
fn footers(image: &[u8]) -> Vec<(usize, Trailer)> {
    let FoundSuperblock::Ours(superblock) = Superblock::decode(&image[..BLOCK]) else { panic!("a superblock") };
    let ends = (0..superblock.segments).map(|index| (superblock.segment_start(index + 1)) as usize);
    ends.filter_map(|end| {
        let head = &image[end - SEGMENT as usize..][..BLOCK];
        let index = ((end as u64 - FIRST_SEGMENT) / SEGMENT - 1) as u32;
        let generation = crate::format::segment::decode_head(head, superblock.store_id, index)?;
        let trailer = Trailer::decode(&image[end - BLOCK..end], superblock.store_id, generation)?;
        Some((end, trailer))
    })
    .collect()
}

#[test]
fn without_both_copies_of_removals_all_that_is_older_goes() {
    let bed = grown(1);
    let mut image = bed.device.image();
    let mut footers = footers(&image);
    footers.sort_by_key(|(_, trailer)| std::cmp::Reverse(trailer.generation));
    let (end, trailer) = footers[1];
    image[end - trailer.parts().len as usize..end].fill(0);
    let newest = footers[0].1.lines;
    let mut bed = reopened_only(bed, image);
    let counts = bed.disk.counts();
    assert_eq!(counts.segments_unjudged, footers.len() as u64 - 1, "{counts:?}");
    let there = bed.load_everything();
    assert!(there <= newest as usize, "{there} of {newest}");
}

#[test]
fn a_removal_outlives_the_footer_that_it_was_in() {
    let mut bed = Bed::ready(7, 8);
    bed.put_slowly(1, 100);
    bed.put_slowly(2, 100);
    bed.settle();
    bed.purge(1);
    let disk = bed.disk.clone();
    bed.run(disk.close()).expect("closing ends");
    bed.trim();
    let mut image = bed.device.image();
    let (end, trailer) = footers(&image)[0];
    let start = end - SEGMENT as usize;
    // Footer and the entry of the removal: the object's stays.
    let removal = (BLOCK..trailer.end as usize).step_by(UNIT as usize).find(|at| image[start + at + 4] == 3);
    image[start + removal.expect("it is in the log")..end].fill(0);
    let mut bed = reopened_only(bed, image);
    assert_eq!(bed.load_all(1), []);
    assert_eq!(bed.load_all(2).len(), 1);
}

fn reopened_only(mut bed: Bed, image: Vec<u8>) -> Bed {
    bed.restart(image);
    bed.settle();
    bed
}

#[test]
fn garbage_zeros_and_blocks_in_wrong_places_are_misses() {
    for seed in 0..seeds(20) {
        let mut bed = grown(seed);
        let mut image = bed.device.image();
        let old = grown(seed + 1000).device.image();
        // Blocks of an older image of this store, or another order, may bring back what they say: only the bytes count.
        bed.is_hostile = true;
        for _ in 0..1 + bed.dice.below(40) {
            let blocks = image.len() / BLOCK;
            let dice = &mut bed.dice;
            let most = if dice.one_in(5) { 60 } else { 2 };
            let count = 1 + dice.below(most) as usize;
            let mut place = || dice.below((blocks - count) as u64) as usize * BLOCK;
            let (from, to, len) = (place(), place(), count * BLOCK);
            match bed.dice.below(4) {
                0 => image[to..to + len].iter_mut().for_each(|byte| *byte = bed.dice.word() as u8),
                1 => image[to..to + len].fill(0),
                2 => image.copy_within(from..from + len, to),
                _ => image[to..to + len].copy_from_slice(&old[to..to + len]),
            }
        }
        let bed = reopened(bed, image);
        assert!(matches!(bed.disk.progress().stage, Stage::Ready | Stage::Refused(_)));
    }
}

#[test]
fn what_a_hostile_hand_has_written_with_the_right_checksums_does_no_harm() {
    for seed in 0..seeds(20) {
        let mut bed = grown(seed);
        bed.is_hostile = true;
        let mut image = bed.device.image();
        let FoundSuperblock::Ours(superblock) = Superblock::decode(&image[..BLOCK]) else { panic!("a superblock") };
        for (end, trailer) in footers(&image) {
            let start = end - SEGMENT as usize;
            let units = start as u64 / UNIT;
            let mut lines = Vec::new();
            for _ in 0..1 + bed.dice.below(8) {
                let offset = (BLOCK as u64 / UNIT + bed.dice.below(1500)) as u32;
                let name = bed.dice.below(20) as u8;
                let entry =
                    hostile_entry(&mut bed.dice, &superblock, name, trailer.generation, units + u64::from(offset));
                let at = start + offset as usize * UNIT as usize;
                image[at..at + entry.len()].copy_from_slice(&entry);
                lines.push(hostile_line(&mut bed.dice, name, offset));
            }
            let removals = vec![Removal::Record { generation: bed.dice.word(), at: bed.dice.word() }];
            let trailer =
                Trailer { previous: [0, trailer.previous, bed.dice.word()][bed.dice.below(3) as usize], ..trailer };
            let mut footer = encode_footer(superblock.store_id, trailer, &lines, &removals);
            if bed.dice.one_in(3) {
                // As if there were many more lines than there is room for; or none, so that the entries are read.
                footer.fill(0);
            }
            image[end - footer.len()..end].copy_from_slice(&footer);
        }
        let bed = reopened(bed, image);
        assert_eq!(bed.disk.progress().stage, Stage::Ready);
    }
}

fn wild(dice: &mut DiskDice) -> u64 {
    let word = dice.word();
    [0, 1, u64::MAX, word, word >> 20, word >> 40][dice.below(6) as usize]
}

fn hostile_line(dice: &mut DiskDice, name: u8, offset: u32) -> FooterLine {
    let own = dice.one_in(2);
    FooterLine {
        key: key_of(&digest_of(name)),
        ban_seq: wild(dice),
        offset: if own { offset } else { wild(dice) as u32 },
        expiry: if own { u32::MAX } else { wild(dice) as u32 },
        units: wild(dice) as u32,
        body_kb: wild(dice) as u32,
    }
}

fn hostile_entry(dice: &mut DiskDice, superblock: &Superblock, name: u8, generation: u64, at: u64) -> Vec<u8> {
    let wild_time = |dice: &mut DiskDice| f64::from_bits(wild(dice));
    let (t_origin, ttl, grace) = (Real(wild_time(dice)), wild_time(dice), wild_time(dice));
    let times = ObjectTimes { t_origin, ttl, grace, keep: 0.0 };
    let record = Record { xid: wild(dice), ban_seq: wild(dice), times, ..record_of(name, 0, b"head") };
    let copy_of = (wild(dice), wild(dice));
    let count = dice.below(4);
    let chunk = |dice: &mut DiskDice| Chunk {
        generation: if dice.one_in(2) { generation } else { wild(dice) },
        at: if dice.one_in(2) { at + dice.below(2000) } else { wild(dice) },
        len: [1 << 16, 1 << 16, wild(dice) as u32][dice.below(3) as usize],
        sum: wild(dice) as u32,
    };
    let chunks: Vec<Chunk> = (0..count).map(|_| chunk(dice)).collect();
    let texts = ObjectTexts { head: b"head", tags: b"" };
    let record = object::encode(superblock.store_id, &record, copy_of, &texts, &chunks);
    let len = if dice.one_in(3) { wild(dice) as u32 } else { (HEAD + record.len()) as u32 };
    let kind = [DiskEntryKind::Object, DiskEntryKind::Object, DiskEntryKind::Part, DiskEntryKind::Removals]
        [dice.below(4) as usize];
    let head = EntryHead { kind, generation, at, len, own: digest_of(name) };
    [&head.encode(superblock.store_id)[..], &record].concat()
}
