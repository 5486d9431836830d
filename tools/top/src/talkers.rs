// SPDX-License-Identifier: BSD-2-Clause
//! Who asks most: requests, bytes sent and hits by client, URL, host, user agent or autonomous system.

use std::sync::Arc;

use accesslog::{GroupBy, GroupKeys, Handling, Hitters, HittersMeasure, Sums, of_transaction};
use logq::Txn;
use networks::Database;

/// Memory for those that are kept.
const BYTES: usize = 64 << 20;

/// The values of `--by`, in varnishtop's words.
pub const WORDS: [(&str, GroupBy); 5] = [
    ("client", GroupBy::Client),
    ("url", GroupBy::Path),
    ("host", GroupBy::Host),
    ("ua", GroupBy::UserAgent),
    ("asn", GroupBy::System),
];

pub struct Talkers {
    by: GroupBy,
    keys: GroupKeys,
    key: Vec<u8>,
    hitters: Hitters,
}

impl Talkers {
    pub fn new(by: GroupBy, networks: Option<Database>) -> Talkers {
        let keys = GroupKeys { networks: networks.map(Arc::new), ..GroupKeys::default() };
        Talkers { by, keys, key: Vec::new(), hitters: Hitters::new(HittersMeasure::Requests, BYTES, false) }
    }

    pub fn len(&self) -> usize {
        self.hitters.distinct().0 as usize
    }

    pub fn add(&mut self, group: &[Txn<'_>]) {
        for entry in group.iter().filter_map(of_transaction).flatten() {
            self.keys.write(self.by, &entry, &mut self.key);
            let hits = f64::from(entry.handling == Some(Handling::Hit));
            let bytes = entry.bytes.unwrap_or(0) as f64;
            self.hitters.add(&self.key, &Sums { requests: 1.0, bytes, hits, ..Sums::default() }, None);
        }
    }

    /// The first ones: requests, bytes, per cent of hits, who.
    pub fn lines(&self, lines: usize) -> Vec<String> {
        let line = |row: &accesslog::Hitter| {
            let hits = 100.0 * row.sums.hits / row.sums.requests;
            let key = String::from_utf8_lossy(&row.key);
            format!("{:>9} {:>14} {hits:>5.1}% {key}", row.sums.requests, row.sums.bytes)
        };
        self.hitters.top(lines).rows.iter().map(line).collect()
    }
}
