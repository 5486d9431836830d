// SPDX-License-Identifier: BSD-2-Clause
//! Compression of a whole body against a dictionary: `dcz` (RFC 9842 5).
//!
//! The dictionary is raw bytes, whatever it begins with. Decoders lose it behind the first window of the body.

use message::Coding;
use message::dictionary::{DCZ_MAGIC, DictionaryHash};
use zstd_safe::{CCtx, CParameter, InBuffer, OutBuffer, zstd_sys::ZSTD_EndDirective};

use super::PackParams;
use super::memory::Held;
use crate::FilterError;

/// Clients take windows of this many bytes, or of 5/4 of the dictionary.
const WINDOW: u64 = 8 << 20;
const LARGEST_WINDOW: u64 = 128 << 20;
const ROOM: usize = 16 << 10;

#[derive(Clone, Copy)]
pub struct RawDictionary<'d> {
    pub hash: &'d DictionaryHash,
    pub bytes: &'d [u8],
}

/// Compresses `plain` in `dcz` and gives `write` the pieces of the result, the first of which names the dictionary.
///
/// # Errors
/// The errors of `write`; [`FilterError::PackFailed`] if the encoder fails.
pub fn pack_against<E: From<FilterError>>(
    dictionary: RawDictionary<'_>,
    plain: &[u8],
    params: PackParams,
    mut write: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    write(&[&DCZ_MAGIC[..], dictionary.hash].concat())?;
    let failed = |_| FilterError::PackFailed(Coding::Zstd);
    let mut state = CCtx::try_create().ok_or(FilterError::PackFailed(Coding::Zstd))?;
    let parameters = [
        CParameter::CompressionLevel(i32::from(params.zstd_level.clamp(1, 19))),
        CParameter::WindowLog(window(dictionary.bytes.len() as u64, plain.len() as u64)),
        CParameter::ChecksumFlag(false),
        // Versions differ in a few places: the rest is one long match, whose begin the short tables of low levels miss.
        CParameter::EnableLongDistanceMatching(true),
    ];
    parameters.into_iter().try_for_each(|parameter| state.set_parameter(parameter).map(drop)).map_err(failed)?;
    state.set_pledged_src_size(Some(plain.len() as u64)).map_err(failed)?;
    state.ref_prefix(dictionary.bytes).map_err(failed)?;
    let mut held = Held::default();
    let mut from = InBuffer::around(plain);
    let mut room = vec![0; ROOM];
    loop {
        let mut to = OutBuffer::around(&mut room[..]);
        let left = state.compress_stream2(&mut to, &mut from, ZSTD_EndDirective::ZSTD_e_end).map_err(failed)?;
        held.set_anyway(state.sizeof() as u64);
        let produced = to.pos();
        write(&room[..produced])?;
        if left == 0 {
            return Ok(());
        }
    }
}

/// Bits of a window that holds the body, if clients take such a large one.
fn window(dictionary: u64, plain: u64) -> u32 {
    let largest = WINDOW.max(dictionary + dictionary / 4).min(LARGEST_WINDOW).ilog2();
    bits(plain).clamp(PackParams::LEAST_WINDOW, largest)
}

