// SPDX-License-Identifier: BSD-2-Clause
//! What was counted, as tables and as JSON.

use accesslog::{Gathered, GroupBy, Hitter, HittersMeasure, Ranking, Sums};
use serde_json::{Value, json};

use crate::options::TalkersOptions;
use crate::tally::TalkersTally;

pub struct Listing {
    pub by: GroupBy,
    pub ranking: Ranking,
    /// Number of different ones; the second is true if it is exact.
    pub distinct: (f64, bool),
    pub total: Sums,
}

pub struct TalkersReport<'a> {
    options: &'a TalkersOptions,
    gathered: &'a Gathered<TalkersTally>,
    pub listings: Vec<Listing>,
}

impl<'a> TalkersReport<'a> {
    pub fn new(options: &'a TalkersOptions, gathered: &'a Gathered<TalkersTally>) -> TalkersReport<'a> {
        let tally = &gathered.result;
        let most = if options.top == 0 { usize::MAX } else { options.top };
        let listing = |by: &GroupBy| {
            let hitters = tally.whole(*by)?;
            let mut ranking = hitters.top(most);
            ranking.rows.retain(|row| {
                share(row, hitters.total(), options.measure) >= options.least && row.sums.of(options.measure) > 0.0
            });
            ranking.certain = ranking.certain.min(ranking.rows.len());
            Some(Listing { by: *by, ranking, distinct: hitters.distinct(), total: *hitters.total() })
        };
        TalkersReport { options, gathered, listings: options.by.iter().filter_map(listing).collect() }
    }

    pub fn measure(&self) -> HittersMeasure {
        self.options.measure
    }

    pub fn is_empty(&self) -> bool {
        self.gathered.result.total.requests == 0.0
    }

    pub fn remarks(&self) -> Vec<String> {
        let tally = &self.gathered.result;
        let lacks = [
            (tally.without_bytes, "requests without their bytes"),
            (tally.without_handling, "requests that don't say whether they were hits"),
            (tally.without_backend_time, "requests without their backend's time"),
        ];
        let needed = |what: usize| match self.options.measure {
            HittersMeasure::Requests => false,
            HittersMeasure::Bytes => what == 0,
            HittersMeasure::Misses => what == 1,
            HittersMeasure::BackendTime => what == 2,
        };
        let lacking = lacks.iter().enumerate().filter(|(at, (n, _))| *n > 0 && needed(*at));
        let lacking = lacking.map(|(_, (n, what))| format!("{n} {what}: this log's format doesn't have that"));
        let others = (tally.others > 0).then(|| format!("{} other requests left out", tally.others));
        lacking.chain(others).chain(self.gathered.remarks()).collect()
    }

    pub fn text(&self) -> String {
        let total = &self.gathered.result.total;
        let mut text = format!("{:.0} requests, {:.0} bytes", total.requests, total.bytes);
        if self.tells_handling() {
            let asked = total.hits + total.misses;
            let hits = if asked > 0.0 { total.hits * 100.0 / asked } else { 0.0 };
            text += &format!(", {hits:.1} % hits, {:.1} s of backends", total.backend_seconds);
        }
        text.push('\n');
        for listing in &self.listings {
            let (n, is_exact) = listing.distinct;
            let about = if is_exact { "" } else { "about " };
            text += &format!("\n{} by {} ({about}{n:.0})\n", listing.by.heading(), self.options.measure.word());
            text += &format!("{}\n", heading(listing.by, self.tells_handling()));
            for row in &listing.ranking.rows {
                text += &format!("{}\n", line(listing, row, self.options.measure, self.tells_handling()));
            }
            let rows = listing.ranking.rows.len();
            if listing.ranking.certain < rows {
                text += &format!("(Certain are the first {} of these: give more --memory.)\n", listing.ranking.certain);
            }
        }
        text
    }

    fn tells_handling(&self) -> bool {
        let tally = &self.gathered.result;
        tally.without_handling < tally.total.requests as u64
    }

    pub fn json(&self) -> Value {
        let tally = &self.gathered.result;
        let tells = self.tells_handling();
        let sums = |sums: &Sums| {
            let known = |value: f64| if tells { json!(value) } else { Value::Null };
            json!({ "requests": sums.requests, "bytes": sums.bytes, "hits": known(sums.hits), "misses": known(sums.misses),
                    "backend_seconds": known(rounded(sums.backend_seconds)) })
        };
        let measure = self.options.measure;
        let row = |listing: &Listing, row: &Hitter| {
            let mut value = sums(&row.sums);
            value["key"] = json!(String::from_utf8_lossy(&row.key));
            value["percent"] = json!(rounded(share(row, &listing.total, measure)));
            value["error"] = json!(rounded(row.error));
            if let Some(elements) = row.elements {
                value["elements"] = json!(elements.round());
            }
            value
        };
        let tables = self.listings.iter().map(|listing| {
            json!({ "by": listing.by.word(), "distinct": listing.distinct.0.round(), "is_distinct_exact": listing.distinct.1,
                    "certain": listing.ranking.certain,
                    "rows": listing.ranking.rows.iter().map(|r| row(listing, r)).collect::<Vec<_>>() })
        });
        json!({
            "measure": measure.word(), "total": sums(&tally.total),
            "from": tally.times.map(|times| times.0 as f64 / 1e9), "to": tally.times.map(|times| times.1 as f64 / 1e9),
            "tables": tables.collect::<Vec<_>>(), "remarks": self.remarks(),
        })
    }
}

/// The share of a row, of a hundred.
pub fn share(row: &Hitter, total: &Sums, measure: HittersMeasure) -> f64 {
    let whole = total.of(measure);
    if whole > 0.0 { row.sums.of(measure) * 100.0 / whole } else { 0.0 }
}

fn rounded(number: f64) -> f64 {
    (number * 1e6).round() / 1e6
}

fn heading(by: GroupBy, tells_handling: bool) -> String {
    let more = if tells_handling { "  hits %  backend s" } else { "" };
    let elements = if by == GroupBy::Page { "  elements" } else { "" };
    format!("  share %    requests           bytes{more}{elements}")
}

fn line(listing: &Listing, row: &Hitter, measure: HittersMeasure, tells_handling: bool) -> String {
    let sums = &row.sums;
    // Half of the unit in which the measure is shown.
    let at_least =
        if row.error > 0.5 || measure == HittersMeasure::BackendTime && row.error > 0.005 { ">" } else { " " };
    let mut text = format!(
        "{at_least}{:>8.2}  {:>10.0}  {:>14.0}",
        share(row, &listing.total, measure),
        sums.requests,
        sums.bytes
    );
    if tells_handling {
        let asked = sums.hits + sums.misses;
        let hits = if asked > 0.0 { format!("{:.1}", sums.hits * 100.0 / asked) } else { "-".to_owned() };
        text += &format!("  {hits:>6}  {:>9.2}", sums.backend_seconds);
    }
    if listing.by == GroupBy::Page {
        text += &format!("  {:>8.0}", row.elements.unwrap_or_default());
    }
    format!("{text}  {}", printable(&row.key))
}

/// A key without what would move a cursor.
pub fn printable(key: &[u8]) -> String {
    base::text::one_line(&String::from_utf8_lossy(key), '.')
}
