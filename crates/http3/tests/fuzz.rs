// SPDX-License-Identifier: BSD-2-Clause
//! Frames of any kind in any order, field sections, and bytes changed in them: what must hold whatever a peer sends, and however it is cut.
//! PROPTEST_CASES makes it longer.

use http2::{huffman, int};
use http3::control::{self, DecoderStream, MAX_FRAME_BYTES, check_encoder};
use http3::qpack::{self, QpackEncoder, QpackScratch};
use http3::stream::{FrameReader, StreamStep};
use http3::{Http3Error, Http3Limits, head, varint};
use message::{Head, HeadLimits};
use proptest::prelude::*;
use proptest::sample::Index;

const SECTION_BYTES: usize = 2000;
const LIMITS: Http3Limits = Http3Limits { section_bytes: SECTION_BYTES, line_bytes: 500 };

fn number(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint::write(value, &mut out);
    out
}

fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&number(kind)[..], &number(payload.len() as u64), payload].concat()
}

/// A string behind `first`, whose length has so many bits.
fn string(first: u8, bits: u32, text: &[u8], is_huffman: bool) -> Vec<u8> {
    let (mut out, mut code) = (Vec::new(), text.to_vec());
    if is_huffman {
        code.clear();
        huffman::encode(text, &mut code);
    }
    int::write(&mut out, first | u8::from(is_huffman) << bits, bits, code.len() as u64);
    out.extend(code);
    out
}

/// A field section: mostly of what there may be.
fn section() -> impl Strategy<Value = Vec<u8>> {
    // GET or POST, https, / of the static table.
    let whole = prop_oneof![3 => Just(vec![0xd1, 0xd7, 0xc1]), 1 => Just(vec![0xd4, 0xd7, 0xc1]), 1 => Just(vec![])];
    let name = "[a-z:]{0,6}|te|cookie|host|:authority|content-length|transfer-encoding";
    let value = prop_oneof![8 => "[ -~]{0,9}|[0-9]{1,6}", 1 => "[\\x00-\\x20]{1,3}", 1 => Just("v".repeat(400))];
    let literal = (name, value, any::<bool>()).prop_map(|(name, value, is_huffman)| {
        [string(0x20, 3, name.as_bytes(), is_huffman), string(0, 7, value.as_bytes(), is_huffman)].concat()
    });
    let named = (0u64..110, "[ -~]{0,9}").prop_map(|(entry, value)| {
        let mut out = Vec::new();
        int::write(&mut out, 0x50, 4, entry);
        [out, string(0, 7, value.as_bytes(), false)].concat()
    });
    let odd = prop_oneof![(0x80u8..=0xff).prop_map(|byte| vec![byte]), prop::collection::vec(any::<u8>(), 0..6)];
    let prefix = prop_oneof![9 => Just([0, 0]), 1 => any::<[u8; 2]>()];
    let field = prop_oneof![8 => literal, 4 => named, 1 => odd];
    (prefix, whole, prop::collection::vec(field, 0..6))
        .prop_map(|(prefix, first, fields)| [&prefix[..], &first, &fields.concat()].concat())
}

/// A frame, whatever stream it belongs to.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let id = prop_oneof![Just(0u64), Just(4), Just(1 << 20), 0..=varint::MAX].prop_map(number);
    let setting = (0u64..10, 0u64..70_000).prop_map(|(id, value)| [number(id), number(value)].concat());
    let bytes = prop::collection::vec(any::<u8>(), 0..40);
    let of_push = prop_oneof![Just(3u64), Just(7), Just(0xd), Just(0xf0701)];
    prop_oneof![
        4 => section().prop_map(|section| frame(1, &section)),
        4 => (0..600usize, any::<u8>()).prop_map(|(len, byte)| frame(0, &vec![byte; len])),
        2 => prop::collection::vec(setting, 0..4).prop_map(|all| frame(4, &all.concat())),
        2 => (of_push, id.clone()).prop_map(|(kind, id)| frame(kind, &id)),
        2 => id.prop_map(|id| frame(0xf0700, &[&id[..], b"u=1, i"].concat())),
        2 => (0u64..20, bytes.clone()).prop_map(|(kind, payload)| frame(0x21 + 0x1f * kind, &payload)),
        1 => (0u64..16, bytes).prop_map(|(kind, payload)| frame(kind, &payload)),
    ]
}

type Change = (Index, u8, u8);

fn changes() -> impl Strategy<Value = Vec<Change>> {
    prop::collection::vec((any::<Index>(), any::<u8>(), 0..3u8), 0..4)
}

fn spoil(bytes: &mut Vec<u8>, changes: &[Change]) {
    for (at, byte, how) in changes {
        if bytes.is_empty() {
            return;
        }
        let at = at.index(bytes.len());
        match how {
            0 => bytes[at] = *byte,
            1 => bytes.insert(at, *byte),
            _ => {
                bytes.remove(at);
            }
        }
    }
}

/// Whatever was taken as a head goes on as lines of HTTP/1 that are as many as its fields.
fn check_head(head: &Head) {
    let mut wire = Vec::new();
    head.write_to(&mut wire);
    for end in *b"\r\n" {
        assert_eq!(wire.iter().filter(|&&byte| byte == end).count(), head.len() + 2, "{head:?}");
    }
    assert!(!wire.contains(&0));
}

fn read_section(section: &[u8], is_first: bool) -> String {
    let (mut scratch, mut fields) =
        (QpackScratch::default(), Head::with_limits(HeadLimits::new(20, SECTION_BYTES as u32)));
    if !is_first {
        let read = head::read_trailers(section, &LIMITS, &mut scratch, &mut fields);
        return format!("{read:?} {fields:?}");
    }
    let read = head::read_request(section, &LIMITS, &mut scratch, &mut fields);
    if read.is_ok() {
        check_head(&fields);
    }
    format!("{read:?} {fields:?}")
}

