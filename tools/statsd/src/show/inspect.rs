// SPDX-License-Identifier: BSD-2-Clause
//! How node (12 to 22) shows an object: one line when it is short and shallow, else a member a line; lists of more than
//! six items in columns, of more than a hundred cut. Checked against node itself, see `tests/e2e/tooling/statsd`.

use super::StatsdShow;
use crate::number;

/// A line may be so long.
const LINE: usize = 80;
/// Levels that may share a line.
const COMPACT: usize = 3;
/// Items of a list that are shown.
const ITEMS: usize = 100;

/// Shows a tree down to `depth` levels below the top, with terminal colours if asked.
pub fn inspect(show: &StatsdShow, depth: usize, colours: bool) -> String {
    let mut painter = Painter { depth, colours, indent: 0, deepest: 0 };
    painter.value(show, 0)
}

struct Painter {
    depth: usize,
    colours: bool,
    indent: usize,
    /// Level of the object begun last: what is below the one being finished.
    deepest: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Style {
    Number,
    Text,
    Special,
}

impl Painter {
    fn paint(&self, text: String, style: Style) -> String {
        if !self.colours {
            return text;
        }
        let colour = match style {
            Style::Number => 33,
            Style::Text => 32,
            Style::Special => 36,
        };
        format!("\u{1b}[{colour}m{text}\u{1b}[39m")
    }

    fn value(&mut self, show: &StatsdShow, level: usize) -> String {
        match show {
            // The one place where -0 is told from 0.
            StatsdShow::Number(n) if *n == 0.0 && n.is_sign_negative() => self.paint("-0".to_owned(), Style::Number),
            StatsdShow::Number(n) => self.paint(number::show(*n), Style::Number),
            StatsdShow::Text(text) => self.paint(quote(text), Style::Text),
            StatsdShow::List(list) if list.is_empty() => "[]".to_owned(),
            StatsdShow::Object(members) if members.is_empty() => "{}".to_owned(),
            StatsdShow::List(_) if level > self.depth => self.paint("[Array]".to_owned(), Style::Special),
            StatsdShow::Object(_) if level > self.depth => self.paint("[Object]".to_owned(), Style::Special),
            StatsdShow::List(list) => self.list(list, level + 1),
            StatsdShow::Object(members) => self.object(members, level + 1),
        }
    }

    fn nested(&mut self, show: &StatsdShow, level: usize) -> String {
        self.indent += 2;
        let text = self.value(show, level);
        self.indent -= 2;
        text
    }

    fn object(&mut self, members: &[(String, StatsdShow)], level: usize) -> String {
        self.deepest = level;
        let mut out = Vec::with_capacity(members.len());
        for (name, value) in members {
            let name = if name == "__proto__" {
                "['__proto__']".to_owned()
            } else if is_plain(name) {
                name.clone()
            } else {
                self.paint(quote(name), Style::Text)
            };
            out.push(format!("{name}: {}", self.nested(value, level)));
        }
        let whole = out.len();
        self.joined(out, whole, level, '{', '}')
    }

    fn list(&mut self, list: &[StatsdShow], level: usize) -> String {
        self.deepest = level;
        let mut out: Vec<String> = Vec::with_capacity(list.len().min(ITEMS + 1));
        for item in list.iter().take(ITEMS) {
            out.push(self.nested(item, level));
        }
        let more = list.len().saturating_sub(ITEMS);
        if more > 0 {
            out.push(format!("... {more} more item{}", if more == 1 { "" } else { "s" }));
        }
        let whole = out.len();
        if whole > 6 {
            let numbers = list.iter().take(whole).all(|item| matches!(item, StatsdShow::Number(_)));
            out = self.columns(out, more > 0, numbers);
        }
        self.joined(out, whole, level, '[', ']')
    }

    /// `whole` is how many parts there were before they were put in columns.
    fn joined(&self, out: Vec<String>, whole: usize, level: usize, open: char, close: char) -> String {
        if self.deepest - level < COMPACT && out.len() == whole && self.fits(&out) {
            let line = out.join(", ");
            if !line.contains('\n') {
                return format!("{open} {line} {close}");
            }
        }
        let indent = format!("\n{}", " ".repeat(self.indent));
        format!("{open}{indent}  {}{indent}{close}", out.join(&format!(",{indent}  ")))
    }

    fn fits(&self, out: &[String]) -> bool {
        // Each part's separator counts, and the braces with room for a name before them.
        let start = out.len() + self.indent + 1 + 10;
        let total = out.len() + start;
        total + out.len() <= LINE && total + out.iter().map(|text| self.width(text)).sum::<usize>() <= LINE
    }

    fn width(&self, text: &str) -> usize {
        if !self.colours {
            return text.encode_utf16().count();
        }
        let mut width = 0;
        let mut in_escape = false;
        for c in text.chars() {
            match c {
                '\u{1b}' => in_escape = true,
                'm' if in_escape => in_escape = false,
                _ if in_escape => {}
                c => width += c.len_utf16(),
            }
        }
        width
    }

