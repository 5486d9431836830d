// SPDX-License-Identifier: BSD-2-Clause
//! A worker whose cache is empty fetches the hottest objects of its peers before the node is ready (`--peers`, `warm`).
//!
//! Warming begins once the gate of the fleet's log is open, and ends when all is fetched, when the time is over, or when
//! half of the room in its stores is used. Until then `PEERS.warming` is 1, so that `/readyz` fails, and the node's
//! report doesn't make it a member of the tier. Clients that come all the same are served.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::io;
use std::net::TcpStream;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use engine::Engine;
use engine::peers::warm::{HotRequest, LACQUER_HOT_LIST, LONGEST_LIST, MOST_LISTED, WarmSession};
use engine::peers::{Peers, TierPeer};
use rt::Instant;
use webclient::{Timed, talk_to};

use crate::worker::Worker;

const MOST_ASKED: usize = 16;
const LIST_TIME: Duration = Duration::from_secs(5);
/// Time for which a node that knows no peers waits for some: as long as a report of a fleet's node counts.
const MEMBERS_TIME: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(50);
const FETCHES: usize = 8;
/// Bytes that are fetched if no store has a limit.
const MOST_BYTES: u64 = 1 << 30;

/// Warms the cache, if `PEERS.warming` says that it may be due. Runs on a serving thread.
pub async fn run(worker: Arc<Worker>) {
    let Some(peers) = worker.engine.cluster.peers().filter(|peers| peers.counters().warming.get() > 0) else { return };
    let time = crate::peers::warm_time(&worker).unwrap_or_default();
    let began = Instant::now();
    let deadline = began + time;
    let mut done = Warmed::default();
    let end = match rt::timeout_at(deadline, warm(&worker.engine, peers, deadline, &mut done)).await {
        Ok(()) => "",
        Err(rt::Elapsed) => "; the time was over",
    };
    peers.counters().warming.set(0);
    if !done.has_objects {
        report_line!("peers: warmed in {:.1} s: {done}{end}", began.elapsed().as_secs_f64());
    }
}

/// True if something of a former worker is in the stores. Waits until that is known.
async fn has_objects(engine: &Engine) -> bool {
    let stores = engine.cache.stores();
    while !stores.homes().all(|home| home.is_ready()) {
        rt::sleep(LOOK).await;
    }
    let has_copies = stores.homes().any(|home| home.least_ban_seq().is_some());
    has_copies || engine.cache.is_adopting() || engine.cache.census().0 > 0
}

#[derive(Default)]
struct Warmed {
    /// There is nothing to do, because the stores aren't empty.
    has_objects: bool,
    from: Vec<String>,
    /// Peers that gave none, with the reason.
    refused: Vec<String>,
    listed: usize,
    counts: Rc<Counts>,
}

#[derive(Default)]
struct Counts {
    objects: Cell<usize>,
    failed: Cell<usize>,
    bytes: Cell<u64>,
}

impl std::fmt::Display for Warmed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (objects, bytes) = (self.counts.objects.get(), self.counts.bytes.get());
        write!(f, "{objects} objects of {} listed, {bytes} bytes", self.listed)?;
        match self.from.is_empty() {
            true => f.write_str(", no peer gave a list")?,
            false => write!(f, ", lists of {}", self.from.join(" "))?,
        }
        if self.counts.failed.get() > 0 {
            write!(f, ", {} not fetched", self.counts.failed.get())?;
        }
        self.refused.iter().try_for_each(|reason| write!(f, "; {reason}"))
    }
}

async fn warm(engine: &Arc<Engine>, peers: &Peers, deadline: Instant, done: &mut Warmed) {
    done.has_objects = has_objects(engine).await;
    if done.has_objects {
        return;
    }
    let others = wait_for_peers(engine, peers).await;
    let mut all: HashMap<Box<[u8]>, (HotRequest, Arc<TierPeer>)> = HashMap::new();
    // Evenly over all members, if there are many. A silent one costs the others a quarter of the time at most.
    let asked = others.iter().step_by(others.len().div_ceil(MOST_ASKED).max(1));
    let list_time = LIST_TIME.min(deadline.saturating_duration_since(Instant::now()) / 4);
    let lists = RefCell::new(Vec::new());
    let ask = async |peer: &Arc<TierPeer>| {
        let list = list_of(engine, peers, peer, list_time).await;
        lists.borrow_mut().push((peer.clone(), list));
    };
    join_all(asked.map(|peer| Box::pin(ask(peer))).collect()).await;
    for (peer, list) in lists.into_inner() {
        match list {
            Ok(list) => {
                done.from.push(peer.name().to_owned());
                list.into_iter().for_each(|hot| merge(&mut all, hot, &peer));
            }
            Err(reason) => done.refused.push(format!("{} gave none: {reason}", peer.name())),
        }
    }
    let mut listed: Vec<_> = all.into_values().collect();
    listed.sort_by(|(one, _), (two, _)| two.rate.total_cmp(&one.rate));
    listed.truncate(MOST_LISTED);
    done.listed = listed.len();
    fetch_all(engine, listed, &done.counts).await;
}

