// SPDX-License-Identifier: BSD-2-Clause
//! Accounting, bodies.

use proptest::prelude::*;
use tables::counters::Sma;
use tables::stores::TRANSIENT;

use crate::*;

const MB: u64 = 1 << 20;

/// One store of that limit, and Transient.
fn of(limit: u64) -> [(&'static str, Option<u64>); 2] {
    [("s0", Some(limit)), (TRANSIENT, None)]
}

fn open(named: &[(&str, Option<u64>)]) -> (Stores, Vec<&'static Sma>) {
    let mut counters: Vec<&'static Sma> = Vec::new();
    let specs: Vec<_> = named.iter().map(|(name, limit)| StoreSpec::malloc(name, *limit)).collect();
    let stores = Stores::open(&specs, |_| {
        counters.push(Box::leak(Box::default()));
        counters[counters.len() - 1]
    })
    .unwrap();
    (stores, counters)
}

#[test]
fn no_gauge_shows_less_than_nothing() {
    let (stores, counters) = open(&of(MB));
    let (store, sma) = (&stores.all()[0], counters[0]);
    // Made by a thread that keeps its counts for a while, let go by another.
    let block = std::thread::scope(|scope| {
        let make = || {
            tables::counters::begin_tally();
            store.block(&[b"bytes"]).unwrap()
        };
        scope.spawn(make).join().unwrap()
    });
    drop(block);
    assert_eq!((sma.g_bytes.get(), sma.g_alloc.get()), (0, 0));
}

#[test]
fn the_account_is_exact() {
    let (stores, counters) = open(&of(MB));
    let (store, sma) = (&stores.all()[0], counters[0]);
    let row = || [sma.c_req.get(), sma.c_fail.get(), sma.c_bytes.get(), sma.c_freed.get(), sma.g_alloc.get()];
    let block = store.block(&[b"head", b"body"]).unwrap();
    let part = block.slice(4..8);
    assert_eq!((&part[..], part.charged_bytes(), row()), (&b"body"[..], 8, [1, 0, 8, 0, 1]));
    drop(block);
    assert_eq!((sma.g_bytes.get(), sma.g_space.get()), (8, (1 << 20) - 8));
    drop(part);
    assert_eq!((row(), sma.g_bytes.get(), sma.g_space.get()), ([1, 0, 8, 8, 0], 0, 1 << 20));
    let big = vec![0; (1 << 20) + 1];
    assert_eq!(store.block(&[&big]), Err(NoSpace { store: 0, needed: (1 << 20) + 1 }));
    assert_eq!((row(), store.used_bytes(), store.free_bytes()), ([2, 1, 8, 8, 0], 0, Some(1 << 20)));
}

#[test]
fn large_blocks_have_whole_pages() {
    let (stores, counters) = open(&of(MB));
    let store = &stores.all()[0];
    let block = store.block(&[&[1; 4096], &[2; 4097]]).unwrap();
    assert_eq!((block[4095], block[4096], block.charged_bytes(), store.used_bytes()), (1, 2, 3 * 4096, 3 * 4096));
    // What is left isn't whole pages: it can be used to the last byte all the same.
    let rest = store.free_bytes().unwrap() as usize;
    let hog = store.block(&[&vec![3; rest - 1000]]).unwrap();
    assert_eq!((hog.charged_bytes(), store.free_bytes()), (rest as u64, Some(0)));
    drop(hog);
    let (small, hog) = (store.block(&[&[0; 1000]]).unwrap(), store.block(&[&vec![3; rest - 1000]]).unwrap());
    assert_eq!(store.free_bytes(), Some(0));
    drop((block, hog, small));
    assert_eq!((store.used_bytes(), counters[0].c_bytes.get()), (0, counters[0].c_freed.get()));
    assert_eq!((counters[0].c_req.get(), counters[0].c_fail.get()), (4, 0));
}

#[test]
fn stores_take_turns_but_transient() {
    let (stores, _) = open(&[("a", None), ("b", None), (TRANSIENT, None)]);
    let names: Vec<_> = (0..3).map(|_| stores.next().name().to_owned()).collect();
    assert_eq!((names.join(" "), stores.transient().name()), ("a b a".to_owned(), "Transient"));
}

proptest! {
    #[test]
    fn a_body_is_its_bytes(sizes in prop::collection::vec(0usize..9000, 0..60), room in 0u64..2, at in 0u64..100_000) {
        let (stores, counters) = open(&of(4 * MB));
        let store = &stores.all()[0];
        let (mut body, mut want) = (BodyBlocks::default(), Vec::new());
        for (n, size) in sizes.iter().enumerate() {
            let bytes = vec![n as u8; *size];
            body.push(store.block(&[&bytes]).unwrap());
            want.extend_from_slice(&bytes);
        }
        prop_assert_eq!(body.len(), want.len() as u64);
        let rest = body.at(at).map(|buf| buf.to_vec()).unwrap_or_default();
        prop_assert!(want.get(at as usize..).unwrap_or_default().starts_with(&rest));
        // With and without room for copies the compacted object has the same bytes.
        let head = store.block(&[b"head"]).unwrap();
        let space = store.free_bytes().unwrap();
        let _hog = (room == 0).then(|| store.block(&[&vec![0; space as usize]]).unwrap());
        let compact = store.compact(head, &body);
        let blocks = compact.rest.as_ref().map_or(&[][..], Rest::blocks);
        drop(body);
        let got: Vec<u8> = compact.head[4..].iter().copied().chain(blocks.iter().flat_map(|piece| piece.buf.to_vec())).collect();
        prop_assert!(got == want);
        if room == 1 {
            prop_assert!(blocks.len() as u64 <= 2 + want.len() as u64 / (4 << 10));
            let charged: u64 = blocks.iter().map(|piece| piece.buf.charged_bytes()).sum();
            prop_assert_eq!(store.used_bytes(), compact.head.charged_bytes() + charged);
            let slack = 4096 * blocks.iter().filter(|piece| piece.buf.len() >= 8192).count() as u64;
            prop_assert!(store.used_bytes() - (4 + want.len() as u64) <= slack + 4096);
        }
        let from_pieces = piece_at(blocks, at).is_some();
        prop_assert!(blocks.is_empty() || from_pieces == (at < want.len() as u64));
        drop((compact, _hog));
        prop_assert_eq!((store.used_bytes(), counters[0].g_alloc.get()), (0, 0));
    }

    #[test]
    fn passed_bytes_are_let_go(sizes in prop::collection::vec(1usize..100, 1..40), upto in 0u64..2000) {
        let (stores, _) = open(&of(4 * MB));
        let mut body = BodyBlocks::default();
        sizes.iter().for_each(|size| body.push(stores.all()[0].block(&[&vec![1; *size]]).unwrap()));
        body.drop_before(upto);
        prop_assert!(body.pieces().all(|piece| piece.end() > upto));
        prop_assert_eq!(body.at(upto).is_some(), upto < body.len());
        prop_assert_eq!(stores.all()[0].used_bytes(), body.pieces().map(|piece| piece.buf.len() as u64).sum::<u64>());
    }
}
