// SPDX-License-Identifier: BSD-2-Clause
//! Character classes of RFC 9110 5.6, and blanks.

/// ASCII letters, digits and `others`.
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

/// Whether `c` may be in a token (RFC 9110 5.6.2).
#[inline]
pub fn is_tchar(c: u8) -> bool {
    TOKEN[usize::from(c)]
}

/// Whether `text` is a token: not empty, token characters only.
#[inline]
pub fn is_token(text: &[u8]) -> bool {
    // Without an early exit: nearly all that is asked about are tokens.
    !text.is_empty() && text.iter().fold(true, |good, &c| good & is_tchar(c))
}

/// Whether `c` is a blank: SP or HTAB (OWS of RFC 9110 5.6.3).
#[inline]
pub fn is_blank(c: u8) -> bool {
    c == b' ' || c == b'\t'
}

/// Whether `c` may be in a field value: HTAB, SP, visible ASCII, and bytes from 0x80.
#[inline]
pub fn is_value_char(c: u8) -> bool {
    (c >= 0x20 && c != 0x7f) || c == b'\t'
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
