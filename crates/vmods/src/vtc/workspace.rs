// SPDX-License-Identifier: BSD-2-Clause
//! Budgets that stand for Varnish's workspaces in test cases.

use vrt::VclFailure;
use vrt::vmod::VmodCall;

use vmod_support::args::fail;

#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    size: i64,
    used: i64,
    kept: i64,
    pub(super) overflowed: bool,
}

/// Memory comes in such pieces.
const ALIGN: i64 = 8;

impl Budget {
    fn new(size: i64) -> Budget {
        Budget { size, used: 0, kept: 0, overflowed: false }
    }

    pub(super) fn free(&self) -> i64 {
        self.size - self.used
    }

    /// The bytes meant; a negative number leaves so many free.
    fn wanted(&self, size: i64, what: &str) -> Result<i64, VclFailure> {
        let wanted = if size < 0 { size.saturating_add(self.free()) } else { size };
        if wanted <= 0 {
            return fail(format!("Attempted negative WS {what}"));
        }
        Ok(wanted)
    }

    pub(super) fn alloc(&mut self, size: i64) -> Result<(), VclFailure> {
        let wanted = self.wanted(size, "allocation")?.saturating_add(ALIGN - 1) / ALIGN * ALIGN;
        if wanted > self.free() {
            self.overflowed = true;
            return fail("vtc.workspace_alloc");
        }
        self.used += wanted;
        Ok(())
    }

    /// 0 when there is not as much.
    pub(super) fn reserve(&mut self, size: i64) -> Result<i64, VclFailure> {
        let wanted = self.wanted(size, "reservation")?;
        if wanted > self.free() {
            self.overflowed = true;
            return Ok(0);
        }
        Ok(wanted)
    }

    pub(super) fn snapshot(&mut self) {
        self.kept = self.used;
    }

    /// Also forgets an overflow.
    pub(super) fn reset(&mut self) {
        self.used = self.kept;
        self.overflowed = false;
    }
}

/// The budgets of a task, with the defaults of `workspace_client`, `workspace_backend`, `workspace_session` and
/// `workspace_thread`.
struct Budgets([Budget; 4]);

impl Default for Budgets {
    fn default() -> Self {
        Budgets([64 << 10, 64 << 10, 768, 2 << 10].map(Budget::new))
    }
}

pub(super) fn of<'a>(call: &'a mut VmodCall<'_>, name: &str) -> &'a mut Budget {
    let at = match name {
        "client" => 0,
        "backend" => 1,
        "session" => 2,
        _ => 3,
    };
    &mut call.ctx.task().get::<Budgets>().0[at]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_runs_out() {
        let mut budget = Budget::new(64);
        assert_eq!((budget.alloc(9), budget.free()), (Ok(()), 48));
        budget.snapshot();
        assert_eq!((budget.alloc(-8), budget.free()), (Ok(()), 8));
        assert_eq!((budget.reserve(9), budget.overflowed), (Ok(0), true));
        assert!(budget.alloc(9).is_err() && budget.alloc(-8).is_err() && budget.alloc(i64::MIN).is_err());
        assert!(budget.alloc(i64::MAX).is_err());
        budget.reset();
        assert_eq!((budget.free(), budget.overflowed, budget.reserve(-8)), (48, false, Ok(40)));
    }
}
