// SPDX-License-Identifier: BSD-2-Clause
//! The origin of a simulation: listens on the network within the process, and answers as the scenario's rules say. What it
//! draws follows from the seed, the URL and how often that was asked for.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use net::ConnectTarget;
use testkit_net::memory::{MemoryListener, MemoryNetwork};

use crate::dice::SimDice;
use crate::history::{Served, SimEvent, SimHistory, SimReceived};
use crate::script::{ScriptRule, SimFraming, SimScenario};
use crate::text::ScriptSource;
use crate::wire::{Broken, SimBody, SimHead, SimWire};

/// Address of the origin: the backend of every scenario's VCL.
pub(crate) const ADDRESS: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

#[derive(Clone)]
pub(crate) struct SimOrigin(Rc<Inner>);

struct Inner {
    scenario: Rc<SimScenario>,
    seed: u64,
    history: SimHistory,
    clock: base::Clock,
    next_number: Cell<u64>,
    asked: RefCell<BTreeMap<String, u64>>,
    /// Present version of each URL's variant, and since when.
    current: RefCell<BTreeMap<(String, String), (u64, Duration)>>,
}

impl SimOrigin {
    pub fn start(
        network: &MemoryNetwork,
        scenario: Rc<SimScenario>,
        seed: u64,
        history: SimHistory,
        clock: base::Clock,
    ) {
        let origin = SimOrigin(Rc::new(Inner {
            scenario,
            seed,
            history,
            clock,
            next_number: Cell::new(1),
            asked: RefCell::default(),
            current: RefCell::default(),
        }));
        let listener = network.listen(ConnectTarget::Inet(ADDRESS.into()));
        drop(rt::spawn(accept(origin, listener)));
    }

    fn note(&self, event: SimEvent) {
        let _ = self.0.history.add(self.now(), event);
    }

    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.0.clock.mono().0)
    }

    fn dice(&self, url: &str) -> SimDice {
        let mut asked = self.0.asked.borrow_mut();
        let count = asked.entry(url.to_owned()).or_default();
        *count += 1;
        SimDice::for_thing(self.0.seed, url, *count)
    }
}

async fn accept(origin: SimOrigin, listener: MemoryListener) {
    let mut dice = SimDice::for_thing(origin.0.seed, "connections", 0);
    loop {
        let end = listener.accept().await;
        if dice.one_in(4) {
            end.set_step(64 + dice.below(2000) as usize);
        }
        drop(rt::spawn(serve(origin.clone(), SimWire::new(end))));
    }
}

async fn serve(origin: SimOrigin, mut wire: SimWire) {
    while let Ok(Some(head)) = wire.head().await {
        if exchange(&origin, &mut wire, &head).await.is_err() {
            return;
        }
    }
}

async fn exchange(origin: &SimOrigin, wire: &mut SimWire, head: &SimHead) -> Result<(), Broken> {
    let url = head.word(1).to_owned();
    let Some(rule) = origin.0.scenario.origins.iter().find(|rule| rule.url == url) else {
        wire.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await?;
        return Ok(());
    };
    let mut dice = origin.dice(&url);
    let number = origin.0.next_number.replace(origin.0.next_number.get() + 1);
    let variant = rule.vary.as_ref().and_then(|field| head.header(field)).unwrap_or("-").to_owned();
    let body = upload(wire, head).await;
    let is_cut_short = body.as_ref().is_some_and(|body| !body.is_whole);
    origin.note(SimEvent::Fetched { number, url: url.clone(), variant: variant.clone(), body });
    let answer = Answering { origin, rule, number, is_head: head.word(0) == "HEAD" };
    let done = if is_cut_short || dice.one_in(rule.refuse) {
        Err(Broken::Ended)
    } else {
        rt::sleep(rule.delay.draw_time(&mut dice)).await;
        answer.send(wire, head.header("If-None-Match"), variant, &mut dice).await
    };
    origin.note(SimEvent::Ended { number, is_whole: done.is_ok() });
    done
}

async fn upload(wire: &mut SimWire, head: &SimHead) -> Option<SimReceived> {
    let framing = match (head.header("Content-Length"), head.header("Transfer-Encoding")) {
        (Some(length), _) => SimBody::Length(length.parse().unwrap_or(0)),
        (None, Some(_)) => SimBody::Chunked,
        (None, None) => return None,
    };
    let mut bytes = Vec::new();
    let is_whole = wire.body(framing, &mut bytes).await.is_ok();
    Some(SimReceived { bytes, is_whole })
}

struct Answering<'a> {
    origin: &'a SimOrigin,
    rule: &'a ScriptRule,
    number: u64,
    is_head: bool,
}

