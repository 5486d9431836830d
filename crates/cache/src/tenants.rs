// SPDX-License-Identifier: BSD-2-Clause
//! Tenants: names under which objects are counted, share the stores and are banned. An object keeps the number of its
//! tenant's row; the row has the name, the weight of its share and the counters.
//!
//! There are at most [`MAX_TENANTS`] rows. A tenant that finds none is counted with the others that found none, in
//! [`OTHERS`]; a ban by tenant matches all their objects, because nobody knows which of them it means. A row is given
//! to a new name once no object and no fetch has it and it wasn't used for [`IDLE_SECONDS`].

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use base::Mono;
use base::critical::Lock;
use hashbrown::HashMap;
use message::tenants::{MAX_TENANTS, OTHER_TENANTS, is_tenant_name, normal};
use tables::counters::TenantCounters;

use crate::cache::{Cache, CacheShared};
use crate::objcore::Objcore;
use crate::objref::ObjRef;

pub(crate) const NO_TENANT: u16 = 0;
/// Number of the row of tenants that found no row of their own.
const OTHERS: u16 = 1;
const FIRST: usize = 2;
const IDLE_SECONDS: f64 = 60.0;
/// Least time between two searches for rows that can be given to new names.
const SWEEP_SECONDS: f64 = 1.0;
/// The map and the list of rows have a handle each.
const OWN_HANDLES: usize = 2;

/// Counters of one tenant, wherever they are.
pub type TenantCounterSet = Box<dyn Deref<Target = TenantCounters> + Send + Sync>;
pub type TenantPublisher = Box<dyn Fn(&str) -> TenantCounterSet + Send + Sync>;

/// A tenant, for the time of a request or fetch.
#[derive(Clone)]
pub struct Tenant(Arc<TenantRow>);

pub(crate) struct TenantRow {
    id: u16,
    name: Box<str>,
    /// Objects in the index that have this number.
    objects: AtomicU64,
    /// Seconds of the monotonic clock.
    used: AtomicU32,
    counters: TenantCounterSet,
}

pub(crate) struct Tenants {
    rows: Box<[ArcSwapOption<TenantRow>]>,
    names: Lock<TenantNames>,
    publisher: OnceLock<TenantPublisher>,
    are_used: AtomicBool,
}

struct TenantNames {
    rows: HashMap<Box<str>, Arc<TenantRow>>,
    free: Vec<u16>,
    /// Number of rows that were ever given out.
    given: usize,
    most: usize,
    shares: HashMap<Box<str>, u32>,
    swept: Mono,
}

impl Tenant {
    pub fn name(&self) -> &str {
        &self.0.name
    }

    pub fn counters(&self) -> &TenantCounters {
        &self.0.counters
    }

    /// The number of its row: that of no other tenant that there is.
    pub fn id(&self) -> u16 {
        self.0.id
    }
}

impl TenantRow {
    pub fn counters(&self) -> &TenantCounters {
        &self.counters
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tenant({})", self.name())
    }
}

impl Tenants {
    pub fn new() -> Self {
        let rows = (0..MAX_TENANTS + FIRST).map(|_| ArcSwapOption::empty()).collect();
        let names = TenantNames {
            rows: HashMap::new(),
            free: Vec::new(),
            given: 0,
            most: MAX_TENANTS,
            shares: HashMap::new(),
            swept: Mono(0.0),
        };
        Tenants { rows, names: Lock::new(names), publisher: OnceLock::new(), are_used: AtomicBool::new(false) }
    }

    /// True once a request or an object had a tenant.
    pub fn are_used(&self) -> bool {
        self.are_used.load(Relaxed)
    }

    pub fn row(&self, id: u16) -> Option<Arc<TenantRow>> {
        if id == NO_TENANT {
            return None;
        }
        self.rows[usize::from(id)].load_full()
    }

    /// The tenant of that name, with a new row if it has none yet. `set_share` gets the number of a new row and its share
    /// before anybody finds it.
    fn find(&self, name: &str, now: Mono, set_share: &dyn Fn(u16, u32)) -> Tenant {
        match is_tenant_name(name.as_bytes()) {
            true => self.find_row(&normal(name), now, set_share),
            false => self.find_row(OTHER_TENANTS, now, set_share),
        }
    }

    fn find_row(&self, name: &str, now: Mono, set_share: &dyn Fn(u16, u32)) -> Tenant {
        {
            // Freed after the unlock, as their files are removed.
            let swept;
            let mut names = self.names.lock();
            if let Some(row) = names.rows.get(name) {
                row.used.store(now.0 as u32, Relaxed);
                return Tenant(row.clone());
            }
            if name != OTHER_TENANTS {
                swept = self.sweep(&mut names, now);
                if names.is_full() {
                    drop((names, swept));
                    return self.find_row(OTHER_TENANTS, now, set_share);
                }
            }
        }
        // A file is made for them: nobody waits for that.
        let counters = match self.publisher.get() {
            Some(publish) => publish(name),
            None => Box::new(Box::<TenantCounters>::default()),
        };
        let mut names = self.names.lock();
        let id = match names.rows.get(name) {
            Some(row) => return Tenant(row.clone()),
            None if name == OTHER_TENANTS => OTHERS,
            None => match names.take_number() {
                Some(id) => id,
                None => {
                    drop(names);
                    return self.find_row(OTHER_TENANTS, now, set_share);
                }
            },
        };
        let row = Arc::new(TenantRow {
            id,
            name: name.into(),
            objects: AtomicU64::new(0),
            used: AtomicU32::new(now.0 as u32),
            counters,
        });
        set_share(id, names.shares.get(name).copied().unwrap_or(1));
        self.are_used.store(true, Relaxed);
        self.rows[usize::from(id)].store(Some(row.clone()));
        names.rows.insert(name.into(), row.clone());
        Tenant(row)
    }

