// SPDX-License-Identifier: BSD-2-Clause
//! The share of the origin's time that crawlers may use: a bucket that fills with the time that readers use. A request reserves the average
//! cost of its kind and may start when the bucket has that much. So those that wait start in the order in which they came, and the queue is as
//! long as the longest wait allows.

use base::Mono;

const AVERAGED: f64 = 60.0;
/// Seconds of income that an unused bucket holds, and seconds of the origin's time that it always holds.
const BURST: (f64, f64) = (10.0, 0.25);
/// Assumed origin time of a fetch, in seconds, before one was measured.
const FIRST_COST: f64 = 0.1;
const COST_WEIGHT: f64 = 1.0 / 16.0;
/// Most seconds that one fetch counts for, so that a hanging origin or an endless response doesn't decide the budget.
const LONGEST: f64 = 10.0;
/// Fetches that may be under way at least, and as a multiple of how many the income pays for at a time. Readers' fetches wait behind them.
const UNDER_WAY: f64 = 4.0;
const MAX_RETRY: f64 = 3600.0;

/// Permission to fetch. Give `reserved` back to [`CrawlBudget::settle`] when the fetch has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Admission {
    pub wait: f64,
    /// Seconds of the origin's time.
    pub reserved: f64,
    pub(crate) is_of_crowd: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overdrawn {
    /// Seconds until there is room again.
    pub retry_after: f64,
}

/// See the module. All amounts are seconds of the origin's time.
#[derive(Clone, Debug)]
pub struct CrawlBudget {
    /// Crawlers' part of all time used, from 0 to below 1.
    share: f64,
    /// Time per second that readers and crawlers together may use whatever the share is, so that a quiet site holds up nobody.
    least: f64,
    patience: f64,
    /// Time that readers used lately, faded over [`AVERAGED`].
    readers: f64,
    level: f64,
    at: Mono,
    cost: f64,
    /// Admissions that have neither ended nor been cancelled.
    admitted: u32,
}

impl CrawlBudget {
    pub fn new(share: f64, least: f64, patience: f64, now: Mono) -> Self {
        let mut budget = CrawlBudget {
            share: share.clamp(0.0, 0.99),
            least: least.max(1e-6),
            patience,
            readers: 0.0,
            level: 0.0,
            at: now,
            cost: FIRST_COST,
            admitted: 0,
        };
        budget.level = budget.burst();
        budget
    }

    pub fn empty(&mut self) {
        self.level = 0.0;
    }

    /// Changes the settings; what was used stays.
    pub fn set(&mut self, share: f64, least: f64, patience: f64) {
        (self.share, self.least, self.patience) = (share.clamp(0.0, 0.99), least.max(1e-6), patience);
    }

    pub fn add_readers(&mut self, seconds: f64, now: Mono) {
        self.advance(now);
        self.readers += seconds.min(LONGEST);
    }

    /// Asks for a fetch. A reservation that isn't used goes back by [`CrawlBudget::cancel`].
    ///
    /// # Errors
    /// The wait for it would be too long, or too many fetches are under way.
    pub fn reserve(&mut self, now: Mono) -> Result<Admission, Overdrawn> {
        self.advance(now);
        let reserved = self.cost.min(self.burst());
        let wait = ((reserved - self.level) / self.income()).max(0.0);
        if wait > self.patience || f64::from(self.admitted) >= self.most_admitted() {
            return Err(Overdrawn { retry_after: (wait - self.patience).clamp(1.0, MAX_RETRY) });
        }
        self.level -= reserved;
        self.admitted += 1;
        Ok(Admission { wait, reserved, is_of_crowd: false })
    }

    /// The fetch has ended and used `seconds`. The debt that remains is bounded, because many may have been admitted by the cost of others.
    pub fn settle(&mut self, reserved: f64, seconds: f64) {
        let seconds = seconds.min(LONGEST);
        self.cost = (self.cost + (seconds - self.cost) * COST_WEIGHT).max(1e-4);
        self.cancel(reserved);
        self.take(seconds);
    }

    /// Takes the time of a fetch without a permission of its own. The debt is as bounded as that of [`CrawlBudget::settle`].
    pub fn debit(&mut self, seconds: f64, now: Mono) {
        self.advance(now);
        self.take(seconds);
    }

    fn take(&mut self, seconds: f64) {
        self.level = (self.level - seconds.min(LONGEST)).max(self.level.min(-self.burst().max(self.cost)));
    }

    pub fn cancel(&mut self, reserved: f64) {
        self.level += reserved;
        self.admitted = self.admitted.saturating_sub(1);
    }

    /// Time that may be used now; negative if it was used in advance.
    pub fn level(&mut self, now: Mono) -> f64 {
        self.advance(now);
        self.level
    }

    /// Average number of readers' fetches in progress.
    pub fn readers_at_a_time(&self) -> f64 {
        self.readers / AVERAGED
    }

    fn income(&self) -> f64 {
        let readers = self.readers_at_a_time();
        readers * self.share / (1.0 - self.share) + (self.least - readers).max(0.0)
    }

    /// Admissions at a time: those that fetch, and those that wait for their turn.
    fn most_admitted(&self) -> f64 {
        UNDER_WAY * self.income().max(1.0) + self.patience * self.income() / self.cost
    }

