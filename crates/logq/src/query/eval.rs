// SPDX-License-Identifier: BSD-2-Clause
//! Testing a group of transactions against a query.

use shm::vsl::LogFormat;

use super::{Expr, Level, Operand, Test};
use crate::group::Txn;
use crate::number;
use crate::record::{Rec, records};

/// True if the group passes. The parser bounds the depth.
pub fn eval(expr: &Expr, group: &[Txn<'_>]) -> bool {
    match expr {
        Expr::Or(members) => members.iter().any(|e| eval(e, group)),
        Expr::And(members) => members.iter().all(|e| eval(e, group)),
        Expr::Not(inner) => !eval(inner, group),
        Expr::Vxid(compare, n) => group.iter().any(|txn| compare.holds(txn.vxid as i64, *n)),
        Expr::Record(comparison) => {
            let (of, test) = comparison.as_ref();
            let passes = |txn: &Txn<'_>| records(txn.records).any(|rec| of.tags.has(rec.tag) && record(of, test, &rec));
            group.iter().any(|txn| level_fits(of.level, txn.level) && passes(txn))
        }
    }
}

fn level_fits(wanted: Option<Level>, level: u32) -> bool {
    let level = i64::from(level);
    match wanted {
        None => true,
        Some(Level::Exactly(n)) => level == n,
        Some(Level::UpTo(n)) => level <= n,
        Some(Level::From(n)) => level >= n,
    }
}

fn is_space(byte: &u8) -> bool {
    byte.is_ascii_whitespace() || *byte == 0x0b
}

fn skip_spaces(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|b| is_space(b)).count()..]
}

fn record(of: &Operand, test: &Test, rec: &Rec<'_>) -> bool {
    // All but the last byte, which is the NUL of text.
    let mut text = &rec.raw[..rec.raw.len().saturating_sub(1)];
    if let Some(prefix) = &of.prefix {
        let Some((first, rest)) = text.split_at_checked(prefix.len()) else { return false };
        if !first.eq_ignore_ascii_case(prefix.as_bytes()) || rest.first() != Some(&b':') {
            return false;
        }
        text = skip_spaces(&rest[1..]);
    }
    if let Some(field) = of.field {
        let end = text.iter().position(|b| *b == 0).unwrap_or(text.len());
        match word(&text[..end], field) {
            Some(word) => text = word,
            None => return false,
        }
    }
    passes(test, text, rec.format)
}

/// The word of this number (from 1) of a text; words may stand in double quotes.
pub fn word(text: &[u8], number: usize) -> Option<&[u8]> {
    let mut rest = text;
    let mut found: &[u8] = &[];
    for i in 0..number {
        if i > 0 && rest.is_empty() {
            return None;
        }
        rest = skip_spaces(rest);
        if let Some(inside) = rest.strip_prefix(b"\"") {
            let end = inside.iter().position(|b| *b == b'"')?;
            found = &inside[..end];
            rest = &inside[end + 1..];
            if i + 1 < number && !rest.first().is_none_or(is_space) {
                return None;
            }
        } else {
            let end = rest.iter().position(is_space).unwrap_or(rest.len());
            (found, rest) = rest.split_at(end);
            if found.is_empty() {
                return None;
            }
        }
    }
    Some(found)
}

/// Tools of 7.1 read a number at the beginning of the text; later ones want nothing else in it, and count all of its digits.
fn passes(test: &Test, text: &[u8], format: LogFormat) -> bool {
    match test {
        Test::Exists => true,
        Test::Int(compare, n) if format.is_wide() => number::whole(text).is_some_and(|value| compare.holds(value, *n)),
        Test::Int(compare, n) => number::number(text).is_some_and(|(value, _)| compare.holds(value as i64, *n)),
        Test::Float(compare, x) if format.is_wide() => {
            std::str::from_utf8(text).ok().and_then(number::strtod).is_some_and(|value| compare.holds(value, x.later))
        }
        Test::Float(compare, x) => number::decimal(text).is_some_and(|value| compare.holds(value, x.seven)),
        Test::Text { equal, text: wanted, caseless } => {
            let same = match caseless {
                true => text.eq_ignore_ascii_case(wanted.as_bytes()),
                false => text == wanted.as_bytes(),
            };
            same == *equal
        }
        // A regex that gives up counts as a match.
        Test::Regex { matches, regex } => regex.is_match(text).unwrap_or(true) == *matches,
    }
}
