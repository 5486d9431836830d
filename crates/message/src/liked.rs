// SPDX-License-Identifier: BSD-2-Clause
//! What a client says of codings in Accept-Encoding (RFC 9110 12.5.3): weights, the star, `identity`.
//!
//! For servers that make several codings; where gzip is the only one the field is read as varnishd reads it ([`crate::coding`]).

use crate::chars::trim;
use crate::{Coding, Codings, list};

const MAX_MEMBERS: usize = 64;
/// A weight of 1: they have three digits.
const WHOLE: u16 = 1000;
/// Order of codings that a client likes equally: the one that compresses best comes first.
const ORDER: [Coding; 4] = [Coding::Brotli, Coding::Zstd, Coding::Gzip, Coding::Identity];

/// The codings that a client takes of those that are made, what it likes best first. [`Coding::Identity`] is among them
/// only where it is liked better than another one: it is taken in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Liked {
    items: [(Coding, u16); 4],
    len: usize,
}

impl Liked {
    pub(crate) fn only(coding: Coding) -> Self {
        let mut liked = Self::default();
        liked.push(coding, WHOLE);
        liked
    }

    pub(crate) fn read<'a>(lines: impl Iterator<Item = &'a [u8]>, made: Codings) -> Self {
        let (mut weights, mut star) = ([None; Coding::ALL.len()], None);
        for member in lines.flat_map(list::members).take(MAX_MEMBERS) {
            let mut parts = member.split(|&c| c == b';');
            let name = trim(parts.next().unwrap_or_default());
            let Some(weight) = weight(parts) else { continue };
            let is = |token: &str| name.eq_ignore_ascii_case(token.as_bytes());
            let slot = if name == b"*" {
                &mut star
            } else if let Some(coding) = Coding::ALL.into_iter().find(|coding| is(coding.token())) {
                &mut weights[coding as usize]
            } else if is("x-gzip") {
                &mut weights[Coding::Gzip as usize]
            } else {
                continue;
            };
            // What is said first holds.
            slot.get_or_insert(weight);
        }
        let weight = |coding: Coding| weights[coding as usize].or(star).unwrap_or(0);
        let least = ORDER.into_iter().filter(|&coding| made.has(coding)).map(weight).filter(|&w| w > 0).min();
        let plain = weights[Coding::Identity as usize].filter(|&plain| least.is_some_and(|least| plain > least));
        let mut liked = Self::default();
        for coding in ORDER {
            let weight = match coding {
                Coding::Identity => plain.unwrap_or(0),
                Coding::Gzip | Coding::Brotli | Coding::Zstd if made.has(coding) => weight(coding),
                Coding::Gzip | Coding::Brotli | Coding::Zstd => 0,
            };
            if weight > 0 {
                liked.push(coding, weight);
            }
        }
        // Stable: those of one weight stay in our order.
        liked.items[..liked.len].sort_by_key(|(_, its)| WHOLE - its);
        liked
    }

    fn push(&mut self, coding: Coding, weight: u16) {
        self.items[self.len] = (coding, weight);
        self.len += 1;
    }

    /// The codings, best first.
    pub fn codings(&self) -> impl Iterator<Item = Coding> + '_ {
        self.items[..self.len].iter().map(|(coding, _)| *coding)
    }

    /// The field that says the same; `None`: it goes.
    pub fn text(&self) -> Option<EncodingText> {
        if self.len == 0 {
            return None;
        }
        let mut text = EncodingText { bytes: [0; TEXT], len: 0 };
        for (at, (coding, weight)) in self.items[..self.len].iter().enumerate() {
            text.put(if at == 0 { &b""[..] } else { b", " });
            text.put(coding.token().as_bytes());
            if *weight < WHOLE {
                let digit = |scale: u16| b'0' + (weight / scale % 10) as u8;
                let digits = [digit(100), digit(10), digit(1)];
                let used = 3 - digits.iter().rev().take_while(|&&last| last == b'0').count();
                text.put(b";q=0.");
                text.put(&digits[..used]);
            }
        }
        Some(text)
    }
}

/// The longest text: four tokens with weights.
const TEXT: usize = 64;

/// A value of Accept-Encoding.
#[derive(Clone, Copy)]
pub struct EncodingText {
    bytes: [u8; TEXT],
    len: usize,
}

impl EncodingText {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes[self.len..self.len + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }
}

