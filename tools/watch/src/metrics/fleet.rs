// SPDX-License-Identifier: BSD-2-Clause
//! The nodes of the server's fleet, each labelled with its name and group. The server's own metrics have neither label:
//! `lacquer_fleet_info` joins them.

use serde_json::Value;

use super::Exposition;

/// A metric, the member of a node's report that it shows, and its help text.
type Row = (&'static str, &'static str, &'static str);

const COUNTERS: &[Row] = &[
    ("requests", "requests", "Requests of clients, by node"),
    ("hits", "hits", "Of the requests of clients, the hits, by node"),
    ("errors", "errors", "Of the requests of clients, those answered with a status of 500 or more, by node"),
    ("panics", "panics", "Of the requests of clients, those that failed by a fault of the program, by node"),
];

const GAUGES: &[Row] = &[
    ("position", "applied", "Number of the entry of the fleet's log that was carried out last, by node"),
    ("lag_seconds", "lag_seconds", "For how long the node has been behind the fleet's log, by node"),
    ("age_seconds", "age_seconds", "How old the node's report is, by node"),
    ("start_time_seconds", "started", "When the node's worker began, in seconds since 1970, by node"),
];

pub fn add(out: &mut Exposition, said: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (fleet, own) = (text(&said["name"]), text(&said["node"]));
    let nodes = said["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_known = said["unknown"].is_null();
    let help = "1: the fleet's nodes are known; 0: what is said of them is as it was when the fleet's board could be reached last";
    out.gauge("lacquer_fleet_known", help, &[], f64::from(u8::from(is_known)));
    for node in nodes {
        let (name, group, vcl) = (text(&node["node"]), text(&node["group"]), text(&node["vcl"]));
        let labels = [("node", name.as_str()), ("group", group.as_str())];
        if name.is_empty() {
            continue;
        }
        if name == own {
            let labels = [("fleet", fleet.as_str()), labels[0], labels[1]];
            out.gauge("lacquer_fleet_info", "1: which node of which fleet this server is", &labels, 1.0);
        }
        let (version, serves) = (text(&node["version"]), text(&node["serves"]));
        let about =
            [labels[0], labels[1], ("vcl", vcl.as_str()), ("version", version.as_str()), ("serves", serves.as_str())];
        out.gauge("lacquer_fleet_node_info", "1: what the node runs and serves, by node", &about, 1.0);
        let is_there = node["away"] == Value::Bool(false);
        let help = "1: the node reports; 0: it is away, by node";
        out.gauge("lacquer_fleet_node_up", help, &labels, f64::from(u8::from(is_there)));
        let count = |name: &str| node[name].as_u64().unwrap_or(0);
        let help = "Entries of the fleet's log that aren't carried out yet, by node";
        out.gauge("lacquer_fleet_node_lag", help, &labels, count("head").saturating_sub(count("applied")) as f64);
        for (metric, member, help) in COUNTERS {
            out.counter(&format!("lacquer_fleet_node_{metric}"), help, &labels, count(member) as f64);
        }
        for (metric, member, help) in GAUGES {
            let value = node[*member].as_f64().unwrap_or(0.0);
            out.gauge(&format!("lacquer_fleet_node_{metric}"), help, &labels, value);
        }
        for store in node["stores"].as_array().map(Vec::as_slice).unwrap_or_default() {
            let store_name = text(&store["name"]);
            let labels = [labels[0], labels[1], ("store", store_name.as_str())];
            let bytes = store["used"].as_u64().unwrap_or(0);
            out.gauge("lacquer_fleet_node_store_used_bytes", "Bytes in use, by node and store", &labels, bytes as f64);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::MetricsFormat;
    use super::*;

    #[test]
    fn nodes_have_their_names_and_groups_for_labels() {
        let node = |name: &str, away: bool| {
            json!({
                "node": name, "group": "web", "away": away, "vcl": "boot", "version": "1.0", "serves": "all", "head": 9, "applied": 7,
                "requests": 5, "hits": 4, "lag_seconds": 0.5, "stores": [{ "name": "s0", "used": 10, "space": 20 }],
            })
        };
        let said = json!({ "name": "site", "node": "n\"1", "unknown": null, "nodes": [node("n\"1", false), node("n2", true)] });
        let mut out = Exposition::default();
        add(&mut out, &said);
        let text = out.text(MetricsFormat::Text, "_total");
        for line in [
            "lacquer_fleet_known 1",
            "lacquer_fleet_info{fleet=\"site\",node=\"n\\\"1\",group=\"web\"} 1",
            "lacquer_fleet_node_info{node=\"n2\",group=\"web\",vcl=\"boot\",version=\"1.0\",serves=\"all\"} 1",
            "lacquer_fleet_node_up{node=\"n\\\"1\",group=\"web\"} 1",
            "lacquer_fleet_node_up{node=\"n2\",group=\"web\"} 0",
            "lacquer_fleet_node_lag{node=\"n2\",group=\"web\"} 2",
            "lacquer_fleet_node_lag_seconds{node=\"n2\",group=\"web\"} 0.5",
            "lacquer_fleet_node_requests_total{node=\"n2\",group=\"web\"} 5",
            "lacquer_fleet_node_store_used_bytes{node=\"n2\",group=\"web\",store=\"s0\"} 10",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line}: {text}");
        }
    }

    #[test]
    fn what_is_no_answer_adds_no_node() {
        for said in [json!(null), json!([]), json!({ "nodes": [1, {}] })] {
            let mut out = Exposition::default();
            add(&mut out, &said);
            assert!(!out.text(MetricsFormat::Text, "_total").contains("lacquer_fleet_info"));
        }
    }
}
