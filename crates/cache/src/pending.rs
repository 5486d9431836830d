// SPDX-License-Identifier: BSD-2-Clause
//! The wait of a lookup that isn't decided yet: for another request's fetch, for the home of a store, or for the turn of
//! other tasks.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::homes::HomeRead;
use crate::waiting::Parked;

/// Await it, then [`crate::Search::look_again`]. Dropping it leaves the waitinglist, or gives back the right to fetch.
#[derive(Debug)]
pub struct Pending(pub(crate) Wait);

#[derive(Debug)]
pub(crate) enum Wait {
    Parked(Parked),
    /// More bans have to be tested than fit into one turn.
    Turn(OtherTasks),
    /// The right to fetch, while the homes of stores are asked first.
    Home(Box<HomeRead>),
}

/// Event that a lookup waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Awaits {
    /// The head of another request's fetch.
    Fetch,
    /// The other tasks of the thread.
    Turn,
    /// A stored copy, which the home of a store reads.
    Home,
}

#[derive(Debug, Default)]
pub(crate) struct OtherTasks {
    has_yielded: bool,
}

impl Pending {
    pub fn awaits(&self) -> Awaits {
        match self.0 {
            Wait::Parked(_) => Awaits::Fetch,
            Wait::Turn(_) => Awaits::Turn,
            Wait::Home(_) => Awaits::Home,
        }
    }

    /// Ends the reading of stored copies: what isn't loaded by now is fetched instead. Other waits go on.
    pub fn give_up(&mut self) {
        match &mut self.0 {
            Wait::Home(read) => read.give_up(),
            Wait::Parked(_) | Wait::Turn(_) => {}
        }
    }
}

impl Future for Pending {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Wait::Parked(parked) => parked.poll(cx),
            Wait::Turn(others) => others.poll(cx),
            Wait::Home(read) => read.poll(cx),
        }
    }
}

impl OtherTasks {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.has_yielded {
            return Poll::Ready(());
        }
        self.has_yielded = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}
