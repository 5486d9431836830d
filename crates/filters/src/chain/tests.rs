// SPDX-License-Identifier: BSD-2-Clause
//! Chains: the same bytes come out however they are cut, and errors end them.

use esi::{EsiProgram, EsiStep as Stored};
use message::Coding;
use proptest::prelude::*;

use super::*;
use crate::stitch::{self, Blocks, GzipSum};
use crate::{
    DeliverInput, FetchInput, Gunzip, Gzip, GzipParams, InjectedFilters, Multipart, PartHeads, RangeFilter, RangePart,
    RangeVerdict, TestGunzip, open_deliver, open_fetch,
};

/// Sends `body` through, `cut` bytes at a time into space for `room`.
fn run(chain: &mut Chain, body: &[u8], cut: usize, room: usize) -> Result<Vec<u8>, FilterError> {
    let (mut all, mut out, mut at, mut given) = (Vec::new(), vec![0; room], 0, 0);
    loop {
        let idle = all.len();
        let step = chain.step(&body[at..given], given == body.len(), &mut out)?;
        at += step.consumed;
        all.extend_from_slice(&out[..step.produced]);
        match step.state {
            FilterState::End => return Ok(all),
            FilterState::More => {}
            FilterState::Hungry => {
                assert_eq!(at, given, "a hungry chain has used its input");
                assert!(given < body.len(), "a chain isn't hungry after the last input");
                given = (given + cut).min(body.len());
            }
        }
        assert!(step.consumed <= SLICE && all.len() - idle <= SLICE.max(room));
    }
}

fn one(filter: impl Filter + 'static) -> Chain {
    let mut chain = Chain::new();
    chain.push(filter);
    chain
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    run(&mut one(Gzip::new(GzipParams::default())), body, 777, 999).unwrap()
}

/// Compresses as an origin does: zlib's own framing, no boundary before the end.
fn foreign(body: &[u8]) -> Vec<u8> {
    let mut deflate = crate::packer::Packer::new(GzipParams { level: 9, memlevel: 8 });
    let mut out = vec![0; body.len() * 2 + 100];
    let made = deflate.pack(body, &mut out, zlib_rs::DeflateFlush::Finish).unwrap().made;
    out.truncate(made);
    let sum = GzipSum::new(body);
    let tail = stitch::tail(sum.crc, sum.plain_bytes);
    [&stitch::HEADER[..], &out, &tail[5..]].concat()
}

