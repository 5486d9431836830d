// SPDX-License-Identifier: BSD-2-Clause
//! Which name is meant by a mistyped one.

/// The name most like `word`, unless none is.
pub fn nearest<'n>(word: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let most = word.len() / 3 + 1;
    let mut ranked: Vec<(usize, &str)> = names.map(|name| (distance(word, name), name)).collect();
    ranked.sort_unstable();
    ranked.first().filter(|(far, _)| *far <= most).map(|(_, name)| *name)
}

/// How many letters must be changed, added or left out. A word is short: command lines are.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, c) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for j in 0..b.len() {
            let change = before + usize::from(b[j] != c);
            before = row[j + 1];
            row[j + 1] = change.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_name_is_found() {
        let near = |word| nearest(word, ["explain", "log", "vcl", "varnishlog"].into_iter());
        assert_eq!(
            (near("explian"), near("lgo"), near("varnislog")),
            (Some("explain"), Some("log"), Some("varnishlog"))
        );
        assert_eq!((near("frobnicate"), distance("", "abc"), distance("kitten", "sitting")), (None, 3, 3));
    }
}