    /// Puts items in columns, about a square when a character is 2.5 times as high as wide.
    fn columns(&self, out: Vec<String>, has_rest: bool, numbers: bool) -> Vec<String> {
        let items = out.len() - usize::from(has_rest);
        let widths: Vec<usize> = out[..items].iter().map(|text| self.width(text)).collect();
        let total: usize = widths.iter().map(|w| w + 2).sum();
        let widest = widths.iter().copied().max().unwrap_or(0);
        let cell = widest + 2;
        let even = total as f64 / cell as f64 > 5.0 || widest <= 6;
        if cell * 3 + self.indent >= LINE || !even {
            return out;
        }
        let bias = (cell as f64 - total as f64 / out.len() as f64).sqrt();
        let biased = (cell as f64 - 3.0 - bias).max(1.0);
        let square = number::round((2.5 * biased * items as f64).sqrt() / biased) as usize;
        let columns = square.min((LINE - self.indent) / cell).min(COMPACT * 4).min(15);
        if columns <= 1 {
            return out;
        }
        let column = |at: usize| widths.iter().skip(at).step_by(columns).copied().max().unwrap_or(0) + 2;
        let room: Vec<usize> = (0..columns).map(column).collect();
        let mut rows: Vec<String> = Vec::new();
        for (row, widths) in out[..items].chunks(columns).zip(widths.chunks(columns)) {
            rows.push(row_of(row, widths, &room, numbers));
        }
        rows.extend(out.into_iter().skip(items));
        rows
    }
}

/// Numbers stand at the right of their column, all else at the left.
fn row_of(row: &[String], widths: &[usize], room: &[usize], numbers: bool) -> String {
    let mut line = String::new();
    for (at, (text, width)) in row.iter().zip(widths).enumerate() {
        let last = at + 1 == row.len();
        let gap = " ".repeat(room[at] - 2 - width);
        match (numbers, last) {
            (true, true) => line.push_str(&(gap + text)),
            (true, false) => line.push_str(&(gap + text + ", ")),
            (false, true) => line.push_str(text),
            (false, false) => line.push_str(&(text.clone() + ", " + &gap)),
        }
    }
    line
}

fn is_plain(name: &str) -> bool {
    let mut bytes = name.bytes();
    bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// In single quotes, unless another kind saves escaping.
fn quote(text: &str) -> String {
    let quote = match (text.contains('\''), text.contains('"'), text.contains('`') || text.contains("${")) {
        (true, false, _) => '"',
        (true, true, false) => '`',
        _ => '\'',
    };
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' if quote == '\'' => out.push_str("\\'"),
            c if (c as u32) < 0x20 || (0x7f..0xa0).contains(&(c as u32)) => {
                out.push_str(&format!("\\x{:02X}", c as u32));
            }
            c => out.push(c),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(members: &[(&str, f64)]) -> StatsdShow {
        StatsdShow::Object(members.iter().map(|(n, v)| ((*n).to_owned(), StatsdShow::Number(*v))).collect())
    }

    #[test]
    fn objects() {
        assert_eq!(inspect(&object(&[]), 2, false), "{}");
        assert_eq!(inspect(&object(&[("a", 1.0), ("a.b", -0.0)]), 2, false), "{ a: 1, 'a.b': -0 }");
        let own = object(&[
            ("statsd.bad_lines_seen", 0.0),
            ("statsd.packets_received", 1.0),
            ("statsd.metrics_received", 1.0),
        ]);
        let lines =
            "{\n  'statsd.bad_lines_seen': 0,\n  'statsd.packets_received': 1,\n  'statsd.metrics_received': 1\n}";
        assert_eq!(inspect(&own, 2, false), lines);
        assert_eq!(inspect(&object(&[("a", 1.0)]), 2, true), "{ a: \u{1b}[33m1\u{1b}[39m }");
    }

    #[test]
    fn lists() {
        let numbers = |n: usize| StatsdShow::numbers(&(0..n).map(|n| n as f64).collect::<Vec<_>>());
        assert_eq!(inspect(&numbers(6), 2, false), "[ 0, 1, 2, 3, 4, 5 ]");
        assert_eq!(inspect(&numbers(8), 2, false), "[\n  0, 1, 2, 3,\n  4, 5, 6, 7\n]");
        assert!(inspect(&numbers(102), 2, false).ends_with("\n  96, 97, 98, 99,\n  ... 2 more items\n]"));
    }

    #[test]
    fn depth() {
        let deep = |inner: StatsdShow| StatsdShow::Object(vec![("x".to_owned(), inner)]);
        let tree = deep(deep(deep(deep(object(&[("y", 1.0)])))));
        assert_eq!(inspect(&tree, 2, false), "{ x: { x: { x: [Object] } } }");
    }
}
