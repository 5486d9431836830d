// SPDX-License-Identifier: BSD-2-Clause
//! Scripted clients: each does its steps, one after the other, on connections to the real front.

use std::cell::RefCell;
use std::rc::Rc;

use net::Address;

use crate::history::{SimAnswer, SimEnd, SimEvent};
use crate::plan::{SimAction, SimAsk, SimClient, SimUpload};
use crate::quic::{SimQuic, SimQuicLink};
use crate::script::SimFraming;
use crate::text::ScriptSource;
use crate::wire::{Broken, SimBody, SimHead, SimPace, SimWire};
use crate::world::SimWorld;

/// A client's end of a connection, and the task at the other.
struct Connection {
    wire: SimWire,
    session: rt::JoinHandle<()>,
}

/// A client that asks one thing after the other, and waits for each answer.
pub(crate) struct Asker {
    world: Rc<SimWorld>,
    client: SimClient,
    kept: Option<Connection>,
}

impl Asker {
    pub fn new(world: Rc<SimWorld>) -> Self {
        Asker { world, client: SimClient { number: 0, steps: Vec::new(), torn: None }, kept: None }
    }

    pub async fn ask(&mut self, ask: &SimAsk) -> SimAnswer {
        answer_to(&self.world, &self.client, ask, &mut self.kept).await
    }
}

pub(crate) async fn run(world: Rc<SimWorld>, quic: Option<Rc<SimQuic>>, client: SimClient) {
    let (mut kept, mut link) = (None, None);
    for (step, action) in client.steps.iter().enumerate() {
        match action {
            SimAction::Wait(time) => rt::sleep(*time).await,
            SimAction::Ask(ask) => {
                world.note(SimEvent::Asked { client: client.number, step, ask: ask.clone() });
                let answer = match &quic {
                    Some(quic) => answer_over(quic, &client, ask, &mut link).await,
                    None => answer_to(&world, &client, ask, &mut kept).await,
                };
                world.note(SimEvent::Answered { client: client.number, step, answer });
            }
        }
    }
}

/// Asks, on the connection there is or on a new one. A connection that was kept may have been closed meanwhile, as any
/// server may do: then the client asks once more.
async fn answer_to(world: &Rc<SimWorld>, client: &SimClient, ask: &SimAsk, kept: &mut Option<Connection>) -> SimAnswer {
    if let Some(own) = kept.take() {
        let answer = answer_on(own, ask, kept).await;
        if (answer.status, answer.end) != (0, SimEnd::Cut) || ask.body.is_some() {
            return answer;
        }
    }
    answer_on(connect(world, client), ask, kept).await
}

/// The same as [`answer_to`], over QUIC.
async fn answer_over(quic: &SimQuic, client: &SimClient, ask: &SimAsk, kept: &mut Option<SimQuicLink>) -> SimAnswer {
    for is_again in [false, true] {
        let link = match kept.take() {
            Some(link) => link,
            None => match quic.connect(client).await {
                Some(link) => link,
                None => break,
            },
        };
        let (answer, is_usable) = link.ask(ask).await;
        *kept = is_usable.then_some(link);
        if is_again || (answer.status, answer.end) != (0, SimEnd::Cut) || ask.body.is_some() {
            return answer;
        }
    }
    SimAnswer::default()
}

async fn answer_on(mut own: Connection, ask: &SimAsk, kept: &mut Option<Connection>) -> SimAnswer {
    own.wire.set_pace(SimPace(ask.slow));
    let answer = RefCell::new(SimAnswer::default());
    let exchanged = async { exchange(&mut own.wire, ask, &answer).await };
    let is_usable = match ask.gone.or(ask.dropped) {
        Some(after) => match rt::timeout(after, exchanged).await {
            Ok(exchanged) => exchanged,
            Err(rt::Elapsed) => {
                answer.borrow_mut().end = SimEnd::Left;
                Err(Broken::Ended)
            }
        },
        None => exchanged.await,
    };
    if ask.dropped.is_some() && answer.borrow().end == SimEnd::Left {
        own.session.abort();
    }
    if is_usable == Ok(true) && own.wire.is_clean() {
        *kept = Some(own);
    }
    answer.into_inner()
}

