// SPDX-License-Identifier: BSD-2-Clause
//! The result of `--bots` as text and JSON.

use accesslog::Gathered;
use accounts::{Level, LevelCosts};
use serde_json::{Value, json};

use super::witness::StepCount;
use super::{BotsPlan, BotsStep, BotsTally};
use crate::report::{percent, rounded};

/// Rows of each table.
const ROWS: usize = 10;
/// Levels whose accounts are listed, with the heading of their names.
const LEVELS: [(Level, &str); 3] =
    [(Level::Wide, "network"), (Level::Agent, "User-Agent"), (Level::Bot, "declared bot")];

pub struct BotsReport<'a> {
    plan: &'a BotsPlan,
    gathered: &'a Gathered<BotsTally>,
    costs: Vec<(&'static str, Vec<LevelCosts>)>,
}

impl<'a> BotsReport<'a> {
    pub fn new(plan: &'a BotsPlan, gathered: &'a mut Gathered<BotsTally>) -> BotsReport<'a> {
        let costs = LEVELS.map(|(level, heading)| (heading, gathered.result.top(level, ROWS))).into();
        BotsReport { plan, gathered, costs }
    }

    pub fn text(&self) -> String {
        let tally = &self.gathered.result;
        let (readers, all) = tally.witness.served_seconds();
        let mut text = format!(
            "{} requests of {} clients in {:.0} s, of which {} load parts of pages or send cookies: readers\n",
            tally.requests,
            tally.witness.clients(),
            tally.seconds,
            tally.witness.readers()
        );
        text += &format!("{} requests need the origin for {:.1} s\n", tally.fetches, tally.origin_seconds);
        text += &format!(
            "--bots=on would spare it {:.1} s ({:.1} %); {:.1} % of the rest is for readers\n\n",
            tally.spared_seconds,
            percent(tally.spared_seconds, tally.origin_seconds),
            percent(readers, all)
        );
        text += &format!(
            "{:<10}{:>12}{:>12}{:>22}{:>12}\n",
            "step", "requests", "clients", "requests of readers", "readers"
        );
        for step in BotsStep::ALL {
            let StepCount { clients, requests, readers, readers_requests } = tally.witness.step(step);
            text += &format!("{:<10}{requests:>12}{clients:>12}{readers_requests:>22}{readers:>12}\n", step.word());
        }
        text + &self.held_text() + &self.costs_text()
    }

    fn held_text(&self) -> String {
        let groups = self.gathered.result.held.top(ROWS);
        if groups.is_empty() {
            return "\nno request would be in the class crawl\n".into();
        }
        let mut text = format!(
            "\n{:>10}{:>10}{:>12}  in the class crawl, and the latest reason\n",
            "requests", "held", "spared s"
        );
        for (kind, name, group) in groups {
            text += &format!("{:>10}{:>10}{:>12.1}  {kind} {name}\n", group.requests, group.held, group.spared_seconds);
            text += &format!("{:34}{}\n", "", group.reason);
        }
        text
    }

    fn costs_text(&self) -> String {
        let mut text = String::new();
        for (heading, rows) in self.costs.iter().filter(|(_, rows)| !rows.is_empty()) {
            text += &format!("\n{:>10}{:>10}{:>12}{:>8}  {heading}\n", "requests", "misses", "origin s", "solo %");
            for row in rows {
                let LevelCosts { name, requests, misses, origin_seconds, solo_share, .. } = row;
                text += &format!(
                    "{requests:>10.0}{misses:>10.0}{origin_seconds:>12.1}{:>8.0}  {name}\n",
                    solo_share * 100.0
                );
            }
        }
        text
    }

    pub fn json(&self) -> Value {
        let tally = &self.gathered.result;
        let (readers, all) = tally.witness.served_seconds();
        let steps: serde_json::Map<String, Value> = BotsStep::ALL
            .iter()
            .map(|step| {
                let StepCount { clients, requests, readers, readers_requests } = tally.witness.step(*step);
                let count = json!({ "requests": requests, "clients": clients, "readers_requests": readers_requests, "readers": readers });
                (step.word().to_owned(), count)
            })
            .collect();
        let held = tally.held.top(ROWS).into_iter().map(|(kind, name, group)| {
            json!({ "kind": kind, "name": name, "requests": group.requests, "held": group.held,
                    "spared_seconds": rounded(group.spared_seconds), "reason": group.reason })
        });
        let costs: serde_json::Map<String, Value> =
            self.costs.iter().map(|(heading, rows)| ((*heading).to_owned(), costs_json(rows))).collect();
        json!({
            "requests": tally.requests, "seconds": rounded(tally.seconds), "clients": tally.witness.clients(),
            "readers": tally.witness.readers(), "readers_requests": tally.witness.readers_requests(),
            "fetches": tally.fetches, "origin_seconds": rounded(tally.origin_seconds), "spared_seconds": rounded(tally.spared_seconds),
            "readers_share_percent": rounded(percent(readers, all)),
            "steps": steps, "crawl": held.collect::<Vec<_>>(), "costs": costs, "remarks": self.remarks(),
        })
    }

    /// The signals that the log lacks, and what else there is to know.
    pub fn remarks(&self) -> Vec<String> {
        let (tally, signals) = (&self.gathered.result, self.gathered.result.signals);
        let hits = format!("the log doesn't say which requests were hits: simulated with a TTL of {} s", self.plan.ttl);
        let times = format!("the log has no backend times: each fetch counts {} s", self.plan.fetch_seconds);
        let told = [
            (signals.addresses, "the log has no addresses: all clients are one".to_owned()),
            (signals.agents, "the log has no User-Agents".to_owned()),
            (signals.handlings, hits),
            (signals.backend_times, times),
            (
                tally.witness.readers() as u64,
                "nobody loads parts of pages or sends a cookie: readers aren't known".to_owned(),
            ),
        ];
        let missing = told.into_iter().filter(|(count, _)| *count == 0).map(|(_, text)| text);
        let usual =
            ["a log has no TLS fingerprints, networks and signatures: the server judges by these, too".to_owned()];
        let untold = tally.witness.untold + tally.held.untold;
        let counts = [
            (tally.clock.doubted, "requests are of quite another time than those around them: theirs was taken"),
            (tally.clock.went_back, "times the log goes back by more than an hour: are its files in order?"),
            (untold, "requests of clients or groups beyond the most that are told apart"),
        ];
        let counts = counts.into_iter().filter(|(n, _)| *n > 0).map(|(n, text)| format!("{n} {text}"));
        missing.chain(usual).chain(counts).chain(self.gathered.remarks()).collect()
    }
}

fn costs_json(rows: &[LevelCosts]) -> Value {
    let row = |row: &LevelCosts| {
        json!({ "name": row.name.to_string(), "requests": rounded(row.requests), "misses": rounded(row.misses),
                "origin_seconds": rounded(row.origin_seconds), "bytes_missed": rounded(row.bytes_missed),
                "shared": rounded(row.shared), "solo_percent": rounded(row.solo_share * 100.0) })
    };
    rows.iter().map(row).collect()
}
