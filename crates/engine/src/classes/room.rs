// SPDX-License-Identifier: BSD-2-Clause
//! The waiting room of a class, for visitors with a token who found no slot in the queue. Places are numbers in the
//! order of first arrival. A place lasts as long as its visitor comes again in time. A visitor waits behind those of the
//! same tenant only, as each tenant has slots of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::Real;

use super::lines::{SharedSlots, TenantKey};

#[derive(Debug, Default)]
pub(super) struct Room {
    /// Until when each is kept, in seconds since 1970.
    places: BTreeMap<(TenantKey, u64), f64>,
    counts: HashMap<TenantKey, usize>,
    /// The place behind the last that was searched for visitors who left.
    searched: (TenantKey, u64),
    /// Places of before this worker that it has served: their tokens are good for nothing more.
    spent: BTreeSet<u64>,
}

/// Most spent places remembered. Beyond that no token of a former worker is accepted.
const MAX_SPENT: usize = 10_000;
/// Places that are checked at a time for visitors who left, so that nobody can make this expensive.
const SEARCHED: usize = 64;

impl Room {
    /// Number of places, including those of visitors who left unnoticed.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn has(&self, tenant: TenantKey, key: u64) -> bool {
        self.places.contains_key(&(tenant, key))
    }

    /// True if the place of a former worker may be taken up again.
    pub fn may_restore(&self, key: u64) -> bool {
        self.spent.len() < MAX_SPENT && !self.spent.contains(&key)
    }

    /// Number of the tenant's visitors before `key` (before a newcomer if it is `None`), counted up to `most`.
    pub fn ahead_of(&mut self, tenant: TenantKey, key: Option<u64>, most: usize, now: Real) -> usize {
        let mut ahead = 0;
        let mut from = 0;
        while ahead < most {
            let mut rest = self.places.range((tenant, from)..=(tenant, u64::MAX));
            let Some((&(_, other), &until)) = rest.next() else { break };
            if key.is_some_and(|key| other >= key) {
                break;
            }
            if until < now.0 {
                self.remove(tenant, other);
            } else {
                ahead += 1;
            }
            from = other + 1;
        }
        ahead
    }

    /// Keeps the place until then; whether there is room for it.
    pub fn keep(&mut self, tenant: TenantKey, key: u64, until: f64, places: SharedSlots, now: Real) -> bool {
        if !self.has(tenant, key) {
            if !self.may_take(tenant, places) {
                self.forget_gone((tenant, 0), now);
                self.searched = self.forget_gone(self.searched, now);
            }
            if !self.may_take(tenant, places) {
                return false;
            }
            *self.counts.entry(tenant).or_default() += 1;
        }
        self.places.insert((tenant, key), until);
        true
    }

    fn may_take(&self, tenant: TenantKey, places: SharedSlots) -> bool {
        let own = self.counts.get(&tenant).copied().unwrap_or_default();
        places.free_for(tenant, own, self.len()) > 0
    }

    /// Removes the places of visitors who left, among some from there on. Returns the place to go on at.
    fn forget_gone(&mut self, from: (TenantKey, u64), now: Real) -> (TenantKey, u64) {
        let some: Vec<_> = self.places.range(from..).take(SEARCHED).map(|(at, until)| (*at, *until)).collect();
        for ((tenant, key), _) in some.iter().filter(|(_, until)| *until < now.0) {
            self.remove(*tenant, *key);
        }
        // At the end it begins again.
        some.last().filter(|_| some.len() == SEARCHED).map_or_else(Default::default, |(at, _)| *at)
    }

    fn remove(&mut self, tenant: TenantKey, key: u64) -> bool {
        let was_there = self.places.remove(&(tenant, key)).is_some();
        if was_there && let Some(count) = self.counts.get_mut(&tenant) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&tenant);
            }
        }
        was_there
    }

    pub fn admit(&mut self, tenant: TenantKey, key: u64) {
        if !self.remove(tenant, key) {
            self.spent.insert(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lines::NO_TENANT;
    use super::*;

    fn places(all: usize, knows_tenants: bool) -> SharedSlots {
        SharedSlots { all, knows_tenants }
    }

    #[test]
    fn who_came_first_is_first_and_who_stays_away_is_not_counted() {
        let (mut room, now) = (Room::default(), Real(100.0));
        assert!(
            room.keep(NO_TENANT, 10, 110.0, places(3, false), now)
                && room.keep(NO_TENANT, 20, 105.0, places(3, false), now)
                && room.keep(NO_TENANT, 30, 120.0, places(3, false), now)
        );
        assert!(!room.keep(NO_TENANT, 40, 110.0, places(3, false), now), "it is full");
        assert!(room.keep(NO_TENANT, 20, 106.0, places(3, false), now), "who is in it stays");
        let mut ahead = |key, most, at| room.ahead_of(NO_TENANT, key, most, Real(at));
        assert_eq!([ahead(Some(10), 9, 100.0), ahead(Some(20), 9, 100.0), ahead(Some(30), 9, 100.0)], [0, 1, 2]);
        assert_eq!([ahead(None, 9, 100.0), ahead(None, 2, 100.0), ahead(None, 0, 100.0)], [3, 2, 0]);
        assert_eq!(ahead(None, 9, 107.0), 2, "20 didn't come again");
        assert_eq!(room.len(), 2);
        assert!(room.keep(NO_TENANT, 50, 130.0, places(2, false), Real(115.0)), "10 has gone, too");
        assert!(!room.has(NO_TENANT, 10) && room.has(NO_TENANT, 30) && room.has(NO_TENANT, 50));
    }

    #[test]
    fn a_place_is_good_for_one_time() {
        let mut room = Room::default();
        room.keep(NO_TENANT, 10, 110.0, places(3, false), Real(100.0));
        room.admit(NO_TENANT, 10);
        assert!(!room.has(NO_TENANT, 10) && room.may_restore(11));
        room.admit(NO_TENANT, 5);
        assert!(!room.may_restore(5), "a token of a former worker, used again");
    }

    #[test]
    fn a_tenant_waits_for_its_own_visitors_and_leaves_room_for_others() {
        let (mut room, now, [flood, calm]) = (Room::default(), Real(100.0), [7, 3].map(TenantKey));
        let kept = (0..200).filter(|key| room.keep(flood, *key, 110.0, places(100, true), now)).count();
        assert_eq!((kept, room.ahead_of(calm, None, 9, now), room.ahead_of(flood, None, 9, now)), (50, 0, 9));
        assert!(
            room.keep(calm, 500, 200.0, places(100, true), now)
                && room.keep(NO_TENANT, 501, 200.0, places(100, true), now)
        );
        assert!(!room.has(flood, 500), "a place is its tenant's");
        // Visitors who don't come again make room, wherever they are.
        let after = Real(150.0);
        let kept = (0..200).filter(|key| room.keep(calm, 1000 + key, 200.0, places(300, true), after)).count();
        assert!(kept >= 140, "{kept} of 300 at most, of which one tenant takes half");
        assert!(!room.has(flood, 0) && !room.has(flood, 49) && room.has(NO_TENANT, 501));
        assert_eq!(room.counts.values().sum::<usize>(), room.len());
    }
}
