// SPDX-License-Identifier: BSD-2-Clause
//! The thread that reads the sources: lines become requests' bytes, in batches that the sender takes over.
//!
//! It is never far ahead: a bounded channel stops it, so a log without end costs no more memory than a short one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

use accesslog::{AccessEntry, AccessSources, EntryStamp, Skip, SourceItem};

use crate::head::{Extras, Unsent};
use crate::order::{Order, ReplayRng, Shuffler};
use crate::target::{Router, TargetAddresses, TargetRules};
use crate::timing::Timing;

/// Requests of a batch, and bytes of their heads, at most (one head more).
const BATCH_REQUESTS: usize = 512;
const BATCH_BYTES: usize = 128 << 10;
/// Batches that may wait to be taken.
const AHEAD: usize = 8;
/// Most bytes kept in memory to be sent again (`--loop`); longer sources are read again.
const KEPT_BYTES: usize = 64 << 20;
const MAX_NOTES: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PlannedRequest {
    pub begin: u32,
    /// Offset behind its head.
    pub end: u32,
    pub address: u32,
    /// Due time by the log's clock, in nanoseconds since the first request.
    pub due: u64,
    /// A HEAD: its answer has no body.
    pub is_head: bool,
    /// May be sent a second time when a connection turns out to be closed.
    pub is_safe: bool,
}

#[derive(Debug, Default)]
pub struct ReplayBatch {
    pub bytes: Vec<u8>,
    pub asks: Vec<PlannedRequest>,
}

impl ReplayBatch {
    pub fn head(&self, ask: &PlannedRequest) -> &[u8] {
        self.bytes.get(ask.begin as usize..ask.end as usize).unwrap_or_default()
    }

    pub fn push(&mut self, head: &[u8], ask: PlannedRequest) {
        let begin = self.bytes.len() as u32;
        self.bytes.extend_from_slice(head);
        self.asks.push(PlannedRequest { begin, end: self.bytes.len() as u32, ..ask });
    }

    fn is_full(&self) -> bool {
        self.asks.len() >= BATCH_REQUESTS || self.bytes.len() >= BATCH_BYTES
    }
}

/// A batch on its way, and how much later than told its requests are due (`--loop`).
pub type SentBatch = (Arc<ReplayBatch>, u64);

#[derive(Clone, Debug, Default)]
pub struct ReadingPlan {
    pub sources: AccessSources,
    pub methods: Vec<String>,
    pub extras: Extras,
    pub rules: TargetRules,
    pub order: Order,
    pub seed: u64,
    pub is_timed: bool,
    pub max_gap: u64,
    pub repeat: bool,
}

#[derive(Debug, Default)]
pub struct ReaderReport {
    /// Bytes read, as they lie on the disk.
    pub read: Arc<AtomicU64>,
    pub size: AtomicU64,
    /// Lines and records that gave no request, by [`Unsent`].
    pub skipped: [AtomicU64; Unsent::ALL.len()],
    pub requests: AtomicU64,
    pub clock_jumps: AtomicU64,
    pub notes: Mutex<Vec<String>>,
    /// The sender wants none any more.
    pub is_over: AtomicBool,
    pub is_hungry: AtomicBool,
}

impl ReaderReport {
    fn note(&self, text: String) {
        if let Ok(mut notes) = self.notes.lock()
            && notes.len() < MAX_NOTES
            && !notes.contains(&text)
        {
            notes.push(text);
        }
    }

