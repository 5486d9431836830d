// SPDX-License-Identifier: BSD-2-Clause
//! The reply to `bots.list`: who costs the origin most.

use std::fmt::Write;

use engine::costs::{CostReport, CostRow};
use tables::json::quote;

/// Rows of each kind, unless the command says how many, and at most.
pub const ROWS: usize = 10;
pub const MOST_ROWS: usize = 100;

pub fn text(report: &CostReport) -> String {
    let (requests, seconds) = report.total;
    let mut out = format!("{requests:.0} requests, {seconds:.1} s of the origin's time\n");
    let mut kind = "";
    for row in &report.rows {
        if row.kind != kind {
            kind = row.kind;
            let _ = writeln!(
                out,
                "\n{:>10} {:>7} {:>9} {:>9} {:>6}  {:<8}  {kind}",
                "origin s", "%", "requests", "misses", "solo %", "verdict"
            );
        }
        let CostRow { costs, .. } = row;
        let _ = writeln!(
            out,
            "{:>10.2} {:>7.2} {:>9.0} {:>9.0} {:>6.0}  {:<8}  {}",
            costs.origin_seconds,
            percent(costs.origin_seconds, seconds),
            costs.requests,
            costs.misses,
            costs.solo_share * 100.0,
            row.class.unwrap_or("-"),
            base::text::one_line(&row.name, '.')
        );
    }
    out
}

pub fn json(report: &CostReport, mode: &str) -> String {
    let (requests, seconds) = report.total;
    let rows: Vec<String> = report
        .rows
        .iter()
        .map(|row| {
            let costs = &row.costs;
            format!(
                "    {{ \"kind\": {}, \"name\": {}, \"verdict\": {}, \"requests\": {:.1}, \"misses\": {:.1}, \"origin_seconds\": {:.3}, \
                 \"origin_percent\": {:.2}, \"bytes_missed\": {:.0}, \"shared\": {:.1}, \"solo_percent\": {:.1} }}",
                quote(row.kind),
                quote(&row.name),
                row.class.map_or("null".to_owned(), quote),
                costs.requests,
                costs.misses,
                costs.origin_seconds,
                percent(costs.origin_seconds, seconds),
                costs.bytes_missed,
                costs.shared,
                costs.solo_share * 100.0
            )
        })
        .collect();
    format!(
        ",\n{{\n  \"mode\": {},\n  \"requests\": {requests:.1},\n  \"origin_seconds\": {seconds:.3},\n  \"accounts\": [\n{}\n  ]\n}}",
        quote(mode),
        rows.join(",\n")
    )
}

fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part * 100.0 / whole } else { 0.0 }
}
