// SPDX-License-Identifier: BSD-2-Clause
//! Tables of the CLI: columns as `vcl.list`, `backend.list` and others show them.

/// Columns of the screen that a table should fit.
const SCREEN: usize = 80;

/// Lines whose cells are separated by tabs, as columns. Between columns stand one to three blanks, as many as fit the
/// screen; every column but the first is one wider than its widest cell, as in Varnish. Lines that begin with a blank are
/// left as they are.
pub fn columns(rows: &str) -> String {
    let mut widths: Vec<usize> = Vec::new();
    let mut longest = 0;
    for row in rows.lines().filter(|row| !row.starts_with(' ')) {
        for (at, cell) in row.split('\t').enumerate() {
            if widths.len() <= at {
                widths.push(0);
            }
            widths[at] = widths[at].max(cell.chars().count() + usize::from(at > 0));
        }
        longest = longest.max(row.chars().count());
    }
    let gap = (SCREEN.saturating_sub(longest) / widths.len().max(1)).clamp(1, 3);
    let mut text = String::with_capacity(rows.len() * 2);
    for row in rows.lines() {
        if row.starts_with(' ') {
            text.push_str(row);
        } else {
            put_row(&mut text, row, &widths, gap);
        }
        text.push('\n');
    }
    text
}

fn put_row(text: &mut String, row: &str, widths: &[usize], gap: usize) {
    let mut cells = row.split('\t').enumerate().peekable();
    while let Some((at, cell)) = cells.next() {
        text.push_str(cell);
        if cells.peek().is_some() {
            text.extend(std::iter::repeat_n(' ', (widths[at] + gap).saturating_sub(cell.chars().count())));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_as_varnishd_puts_them() {
        assert_eq!(columns("active\tauto\twarm\t     -\tvcl1\n"), "active   auto    warm         -    vcl1\n");
        assert_eq!(
            columns("available\tcold\tcold\t     0\ta\nactive\tauto\twarm\t     0\tboot\n"),
            "available   cold    cold         0    a\nactive      auto    warm         0    boot\n"
        );
        assert_eq!(columns(" note\na\tb\n"), " note\na   b\n");
        assert_eq!(columns(""), "");
    }
}
