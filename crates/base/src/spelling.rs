// SPDX-License-Identifier: BSD-2-Clause
//! Which name is meant by a mistyped one.

/// Edits between a word and the name that it may stand for, at most.
const FAR: usize = 3;
/// Letters of a word for each edit beyond the first.
const LETTERS_PER_EDIT: usize = 5;
/// A shorter word is one edit from too many names.
const SHORTEST: usize = 3;

/// The name other than `word` that is most like it, if one is near enough to be what was meant: a word of three or four letters allows
/// one edit (see [`distance`]), each five letters another one, up to three. Dashes of an option don't count. Of several
/// names the one that `word` begins goes first.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let limit = edits_allowed(word.trim_start_matches('-').len());
    let near = names.filter(|name| *name != word && name.len().abs_diff(word.len()) <= limit);
    let ranked = near.map(|name| (distance(word, name), !name.starts_with(word), name));
    ranked.filter(|(edits, ..)| *edits <= limit).min().map(|(.., name)| name)
}

fn edits_allowed(letters: usize) -> usize {
    if letters < SHORTEST { 0 } else { FAR.min(letters / LETTERS_PER_EDIT + 1) }
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
        let near = |word| nearest(word, ["explain", "log", "vcl", "varnishlog"].into_iter());
        assert_eq!(
            (near("explian"), near("lgo"), near("varnislog"), near("frobnicate")),
            (Some("explain"), Some("log"), Some("varnishlog"), None)
        );
        assert_eq!(nearest("statu", ["stat", "status"].into_iter()), Some("status"));
    }

    #[test]
    fn the_edits_allowed_grow_with_the_word() {
        check("lo", "log", false);
        check("LOG", "log", true);
        check("log", "log", false);
        check("lug", "log", true);
        check("lgo2", "log", false);
        check("--agi", "--acl", false);
        check("--foramt", "--format", true);
        check("--frmaat", "--format", true);
        check("thread_pol_mim", "thread_pool_min", true);
        check("thread_pl_mxx", "thread_pool_min", false);
    }

    fn check(word: &str, name: &'static str, is_meant: bool) {
        assert_eq!(nearest(word, [name].into_iter()), is_meant.then_some(name), "{word}");
    }
}
