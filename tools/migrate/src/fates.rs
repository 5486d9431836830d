// SPDX-License-Identifier: BSD-2-Clause
//! Tables of directives by name, in which a name that ends with `*` stands for all that begin so.

/// The row of a name: its own, else the first one that stands for many.
pub fn find<T: Copy>(table: &[(&str, T)], name: &str) -> Option<T> {
    let fits = |pattern: &str| pattern.strip_suffix('*').is_some_and(|begin| name.starts_with(begin));
    let own = table.iter().find(|(pattern, _)| *pattern == name);
    own.or_else(|| table.iter().find(|(pattern, _)| fits(pattern))).map(|(_, row)| *row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_name_comes_before_those_that_stand_for_many() {
        let table = [("ssl_*", 1), ("ssl_x", 2), ("*", 3)];
        assert_eq!(["ssl_x", "ssl_y", "ssl"].map(|name| find(&table, name)), [Some(2), Some(1), Some(3)]);
        assert_eq!(find(&table[..2], "s"), None);
    }
}