/// Space for what comes out: one case in three has next to none.
fn room() -> impl Strategy<Value = usize> {
    prop_oneof![2 => 1usize..20_000, 1 => 1usize..10]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        (any::<u8>(), 0usize..40_000).prop_map(|(byte, n)| vec![byte; n]),
        Just(b"<a>some text that repeats</a>".repeat(50)),
    ];
    proptest::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn gzip_round_trips(body in body(), cut in 1usize..20_000, room in room()) {
        let room = room.max(body.len() / 2000 + 1);
        let packed = run(&mut one(Gzip::new(GzipParams::default())), &body, cut, room).unwrap();
        prop_assert_eq!(&run(&mut one(Gunzip::fetch()), &packed, cut, room).unwrap(), &body);
        prop_assert_eq!(&run(&mut one(TestGunzip::new()), &packed, cut, room).unwrap(), &packed);
        let mut chain = one(Gzip::new(GzipParams { level: 1, memlevel: 1 }));
        chain.push(TestGunzip::new());
        chain.push(Gunzip::deliver());
        prop_assert_eq!(&run(&mut chain, &body, cut, room).unwrap(), &body);
    }

    #[test]
    fn cut_gzip_is_an_error(body in body(), at in 0.0..1.0f64, cut in 1usize..9000) {
        let packed = foreign(&body);
        let short = &packed[..(packed.len() as f64 * at) as usize];
        prop_assert_eq!(run(&mut one(Gunzip::fetch()), short, cut, 5000), Err(FilterError::GunzipTruncated));
        prop_assert_eq!(run(&mut one(TestGunzip::new()), short, cut, 5000), Err(FilterError::TestTruncated));
    }

    #[test]
    fn flipped_bits_never_give_another_body(body in body(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut packed = foreign(&body);
        let at = at.index(packed.len());
        packed[at] ^= 1 << bit;
        // Some bits mean nothing (time, filler), and there are several ways to pack the same.
        if let Ok(same) = run(&mut one(Gunzip::fetch()), &packed, 3000, 3000) {
            prop_assert_eq!(same, body);
        }
    }

    #[test]
    fn rubbish_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..500), cut in 1usize..100) {
        prop_assert!(run(&mut one(Gunzip::fetch()), &bytes, cut, 100).is_err());
        prop_assert!(run(&mut one(TestGunzip::new()), &bytes, cut, 100).is_err());
    }

    #[test]
    fn ranges(body in body(), low in any::<prop::sample::Index>(), high in any::<prop::sample::Index>(), cut in 1usize..9000) {
        let body = [body, vec![b'x']].concat();
        let (a, b) = (low.index(body.len()), high.index(body.len()));
        let (low, high) = (a.min(b), a.max(b));
        let mut chain = one(RangeFilter::new(low as u64, high as u64));
        prop_assert_eq!(&run(&mut chain, &body, cut, 4000).unwrap(), &body[low..=high]);
        let mut chain = one(RangeFilter::new(low as u64, body.len() as u64));
        prop_assert_eq!(run(&mut chain, &body, cut, 4000), Err(FilterError::RangeShort));
        let mut chain = one(RangeFilter::up_to(low as u64, high as u64));
        prop_assert_eq!(&run(&mut chain, &body, cut, 4000).unwrap(), &body[low..=high]);
        let mut chain = one(RangeFilter::up_to(low as u64, u64::MAX - 1));
        prop_assert_eq!(&run(&mut chain, &body, cut, 4000).unwrap(), &body[low..]);
    }

    #[test]
    fn several_ranges_are_cut_out(body in body(), cut in 1usize..5000, room in 1usize..5000, from in proptest::collection::vec(any::<usize>(), 2..9)) {
        let body = [body, vec![b'x'; 10]].concat();
        let mut edges: Vec<usize> = from.iter().map(|n| n % (body.len() - 1)).chain([body.len() - 1]).collect();
        edges.sort();
        edges.dedup();
        let (mut parts, mut want) = (Vec::new(), Vec::new());
        let heads = PartHeads { before: b"--".to_vec(), after: b"/*--".to_vec() };
        for pair in edges.chunks_exact(2) {
            want.extend_from_slice(format!("--{}-{}/*--", pair[0], pair[1]).as_bytes());
            want.extend_from_slice(&body[pair[0]..=pair[1]]);
            parts.insert(0, RangePart { low: pair[0] as u64, high: pair[1] as u64 });
        }
        want.extend_from_slice(b"--end--");
        let multipart = Multipart { parts, heads, tail: b"--end--".to_vec() };
        prop_assert_eq!(multipart.bytes(), want.len() as u64);
        let mut short = one(RangeFilter::parts(multipart.clone()));
        let highest = multipart.parts[0].high as usize;
        prop_assert_eq!(run(&mut short, &body[..highest], cut, room), Err(FilterError::RangeShort));
        prop_assert!(run(&mut one(RangeFilter::parts(multipart)), &body, cut, room) == Ok(want));
    }

    #[test]
    fn stitched_pages_unpack(parts in proptest::collection::vec((body(), 0u8..3), 0..5), cut in 1usize..9000, room in room()) {
        let mut page = b"<page>".to_vec();
        parts.iter().for_each(|(text, _)| {
            page.extend_from_slice(b"<esi:include src='/x'/><![CDATA[");
            page.extend(text.iter().map(|c| if *c == b']' { b'.' } else { *c }));
            page.extend_from_slice(b"]]><esi:remove>gone</esi:remove>");
        });
        let input = FetchInput {
            status: 200, coding: Some(Coding::Identity), url: b"/", gzip: GzipParams::default(), pack: crate::PackParams::default(), esi: esi::Features::default(),
        };
        let mut opened = open_fetch(&" esi_gzip".into(), input, &mut InjectedFilters::default()).unwrap();
        let stored = run(&mut opened.chain, &page, cut, room).unwrap();
        prop_assert_eq!(&run(&mut one(Gunzip::fetch()), &stored, 4000, 4000).unwrap(), &page, "the stored body is the page");
        prop_assert_eq!(opened.chain.gzip_bits().unwrap().plain_bytes, page.len() as u64);
        let program = opened.chain.take_esi();
        prop_assert_eq!(program.is_some(), !parts.is_empty());
        let Some(program) = program else { return Ok(()) };

        let (mut want, mut sent, mut sum, mut at) = (Vec::new(), stitch::HEADER.to_vec(), GzipSum::default(), 0);
        let mut fragments = parts.iter();
        let plain = |text: &[u8]| text.iter().map(|c| if *c == b']' { b'.' } else { *c }).collect::<Vec<u8>>();
        want.extend_from_slice(b"<page>");
        for step in EsiProgram::parse(&program).unwrap().steps().unwrap() {
            match step {
                Stored::Verbatim { bytes, piece } => {
                    let piece = piece.unwrap();
                    sent.extend_from_slice(&stored[at..at + bytes as usize]);
                    sum.join(GzipSum { crc: piece.crc, plain_bytes: piece.plain_bytes });
                    at += bytes as usize;
                }
                Stored::Skip { bytes } => at += bytes as usize,
                Stored::Include(_) => {
                    let (text, kind) = fragments.next().unwrap();
                    want.extend_from_slice(text);
                    want.extend_from_slice(b"<![CDATA[");
                    want.extend_from_slice(&plain(text));
                    want.extend_from_slice(b"]]>");
                    match kind {
                        0 => text.chunks(stitch::STORED_MAX).for_each(|chunk| {
                            sent.extend_from_slice(&stitch::stored_header(chunk.len() as u16));
                            sent.extend_from_slice(chunk);
                            sum.add(chunk);
                        }),
                        kind => {
                            let packed = if *kind == 1 { gzipped(text) } else { foreign(text) };
                            let mut check = one(TestGunzip::new());
                            run(&mut check, &packed, cut, 4000).unwrap();
                            let bits = check.gzip_bits().unwrap();
                            let mut blocks = Blocks::new(bits, packed.len() as u64).unwrap();
                            packed.chunks(cut).for_each(|chunk| blocks.push(chunk, &mut sent));
                            sum.join(blocks.sum().unwrap());
                        }
                    }
                }
            }
        }
        sent.extend_from_slice(&stitch::tail(sum.crc, sum.plain_bytes));
        prop_assert_eq!(run(&mut one(Gunzip::deliver()), &sent, 4000, 4000).unwrap(), want);
    }
}

