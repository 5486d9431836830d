// SPDX-License-Identifier: BSD-2-Clause
//! Classes of requests that need a backend (the parameter `classes`). Each has a number of workers, a queue for them
//! (its `queue`; first come, first served, but tenants in turn), and a patience. A request that finds no free slot in the
//! queue is refused, and may keep a place in the waiting room (`room`) until its visitor comes again.
//!
//! A fetch holds a worker from before it begins until it has ended. Hits, requests that wait for another request's
//! fetch, and stale objects that are delivered while they are refreshed hold none. A refresh takes a free worker or
//! isn't begun. A request in the queue holds no slot among the transactions (`admission`). Everything is under one lock
//! that no hit takes.

mod cost;
mod lines;
mod room;
mod token;

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::task::{Context, Poll, ready};

use base::lock::Mutex;
use base::{Mono, Real};
use params::Params;
use params::classes::{ClassSpec, DEFAULT, parse};
use shm::vsc::CounterSet;
use sync::{Called, Turn};
use tables::counters::ClassCounters;

use crate::sess::Sess;

pub use cost::CostKey;
use cost::Costs;
pub(crate) use lines::{NO_TENANT, TenantKey};
use lines::{SharedSlots, TenantLines};
use room::Room;
use token::Tokens;

/// Service time in seconds that is assumed before any was measured.
const FIRST_GUESS: f64 = 1.0;
/// A fetch counts so much for the mean service of its class.
const SERVICE_WEIGHT: f64 = 1.0 / 16.0;
/// Longest Retry-After, in seconds.
const MAX_RETRY: f64 = 3600.0;
/// Seconds for which a request of a tenant binds requests without one.
const TENANT_SECONDS: f64 = 60.0;
/// Seconds after which a waiting page reloads, at least and at most.
const PAGE_SECONDS: (f64, f64) = (2.0, 30.0);
/// A visitor counts as gone once the reload is late by this factor
const MISSED_TIMES: f64 = 3.0;
/// and by this many seconds.
const MISSED_SECONDS: f64 = 5.0;

/// All classes of a worker; see the module.
#[derive(Debug)]
pub struct Classes {
    is_on: AtomicBool,
    state: Mutex<ClassesState>,
    costs: Costs,
    tokens: Tokens,
    /// Distinguishes places of the same millisecond.
    serial: AtomicU64,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct ClassesState {
    classes: Vec<Class>,
    next_id: u32,
    /// Workers that all classes may use together; 0: no limit but their own.
    workers: u32,
    busy: u32,
}

struct Class {
    id: u32,
    spec: ClassSpec,
    name: Arc<str>,
    /// The class isn't declared any more and ends with its last fetch.
    is_retired: bool,
    counters: CounterSet<ClassCounters>,
    busy: u32,
    queue: TenantLines,
    room: Room,
    /// Time of the latest request of a tenant.
    tenant_seen: Real,
    /// Mean seconds that a fetch holds a worker.
    service: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassChoice {
    /// The request has no class.
    Free,
    Class(u32),
    /// VCL named one that isn't declared.
    Unknown,
}

#[derive(Debug)]
pub enum ClassEntry {
    Now(ClassWorker),
    /// Later: await it, as long as its class has patience.
    Later(PlaceWait),
    Refused(ClassRefusal),
}

/// The facts for the response to a request that gets no worker.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRefusal {
    pub class: Arc<str>,
    pub is_late: bool,
    /// Seconds after which it may do better.
    pub retry_after: u32,
    /// The token that keeps its place in the waiting room.
    pub token: Option<String>,
}

/// The properties of a request that matter to the waiting room.
#[derive(Clone, Copy, Debug, Default)]
pub struct Visitor<'a> {
    pub token: Option<&'a [u8]>,
    pub takes_page: bool,
    pub(crate) tenant: TenantKey,
    /// Nobody waits for the response yet, so the request gets a free worker or none.
    pub is_speculative: bool,
}

impl Default for Classes {
    fn default() -> Self {
        Classes::new([0; 32], Real(0.0))
    }
}

