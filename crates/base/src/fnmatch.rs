// SPDX-License-Identifier: BSD-2-Clause
//! Shell patterns: fnmatch(3) on bytes in the C locale. Time is at most pattern times subject.

/// The flags of fnmatch(3); none of them by default.
#[derive(Clone, Copy, Debug, Default)]
pub struct MatchFlags {
    /// FNM_PATHNAME: only a slash matches a slash.
    pub pathname: bool,
    /// FNM_NOESCAPE: a backslash is a letter like others.
    pub noescape: bool,
    /// FNM_PERIOD: only a period matches one that begins the subject, or with `pathname` a part of it.
    pub period: bool,
}

pub fn matches(pattern: &[u8], subject: &[u8], flags: MatchFlags) -> bool {
    let (mut p, mut s) = (0, 0);
    // Where the last star stands, and how far it has eaten: one place to go back to is enough.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' && !(flags.period && leading_period(subject, s, flags)) {
            while pattern.get(p) == Some(&b'*') {
                p += 1;
            }
            star = Some((p, s));
            continue;
        }
        if s == subject.len() {
            return p == pattern.len();
        }
        if p < pattern.len()
            && let Some(next) = one(pattern, p, subject, s, flags)
        {
            (p, s) = (next, s + 1);
            continue;
        }
        match star {
            Some((after, eaten)) if !(flags.pathname && subject[eaten] == b'/') => {
                star = Some((after, eaten + 1));
                (p, s) = (after, eaten + 1);
            }
            _ => return false,
        }
    }
}

/// A period that only a period in the pattern matches.
fn leading_period(subject: &[u8], at: usize, flags: MatchFlags) -> bool {
    subject.get(at) == Some(&b'.') && (at == 0 || (flags.pathname && subject[at - 1] == b'/'))
}

/// Matches one byte; the place after the pattern's item.
fn one(pattern: &[u8], p: usize, subject: &[u8], s: usize, flags: MatchFlags) -> Option<usize> {
    let byte = subject[s];
    let special = (flags.pathname && byte == b'/') || (flags.period && leading_period(subject, s, flags));
    match pattern[p] {
        b'?' => (!special).then_some(p + 1),
        b'[' => match bracket(pattern, p, byte, flags) {
            Some((found, next)) => (found && !special).then_some(next),
            None => (byte == b'[').then_some(p + 1),
        },
        b'\\' if !flags.noescape => (pattern.get(p + 1) == Some(&byte)).then_some(p + 2),
        other => (other == byte).then_some(p + 1),
    }
}

/// A bracket expression: whether it has the byte, and its end; `None` when it has no end.
fn bracket(pattern: &[u8], open: usize, byte: u8, flags: MatchFlags) -> Option<(bool, usize)> {
    let mut at = open + 1;
    let negated = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(negated);
    let (mut found, mut first) = (false, true);
    loop {
        let item = *pattern.get(at)?;
        if item == b']' && !first {
            return Some((found != negated, at + 1));
        }
        first = false;
        if item == b'/' && flags.pathname {
            return None;
        }
        if item == b'['
            && pattern.get(at + 1) == Some(&b':')
            && let Some(len) = pattern[at + 2..].windows(2).position(|pair| pair == b":]")
        {
            found |= class(&pattern[at + 2..at + 2 + len], byte);
            at += len + 4;
            continue;
        }
        let low = literal(pattern, &mut at, flags)?;
        let range = pattern.get(at) == Some(&b'-') && pattern.get(at + 1).is_some_and(|&b| b != b']');
        let high = if range {
            at += 1;
            literal(pattern, &mut at, flags)?
        } else {
            low
        };
        found |= (low..=high).contains(&byte);
    }
}

fn literal(pattern: &[u8], at: &mut usize, flags: MatchFlags) -> Option<u8> {
    if pattern.get(*at) == Some(&b'\\') && !flags.noescape {
        *at += 1;
    }
    let byte = *pattern.get(*at)?;
    *at += 1;
    Some(byte)
}

