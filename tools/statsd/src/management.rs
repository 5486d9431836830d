// SPDX-License-Identifier: BSD-2-Clause
//! The management port: all commands of node statsd and of the Perl port, a line each.

use std::rc::Rc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::config::{ScriptValue, StatsdConfig, StatsdDialect};
use crate::server::StatsdServer;
use crate::show::{self, StatsdShow};
use crate::store::MetricStore;
use crate::table::{StatName, StatsdTable};
use crate::{accept, clock, number};

const CONNECTIONS: usize = 64;
const COMMAND_BYTES: usize = 64 * 1024;
/// Time for the rest of a command that has no newline yet; node takes each segment for a command.
const REST: Duration = Duration::from_millis(50);
/// Time in which an answer has to be read.
const PATIENCE: Duration = Duration::from_secs(10);

pub async fn serve(listener: TcpListener, server: Rc<StatsdServer>) {
    accept::each(listener, CONNECTIONS, |stream| {
        let server = Rc::clone(&server);
        async move { connection(stream, &server).await }
    })
    .await;
}

async fn connection(mut stream: TcpStream, server: &StatsdServer) -> std::io::Result<()> {
    let mut waiting = Vec::new();
    let mut bytes = vec![0; 4096];
    loop {
        let read = stream.read(&mut bytes);
        let n = match tokio::time::timeout(if waiting.is_empty() { Duration::MAX } else { REST }, read).await {
            Ok(n) => n?,
            Err(_) => {
                // Nothing more came: it's a command as it stands.
                waiting.push(b'\n');
                0
            }
        };
        waiting.extend_from_slice(&bytes[..n]);
        let ended = n == 0 && waiting.last() != Some(&b'\n');
        if ended && !waiting.is_empty() {
            waiting.push(b'\n');
        }
        while let Some(end) = memchr::memchr(b'\n', &waiting) {
            let line: Vec<u8> = waiting.drain(..=end).map(|b| b & 0x7f).collect();
            match answer(server, &String::from_utf8_lossy(&line)) {
                Some(text) => tokio::time::timeout(PATIENCE, stream.write_all(text.as_bytes())).await??,
                None => return stream.shutdown().await,
            }
        }
        if ended || waiting.len() > COMMAND_BYTES {
            return Ok(());
        }
    }
}

/// A command's answer; None closes the connection.
pub fn answer(server: &StatsdServer, line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let command = words.next().unwrap_or_default();
    let words: Vec<&str> = words.collect();
    server.collect();
    let mut store = server.store.borrow_mut();
    let dialect = server.config.borrow().dialect;
    Some(match command {
        "help" => HELP.to_owned(),
        "config" => config(&server.config.borrow()),
        "health" => health(server, &words),
        "stats" => {
            drop(store);
            stats(server)
        }
        "counters" => dump(dialect, numbers(&store.counters, |n| *n)),
        "gauges" => dump(dialect, numbers(&store.gauges, |g| g.value)),
        "timers" => dump(dialect, object(&store.timers, |timer| StatsdShow::numbers(&timer.values))),
        "sets" => dump(
            dialect,
            object(&store.sets, |set| StatsdShow::List(set.list().iter().map(|m| StatsdShow::text(m)).collect())),
        ),
        "totals" => {
            let lines = server.totals.borrow().lines(&store);
            format!("{}END\n\n", String::from_utf8_lossy(&lines))
        }
        "delcounters" => delete(&mut store, &words, |s| names(&s.counters), MetricStore::delete_counter),
        "deltimers" => delete(&mut store, &words, |s| names(&s.timers), MetricStore::delete_timer),
        "delgauges" => delete(&mut store, &words, |s| names(&s.gauges), MetricStore::delete_gauge),
        "quit" => return None,
        _ => "ERROR\n".to_owned(),
    })
}

/// Node's line, which scripts may compare; what the Perl port adds, and ours.
const HELP: &str = "\
Commands: stats, counters, timers, gauges, delcounters, deltimers, delgauges, health, config, quit
Also: sets, totals

";

