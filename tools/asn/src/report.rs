// SPDX-License-Identifier: BSD-2-Clause
//! Tables of shares: as text, JSON and a picture (SVG).

use std::collections::HashMap;

use accesslog::{EntryStamp, Gathered};
use networks::Database;
use serde_json::{Value, json};

use crate::options::{AsnGroup, AsnOptions, ShareMeasure};
use crate::tally::{AsnTally, RequestSum, WindowCounts, ahead};

#[derive(Clone, PartialEq, Debug)]
struct Row {
    /// The number of a network; 0: of none that is known.
    asn: u32,
    /// Two letters, or nothing.
    country: String,
    name: String,
    sum: RequestSum,
}

#[derive(Debug)]
struct Table {
    /// `None`: no entry had a time.
    times: Option<(EntryStamp, EntryStamp)>,
    rows: Vec<Row>,
    total: RequestSum,
    /// Those that are not in `rows`: how many, and what they are together.
    others: (usize, RequestSum),
}

pub struct AsnReport<'a> {
    options: &'a AsnOptions,
    gathered: &'a Gathered<AsnTally>,
    tables: Vec<Table>,
    silent: Vec<String>,
}

impl<'a> AsnReport<'a> {
    pub fn new(options: &'a AsnOptions, gathered: &'a Gathered<AsnTally>, database: &Database) -> AsnReport<'a> {
        let tables = gathered.result.parts.values().map(|part| Table::new(part, options, database)).collect();
        AsnReport { options, gathered, tables, silent: database.silent() }
    }

    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    pub fn remarks(&self) -> Vec<String> {
        let tally = &self.gathered.result;
        let counts = [
            (tally.no_address, "requests whose client is no address"),
            (tally.no_time, "requests without a time"),
            (tally.other_times, "requests of other times"),
            (tally.other_countries, "requests from other countries"),
            (tally.too_many, "requests of too many windows of time"),
        ];
        let counts = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what} left out"));
        counts.chain(self.gathered.remarks()).chain(self.silent.iter().cloned()).chain(self.mismatch()).collect()
    }

    /// The files know something about the addresses, but not what was asked for.
    fn mismatch(&self) -> Option<String> {
        let rows = || self.tables.iter().flat_map(|table| &table.rows);
        let has_nothing = match self.options.group {
            AsnGroup::Network => rows().all(|row| row.asn == 0),
            AsnGroup::Country => rows().all(|row| row.country.is_empty()),
        };
        let is_mismatch = has_nothing && rows().next().is_some() && self.silent.len() < self.options.databases.len();
        is_mismatch.then(|| match self.options.group {
            AsnGroup::Network => "no file knows networks; --group country shows the countries".to_owned(),
            AsnGroup::Country => "no file knows countries; --group asn shows the networks".to_owned(),
        })
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for table in &self.tables {
            if !text.is_empty() {
                text.push('\n');
            }
            if let Some(times) = table.times {
                text += &format!("{}, ", between(times));
            }
            let rate = table.megabits(table.total).map_or(String::new(), |rate| format!(", {rate:.2} Mb/s"));
            text += &format!("{} requests, {} bytes{rate}\n\n", table.total.requests, table.total.bytes);
            text += match self.options.group {
                AsnGroup::Network => "Percent  Mb/s      ASN     ASN Description\n",
                AsnGroup::Country => "Percent  Mb/s      Country\n",
            };
            let shares = |sum: RequestSum| {
                let rate = table.megabits(sum).map_or("-".to_owned(), |rate| format!("{rate:.2}"));
                let percent = format!("{:.2}", percent(sum, table.total, self.options.measure));
                format!("{percent:<9}{rate:<10}")
            };
            for row in &table.rows {
                let shares = shares(row.sum);
                let line = match self.options.group {
                    AsnGroup::Network if row.asn == 0 => format!("{shares}{:<8}{}", "-", row.name),
                    AsnGroup::Network => format!("{shares}{:<8}{}", row.asn, row.name),
                    AsnGroup::Country => format!("{shares}{}", row.name),
                };
                text += line.trim_end();
                text.push('\n');
            }
            let (count, sum) = table.others;
            if count > 0 {
                let shares = shares(sum);
                text += &match self.options.group {
                    AsnGroup::Network => format!("{shares}{:<8}{count} others\n", "-"),
                    AsnGroup::Country => format!("{shares}{count} others\n"),
                };
            }
        }
        text
    }

    pub fn json(&self) -> Value {
        let group = |row: &Row, table: &Table| {
            let total = table.total;
            let mut group = json!({
                "megabits_per_second": table.megabits(row.sum).map(rounded),
                "requests": row.sum.requests, "bytes": row.sum.bytes,
                "percent_requests": rounded(percent(row.sum, total, ShareMeasure::Requests)),
                "percent_bytes": rounded(percent(row.sum, total, ShareMeasure::Bytes)),
                "country": if row.country.is_empty() { Value::Null } else { json!(row.country) },
            });
            if self.options.group == AsnGroup::Network {
                group["asn"] = if row.asn == 0 { Value::Null } else { json!(row.asn) };
                group["name"] = json!(row.name);
            }
            group
        };
        let windows: Vec<Value> = self
            .tables
            .iter()
            .map(|table| {
                json!({
                    "from": table.times.map(|times| times.0.ns as f64 / 1e9), "to": table.times.map(|times| times.1.ns as f64 / 1e9),
                    "megabits_per_second": table.megabits(table.total).map(rounded),
                    "requests": table.total.requests, "bytes": table.total.bytes,
                    "groups": table.rows.iter().map(|row| group(row, table)).collect::<Vec<_>>(),
                    "others": { "groups": table.others.0, "requests": table.others.1.requests, "bytes": table.others.1.bytes },
                })
            })
            .collect();
        json!({ "windows": windows, "remarks": self.remarks() })
    }

    /// A bar for each line of each table, one below the other.
    pub fn svg(&self) -> String {
        const LINE: usize = 20;
        const LEFT: usize = 320;
        const BAR: usize = 480;
        const WIDTH: usize = LEFT + BAR + 80;
        let lines: usize = self.tables.iter().map(|table| table.rows.len() + 2).sum();
        let mut at = 0;
        let mut bars = String::new();
        for table in &self.tables {
            at += LINE;
            let what = match self.options.measure {
                ShareMeasure::Bytes => "bytes",
                ShareMeasure::Requests => "requests",
            };
            let title = table.times.map_or(String::new(), |times| format!("{}: ", between(times)));
            bars +=
                &format!("<text x=\"8\" y=\"{at}\" font-weight=\"bold\">{}share of {what}</text>\n", escaped(&title));
            let longest =
                table.rows.iter().map(|row| percent(row.sum, table.total, self.options.measure)).fold(1e-9, f64::max);
            for row in &table.rows {
                at += LINE;
                let share = percent(row.sum, table.total, self.options.measure);
                let width = share / longest * BAR as f64;
                let name: String = row.name.chars().take(40).collect();
                let name = if row.asn == 0 { name } else { format!("{name} (AS{})", row.asn) };
                bars += &format!(
                    "<text x=\"{}\" y=\"{at}\" text-anchor=\"end\">{}</text><rect x=\"{LEFT}\" y=\"{}\" width=\"{width:.1}\" height=\"14\" \
                     fill=\"#4a7ba6\"/><text x=\"{:.1}\" y=\"{at}\">{share:.2} %</text>\n",
                    LEFT - 8,
                    escaped(&name),
                    at - 12,
                    LEFT as f64 + width + 6.0
                );
            }
            at += LINE;
        }
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{bars}</svg>\n",
            lines * LINE
        )
    }
}

