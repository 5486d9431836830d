// SPDX-License-Identifier: BSD-2-Clause
//! What is counted of each request.

use accesslog::{AccessEntry, GroupBy, GroupKeys, Hitters, HittersMeasure, Sums};

/// The things that are counted.
pub struct CountedThing {
    pub keys: GroupKeys,
    pub by: Vec<GroupBy>,
    pub measure: HittersMeasure,
    /// Measures that it may be by on a screen; none: there is no screen.
    pub shown: &'static [HittersMeasure],
    /// Memory for all tables together.
    pub bytes: usize,
    pub only: Vec<(GroupBy, Vec<u8>)>,
}

/// The talkers with most, by one thing.
pub struct TalkersTable {
    pub by: GroupBy,
    /// For the report: all that was counted.
    pub whole: Hitters,
    /// For the screen, by each measure: what may have faded.
    pub shown: Vec<Hitters>,
}

#[derive(Default)]
pub struct TalkersTally {
    pub tables: Vec<TalkersTable>,
    pub total: Sums,
    /// The total that the screen shows, which may have faded.
    pub shown_total: Sums,
    /// First and last time of a request, nanoseconds since 1970.
    pub times: Option<(i64, i64)>,
    /// Requests that the log doesn't say everything of.
    pub without_handling: u64,
    pub without_bytes: u64,
    pub without_backend_time: u64,
    /// Requests that `--only` leaves out.
    pub others: u64,
    key: Vec<u8>,
    url: Vec<u8>,
}

impl TalkersTally {
    pub fn add(&mut self, entry: &AccessEntry<'_>, counting: &CountedThing) {
        if self.tables.is_empty() {
            self.tables = tables(counting);
        }
        for (by, value) in &counting.only {
            counting.keys.write(*by, entry, &mut self.key);
            if self.key != *value {
                self.others += 1;
                return;
            }
        }
        self.without_handling += u64::from(entry.handling.is_none());
        self.without_bytes += u64::from(entry.bytes.is_none());
        self.without_backend_time += u64::from(entry.backend_time.is_none());
        let sums = sums(entry);
        self.total.add(&sums);
        self.shown_total.add(&sums);
        if let Some(time) = entry.time.map(|time| time.ns) {
            let (first, last) = self.times.get_or_insert((time, time));
            (*first, *last) = (time.min(*first), time.max(*last));
        }
        for table in &mut self.tables {
            counting.keys.write(table.by, entry, &mut self.key);
            // A request without a Referer is no page's element.
            if table.by == GroupBy::Page && self.key == b"-" {
                continue;
            }
            if table.by == GroupBy::Page {
                counting.keys.write(GroupBy::Url, entry, &mut self.url);
            }
            for hitters in std::iter::once(&mut table.whole).chain(&mut table.shown) {
                let element = (table.by == GroupBy::Page).then(|| hitters.hash(&self.url));
                hitters.add(&self.key, &sums, element);
            }
        }
    }

    pub fn fade(&mut self, factor: f64) {
        self.shown_total.fade(factor);
        self.tables.iter_mut().flat_map(|table| &mut table.shown).for_each(|hitters| hitters.fade(factor));
    }

    /// Those with most by one thing, if that was counted.
    pub fn whole(&self, by: GroupBy) -> Option<&Hitters> {
        self.tables.iter().find(|table| table.by == by).map(|table| &table.whole)
    }

    /// Those with most by one thing and measure, as the screen shows them.
    pub fn shown(&self, by: GroupBy, measure: HittersMeasure) -> Option<&Hitters> {
        let table = self.tables.iter().find(|table| table.by == by)?;
        table.shown.iter().find(|hitters| hitters.measure() == measure)
    }
}

fn tables(counting: &CountedThing) -> Vec<TalkersTable> {
    let bytes = counting.bytes / (counting.by.len() * (1 + counting.shown.len())).max(1);
    let one = |by: &GroupBy| {
        let hitters = |measure: &HittersMeasure| Hitters::new(*measure, bytes, *by == GroupBy::Page);
        TalkersTable { by: *by, whole: hitters(&counting.measure), shown: counting.shown.iter().map(hitters).collect() }
    };
    counting.by.iter().map(one).collect()
}

fn sums(entry: &AccessEntry<'_>) -> Sums {
    let is_fetched = entry.handling.map(|handling| handling.is_fetched());
    Sums {
        requests: 1.0,
        bytes: entry.bytes.unwrap_or(0) as f64,
        hits: f64::from(entry.handling == Some(accesslog::Handling::Hit)),
        misses: f64::from(is_fetched == Some(true)),
        backend_seconds: entry.backend_time.unwrap_or_default().as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn what_fades_on_the_screen_was_counted_all_the_same() {
        let counting = CountedThing {
            keys: GroupKeys::default(),
            by: vec![GroupBy::Client],
            measure: HittersMeasure::Requests,
            shown: &HittersMeasure::ALL,
            bytes: 1 << 20,
            only: Vec::new(),
        };
        let mut tally = TalkersTally::default();
        for _ in 0..5 {
            let client = Some(Cow::Borrowed(&b"192.0.2.1"[..]));
            tally.add(&AccessEntry { client, bytes: Some(100), ..AccessEntry::default() }, &counting);
            tally.fade(0.3);
        }
        assert_eq!((tally.total.requests, tally.total.bytes, tally.without_handling), (5.0, 500.0, 5));
        let whole = tally.whole(GroupBy::Client).expect("a table").top(9).rows;
        assert_eq!((whole[0].sums.requests, whole[0].sums.bytes), (5.0, 500.0));
        let shown = tally.shown(GroupBy::Client, HittersMeasure::Bytes).expect("a table").top(9).rows;
        assert!(shown[0].sums.requests < 0.5 && tally.shown_total.requests < 0.5);
    }
}