fn health(server: &StatsdServer, words: &[&str]) -> String {
    match words.first().map(|word| word.to_ascii_lowercase()).as_deref() {
        Some("up") => server.healthy.set(true),
        Some("down") => server.healthy.set(false),
        _ => {}
    }
    format!("health: {}\n", if server.healthy.get() { "up" } else { "down" })
}

fn stats(server: &StatsdServer) -> String {
    let now = clock::seconds();
    let mut out = format!("uptime: {}\n", now.saturating_sub(server.started));
    for (name, value) in server.stats() {
        // What happened last is told as how long ago that is.
        let value = if name.contains(".last_") { now as f64 - value } else { value };
        out.push_str(&format!("{name}: {}\n", number::show(value)));
    }
    out.push_str("END\n\n");
    out
}

fn dump(dialect: StatsdDialect, tree: StatsdShow) -> String {
    let text = match dialect {
        StatsdDialect::Node => show::inspect(&tree, 2, false),
        StatsdDialect::Perl => show::json(&tree),
    };
    format!("{text}\nEND\n\n")
}

fn object<T>(table: &StatsdTable<T>, value: impl Fn(&T) -> StatsdShow) -> StatsdShow {
    let order = table.in_script_order();
    let members = order.iter().filter_map(|at| table.slot(*at));
    StatsdShow::Object(members.map(|(name, v)| (String::from_utf8_lossy(name).into_owned(), value(v))).collect())
}

fn numbers<T>(table: &StatsdTable<T>, value: impl Fn(&T) -> f64) -> StatsdShow {
    object(table, |v| StatsdShow::Number(value(v)))
}

fn names<T>(table: &StatsdTable<T>) -> Vec<StatName> {
    table.iter().map(|(name, _)| name.clone()).collect()
}

/// A word is a name, or `folder.*` for all names that begin with `folder.`.
fn delete(
    store: &mut MetricStore,
    words: &[&str],
    names: impl Fn(&MetricStore) -> Vec<StatName>,
    mut one: impl FnMut(&mut MetricStore, &[u8]) -> bool,
) -> String {
    let mut out = String::new();
    for word in words {
        let mut gone: Vec<String> = Vec::new();
        if one(store, word.as_bytes()) {
            gone.push((*word).to_owned());
        }
        if let Some(folder) = word.strip_suffix('*').filter(|folder| folder.ends_with('.')) {
            for name in names(store).iter().filter(|name| name.starts_with(folder.as_bytes())) {
                one(store, name);
                gone.push(String::from_utf8_lossy(name).into_owned());
            }
        }
        if gone.is_empty() {
            out.push_str(&format!("metric {word} not found\n"));
        }
        gone.iter().for_each(|name| out.push_str(&format!("deleted: {name}\n")));
    }
    out.push_str("END\n\n");
    out
}

/// The file's members, and what node fills in.
fn config(config: &StatsdConfig) -> String {
    let mut out = String::from("\n");
    let ScriptValue::Object(members) = &config.raw else { return out };
    let mut line = |name: &str, value: &ScriptValue| match value {
        ScriptValue::Object(members) => {
            members.iter().for_each(|(sub, v)| out.push_str(&format!("{name} > {sub}: {}\n", v.show())));
        }
        ScriptValue::List(list) => {
            list.iter().enumerate().for_each(|(at, v)| out.push_str(&format!("{name} > {at}: {}\n", v.show())));
        }
        ScriptValue::Null => {}
        plain => out.push_str(&format!("{name}: {}\n", plain.show())),
    };
    members.iter().for_each(|(name, value)| line(name, value));
    let ttl = f64::from(config.delete.gauges.unwrap_or(1));
    let filled = [
        ("gaugesMaxTTL", ScriptValue::Number(ttl)),
        ("deleteIdleStats", ScriptValue::Bool(false)),
        ("flushInterval", ScriptValue::Number(config.flush_interval_ms)),
    ];
    for (name, value) in filled.iter().filter(|(name, _)| *config.raw.get(name) == ScriptValue::Null) {
        line(name, value);
    }
    out
}
