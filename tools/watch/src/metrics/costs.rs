// SPDX-License-Identifier: BSD-2-Clause
//! Who costs the origin most, by the accounts of `--bots`. Names that a client makes up (addresses, JA4, declared bots) would become new time series
//! without end. So networks and verified bots have their names, and all declared bots of a reply are one.

use serde_json::Value;

use super::Exposition;

/// Kinds of accounts that are shown, the most expensive [`ROWS`] of each.
const KINDS: [&str; 2] = ["network", "bot"];
const ROWS: usize = 10;

const GAUGES: [(&str, &str, &str); 2] = [
    (
        "lacquer_account_origin_seconds",
        "origin_seconds",
        "Seconds of the origin's time, of the most expensive accounts; fade with bots_half_life",
    ),
    (
        "lacquer_account_requests",
        "requests",
        "Requests of the accounts that cost the origin most; fade with bots_half_life",
    ),
];

pub fn add(out: &mut Exposition, said: &Value) {
    let rows = said["accounts"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_declared = |row: &&Value| row["kind"] == "bot" && row["verdict"] != "verified";
    for (metric, member, help) in GAUGES {
        for kind in KINDS {
            for row in rows.iter().filter(|row| row["kind"] == kind && !is_declared(row)).take(ROWS) {
                let labels = [("kind", kind), ("name", row["name"].as_str().unwrap_or_default())];
                out.gauge(metric, help, &labels, row[member].as_f64().unwrap_or(0.0));
            }
        }
        let declared = rows.iter().filter(is_declared).map(|row| row[member].as_f64().unwrap_or(0.0));
        if declared.clone().next().is_some() {
            out.gauge(metric, help, &[("kind", "declared"), ("name", "all")], declared.sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::MetricsFormat;
    use super::*;

    fn text(said: &Value) -> String {
        let mut out = Exposition::default();
        add(&mut out, said);
        out.text(MetricsFormat::Text, "_total")
    }

    #[test]
    fn names_that_clients_make_up_are_no_series() {
        let row = |kind: &str, verdict: &str, name: &str| json!({ "kind": kind, "name": name, "verdict": verdict, "requests": 7, "origin_seconds": 1.5 });
        let mut rows =
            vec![row("client", "crawl", "192.0.2.1"), row("ja4", "", "t13d1516h2_8daaf6152771_b0da82dd1658")];
        rows.extend((0..9).map(|n| row("bot", "declared", &format!("Bot{n}"))));
        rows.extend((0..20).map(|n| row("bot", "verified", &format!("{n}.example"))));
        let text = text(&json!({ "mode": "on", "accounts": rows }));
        assert!(text.contains("lacquer_account_origin_seconds{kind=\"declared\",name=\"all\"} 13.5"), "{text}");
        assert!(text.contains("lacquer_account_requests{kind=\"bot\",name=\"9.example\"} 7"), "{text}");
        assert!(["Bot", "192.0.2.1", "t13d", "10.example"].iter().all(|name| !text.contains(name)), "{text}");
    }

    #[test]
    fn what_is_no_reply_adds_nothing() {
        for said in [json!(null), json!({ "accounts": [1, {}] })] {
            assert!(!text(&said).contains("lacquer_account"));
        }
    }
}