    fn burst(&self) -> f64 {
        (self.income() * BURST.0).max(BURST.1)
    }

    fn advance(&mut self, now: Mono) {
        let passed = now.since(self.at);
        if passed <= 0.0 {
            return;
        }
        self.level = (self.level + passed * self.income()).min(self.burst());
        self.readers *= (-passed / AVERAGED).exp();
        self.at = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the budget as fast as it allows for `seconds`, while readers use `readers` per second; what it used per second.
    fn use_up(budget: &mut CrawlBudget, from: f64, seconds: u32, readers: f64, cost: f64) -> f64 {
        let mut used = 0.0;
        for step in 0..seconds * 100 {
            let now = Mono(from + f64::from(step) / 100.0);
            budget.add_readers(readers / 100.0, now);
            if let Ok(admission) = budget.reserve(now) {
                budget.settle(admission.reserved, cost);
                used += cost;
            }
        }
        used / f64::from(seconds)
    }

    #[test]
    fn crawlers_use_their_share_of_what_is_used() {
        let mut budget = CrawlBudget::new(0.05, 0.001, 0.0, Mono(0.0));
        use_up(&mut budget, 0.0, 600, 0.5, 0.02);
        let used = use_up(&mut budget, 600.0, 600, 0.5, 0.02);
        let share = used / (used + 0.5);
        assert!((0.045..=0.051).contains(&share), "{share}");
    }

    #[test]
    fn without_readers_the_least_is_left() {
        let mut budget = CrawlBudget::new(0.05, 0.01, 0.0, Mono(0.0));
        use_up(&mut budget, 0.0, 600, 0.0, 0.5);
        let used = use_up(&mut budget, 600.0, 1000, 0.0, 0.5);
        assert!((0.0095..=0.0105).contains(&used), "{used}");
    }

    #[test]
    fn the_queue_ends_where_its_wait_is_too_long() {
        let mut budget = CrawlBudget::new(0.5, 1.0, 2.0, Mono(0.0));
        budget.settle(0.0, 10.0);
        (0..400).for_each(|_| budget.settle(0.5, 0.5));
        let waits: Vec<f64> = std::iter::from_fn(|| budget.reserve(Mono(1.0)).ok()).map(|a| a.wait).collect();
        assert!(
            waits.windows(2).all(|two| two[0] <= two[1]) && waits.last().is_some_and(|wait| *wait <= 2.0),
            "{waits:?}"
        );
        let overdrawn = budget.reserve(Mono(1.0)).expect_err("the queue is full");
        assert!(budget.reserve(Mono(1.0 + overdrawn.retry_after)).is_ok(), "{overdrawn:?}");
    }

    #[test]
    fn an_origin_that_becomes_slow_leaves_a_bounded_debt() {
        for slow in [20.0, 3600.0] {
            let mut budget = CrawlBudget::new(0.05, 0.1, 2.0, Mono(0.0));
            for n in 0..1500 {
                let admission = budget.reserve(Mono(f64::from(n))).expect("cheap fetches fit");
                budget.settle(admission.reserved, 0.001);
            }
            let admitted: Vec<Admission> = std::iter::from_fn(|| budget.reserve(Mono(1500.0)).ok()).collect();
            assert!((4..1000).contains(&admitted.len()), "{}", admitted.len());
            admitted.iter().for_each(|admission| budget.settle(admission.reserved, slow));
            let level = budget.level(Mono(1500.0));
            assert!((-LONGEST..0.0).contains(&level), "{level}");
            assert!(budget.reserve(Mono(1500.0 + 2.0 * LONGEST / 0.1)).is_ok());
        }
    }

    #[test]
    fn fetches_that_hang_admit_no_more_until_they_end() {
        let mut budget = CrawlBudget::new(0.05, 0.1, 2.0, Mono(0.0));
        let admit = |budget: &mut CrawlBudget, from: u32| {
            (from..from + 10_000).filter(|&second| budget.reserve(Mono(f64::from(second))).is_ok()).count()
        };
        let hanging = admit(&mut budget, 0);
        assert!((4..16).contains(&hanging), "{hanging}");
        budget.settle(0.1, 0.1);
        assert_eq!(admit(&mut budget, 10_000), 1);
    }

    #[test]
    fn one_endless_response_to_a_reader_is_no_income_for_hours() {
        let mut budget = CrawlBudget::new(0.05, 0.001, 0.0, Mono(0.0));
        budget.add_readers(3600.0, Mono(0.0));
        assert!(budget.income() < 0.05, "{}", budget.income());
    }

    #[test]
    fn a_part_is_paid_after_the_income_until_then() {
        let mut budget = CrawlBudget::new(0.05, 0.1, 2.0, Mono(0.0));
        budget.debit(0.2, Mono(100.0));
        let level = budget.level(Mono(100.0));
        assert!((level - (budget.burst() - 0.2)).abs() < 1e-9, "{level}");
    }

    #[test]
    fn a_cancelled_reservation_costs_nothing() {
        let mut budget = CrawlBudget::new(0.05, 0.01, 1e9, Mono(0.0));
        let before = budget.level(Mono(0.0));
        let admission = budget.reserve(Mono(0.0)).expect("it waits as long as needed");
        budget.cancel(admission.reserved);
        assert!((budget.level(Mono(0.0)) - before).abs() < 1e-9);
    }
}