impl Classes {
    /// Tokens are signed by this key. `born`: when this worker began.
    pub fn new(key: [u8; 32], born: Real) -> Self {
        Classes {
            is_on: AtomicBool::new(false),
            state: Mutex::default(),
            costs: Costs::default(),
            tokens: Tokens::new(key, born),
            serial: AtomicU64::new(0),
            hasher: RandomState::new(),
        }
    }

    /// New parameters are in force. `counters` makes those of a class that is new.
    pub fn apply(&self, params: &Params, counters: impl Fn(&str) -> CounterSet<ClassCounters>) {
        // The parameter was checked when it was set.
        let specs = parse(&params.classes).unwrap_or_default();
        self.costs.set_on(specs.iter().any(|spec| spec.above.is_some()));
        self.is_on.store(!specs.is_empty(), Relaxed);
        let called = {
            let mut state = self.state.lock();
            state.workers = params.class_workers;
            state.declare(specs, counters);
            state.call_next()
        };
        called.into_iter().for_each(Called::wake);
    }

    pub fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    /// The key by which the costs of similar requests are remembered.
    pub fn cost_key(&self, host: &[u8], url: &[u8]) -> CostKey {
        self.costs.key(host, url)
    }

    /// The key of a tenant in queues and waiting rooms. It doesn't say anything about a row.
    pub(crate) fn tenant_key(&self, name: &[u8]) -> TenantKey {
        match name {
            b"" => NO_TENANT,
            name => TenantKey(self.hasher.hash_one(name).max(1)),
        }
    }

    /// The class of a request: the one that VCL names, the first of `offered` that is declared, the one for its estimated cost, or `default`.
    pub fn choose(&self, named: Option<&[u8]>, key: CostKey, offered: &[&str]) -> ClassChoice {
        let cost = if named.is_none() { self.costs.of(key) } else { None };
        let state = self.state.lock();
        let by_name = |name: &[u8]| state.declared().find(|class| class.spec.name.as_bytes() == name);
        let class = match named {
            Some(b"") => return ClassChoice::Free,
            Some(name) => match by_name(name) {
                Some(class) => Some(class),
                None => return ClassChoice::Unknown,
            },
            None => {
                let offered = offered.iter().find_map(|name| by_name(name.as_bytes()));
                let fits = |class: &&Class| class.spec.above.zip(cost).is_some_and(|(above, cost)| cost >= above);
                let above = |class: &Class| class.spec.above.unwrap_or_default();
                let dearest = state.declared().filter(fits).max_by(|a, b| above(a).total_cmp(&above(b)));
                offered.or(dearest).or_else(|| by_name(DEFAULT.as_bytes()))
            }
        };
        class.map_or(ClassChoice::Free, |class| ClassChoice::Class(class.id))
    }

    pub fn name_of(&self, class: u32) -> Option<Arc<str>> {
        self.state.lock().class(class).map(|class| class.name.clone())
    }

    fn new_key(&self, now: Real) -> u64 {
        token::key(now, self.serial.fetch_add(1, Relaxed))
    }
}

/// Takes a worker for a fetch of this class, or a slot in its queue.
pub fn enter(sess: &Rc<Sess>, class: u32, cost: CostKey, visitor: Visitor<'_>) -> ClassEntry {
    let (classes, now) = (&sess.engine.requests.classes, sess.engine.clock.real());
    let mut state = classes.state.lock();
    let common = state.common_free();
    let Some(class) = state.declared_class(class) else { return ClassEntry::Now(ClassWorker::free(sess, cost)) };
    class.note_tenant(visitor.tenant, now);
    let key = visitor.token.and_then(|token| {
        let key = classes.tokens.read(&class.spec.name, token, now);
        if key.is_none() {
            class.counters.forged.inc();
        }
        key.filter(|&key| {
            class.room.has(visitor.tenant, key) || (classes.tokens.is_former(key) && class.room.may_restore(key))
        })
    });
    let (workers, slots) = (class.free_workers(common), class.free_slots(visitor.tenant, now));
    let free = match visitor.is_speculative {
        true if !class.queue.is_empty() => 0,
        true => workers,
        false => workers + slots,
    };
    if class.room.ahead_of(visitor.tenant, key, free as usize, now) >= free as usize {
        class.counters.refused.inc();
        class.counters.prefetch_refused.add(u64::from(visitor.is_speculative));
        let key = key.unwrap_or_else(|| classes.new_key(now));
        return ClassEntry::Refused(class.refuse(visitor.tenant, key, visitor.takes_page, &classes.tokens, now));
    }
    if let Some(key) = key {
        class.room.admit(visitor.tenant, key);
        class.counters.returned.inc();
        class.counters.room.set(class.room.len() as u64);
    }
    if class.queue.is_empty() && workers > 0 {
        class.begin();
        class.queue.note_turn(visitor.tenant);
        let place = ClassWorker::new(sess, class, cost, 0.0);
        state.busy += 1;
        return ClassEntry::Now(place);
    }
    let turn = class.queue.join(visitor.tenant);
    class.counters.waiting.set(class.queue.len() as u64);
    let patience = class.spec.patience;
    let began = sess.engine.clock.mono();
    let (id, name) = (class.id, class.name.clone());
    let (sess, tenant) = (sess.clone(), visitor.tenant);
    ClassEntry::Later(PlaceWait { sess, turn, class: id, tenant, name, cost, began, since: now, key, patience })
}

