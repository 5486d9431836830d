// SPDX-License-Identifier: BSD-2-Clause
//! What the tests share: a cache on a manual clock, requests, heads, wakers that count.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use base::{Clock, Mono, Vxid};
use storage::{Buf, StoreSpec, Stores};
use tables::counters::{Main, Sma};
pub use testkit::block_on;

use crate::pending::Wait;
use crate::*;

pub struct Kit {
    pub cache: Cache,
    pub clock: Clock,
    pub main: &'static Main,
    pub sma: Vec<&'static Sma>,
    next_xid: AtomicUsize,
}

impl Cache {
    pub fn ban_text(&self, text: &str) -> Result<(), BanError> {
        self.ban(self.ban_of_text(text)?);
        Ok(())
    }
}

impl Kit {
    pub fn new() -> Kit {
        Kit::with(None, CacheParams::default())
    }

    pub fn with(limit: Option<u64>, params: CacheParams) -> Kit {
        Kit::of(&StoreSpec::in_memory(limit), params)
    }

    pub fn of(specs: &[StoreSpec], params: CacheParams) -> Kit {
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(1000));
        Kit::at(clock, specs, params)
    }

    pub fn at(clock: Clock, specs: &[StoreSpec], params: CacheParams) -> Kit {
        Kit::over(clock, params, |counters| Stores::open(specs, counters))
    }

    /// Beside another one that has the arenas.
    pub fn beside(clock: Clock, specs: &[StoreSpec], params: CacheParams) -> Kit {
        Kit::over(clock, params, |counters| Stores::open_beside(specs, counters))
    }

    fn over(
        clock: Clock,
        params: CacheParams,
        open: impl FnOnce(&mut dyn FnMut(&StoreSpec) -> &'static Sma) -> std::io::Result<Stores>,
    ) -> Kit {
        let main: &'static Main = Box::leak(Box::default());
        let mut sma: Vec<&'static Sma> = Vec::new();
        let stores = open(&mut |_| {
            sma.push(Box::leak(Box::default()));
            sma[sma.len() - 1]
        });
        let stores = stores.unwrap();
        let cache = Cache::new(CacheConfig {
            clock: clock.clone(),
            main,
            stores: Arc::new(stores),
            heads: Box::new(Heads),
            regexes: Box::new(Contains),
            params,
        });
        Kit { cache, clock, main, sma, next_xid: AtomicUsize::new(1) }
    }

    /// Continues the numbers of fetches after those of another kit.
    pub fn go_on_from(&self, other: &Kit) {
        self.next_xid.store(other.next_xid.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    pub fn now(&self) -> Mono {
        self.clock.mono()
    }

    pub fn pass(&self, seconds: f64) {
        self.clock.advance(Duration::from_secs_f64(seconds));
    }

    pub fn look(&self, url: &str) -> Looked {
        self.look_as(&TestReq::new(url))
    }

    pub fn look_as(&self, req: &TestReq) -> Looked {
        self.look_with(req, &LookupOptions::default())
    }

    pub fn look_with(&self, req: &TestReq, options: &LookupOptions) -> Looked {
        let mut search = Search::new(digest(&req.url), self.now(), *options);
        let lookup = search.look(&self.cache, req);
        Waiting::or_found(search, lookup)
    }

    pub fn look_again(&self, waiting: Box<Waiting>, req: &TestReq) -> Looked {
        let Waiting { mut search, pending } = *waiting;
        let lookup = search.look_again(&self.cache, pending, req);
        Waiting::or_found(search, lookup)
    }

    /// Continues a search while it reads copies back, which are ready at once.
    pub fn load(&self, mut looked: Looked, req: &TestReq) -> Looked {
        while let Err(mut waiting) = looked {
            if waiting.pending.awaits() != Awaits::Home {
                return Err(waiting);
            }
            block_on(&mut waiting);
            looked = self.look_again(waiting, req);
        }
        looked
    }

    pub fn evict_all(&self) -> u64 {
        self.cache.evict(0, u64::MAX, u64::MAX, &mut |_| {})
    }

    pub fn attrs(&self, ttl: f64, grace: f64, keep: f64, flags: ObjectFlags) -> Attrs {
        let xid = Vxid(self.next_xid.fetch_add(1, Ordering::Relaxed) as u64);
        Attrs { times: ObjectTimes { t_origin: self.now(), ttl, grace, keep }, xid, flags }
    }

    /// Misses and fills with a body of `ttl` and no grace.
    pub fn put(&self, url: &str, ttl: f64, body: &[u8]) {
        self.put_as(&TestReq::new(url), None, self.attrs(ttl, 0.0, 0.0, ObjectFlags::NONE), body);
    }

    pub fn put_as(&self, req: &TestReq, vary: Option<&str>, attrs: Attrs, body: &[u8]) {
        let busy = busy_of(self.look_with(req, &LookupOptions { always_miss: true, ..LookupOptions::default() }));
        self.fill(busy, req, vary, attrs, body);
    }

    pub fn fill(&self, mut busy: Busy, req: &TestReq, vary: Option<&str>, attrs: Attrs, body: &[u8]) {
        let mut values = Vec::new();
        req.vary_values(vary.unwrap_or("").as_bytes(), &mut values);
        let vary = vary.map(|spec| VaryKey { spec: spec.as_bytes(), values: &values });
        busy.set_head(&self.cache.stores().all()[0].clone(), HEAD, vary, &attrs, &[]).unwrap();
        busy.append(body).unwrap();
        busy.finish(None).unwrap();
    }

    /// One word for the result of a lookup of `url`. Gives a right to fetch back.
    pub fn verdict(&self, url: &str) -> &'static str {
        word(&self.look(url))
    }

    pub fn verdict_as(&self, req: &TestReq) -> &'static str {
        word(&self.look_as(req))
    }

    pub fn held(&self) -> u64 {
        self.cache.stores().all().iter().map(|store| store.used_bytes()).sum()
    }
}