/// The result of reading a request's stream in pieces: its heads, the whole body, how it ends.
fn read_request(input: &[u8], piece: usize) -> (Vec<String>, Vec<u8>, Result<(), Http3Error>) {
    let mut reader = FrameReader::request(SECTION_BYTES);
    let (mut held, mut heads, mut body) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in input.chunks(piece) {
        held.extend_from_slice(bytes);
        loop {
            let had_head = reader.has_head();
            let done = match reader.step(&held) {
                Ok(StreamStep::Fields(range)) => {
                    assert!(reader.has_head());
                    heads.push(read_section(&held[range.clone()], !had_head));
                    range.end
                }
                Ok(StreamStep::Data(range)) => {
                    assert!(had_head && !reader.is_over() && !range.is_empty());
                    body.extend_from_slice(&held[range.clone()]);
                    range.end
                }
                Ok(StreamStep::More(done)) => {
                    held.drain(..done);
                    assert!(held.len() <= SECTION_BYTES + 16, "{} bytes are held", held.len());
                    break;
                }
                Err(error) => return (heads, body, Err(error)),
            };
            held.drain(..done);
        }
    }
    assert!(heads.len() <= 2);
    (heads, body, reader.end(held.len()))
}

fn read_control(input: &[u8], piece: usize) -> (Vec<control::ControlEvent>, Result<(), Http3Error>) {
    let (mut reader, mut held, mut events) = (control::ControlReader::default(), Vec::new(), Vec::new());
    for bytes in input.chunks(piece) {
        held.extend_from_slice(bytes);
        loop {
            match reader.next(&held) {
                Ok((event, done)) => {
                    held.drain(..done);
                    match event {
                        Some(event) => events.push(event),
                        None => break,
                    }
                }
                Err(error) => return (events, Err(error)),
            }
        }
        assert!(held.len() <= MAX_FRAME_BYTES + 16, "{} bytes are held", held.len());
    }
    (events, Ok(()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_request_is_the_same_however_it_is_cut(
        first in section(),
        frames in prop::collection::vec(any_frame(), 0..12),
        changes in changes(),
        piece in 1..60usize,
    ) {
        let mut bytes = [frame(1, &first), frames.concat()].concat();
        spoil(&mut bytes, &changes);
        prop_assert_eq!(read_request(&bytes, usize::MAX), read_request(&bytes, piece));
    }

    #[test]
    fn a_control_stream_is_the_same_however_it_is_cut(
        frames in prop::collection::vec(any_frame(), 0..20),
        changes in changes(),
        piece in 1..60usize,
    ) {
        let mut bytes = [frame(4, &[]), frames.concat()].concat();
        spoil(&mut bytes, &changes);
        prop_assert_eq!(read_control(&bytes, usize::MAX), read_control(&bytes, piece));
    }

    #[test]
    fn frames_of_control_alone(
        ids in prop::collection::vec((prop_oneof![Just(7u64), Just(0xd), Just(0xf0700), Just(0x21)], 0u64..64), 0..40),
        piece in 1..30usize,
    ) {
        let frames: Vec<u8> = ids.into_iter().flat_map(|(kind, id)| frame(kind, &number(id))).collect();
        let bytes = [frame(4, &[0x06, 0x20]), frames].concat();
        prop_assert_eq!(read_control(&bytes, usize::MAX), read_control(&bytes, piece));
    }

    #[test]
    fn sections_stay_within_their_limit(mut section in section(), changes in changes(), most in 0..600usize) {
        spoil(&mut section, &changes);
        let mut taken = 0;
        let _ = qpack::decode(&section, most, &mut QpackScratch::default(), |name, value| {
            taken += name.len() + value.len() + 32;
            Ok(())
        });
        prop_assert!(taken <= most);
        read_section(&section, true);
        read_section(&section, false);
    }

    #[test]
    fn what_is_packed_is_unpacked(
        fields in prop::collection::vec(("[a-z-]{1,20}|:method|:status|cookie", any::<Vec<u8>>()), 0..12),
    ) {
        let (mut section, mut got) = (Vec::new(), Vec::new());
        let mut encoder = QpackEncoder::begin(&mut section);
        fields.iter().for_each(|(name, value)| encoder.field(name.as_bytes(), value));
        let unpacked = qpack::decode(&section, usize::MAX, &mut QpackScratch::default(), |name, value| {
            got.push((String::from_utf8_lossy(name).into_owned(), value.to_vec()));
            Ok(())
        });
        prop_assert_eq!((unpacked, got), (Ok(()), fields));
    }

    #[test]
    fn instructions_are_the_same_however_they_are_cut(
        bytes in prop::collection::vec(prop_oneof![Just(0x7fu8), Just(0x40), Just(0x20), Just(1), any::<u8>()], 0..40),
        piece in 1..9usize,
    ) {
        let decoder = |piece: usize| {
            let mut stream = DecoderStream::default();
            bytes.chunks(piece).try_for_each(|bytes| stream.check(bytes).map(|_| ()))
        };
        prop_assert_eq!(decoder(usize::MAX), decoder(piece));
        let encoder = |piece: usize| bytes.chunks(piece).try_for_each(|bytes| check_encoder(bytes).map(|_| ()));
        prop_assert_eq!(encoder(usize::MAX), encoder(piece));
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300), piece in 1..40usize) {
        prop_assert_eq!(read_request(&bytes, usize::MAX), read_request(&bytes, piece));
        prop_assert_eq!(read_control(&bytes, usize::MAX), read_control(&bytes, piece));
        read_section(&bytes, true);
    }
}
