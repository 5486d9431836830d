// SPDX-License-Identifier: BSD-2-Clause
//! Power cuts. Drawn operations, ended in any order, and the power goes at any moment: what wasn't synced is there, torn or
//! not there, block by block. Never is a byte wrong, never is there an object that was removed for good.
//!
//! `DISK_SEEDS=10000` tries so many seeds, `DISK_SEED=17` that one alone.

use super::bed::{Bed, NOW, VersionLife};
use crate::disk::Stage;

const NAMES: u64 = 24;

fn operate(bed: &mut Bed) {
    let name = bed.dice.below(NAMES) as u8;
    match bed.dice.below(20) {
        0..6 => {
            let most = [100, 3000, 3000, 30_000, 150_000][bed.dice.below(5) as usize];
            let len = bed.dice.below(most) as usize;
            let _ = bed.put(name, len);
        }
        6 | 7 => bed.purge(name),
        8 => bed.trim(),
        9 | 10 => bed.disk.tick(NOW),
        11 => {
            let disk = bed.disk.clone();
            if let Some(Ok(())) = bed.run(disk.sync()) {
                settle_removed(bed);
            }
        }
        12..15 => {
            let found = bed.load_all(name);
            if let Some((candidate, version)) = found.last()
                && bed.dice.one_in(3)
                && bed.disk.remove(*candidate)
            {
                bed.model.get_mut(&name).unwrap()[*version].life = VersionLife::Removed;
            }
        }
        15 => bed.settle(),
        16 if bed.dice.one_in(4) => (0..30).for_each(|_| {
            let _ = bed.put_at_once(name, 25_000);
        }),
        _ => {
            bed.step();
        }
    }
}

/// The process dies with writes on their way; the next one serves meanwhile, and writes when they have arrived.
fn outlive_death(bed: &mut Bed) {
    bed.die();
    for _ in 0..bed.dice.below(60) {
        operate(bed);
    }
    while bed.device.has_orphans() {
        bed.step();
    }
    bed.disk.allow_writing();
    for _ in 0..bed.dice.below(60) {
        operate(bed);
    }
}

/// Objects that were removed before a sync that has succeeded never come back.
fn settle_removed(bed: &mut Bed) {
    let removed = bed.model.values_mut().flatten().filter(|version| version.life == VersionLife::Removed);
    removed.for_each(|version| version.life = VersionLife::Dead);
}

fn check(seed: u64) -> u64 {
    // With many segments several are prepared and sealed at a time.
    let segments = if seed % 4 == 3 { 48 } else { 4 + seed % 5 };
    let mut bed = Bed::new(seed, segments);
    for _ in 0..3 {
        for _ in 0..40 + bed.dice.below(120) {
            operate(&mut bed);
        }
        if bed.dice.one_in(8) {
            let disk = bed.disk.clone();
            bed.run(disk.close()).expect("closing ends");
        }
        if bed.dice.one_in(3) {
            outlive_death(&mut bed);
        }
        bed.cut_power();
    }
    bed.settle();
    assert_eq!(bed.disk.progress().stage, Stage::Ready);
    bed.load_everything();
    bed.served
}

#[test]
fn a_power_cut_never_brings_back_what_was_removed_nor_a_wrong_byte() {
    let from_environment = |name| std::env::var(name).ok().map(|text: String| text.parse().expect("a number"));
    let seeds = match from_environment("DISK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..from_environment("DISK_SEEDS").unwrap_or(40),
    };
    let count = seeds.end - seeds.start;
    let served: u64 = seeds
        .map(|seed| {
            let result = std::panic::catch_unwind(|| check(seed));
            result.unwrap_or_else(|_| panic!("seed {seed}: see above; DISK_SEED={seed} tries it alone"))
        })
        .sum();
    assert!(count < 40 || served > 20 * count, "it tests something: {served} objects were served");
}
