// SPDX-License-Identifier: BSD-2-Clause
//! Asks VCL whether a host may have a certificate on demand: by a request of ours that comes over a connection within this process, so
//! that all of VCL, a backend included, may answer. No client can come that way: no listener of `-a` has this name.
//!
//! Only 204 allows. An application that answers 200 to whatever it is asked allows nothing.

use std::sync::Arc;
use std::time::Duration;

use engine::ListenerInfo;
use net::{Address, Stream};
use parking_lot::Mutex;
use rt::Instant;

use crate::serving::ConnectionSlot;
use crate::worker::Worker;

/// Value of `local.socket` in VCL: names of listeners have no colon.
const SOCKET: &str = "acme:demand";
const PATH: &str = "/.well-known/acme-on-demand";
/// Response that allows a certificate.
const ALLOWED: &[u8] = b"HTTP/1.1 204";
/// Time limit of VCL and of whom it asks.
const PATIENCE: Duration = Duration::from_secs(10);
/// Questions that wait or are being answered. The manager asks again what is left out, if a client does.
const MOST: usize = 64;

#[derive(Default)]
pub struct Demand {
    state: Mutex<DemandState>,
    notify: Arc<rt::Notify>,
}

#[derive(Default)]
struct DemandState {
    waiting: Vec<String>,
    /// Those that wait, too.
    open: usize,
    allowed: Vec<String>,
}

impl Demand {
    pub fn ask(&self, name: &str) {
        let mut state = self.state.lock();
        // What the manager hasn't fetched counts, too: it may be gone.
        if state.open + state.allowed.len() < MOST {
            state.open += 1;
            state.waiting.push(name.to_owned());
            drop(state);
            self.notify.waker().wake();
        }
    }

    pub fn take_allowed(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().allowed)
    }

    fn take_waiting(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().waiting)
    }

    fn answer(&self, name: String, is_allowed: bool) {
        let mut state = self.state.lock();
        state.open -= 1;
        if is_allowed {
            state.allowed.push(name);
        }
    }
}

/// Asks what is to be asked, for as long as the process lives. One thread that serves runs it.
pub async fn run(worker: Arc<Worker>) {
    let info = Arc::new(listener());
    loop {
        worker.demand.notify.notified().await;
        for name in worker.demand.take_waiting() {
            let (worker, info) = (worker.clone(), info.clone());
            rt::spawn(async move {
                let is_allowed = is_allowed(&worker, info, &name).await;
                worker.demand.answer(name, is_allowed);
            });
        }
    }
}

fn listener() -> ListenerInfo {
    ListenerInfo {
        name: SOCKET.to_owned(),
        transport: "HTTP/1",
        has_proxy_header: false,
        is_tls: false,
        is_quic: false,
        frontend: SOCKET.to_owned(),
        h3_port: None,
        endpoint: SOCKET.to_owned(),
        is_unix: true,
    }
}

async fn is_allowed(worker: &Arc<Worker>, info: Arc<ListenerInfo>, name: &str) -> bool {
    let Some(slot) = ConnectionSlot::take(worker, &info, Address::Unix) else { return false };
    let Ok((ours, theirs)) = Stream::pair() else { return false };
    let accepted = fronts::AcceptedClient { stream: theirs, peer: Address::Unix, local: Address::Unix };
    let engine = worker.engine.clone();
    rt::spawn(async move {
        let _slot = slot;
        fronts::serve(engine, info, accepted).await;
    });
    says_yes(&ours, name, Instant::now() + PATIENCE).await
}

async fn says_yes(stream: &Stream, name: &str, deadline: Instant) -> bool {
    let request = format!("GET {PATH} HTTP/1.1\r\nHost: {name}\r\nUser-Agent: Lacquer\r\nConnection: close\r\n\r\n");
    if stream.write_all(request.as_bytes(), Some(deadline)).await.is_err() {
        return false;
    }
    // What follows isn't read: the connection ends.
    let mut answer = Vec::with_capacity(ALLOWED.len());
    while answer.len() < ALLOWED.len() {
        match stream.read_buf(&mut answer, Some(deadline)).await {
            Ok(0) | Err(_) => return false,
            Ok(_) => {}
        }
    }
    answer.starts_with(ALLOWED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_bounded_and_each_answer_makes_room() {
        let demand = Demand::default();
        (0..2 * MOST).for_each(|n| demand.ask(&format!("{n}.example")));
        let waiting = demand.take_waiting();
        assert_eq!((waiting.len(), demand.take_waiting().len()), (MOST, 0));
        demand.ask("more.example");
        assert!(demand.take_waiting().is_empty(), "all are open still");
        for (n, name) in waiting.into_iter().enumerate() {
            demand.answer(name, n % 2 == 0);
        }
        assert_eq!(demand.take_allowed().len(), MOST / 2);
        assert!(demand.take_allowed().is_empty());
        demand.ask("more.example");
        assert_eq!(demand.take_waiting(), ["more.example"]);
    }

    #[test]
    fn only_204_allows() {
        let check = |answers: &'static [&'static str], expected: bool| {
            rt::run(async move {
                let (ours, theirs) = Stream::pair().unwrap();
                rt::spawn(async move {
                    let mut request = Vec::new();
                    while !request.ends_with(b"\r\n\r\n") {
                        theirs.read_more(&mut request, 4096, None).await.unwrap();
                    }
                    assert!(request.starts_with(b"GET /.well-known/acme-on-demand HTTP/1.1\r\nHost: a.example\r\n"));
                    for piece in answers {
                        theirs.write_all(piece.as_bytes(), None).await.unwrap();
                    }
                });
                let said = says_yes(&ours, "a.example", Instant::now() + PATIENCE).await;
                assert_eq!(said, expected, "{answers:?}");
            })
            .unwrap();
        };
        check(&["HTTP/1.1 204 No Content\r\n\r\n"], true);
        check(&["HTTP/", "1.1 2", "04 No Content\r\n\r\n"], true);
        check(&["HTTP/1.1 200 OK\r\n\r\n"], false);
        check(&["HTTP/1.1 20"], false);
        check(&[], false);
    }
}
