// SPDX-License-Identifier: BSD-2-Clause
//! The queue of a class: a line for each tenant, which are called in turn. Requests without a tenant have one line together,
//! so without tenants it is one line.
//!
//! A tenant may take a slot while it has fewer than are free (dynamic thresholds, Choudhury and Hahne 1998). A flood
//! takes half of the slots at most, and the next tenant finds some.

use std::collections::BTreeMap;

use sync::{Called, Line, Turn};

/// The number that requests without a tenant have.
pub(crate) const NO_TENANT: u16 = 0;

/// The waiting requests of a class, by tenant.
#[derive(Debug, Default)]
pub(super) struct TenantLines {
    /// The lines in which somebody waits.
    lines: BTreeMap<u16, Line<()>>,
    len: usize,
    /// The tenant that was called last.
    last: u16,
}

impl TenantLines {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of slots that a tenant may take, if the queue has `slots`.
    pub fn free_for(&self, tenant: u16, slots: usize) -> usize {
        let free = slots.saturating_sub(self.len);
        let own = self.lines.get(&tenant).map_or(0, Line::len);
        if tenant == NO_TENANT || own < free { free } else { 0 }
    }

    pub fn join(&mut self, tenant: u16) -> Turn<()> {
        self.len += 1;
        self.lines.entry(tenant).or_default().join()
    }

    /// A request of the tenant has got a worker without waiting: that was its turn.
    pub fn note_turn(&mut self, tenant: u16) {
        self.last = tenant;
    }

    /// Calls the one that has waited longest of the tenant whose turn it is.
    pub fn call(&mut self) -> Option<Called> {
        let next = self.last.checked_add(1).and_then(|from| self.lines.range(from..).next());
        let (&tenant, _) = next.or_else(|| self.lines.first_key_value())?;
        let called = self.lines.get_mut(&tenant)?.call(());
        self.last = tenant;
        self.len -= usize::from(called.is_some());
        self.forget(tenant);
        called
    }

    /// Takes a place out of its line; true if it had been called and hasn't used that.
    pub fn leave(&mut self, tenant: u16, turn: &Turn<()>) -> bool {
        // An empty line isn't kept; its places know themselves whether they were called.
        let line = self.lines.entry(tenant).or_default();
        let before = line.len();
        let was_called = line.leave(turn).is_some();
        self.len -= before - line.len();
        self.forget(tenant);
        was_called
    }

    fn forget(&mut self, tenant: u16) {
        if self.lines.get(&tenant).is_some_and(Line::is_empty) {
            self.lines.remove(&tenant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_are_called_in_turn() {
        let mut lines = TenantLines::default();
        let flood: Vec<_> = (0..5).map(|_| lines.join(7)).collect();
        let others = [lines.join(3), lines.join(9), lines.join(NO_TENANT)];
        lines.note_turn(0);
        let called = |turns: &[Turn<()>]| turns.iter().filter(|turn| turn.is_called()).count();
        for (count, expected) in [(1, (0, 1)), (1, (1, 1)), (2, (1, 3)), (1, (2, 3))] {
            (0..count).for_each(|_| assert!(lines.call().is_some()));
            assert_eq!((called(&flood), called(&others)), expected);
        }
        assert!(!lines.leave(7, &flood[4]) && lines.leave(9, &others[1]) && !lines.leave(9, &others[1]));
        assert_eq!(lines.len(), 2);
        assert!(lines.call().is_some() && lines.call().is_some() && lines.call().is_none());
        assert!(lines.is_empty() && lines.lines.is_empty());
    }

    #[test]
    fn a_flood_leaves_slots_for_the_others() {
        let mut lines = TenantLines::default();
        let mut turns = Vec::new();
        let mut fill = |lines: &mut TenantLines, tenant| {
            let mut count = 0;
            while lines.free_for(tenant, 64) > 0 {
                turns.push(lines.join(tenant));
                count += 1;
            }
            count
        };
        assert_eq!([1, 2, 3].map(|tenant| fill(&mut lines, tenant)), [32, 16, 8]);
        assert_eq!((fill(&mut lines, NO_TENANT), lines.len()), (8, 64));
    }
}
