// SPDX-License-Identifier: BSD-2-Clause
//! How workers ended: what `restarts` shows. A worker that dies every few minutes serves well enough for nobody to notice.

use std::collections::VecDeque;

use base::Real;
use tables::json::quote;

const KEPT: usize = 20;
/// Most deaths counted for the last hour.
const COUNTED: usize = 100_000;
const HOUR: f64 = 3600.0;

#[derive(Clone, Debug)]
pub struct Death {
    pub at: Real,
    pub lived: f64,
    pub pid: i32,
    pub how: String,
    pub was_asked: bool,
    /// The stores were emptied after it: workers had died again and again.
    pub emptied: bool,
}

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
            self.recent.retain(|at| death.at.since(*at) < HOUR);
        }
        self.last.push_front(death);
        self.last.truncate(KEPT);
    }

    /// The last ones, all that nobody asked for, and when those of the last hour were: for the program after this one.
    pub fn parts(&self) -> (impl Iterator<Item = &Death>, u64, impl Iterator<Item = Real>) {
        (self.last.iter(), self.total, self.recent.iter().copied())
    }

    pub fn from_parts(last: impl Iterator<Item = Death>, total: u64, recent: impl Iterator<Item = Real>) -> Deaths {
        Deaths { last: last.take(KEPT).collect(), total, recent: recent.take(COUNTED).collect() }
    }

    fn in_last_hour(&self, now: Real) -> usize {
        self.recent.iter().filter(|at| now.since(**at) < HOUR).count()
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
                death.lived, death.pid, death.how
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
                death.lived,
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
            deaths.note(Death { at, lived: 300.0, pid: n, how, was_asked: n == 29, emptied: n == 28 });
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