/// A worker of the class, if one is free now, for a fetch that nobody waits for.
pub fn enter_if_free(sess: &Rc<Sess>, class: u32, cost: CostKey) -> Option<ClassWorker> {
    let mut state = sess.engine.requests.classes.state.lock();
    let common = state.common_free();
    let Some(class) = state.declared_class(class) else { return Some(ClassWorker::free(sess, cost)) };
    if !class.queue.is_empty() || class.free_workers(common) == 0 {
        class.counters.deferred.inc();
        return None;
    }
    class.begin();
    let place = ClassWorker::new(sess, class, cost, 0.0);
    state.busy += 1;
    Some(place)
}

impl ClassesState {
    fn declared(&self) -> impl Iterator<Item = &Class> {
        self.classes.iter().filter(|class| !class.is_retired)
    }

    fn class(&mut self, id: u32) -> Option<&mut Class> {
        self.classes.iter_mut().find(|class| class.id == id)
    }

    fn declared_class(&mut self, id: u32) -> Option<&mut Class> {
        self.class(id).filter(|class| !class.is_retired)
    }

    fn common_free(&self) -> u32 {
        if self.workers == 0 { u32::MAX } else { self.workers.saturating_sub(self.busy) }
    }

    fn declare(&mut self, specs: Vec<ClassSpec>, counters: impl Fn(&str) -> CounterSet<ClassCounters>) {
        for class in self.classes.iter_mut().filter(|class| !class.is_retired) {
            class.is_retired = !specs.iter().any(|spec| spec.name == class.spec.name);
        }
        for spec in specs {
            match self.classes.iter_mut().find(|class| !class.is_retired && class.spec.name == spec.name) {
                Some(class) => class.spec = spec,
                None => {
                    let counters = counters(&spec.name);
                    self.classes.push(Class::new(self.next_id, spec, counters));
                    self.next_id = self.next_id.wrapping_add(1);
                }
            }
        }
        self.forget_retired();
    }

    fn forget_retired(&mut self) {
        self.classes.retain(|class| !class.is_retired || class.busy > 0 || !class.queue.is_empty());
    }

    /// Calls waiting requests for which there are workers. If classes compete, the next worker goes to the one that has
    /// the fewest for its share.
    fn call_next(&mut self) -> Vec<Called> {
        let mut called = Vec::new();
        loop {
            let is_full = self.common_free() == 0;
            let ready = self.classes.iter_mut().filter(|class| {
                // A request that waits in a removed class proceeds without one.
                !class.queue.is_empty() && (class.is_retired || (!is_full && class.busy < class.spec.workers))
            });
            let least = ready.min_by(|a, b| a.load().total_cmp(&b.load()));
            let Some(class) = least else { return called };
            let Some(next) = class.queue.call() else { return called };
            class.counters.waiting.set(class.queue.len() as u64);
            class.begin();
            self.busy += 1;
            called.push(next);
        }
    }

    fn leave(&mut self, id: u32, service: Option<f64>) -> Vec<Called> {
        self.busy = self.busy.saturating_sub(1);
        if let Some(class) = self.class(id) {
            class.end(service);
        }
        let called = self.call_next();
        self.forget_retired();
        called
    }

