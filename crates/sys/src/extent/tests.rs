// SPDX-License-Identifier: BSD-2-Clause
//! Extents keep their bytes, gaps join, memory goes back.

use super::*;

/// A plain generator; the seed is part of each test.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit
    }
}

fn churn(region: &Arc<Region>, seed: u64) {
    let mut random = Random(seed);
    let mut held: Vec<(u8, Extent)> = Vec::new();
    for turn in 0..20_000 {
        let len = 1 + random.below(5 * PAGE);
        let mark = turn as u8;
        match region.extent(&[&vec![mark; len / 2], &vec![mark; len - len / 2]]) {
            Some(extent) if random.below(3) > 0 || held.is_empty() => held.push((mark, extent)),
            other => {
                drop(other);
                let at = random.below(held.len().max(1));
                if at < held.len() {
                    held.swap_remove(at);
                }
            }
        }
        assert!(held.last().is_none_or(|(mark, extent)| extent.iter().all(|byte| byte == mark)));
    }
    assert!(held.iter().all(|(mark, extent)| extent.iter().all(|byte| byte == mark)), "seed {seed}");
    let used: u64 = held.iter().map(|(_, extent)| extent.page_bytes()).sum();
    let free = region.free();
    assert_eq!(used + (free.clean.pages + free.dirty.pages) * PAGE as u64, region.len as u64, "no page is lost");
}

#[test]
fn extents_keep_their_bytes_and_no_page_is_lost() {
    for seed in 1..4 {
        let region = Region::anonymous(300 * PAGE, 20 * PAGE as u64).unwrap();
        churn(&region, seed);
        assert!(region.kept_bytes() <= 20 * PAGE as u64);
        let free = region.free();
        assert_eq!(free.clean.pages + free.dirty.pages, 300, "all is back");
    }
}

#[test]
fn a_whole_region_can_be_one_extent_again() {
    let region = Region::anonymous(10 * PAGE, 4 * PAGE as u64).unwrap();
    let mut small: Vec<_> = (0..10).map(|_| region.extent(&[b"x"]).unwrap()).collect();
    assert!(region.extent(&[b"x"]).is_none());
    while !small.is_empty() {
        small.swap_remove(small.len() / 2);
    }
    let all = region.extent(&[&[7; 10 * PAGE]]).unwrap();
    assert_eq!((all.len(), all.page_bytes()), (10 * PAGE, 10 * PAGE as u64));
    assert!(region.extent(&[]).is_none());
}

#[test]
fn much_memory_is_given_back_in_pieces() {
    let region = Region::anonymous(2000 * PAGE, 1000 * PAGE as u64).unwrap();
    let extents: Vec<_> = (0..11).map(|_| region.extent(&[&vec![1; 100 * PAGE]]).unwrap()).collect();
    drop(extents);
    let kept = |pages: u32| u64::from(pages) * PAGE as u64;
    assert_eq!(region.kept_bytes(), kept(1100 - GIVEN_PAGES), "of eleven hundred pages in a row");
    drop(region.extent(&[&vec![1; 900 * PAGE]]).unwrap());
    assert!(region.kept_bytes() <= kept(1000));
    assert_eq!(region.extent(&[&vec![1; 2000 * PAGE]]).unwrap().page_bytes(), kept(2000));
}

#[test]
fn what_is_sent_often_is_worth_lending() {
    let region = Region::anonymous(4 * PAGE, 4 * PAGE as u64).unwrap();
    let extent = region.extent(&[b"x"]).unwrap();
    assert_eq!([(); 4].map(|()| extent.note_send()), [false, false, true, true]);
}