impl Table {
    /// The rate of so many bytes from the first to the last request, which came in some part of its second.
    fn megabits(&self, sum: RequestSum) -> Option<f64> {
        let (first, last) = self.times?;
        Some(sum.bytes as f64 * 8.0 / 1e6 / ((last.ns - first.ns) as f64 / 1e9 + 1.0))
    }

    fn new(part: &WindowCounts, options: &AsnOptions, database: &Database) -> Table {
        let mut total = RequestSum::default();
        let mut groups: HashMap<(u32, Option<[u8; 2]>), RequestSum> = HashMap::new();
        let mut countries: HashMap<u32, [u8; 2]> = HashMap::new();
        for (origin, sum) in &part.sums {
            total.add(*sum);
            let key = match options.group {
                AsnGroup::Network => (origin.asn, None),
                AsnGroup::Country => (0, origin.country),
            };
            if let Some(country) = origin.country {
                countries.entry(origin.asn).or_insert(country);
            }
            groups.entry(key).or_default().add(*sum);
        }
        let letters =
            |country: Option<[u8; 2]>| country.map_or(String::new(), |c| String::from_utf8_lossy(&c).into_owned());
        let mut rows: Vec<Row> = groups
            .into_iter()
            .map(|((asn, country), sum)| match options.group {
                AsnGroup::Country => {
                    let name = if country.is_none() { "unknown".to_owned() } else { letters(country) };
                    Row { asn: 0, country: letters(country), name, sum }
                }
                AsnGroup::Network => {
                    let name = if asn == 0 { "unknown".to_owned() } else { database.name(asn).unwrap_or_default() };
                    let country = letters(countries.get(&asn).copied().filter(|_| asn != 0));
                    Row { asn, country, name, sum }
                }
            })
            .collect();
        let measured = |row: &Row| match options.measure {
            ShareMeasure::Bytes => (row.sum.bytes, row.sum.requests),
            ShareMeasure::Requests => (row.sum.requests, row.sum.bytes),
        };
        rows.sort_by(|a, b| measured(b).cmp(&measured(a)).then(a.asn.cmp(&b.asn)).then(a.name.cmp(&b.name)));
        let rest = if options.top == 0 { Vec::new() } else { rows.split_off(options.top.min(rows.len())) };
        let mut others = (rest.len(), RequestSum::default());
        rest.iter().for_each(|row| others.1.add(row.sum));
        Table { times: part.times, rows, total, others }
    }
}