    /// A place isn't wanted any more. A worker that was taken for it, and wasn't used, goes to others, who are called.
    fn give_up(&mut self, id: u32, tenant: TenantKey, turn: &Turn<()>) -> Vec<Called> {
        let Some(class) = self.class(id) else { return Vec::new() };
        let was_called = class.queue.leave(tenant, turn);
        class.counters.waiting.set(class.queue.len() as u64);
        if was_called {
            return self.leave(id, None);
        }
        self.forget_retired();
        Vec::new()
    }
}

impl Class {
    fn new(id: u32, spec: ClassSpec, counters: CounterSet<ClassCounters>) -> Self {
        let name = Arc::from(spec.name.as_str());
        let (queue, room) = (TenantLines::default(), Room::default());
        let tenant_seen = Real(f64::NEG_INFINITY);
        Class { id, spec, name, is_retired: false, counters, busy: 0, queue, room, tenant_seen, service: 0.0 }
    }

    /// Workers for its share.
    fn load(&self) -> f64 {
        f64::from(self.busy) / f64::from(self.spec.share.max(1))
    }

    fn free_workers(&self, common: u32) -> u32 {
        self.spec.workers.saturating_sub(self.busy).min(common)
    }

    fn free_slots(&self, tenant: TenantKey, now: Real) -> u32 {
        self.queue.free_for(tenant, self.shared_slots(self.spec.queue, now)) as u32
    }

    fn note_tenant(&mut self, tenant: TenantKey, now: Real) {
        if tenant != NO_TENANT {
            self.tenant_seen = now;
        }
    }

    fn shared_slots(&self, all: u32, now: Real) -> SharedSlots {
        SharedSlots { all: all as usize, knows_tenants: now.0 - self.tenant_seen.0 < TENANT_SECONDS }
    }

    fn begin(&mut self) {
        self.busy += 1;
        self.counters.busy.set(u64::from(self.busy));
        self.counters.served.inc();
    }

    fn end(&mut self, service: Option<f64>) {
        self.busy = self.busy.saturating_sub(1);
        self.counters.busy.set(u64::from(self.busy));
        let Some(service) = service else { return };
        let weight = if self.service == 0.0 { 1.0 } else { SERVICE_WEIGHT };
        self.service += (service - self.service) * weight;
        self.counters.ended.inc();
        self.counters.service_us.add((service.max(0.0) * 1e6) as u64);
    }

    fn expected_wait(&self) -> f64 {
        let service = if self.service > 0.0 { self.service } else { FIRST_GUESS };
        let before = self.queue.len() + self.room.len() + 1;
        service * before as f64 / f64::from(self.spec.workers.max(1))
    }

    /// Refuses the request `key`, for which there is neither a worker nor a slot in the queue.
    fn refuse(&mut self, tenant: TenantKey, key: u64, takes_page: bool, tokens: &Tokens, now: Real) -> ClassRefusal {
        let wait = self.expected_wait();
        let (least, most) = PAGE_SECONDS;
        let comes = (wait / 4.0).clamp(least, most).ceil();
        let until = now.0 + (comes * MISSED_TIMES).max(comes + MISSED_SECONDS);
        let places = self.shared_slots(self.spec.room, now);
        let has_place = takes_page && self.spec.page && self.room.keep(tenant, key, until, places, now);
        self.counters.room.set(self.room.len() as u64);
        let seconds = if has_place { comes } else { wait.clamp(1.0, MAX_RETRY).ceil() };
        ClassRefusal {
            class: self.name.clone(),
            is_late: false,
            retry_after: seconds as u32,
            token: has_place.then(|| tokens.write(&self.spec.name, key)),
        }
    }
}

impl std::fmt::Debug for Class {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Class({}, {} busy, {} wait)", self.name, self.busy, self.queue.len())
    }
}

/// A worker of a class, held by a fetch. Without a class it only measures the cost.
pub struct ClassWorker {
    sess: Rc<Sess>,
    class: Option<(u32, Arc<str>)>,
    cost: CostKey,
    began: Mono,
    waited: f64,
}

impl ClassWorker {
    fn new(sess: &Rc<Sess>, class: &Class, cost: CostKey, waited: f64) -> Self {
        let class = Some((class.id, class.name.clone()));
        ClassWorker { sess: sess.clone(), class, cost, began: sess.engine.clock.mono(), waited }
    }