pub const HEAD: &[u8] = b"200\nserver: kit\nx-tag: red\n";

/// A search that isn't over.
#[derive(Debug)]
pub struct Waiting {
    pub search: Search,
    pub pending: Pending,
}

pub type Looked = Result<Found, Box<Waiting>>;

impl Waiting {
    fn or_found(search: Search, lookup: Lookup) -> Looked {
        match lookup {
            Lookup::Ready(found) => Ok(found),
            Lookup::Pending(pending) => Err(Box::new(Waiting { search, pending })),
        }
    }

    pub fn is_woken(&self) -> bool {
        match &self.pending.0 {
            Wait::Parked(parked) => parked.is_woken(),
            Wait::Turn(_) | Wait::Home(_) => panic!("not parked"),
        }
    }
}

impl Future for Waiting {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.pending).poll(cx)
    }
}

pub fn word(looked: &Looked) -> &'static str {
    match looked {
        Ok(Found::Hit(_)) => "hit",
        Ok(Found::Grace { busy: None, .. }) => "grace",
        Ok(Found::Grace { busy: Some(_), .. }) => "grace+fetch",
        Ok(Found::Miss(_)) => "miss",
        Ok(Found::MissStale { .. }) => "miss+stale",
        Ok(Found::HitForMiss { .. }) => "hit-for-miss",
        Ok(Found::HitForPass { .. }) => "hit-for-pass",
        Ok(Found::Refused) => "refused",
        Err(waiting) => match waiting.pending.awaits() {
            Awaits::Fetch => "wait",
            Awaits::Home => "loading",
            Awaits::Turn => "unfinished",
        },
    }
}

pub fn busy_of(looked: Looked) -> Busy {
    match looked {
        Ok(Found::Miss(busy) | Found::MissStale { busy, .. } | Found::HitForMiss { busy, .. }) => busy,
        Ok(Found::Grace { busy: Some(busy), .. }) => busy,
        other => panic!("no right to fetch: {other:?}"),
    }
}

pub fn hit_of(looked: Looked) -> ObjRef {
    match looked {
        Ok(Found::Hit(obj)) => obj,
        other => panic!("no hit: {other:?}"),
    }
}