#[test]
fn a_bomb_takes_many_small_steps() {
    let packed = foreign(&vec![0; 20 << 20]);
    let (mut chain, mut out, mut at, mut total, mut steps) = (one(Gunzip::fetch()), vec![0; 1 << 20], 0, 0, 0);
    loop {
        let step = chain.step(&packed[at..], true, &mut out).unwrap();
        assert!(step.produced <= SLICE);
        (at, total, steps) = (at + step.consumed, total + step.produced, steps + 1);
        if step.state == FilterState::End {
            break;
        }
    }
    assert_eq!(total, 20 << 20);
    assert!(steps >= (20 << 20) / SLICE);
}

#[test]
fn junk_and_texts() {
    let packed = [&gzipped(b"hello")[..], b"x"].concat();
    let error = run(&mut one(Gunzip::fetch()), &packed, 1, 100).unwrap_err();
    assert_eq!(error.to_string(), "Junk after gzip data");
    let error = run(&mut one(TestGunzip::new()), b"hello, this is not gzip", 100, 100).unwrap_err();
    assert_eq!(error.to_string(), "Invalid Gzip data: incorrect header check");
    let mut chain = one(Gunzip::deliver());
    assert!(run(&mut chain, &packed, 100, 100).is_err());
    assert_eq!(chain.take_notes(), [FilterNote::Gzip("G(un)zip error: 1 (junk after VGZ_END)".into())]);
}

