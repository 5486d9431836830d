// SPDX-License-Identifier: BSD-2-Clause
//! Bodies in br and zstd, there and back, and what is none of them.

use proptest::prelude::*;

use super::*;
use crate::{Chain, Gunzip, Gzip, GzipParams};

const BOTH: [Packed; 2] = [Packed::Brotli, Packed::Zstd];

/// Runs a body through, in pieces of `cut` bytes, with room for `room` bytes at a step.
fn through(mut chain: Chain, body: &[u8], cut: usize, room: usize) -> Result<(Vec<u8>, Chain), FilterError> {
    let (mut out, mut space, mut idle) = (Vec::new(), vec![0; room], 0);
    let mut pieces = body.chunks(cut.max(1)).peekable();
    let mut rest: &[u8] = pieces.next().unwrap_or_default();
    loop {
        let is_last = pieces.peek().is_none();
        let step = chain.step(rest, is_last, &mut space)?;
        assert!(step.consumed <= rest.len() && step.produced <= room);
        rest = &rest[step.consumed..];
        out.extend_from_slice(&space[..step.produced]);
        idle = if step.consumed + step.produced == 0 { idle + 1 } else { 0 };
        // A few bytes unpack to many, of which some kilobytes are packed in each step.
        assert!(idle < 1000, "it goes on or ends");
        match step.state {
            FilterState::End => return Ok((out, chain)),
            FilterState::Hungry => {
                assert!(rest.is_empty() && !is_last);
                rest = pieces.next().expect("more is to come");
            }
            FilterState::More => {}
        }
    }
}

fn one(filter: impl Filter) -> Chain {
    let mut chain = Chain::new();
    chain.push(filter);
    chain
}

fn pack(packed: Packed, body: &[u8], params: PackParams) -> Vec<u8> {
    through(one(Pack::new(packed, params)), body, 5000, 777).expect("packs").0
}

fn unpack(packed: Packed, body: &[u8], cut: usize, room: usize) -> Result<Vec<u8>, FilterError> {
    through(one(Unpack::new(packed)), body, cut, room).map(|(plain, _)| plain)
}

/// Bodies of many kinds: texts, what repeats itself near and far, noise.
fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~]{1,900}".prop_map(String::into_bytes),
        ("[a-z ]{1,40}", 1usize..2000).prop_map(|(word, times)| word.repeat(times).into_bytes()),
        prop::collection::vec(any::<u8>(), 1..3000),
        (any::<u8>(), 1usize..100_000).prop_map(|(byte, len)| vec![byte; len]),
    ]
}

