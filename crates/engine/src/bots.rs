// SPDX-License-Identifier: BSD-2-Clause
//! The accounts of clients (parameter `bots`). The books are the crate `accounts`; this file has their lock, the clients of sessions, and the
//! charge that a fetch carries.
//!
//! A session notes up to [`NOTED_HITS`] hits of a client and takes the lock once for them: when there are so many, when another client's
//! request follows, before a judgement, and at its end. A request that needs a backend is judged under the lock; a fetch takes it once more
//! when it ends.

use std::rc::Rc;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use accounts::{Admission, Ask, BotClass, Caller, CallerIds, Ledger, LedgerSettings, Overdrawn, Verdict};
use base::Mono;
use base::lock::Mutex;
use cache::Digest;
use params::Params;
use params::bots::BotsMode;

use crate::sess::Sess;

const NOTED_HITS: usize = 8;

/// The books of a worker; see the module.
#[derive(Debug)]
pub struct Bots {
    mode: AtomicU8,
    seed: u64,
    books: Mutex<Option<Books>>,
}

#[derive(Debug)]
struct Books {
    ledger: Ledger,
    settings: LedgerSettings,
}

/// The client of a session, with the hits that the books don't know yet.
#[derive(Debug)]
pub(crate) struct SessCaller {
    caller: Rc<Caller>,
    verified: Box<[u8]>,
    hits: [Ask; NOTED_HITS],
    noted: usize,
}

impl Bots {
    /// `seed` is secret: keys of accounts depend on it.
    pub(crate) fn new(seed: u64) -> Self {
        Bots { mode: AtomicU8::new(BotsMode::Off as u8), seed, books: Mutex::default() }
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
    /// The client of a request with this User-Agent; `identity` is what VCL set.
    pub(crate) fn caller(&self, agent: &[u8], identity: Option<&[u8]>, verified: &[u8]) -> Rc<Caller> {
        let address = identity.and_then(|text| std::str::from_utf8(text).ok()?.trim().parse().ok());
        let address = address.unwrap_or_else(|| self.ends.client().ip());
        let mut noted = self.noted_caller.borrow_mut();
        if let Some(noted) = &mut *noted {
            if noted.caller.is(address, agent) && *noted.verified == *verified {
                return noted.caller.clone();
            }
            self.tell_hits(noted);
        }
        let tls = self.tls.get().and_then(|tls| tls.fingerprint.as_ref()).map_or("", |print| print.ja4());
        let ids = CallerIds { address: Some(address), network: None, tls: tls.as_bytes(), agent, verified };
        let caller = Rc::new(Caller::new(self.engine.requests.bots.seed, &ids));
        let new = SessCaller {
            caller: caller.clone(),
            verified: verified.into(),
            hits: [Ask::default(); NOTED_HITS],
            noted: 0,
        };
        *noted = Some(Box::new(new));
        caller
    }

    pub(crate) fn note_hit(&self, ask: Ask) {
        let mut noted = self.noted_caller.borrow_mut();
        let Some(noted) = &mut *noted else { return };
        noted.hits[noted.noted] = ask;
        noted.noted += 1;
        if noted.noted == NOTED_HITS {
            self.tell_hits(noted);
        }
    }

    /// Tells the books of all hits that were noted.
    pub(crate) fn flush_hits(&self) {
        if let Some(noted) = &mut *self.noted_caller.borrow_mut() {
            self.tell_hits(noted);
        }
    }

    fn tell_hits(&self, noted: &mut SessCaller) {
        let hits = &noted.hits[..std::mem::take(&mut noted.noted)];
        if !hits.is_empty() {
            let now = self.engine.clock.mono();
            self.engine.requests.bots.with(|ledger| ledger.hits(&noted.caller, hits, now));
        }
    }
}

/// The charge for a fetch: to whom, and by which permission. Dropped before [`FetchCharge::begin`], it gives the permission back.
///
/// The charge counts the waits for the backend. The time in which the client sends its request's body or takes the response is the client's own.
pub(crate) struct FetchCharge {
    sess: Rc<Sess>,
    caller: Rc<Caller>,
    admission: Option<Admission>,
    /// Seconds, once the fetch has begun.
    waited: Option<f64>,
}

impl FetchCharge {
    pub fn new(sess: &Rc<Sess>, caller: Rc<Caller>, admission: Option<Admission>) -> Self {
        FetchCharge { sess: sess.clone(), caller, admission, waited: None }
    }

    pub fn begin(&mut self) {
        self.waited = Some(0.0);
    }

    pub fn add(&mut self, seconds: f64) {
        self.waited = self.waited.map(|waited| waited + seconds.max(0.0));
    }

    /// True for a fetch that the class `crawl` or a verified bot pays for.
    pub fn is_crawl(&self) -> bool {
        self.admission.is_some()
    }

    pub fn end(mut self, bytes: u64) {
        self.settle(bytes);
    }

    fn settle(&mut self, bytes: u64) {
        let engine = &self.sess.engine;
        let now = engine.clock.mono();
        let admission = self.admission.take();
        let Some(seconds) = self.waited.take() else {
            if let Some(admission) = admission {
                engine.requests.bots.with(|ledger| ledger.cancel(&self.caller, admission, now));
            }
            return;
        };
        let counter = if admission.is_some() { &engine.main.bot_crawl_time } else { &engine.main.bot_reader_time };
        counter.add((seconds * 1e6) as u64);
        engine.requests.bots.with(|ledger| ledger.charge(&self.caller, seconds, bytes, admission, now));
    }
}

impl Drop for FetchCharge {
    fn drop(&mut self) {
        if self.waited.is_some() || self.admission.is_some() {
            self.settle(0);
        }
    }
}

/// The books' answer to a request that needs a backend.
pub(crate) struct Judged {
    pub caller: Rc<Caller>,
    pub verdict: Verdict,
    pub entry: Option<Result<Admission, Overdrawn>>,
}

impl Bots {
    /// Judges a request. A class that VCL has set counts instead of the verdict's.
    pub(crate) fn judge(&self, caller: Rc<Caller>, ask: Ask, now: Mono, set: Option<BotClass>) -> Option<Judged> {
        let enforces = self.enforces();
        self.with(|ledger| {
            let mut verdict = ledger.judge(&caller, ask, now);
            verdict.class = set.unwrap_or(verdict.class);
            let entry = (enforces && verdict.class != BotClass::Reader).then(|| ledger.reserve(&caller, now));
            match entry {
                Some(Err(_)) => ledger.refused(&caller, ask, now),
                _ => ledger.miss(&caller, ask, now),
            }
            Judged { caller, verdict, entry }
        })
    }
}
