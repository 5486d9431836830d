// SPDX-License-Identifier: BSD-2-Clause
//! Which bytes may stand in a name, and what JavaScript calls white space.

/// Replacement of a byte of a name.
const KEEP: u8 = 0;
const SPACE: u8 = 1;
const SLASH: u8 = 2;
const DROP: u8 = 3;

static CLASS: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [DROP; 256];
    let mut b = 0;
    while b < 256 {
        let byte = b as u8;
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b';' | b'=') {
            table[b] = KEEP;
        } else if is_ascii_space(byte) {
            table[b] = SPACE;
        } else if byte == b'/' {
            table[b] = SLASH;
        }
        b += 1;
    }
    table
}

const fn is_ascii_space(b: u8) -> bool {
    matches!(b, 9..=13 | b' ')
}

/// White space as `\s` and `String.trim` have it (ECMA-262 12.2 and 12.3).
fn is_space(c: char) -> bool {
    matches!(c, '\u{9}'..='\u{d}' | ' ' | '\u{a0}' | '\u{feff}' | '\u{1680}')
        || matches!(c, '\u{2000}'..='\u{200a}' | '\u{2028}' | '\u{2029}' | '\u{202f}' | '\u{205f}' | '\u{3000}')
}

pub fn trim(text: &[u8]) -> &[u8] {
    let ends_plainly = |b: Option<&u8>| b.is_none_or(|b| b.is_ascii() && !is_ascii_space(*b));
    if ends_plainly(text.first()) && ends_plainly(text.last()) {
        return text;
    }
    match std::str::from_utf8(text) {
        Ok(text) => text.trim_matches(is_space).as_bytes(),
        // Packets are made valid before they are taken apart; anything else has no white space but ASCII's.
        Err(_) => text.trim_ascii(),
    }
}

pub fn is_clean(name: &[u8]) -> bool {
    name.iter().all(|b| CLASS[usize::from(*b)] == KEEP)
}

/// Appends `name` cleaned as node statsd does: runs of white space become one `_`, `/` becomes `-`, and everything
/// but letters, digits and `_-.;=` goes.
pub fn clean_into(out: &mut Vec<u8>, name: &[u8]) {
    let mut in_space = false;
    let mut rest = name;
    while let Some((&b, after)) = rest.split_first() {
        let (class, width) = if b.is_ascii() { (CLASS[usize::from(b)], 1) } else { wide(rest) };
        match class {
            KEEP => out.push(b),
            SLASH => out.push(b'-'),
            SPACE if !in_space => out.push(b'_'),
            _ => {}
        }
        // What is dropped is dropped later than white space is joined: "a \u{1} b" is "a__b".
        in_space = class == SPACE;
        rest = after.get(width - 1..).unwrap_or_default();
    }
}

fn wide(text: &[u8]) -> (u8, usize) {
    let head = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default(),
    };
    match valid.chars().next() {
        Some(c) => (if is_space(c) { SPACE } else { DROP }, c.len_utf8()),
        None => (DROP, 1),
    }
}

#[cfg(test)]
fn clean(name: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    if is_clean(name) {
        return name.into();
    }
    let mut out = Vec::with_capacity(name.len());
    clean_into(&mut out, name);
    out.into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(name: &str, expected: &str) {
        assert_eq!(String::from_utf8_lossy(&clean(name.as_bytes())), expected, "{name:?}");
    }

    #[test]
    fn names() {
        check("a.b_c-d;e=f", "a.b_c-d;e=f");
        check("a b", "a_b");
        check("a \t\u{a0} b", "a_b");
        check("a \u{1} b", "a__b");
        check("a/b//c", "a-b--c");
        check("é.x", ".x");
        check("a%b&c*d(e)f", "abcdef");
        check("", "");
    }

    #[test]
    fn trimming() {
        assert_eq!(trim("\u{feff} ms\r".as_bytes()), b"ms");
        assert_eq!(trim(b"ms"), b"ms");
        assert_eq!(trim(b" "), b"");
    }

    proptest! {
        #[test]
        fn a_clean_name_stays(name in proptest::collection::vec(any::<u8>(), 0..60)) {
            let once = clean(&name).into_owned();
            prop_assert!(is_clean(&once));
            prop_assert_eq!(clean(&once).into_owned(), once.clone());
        }
    }
}
