// SPDX-License-Identifier: BSD-2-Clause
//! Names of query arguments or cookies, as the parameters `query_keep`, `query_drop`, `cookie_keep` and `cookie_drop` list them: between
//! blanks or commas, exactly as they are written in requests; a `*` at the end of one stands for any rest.

fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split([' ', '\t', ',']).filter(|word| !word.is_empty())
}

/// True if each word of the text can be a name.
pub fn is_valid(text: &str) -> bool {
    listed(text).all(|word| {
        let name = word.strip_suffix('*').unwrap_or(word);
        name.bytes().all(|b| b.is_ascii_graphic() && !b"*=&;?#\"\\".contains(&b))
    })
}

/// True if the text lists that name. Upper and lower case differ, as they do in arguments and cookies.
pub fn has(text: &str, name: &[u8]) -> bool {
    listed(text).any(|word| match word.strip_suffix('*') {
        Some(start) => name.starts_with(start.as_bytes()),
        None => name == word.as_bytes(),
    })
}

/// True if a name stays, by a list of names to keep and one of names to drop: one in neither stays unless only some are
/// kept.
pub fn stays(keep: &str, drop: &str, name: &[u8]) -> bool {
    (keep.is_empty() || has(keep, name)) && !has(drop, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_rest() {
        let list = "utm_*, fbclid gclid";
        let names = ["utm_source", "utm_", "utm", "fbclid", "fbclid2", "GCLID", ""];
        assert_eq!(names.map(|name| has(list, name.as_bytes())), [true, true, false, true, false, false, false]);
        assert!(has("*", b"") && has("*", b"x") && !has("", b"x"));
    }

    #[test]
    fn what_can_be_a_name() {
        let texts = ["", "a b,c", "_ga* a[]", "*", "a*b", "a=b", "a;b", "\u{e4}", "a&b"];
        assert_eq!(texts.map(is_valid), [true, true, true, true, false, false, false, false, false]);
    }

    #[test]
    fn who_is_kept_may_still_be_dropped() {
        let stays = |keep, drop| ["a1", "a2", "b"].map(|name| stays(keep, drop, name.as_bytes()));
        assert_eq!(stays("", ""), [true, true, true]);
        assert_eq!(stays("a*", ""), [true, true, false]);
        assert_eq!(stays("", "a1 b"), [false, true, false]);
        assert_eq!(stays("a*", "a2"), [true, false, false]);
    }
}