    fn skip(&self, unsent: Unsent) {
        self.skipped[unsent.place()].fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts reading. `wake` is called when a batch came that the sender waits for.
///
/// # Errors
/// No thread.
pub fn start(
    plan: ReadingPlan,
    addresses: TargetAddresses,
    wake: impl Fn() + Send + 'static,
) -> std::io::Result<(Receiver<SentBatch>, Arc<ReaderReport>)> {
    let (to, from) = sync_channel(AHEAD);
    let told = Arc::new(ReaderReport::default());
    told.size.store(plan.sources.bytes().unwrap_or(0), Ordering::Relaxed);
    let shared = told.clone();
    std::thread::Builder::new().name("replay-reader".into()).spawn(move || {
        let mut rng = ReplayRng::new(plan.seed);
        let mut out = Out {
            to,
            told: shared.clone(),
            wake: Box::new(wake),
            batch: ReplayBatch::default(),
            base: 0,
            kept: plan.repeat.then(Vec::new),
            kept_bytes: 0,
            last_due: 0,
        };
        let mut router = Router::new(plan.rules.clone(), addresses);
        let mut is_on = read_all(&plan, &mut router, &shared, &mut rng, &mut out);
        let requests = shared.requests.load(Ordering::Relaxed);
        // By the log's clock a round begins when the one before is over, so rounds can't share a batch.
        if let Some(kept) = out.kept.as_mut().filter(|_| !plan.is_timed) {
            fill_up(kept);
        }
        while is_on && plan.repeat && requests > 0 {
            out.base += out.last_due + out.last_due / requests.max(1);
            is_on = match out.kept.take() {
                Some(kept) => {
                    let again = out.again(&kept, plan.order, &mut rng);
                    out.kept = Some(kept);
                    again
                }
                None => read_all(&plan, &mut router, &shared, &mut rng, &mut out),
            };
        }
        // The sender learns of the end when the channel is dropped.
        let Out { to, wake, .. } = out;
        drop(to);
        wake();
    })?;
    Ok((from, told))
}

/// Makes one batch of a few requests by repeating them: handing over a batch costs as much as many requests.
fn fill_up(kept: &mut Vec<Arc<ReplayBatch>>) {
    let few: Vec<(Arc<ReplayBatch>, PlannedRequest)> =
        kept.iter().flat_map(|batch| batch.asks.iter().map(|ask| (batch.clone(), *ask))).take(BATCH_REQUESTS).collect();
    let mut batch = ReplayBatch::default();
    if few.is_empty() || few.len() >= BATCH_REQUESTS {
        return;
    }
    while !batch.is_full() {
        few.iter().for_each(|(from, ask)| batch.push(from.head(ask), *ask));
    }
    *kept = vec![Arc::new(batch)];
}

struct Out {
    to: SyncSender<SentBatch>,
    told: Arc<ReaderReport>,
    wake: Box<dyn Fn()>,
    batch: ReplayBatch,
    base: u64,
    /// Batches sent so far, for the next round; `None`: they are too much, or there is no next one.
    kept: Option<Vec<Arc<ReplayBatch>>>,
    kept_bytes: usize,
    last_due: u64,
}

impl Out {
    fn push(&mut self, head: &[u8], ask: PlannedRequest) -> bool {
        self.last_due = self.last_due.max(ask.due);
        self.batch.push(head, ask);
        !self.batch.is_full() || self.flush()
    }

    fn flush(&mut self) -> bool {
        if self.batch.asks.is_empty() {
            return !self.told.is_over.load(Ordering::Relaxed);
        }
        let batch = Arc::new(std::mem::take(&mut self.batch));
        self.kept_bytes += batch.bytes.len() + batch.asks.len() * size_of::<PlannedRequest>();
        if self.kept_bytes > KEPT_BYTES {
            self.kept = None;
        }
        if let Some(kept) = &mut self.kept {
            kept.push(batch.clone());
        }
        self.send(batch)
    }

    fn send(&mut self, batch: Arc<ReplayBatch>) -> bool {
        let is_taken = self.to.send((batch, self.base)).is_ok();
        if self.told.is_hungry.swap(false, Ordering::SeqCst) {
            (self.wake)();
        }
        is_taken && !self.told.is_over.load(Ordering::Relaxed)
    }

    fn again(&mut self, kept: &[Arc<ReplayBatch>], order: Order, rng: &mut ReplayRng) -> bool {
        let Order::Shuffled { .. } = order else { return kept.iter().all(|batch| self.send(batch.clone())) };
        let mut places: Vec<(u32, u32)> = Vec::new();
        for (b, batch) in kept.iter().enumerate() {
            places.extend((0..batch.asks.len()).map(|i| (b as u32, i as u32)));
        }
        rng.shuffle(&mut places);
        // Whoever comes is due when the one that came before in its place was.
        let dues = kept.iter().flat_map(|batch| batch.asks.iter().map(|ask| ask.due));
        for ((b, i), due) in places.into_iter().zip(dues) {
            let batch = &kept[b as usize];
            let ask = PlannedRequest { due, ..batch.asks[i as usize] };
            self.batch.push(batch.head(&ask), ask);
            if self.batch.is_full() {
                let full = Arc::new(std::mem::take(&mut self.batch));
                if !self.send(full) {
                    return false;
                }
            }
        }
        let rest = Arc::new(std::mem::take(&mut self.batch));
        rest.asks.is_empty() || self.send(rest)
    }
}

struct Stages<'a> {
    plan: &'a ReadingPlan,
    router: &'a mut Router,
    told: &'a ReaderReport,
    timing: Option<Timing>,
    shuffler: Option<Shuffler>,
    /// When those in the shuffler were due: whoever comes out next is due first.
    dues: VecDeque<u64>,
    rng: &'a mut ReplayRng,
    out: &'a mut Out,
    head: Vec<u8>,
}

/// Reads every source once; false when the sender wants no more.
fn read_all(plan: &ReadingPlan, router: &mut Router, told: &ReaderReport, rng: &mut ReplayRng, out: &mut Out) -> bool {
    let timing = plan.is_timed.then(|| Timing::new(plan.max_gap));
    let shuffler = match plan.order {
        Order::AsRead => None,
        Order::Shuffled { window } => Some(Shuffler::new(window)),
    };
    let mut stages = Stages { plan, router, told, timing, shuffler, dues: VecDeque::new(), rng, out, head: Vec::new() };
    let is_on = plan.sources.read(&told.read, &mut |item| match item {
        SourceItem::Entry(entry) => stages.take(&entry),
        SourceItem::Skipped(skip) => {
            told.skip(skip.into());
            true
        }
        // Before it waits for more, what is there goes out.
        SourceItem::Idle => stages.out.flush(),
        SourceItem::Note(text) => {
            told.note(text);
            true
        }
    });
    is_on && stages.finish()
}

impl Stages<'_> {
    fn take(&mut self, entry: &AccessEntry<'_>) -> bool {
        let ask = match self.make(entry) {
            Ok(ask) => ask,
            Err(unsent) => {
                self.told.skip(unsent);
                return true;
            }
        };
        self.told.requests.fetch_add(1, Ordering::Relaxed);
        let (ask, time) = ask;
        let head = std::mem::take(&mut self.head);
        let is_on = self.time_and_pass_on(&head, ask, time);
        self.head = head;
        is_on
    }