/// A search that waits for `what`.
pub fn waiting_for(what: Awaits, looked: Looked) -> Box<Waiting> {
    match looked {
        Err(waiting) if waiting.pending.awaits() == what => waiting,
        other => panic!("no wait for {what:?}: {other:?}"),
    }
}

pub fn parked(looked: Looked) -> Box<Waiting> {
    waiting_for(Awaits::Fetch, looked)
}

pub fn digest(url: &str) -> Digest {
    let mut builder = DigestBuilder::new();
    builder.add(Some(url.as_bytes()));
    builder.finish()
}

/// A request: a URL and fields with names in lower case. A vary spec is a comma-separated list of names.
#[derive(Clone, Debug, Default)]
pub struct TestReq {
    pub url: String,
    pub fields: BTreeMap<String, String>,
}

impl TestReq {
    pub fn new(url: &str) -> TestReq {
        TestReq { url: url.to_owned(), fields: BTreeMap::new() }
    }

    pub fn field(mut self, name: &str, value: &str) -> TestReq {
        self.fields.insert(name.to_owned(), value.to_owned());
        self
    }
}

impl CacheRequest for TestReq {
    fn vary_values(&self, spec: &[u8], out: &mut Vec<u8>) {
        for name in std::str::from_utf8(spec).unwrap().split(',') {
            out.extend_from_slice(self.fields.get(name).map_or("-", |value| value).as_bytes());
            out.push(b'\n');
        }
    }

    fn url(&self) -> &[u8] {
        self.url.as_bytes()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.fields.get(&name.to_ascii_lowercase()).map(|value| value.as_bytes())
    }
}

/// Heads are lines: the status, then `name: value`.
struct Heads;

impl HeadReader for Heads {
    fn header<'h>(&self, head: &'h [u8], name: &str) -> Option<&'h [u8]> {
        let want = format!("{}: ", name.to_ascii_lowercase());
        head.split(|&byte| byte == b'\n').find_map(|line| line.strip_prefix(want.as_bytes()))
    }

    fn status(&self, head: &[u8]) -> u16 {
        std::str::from_utf8(&head[..3]).unwrap().parse().unwrap()
    }
}

/// "Regular expressions": text that must be contained; `(` doesn't compile.
pub struct Contains;

struct Needle(Vec<u8>);

impl CacheRegex for Needle {
    fn is_match(&self, text: &[u8]) -> bool {
        self.0.is_empty() || text.windows(self.0.len()).any(|part| part == self.0)
    }
}

impl Regexes for Contains {
    fn compile(&self, pattern: &str) -> Result<Box<dyn CacheRegex>, String> {
        match pattern.contains('(') {
            true => Err("missing closing parenthesis".to_owned()),
            false => Ok(Box::new(Needle(pattern.as_bytes().to_vec()))),
        }
    }
}

#[derive(Default)]
pub struct TestBell(pub AtomicUsize);

impl Wake for TestBell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl TestBell {
    pub fn rings(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Polls once with `bell`.
pub fn poll<F: Future + Unpin>(future: &mut F, bell: &Arc<TestBell>) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(&Waker::from(bell.clone())))
}

pub async fn read_all(obj: &ObjRef) -> Result<Vec<u8>, BodyReadError> {
    let (mut reader, mut out) = (obj.reader(0), Vec::new());
    while let Some(buf) = reader.next().await? {
        out.extend_from_slice(&buf);
    }
    Ok(out)
}

/// A small generator of numbers, for simulations with a seed (xorshift).
pub struct TestRng(u64);

impl TestRng {
    pub fn new(seed: u64) -> TestRng {
        TestRng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % limit as u64) as usize
    }
}

/// Reads as the synchronous way of a hit does.
pub trait ReadNow {
    /// The next bytes if there are any without waiting. `Ok(None)` may be the end or a fetch that isn't that far.
    fn now(&mut self) -> Result<Option<Buf>, BodyReadError>;
}

impl ReadNow for BodyReader {
    fn now(&mut self) -> Result<Option<Buf>, BodyReadError> {
        match self.poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(found) => found,
            Poll::Pending => Ok(None),
        }
    }
}
