// SPDX-License-Identifier: BSD-2-Clause
//! Comma-separated lists of tokens (RFC 9110 5.6.1), read as varnishd reads them: empty members are skipped, quotes don't
//! hide a comma, an unquoted token compares without case.

use crate::chars::{is_blank, is_tchar, trim};

/// The members of a list, trimmed, empty ones left out.
pub fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&c| c == b',').map(trim).filter(|m| !m.is_empty())
}

/// The members of `text` between `separator`s, trimmed, empty ones left out.
pub fn split(text: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    text.split(move |&c| c == separator).map(trim).filter(|m| !m.is_empty())
}

/// True if the whole value is `token`, in any case.
pub fn is(value: &[u8], token: &[u8]) -> bool {
    value.eq_ignore_ascii_case(token)
}

/// Finds a member of the list that is or begins with `token`; returns the rest of the member (parameters or `=value`),
/// trimmed at its start.
pub fn find<'a>(value: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    members(value).find_map(|member| after_token(member, token))
}

/// True if a member of the list is or begins with `token`.
pub fn has(value: &[u8], token: &[u8]) -> bool {
    find(value, token).is_some()
}

fn after_token<'a>(member: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    let quoted = member.strip_prefix(b"\"").and_then(|m| m.strip_prefix(token)).and_then(|m| m.strip_prefix(b"\""));
    let rest = match quoted {
        Some(rest) => rest,
        None => {
            let (head, rest) = member.split_at_checked(token.len())?;
            if !head.eq_ignore_ascii_case(token) || rest.first().is_some_and(|&c| is_tchar(c)) {
                return None;
            }
            rest
        }
    };
    let blanks = rest.iter().take_while(|&&c| is_blank(c)).count();
    Some(&rest[blanks..])
}

/// The argument of `token=argument` in a list: `None` when the token is absent or stands alone. The argument runs to the
/// end of its member.
pub fn argument<'a>(value: &'a [u8], token: &[u8]) -> Option<&'a [u8]> {
    find(value, token)?.strip_prefix(b"=").map(trim)
}

/// The quality of `token` in a list with `;q=` weights (RFC 9110 12.4.2) as varnishd reads them: 0 when absent, 1 without
/// a weight.
pub fn quality(value: &[u8], token: &[u8]) -> f64 {
    let Some(parameters) = find(value, token) else { return 0.0 };
    for parameter in split(parameters, b';') {
        let Some(rest) = parameter.strip_prefix(b"q") else { continue };
        let Some(weight) = trim(rest).strip_prefix(b"=") else { continue };
        return weight_of(trim(weight));
    }
    1.0
}

fn weight_of(text: &[u8]) -> f64 {
    let (mut weight, mut scale, mut after_point) = (0.0, 0.1, false);
    for &c in text {
        match c {
            b'0'..=b'9' if after_point => {
                weight += scale * f64::from(c - b'0');
                scale *= 0.1;
            }
            b'0'..=b'9' => weight = weight * 10.0 + f64::from(c - b'0'),
            b'.' if !after_point => after_point = true,
            _ => break,
        }
    }
    weight
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_found_whole_and_in_any_case() {
        assert!(has(b"a, Gzip;q=1", b"gzip"));
        assert!(!has(b"x-gzip", b"gzip"));
        assert!(!has(b"gzipped", b"gzip"));
        assert!(has(b"\"gzip\"", b"gzip"));
    }

    #[test]
    fn arguments_and_weights() {
        assert_eq!(argument(b"private, max-age = 10", b"max-age"), Some(&b"10"[..]));
        assert_eq!(argument(b"max-age", b"max-age"), None);
        assert_eq!(quality(b"gzip", b"gzip"), 1.0);
        assert_eq!(quality(b"gzip;q=0", b"gzip"), 0.0);
        assert_eq!(quality(b"gzip ; q = 0.25", b"gzip"), 0.25);
        assert_eq!(quality(b"br", b"gzip"), 0.0);
    }
}
