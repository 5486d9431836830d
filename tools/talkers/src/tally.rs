// SPDX-License-Identifier: BSD-2-Clause
//! What is counted of each request.

use accesslog::{By, Entry, Hitters, Keys, Measure, Sums};

/// What there is to count.
pub struct Counting {
    pub keys: Keys,
    pub by: Vec<By>,
    pub measures: Vec<Measure>,
    /// Memory for all tables together.
    pub bytes: usize,
    pub only: Vec<(By, Vec<u8>)>,
}

/// Those that have most, by one thing and by each measure.
pub struct Table {
    pub by: By,
    pub hitters: Vec<Hitters>,
}

/// See the module.
#[derive(Default)]
pub struct Tally {
    pub tables: Vec<Table>,
    pub total: Sums,
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

impl Tally {
    /// Counts a request.
    pub fn add(&mut self, entry: &Entry<'_>, counting: &Counting) {
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
        if let Some(time) = entry.time.map(|time| time.ns) {
            let (first, last) = self.times.get_or_insert((time, time));
            (*first, *last) = (time.min(*first), time.max(*last));
        }
        for table in &mut self.tables {
            counting.keys.write(table.by, entry, &mut self.key);
            // A request without a Referer is no page's element.
            if table.by == By::Page && self.key == b"-" {
                continue;
            }
            if table.by == By::Page {
                counting.keys.write(By::Url, entry, &mut self.url);
            }
            for hitters in &mut table.hitters {
                let element = (table.by == By::Page).then(|| hitters.hash(&self.url));
                hitters.add(&self.key, &sums, element);
            }
        }
    }

    /// Makes all that was counted smaller.
    pub fn fade(&mut self, factor: f64) {
        self.total.fade(factor);
        self.tables.iter_mut().flat_map(|table| &mut table.hitters).for_each(|hitters| hitters.fade(factor));
    }

    /// Those with most by one thing and measure, if that was counted.
    pub fn hitters(&self, by: By, measure: Measure) -> Option<&Hitters> {
        let table = self.tables.iter().find(|table| table.by == by)?;
        table.hitters.iter().find(|hitters| hitters.measure() == measure)
    }
}

fn tables(counting: &Counting) -> Vec<Table> {
    let bytes = counting.bytes / (counting.by.len() * counting.measures.len()).max(1);
    let one = |by: &By| {
        let hitters = |measure: &Measure| Hitters::new(*measure, bytes, *by == By::Page);
        Table { by: *by, hitters: counting.measures.iter().map(hitters).collect() }
    };
    counting.by.iter().map(one).collect()
}

fn sums(entry: &Entry<'_>) -> Sums {
    let is_fetched = entry.handling.map(|handling| handling.is_fetched());
    Sums {
        requests: 1.0,
        bytes: entry.bytes.unwrap_or(0) as f64,
        hits: f64::from(entry.handling == Some(accesslog::Handling::Hit)),
        misses: f64::from(is_fetched == Some(true)),
        backend_seconds: entry.backend_time.unwrap_or_default().as_secs_f64(),
    }
}
