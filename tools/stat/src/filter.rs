// SPDX-License-Identifier: BSD-2-Clause
//! Which counters are shown: shell patterns, the first that matches decides.

/// The patterns of -I, -X and -f in order, and -r.
#[derive(Clone, Debug, Default)]
pub struct StatFilter {
    globs: Vec<(bool, String)>,
    pub raw: bool,
}

impl StatFilter {
    /// Adds the pattern of -I.
    pub fn include(&mut self, glob: &str) {
        self.globs.push((true, glob.to_owned()));
    }

    /// Adds the pattern of -X.
    pub fn exclude(&mut self, glob: &str) {
        self.globs.push((false, glob.to_owned()));
    }

    pub fn is_set(&self) -> bool {
        !self.globs.is_empty()
    }

    /// True if a counter is shown. A counter that no pattern matches is shown unless something was to be included.
    pub fn shows(&self, name: &str) -> bool {
        for (include, glob) in &self.globs {
            if matches(glob.as_bytes(), name.as_bytes()) {
                return *include;
            }
        }
        !self.globs.iter().any(|(include, _)| *include)
    }
}

/// Matches like fnmatch(3) without flags: `*`, `?`, `[...]`, backslashes.
pub fn matches(glob: &[u8], name: &[u8]) -> bool {
    // Where the last star was met: the pattern after it, and the name from there.
    let mut star: Option<(usize, usize)> = None;
    let (mut g, mut n) = (0, 0);
    loop {
        let step = match glob.get(g) {
            None if n == name.len() => return true,
            Some(b'*') => {
                star = Some((g + 1, n));
                g += 1;
                continue;
            }
            None => None,
            Some(_) => name.get(n).and_then(|byte| one(&glob[g..], *byte)),
        };
        match (step, star) {
            (Some(used), _) => (g, n) = (g + used, n + 1),
            (None, Some((after, from))) if from < name.len() => {
                star = Some((after, from + 1));
                (g, n) = (after, from + 1);
            }
            (None, _) => return false,
        }
    }
}

/// If the pattern's first sign matches the byte: how long that sign is.
fn one(glob: &[u8], byte: u8) -> Option<usize> {
    match glob {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => match set(rest, byte) {
            Some((true, used)) => Some(used + 1),
            Some((false, _)) => None,
            // A bracket that isn't closed is one.
            None => (byte == b'[').then_some(1),
        },
        [first, ..] => (*first == byte).then_some(1),
        [] => None,
    }
}

/// The set behind `[`: true if the byte is in it, and the bytes up to and with `]`.
fn set(rest: &[u8], byte: u8) -> Option<(bool, usize)> {
    let negated = matches!(rest.first(), Some(b'!' | b'^'));
    let mut at = usize::from(negated);
    let begin = at;
    let mut found = false;
    loop {
        let mut low = *rest.get(at)?;
        if low == b']' && at > begin {
            return Some((found != negated, at + 1));
        }
        if low == b'\\' {
            at += 1;
            low = *rest.get(at)?;
        }
        let mut high = low;
        at += 1;
        if rest.get(at) == Some(&b'-') && rest.get(at + 1).is_some_and(|b| *b != b']') {
            high = *rest.get(at + 1)?;
            at += 2;
        }
        found |= (low..=high).contains(&byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        let check = |glob: &str, name: &str, expected| {
            assert_eq!(matches(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
        };
        check("*", "", true);
        check("MAIN.*", "MAIN.cache_hit", true);
        check("MAIN.*hit", "MAIN.cache_hit", true);
        check("MAIN.*hit", "MAIN.cache_hitmiss", false);
        check("*.*.*", "SMA.s0.c_req", true);
        check("a?c", "abc", true);
        check("a?c", "ac", false);
        check("[a-c]x[!0-9]", "bxz", true);
        check("[a-c]x[!0-9]", "bx1", false);
        check("[]]", "]", true);
        check("[a", "[a", true);
        check("\\*", "*", true);
        check("\\*", "x", false);
        check(&"*a".repeat(200), &"a".repeat(150), false);
    }

    #[test]
    fn the_first_pattern_that_matches_decides() {
        let mut filter = StatFilter::default();
        assert!(filter.shows("x"));
        filter.exclude("MAIN.c*");
        assert!(filter.shows("x") && !filter.shows("MAIN.cache_hit"));
        filter.include("MAIN.*");
        assert!(!filter.shows("x") && !filter.shows("MAIN.cache_hit") && filter.shows("MAIN.uptime"));
    }
}