fn bits(bytes: u64) -> u32 {
    u64::BITS - bytes.saturating_sub(1).leading_zeros()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zstd_safe::{DCtx, DParameter};

    use super::*;

    const HASH: DictionaryHash = [7; 32];
    const MAGIC: &[u8] = &[0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

    fn packed(dictionary: &[u8], plain: &[u8], params: PackParams) -> Vec<u8> {
        let mut out = Vec::new();
        let dictionary = RawDictionary { hash: &HASH, bytes: dictionary };
        let done = pack_against(dictionary, plain, params, |piece| {
            out.extend_from_slice(piece);
            Ok::<_, FilterError>(())
        });
        done.unwrap();
        out
    }

    /// Decodes with no larger a window than clients take. The header is a frame that decoders skip.
    fn unpacked(dictionary: &[u8], packed: &[u8]) -> Vec<u8> {
        let rest = packed.strip_prefix(MAGIC).unwrap().strip_prefix(&HASH).unwrap();
        let mut state = DCtx::create();
        let largest = WINDOW.max(dictionary.len() as u64 * 5 / 4).ilog2();
        state.set_parameter(DParameter::WindowLogMax(largest)).unwrap();
        state.ref_prefix(dictionary).unwrap();
        let (mut from, mut plain, mut room) = (InBuffer::around(rest), Vec::new(), vec![0; 1 << 16]);
        loop {
            let mut to = OutBuffer::around(&mut room[..]);
            let left = state.decompress_stream(&mut to, &mut from).unwrap();
            let produced = to.pos();
            plain.extend_from_slice(&room[..produced]);
            if left == 0 {
                assert_eq!(from.pos(), rest.len());
                return plain;
            }
            assert!(produced > 0 || from.pos() < rest.len(), "it ends early");
        }
    }

    fn text(seed: u64, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 16);
        let mut state = seed | 1;
        while out.len() < len {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            out.extend_from_slice(format!("w{} ", state >> 48).as_bytes());
        }
        out.truncate(len);
        out
    }

    fn changed(text: &[u8], run: usize) -> Vec<u8> {
        let mut out = text.to_vec();
        for chunk in out.chunks_mut(run * 100) {
            chunk.iter_mut().take(run).for_each(|byte| *byte = byte.wrapping_add(1));
        }
        out
    }

    #[test]
    fn a_new_version_is_its_changes() {
        for len in [300_000, 5 << 20] {
            let old = text(1, len);
            let new = changed(&old, 100);
            let made = packed(&old, &new, PackParams::default());
            assert!(made.len() * 100 <= new.len() * 3, "{} of {} bytes", made.len(), new.len());
            assert_eq!(unpacked(&old, &made), new);
        }
    }

    #[test]
    fn dictionaries_that_look_like_something_else_are_raw() {
        let formatted = [&[0x37, 0xa4, 0x30, 0xec][..], &text(2, 5000)].concat();
        for dictionary in [&formatted[..], MAGIC, b"x", b""] {
            let plain = [dictionary, &text(4, 100), dictionary].concat();
            assert_eq!(unpacked(dictionary, &packed(dictionary, &plain, PackParams::default())), plain);
        }
    }

    #[test]
    fn windows_are_those_that_clients_take() {
        assert_eq!(window(0, 1000), 16);
        assert_eq!(window(300_000, 300_000), 19);
        assert_eq!(window(1 << 20, 64 << 20), 23);
        assert_eq!(window(15 << 20, 64 << 20), 24);
        assert_eq!(window(1 << 30, 1 << 30), 27);
        let (dictionary, plain) = (text(6, 1 << 20), text(7, 9 << 20));
        let plain = [&dictionary[..], &plain, &dictionary].concat();
        assert_eq!(unpacked(&dictionary, &packed(&dictionary, &plain, PackParams::default())), plain);
    }

    #[test]
    fn what_the_writer_refuses_ends_it() {
        let dictionary = RawDictionary { hash: &HASH, bytes: b"dictionary" };
        let mut left = 2;
        let done = pack_against(dictionary, &text(1, 1 << 20), PackParams::default(), |_| {
            left -= 1;
            if left == 0 { Err(FilterError::RangeShort) } else { Ok(()) }
        });
        assert_eq!((done, left), (Err(FilterError::RangeShort), 0));
    }

    proptest! {
        #[test]
        fn no_byte_differs(
            dictionary in proptest::collection::vec(0u8..4, 0..3000),
            plain in proptest::collection::vec(0u8..4, 0..3000),
            copied in 0usize..3000,
            level in 1u8..=19,
        ) {
            let params = PackParams { zstd_level: level, ..PackParams::default() };
            let plain = [&dictionary[copied.min(dictionary.len())..], &plain[..], &dictionary[..]].concat();
            prop_assert_eq!(unpacked(&dictionary, &packed(&dictionary, &plain, params)), plain);
        }
    }
}
