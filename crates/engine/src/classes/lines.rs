// SPDX-License-Identifier: BSD-2-Clause
//! The queue of a class: a line for each tenant, which are called in turn. Requests without a tenant have one line together,
//! so without tenants it is one line.
//!
//! A tenant may take a slot while it has fewer than are free (dynamic thresholds, Choudhury and Hahne 1998). A flood
//! takes half of the slots at most, and the next tenant finds some. Requests without a tenant are bound by this, too, for a
//! while after a request of a tenant.

use std::collections::{HashMap, VecDeque};

use sync::{Called, Line, Turn};

/// A hash of a tenant's name. It needs no row, which a refused request shouldn't take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TenantKey(pub(super) u64);

pub(crate) const NO_TENANT: TenantKey = TenantKey(0);

/// Slots of a queue or places of a waiting room, of which each tenant may take some.
#[derive(Clone, Copy, Debug)]
pub(super) struct SharedSlots {
    pub all: usize,
    /// A request of a tenant came lately.
    pub knows_tenants: bool,
}

impl SharedSlots {
    /// Free slots for a tenant that has `own` of the `taken` ones; 0 if it may take none.
    pub fn free_for(self, tenant: TenantKey, own: usize, taken: usize) -> usize {
        let free = self.all.saturating_sub(taken);
        let may_take = own < free || tenant == NO_TENANT && !self.knows_tenants;
        if may_take { free } else { 0 }
    }
}

#[derive(Debug, Default)]
pub(super) struct TenantLines {
    lines: HashMap<TenantKey, Line<()>>,
    /// The tenants of the lines, in the order of their turns.
    order: VecDeque<TenantKey>,
    len: usize,
    last: TenantKey,
}

impl TenantLines {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn free_for(&self, tenant: TenantKey, slots: SharedSlots) -> usize {
        slots.free_for(tenant, self.lines.get(&tenant).map_or(0, Line::len), self.len)
    }

    pub fn join(&mut self, tenant: TenantKey) -> Turn<()> {
        self.len += 1;
        let line = self.lines.entry(tenant).or_default();
        if line.is_empty() {
            self.order.push_back(tenant);
        }
        line.join()
    }

    /// A request of the tenant has got a worker without waiting: that was its turn.
    pub fn note_turn(&mut self, tenant: TenantKey) {
        self.last = tenant;
    }

    /// Calls the one that has waited longest of the tenant whose turn it is.
    pub fn call(&mut self) -> Option<Called> {
        if self.order.front() == Some(&self.last) {
            self.order.rotate_left(1);
        }
        let tenant = self.order.pop_front()?;
        let line = self.lines.get_mut(&tenant)?;
        let called = line.call(());
        self.last = tenant;
        self.len -= usize::from(called.is_some());
        match line.is_empty() {
            true => drop(self.lines.remove(&tenant)),
            false => self.order.push_back(tenant),
        }
        called
    }

    /// Takes a place out of its line; true if it had been called and hasn't used that.
    pub fn leave(&mut self, tenant: TenantKey, turn: &Turn<()>) -> bool {
        // All places of a line that isn't there were called.
        let Some(line) = self.lines.get_mut(&tenant) else { return turn.take().is_some() };
        let before = line.len();
        let was_called = line.leave(turn).is_some();
        self.len -= before - line.len();
        if line.is_empty() {
            self.lines.remove(&tenant);
            self.order.retain(|other| *other != tenant);
        }
        was_called
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOOD: TenantKey = TenantKey(7);

    #[test]
    fn tenants_are_called_in_turn() {
        let mut lines = TenantLines::default();
        let flood: Vec<_> = (0..5).map(|_| lines.join(FLOOD)).collect();
        let others = [lines.join(TenantKey(3)), lines.join(TenantKey(9)), lines.join(NO_TENANT)];
        lines.note_turn(FLOOD);
        let called = |turns: &[Turn<()>]| turns.iter().filter(|turn| turn.is_called()).count();
        for (count, expected) in [(1, (0, 1)), (2, (0, 3)), (1, (1, 3)), (2, (3, 3))] {
            (0..count).for_each(|_| assert!(lines.call().is_some()));
            assert_eq!((called(&flood), called(&others)), expected);
        }
        assert!(!lines.leave(FLOOD, &flood[4]) && lines.leave(TenantKey(9), &others[1]));
        assert!(!lines.leave(TenantKey(9), &others[1]));
        let late = lines.join(TenantKey(9));
        assert_eq!(lines.len(), 2);
        assert!(lines.call().is_some() && late.is_called() && lines.call().is_some() && lines.call().is_none());
        assert!(lines.is_empty() && lines.lines.is_empty() && lines.order.is_empty());
    }

    #[test]
    fn one_that_leaves_gives_up_the_turn_of_its_tenant() {
        let mut lines = TenantLines::default();
        let (gone, stays) = (lines.join(TenantKey(3)), lines.join(TenantKey(9)));
        assert!(!lines.leave(TenantKey(3), &gone) && lines.order.len() == 1);
        assert!(lines.call().is_some() && stays.is_called() && lines.call().is_none());
    }

    #[test]
    fn a_flood_leaves_slots_for_the_others() {
        let fill = |lines: &mut TenantLines, tenant, knows_tenants| {
            let mut turns = Vec::new();
            while lines.free_for(tenant, SharedSlots { all: 64, knows_tenants }) > 0 {
                turns.push(lines.join(tenant));
            }
            turns.len()
        };
        let mut lines = TenantLines::default();
        assert_eq!([1, 2, 3].map(|tenant| fill(&mut lines, TenantKey(tenant), true)), [32, 16, 8]);
        // Requests without a tenant are those of one more, unless there are no others.
        let mut lines = TenantLines::default();
        assert_eq!((fill(&mut lines, NO_TENANT, true), fill(&mut lines, FLOOD, true)), (32, 16));
        assert_eq!(fill(&mut TenantLines::default(), NO_TENANT, false), 64);
    }
}