/// Adds the use of an object at another peer. The first peer is asked for it.
fn merge(all: &mut HashMap<Box<[u8]>, (HotRequest, Arc<TierPeer>)>, hot: HotRequest, peer: &Arc<TierPeer>) {
    if let Some((known, _)) = all.get_mut(&hot.text) {
        known.rate += hot.rate;
    } else if all.len() < MOST_ASKED * MOST_LISTED {
        all.insert(hot.text.clone(), (hot, peer.clone()));
    }
}

/// The other members, once lookups may find what is stored. None if none are known for a while.
async fn wait_for_peers(engine: &Engine, peers: &Peers) -> Vec<Arc<TierPeer>> {
    while engine.cluster.gate.is_restricted() || engine.vcls.active().is_none() {
        rt::sleep(LOOK).await;
    }
    let until = Instant::now() + MEMBERS_TIME;
    loop {
        let others = peers.others();
        if !others.is_empty() || Instant::now() >= until {
            return others;
        }
        rt::sleep(LOOK).await;
    }
}

async fn list_of(engine: &Engine, peers: &Peers, peer: &TierPeer, time: Duration) -> Result<Vec<HotRequest>, String> {
    let (server, request) = (peer.server().clone(), peers.hot_list_request(engine, peer));
    let until = (Instant::now() + time).into_std();
    let ask = move || talk_with(&server.host, server.port, &request.bytes, until).map(|answer| (request, answer));
    match rt::blocking_lookup(ask).await {
        Ok(Ok((request, (code, list)))) => {
            peers.read_list_of(&request, &code, &list).ok_or_else(|| "no member has made its list".to_owned())
        }
        Ok(Err(error)) => Err(webclient::in_words(&error)),
        Err(none) => Err(none.text().to_owned()),
    }
}

fn talk_with(host: &str, port: u16, request: &[u8], until: std::time::Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let left = || until.saturating_duration_since(base::clock::now()).max(Duration::from_millis(1));
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in base::lookup::addresses(host, port)? {
        match TcpStream::connect_timeout(&address, left()) {
            Ok(socket) => return read_response(socket, request, until),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn read_response(socket: TcpStream, request: &[u8], until: std::time::Instant) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut list = Vec::new();
    let head = talk_to(Timed::new(socket, until), request, false, &mut |piece| {
        list.extend_from_slice(piece);
        if list.len() > LONGEST_LIST { Err(io::Error::other("its list is too long")) } else { Ok(()) }
    })?;
    if let Some(code) = head.get(LACQUER_HOT_LIST).filter(|_| head.status() == 200) {
        return Ok((code.to_vec(), list));
    }
    let refused = head.get("Lacquer-Refused").map(|reason| fleet::one_line(&String::from_utf8_lossy(reason), 100));
    Err(io::Error::other(refused.unwrap_or_else(|| format!("it answers {}", head.status()))))
}

async fn fetch_all(engine: &Arc<Engine>, listed: Vec<(HotRequest, Arc<TierPeer>)>, counts: &Rc<Counts>) {
    let limits = engine.cache.stores().all().iter().filter_map(|store| store.limit_bytes());
    let room = limits.sum::<u64>() / 2;
    let most = if room == 0 { MOST_BYTES } else { room };
    let session = WarmSession::open(engine);
    let rest = RefCell::new(listed.into_iter());
    let one_by_one = async || {
        while counts.bytes.get() < most && !engine.sessions.drain.has_begun() {
            let Some((hot, peer)) = rest.borrow_mut().next() else { return };
            if hot.body_bytes > most - counts.bytes.get() {
                continue;
            }
            let fetched = if peer.is_away() { None } else { session.fetch(&peer, &hot).await };
            match fetched {
                Some(bytes) => {
                    counts.objects.set(counts.objects.get() + 1);
                    counts.bytes.set(counts.bytes.get().saturating_add(bytes));
                }
                None => counts.failed.set(counts.failed.get() + 1),
            }
        }
    };
    join_all((0..FETCHES).map(|_| Box::pin(one_by_one())).collect()).await;
}

async fn join_all<F: Future<Output = ()>>(mut tasks: Vec<Pin<Box<F>>>) {
    let all = poll_fn(|cx| {
        tasks.retain_mut(|task| task.as_mut().poll(cx).is_pending());
        if tasks.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    });
    all.await;
}