impl Answering<'_> {
    async fn send(
        &self,
        wire: &mut SimWire,
        condition: Option<&str>,
        variant: String,
        dice: &mut SimDice,
    ) -> Result<(), Broken> {
        let place = (self.rule.url.clone(), variant);
        if let Some(of) = self.still_good(&place, condition) {
            let head = format!("HTTP/1.1 304 Not Modified\r\nETag: \"{of}\"\r\n{}\r\n", self.fields());
            self.origin.note(SimEvent::Served { number: self.number, served: Served::NotModified { of } });
            return wire.write(head.as_bytes()).await;
        }
        let is_failed = dice.one_in(self.rule.fail);
        let status = if is_failed { 503 } else { self.rule.status };
        let (url, variant) = place.clone();
        let source = ScriptSource { url, variant, number: self.number, lines: self.rule.lines.draw(dice) };
        if !is_failed {
            self.origin.0.current.borrow_mut().insert(place, (self.number, self.origin.now()));
        }
        let body = match self.rule.includes.is_empty() {
            true => source.bytes(),
            false => source.page(&self.rule.includes),
        };
        let framing = *dice.pick(&self.rule.framings);
        let etag = self.rule.etag.map_or(String::new(), |_| format!("ETag: \"{}\"\r\n", self.number));
        let length = match framing {
            SimFraming::Length => format!("Content-Length: {}\r\n", body.len()),
            SimFraming::Chunked => "Transfer-Encoding: chunked\r\n".to_owned(),
            SimFraming::Eof => "Connection: close\r\n".to_owned(),
        };
        let mut head = format!("HTTP/1.1 {status} Thing\r\nX-Body: {}\r\n{etag}{length}{}", self.number, self.fields());
        head.push_str("\r\n");
        self.origin.note(SimEvent::Served { number: self.number, served: Served::Body { status, source } });
        wire.write(head.as_bytes()).await?;
        if self.is_head {
            return Ok(());
        }
        self.send_body(wire, &body, framing, dice).await
    }

    /// The number of what the asker has, while that is still the answer.
    fn still_good(&self, place: &(String, String), condition: Option<&str>) -> Option<u64> {
        let (valid, condition) = (Duration::from_millis(self.rule.etag?), condition?);
        let (number, since) = *self.origin.0.current.borrow().get(place)?;
        let is_good = condition.trim_matches('"').parse() == Ok(number) && self.origin.now() - since <= valid;
        is_good.then_some(number)
    }

    fn fields(&self) -> String {
        let mut fields = format!("X-Number: {}\r\nX-Url: {}\r\n", self.number, self.rule.url);
        if let Some(field) = &self.rule.vary {
            fields.push_str(&format!("Vary: {field}\r\n"));
        }
        match (self.rule.is_private, self.rule.ttl) {
            (true, _) => fields.push_str("Cache-Control: private\r\n"),
            (false, Some(ttl)) => fields.push_str(&format!("Cache-Control: max-age={}\r\n", ttl / 1000)),
            (false, None) => {}
        }
        self.rule.headers.iter().for_each(|(name, value)| fields.push_str(&format!("{name}: {value}\r\n")));
        fields
    }

    async fn send_body(
        &self,
        wire: &SimWire,
        body: &[u8],
        framing: SimFraming,
        dice: &mut SimDice,
    ) -> Result<(), Broken> {
        let pieces = self.rule.pieces.draw(dice).max(1) as usize;
        let cut = dice.one_in(self.rule.cut).then(|| dice.below(pieces as u64) as usize);
        for (at, piece) in body.chunks(body.len().div_ceil(pieces).max(1)).enumerate() {
            if at > 0 {
                rt::sleep(self.rule.pause.draw_time(dice)).await;
            }
            if cut == Some(at) {
                // Half of what is announced, and where the connection's end would be the body's, no end.
                if framing == SimFraming::Chunked {
                    wire.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
                }
                wire.write(&piece[..piece.len() / 2]).await?;
                if framing == SimFraming::Eof {
                    wire.end.reset();
                }
                return Err(Broken::Ended);
            }
            match framing {
                SimFraming::Chunked => {
                    wire.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
                    wire.write(piece).await?;
                    wire.write(b"\r\n").await?;
                }
                SimFraming::Length | SimFraming::Eof => wire.write(piece).await?,
            }
        }
        match framing {
            SimFraming::Length => Ok(()),
            SimFraming::Chunked => wire.write(b"0\r\n\r\n").await,
            SimFraming::Eof => {
                wire.end.shutdown_write();
                Ok(())
            }
        }
    }
}
