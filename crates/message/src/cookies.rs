// SPDX-License-Identifier: BSD-2-Clause
//! The cookies in a Cookie field (RFC 6265 4.2.1): pairs between `;`, a name and maybe `=` and a value.

use crate::name_list;

/// The field's value with only the cookies that these lists let stay ([`name_list::stays`]), in their order, with `; ` between them;
/// empty when none does, `None` when all of them do.
pub fn filtered(value: &[u8], keep: &str, drop: &str) -> Option<Vec<u8>> {
    let stays = |pair: &&[u8]| {
        let name = pair.split(|b| *b == b'=').next().unwrap_or_default().trim_ascii();
        pair.is_empty() || name_list::stays(keep, drop, name)
    };
    let pairs = value.split(|b| *b == b';').map(<[u8]>::trim_ascii);
    if pairs.clone().all(|pair| stays(&pair)) {
        return None;
    }
    let mut out = Vec::with_capacity(value.len());
    for pair in pairs.filter(|pair| !pair.is_empty() && stays(pair)) {
        if !out.is_empty() {
            out.extend_from_slice(b"; ");
        }
        out.extend_from_slice(pair);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, keep: &str, drop: &str, expected: Option<&str>) {
        let got = filtered(value.as_bytes(), keep, drop).map(|value| String::from_utf8(value).unwrap());
        assert_eq!(got.as_deref(), expected, "{value} {keep} {drop}");
    }

    #[test]
    fn cookies_are_dropped_and_the_others_stay_as_they_were() {
        check("_ga=GA1.2; sid=42; _gid=x", "", "_ga _gid", Some("sid=42"));
        check("a=1;b=2;  c=3", "", "b", Some("a=1; c=3"));
        check("sid=a=b==; x", "", "x", Some("sid=a=b=="));
        check("_ga=1; _gid=2", "", "_g*", Some(""));
        check("sid=42", "", "_g*", None);
        check("", "", "*", None);
        check(" ; ", "", "*", None);
        check("a=1; b=2", "b", "", Some("b=2"));
        check("a=1", "b", "", Some(""));
        check("b=1", "b", "", None);
        check("B=1", "b", "", Some(""));
    }
}
