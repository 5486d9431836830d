// SPDX-License-Identifier: BSD-2-Clause
//! The accounts that cost the origin most (parameter `bots`), for the views of operators. Nothing is changed.

use accounts::{Level, LevelCosts, TopAccounts};

use crate::engine::Engine;

#[derive(Debug, Default)]
pub struct CostReport {
    /// Requests, and seconds of the origin's time, of all clients. Like all numbers they fade with `bots_half_life`.
    pub total: (f64, f64),
    /// The most expensive accounts of each kind, the most expensive first.
    pub rows: Vec<CostRow>,
}

#[derive(Debug)]
pub struct CostRow {
    /// `client`, `prefix`, `wide`, `network`, `ja4`, `agent` or `bot`.
    pub kind: &'static str,
    /// The latest verdict: `reader`, `crawl` or `verified`; `declared` for a bot that names itself. Groups have none.
    pub class: Option<&'static str>,
    /// The address, number or text that names the account.
    pub name: String,
    pub costs: LevelCosts,
}

impl Engine {
    /// Lists `most` accounts of each kind; `None` if there are no accounts. The lock is released after each step of some accounts.
    pub fn costs(&self, most: usize) -> Option<CostReport> {
        let bots = &self.requests.bots;
        let now = self.clock.mono();
        bots.flush_hits(now);
        let mut report = CostReport { total: bots.with(|ledger| ledger.total(now))?, rows: Vec::new() };
        let mut top = TopAccounts::new(most);
        while !bots.with(|ledger| ledger.go_on_with(&mut top, now))? {}
        for (level, rows) in Level::ALL.into_iter().zip(top.best) {
            report.rows.extend(rows.into_iter().map(|costs| CostRow::new(level, costs)));
        }
        Some(report)
    }
}

impl CostRow {
    fn new(level: Level, costs: LevelCosts) -> Self {
        let declared = (level == Level::Bot).then_some("declared");
        CostRow {
            kind: level.word(),
            name: costs.name.to_string(),
            class: costs.class.map(|class| class.word()).or(declared),
            costs,
        }
    }
}