    /// Takes out the rows that nobody uses, if no other is free. The caller drops them after the unlock.
    fn sweep(&self, names: &mut TenantNames, now: Mono) -> Vec<Arc<TenantRow>> {
        if !names.is_full() || now.since(names.swept) < SWEEP_SECONDS {
            return Vec::new();
        }
        names.swept = now;
        let is_idle = |row: &Arc<TenantRow>| {
            let unused = now.0 - f64::from(row.used.load(Relaxed));
            row.id != OTHERS
                && Arc::strong_count(row) <= OWN_HANDLES
                && row.objects.load(Relaxed) == 0
                && unused > IDLE_SECONDS
        };
        let idle: Vec<_> = names.rows.extract_if(|_, row| is_idle(row)).map(|(_, row)| row).collect();
        for row in &idle {
            self.rows[usize::from(row.id)].store(None);
        }
        names.free.extend(idle.iter().map(|row| row.id));
        idle
    }

    /// New bounds and shares are in force. `set_share` gets the shares of the rows that there are.
    fn configure(&self, most: usize, shares: &[(String, u32)], set_share: &dyn Fn(u16, u32)) {
        let mut names = self.names.lock();
        names.most = most.clamp(1, MAX_TENANTS);
        names.shares = shares.iter().map(|(name, share)| (normal(name).into(), *share)).collect();
        names.rows.values().for_each(|row| set_share(row.id, names.shares.get(&row.name).copied().unwrap_or(1)));
    }

    /// True if an object of the row `id` is meant by a ban on that name. One that shares a row is meant by any.
    pub fn is_meant(&self, id: u16, name: &str, equal: bool) -> bool {
        is_named(self.row(id).as_ref().map(|row| &*row.name), name, equal)
    }

    /// A complete object has come into the index. The caller has the shard's lock.
    pub fn note_come(&self, oc: &Objcore) {
        self.count(oc.tenant(), |row| {
            row.objects.fetch_add(1, Relaxed);
            row.counters.objects.inc();
        });
    }

    /// A complete object has left the index. The caller has the shard's lock.
    pub fn note_gone(&self, oc: &Objcore) {
        self.count(oc.tenant(), |row| {
            row.objects.fetch_sub(1, Relaxed);
            row.counters.objects.sub(1);
        });
    }

    /// Calls `change` with the row, if there is one; no lock is taken.
    pub fn count(&self, id: u16, change: impl FnOnce(&TenantRow)) {
        if id != NO_TENANT
            && let Some(row) = &*self.rows[usize::from(id)].load()
        {
            change(row);
        }
    }
}

impl Cache {
    /// The tenant of a request. A name that can't be one, or finds no free row, is one of the others, which share a row.
    pub fn tenant(&self, name: &str) -> Tenant {
        let shared = self.shared();
        let tenant = shared.tenant(name);
        shared.main.tenant_others.add(u64::from(tenant.id() == OTHERS));
        tenant
    }

    /// Sets the source of new tenants' counters, which are in ordinary memory without it. The first call counts.
    pub fn publish_tenants(&self, publisher: TenantPublisher) {
        let _ = self.shared().tenants.publisher.set(publisher);
    }

    /// Gives rows to `most` tenants at most. `shares` are weights of their shares of stores; 1 for those not in it.
    pub fn set_tenants(&self, most: usize, shares: &[(String, u32)]) {
        let shared = self.shared();
        shared.tenants.configure(most, shares, &|id, share| shared.set_share(id, share));
    }

    pub fn count_tenant_hit(&self, obj: &ObjRef) {
        self.shared().tenants.count(obj.objcore().tenant(), |row| row.counters.hits.inc());
    }

    pub fn tenant_of(&self, obj: &ObjRef) -> Option<Tenant> {
        self.shared().tenants.row(obj.objcore().tenant()).map(Tenant)
    }
}

impl CacheShared {
    pub fn tenant(&self, name: &str) -> Tenant {
        self.tenants.find(name, self.now(), &|id, share| self.set_share(id, share))
    }

    fn set_share(&self, tenant: u16, share: u32) {
        self.evictors.iter().for_each(|evictor| evictor.set_share(tenant, share));
    }

    /// Takes the tenant of an object of a home out of its tags. Keep it until the object is in the index.
    pub fn take_tenant(&self, keys: &mut Vec<Box<[u8]>>) -> Option<Tenant> {
        take_name(keys).map(|name| self.tenant(&name))
    }
}

/// Takes the name of an object's tenant out of the tags of its record.
pub(crate) fn take_name(keys: &mut Vec<Box<[u8]>>) -> Option<String> {
    let at = keys.iter().position(|key| message::tags::tenant(key).is_some())?;
    let key = keys.swap_remove(at);
    let name = message::tags::tenant(&key).and_then(|name| std::str::from_utf8(name).ok())?;
    Some(name.to_owned())
}

/// True if an object with the tenant's name `own` is meant by a ban on `name`. One of the others, whose name isn't known,
/// is meant by any.
pub(crate) fn is_named(own: Option<&str>, name: &str, equal: bool) -> bool {
    own == Some(OTHER_TENANTS) || own.is_some_and(|own| own.eq_ignore_ascii_case(name)) == equal
}

impl TenantNames {
    fn is_full(&self) -> bool {
        self.given - self.free.len() >= self.most
    }

    fn take_number(&mut self) -> Option<u16> {
        if self.is_full() {
            return None;
        }
        if let Some(id) = self.free.pop() {
            return Some(id);
        }
        self.given += 1;
        Some((self.given - 1 + FIRST) as u16)
    }
}
