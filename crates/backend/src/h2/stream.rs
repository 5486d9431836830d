// SPDX-License-Identifier: BSD-2-Clause
//! One stream: the state shared by its exchange and the connection's task.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use message::Head;
use storage::Buf;
use tables::proxy_error::ProxyError;

use crate::buffers::Buffer;
use crate::exchange::{ExchangeAcct, MAX_INTERIM};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    Whole,
    /// The origin hasn't processed the request.
    Refused,
    /// The response is incomplete: the type of error, and a description.
    Broken(ProxyError, &'static str),
}

#[derive(Debug)]
pub(super) enum RequestEnd {
    /// More of the body may follow.
    Open,
    /// The end must be sent, with the trailers.
    Due(Option<Box<Head>>),
    Told,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub id: u32,
    waker: Option<Waker>,
    pub interims: VecDeque<Head>,
    interim_count: u32,
    pub head: Option<Head>,
    pub is_answered: bool,
    pub announced: Option<u64>,
    /// Received bytes of the body that the exchange hasn't taken yet.
    pub body: Buffer,
    /// Number of bytes taken since the last window update.
    pub used: usize,
    pub trailers: Option<Box<Head>>,
    pub end: End,
    /// A piece of the request's body to send, from `sent` on.
    pub piece: Option<Buf>,
    pub sent: usize,
    pub request_end: RequestEnd,
    /// True if the stream is a tunnel: either side may end its own bytes while the other continues.
    pub is_tunnel: bool,
    /// True if the request's head was written: the origin may have seen it.
    pub is_written: bool,
    pub acct: ExchangeAcct,
}

impl Stream {
    pub fn new(id: u32, request_end: RequestEnd) -> Self {
        Stream {
            id,
            waker: None,
            interims: VecDeque::new(),
            interim_count: 0,
            head: None,
            is_answered: false,
            announced: None,
            body: Buffer::default(),
            used: 0,
            trailers: None,
            end: End::Open,
            piece: None,
            sent: 0,
            request_end,
            is_tunnel: false,
            is_written: false,
            acct: ExchangeAcct::default(),
        }
    }

    pub fn park<T>(&mut self, cx: &Context<'_>) -> Poll<T> {
        match &mut self.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        Poll::Pending
    }

    pub fn wake(&mut self) {
        self.waker.take().into_iter().for_each(Waker::wake);
    }

    pub fn take_head(&mut self, head: Head, ends: bool, announced: Option<u64>) {
        if matches!(self.end, End::Broken(..)) {
            return;
        }
        if head.status() < 200 {
            self.interim_count += 1;
            match self.interim_count {
                ..=MAX_INTERIM => self.interims.push_back(head),
                _ => self.end = End::Broken(ProxyError::HttpProtocolError, "too many interim responses"),
            }
        } else {
            (self.head, self.is_answered, self.announced) = (Some(head), true, announced);
        }
        if ends {
            self.ends(End::Whole);
        }
        self.wake();
    }

    pub fn take_data(&mut self, data: &[u8], ends: bool) {
        if !data.is_empty() {
            self.body.provide().extend_from_slice(data);
        }
        if ends {
            self.ends(End::Whole);
        }
        self.wake();
    }

    pub fn ends(&mut self, end: End) {
        if self.end == End::Open {
            self.end = end;
        }
        if self.end != End::Whole {
            // The origin doesn't read on.
            self.piece = None;
        }
        self.wake();
    }

    pub fn takes_more(&self) -> bool {
        self.end == End::Open || self.is_tunnel && self.end == End::Whole
    }

    pub fn is_sent(&self) -> bool {
        self.piece.is_none() && matches!(self.request_end, RequestEnd::Told)
    }
}