fn connect(world: &Rc<SimWorld>, client: &SimClient) -> Connection {
    let peer = Address::inet(([192, 0, 2, client.number as u8 + 1], 40_000).into());
    let local = Address::inet(([10, 0, 0, 2], 80).into());
    let (theirs, ours) = testkit_net::memory::pair(local, peer);
    if let Some(bytes) = client.torn {
        ours.set_step(bytes);
    }
    let session = world.accept(theirs, peer, local);
    Connection { wire: SimWire::new(ours), session }
}

/// Sends the request and reads the answer; whether the connection can be used again.
pub(crate) async fn exchange(wire: &mut SimWire, ask: &SimAsk, answer: &RefCell<SimAnswer>) -> Result<bool, Broken> {
    let mut head = format!("{} {} HTTP/1.1\r\nHost: example.com\r\n", ask.method, ask.url);
    ask.headers.iter().for_each(|(name, value)| head.push_str(&format!("{name}: {value}\r\n")));
    let body = ask.body.as_ref().map(|upload| (upload, uploaded(ask, upload).bytes()));
    match &body {
        None => {}
        Some((upload, _)) if upload.framing == SimFraming::Chunked => head.push_str("Transfer-Encoding: chunked\r\n"),
        Some((_, bytes)) => head.push_str(&format!("Content-Length: {}\r\n", bytes.len())),
    }
    head.push_str("\r\n");
    wire.write(head.as_bytes()).await?;
    if let Some((upload, bytes)) = body {
        send_body(wire, upload, &bytes).await?;
    }
    let head = loop {
        let Some(head) = wire.head().await? else { return Err(Broken::Ended) };
        if !head.word(1).starts_with('1') {
            break head;
        }
    };
    let framing = framing(&head, ask);
    {
        let mut answer = answer.borrow_mut();
        answer.status = head.word(1).parse().unwrap_or(0);
        answer.headers.clone_from(&head.headers);
    }
    let mut bytes = Reading { answer, bytes: Vec::new() };
    wire.body(framing, &mut bytes.bytes).await?;
    drop(bytes);
    answer.borrow_mut().end = SimEnd::Whole;
    let closes = head.header("Connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    Ok(!closes && framing != SimBody::Eof)
}

/// A body that is being read: what has come is the answer's whenever that ends.
struct Reading<'a> {
    answer: &'a RefCell<SimAnswer>,
    bytes: Vec<u8>,
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.answer.borrow_mut().body = std::mem::take(&mut self.bytes);
    }
}

pub(crate) fn uploaded(ask: &SimAsk, upload: &SimUpload) -> ScriptSource {
    ScriptSource { url: ask.url.clone(), variant: "up".to_owned(), number: 0, lines: upload.lines }
}

async fn send_body(wire: &SimWire, upload: &SimUpload, bytes: &[u8]) -> Result<(), Broken> {
    let pieces = upload.pieces as usize;
    for (at, piece) in bytes.chunks(bytes.len().div_ceil(pieces).max(1)).enumerate() {
        if at > 0 {
            rt::sleep(upload.pause).await;
        }
        let is_chunked = upload.framing == SimFraming::Chunked;
        if is_chunked {
            wire.write(format!("{:x}\r\n", piece.len()).as_bytes()).await?;
        }
        if upload.is_cut && at + 1 >= pieces {
            wire.write(&piece[..piece.len() / 2]).await?;
            return Err(Broken::Ended);
        }
        wire.write(piece).await?;
        if is_chunked {
            wire.write(b"\r\n").await?;
        }
    }
    match upload.framing {
        SimFraming::Chunked => wire.write(b"0\r\n\r\n").await,
        SimFraming::Length | SimFraming::Eof => Ok(()),
    }
}

fn framing(head: &SimHead, ask: &SimAsk) -> SimBody {
    let status = head.word(1);
    if ask.method == "HEAD" || status == "304" || status == "204" {
        return SimBody::None;
    }
    match (head.header("Transfer-Encoding"), head.header("Content-Length")) {
        (Some(_), _) => SimBody::Chunked,
        (None, Some(length)) => length.parse().map_or(SimBody::Eof, SimBody::Length),
        (None, None) => SimBody::Eof,
    }
}
