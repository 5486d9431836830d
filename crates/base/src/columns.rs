// SPDX-License-Identifier: BSD-2-Clause
//! Tables of the CLI: columns as `vcl.list`, `backend.list` and others show them.

/// Columns of the screen that a table should fit.
const SCREEN: usize = 80;

/// Mark in front of a cell that is aligned to the right.
const TO_THE_RIGHT: char = '\x0b';

/// Lines whose cells are separated by tabs, as columns. Between columns stand one to three blanks, as many as fit the
/// screen. Lines that begin with a blank are left as they are. A cell that begins with a vertical tab is aligned to the
/// right. Varnish up to 7.3 makes every column but the first one wider than its widest cell, later releases don't.
pub fn columns(rows: &str, is_tight: bool) -> String {
    let extra = |at: usize| usize::from(at > 0 && !is_tight);
    let mut widths: Vec<usize> = Vec::new();
    let mut longest = 0;
    for row in rows.lines().filter(|row| !row.starts_with(' ')) {
        let mut length = 0;
        for (at, cell) in row.split('\t').enumerate() {
            if widths.len() <= at {
                widths.push(0);
            }
            let width = shown(cell).chars().count() + extra(at);
            widths[at] = widths[at].max(width);
            length += width;
        }
        longest = longest.max(length);
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

fn shown(cell: &str) -> &str {
    cell.strip_prefix(TO_THE_RIGHT).unwrap_or(cell)
}

fn put_row(text: &mut String, row: &str, widths: &[usize], gap: usize) {
    let mut cells = row.split('\t').enumerate().peekable();
    while let Some((at, cell)) = cells.next() {
        let (cell, is_right) = (shown(cell), cell.starts_with(TO_THE_RIGHT));
        if cells.peek().is_none() {
            text.push_str(cell);
            return;
        }
        let room = widths[at].saturating_sub(cell.chars().count());
        let (before, behind) = if is_right { (room, gap) } else { (0, room + gap) };
        text.extend(std::iter::repeat_n(' ', before));
        text.push_str(cell);
        text.extend(std::iter::repeat_n(' ', behind));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_as_varnishd_puts_them() {
        let columns = |rows: &str| columns(rows, false);
        assert_eq!(columns("active\tauto\twarm\t     -\tvcl1\n"), "active   auto    warm         -    vcl1\n");
        assert_eq!(
            columns("available\tcold\tcold\t     0\ta\nactive\tauto\twarm\t     0\tboot\n"),
            "available   cold    cold         0    a\nactive      auto    warm         0    boot\n"
        );
        assert_eq!(columns(" note\na\tb\n"), " note\na   b\n");
        assert_eq!(columns(""), "");
    }

    #[test]
    fn since_7_4_columns_are_tight() {
        let columns = |rows: &str| columns(rows, true);
        assert_eq!(columns("active\tauto\twarm\t-\tvcl1\n"), "active   auto   warm   -   vcl1\n");
        assert_eq!(
            columns("available\tcold\tcold\t\x0b0\ta\nactive\tauto\twarm\t\x0b12\tboot\n"),
            "available   cold   cold    0   a\nactive      auto   warm   12   boot\n"
        );
        assert_eq!(columns(" note\na\tb\n"), " note\na   b\n");
    }
}