proptest! {
    /// The number of cases is 20,000 in `make soak` (docs/codings.md has the command alone): 100,000 bodies are
    /// compressed and decompressed in each coding, gzip among them.
    #[test]
    fn no_byte_differs_after_a_round_trip(
        bodies in prop::collection::vec(bodies(), 5..6), cut in 1usize..5000, room in 1usize..5000, quality in 0u8..10, level in 1u8..8,
    ) {
        for body in bodies {
            let gzip = GzipParams { level, ..GzipParams::default() };
            let coded = through(one(Gzip::new(gzip)), &body, cut, room.max(100)).expect("packs").0;
            prop_assert_eq!(&through(one(Gunzip::deliver()), &coded, cut, room).expect("sound").0, &body);
            for packed in BOTH {
                let bytes = (quality % 2 == 0).then_some(body.len() as u64);
                let params = PackParams { brotli_quality: quality, zstd_level: level, bytes };
                let coded = pack(packed, &body, params);
                prop_assert_eq!(&unpack(packed, &coded, cut, room).expect("sound"), &body);
                let (same, chain) = through(one(Check::new(packed)), &coded, cut, room).expect("sound");
                prop_assert_eq!(&same, &coded);
                prop_assert_eq!(chain.plain_bytes(), Some(body.len() as u64));
            }
        }
    }

    /// Each piece is followed by a pause of its origin; a piece of nothing is a pause behind a pause.
    #[test]
    fn at_a_pause_readers_have_all_that_came(
        pieces in prop::collection::vec(prop_oneof![Just(Vec::new()), bodies()], 1..6), room in 1usize..3000, quality in 0u8..10,
    ) {
        let params = PackParams { brotli_quality: quality, ..PackParams::default() };
        let brotli = || -> [Box<dyn Filter>; 2] {
            [Box::new(Pack::new(Packed::Brotli, params)), Box::new(Unpack::new(Packed::Brotli))]
        };
        let zstd: [Box<dyn Filter>; 2] = [Box::new(Pack::new(Packed::Zstd, params)), Box::new(Unpack::new(Packed::Zstd))];
        let gzip = || -> [Box<dyn Filter>; 2] { [Box::new(Gzip::new(GzipParams::default())), Box::new(Gunzip::deliver())] };
        for filters in [brotli().into(), zstd.into(), Vec::from(gzip()), gzip().into_iter().chain(brotli()).chain(gzip()).collect()] {
            let mut chain = Chain::new();
            filters.into_iter().for_each(|filter| chain.push_boxed(filter));
            let (mut sent, mut got, mut space) = (Vec::new(), Vec::new(), vec![0; room]);
            let mut run = |chain: &mut Chain, mut input: &[u8], is_last: bool| {
                loop {
                    let step = chain.step(input, is_last, &mut space).expect("sound");
                    input = &input[step.consumed..];
                    got.extend_from_slice(&space[..step.produced]);
                    if step.state != FilterState::More {
                        break got.clone();
                    }
                }
            };
            for piece in &pieces {
                sent.extend_from_slice(piece);
                run(&mut chain, piece, false);
                chain.flush();
                prop_assert_eq!(&run(&mut chain, &[], false), &sent);
            }
            prop_assert_eq!(&run(&mut chain, &[], true), &sent);
        }
    }

    #[test]
    fn a_body_goes_from_coding_to_coding(body in bodies()) {
        let gzip = through(one(Gzip::new(GzipParams::default())), &body, 4000, 999).unwrap().0;
        for packed in BOTH {
            let mut chain = one(Gunzip::fetch());
            chain.push(Pack::new(packed, PackParams::default()));
            let coded = through(chain, &gzip, 100, 333).unwrap().0;
            let mut chain = one(Unpack::new(packed));
            chain.push(Gzip::new(GzipParams::default()));
            let again = through(chain, &coded, 100, 333).unwrap().0;
            prop_assert_eq!(through(one(Gunzip::deliver()), &again, 50, 5000).unwrap().0, body.clone());
        }
    }

    #[test]
    fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..600), frame: bool, cut in 1usize..100, room in 1usize..5000) {
        let mut zstd = if frame { vec![0x28, 0xb5, 0x2f, 0xfd] } else { Vec::new() };
        zstd.extend_from_slice(&bytes);
        for (packed, bytes) in [(Packed::Brotli, &bytes), (Packed::Zstd, &zstd)] {
            let made = unpack(packed, bytes, cut, room).map_err(|_| ());
            let checked = through(one(Check::new(packed)), bytes, cut, room).map_err(|_| ());
            prop_assert_eq!(made.map(|plain| Some(plain.len() as u64)), checked.map(|(_, chain)| chain.plain_bytes()));
        }
    }

    #[test]
    fn a_damaged_body_is_an_error_or_another_one(body in bodies(), at: prop::sample::Index, to: u8, cut: prop::sample::Index) {
        for packed in BOTH {
            let mut coded = pack(packed, &body, PackParams::default());
            let len = coded.len();
            let short = &coded[..cut.index(len)];
            prop_assert!(unpack(packed, short, 100, 1000).is_err(), "cut short");
            coded[at.index(len)] = to;
            let _ = unpack(packed, &coded, 100, 1000);
            let mut junk = pack(packed, &body, PackParams::default());
            junk.push(to);
            prop_assert!(unpack(packed, &junk, 100, 1000).is_err(), "junk behind it");
        }
    }
}

