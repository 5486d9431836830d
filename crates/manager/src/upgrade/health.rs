// SPDX-License-Identifier: BSD-2-Clause
//! Backends as they were: what an operator set with `backend.set_health` holds for the next worker, too, and one that is
//! healthy for the present worker is probed before the next one serves. A backend with a probe begins sick.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::manager::Manager;
use crate::reply::ReplyExt;
use crate::worker::ManagedWorker;

/// Longest wait for the first results of probes.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    /// The operator's setting: `healthy`, `sick` or `probe`. A backend without a probe is `healthy` from the start.
    admin: String,
    is_healthy: bool,
}

impl Manager {
    /// Has the new worker's backends be as those of the one whose place it takes, as far as both have them.
    pub(crate) fn carry_health(&mut self) {
        if !self.upgrade.is_taking_over {
            return;
        }
        let Some(leaving) = self.upgrade.leaving.last_mut() else { return };
        let before = rows(&mut leaving.worker);
        let fresh = rows(&mut self.worker);
        for (name, row) in &before {
            let is_set = row.admin != "probe" && fresh.get(name).is_some_and(|fresh| fresh.admin != row.admin);
            if is_set {
                let words = ["backend.set_health", name.as_str(), row.admin.as_str()];
                let _ = self.worker.command(cli::client::encode(&words));
            }
        }
        let deadline = Instant::now() + PATIENCE;
        // A cold VCL's aren't probed.
        let warm = self.vcls.warm_names();
        let is_probed = |name: &str| name.split_once('.').is_some_and(|(vcl, _)| warm.iter().any(|w| w == vcl));
        let needed: Vec<&String> =
            before.iter().filter(|(name, row)| row.is_healthy && is_probed(name)).map(|(name, _)| name).collect();
        let is_back =
            |now: &HashMap<String, Row>| needed.iter().all(|name| now.get(*name).is_none_or(|row| row.is_healthy));
        while !is_back(&rows(&mut self.worker)) && Instant::now() < deadline {
            self.worker.wait_output(LOOK);
        }
    }
}

/// The backends of a worker by name; none when it doesn't answer.
fn rows(worker: &mut ManagedWorker) -> HashMap<String, Row> {
    let reply = worker.command("backend.list *.*");
    if !reply.is_ok() {
        return HashMap::new();
    }
    read(&reply.text())
}

/// Reads `backend.list`: name, what the operator said, the probe's last ones, health, date.
fn read(text: &str) -> HashMap<String, Row> {
    let rows = text.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, admin, _, health, ..] = words[..] else { return None };
        Some((name.to_owned(), Row { admin: admin.to_owned(), is_healthy: health == "healthy" }))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let text = "Backend name Admin   Probe Health  Last change\n\
                    boot.a       probe   8/8   healthy Mon, 23 Nov 2026 05:05:06 GMT\n\
                    boot.b       sick    0/0   sick    Mon, 23 Nov 2026 05:05:06 GMT\n";
        let rows = read(text);
        assert_eq!(rows["boot.a"], Row { admin: "probe".to_owned(), is_healthy: true });
        assert_eq!(rows["boot.b"], Row { admin: "sick".to_owned(), is_healthy: false });
    }
}
