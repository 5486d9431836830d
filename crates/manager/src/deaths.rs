// SPDX-License-Identifier: BSD-2-Clause
//! How workers ended: what `restarts` shows. A worker that dies every few minutes serves well enough for nobody to notice.

use std::collections::VecDeque;
use std::time::Duration;

use base::Real;
use base::clock::Mono;
use cli::{record, words};
use tables::json::quote;

use crate::upgrade::carried::{Carried, Successor};

const KEPT: usize = 20;
/// Most deaths counted for the last hour.
const COUNTED: usize = 100_000;
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Death {
    pub at: Real,
    pub lived: Duration,
    pub pid: i32,
    pub how: String,
    pub was_asked: bool,
    /// The stores were emptied after it: workers had died again and again.
    pub emptied: bool,
}

words!(Death { at, lived, pid, how, was_asked, emptied });

/// The last ones, newest first.
#[derive(Debug, Default)]
pub struct Deaths {
    last: VecDeque<Death>,
    total: u64,
    /// Times of the last hour's deaths that nobody asked for.
    recent: VecDeque<Real>,
}

impl Deaths {
    pub fn note(&mut self, death: Death) {
        if !death.was_asked {
            self.total += 1;
            self.recent.push_front(death.at);
            self.recent.truncate(COUNTED);
            self.recent.retain(|at| death.at.since(*at) < HOUR.as_secs_f64());
        }
        self.last.push_front(death);
        self.last.truncate(KEPT);
    }

    fn in_last_hour(&self, now: Real) -> usize {
        self.recent.iter().filter(|at| now.since(**at) < HOUR.as_secs_f64()).count()
    }

    pub fn text(&self, now: Real) -> String {
        let mut out = format!(
            "The worker died {} in the last hour, {} since the manager began.\n",
            times(self.in_last_hour(now) as u64),
            times(self.total)
        );
        for death in &self.last {
            let (date, asked) = (message::date::text(death.at), if death.was_asked { " (was told to)" } else { "" });
            let emptied = if death.emptied { ", then the stores were emptied" } else { "" };
            out.push_str(&format!(
                "{date}  after {:.0} s  pid {}  {}{asked}{emptied}\n",
                death.lived.as_secs_f64(),
                death.pid,
                death.how
            ));
        }
        out
    }

    pub fn json(&self, now: Real) -> String {
        let mut out = format!(
            ",\n  {{\n    \"last_hour\": {},\n    \"total\": {},\n    \"ends\": [",
            self.in_last_hour(now),
            self.total
        );
        for (n, death) in self.last.iter().enumerate() {
            let comma = if n > 0 { "," } else { "" };
            out.push_str(&format!(
                "{comma}\n      {{ \"time\": {:.3}, \"lived\": {:.3}, \"pid\": {}, \"asked\": {}, \"emptied\": {}, \"how\": {} }}",
                death.at.0,
                death.lived.as_secs_f64(),
                death.pid,
                death.was_asked,
                death.emptied,
                quote(&death.how)
            ));
        }
        out.push_str("\n    ]\n  }");
        out
    }
}

record! {
    #[derive(Clone, Debug, Default, PartialEq)]
    pub struct DeathsRecord {
        each "death" pub last: Vec<Death>,
        one "total_deaths" pub total: u64,
        one "recent_deaths" pub recent: Vec<Real>,
    }
}

impl Carried for Deaths {
    type Record = DeathsRecord;

    fn save(&self, _: Mono) -> DeathsRecord {
        let (last, recent) = (self.last.iter().cloned().collect(), self.recent.iter().copied().collect());
        DeathsRecord { last, total: self.total, recent }
    }

    fn restore(record: &DeathsRecord, _: &Successor<'_>) -> Result<Deaths, String> {
        Ok(Deaths {
            last: record.last.iter().take(KEPT).cloned().collect(),
            total: record.total,
            recent: record.recent.iter().take(COUNTED).copied().collect(),
        })
    }
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_owned() } else { format!("{n} times") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deaths_of_the_last_hour_are_counted_and_the_last_are_told() {
        let mut deaths = Deaths::default();
        for n in 0..30 {
            let at = Real(1e9 + 300.0 * f64::from(n));
            let how = "died signal=9".into();
            deaths.note(Death {
                at,
                lived: Duration::from_secs(300),
                pid: n,
                how,
                was_asked: n == 29,
                emptied: n == 28,
            });
        }
        let text = deaths.text(Real(1e9 + 300.0 * 29.0));
        assert!(text.starts_with("The worker died 11 times in the last hour, 29 times since"), "{text}");
        assert_eq!(text.lines().count(), 1 + KEPT);
        assert!(text.lines().nth(1).unwrap().ends_with("pid 29  died signal=9 (was told to)"), "{text}");
        assert!(
            text.lines().nth(2).unwrap().ends_with("pid 28  died signal=9, then the stores were emptied"),
            "{text}"
        );
        assert!(deaths.json(Real(1e9)).contains("\"total\": 29"));
    }
}
