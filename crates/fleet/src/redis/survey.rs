// SPDX-License-Identifier: BSD-2-Clause
//! Settings of a Redis server by which it may lose entries.

use std::time::Instant;

use base::clock;
use redis_protocol::RedisReply;

use super::{Session, text};
use crate::survey::ServerFact;

const SETTINGS: [&str; 5] = ["appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "min-replicas-to-write"];

impl Session {
    pub(super) fn survey(&mut self, until: Instant) -> Vec<ServerFact> {
        let mut facts: Vec<ServerFact> =
            SETTINGS.iter().map(|name| ServerFact { name, value: self.setting(name, until) }).collect();
        for (section, name) in [("server", "redis_version"), ("replication", "connected_slaves")] {
            facts.push(ServerFact { name, value: self.info(section, name, until) });
        }
        facts
    }

    fn setting(&mut self, name: &str, until: Instant) -> Result<String, String> {
        let reply = self.look(&["CONFIG", "GET", name], until, "+config|get")?;
        let RedisReply::Array(pair) = reply else { return Err(unknown(name)) };
        let value = pair.get(1).and_then(text).ok_or_else(|| unknown(name))?;
        Ok(base::text::printable(&String::from_utf8_lossy(value)))
    }

    fn info(&mut self, section: &str, name: &str, until: Instant) -> Result<String, String> {
        let reply = self.look(&["INFO", section], until, "+info")?;
        let lines = String::from_utf8_lossy(text(&reply).unwrap_or_default()).into_owned();
        let value = lines.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.map(base::text::printable).ok_or_else(|| unknown(name))
    }

    fn look(&mut self, command: &[&str], until: Instant, right: &str) -> Result<RedisReply, String> {
        let named = command.join(" ");
        if clock::now() >= until {
            return Err(format!("{named}: the server takes too long"));
        }
        let words: Vec<Vec<u8>> = command.iter().map(|word| word.as_bytes().to_vec()).collect();
        self.ask(&words).map_err(|fault| match fault.0.starts_with("NOPERM") {
            true => format!("{named}: {fault}; allow it with ACL SETUSER USER {right}"),
            false => format!("{named}: {fault}"),
        })
    }
}

fn unknown(name: &str) -> String {
    format!("the server says nothing about {name}")
}
