// SPDX-License-Identifier: BSD-2-Clause
//! How many objects there are of each kind: by size, time, hits.

use base::text::decimal_bytes;
use serde_json::{Value, json};

const KB: u64 = 1 << 10;
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// The limits of sizes; what is beyond the last is more.
pub const SIZES: &[(u64, &str)] = &[
    (KB, "to 1 KB"),
    (4 * KB, "to 4 KB"),
    (16 * KB, "to 16 KB"),
    (64 * KB, "to 64 KB"),
    (256 * KB, "to 256 KB"),
    (1024 * KB, "to 1 MB"),
    (16 << 20, "to 16 MB"),
];
pub const TIMES: &[(u64, &str)] = &[
    (MINUTE, "to a minute"),
    (HOUR, "to an hour"),
    (DAY, "to a day"),
    (7 * DAY, "to a week"),
    (30 * DAY, "to 30 days"),
];
pub const HITS: &[(u64, &str)] = &[(0, "none"), (1, "one"), (10, "to 10"), (100, "to 100"), (1000, "to 1000")];

#[derive(Debug)]
pub struct SizeHistogram {
    limits: &'static [(u64, &'static str)],
    /// Objects and bytes; one more than limits.
    rows: Vec<(u64, u64)>,
}

impl SizeHistogram {
    pub fn new(limits: &'static [(u64, &'static str)]) -> SizeHistogram {
        SizeHistogram { limits, rows: vec![(0, 0); limits.len() + 1] }
    }

    pub fn add(&mut self, number: u64, bytes: u64) {
        let at = self.limits.iter().position(|&(limit, _)| number <= limit).unwrap_or(self.limits.len());
        self.rows[at].0 += 1;
        self.rows[at].1 += bytes;
    }

    pub fn objects(&self) -> u64 {
        self.rows.iter().map(|row| row.0).sum()
    }

    pub fn text(&self, title: &str) -> String {
        let all = self.objects().max(1) as f64;
        let mut text = format!("\n{title:<16} {:>12}  share         bytes\n", "objects");
        for (name, (objects, bytes)) in self.named().filter(|(_, row)| row.0 > 0) {
            let share = objects as f64 / all * 100.0;
            text.push_str(&format!("  {name:<14} {objects:>12}  {share:>3.0} %  {:>12}\n", decimal_bytes(bytes)));
        }
        text
    }

    pub fn json(&self) -> Value {
        self.named().map(|(name, (objects, bytes))| json!({"name": name, "objects": objects, "bytes": bytes})).collect()
    }

    fn named(&self) -> impl Iterator<Item = (&'static str, (u64, u64))> {
        let names = self.limits.iter().map(|(_, name)| *name).chain(["more"]);
        names.zip(self.rows.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_part_of_what_it_limits() {
        let mut hits = SizeHistogram::new(HITS);
        [0, 1, 2, 10, 11, 1001, u64::MAX].into_iter().for_each(|number| hits.add(number, 5));
        let rows: Vec<_> = hits.named().map(|(_, row)| row.0).collect();
        assert_eq!((rows, hits.objects()), (vec![1, 1, 2, 1, 0, 2], 7));
    }
}
