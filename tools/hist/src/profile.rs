// SPDX-License-Identifier: BSD-2-Clause
//! What is shown: which word of which record, and the ends of the axis as powers of ten.

use logq::names;
use tables::Tag;
use tables::tags::TagKind;

/// The widest axis, in powers of ten.
const WIDEST: i32 = 60;

#[derive(Clone, PartialEq, Debug)]
pub struct HistProfile {
    /// -b, -c or -E.
    pub side: char,
    tag: Tag,
    prefix: String,
    field: usize,
    /// Lower end of the axis, as a power of ten.
    pub low: i32,
    /// Upper end of the axis, as a power of ten.
    pub high: i32,
}

/// Name, side, tag, prefix, word, ends, text.
type ProfileRow = (&'static str, char, Tag, &'static str, usize, i32, i32, &'static str);

const KNOWN: &[ProfileRow] = &[
    (
        "responsetime",
        'c',
        Tag::Timestamp,
        "Process:",
        3,
        -6,
        3,
        "from a request's first byte until its answer is ready",
    ),
    ("reqbodytime", 'c', Tag::Timestamp, "ReqBody:", 3, -6, 3, "until the request's body was read"),
    ("size", 'c', Tag::ReqAcct, "", 5, 1, 8, "bytes of answers' bodies"),
    ("Bereqtime", 'b', Tag::Timestamp, "Bereq:", 3, -6, 3, "until the request to the backend was sent"),
    ("Beresptime", 'b', Tag::Timestamp, "Beresp:", 3, -6, 3, "until the backend's headers came"),
    ("BerespBodytime", 'b', Tag::Timestamp, "BerespBody:", 3, -6, 3, "until the backend's body came"),
    ("Besize", 'b', Tag::BereqAcct, "", 5, 1, 8, "bytes of the backends' bodies"),
];

pub fn list() -> String {
    KNOWN.iter().map(|known| format!(" {:<25} {}\n", known.0, known.7)).collect()
}

pub fn known() -> Vec<(&'static str, &'static str)> {
    KNOWN.iter().map(|known| (known.0, known.7)).collect()
}

/// A word of a text as a number, from 1.
pub fn word(text: &[u8], number: usize) -> Option<f64> {
    let mut words = text.split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    std::str::from_utf8(words.nth(number.checked_sub(1)?)?).ok()?.parse().ok().filter(|x: &f64| x.is_finite())
}

impl HistProfile {
    pub fn by_name(name: &str) -> Result<HistProfile, String> {
        let known = KNOWN.iter().find(|known| known.0 == name);
        let (_, side, tag, prefix, field, low, high, _) =
            *known.ok_or_else(|| format!("-P: No such profile '{name}'"))?;
        Ok(HistProfile { side, tag, prefix: prefix.to_owned(), field, low, high })
    }

    /// A name or a definition: `[c|b|E:]tag:[prefix]:field[:min:max]`.
    ///
    /// # Errors
    /// It is neither.
    pub fn parse(text: &str) -> Result<HistProfile, String> {
        if !text.contains(':') {
            return HistProfile::by_name(text);
        }
        let bad = || format!("-P: '{text}' is not a valid profile name or definition");
        let mut parts: Vec<&str> = text.split(':').collect();
        let side = match parts[0] {
            side @ ("b" | "c" | "E") => {
                parts.remove(0);
                side.chars().next().unwrap_or('c')
            }
            _ => 'c',
        };
        let name = parts.first().copied().filter(|_| parts.len() > 1).ok_or_else(bad)?;
        let tag = names::tag(name).map_err(|_| format!("-P: '{text}' is not a valid tag name"))?;
        if tag.kind() != TagKind::Plain {
            return Err(format!("-P: '{text}' is an unsafe or binary record"));
        }
        let number = |text: &str| text.parse::<i32>().ok();
        let (prefix, field, low, high) = match parts[1..] {
            [prefix, field] => (prefix, number(field), Some(-6), Some(3)),
            [prefix, field, low, high] => (prefix, number(field), number(low), number(high)),
            _ => return Err(bad()),
        };
        let field = field.and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0).ok_or_else(bad)?;
        match (low, high) {
            (Some(low), Some(high)) if low < high && low >= -WIDEST && high <= WIDEST => {
                Ok(HistProfile { side, tag, prefix: prefix.to_owned(), field, low, high })
            }
            _ => Err(bad()),
        }
    }

    pub fn value(&self, tag: Tag, text: &[u8]) -> Option<f64> {
        if tag != self.tag || !text.starts_with(self.prefix.as_bytes()) {
            return None;
        }
        word(text, self.field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles() {
        let profile = HistProfile::parse("b:Timestamp:Bereq::3").unwrap_err();
        assert!(profile.contains("not a valid profile"), "{profile}");
        let profile = HistProfile::parse("E:Timestamp:Resp:2:-1:4").unwrap();
        assert_eq!((profile.side, profile.low, profile.high), ('E', -1, 4));
        assert_eq!(profile.value(Tag::Timestamp, b"Resp: 10.5 0.25 0"), Some(10.5));
        assert_eq!(profile.value(Tag::Timestamp, b"Beresp: 10.5 0.25 0"), None);
        assert!(
            HistProfile::parse("nope").is_err()
                && HistProfile::parse("nope::1").is_err()
                && HistProfile::parse("x:").is_err()
        );
        assert!(HistProfile::parse("ReqURL::0").is_err() && HistProfile::parse("ReqURL::1:3:3").is_err());
        assert!(HistProfile::parse("Debug::1").is_err());
    }

    /// For each profile, the number and the maximum of the values in a server's log of the same requests.
    fn found(records: &[testkit::recorded::TestRecord]) -> Vec<(&'static str, usize, f64)> {
        let log = testkit::recorded::log(records, |name| Tag::from_name(name).expect("a tag").number());
        let of = |(name, _): (&'static str, _)| {
            let profile = HistProfile::by_name(name).expect("it is known");
            let side = logq::records(&log).filter(|rec| rec.side() == profile.side);
            let values: Vec<f64> = side.filter_map(|rec| profile.value(rec.tag, rec.text())).collect();
            (name, values.len(), values.into_iter().fold(0.0, f64::max))
        };
        known().into_iter().map(of).collect()
    }

    #[test]
    fn known_profiles_find_their_values_in_what_servers_write() {
        let (ours, theirs) = (found(&testkit::recorded::lacquer()), found(&testkit::recorded::varnish()));
        // One request has a body that VCL keeps; one response takes 1.2 s; the longest body is 33 bytes at the origin.
        let want = [
            ("responsetime", 45, 1.2..3.0),
            ("reqbodytime", 1, 0.0..1.0),
            ("size", 44, 33.0..1000.0),
            ("Bereqtime", 40, 0.0..1.0),
            ("Beresptime", 41, 1.2..3.0),
            ("BerespBodytime", 36, 1.2..3.0),
            ("Besize", 40, 33.0..34.0),
        ];
        for all in [&ours, &theirs] {
            for ((name, count, largest), (known, times, within)) in all.iter().zip(&want) {
                assert_eq!((name, count), (known, times), "{all:?}");
                assert!(within.contains(largest), "{name}: {largest}");
            }
            assert_eq!(all.len(), want.len());
        }
    }
}