#[test]
fn the_hardest_packs_and_is_smaller() {
    let text: Vec<u8> =
        (0..4000u32).flat_map(|n| format!("line {} of {}\n", n * 7919 % 1000, n / 3).into_bytes()).collect();
    for packed in BOTH {
        let (usual, hard) = (pack(packed, &text, PackParams::default()), pack(packed, &text, PackParams::HARD));
        assert!(hard.len() < usual.len() && usual.len() < text.len() / 3, "{packed:?} {} {}", hard.len(), usual.len());
        assert_eq!(unpack(packed, &hard, 1000, 1000).unwrap(), text);
    }
}

#[test]
fn several_frames_are_one_body() {
    let body =
        [pack(Packed::Zstd, b"one and ", PackParams::default()), pack(Packed::Zstd, b"two", PackParams::default())];
    assert_eq!(unpack(Packed::Zstd, &body.concat(), 3, 2).unwrap(), b"one and two");
}

#[test]
fn nothing_at_all_is_no_body() {
    for packed in BOTH {
        assert_eq!(unpack(packed, b"", 1, 100).unwrap_err(), FilterError::CodingTruncated(packed.coding()));
        assert!(!pack(packed, b"", PackParams::default()).is_empty());
    }
}

#[test]
fn windows_that_no_client_takes_are_refused() {
    use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};
    let (mut frame, mut out) = (CCtx::create(), vec![0u8; 1 << 16]);
    frame.set_parameter(CParameter::WindowLog(27)).unwrap();
    let made = {
        let mut to = OutBuffer::around(&mut out[..]);
        frame.compress_stream2(&mut to, &mut InBuffer::around(b"some bytes"), ZSTD_EndDirective::ZSTD_e_flush).unwrap();
        to.pos()
    };
    let error = unpack(Packed::Zstd, &out[..made], 1000, 1000).unwrap_err();
    assert!(error.to_string().starts_with("Invalid zstd data: "), "{error}");
    // Large Window Brotli, of 25 bits.
    let error = unpack(Packed::Brotli, &[0x11, 0x19, 0x00, 0x00, 0x03], 1000, 1000).unwrap_err();
    assert_eq!(error, FilterError::InvalidCoding(Coding::Brotli, "corrupt data"));
}

/// A few kilobytes that unpack to a gigabyte: many bounded steps, and no more memory than for any body.
#[test]
fn a_bomb_is_many_steps() {
    for packed in BOTH {
        let mut pack = Pack::new(packed, PackParams { zstd_level: 3, ..PackParams::default() });
        let (zeros, mut coded, mut room) = (vec![0; SLICE], Vec::new(), vec![0; SLICE]);
        let pieces = (64 << 20) / SLICE;
        for piece in 0..=pieces {
            let (mut rest, is_last) = (if piece == pieces { &[][..] } else { &zeros[..] }, piece == pieces);
            loop {
                let step = pack.step(rest, is_last, &mut room).unwrap();
                coded.extend_from_slice(&room[..step.produced]);
                rest = &rest[step.consumed..];
                if step.state == FilterState::Hungry || step.state == FilterState::End {
                    break;
                }
            }
        }
        assert!(coded.len() < 64 << 10, "{packed:?} {}", coded.len());
        let (mut unpack, mut made, mut steps, mut rest) = (Unpack::new(packed), 0u64, 0u64, &coded[..]);
        let held = crate::memory_held();
        loop {
            let step = unpack.step(rest, true, &mut room).unwrap();
            (made, steps, rest) = (made + step.produced as u64, steps + 1, &rest[step.consumed..]);
            if step.state == FilterState::End {
                break;
            }
        }
        assert_eq!(made, 64 << 20);
        assert!(steps >= made / SLICE as u64, "{packed:?}: {steps}");
        assert!(crate::memory_held() < held + (24 << 20), "{packed:?}: others hold something in this process, too");
    }
}
