// SPDX-License-Identifier: BSD-2-Clause
//! Against zlib: the same verdict and the same bytes for whatever comes.

use proptest::prelude::*;
use zlib_rs::{Deflate, DeflateConfig, DeflateFlush, Inflate, InflateFlush, Method, Status, Strategy as Kind};

use super::*;

fn ours(packed: &[u8], cut: usize, room: usize) -> Result<(Vec<u8>, GzipBits), FilterError> {
    let (mut unzip, mut all, mut out) = (Unzip::new(), Vec::new(), vec![0; room]);
    let (mut at, mut given) = (0, 0);
    while !unzip.is_ended() {
        let did = unzip.run(&packed[at..given], &mut out)?;
        at += did.consumed;
        all.extend_from_slice(&out[..did.produced]);
        if did.consumed == 0 && did.produced == 0 && !unzip.is_ended() {
            assert_eq!(at, given);
            if given == packed.len() {
                return Err(FilterError::GunzipTruncated);
            }
            given = (given + cut).min(packed.len());
        }
    }
    assert_eq!(unzip.total_in() as usize, at);
    if at < packed.len() { Err(FilterError::JunkAfterGzip) } else { Ok((all, unzip.bits())) }
}

fn zlibs(packed: &[u8], most: usize) -> Result<Vec<u8>, FilterError> {
    let (mut inflate, mut out) = (Inflate::new(true, 31), vec![0; most]);
    match inflate.decompress(packed, &mut out, InflateFlush::NoFlush) {
        Ok(Status::StreamEnd) if (inflate.total_in() as usize) < packed.len() => Err(FilterError::JunkAfterGzip),
        Ok(Status::StreamEnd) => {
            out.truncate(inflate.total_out() as usize);
            Ok(out)
        }
        Ok(_) => Err(FilterError::GunzipTruncated),
        Err(_) => Err(FilterError::InvalidGzip(inflate.error_message().unwrap_or(""))),
    }
}

fn pack(body: &[u8], level: i32, strategy: Kind, flushes: bool) -> Vec<u8> {
    let config = DeflateConfig { level, method: Method::Deflated, window_bits: 31, mem_level: 8, strategy };
    let (mut deflate, mut out) = (Deflate::new_with_config(config), vec![0; body.len() * 2 + 1000]);
    let half = body.len() / 2;
    if flushes {
        deflate.compress(&body[..half], &mut out, DeflateFlush::SyncFlush).unwrap();
    }
    let (from, to) = (deflate.total_in() as usize, deflate.total_out() as usize);
    deflate.compress(&body[from..], &mut out[to..], DeflateFlush::Finish).unwrap();
    out.truncate(deflate.total_out() as usize);
    out
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        proptest::collection::vec(97u8..123, 0..2000),
        (any::<u8>(), 0usize..70_000).prop_map(|(byte, n)| vec![byte; n]),
        (0usize..40_000).prop_map(|n| (0..n).map(|i| ((i * i) >> 7) as u8).collect()),
    ];
    proptest::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

fn packed() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let kinds = [Kind::Default, Kind::Filtered, Kind::HuffmanOnly, Kind::Rle, Kind::Fixed];
    let kind = (0..kinds.len()).prop_map(move |i| kinds[i]);
    (body(), 0i32..10, kind, any::<bool>()).prop_map(|(body, level, kind, flushes)| {
        let packed = pack(&body, level, kind, flushes);
        (body, packed)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn what_zlib_packs_unpacks((body, packed) in packed(), cut in 1usize..5000, room in 1usize..20_000) {
        let (cut, room) = (cut.max(packed.len() / 3000), room.max(body.len() / 3000 + 1));
        let (got, bits) = ours(&packed, cut, room).unwrap();
        prop_assert_eq!(got, body);
        prop_assert_eq!(bits.start, 80);
        prop_assert_eq!(bits.stop.div_ceil(8) + 8, packed.len() as u64);
        prop_assert!(bits.last >= 80 && bits.last < bits.stop);
        // The mark of the last block is where we say.
        prop_assert_eq!(packed[(bits.last / 8) as usize] >> (bits.last & 7) & 1, 1);
    }

    #[test]
    fn damage_is_seen_as_zlib_sees_it((body, mut packed) in packed(), at in any::<prop::sample::Index>(), xor in 1u8..=255, cut in 1usize..999) {
        let at = at.index(packed.len());
        packed[at] ^= xor;
        let most = body.len() * 4 + 600_000;
        let (ours, theirs) = (ours(&packed, cut.max(packed.len() / 3000), 20_000).map(|(body, _)| body), zlibs(&packed, most));
        match (&ours, &theirs) {
            // zlib's fast loop may look at a later mistake first; that there is one is what counts.
            (Err(FilterError::InvalidGzip(_)), Err(_)) | (Err(_), Err(FilterError::InvalidGzip(_))) => {}
            // More came out than we gave zlib room for.
            (Err(_), Err(FilterError::GunzipTruncated)) => {}
            _ => prop_assert_eq!(ours, theirs),
        }
    }

    #[test]
    fn bits_at_random_are_no_trouble(bits in proptest::collection::vec(any::<u8>(), 0..2000), cut in 1usize..50) {
        let packed = [&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3][..], &bits].concat();
        prop_assert!(ours(&packed, cut, 1000).is_err() == zlibs(&packed, 1 << 20).is_err());
    }
}

#[test]
fn many_tiny_blocks_take_many_calls() {
    // Empty fixed blocks, ten bits each: 0, 01, 0000000.
    let mut packed = pack(b"", 6, Kind::Default, false)[..10].to_vec();
    let blocks = [0b0000_0010u8, 0b0000_1000, 0b0010_0000, 0b1000_0000, 0];
    packed.extend(blocks.repeat(2000));
    let (mut unzip, mut out, mut at, mut calls) = (Unzip::new(), [0; 100], 0, 0);
    while at < packed.len() {
        at += unzip.run(&packed[at..], &mut out).unwrap().consumed;
        calls += 1;
    }
    assert!(calls >= 2000 * 4 / BLOCKS, "{calls}");
}

#[test]
fn headers() {
    let plain = pack(b"hello", 6, Kind::Default, false);
    let with = |flags: u8, more: &[u8]| {
        let mut head = plain[..10].to_vec();
        head[3] = flags;
        head.extend_from_slice(more);
        if flags & 2 != 0 {
            head.extend_from_slice(&(crc32(0, &head) as u16).to_le_bytes());
        }
        [&head, &plain[10..]].concat()
    };
    for packed in [with(0, b""), with(31, b"\x03\0abcname\0comment\0"), with(4, b"\0\0"), with(2, b""), with(16, b"\0")]
    {
        for cut in [1, 3, 1000] {
            let (got, bits) = ours(&packed, cut, 3).unwrap();
            assert_eq!((&got[..], bits.start), (&b"hello"[..], (packed.len() - plain.len() + 10) as u64 * 8));
        }
    }
    let error = |packed: &[u8]| ours(packed, 1000, 100).unwrap_err().to_string();
    assert_eq!(error(b"nonsense"), "Invalid Gzip data: incorrect header check");
    assert_eq!(error(b"\x1f\x8b\x07"), "Invalid Gzip data: unknown compression method");
    assert_eq!(error(b"\x1f\x8b\x08\xff"), "Invalid Gzip data: unknown header flags set");
    let mut bad = with(2, b"");
    bad[10] ^= 1;
    assert_eq!(error(&bad), "Invalid Gzip data: header crc mismatch");
    let mut bad = plain.clone();
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(error(&bad), "Invalid Gzip data: incorrect length check");
}
