// SPDX-License-Identifier: BSD-2-Clause
//! Character classes of RFC 9110 5.6, and blanks.

pub(crate) const fn alphanumeric_and(others: &[u8]) -> [bool; 256] {
    let (mut table, mut c, mut i) = ([false; 256], 0, 0);
    while c < 256 {
        table[c] = (c as u8).is_ascii_alphanumeric();
        c += 1;
    }
    while i < others.len() {
        table[others[i] as usize] = true;
        i += 1;
    }
    table
}

static TOKEN: [bool; 256] = alphanumeric_and(b"!#$%&'*+-.^_`|~");

/// True if `c` may be in a token (RFC 9110 5.6.2).
#[inline]
pub fn is_tchar(c: u8) -> bool {
    TOKEN[usize::from(c)]
}

/// True if `text` is a token: not empty, token characters only.
#[inline]
pub fn is_token(text: &[u8]) -> bool {
    // Without an early exit: nearly all that is asked about are tokens.
    !text.is_empty() && text.iter().fold(true, |good, &c| good & is_tchar(c))
}

/// True if `c` is a blank: SP or HTAB (OWS of RFC 9110 5.6.3).
#[inline]
pub fn is_blank(c: u8) -> bool {
    c == b' ' || c == b'\t'
}

/// True if `c` may be in a field value: HTAB, SP, visible ASCII, and bytes from 0x80.
#[inline]
pub fn is_value_char(c: u8) -> bool {
    (c >= 0x20 && c != 0x7f) || c == b'\t'
}

/// True if all of `text` may be in a field value. Eight bytes at a time and without an early exit: most values are
/// short, and nearly all are good.
#[inline]
pub fn is_value(text: &[u8]) -> bool {
    /// Not 0 where there is a control character among eight; of HTAB it says so, too.
    fn controls(eight: u64) -> u64 {
        let below_sp = eight.wrapping_sub(each(b' ')) & !eight;
        let not_del = eight ^ each(0x7f);
        let is_del = not_del.wrapping_sub(each(1)) & !not_del;
        (below_sp | is_del) & each(0x80)
    }
    let (words, _) = text.as_chunks::<8>();
    let found = words.iter().fold(controls(last_word(text)), |found, word| found | controls(u64::from_ne_bytes(*word)));
    found == 0 || text.iter().all(|&c| is_value_char(c))
}

/// True if `name` is `known` but for the case of its letters. `name` has characters that a field value may have; `known` has letters,
/// digits, "-" and ":".
#[inline]
pub fn is_name(name: &[u8], known: &[u8]) -> bool {
    /// Differences of eight characters: these may differ in the bit that makes capitals, which no field value has of other characters.
    fn difference(name: u64, known: u64) -> u64 {
        (name ^ known) & !each(0x20)
    }
    if name.len() != known.len() {
        return false;
    }
    let ((names, _), (knowns, _)) = (name.as_chunks::<8>(), known.as_chunks::<8>());
    let pairs = names.iter().zip(knowns).map(|(a, b)| difference(u64::from_ne_bytes(*a), u64::from_ne_bytes(*b)));
    pairs.fold(difference(last_word(name), last_word(known)), |found, more| found | more) == 0
}

/// A byte eight times.
const fn each(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The last eight bytes of `text`; less are filled up with SP, or come twice.
#[inline]
fn last_word(text: &[u8]) -> u64 {
    text.last_chunk::<8>().map_or_else(|| short_word(text), |last| u64::from_ne_bytes(*last))
}

/// Less than eight bytes, as a word.
#[inline]
fn short_word(text: &[u8]) -> u64 {
    if let (Some(first), Some(last)) = (text.first_chunk::<4>(), text.last_chunk::<4>()) {
        return u64::from(u32::from_ne_bytes(*first)) << 32 | u64::from(u32::from_ne_bytes(*last));
    }
    text.iter().fold(each(b' '), |word, &c| word << 8 | u64::from(c))
}

/// `text` without the blanks at its start.
#[inline]
pub fn trim_start(mut text: &[u8]) -> &[u8] {
    while let [c, rest @ ..] = text
        && is_blank(*c)
    {
        text = rest;
    }
    text
}

/// `text` without the blanks at its end.
#[inline]
pub fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., c] = text
        && is_blank(*c)
    {
        text = rest;
    }
    text
}

/// `text` without the blanks around it.
#[inline]
pub fn trim(text: &[u8]) -> &[u8] {
    trim_end(trim_start(text))
}

/// Reads decimal digits at the start of `text`: the number and what follows. `None` without a digit; saturates.
pub fn leading_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    if digits == 0 {
        return None;
    }
    let number = text[..digits].iter().fold(0u64, |n, c| n.saturating_mul(10).saturating_add(u64::from(c - b'0')));
    Some((number, &text[digits..]))
}

/// `text` as a number: decimal digits only and no overflow.
pub fn exact_number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, c| {
        if !c.is_ascii_digit() {
            return None;
        }
        n.checked_mul(10)?.checked_add(u64::from(c - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_byte_at_every_place() {
        for len in 0..20 {
            assert!(is_value(&vec![b'x'; len]) && is_name(&vec![b'X'; len], &vec![b'x'; len]));
            for (place, c) in (0..len).flat_map(|place| (0..=255).map(move |c| (place, c))) {
                let mut text = vec![b'x'; len];
                text[place] = c;
                assert_eq!(is_value(&text), is_value_char(c), "{text:?}");
                let is_same = c == b'x' || c == b'X';
                assert!(!is_value_char(c) || is_name(&text, &vec![b'x'; len]) == is_same, "{text:?}");
            }
        }
        assert!(
            !is_name(b"age", b"agent") && !is_name(b"agent", b"age") && is_name(b"Accept-Ranges", b"accept-ranges")
        );
    }

    proptest! {
        #[test]
        fn values(text: Vec<u8>) {
            prop_assert_eq!(is_value(&text), text.iter().all(|&c| is_value_char(c)));
        }

        #[test]
        fn names(name in "[!#$%&'*+.^_`|~0-9A-Za-z-]{1,20}", other in "[a-z0-9:-]{1,20}") {
            let lower = name.to_ascii_lowercase();
            prop_assert!(is_name(name.as_bytes(), lower.as_bytes()));
            prop_assert_eq!(is_name(name.as_bytes(), other.as_bytes()), lower == other);
        }

        #[test]
        fn values_as_names(known in "[A-Za-z0-9:-]{1,20}", place: usize, c in "[\t -~]") {
            let mut name = known.clone();
            let place = place % known.len();
            name.replace_range(place..=place, &c);
            prop_assert_eq!(is_name(name.as_bytes(), known.as_bytes()), name.eq_ignore_ascii_case(&known), "{:?}", name);
        }
    }
}