impl std::ops::Deref for EncodingText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl AsRef<[u8]> for EncodingText {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// The weight that parameters have, a thousand at most; `None` for what is none (RFC 9110 12.4.2).
pub(crate) fn weight<'a>(parameters: impl Iterator<Item = &'a [u8]>) -> Option<u16> {
    for parameter in parameters {
        let parameter = trim(parameter);
        let Some(rest) = parameter.strip_prefix(b"q").or_else(|| parameter.strip_prefix(b"Q")) else { continue };
        let value = match trim(rest).strip_prefix(b"=") {
            Some(value) => trim(value),
            None if trim(rest).is_empty() => return None,
            None => continue,
        };
        let (whole, digits) = match value {
            [whole] => (whole, &[][..]),
            [whole, b'.', digits @ ..] => (whole, digits),
            _ => return None,
        };
        if digits.len() > 3 || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let thousandths =
            (0..3).fold(0, |sum, at| sum * 10 + u16::from(digits.get(at).map_or(0, |digit| digit - b'0')));
        return match *whole {
            b'0' => Some(thousandths),
            b'1' if thousandths == 0 => Some(WHOLE),
            _ => None,
        };
    }
    Some(WHOLE)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: Codings = Codings::GZIP.with(Coding::Brotli).with(Coding::Zstd);

    fn text(lines: &[&str], made: Codings) -> String {
        let liked = Liked::read(lines.iter().map(|line| line.as_bytes()), made);
        liked.text().map_or("-".to_owned(), |text| String::from_utf8_lossy(&text).into_owned())
    }

    #[track_caller]
    fn check(field: &str, wanted: &str) {
        assert_eq!(text(&[field], ALL), wanted, "{field}");
        if wanted != "-" {
            assert_eq!(text(&[wanted], ALL), wanted, "what is made of it says the same");
        }
    }

    #[test]
    fn what_is_liked_best_comes_first() {
        check("gzip, deflate, br, zstd", "br, zstd, gzip");
        check("gzip, deflate, br", "br, gzip");
        check("br;q=0.5, gzip", "gzip, br;q=0.5");
        check("br;q=0.1, zstd;q=0.11, x-gzip;q=0.111", "gzip;q=0.111, zstd;q=0.11, br;q=0.1");
        check("GZIP ; Q = 0.8", "gzip;q=0.8");
        check("", "-");
        check("deflate", "-");
    }

    #[test]
    fn nothing_is_taken_with_a_weight_of_0() {
        check("br;q=0, gzip", "gzip");
        check("br;q=0.000, gzip;q=0", "-");
        check("br;q=0, *", "zstd, gzip");
        check("*;q=0, gzip", "gzip");
        check("identity;q=0, *;q=0.5", "br;q=0.5, zstd;q=0.5, gzip;q=0.5");
        check("identity;q=0", "-");
    }

    #[test]
    fn identity_counts_where_it_is_liked_better() {
        check("identity, gzip;q=0.5", "identity, gzip;q=0.5");
        check("identity;q=0.5, gzip", "gzip");
        check("br, identity;q=0.5, gzip;q=0.2", "br, identity;q=0.5, gzip;q=0.2");
        check("identity", "-");
    }

    #[test]
    fn what_is_no_weight_says_nothing() {
        for bad in ["br;q=", "br;q=2", "br;q=1.1", "br;q=0.1234", "br;q=-1", "br;q=.5", "br;q=a", "br;q", "br;q=1.0001"]
        {
            check(&format!("{bad}, gzip"), "gzip");
        }
        check("br;x=1;q=0.5", "br;q=0.5");
        check("br;x=1;qs=0", "br");
    }

    #[test]
    fn lines_are_one_field_and_what_is_said_first_holds() {
        assert_eq!(text(&["gzip", "br;q=0.3, gzip;q=0"], ALL), "gzip, br;q=0.3");
        assert_eq!(text(&["br, gzip, zstd"], Codings::GZIP.with(Coding::Zstd)), "zstd, gzip");
        let many = "x, ".repeat(1000) + "br";
        assert_eq!(text(&[&many], ALL), "-", "only so many are looked at");
    }

    proptest! {
        #[test]
        fn any_field_becomes_one_that_says_the_same(
            field in "((gzip|x-gzip|br|zstd|identity|\\*|[a-z]{1,3})(;q=(0|1|0\\.[0-9]{0,4}|[ -~]{0,3}))?[, ]{1,2}){0,9}",
            mask in 0u8..4,
        ) {
            let mut made = Codings::GZIP;
            if mask & 1 != 0 { made = made.with(Coding::Brotli); }
            if mask & 2 != 0 { made = made.with(Coding::Zstd); }
            let once = text(&[&field], made);
            if once != "-" {
                prop_assert_eq!(text(&[&once], made), once);
            }
        }
    }
}