fn class(name: &[u8], byte: u8) -> bool {
    match name {
        b"alnum" => byte.is_ascii_alphanumeric(),
        b"alpha" => byte.is_ascii_alphabetic(),
        b"blank" => byte == b' ' || byte == b'\t',
        b"cntrl" => byte.is_ascii_control(),
        b"digit" => byte.is_ascii_digit(),
        b"graph" => byte.is_ascii_graphic(),
        b"lower" => byte.is_ascii_lowercase(),
        b"print" => byte.is_ascii_graphic() || byte == b' ',
        b"punct" => byte.is_ascii_punctuation(),
        b"space" => byte.is_ascii_whitespace() || byte == 0x0b,
        b"upper" => byte.is_ascii_uppercase(),
        b"xdigit" => byte.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: MatchFlags = MatchFlags { pathname: true, noescape: false, period: false };

    fn check(flags: MatchFlags, pattern: &str, subject: &str, want: bool) {
        assert_eq!(matches(pattern.as_bytes(), subject.as_bytes(), flags), want, "{pattern} {subject} {flags:?}");
    }

    #[test]
    fn stars_stop_at_slashes() {
        check(PATH, "/foo/*", "/foo/bar", true);
        check(PATH, "/foo/*", "/foo/bar/baz", false);
        check(PATH, "/foo/*/baz", "/foo/bar/baz", true);
        check(MatchFlags::default(), "/foo/*", "/foo/bar/baz", true);
        check(PATH, "*.png", "a.b.png", true);
        check(PATH, "**a**b", "xaxxb", true);
        check(PATH, "a*", "a", true);
        check(PATH, "*a", "", false);
        check(PATH, "*", "", true);
        check(PATH, "", "a", false);
        check(PATH, "a*b*c", "aXbXXc", true);
        check(PATH, "a*b*c", "aXbXX", false);
    }

    #[test]
    fn many_stars_take_no_time() {
        let long = "a".repeat(5000);
        check(PATH, &"*a".repeat(30), &long, true);
        check(PATH, &format!("{}z", "*a".repeat(30)), &long, false);
    }

    #[test]
    fn brackets() {
        check(PATH, "[a-c]x", "bx", true);
        check(PATH, "[!a-c]x", "bx", false);
        check(PATH, "[^a-c]x", "dx", true);
        check(PATH, "[]-]", "]", true);
        check(PATH, "[]-]", "-", true);
        check(PATH, "[[:digit:]a]", "7", true);
        check(PATH, "[a", "[a", true);
        check(PATH, "a[/]b", "a/b", false);
        check(PATH, "?", "/", false);
        check(PATH, "[\\]]", "]", true);
        check(PATH, "[", "[", true);
        check(PATH, "[", "]", false);
    }

    #[test]
    fn escapes_and_periods() {
        check(PATH, "a\\*b", "a*b", true);
        check(PATH, "a\\*b", "axb", false);
        check(MatchFlags { noescape: true, ..PATH }, "a\\*b", "a\\xb", true);
        let period = MatchFlags { period: true, ..PATH };
        check(period, "*", ".hidden", false);
        check(period, ".*", ".hidden", true);
        check(period, "/*", "/.hidden", false);
        check(period, "a*", "a.b", true);
        check(MatchFlags { period: true, ..MatchFlags::default() }, "/*", "/.hidden", true);
    }

    proptest::proptest! {
        #[test]
        fn any_pattern(pattern in r"[a*?\[\]!\\/.:-]{0,12}", subject in "[a/.]{0,12}", pathname: bool, noescape: bool, period: bool) {
            let flags = MatchFlags { pathname, noescape, period };
            matches(pattern.as_bytes(), subject.as_bytes(), flags);
            let quoted: String = subject.chars().flat_map(|c| ['\\', c]).collect();
            let escaped = MatchFlags { noescape: false, ..flags };
            proptest::prop_assert!(matches(quoted.as_bytes(), subject.as_bytes(), escaped));
        }
    }
}
