// SPDX-License-Identifier: BSD-2-Clause
//! Who costs the origin most, by the accounts of `--bots`. Addresses aren't shown: they would become new time series without end.

use serde_json::Value;

use super::Exposition;

/// Kinds of accounts that are shown, the most expensive [`ROWS`] of each.
const KINDS: [&str; 3] = ["network", "ja4", "bot"];
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
    for kind in KINDS {
        for row in rows.iter().filter(|row| row["kind"] == kind).take(ROWS) {
            let text = |member: &str| row[member].as_str().unwrap_or_default();
            let labels = [("kind", kind), ("name", text("name")), ("verdict", text("verdict"))];
            for (metric, member, help) in GAUGES {
                out.gauge(metric, help, &labels, row[member].as_f64().unwrap_or(0.0));
            }
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
    fn the_most_expensive_bots_are_shown_and_addresses_are_not() {
        let row = |kind: &str, name: &str, seconds: f64| json!({ "kind": kind, "name": name, "verdict": "declared", "requests": 7, "origin_seconds": seconds });
        let mut rows = vec![row("client", "192.0.2.1", 9.0)];
        rows.extend((0..20).map(|n| row("bot", &format!("Bot{n}"), 1.5)));
        let text = text(&json!({ "mode": "on", "accounts": rows }));
        let line = "lacquer_account_origin_seconds{kind=\"bot\",name=\"Bot9\",verdict=\"declared\"} 1.5";
        assert!(text.contains(line) && !text.contains("Bot10") && !text.contains("192.0.2.1"), "{text}");
        assert!(text.contains("lacquer_account_requests{kind=\"bot\",name=\"Bot0\",verdict=\"declared\"} 7"), "{text}");
    }

    #[test]
    fn what_is_no_reply_adds_nothing() {
        for said in [json!(null), json!({ "accounts": [1, {}] })] {
            assert!(!text(&said).contains("lacquer_account"));
        }
    }
}