#[test]
fn accounts_come_last_filter_first() {
    let mut chain = one(Gzip::new(GzipParams::default()));
    chain.push(TestGunzip::new());
    let out = run(&mut chain, b"hello", 100, 100).unwrap();
    let closed: Vec<_> = chain.close().map(|(note, acct)| (note, acct.name, acct.bytes)).collect();
    let bytes = out.len() as u64;
    let (last, stop) = ((bytes - 13) * 8, (bytes - 8) * 8);
    assert_eq!(closed[0], (Some(FilterNote::Gzip(format!("u F - {bytes} 5 80 {last} {stop}"))), "testgunzip", bytes));
    assert_eq!(closed[1], (Some(FilterNote::Gzip(format!("G F - 5 {bytes} 80 {last} {stop}"))), "gzip", bytes));
}

#[test]
fn deliver_lengths() {
    let check = |names: &'static str, want: Option<u64>, links: usize| {
        let mut range =
            |len: Option<u64>| if len == Some(7) { RangeVerdict::Unsatisfiable } else { RangeVerdict::Part(2, 4) };
        let input = DeliverInput {
            body_bytes: Some(100),
            plain_bytes: Some(7),
            has_esi: true,
            status: 200,
            coding: Some(Coding::Identity),
            range: &mut range,
        };
        let opened = open_deliver(&names.into(), input, &mut InjectedFilters::default()).unwrap();
        assert_eq!((opened.body_bytes, opened.chain.len()), (want, links), "{names}");
    };
    check("", Some(100), 0);
    check(" range", Some(3), 1);
    check(" gunzip", Some(7), 1);
    check(" gunzip range", Some(0), 1);
    check(" esi gunzip range", Some(3), 2);
    check(" esi", None, 0);
}

#[test]
fn unknown_filters_are_named() {
    let input = FetchInput {
        status: 200,
        coding: Some(Coding::Identity),
        url: b"/",
        gzip: GzipParams::default(),
        pack: crate::PackParams::default(),
        esi: esi::Features::default(),
    };
    let error = open_fetch(&"gzip  foo bar".into(), input, &mut InjectedFilters::default()).err().unwrap();
    assert_eq!(error.to_string(), "Filter '...foo bar' not found");
}

/// The most bytes that a step took of a body that is all there, and what its steps are charged with in all, in microseconds.
fn pieces(filter: impl Filter + 'static, body: &[u8]) -> (usize, u32) {
    let (mut chain, mut out, mut at, mut most, mut micros) = (one(filter), vec![0; 2 * SLICE], 0, 0, 0);
    loop {
        let step = chain.step(&body[at..], true, &mut out).unwrap();
        (at, most, micros) = (at + step.consumed, most.max(step.consumed), micros + chain.take_micros());
        if step.state == FilterState::End {
            assert_eq!((at, chain.take_micros()), (body.len(), 0));
            return (most, micros);
        }
    }
}

#[test]
fn what_takes_long_over_a_byte_takes_few_at_a_time_and_is_charged_for_them() {
    let text = b"<p>text</p><esi:remove><b>away</b></esi:remove><!-- <esi:x --><esi:comment text='c'/>".repeat(3000);
    let bytes = text.len() as u32;
    let gzip = |level| Gzip::new(GzipParams { level, memlevel: 8 });
    for (level, slice, bytes_a_micro) in [(1, 8192, 60), (6, 4096, 25), (9, 1024, 10)] {
        let (most, micros) = pieces(gzip(level), &text);
        assert!(most == slice && micros >= bytes / (bytes_a_micro + 2), "level {level}: {most} bytes, {micros} us");
    }
    let (most, micros) = pieces(crate::esi_fetch::Esi::new(b"/", esi::Features::default()), &text);
    assert!(most == 8192 && micros >= bytes / 50, "{most} bytes, {micros} us");
    let (most, micros) =
        pieces(crate::esi_fetch::EsiGzip::new(b"/", esi::Features::default(), GzipParams::default()), &text);
    // Each of its runs ends with a flush.
    assert!(most == 8192 && micros >= 3000 * 4 * 8, "{most} bytes, {micros} us");
    // Eight megabytes behind a few kilobytes.
    let bomb = gzipped(&vec![0; 8 << 20]);
    let (_, micros) = pieces(TestGunzip::new(), &bomb);
    assert!(micros >= (8 << 20) / 330, "{} bytes, {micros} us", bomb.len());
}