    fn time_and_pass_on(&mut self, head: &[u8], ask: PlannedRequest, time: Option<EntryStamp>) -> bool {
        let Some(timing) = &mut self.timing else { return self.pass_on(head, ask) };
        // Timed requests are known to have a time.
        let Some(time) = time else { return true };
        timing.add(head, ask, time);
        self.give_timed(false)
    }

    fn give_timed(&mut self, is_end: bool) -> bool {
        let Some(timing) = &mut self.timing else { return true };
        let ready = timing.take(is_end);
        self.told.clock_jumps.store(timing.jumps, Ordering::Relaxed);
        ready.asks.iter().all(|ask| self.pass_on(ready.head(ask), *ask))
    }

    fn pass_on(&mut self, head: &[u8], ask: PlannedRequest) -> bool {
        let Some(shuffler) = &mut self.shuffler else { return self.out.push(head, ask) };
        self.dues.push_back(ask.due);
        let drawn = shuffler.swap(head, ask, self.rng);
        drawn.is_none_or(|(head, ask)| self.push_drawn(&head, ask))
    }

    fn push_drawn(&mut self, head: &[u8], ask: PlannedRequest) -> bool {
        let due = self.dues.pop_front().unwrap_or(ask.due);
        self.out.push(head, PlannedRequest { due, ..ask })
    }

    /// Writes the head; its length and what else is known.
    fn make(&mut self, entry: &AccessEntry<'_>) -> Result<(PlannedRequest, Option<EntryStamp>), Unsent> {
        let plan = self.plan;
        let is_wanted = |method: &String| method.as_bytes() == &*entry.method;
        if *entry.method == *b"CONNECT" || !(plan.methods.is_empty() || plan.methods.iter().any(is_wanted)) {
            return Err(Unsent::Method);
        }
        if self.timing.is_some() && entry.time.is_none() {
            return Err(Unsent::NoTime);
        }
        let host =
            entry.host.as_deref().or(plan.extras.host.as_ref().map(String::as_bytes)).ok_or(Unsent::NoAddress)?;
        if host.is_empty() || host.iter().any(|&b| b <= b' ' || b == 0x7f) {
            return Err(Skip::BadTarget.into());
        }
        let address = self.router.route(entry, host)?;
        self.head.clear();
        plan.extras.encode(entry, host, &mut self.head)?;
        let (is_head, is_safe) = (*entry.method == *b"HEAD", matches!(&*entry.method, b"GET" | b"HEAD" | b"OPTIONS"));
        let ask = PlannedRequest { begin: 0, end: self.head.len() as u32, address, due: 0, is_head, is_safe };
        Ok((ask, entry.time))
    }

    fn finish(&mut self) -> bool {
        if !self.give_timed(true) {
            return false;
        }
        if let Some(shuffler) = self.shuffler.take() {
            for (head, ask) in shuffler.rest(self.rng) {
                if !self.push_drawn(&head, ask) {
                    return false;
                }
            }
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_requests_are_repeated_in_their_order() {
        let mut batch = ReplayBatch::default();
        let ask = PlannedRequest { begin: 0, end: 0, address: 0, due: 0, is_head: false, is_safe: true };
        for (address, head) in [&b"a"[..], b"bb", b"c"].into_iter().enumerate() {
            batch.push(head, PlannedRequest { address: address as u32, ..ask });
        }
        let mut kept = vec![Arc::new(batch)];
        fill_up(&mut kept);
        assert_eq!(kept.len(), 1);
        let heads: Vec<u8> = kept[0].asks.iter().flat_map(|ask| kept[0].head(ask).to_vec()).collect();
        assert_eq!(kept[0].asks.len() % 3, 0);
        assert_eq!(heads, b"abbc".repeat(kept[0].asks.len() / 3));
        assert!(kept[0].asks.len() >= BATCH_REQUESTS && kept[0].asks[4].address == 1);
        let whole = kept.clone();
        fill_up(&mut kept);
        assert!(Arc::ptr_eq(&kept[0], &whole[0]), "enough is left alone");
        fill_up(&mut Vec::new());
    }
}
