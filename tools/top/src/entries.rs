// SPDX-License-Identifier: BSD-2-Clause
//! Records counted by tag and text; on the screen the counts fade with time.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::io::{self, Write};

use logq::{Select, Txn, records};
use tables::Tag;
use tables::tags::TagKind;

/// Different entries that are kept when they are only counted (-1); more are left out.
const MAX: usize = 4_000_000;

#[derive(Debug)]
pub struct TopEntries {
    counts: HashMap<(Tag, Vec<u8>), f64>,
    first_word: bool,
    period: u32,
    samples: u32,
}

type TopEntry<'a> = (&'a (Tag, Vec<u8>), &'a f64);

/// More before fewer; then an order of its own, which Varnish's tool has.
fn order(a: &TopEntry<'_>, b: &TopEntry<'_>) -> Ordering {
    let sum = |text: &[u8]| text.iter().map(|b| i32::from(*b as i8)).sum::<i32>();
    let ((tag_a, text_a), (tag_b, text_b)) = (a.0, b.0);
    let counts = b.1.total_cmp(a.1);
    let lengths = text_a.len().cmp(&text_b.len());
    counts.then(sum(text_a).cmp(&sum(text_b))).then(tag_a.cmp(tag_b)).then(lengths).then_with(|| text_a.cmp(text_b))
}

impl TopEntries {
    /// No entries. `first_word`: -f; `period`: -p.
    pub fn new(first_word: bool, period: u32) -> TopEntries {
        TopEntries { counts: HashMap::new(), first_word, period, samples: 0 }
    }

    pub fn len(&self) -> usize {
        self.counts.len()
    }

    pub fn add(&mut self, select: &Select, group: &[Txn<'_>]) {
        for rec in group.iter().flat_map(|txn| records(txn.records)) {
            if rec.tag.kind() != TagKind::Plain || !select.shows(&rec) {
                continue;
            }
            let mut text = rec.text();
            if self.first_word {
                let ends = |b: &u8| *b == b':' || b.is_ascii_whitespace() || *b == 0x0b;
                text = text.split(ends).next().unwrap_or_default();
            }
            if text.is_empty() {
                continue;
            }
            let key = (rec.tag, text.to_vec());
            let is_full = self.counts.len() >= MAX;
            match self.counts.get_mut(&key) {
                Some(count) => *count += 1.0,
                None if !is_full => {
                    self.counts.insert(key, 1.0);
                }
                None => {}
            }
        }
    }

    fn sorted(&self) -> Vec<TopEntry<'_>> {
        let mut all: Vec<TopEntry<'_>> = self.counts.iter().collect();
        all.sort_by(order);
        all
    }

    pub fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut out = io::BufWriter::new(out);
        for ((tag, text), count) in self.sorted() {
            write!(out, "{count:>9.2} {} ", tag.name())?;
            out.write_all(text)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    }

    /// The first ones for a screen. From the second look on all fade, unless the log is over, and those that are next to
    /// nothing go.
    pub fn lines(&mut self, lines: usize, columns: usize, is_over: bool) -> Vec<String> {
        let fades = self.samples > 0 && !is_over;
        self.samples = (self.samples + 1).min(self.period.max(1));
        let width = Tag::ALL.iter().map(|tag| tag.name().len()).max().unwrap_or(0);
        let sorted = self.sorted();
        let shown: Vec<String> = sorted
            .iter()
            .take(lines)
            .map(|((tag, text), count)| {
                let text = String::from_utf8_lossy(text);
                let text: String = text.chars().take(columns.saturating_sub(20)).collect();
                format!("{count:>9.2} {:<width$} {text}", tag.name())
            })
            .collect();
        let least = sorted.iter().take(lines).next_back().map_or(0.0, |(_, count)| **count);
        let beyond: Vec<(Tag, Vec<u8>)> = sorted.iter().skip(lines * 10).map(|(key, _)| (*key).clone()).collect();
        if fades {
            beyond.iter().for_each(|key| {
                self.counts.remove(key);
            });
            let n = f64::from(self.samples);
            self.counts.values_mut().for_each(|count| *count += (1.0 / 3.0 - *count) / n);
            self.counts.retain(|_, count| *count * 10.0 >= least);
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commonest_first() {
        let mut entries = TopEntries::new(false, 60);
        for (text, count) in [("/b", 1.0), ("/a", 1.0), ("/c", 2.0)] {
            entries.counts.insert((Tag::ReqUrl, text.into()), count);
        }
        let mut out = Vec::new();
        entries.print(&mut out).unwrap();
        assert_eq!(out, b"     2.00 ReqURL /c\n     1.00 ReqURL /a\n     1.00 ReqURL /b\n");
        assert_eq!(entries.lines(2, 80, false)[0].trim_start(), "2.00 ReqURL         /c");
        assert_eq!(entries.lines(2, 80, true)[0].trim_start(), "2.00 ReqURL         /c");
        assert_eq!(entries.lines(2, 80, false).len(), 2);
        assert_eq!(entries.lines(2, 80, false)[0].trim_start(), "1.44 ReqURL         /c");
    }
}
