// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the configuration's meaning.

use super::*;

struct Nowhere;

impl ScriptWorld for Nowhere {
    fn host_name(&self) -> String {
        "h.example".to_owned()
    }

    fn variable(&self, _name: &str) -> Option<String> {
        None
    }
}

fn config(text: &str) -> Result<StatsdConfig, String> {
    let (value, hashes) = script::read(text, &Nowhere).map_err(|e| e.to_string())?;
    StatsdConfig::from_value(value, hashes).map_err(|e| e.to_string())
}

fn refused(text: &str, reason: &str) {
    assert_eq!(config(text).err().as_deref(), Some(reason), "{text}");
}

#[test]
fn defaults() {
    let c = config("{}").unwrap();
    assert_eq!(c.inputs, [InputConfig::Udp { address: String::new(), port: 8125, v6: false }]);
    assert_eq!(c.management, Some((String::new(), 8126)));
    assert_eq!((c.flush_interval_ms, c.prefix.as_str(), c.dialect), (10_000.0, "statsd", StatsdDialect::Node));
    assert_eq!(c.backends, [BackendConfig::Graphite]);
    assert_eq!((c.graphite.port, c.graphite.legacy, c.graphite.host), (2003, true, None));
    assert_eq!(c.plan.thresholds, [Threshold::new(90.0)]);
    assert_eq!(c.delete, Delete::default());
}

#[test]
fn the_field_reports_files() {
    let node = r#"{ graphitePort: 2003
, graphiteHost: "graphite.localdomain"
, host: "0.0.0.0"
, port: 8125
, backends: [ "./backends/graphite", "./backends/console" ]
, mgmt_address: "0.0.0.0"
, mgmt_port: 8126
}"#;
    let perl = r#"{ "graphitePort": 2003,
  "graphiteHost": "graphite.localdomain",
  "host" : "0.0.0.0",
  "port": 8125,
  "mgmt_address" : "0.0.0.0",
  "mgmt_port": 8126,
  "backends": [ "Graphite", "Console" ],
  "log" : {
    "backend" : "stdout",
    "level" : "LOG_WARN",
  }
}"#;
    for (text, dialect) in [(node, StatsdDialect::Node), (perl, StatsdDialect::Perl)] {
        let c = config(text).unwrap();
        assert_eq!(c.dialect, dialect);
        assert_eq!(c.backends, [BackendConfig::Graphite, BackendConfig::Console]);
        assert_eq!(c.graphite.host.as_deref(), Some("graphite.localdomain"));
        assert_eq!(c.inputs, [InputConfig::Udp { address: "0.0.0.0".to_owned(), port: 8125, v6: false }]);
    }
}

#[test]
fn idle_metrics() {
    let delete = |text: &str| config(text).unwrap().delete;
    let all = Delete { counters: true, timers: true, sets: true, gauges: Some(1) };
    assert_eq!(delete("{deleteIdleStats: true}"), all);
    assert_eq!(delete("{deleteIdleStats: true, deleteGauges: false}"), Delete { gauges: None, ..all });
    assert_eq!(delete("{deleteGauges: true, gaugesMaxTTL: 5}"), Delete { gauges: Some(5), ..Delete::default() });
    assert_eq!(delete("{deleteGauges: true, gaugesMaxTTL: 2.5}"), Delete { gauges: Some(1), ..Delete::default() });
}

#[test]
fn servers_and_suffix() {
    let c = config(
        "{servers: [{server: './servers/udp', port: 1}, {server: './servers/tcp', address: '::1', port: 2}, \
        {server: './servers/tcp', socket: '/run/s', socket_mod: '0660'}], graphite: {globalSuffix: \
        require('os').hostname().split('.')[0], legacyNamespace: false}}",
    )
    .unwrap();
    assert_eq!(c.inputs.len(), 3);
    assert_eq!(c.inputs[2], InputConfig::Unix { path: "/run/s".into(), mode: Some(0o660) });
    assert_eq!((c.graphite.suffix.as_str(), c.graphite.legacy), (".h", false));
}

#[test]
fn what_makes_no_sense_is_refused_with_its_name() {
    refused("[]", "the configuration is no object: it begins with `{`");
    refused("{port: 70000}", "port: expected a number from 1 to 65535");
    refused("{flushInterval: 'soon'}", "flushInterval: expected a number from 1 to 86400000");
    refused(
        "{backends: ['./backends/influx']}",
        "backend \"./backends/influx\" isn't built here; there are graphite, console, file, repeater, prometheus",
    );
    refused(
        "{server: './servers/sctp'}",
        "server \"sctp\" isn't built here; there are ./servers/udp and ./servers/tcp",
    );
    refused("{log: {backend: 'printer'}}", "log.backend: should be 'stdout' or 'syslog'");
    refused("{percentThreshold: [{}]}", "percentThreshold: expected numbers");
}
