// SPDX-License-Identifier: BSD-2-Clause
//! A flush as text for people: node's form on stdout, the Perl port's JSON on stderr.

use std::io::Write as _;

use crate::arith::{Figure, Threshold};
use crate::config::StatsdDialect;
use crate::show::{self, StatsdShow};
use crate::store::Snapshot;
use crate::table::StatName;

/// Writes a flush. That nobody reads it is no error.
pub fn write(flush: &Snapshot, thresholds: &[Threshold], dialect: StatsdDialect, pretty: bool) {
    let when = crate::date::long(flush.timestamp);
    let tree = tree(flush, thresholds);
    let _ = match dialect {
        StatsdDialect::Node => {
            // Node's console joins its two arguments by a space, the first of which ends in one.
            let depth = if pretty { 5 } else { 2 };
            writeln!(std::io::stdout().lock(), "Flushing stats at  {when}\n{}", show::inspect(&tree, depth, pretty))
        }
        StatsdDialect::Perl => writeln!(std::io::stderr().lock(), "Flushing stats at {when}\n{}", show::json(&tree)),
    };
}

/// A flush as node's console backend arranges it.
pub fn tree(flush: &Snapshot, thresholds: &[Threshold]) -> StatsdShow {
    let named = |name: &StatName, value: StatsdShow| (String::from_utf8_lossy(name).into_owned(), value);
    let percents: Vec<f64> = thresholds.iter().map(|t| t.percent).collect();
    let members = [
        ("counters", flush.counters.iter().map(|(n, sum, _)| named(n, StatsdShow::Number(*sum))).collect()),
        ("timers", flush.timers.iter().map(|t| named(&t.name, StatsdShow::numbers(&t.values))).collect()),
        ("gauges", flush.gauges.iter().map(|(n, value)| named(n, StatsdShow::Number(*value))).collect()),
        ("timer_data", flush.timers.iter().map(|t| named(&t.name, figures(&t.figures))).collect()),
        ("counter_rates", flush.counters.iter().map(|(n, _, rate)| named(n, StatsdShow::Number(*rate))).collect()),
        (
            "sets",
            flush
                .sets
                .iter()
                .map(|(n, m)| named(n, StatsdShow::List(m.iter().map(|m| StatsdShow::text(m)).collect())))
                .collect(),
        ),
    ];
    let mut all: Vec<_> = members.into_iter().map(|(name, list)| (name.to_owned(), StatsdShow::Object(list))).collect();
    all.push(("pctThreshold".to_owned(), StatsdShow::numbers(&percents)));
    StatsdShow::Object(all)
}

fn figures(figures: &crate::arith::Figures) -> StatsdShow {
    let object =
        |list: &[Figure]| list.iter().map(|(n, v)| (n.to_string(), StatsdShow::Number(*v))).collect::<Vec<_>>();
    let mut all = object(&figures.plain);
    if let Some(bins) = &figures.bins {
        all.push(("histogram".to_owned(), StatsdShow::Object(object(bins))));
    }
    StatsdShow::Object(all)
}
