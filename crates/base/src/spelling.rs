// SPDX-License-Identifier: BSD-2-Clause
//! Which name is meant by a mistyped one.

/// The name most like `word`, when one is at most `limit` edits away (see [`distance`]). Of several the one that `word` begins goes first.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>, limit: usize) -> Option<&'n str> {
    let near = names.filter(|name| name.len().abs_diff(word.len()) <= limit);
    let ranked = near.map(|name| (distance(word, name), !name.starts_with(word), name));
    ranked.filter(|(edits, ..)| *edits <= limit).min().map(|(.., name)| name)
}

/// Number of letters that must be changed, added, left out or swapped with their neighbour; case doesn't count. Both
/// texts are short: names and the words of command lines.
pub fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                if swapped { best.min(rows[i - 2][j - 2] + 1) } else { best }
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        let edits =
            [distance("lgo", "log"), distance("", "abc"), distance("abc", "ABC"), distance("kitten", "sitting")];
        assert_eq!(edits, [1, 3, 0, 3]);
    }

    #[test]
    fn a_mistyped_name_is_found() {
        let near = |word| nearest(word, ["explain", "log", "vcl", "varnishlog"].into_iter(), 3);
        assert_eq!(
            (near("explian"), near("lgo"), near("varnislog"), near("frobnicate")),
            (Some("explain"), Some("log"), Some("varnishlog"), None)
        );
        assert_eq!(nearest("statu", ["stat", "status"].into_iter(), 2), Some("status"));
    }
}
