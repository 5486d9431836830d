// SPDX-License-Identifier: BSD-2-Clause
//! The accounts of clients (parameter `bots`). The books are the crate `accounts`; this file has their lock, the clients of sessions, and the
//! charge that a fetch carries.
//!
//! A thread notes up to [`NOTED_HITS`] hits of its clients and takes the lock once for them: when there are so many, within a second of the
//! first, and before a judgement. A request that needs a backend is judged under the lock; a fetch takes it once more when it ends.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use accounts::{Agents, Ask, BotClass, Caller, CallerIds, FetchEnd, Ledger, LedgerSettings, Overdrawn, Payer, Verdict};
use base::Mono;
use base::lock::Mutex;
use cache::Digest;
use params::Params;
use params::bots::BotsMode;

use crate::engine::Engine;
use crate::sess::Sess;

const NOTED_HITS: usize = 32;
/// Seconds after which the noted hits are brought to the books.
const NOTED_FOR: f64 = 1.0;

/// The books of a worker; see the module.
#[derive(Debug)]
pub struct Bots {
    mode: AtomicU8,
    seed: u64,
    /// Tells these books from those of another engine on the same thread.
    number: u64,
    books: Mutex<Option<Books>>,
}

#[derive(Debug)]
struct Books {
    ledger: Ledger,
    settings: LedgerSettings,
}

/// The hits of a thread that the books don't know yet, and the User-Agents of its clients.
struct NotedHits {
    number: u64,
    agents: Agents,
    hits: Vec<(Rc<Caller>, Ask)>,
    since: Mono,
    has_timer: bool,
}

thread_local! {
    static NOTED: RefCell<Option<Box<NotedHits>>> = const { RefCell::new(None) };
}

impl Bots {
    /// `seed` is secret: keys of accounts depend on it.
    pub(crate) fn new(seed: u64) -> Self {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Relaxed);
        Bots { mode: AtomicU8::new(BotsMode::Off as u8), seed, number, books: Mutex::default() }
    }

    /// New parameters are in force. Other memory or another half-life begins new books.
    pub fn apply(&self, params: &Params, now: Mono) {
        let mode = BotsMode::parse(&params.bots).unwrap_or_default();
        self.mode.store(mode as u8, Relaxed);
        let settings = settings_of(params);
        let mut books = self.books.lock();
        match &mut *books {
            _ if mode == BotsMode::Off => *books = None,
            Some(Books { ledger, settings: old })
                if old.bytes == settings.bytes && old.half_life == settings.half_life =>
            {
                ledger.set_budgets(&settings);
                *old = settings;
            }
            _ => *books = Some(Books { ledger: Ledger::new(settings.clone(), now), settings }),
        }
    }

    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.mode.load(Relaxed) != BotsMode::Off as u8
    }

    pub(crate) fn enforces(&self) -> bool {
        self.mode.load(Relaxed) == BotsMode::On as u8
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
        self.books.lock().as_mut().map(|books| work(&mut books.ledger))
    }

    /// Works with the notes of this thread for these books.
    fn noted<T>(&self, work: impl FnOnce(&mut NotedHits) -> T) -> T {
        NOTED.with_borrow_mut(|noted| match noted {
            Some(ours) if ours.number == self.number => work(ours),
            _ => work(noted.insert(Box::new(NotedHits {
                number: self.number,
                agents: Agents::new(self.seed),
                hits: Vec::with_capacity(NOTED_HITS),
                since: Mono(0.0),
                has_timer: false,
            }))),
        })
    }

    /// Notes a hit. True if it needs [`flush_later`], because no timer of this thread will bring it to the books.
    pub(crate) fn note_hit(&self, caller: Rc<Caller>, ask: Ask, now: Mono) -> bool {
        self.noted(|noted| {
            if noted.hits.is_empty() {
                noted.since = now;
            }
            noted.hits.push((caller, ask));
            if noted.hits.len() >= NOTED_HITS || now.since(noted.since) >= NOTED_FOR {
                self.flush_notes(noted, now);
            }
            !std::mem::replace(&mut noted.has_timer, true)
        })
    }

    /// Tells the books of all hits that this thread has noted.
    pub(crate) fn flush_hits(&self, now: Mono) {
        self.noted(|noted| self.flush_notes(noted, now));
    }

    fn flush_notes(&self, noted: &mut NotedHits, now: Mono) {
        if noted.hits.is_empty() {
            return;
        }
        self.with(|ledger| {
            for hits in noted.hits.chunk_by(|(one, _), (other, _)| one.is_same(other)) {
                ledger.hits(&hits[0].0, hits.iter().map(|(_, ask)| *ask), now);
            }
        });
        // After the unlock: it may free clients.
        noted.hits.clear();
    }
}

/// Tells the books within a second of what this thread has noted, if no further hit does.
pub(crate) fn flush_later(engine: &Arc<Engine>) {
    let engine = Arc::downgrade(engine);
    rt::spawn(async move {
        rt::sleep(Duration::from_secs_f64(NOTED_FOR)).await;
        let Some(engine) = engine.upgrade() else { return };
        let bots = &engine.requests.bots;
        bots.noted(|noted| noted.has_timer = false);
        bots.flush_hits(engine.clock.mono());
    });
}

