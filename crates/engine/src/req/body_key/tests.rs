// SPDX-License-Identifier: BSD-2-Clause
//! Keys over bodies: which requests share one.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};

use super::*;
use crate::req::settings::BodyKey;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Keyed {
    family: u8,
    method: &'static str,
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Keyed {
    fn key(&self) -> Digest {
        self.key_in_pieces(usize::MAX)
    }

    fn key_in_pieces(&self, longest: usize) -> Digest {
        let mut head = Head::new();
        head.start_request(self.method.as_bytes(), b"/", b"HTTP/1.1").unwrap();
        self.fields.iter().for_each(|(name, value)| head.append(name, value.as_bytes()).unwrap());
        let pieces: Vec<Buf> =
            self.body.chunks(longest.min(1 << 20)).map(|piece| Buf::unaccounted(piece.to_vec())).collect();
        key(&Digest([self.family; 32]), &head, &pieces)
    }
}

fn query(content_type: &str, body: &str) -> Keyed {
    let fields = vec![("Content-Type", content_type.to_owned())];
    Keyed { family: 0, method: "QUERY", fields, body: body.as_bytes().to_vec() }
}

struct Draws(u64);

impl Draws {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    // Short texts over few bytes, so that the same bytes often come with other bounds between the parts.
    fn text(&mut self, most: u64) -> String {
        (0..self.below(most + 1)).map(|_| ['a', 'b', '\u{1}'][self.below(3) as usize]).collect()
    }

    fn keyed(&mut self) -> Keyed {
        let mut fields = Vec::new();
        for name in ["Content-Type", "Content-Encoding", "content-language", "Content-Location", "Content-Range"] {
            (0..[1, 0, 1, 2][self.below(4) as usize])
                .for_each(|_| fields.push((name, self.text(2).replace('\u{1}', "c"))));
        }
        let method = ["QUERY", "POST"][self.below(2) as usize];
        Keyed { family: self.below(2) as u8, method, fields, body: self.text(4).into_bytes() }
    }
}

#[test]
fn no_two_of_a_billion_pairs_share_a_key_unless_they_are_equal() {
    const DRAWN: usize = 50_000;
    let mut draws = Draws(1);
    // Each draw is compared with all before it.
    let mut known = HashMap::<Digest, Keyed>::new();
    let mut equal = 0;
    for _ in 0..DRAWN {
        let one = draws.keyed();
        match known.entry(one.key()) {
            Entry::Occupied(other) => {
                assert_eq!(other.get(), &one);
                equal += 1;
            }
            Entry::Vacant(free) => _ = free.insert(one),
        }
    }
    let distinct: HashSet<_> = known.values().collect();
    assert_eq!(distinct.len(), known.len(), "equal requests have one key");
    assert!(equal > 100, "{equal} draws were equal to an earlier one");
}

#[test]
fn the_bounds_between_the_parts_count() {
    let one = query("application/json", "ab");
    let mut others =
        vec![query("application/jsona", "b"), query("application/json", "a"), query("application/json", "")];
    others.push(Keyed { method: "POST", ..one.clone() });
    others.push(Keyed { family: 1, ..one.clone() });
    others.push(Keyed { fields: Vec::new(), ..one.clone() });
    let with = |name, value: &str| {
        let mut other = one.clone();
        other.fields.push((name, value.to_owned()));
        other
    };
    others.push(with("Content-Encoding", "gzip"));
    others.push(with("Content-Language", "gzip"));
    others.push(with("Content-Type", "gzip"));
    others.push(with("Content-Encoding", ""));
    let mut keys: Vec<Digest> = others.iter().chain([&one]).map(Keyed::key).collect();
    keys.sort_unstable_by_key(|digest| digest.0);
    keys.dedup();
    assert_eq!(keys.len(), others.len() + 1);
}

#[test]
fn the_pieces_in_which_a_body_came_do_not_count() {
    let one = query("text/plain", &"0123456789".repeat(1000));
    for longest in [1, 7, 4096, 9999] {
        assert_eq!(one.key_in_pieces(longest), one.key(), "{longest}");
    }
}

#[test]
fn fields_that_do_not_describe_the_body_do_not_count() {
    let one = query("text/plain", "a");
    let mut other = one.clone();
    other.fields.extend([("Content-Length", "1".to_owned()), ("Accept", "*/*".to_owned())]);
    assert_eq!(one.key(), other.key());
}

#[test]
fn a_key_over_a_body_is_none_that_vcl_hash_makes() {
    let mut builder = DigestBuilder::new();
    builder.add(Some(b"/"));
    assert_ne!(Keyed { family: 0, ..query("", "") }.key(), builder.finish());
}

#[test]
fn vcl_decides_for_post_and_against_query() {
    let check = |setting: BodyKey, expected: [bool; 4]| {
        let methods = ["QUERY", "POST", "GET", "PUT"];
        assert_eq!(methods.map(|method| setting.applies_to(method.as_bytes())), expected, "{setting:?}");
    };
    check(BodyKey::OfQuery, [true, false, false, false]);
    check(BodyKey::Always, [true, true, false, false]);
    check(BodyKey::Never, [false; 4]);
}
