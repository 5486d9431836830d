// SPDX-License-Identifier: BSD-2-Clause
//! FUZZ_CASES sets the number of mutations of each seed.

use std::path::PathBuf;

use super::TARGETS;

const CASES: u64 = 60;
/// Octets that mean something to most parsers here.
const MEANINGFUL: &[u8] = b"\r\n\0 :;,=\"'{}%/\\<>-0a\x7f\x80\xff";

fn seeds(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("seeds").join(name);
    let mut found: Vec<_> = std::fs::read_dir(&dir)
        .unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .collect();
    found.sort();
    found
}

/// Numbers from a seed (splitmix64).
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end.max(1) as u64) as usize
    }
}

fn mutated(octets: &[u8], draw: &mut Draw) -> Vec<u8> {
    let mut out = octets.to_vec();
    for _ in 0..=draw.below(4) {
        let at = draw.below(out.len() + 1);
        let end = (at + 1 + draw.below(8)).min(out.len());
        let other = [MEANINGFUL[draw.below(MEANINGFUL.len())], draw.below(256) as u8][draw.below(2)];
        match draw.below(4) {
            0 => drop(out.drain(at.min(end)..end)),
            1 => out.insert(at, other),
            2 if at < out.len() => out[at] = other,
            _ => out.extend_from_within(at.min(end)..end),
        }
    }
    out
}

#[test]
fn seeds_and_mutations_of_them_keep_every_promise() {
    let cases = std::env::var("FUZZ_CASES").map_or(CASES, |text| text.parse().expect("FUZZ_CASES is a number"));
    for (name, entry) in TARGETS {
        let seeds = seeds(name);
        assert!(!seeds.is_empty(), "{name} has no seed");
        for (path, seed) in seeds {
            for case in 0..=cases {
                let octets = if case == 0 { seed.clone() } else { mutated(&seed, &mut Draw(case)) };
                let kept = std::panic::catch_unwind(|| entry(&octets));
                assert!(
                    kept.is_ok(),
                    "{name}: {}, mutation {case}: {:?}",
                    path.display(),
                    octets.escape_ascii().to_string()
                );
            }
        }
    }
}