fn settings_of(params: &Params) -> LedgerSettings {
    let share = (params.bots_share / 100.0).clamp(0.0, 0.99);
    LedgerSettings {
        bytes: usize::try_from(params.bots_memory).unwrap_or(usize::MAX),
        half_life: params.bots_half_life.as_secs_f64(),
        share,
        verified_share: share,
        least: params.bots_least,
        learning: params.bots_learning.as_secs_f64(),
        patience: params.bots_patience.as_secs_f64(),
    }
}

pub(crate) fn object_of(digest: &Digest) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.0[..8]);
    u64::from_le_bytes(first)
}

impl Sess {
    /// The client of a request. The session knows its TLS fingerprint, and its address unless VCL has set another.
    pub(crate) fn caller(&self, ids: CallerIds<'_>) -> Rc<Caller> {
        let address = ids.address.unwrap_or_else(|| self.ends.client().ip());
        let ids = CallerIds { address: Some(address), ..ids };
        let mut latest = self.latest_caller.borrow_mut();
        match &*latest {
            // The fingerprint is the session's.
            Some(caller) if caller.is(&ids) => caller.clone(),
            _ => {
                let tls = self.tls.get().and_then(|tls| tls.fingerprint.as_ref()).map_or("", |print| print.ja4());
                let ids = CallerIds { tls: tls.as_bytes(), ..ids };
                let caller = self.engine.requests.bots.noted(|noted| Caller::new(&mut noted.agents, &ids));
                latest.insert(Rc::new(caller)).clone()
            }
        }
    }
}

/// The charge for a fetch: to whom, and by which permission. Dropped before [`FetchCharge::begin`], it gives the permission back.
///
/// The charge counts the waits for the backend. The time in which the client sends its request's body or takes the response is the client's own.
pub(crate) struct FetchCharge {
    sess: Rc<Sess>,
    caller: Rc<Caller>,
    payer: Payer,
    /// Seconds, once the fetch has begun.
    waited: Option<f64>,
}

impl FetchCharge {
    pub fn new(sess: &Rc<Sess>, caller: Rc<Caller>, payer: Payer) -> Self {
        FetchCharge { sess: sess.clone(), caller, payer, waited: None }
    }

    pub fn begin(&mut self) {
        self.waited = Some(0.0);
    }

    pub fn add(&mut self, seconds: f64) {
        self.waited = self.waited.map(|waited| waited + seconds.max(0.0));
    }

    /// True for a fetch that the class `crawl` or a verified bot pays for.
    pub fn is_crawl(&self) -> bool {
        matches!(self.payer, Payer::Budget(_) | Payer::Part)
    }

    /// `has_failed`: as [`FetchEnd`] says.
    pub fn end(mut self, bytes: u64, has_failed: bool) {
        self.settle(bytes, has_failed);
    }

    fn settle(&mut self, bytes: u64, has_failed: bool) {
        let engine = &self.sess.engine;
        let now = engine.clock.mono();
        let payer = std::mem::replace(&mut self.payer, Payer::Readers);
        let Some(waited) = self.waited.take() else {
            if payer != Payer::Readers {
                engine.requests.bots.with(|ledger| ledger.cancel(&self.caller, payer, now));
            }
            return;
        };
        let is_crawl = matches!(payer, Payer::Budget(_) | Payer::Part);
        let counter = if is_crawl { &engine.main.bot_crawl_time } else { &engine.main.bot_reader_time };
        let end = FetchEnd { waited, bytes, has_failed };
        let counted = engine.requests.bots.with(|ledger| ledger.charge(&self.caller, end, payer, now));
        counter.add((counted.unwrap_or_default() * 1e6) as u64);
    }
}

impl Drop for FetchCharge {
    fn drop(&mut self) {
        if self.waited.is_some() || self.payer != Payer::Readers {
            self.settle(0, true);
        }
    }
}

/// The books' answer to a request that needs a backend.
pub(crate) struct Judged {
    pub caller: Rc<Caller>,
    pub verdict: Verdict,
    pub entry: Result<Payer, Overdrawn>,
}

impl Bots {
    /// Judges a request. A class that VCL has set counts instead of the verdict's.
    pub(crate) fn judge(&self, caller: Rc<Caller>, ask: Ask, now: Mono, set: Option<BotClass>) -> Option<Judged> {
        let enforces = self.enforces();
        self.with(|ledger| {
            let mut verdict = ledger.judge(&caller, ask, now);
            verdict.class = set.unwrap_or(verdict.class);
            let entry = match verdict.class {
                BotClass::Crawl | BotClass::Verified if enforces => {
                    ledger.reserve(&caller, &verdict.reason, now).map(Payer::Budget)
                }
                BotClass::Reader if set.is_some() => Ok(Payer::Readers),
                BotClass::Reader | BotClass::Crawl | BotClass::Verified => Ok(verdict.payer()),
            };
            match entry {
                Err(_) => ledger.refused(&caller, ask, now),
                Ok(payer) => ledger.miss(&caller, ask, payer, now),
            }
            Judged { caller, verdict, entry }
        })
    }
}