    pub fn free(sess: &Rc<Sess>, cost: CostKey) -> Self {
        ClassWorker { sess: sess.clone(), class: None, cost, began: sess.engine.clock.mono(), waited: 0.0 }
    }

    /// Seconds that the request waited in the queue.
    pub fn waited(&self) -> f64 {
        self.waited
    }

    pub fn answered(&self) {
        let engine = &self.sess.engine;
        engine.requests.classes.costs.learn(self.cost, engine.clock.mono().since(self.began));
    }

    /// Name of the class, seconds waited, seconds of service so far.
    pub fn account(&self) -> Option<(&str, f64, f64)> {
        let (_, name) = self.class.as_ref()?;
        Some((name, self.waited, self.sess.engine.clock.mono().since(self.began)))
    }
}

impl Drop for ClassWorker {
    fn drop(&mut self) {
        let Some((class, _)) = self.class else { return };
        let engine = &self.sess.engine;
        let service = engine.clock.mono().since(self.began);
        let called = engine.requests.classes.state.lock().leave(class, Some(service));
        called.into_iter().for_each(Called::wake);
    }
}

impl std::fmt::Debug for ClassWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClassWorker({:?})", self.class)
    }
}

pub struct PlaceWait {
    sess: Rc<Sess>,
    turn: Turn<()>,
    class: u32,
    tenant: TenantKey,
    name: Arc<str>,
    cost: CostKey,
    began: Mono,
    since: Real,
    /// The place that it had in the waiting room.
    key: Option<u64>,
    /// Seconds that it may be waited for.
    pub patience: f64,
}

impl PlaceWait {
    /// Leaves the queue after waiting for too long. The refusal keeps the request's order of arrival, as in
    /// [`ClassEntry::Refused`].
    pub fn give_up(self, takes_page: bool) -> ClassRefusal {
        let (sess, id, name) = (self.sess.clone(), self.class, self.name.clone());
        let (key, since, tenant) = (self.key, self.since, self.tenant);
        drop(self);
        let (classes, now) = (&sess.engine.requests.classes, sess.engine.clock.real());
        let key = key.unwrap_or_else(|| classes.new_key(since));
        let mut state = classes.state.lock();
        let Some(class) = state.class(id) else {
            return ClassRefusal { class: name, is_late: true, retry_after: 1, token: None };
        };
        class.counters.late.inc();
        ClassRefusal { is_late: true, ..class.refuse(tenant, key, takes_page, &classes.tokens, now) }
    }

    /// Leaves the queue because the client went away. It may come again, since a reload looks the same, so its place in
    /// the waiting room is kept.
    pub fn leave(self) {
        let now = self.sess.engine.clock.real();
        let mut state = self.sess.engine.requests.classes.state.lock();
        let Some(class) = state.class(self.class) else { return };
        class.counters.gone.inc();
        if let Some(key) = self.key {
            let places = class.shared_slots(class.spec.room, now);
            class.room.keep(self.tenant, key, now.0 + PAGE_SECONDS.1, places, now);
            class.counters.room.set(class.room.len() as u64);
        }
    }
}

impl Future for PlaceWait {
    type Output = ClassWorker;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ClassWorker> {
        ready!(self.turn.poll(cx));
        // A worker is free for it, and is counted as taken.
        self.turn.take();
        let engine = &self.sess.engine;
        let began = engine.clock.mono();
        let waited = began.since(self.began).max(0.0);
        if let Some(class) = engine.requests.classes.state.lock().class(self.class) {
            class.counters.waited.inc();
            class.counters.wait_us.add((waited * 1e6) as u64);
        }
        let class = Some((self.class, self.name.clone()));
        Poll::Ready(ClassWorker { sess: self.sess.clone(), class, cost: self.cost, began, waited })
    }
}

impl Drop for PlaceWait {
    fn drop(&mut self) {
        let called = self.sess.engine.requests.classes.state.lock().give_up(self.class, self.tenant, &self.turn);
        called.into_iter().for_each(Called::wake);
    }
}

