// SPDX-License-Identifier: BSD-2-Clause
//! When a connection without a request ends: it has had none for `timeout_idle`, or is drained. What was sent may still be on its way, and would be
//! lost with the connection: the client's time begins when all has arrived, for which it has as long as for any response.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use net::quic::SendStream;
use rt::Deadline;
use tables::close::SessClose;

use super::link::{DRAIN_PAUSE, Link};

/// When an eighth of the time to be idle is over it is asked whether all has arrived: most clients have it by then, and QUIC needn't tell of
/// each response.
const FIRST_LOOK: u32 = 8;

/// Progress of a connection without a request towards its end.
#[derive(Default)]
pub(super) struct Idle {
    stage: Stage,
    timer: Option<Deadline>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Nobody has asked yet whether all has arrived.
    #[default]
    Unknown,
    Delivering,
    /// All has arrived: it is idle.
    Delivered,
}

impl Idle {
    /// Ends the connection when it is time; else it is looked at again by the task of `cx`.
    pub(super) fn poll(&mut self, link: &Link, cx: &mut Context<'_>) {
        if link.open_requests() > 0 {
            *self = Idle::default();
            return;
        }
        let timeouts = link.sess.timeouts.get();
        // A client that hasn't heard yet that no more requests are taken may have sent one.
        let limit = if link.has_gone_away() { timeouts.idle.min(DRAIN_PAUSE) } else { timeouts.idle };
        loop {
            let time = match self.stage {
                Stage::Unknown => limit / FIRST_LOOK,
                Stage::Delivering if link.poll_delivered(cx).is_ready() => {
                    link.touch();
                    self.stage = Stage::Delivered;
                    limit
                }
                Stage::Delivering if timeouts.send.is_zero() => {
                    self.timer = None;
                    return;
                }
                Stage::Delivering => timeouts.send.max(limit),
                Stage::Delivered => limit,
            };
            if self.timer.insert(Deadline::until(link.quiet_since() + time)).poll(cx).is_pending() {
                return;
            }
            self.stage = match self.stage {
                Stage::Unknown if link.has_delivered() => Stage::Delivered,
                Stage::Unknown => Stage::Delivering,
                Stage::Delivering | Stage::Delivered => {
                    // Told to the client by the connection's own task, which also ends the streams that are being accepted.
                    link.end(SessClose::RxCloseIdle);
                    self.timer = None;
                    return;
                }
            };
        }
    }
}

/// Responses that were sent whole and may not have arrived yet.
#[derive(Default)]
pub(super) struct Undelivered {
    streams: Vec<SendStream>,
    /// Number of responses at which they are searched for those that have arrived.
    many: usize,
    /// The end of others, which were waited for.
    arrival: Option<Pin<Box<dyn Future<Output = ()>>>>,
}

impl Undelivered {
    const FEW: usize = 16;

    pub(super) fn add(&mut self, sent: SendStream) {
        self.streams.push(sent);
        if self.streams.len() >= self.many.max(Self::FEW) {
            self.forget_arrived();
            self.many = self.streams.len() * 2;
        }
    }

    fn forget_arrived(&mut self) {
        // QUIC knows no stream any more of which all was confirmed.
        self.streams.retain(|sent| sent.priority().is_ok());
    }

    pub(super) fn have_arrived(&mut self) -> bool {
        self.forget_arrived();
        self.streams.is_empty() && self.arrival.is_none()
    }

    pub(super) fn poll_arrived(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(arrival) = &mut self.arrival {
                ready!(arrival.as_mut().poll(cx));
                self.arrival = None;
            }
            if self.have_arrived() {
                return Poll::Ready(());
            }
            self.arrival = Some(Box::pin(arrive(std::mem::take(&mut self.streams))));
        }
    }
}

async fn arrive(streams: Vec<SendStream>) {
    for sent in streams {
        // A stream that the client has stopped is reset as it is dropped here.
        let _ = sent.stopped().await;
    }
}
