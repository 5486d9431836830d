// SPDX-License-Identifier: BSD-2-Clause
//! The form in which a ban outlives its worker: for each test its field, its operator, the kind of its value, and that.
//! Each text has its length before it; the words are little-endian.

use std::sync::OnceLock;

use super::{BanSpec, Field, Oper, Pattern, SpreadPlan, Test, Value};

impl BanSpec {
    pub(in crate::ban) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(plan) = self.spread {
            put(&mut out, SPREAD);
            [plan.over, plan.rate].into_iter().for_each(|part| put(&mut out, &part.to_bits().to_le_bytes()));
        }
        for Test { field, oper, value } in &self.tests {
            put(&mut out, field.to_string().as_bytes());
            put(&mut out, oper.text().as_bytes());
            match value {
                Value::Text(text) | Value::Keys { text, .. } => {
                    out.push(TEXT);
                    put(&mut out, text.as_bytes());
                }
                Value::Pattern(pattern) => {
                    out.push(PATTERN);
                    put(&mut out, pattern.text.as_bytes());
                }
                Value::Seconds(seconds) => {
                    out.push(SECONDS);
                    put(&mut out, &seconds.to_bits().to_le_bytes());
                }
            }
        }
        out
    }

    /// Reads the stored form of a ban; `None` if it is malformed.
    pub(crate) fn decode(mut bytes: &[u8]) -> Option<BanSpec> {
        let mut spec = BanSpec::default();
        let mut tests = bytes;
        if take(&mut tests) == Some(SPREAD) {
            let (over, rate) = (take_seconds(&mut tests)?, take_seconds(&mut tests)?);
            (spec.spread, bytes) = (Some(SpreadPlan::stored(over, rate)?), tests);
        }
        while !bytes.is_empty() {
            let field = Field::parse(take_text(&mut bytes)?)?;
            let oper = Oper::parse(take_text(&mut bytes)?).filter(|&oper| field.takes(oper))?;
            let (kind, rest) = bytes.split_first()?;
            bytes = rest;
            let is_pattern = matches!(oper, Oper::Match | Oper::NoMatch);
            let value = match *kind {
                SECONDS if field.is_duration() => Value::Seconds(take_seconds(&mut bytes)?),
                TEXT if field.is_key() => {
                    let text = take_text(&mut bytes)?.to_owned();
                    let keys = field.keys(&text)?;
                    Value::Keys { text, keys }
                }
                TEXT if !field.is_duration() && !is_pattern => Value::Text(take_text(&mut bytes)?.to_owned()),
                PATTERN if is_pattern => {
                    Value::Pattern(Pattern { text: take_text(&mut bytes)?.to_owned(), regex: OnceLock::new() })
                }
                _ => return None,
            };
            spec.tests.push(Test { field, oper, value });
        }
        Some(spec)
    }
}

/// The word before a spread ban's time and rate. No field has this name.
const SPREAD: &[u8] = b"over";
const TEXT: u8 = 0;
const PATTERN: u8 = 1;
const SECONDS: u8 = 2;

fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk()?;
    let (taken, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *bytes = rest;
    Some(taken)
}

fn take_seconds(bytes: &mut &[u8]) -> Option<f64> {
    Some(f64::from_le_bytes(take(bytes)?.try_into().ok()?))
}

fn take_text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take(bytes)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::request::NoRequest;

    fn check(text: &str) {
        let spec = BanSpec::from_text(text, &NoRequest).unwrap();
        let back = BanSpec::decode(&spec.encode()).unwrap();
        assert_eq!(back.to_string(), spec.to_string());
        assert_eq!(back.encode(), spec.encode());
    }

    #[test]
    fn comes_back_as_it_was() {
        assert_eq!(BanSpec::decode(&[]).unwrap().to_string(), "");
        check("req.url == /a");
        check("obj.status != 200 && obj.http.x == y && req.http.host != z");
        check("over=10m rate=0.3/s obj.tag == a,b && obj.host == x.org && obj.prefix != x.org/y");
        check("over=1.5s obj.status == 200");
        check("obj.tenant == shop && obj.tenant != news.example");
        check("obj.ttl > 0.1234567s && obj.age <= 3y && obj.grace == 0s && obj.keep < 5m");
    }

    #[test]
    fn keeps_seconds_to_the_last_bit() {
        let spec = BanSpec {
            tests: vec![Test { field: Field::ObjTtl, oper: Oper::Gt, value: Value::Seconds(1.0 / 3.0) }],
            spread: None,
        };
        let back = BanSpec::decode(&spec.encode()).unwrap();
        assert!(matches!(back.tests[0].value, Value::Seconds(seconds) if seconds == 1.0 / 3.0));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at in 0usize..80, byte: u8, cut in 0usize..80) {
            let spec = BanSpec::from_text("rate=9/s obj.http.a == b && obj.ttl > 3s && req.url != /x", &NoRequest).unwrap();
            let mut bytes = spec.encode();
            let len = bytes.len();
            bytes[at % len] = byte;
            bytes.truncate(len - cut % len);
            if let Some(spec) = BanSpec::decode(&bytes) {
                prop_assert_eq!(spec.encode(), bytes);
            }
        }

        #[test]
        fn junk_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = BanSpec::decode(&bytes);
        }
    }
}