fn percent(sum: RequestSum, total: RequestSum, measure: ShareMeasure) -> f64 {
    let (part, whole) = match measure {
        ShareMeasure::Bytes => (sum.bytes, total.bytes),
        ShareMeasure::Requests => (sum.requests, total.requests),
    };
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

fn rounded(percent: f64) -> f64 {
    (percent * 1e4).round() / 1e4
}

/// `2012-09-06 12:00:00 to 12:59:59 +1200`, by the log's own clock.
fn between((first, last): (EntryStamp, EntryStamp)) -> String {
    let seconds = |time: EntryStamp| (time.ns + ahead(time)).div_euclid(1_000_000_000);
    let day = |time| {
        let (year, month, day) = message::date::civil(seconds(time).div_euclid(86_400));
        format!("{year}-{month:02}-{day:02}")
    };
    let clock = |time| {
        let s = seconds(time).rem_euclid(86_400);
        format!("{:02}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    };
    let minutes = ahead(last) / 60_000_000_000;
    let zone = format!("{}{:02}{:02}", if minutes < 0 { '-' } else { '+' }, minutes.abs() / 60, minutes.abs() % 60);
    let until = if day(first) == day(last) { clock(last) } else { format!("{} {}", day(last), clock(last)) };
    format!("{} {} to {until} {zone}", day(first), clock(first))
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_log() {
        let stamp = |text: &str| EntryStamp::parse(text).unwrap();
        let shown = |first, last| between((stamp(first), stamp(last)));
        let noon = shown("06/Sep/2012:12:00:00 +1200", "06/Sep/2012:12:59:59 +1200");
        assert_eq!(noon, "2012-09-06 12:00:00 to 12:59:59 +1200");
        let night = shown("31/Dec/2012:23:00:00 -0330", "01/Jan/2013:01:00:00 -0330");
        assert_eq!(night, "2012-12-31 23:00:00 to 2013-01-01 01:00:00 -0330");
    }
}
