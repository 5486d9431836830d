// SPDX-License-Identifier: BSD-2-Clause
//! The last values in buckets on a logarithmic axis, and their picture.

use std::collections::VecDeque;

use screen::ScreenLine;

const MEMORY: usize = 2000;
const BUCKETS: i32 = 100;
const SCALES: &[u32] =
    &[1, 2, 3, 4, 5, 10, 15, 20, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 25_000, 50_000, 100_000];

#[derive(Debug)]
pub struct AxisHistogram {
    low: i32,
    high: i32,
    /// Hits and others per bucket.
    buckets: Vec<[u32; 2]>,
    last: VecDeque<(usize, bool)>,
}

impl AxisHistogram {
    /// An axis from 10^low to 10^high.
    pub fn new(low: i32, high: i32) -> AxisHistogram {
        let count = usize::try_from((high - low) * BUCKETS).unwrap_or(0);
        AxisHistogram { low, high, buckets: vec![[0; 2]; count], last: VecDeque::new() }
    }

    pub fn len(&self) -> usize {
        self.last.len()
    }

    /// Adds a value above 0. Drops the oldest if there are too many.
    pub fn add(&mut self, value: f64, hit: bool) {
        let place = (f64::from(BUCKETS) * value.log10()).round() as i32;
        let place = place.clamp(self.low * BUCKETS, self.high * BUCKETS - 1) - self.low * BUCKETS;
        let place = usize::try_from(place).unwrap_or(0);
        if self.last.len() == MEMORY
            && let Some((old, hit)) = self.last.pop_front()
        {
            self.buckets[old][usize::from(!hit)] -= 1;
        }
        self.buckets[place][usize::from(!hit)] += 1;
        self.last.push_back((place, hit));
    }

    fn range(&self) -> usize {
        usize::try_from(self.high - self.low).unwrap_or(1)
    }

    /// Hits and others per column.
    fn columns(&self, columns: usize) -> Vec<[u32; 2]> {
        let n = columns / self.range() * self.range();
        let mut out = vec![[0; 2]; n];
        for (k, [hits, others]) in self.buckets.iter().enumerate() {
            if let Some(column) = out.get_mut(k * n / self.buckets.len()) {
                column[0] += hits;
                column[1] += others;
            }
        }
        out
    }

    /// Number of values that one mark stands for.
    pub fn scale(&self, columns: usize, lines: usize) -> u32 {
        let max = self.columns(columns).iter().map(|[a, b]| a + b).max().unwrap_or(1).max(1);
        let room = u32::try_from(lines.saturating_sub(3)).unwrap_or(u32::MAX);
        SCALES.iter().copied().find(|scale| max / scale <= room).unwrap_or(u32::MAX)
    }

    /// The page; its first line is free for a head.
    pub fn picture(&self, columns: usize, lines: usize) -> Vec<ScreenLine> {
        let mut page = vec![ScreenLine::default(); lines];
        if lines < 4 || columns < self.range() {
            return page;
        }
        let scale = self.scale(columns, lines);
        let bars = self.columns(columns);
        let width = columns / self.range();
        page[lines - 2].text = "-".repeat(bars.len());
        for (i, power) in (self.low..self.high).enumerate() {
            page[lines - 2].put(width * i, "+");
            page[lines - 1].put(width * i, &format!("|1e{power}"));
        }
        for j in (5..lines - 2).step_by(5) {
            let mark = u64::from(scale) * j as u64;
            page[lines - 2 - j].put(0, &format!("{mark}_"));
        }
        for (column, [hits, others]) in bars.iter().enumerate() {
            let (below, all) = (others / scale, (hits + others) / scale);
            for height in 0..all {
                let Some(row) = (lines - 3).checked_sub(height as usize) else { break };
                page[row].put(column, if height < below { "#" } else { "|" });
            }
        }
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_stand_on_others() {
        let mut histogram = AxisHistogram::new(-6, 3);
        for _ in 0..3 {
            histogram.add(0.01, true);
        }
        histogram.add(0.01, false);
        histogram.add(1e-30, false);
        histogram.add(1e30, true);
        let page = histogram.picture(90, 24);
        let column = |c: usize| -> String { page.iter().filter_map(|l| l.text.chars().nth(c)).collect() };
        assert_eq!(column(40), "|||#+|");
        assert!(page[23].text.starts_with("|1e-6     |1e-5"), "{}", page[23].text);
        for _ in 0..3 * MEMORY {
            histogram.add(1.0, false);
        }
        assert_eq!((histogram.len(), histogram.scale(90, 24)), (MEMORY, 100));
        let _ = (histogram.picture(0, 0), histogram.picture(3, 5));
    }
}
