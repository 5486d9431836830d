// SPDX-License-Identifier: BSD-2-Clause
//! The origin of drawn exchanges: answers as the exchange that is under way says, and remembers what it was asked.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use net::ConnectTarget;
use testkit_net::memory::MemoryNetwork;

use super::draw::Answering;
use super::fields::field;
use super::model::Asked;
use crate::origin::ADDRESS;
use crate::wire::{Broken, SimHead, SimWire};

#[derive(Clone)]
pub(super) struct Origin(Rc<Inner>);

struct Inner {
    clock: base::Clock,
    turn: RefCell<Option<Turn>>,
}

struct Turn {
    answering: Answering,
    asked: Vec<Asked>,
}

impl Origin {
    pub fn start(network: &MemoryNetwork, clock: base::Clock) -> Self {
        let origin = Origin(Rc::new(Inner { clock, turn: RefCell::default() }));
        let (listener, serving) = (network.listen(ConnectTarget::Inet(ADDRESS.into())), origin.clone());
        drop(rt::spawn(async move {
            loop {
                let wire = SimWire::new(listener.accept().await);
                drop(rt::spawn(serve(serving.clone(), wire)));
            }
        }));
        origin
    }

    pub fn begin(&self, answering: Answering) {
        *self.0.turn.borrow_mut() = Some(Turn { answering, asked: Vec::new() });
    }

    /// Requests since, one after the other. A request that is repeated, as a connection was closed, counts once.
    pub fn asked(&self) -> Vec<Asked> {
        let mut turn = self.0.turn.borrow_mut();
        let mut asked = turn.as_mut().map(|turn| std::mem::take(&mut turn.asked)).unwrap_or_default();
        asked.dedup();
        asked
    }

    fn note(&self, head: &SimHead) -> Option<Answering> {
        let mut turn = self.0.turn.borrow_mut();
        let turn = turn.as_mut()?;
        let of = |name| field(&head.headers, name).map(str::to_owned);
        turn.asked.push(Asked {
            method: head.word(0).to_owned(),
            if_none_match: of("If-None-Match"),
            if_modified_since: of("If-Modified-Since"),
            range: of("Range"),
            if_range: of("If-Range"),
        });
        Some(turn.answering.clone())
    }
}

async fn serve(origin: Origin, mut wire: SimWire) {
    while let Ok(Some(head)) = wire.head().await {
        if exchange(&origin, &wire, &head).await.is_err() {
            return;
        }
    }
}

/// One request and its answer; `Err`: the connection ends with it.
async fn exchange(origin: &Origin, wire: &SimWire, head: &SimHead) -> Result<(), Broken> {
    let answering = origin.note(head).filter(|answering| !answering.is_dead).ok_or(Broken::Ended)?;
    rt::sleep(Duration::from_millis(answering.delay_ms())).await;
    let answer = answering.answer(&head.headers, origin.0.clock.real().0.floor() as i64);
    let mut text = format!("HTTP/1.1 {} Thing\r\n", answer.status);
    answer.fields.iter().for_each(|(name, value)| text.push_str(&format!("{name}: {value}\r\n")));
    if answer.status != 304 {
        text.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    text.push_str("\r\n");
    if head.word(0) != "HEAD" {
        let is_cut = answering.is_cut && !answer.body.is_empty();
        text.push_str(&answer.body[..if is_cut { answer.body.len() / 2 } else { answer.body.len() }]);
        if is_cut {
            wire.write(text.as_bytes()).await?;
            return Err(Broken::Ended);
        }
    }
    wire.write(text.as_bytes()).await
}
