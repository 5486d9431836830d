// SPDX-License-Identifier: BSD-2-Clause
//! Runs of header lines that responses have again and again, with what they are as HPACK. Our encoder uses no dynamic table, so that a run
//! is the same on every connection; it is found by its bytes alone, whatever object or VCL it comes from.

use message::chars::is_name;
use message::{Field, Head};

use super::out;
use crate::hpack;

/// Runs that are known: at most 128 KB of text, and as much of HPACK.
const SLOTS: usize = 128;
const MOST_BYTES: usize = 1024;

/// A run stays until another one of its slot was seen twice: what is sent once replaces nothing.
#[derive(Debug, Default)]
struct Slot {
    seen: u64,
    known: Option<KnownRun>,
}

#[derive(Debug)]
struct KnownRun {
    text: Box<[u8]>,
    block: Box<[u8]>,
}

/// Takes memory only once it is used.
#[derive(Debug, Default)]
pub struct PreparedRuns(Vec<Slot>);

impl PreparedRuns {
    /// Appends the field section of a response.
    pub fn write_response(&mut self, head: &Head, block: &mut Vec<u8>) {
        hpack::status(block, head.status_text());
        for (text, fields) in head.runs(is_apart) {
            let encode =
                |out: &mut Vec<u8>| out::fields(fields, false, &mut |name, value| hpack::field(out, name, value));
            match text.filter(|text| text.len() <= MOST_BYTES) {
                Some(text) => self.write(text, block, encode),
                None => encode(block),
            }
        }
    }

    fn write(&mut self, text: &[u8], block: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
        if self.0.is_empty() {
            self.0.resize_with(SLOTS, Slot::default);
        }
        let hash = hash(text);
        let slot = &mut self.0[(hash >> (u64::BITS - SLOTS.ilog2())) as usize];
        if let Some(known) = slot.known.as_ref().filter(|known| *known.text == *text) {
            return block.extend_from_slice(&known.block);
        }
        let at = block.len();
        encode(block);
        if std::mem::replace(&mut slot.seen, hash) == hash {
            slot.known = Some(KnownRun { text: text.into(), block: block[at..].into() });
        }
    }
}

/// Lines that differ from one response to the next, or are of one client alone.
fn is_apart(field: &Field<'_>) -> bool {
    let name = field.name();
    field.is_nominated()
        || match name.len() {
            3 => is_name(name, b"age"),
            9 => is_name(name, b"x-varnish"),
            10 => is_name(name, b"set-cookie"),
            _ => false,
        }
}

fn hash(text: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let (words, rest) = text.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let mix = |hash: u64, word: [u8; 8]| (hash.rotate_left(23) ^ u64::from_ne_bytes(word)).wrapping_mul(FACTOR);
    mix(words.iter().fold(text.len() as u64, |hash, word| mix(hash, *word)), last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(head: &Head) -> Vec<u8> {
        let mut block = Vec::new();
        out::response_fields(head, &mut |name, value| hpack::field(&mut block, name, value));
        block
    }

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", 200).unwrap();
        fields.iter().for_each(|(name, value)| head.append(name, value).unwrap());
        head
    }

    fn prepared(runs: &mut PreparedRuns, head: &Head) -> Vec<u8> {
        let mut block = Vec::new();
        runs.write_response(head, &mut block);
        block
    }

    fn known(runs: &PreparedRuns) -> Vec<String> {
        let known = runs.0.iter().filter_map(|slot| slot.known.as_ref());
        known.map(|known| String::from_utf8_lossy(&known.text).into_owned()).collect()
    }

    #[test]
    fn a_head_is_the_same_with_and_without_runs_that_are_known() {
        let mut runs = PreparedRuns::default();
        for n in 0..4 {
            let varnish = n.to_string();
            let mut one = head(&[
                ("Content-Type", "text/html"),
                ("Connection", "X-Mine"),
                ("X-Mine", "a"),
                ("ETag", "\"1\""),
                ("X-Varnish", &varnish),
                ("Age", "1"),
                ("Set-Cookie", "id=secret"),
                ("Via", "1.1 a\u{1}b"),
            ]);
            message::hop::connection(&mut one).unwrap();
            assert_eq!(prepared(&mut runs, &one), plain(&one));
            // Before they are seen twice nothing is kept.
            assert_eq!(known(&runs).len(), if n == 0 { 0 } else { 3 });
        }
        assert!(
            !known(&runs)
                .iter()
                .any(|text| text.contains("Varnish") || text.contains("Cookie") || text.contains("Mine: a"))
        );
    }

    #[test]
    fn the_same_lines_may_be_nominated_or_not() {
        let mut runs = PreparedRuns::default();
        for nominates in [true, true, false, false, true] {
            let name = if nominates { "X-Mine" } else { "X-Else" };
            let mut one = head(&[("X-Mine", "a"), ("Connection", name)]);
            message::hop::connection(&mut one).unwrap();
            assert_eq!(prepared(&mut runs, &one), plain(&one));
        }
    }

    #[test]
    fn what_is_sent_once_replaces_nothing_and_memory_is_bounded() {
        let mut runs = PreparedRuns::default();
        let often = head(&[("Content-Type", "text/html")]);
        (0..2).for_each(|_| drop(prepared(&mut runs, &often)));
        for n in 0..10_000 {
            let once = head(&[("ETag", &n.to_string())]);
            assert_eq!(prepared(&mut runs, &once), plain(&once));
        }
        assert_eq!(known(&runs), ["Content-Type: text/html\r\n"]);
        let long = head(&[("X-Long", &"a".repeat(MOST_BYTES))]);
        (0..3).for_each(|_| drop(prepared(&mut runs, &long)));
        assert_eq!(known(&runs).len(), 1);
        for n in 0..1000 {
            let twice = head(&[("ETag", &n.to_string())]);
            (0..2).for_each(|_| assert_eq!(prepared(&mut runs, &twice), plain(&twice)));
        }
        assert!(known(&runs).len() <= SLOTS && runs.0.len() == SLOTS);
    }
}