impl std::fmt::Debug for PlaceWait {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PlaceWait({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(text: &str, workers: u32) -> ClassesState {
        let mut state = ClassesState { workers, ..ClassesState::default() };
        state.declare(parse(text).unwrap(), |_| CounterSet::private());
        state
    }

    fn sit(state: &mut ClassesState, class: usize, count: usize) -> Vec<Turn<()>> {
        (0..count).map(|_| state.classes[class].queue.join(NO_TENANT)).collect()
    }

    fn busy(state: &ClassesState) -> Vec<u32> {
        state.classes.iter().map(|class| class.busy).collect()
    }

    #[test]
    fn a_class_has_its_workers_and_calls_in_order() {
        let mut state = declared("a:workers=2; b:workers=1", 0);
        let (first, _) = (sit(&mut state, 0, 5), sit(&mut state, 1, 5));
        state.call_next();
        assert_eq!((busy(&state), state.busy), (vec![2, 1], 3));
        assert_eq!(first.iter().map(Turn::is_called).collect::<Vec<_>>(), [true, true, false, false, false]);
        state.leave(state.classes[0].id, Some(0.5));
        assert_eq!((busy(&state), first[2].is_called()), (vec![2, 1], true));
        assert_eq!(state.classes[0].service, 0.5);
    }

    #[test]
    fn a_tenants_request_binds_those_without_a_tenant_for_a_minute() {
        let mut state = declared("a:workers=1,queue=8", 0);
        let class = &mut state.classes[0];
        let free = |class: &Class, now| class.free_slots(NO_TENANT, Real(now));
        let _seated: Vec<_> = (0..4).map(|_| class.queue.join(NO_TENANT)).collect();
        assert_eq!(free(class, 100.0), 4);
        class.note_tenant(TenantKey(7), Real(100.0));
        class.note_tenant(NO_TENANT, Real(101.0));
        assert_eq!([free(class, 159.0), free(class, 160.0)], [0, 4]);
    }

    #[test]
    fn shares_count_where_classes_compete() {
        let mut state = declared("a:workers=100; b:workers=100,share=3", 8);
        let _seated = (sit(&mut state, 0, 50), sit(&mut state, 1, 50));
        state.call_next();
        assert_eq!(busy(&state), [2, 6]);
        // What one class doesn't use is the other's.
        let mut state = declared("a:workers=100; b:workers=100,share=3", 8);
        let _seated = sit(&mut state, 0, 50);
        state.call_next();
        assert_eq!(busy(&state), [8, 0]);
    }

    #[test]
    fn who_sits_in_a_class_that_is_declared_no_more_goes_on() {
        let mut state = declared("a:workers=1; b:workers=1", 0);
        let waiters = sit(&mut state, 0, 3);
        state.call_next();
        let (id, of_b) = (state.classes[0].id, state.classes[1].id);
        state.declare(parse("b:workers=7").unwrap(), |_| CounterSet::private());
        state.call_next();
        assert!(waiters.iter().all(Turn::is_called));
        (0..3).for_each(|_| drop(state.leave(id, None)));
        let left: Vec<_> = state.classes.iter().map(|class| (class.id, class.spec.workers)).collect();
        assert_eq!((left, state.busy), (vec![(of_b, 7)], 0));
    }

    #[test]
    fn one_that_goes_away_passes_its_worker_on() {
        let mut state = declared("a:workers=1", 0);
        let (id, places) = (state.classes[0].id, sit(&mut state, 0, 4));
        assert_eq!(state.call_next().len(), 1);
        assert!(state.give_up(id, NO_TENANT, &places[1]).is_empty(), "it had none");
        assert_eq!(state.classes[0].counters.waiting.get(), 2);
        assert_eq!(state.give_up(id, NO_TENANT, &places[0]).len(), 1);
        assert_eq!((busy(&state), state.busy, places[2].is_called()), (vec![1], 1, true));
        assert_eq!(places[2].take(), Some(()));
        assert!(state.give_up(id, NO_TENANT, &places[2]).is_empty(), "its worker is in use");
        assert_eq!((busy(&state), places[3].is_called()), (vec![1], false));
        // The last place of a class that isn't declared any more takes it along.
        state.declare(Vec::new(), |_| CounterSet::private());
        assert_eq!(state.leave(id, None).len(), 1);
        assert!(state.give_up(id, NO_TENANT, &places[3]).is_empty() && state.classes.is_empty() && state.busy == 0);
    }
}
