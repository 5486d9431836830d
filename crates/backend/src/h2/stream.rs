// SPDX-License-Identifier: BSD-2-Clause
//! One stream: what lies between its exchange and the connection's task.

use std::collections::VecDeque;
use std::task::{Context, Poll, Waker};

use message::Head;
use storage::Buf;
use tables::proxy_error::ProxyError;

use crate::buffers::Buffer;
use crate::exchange::{Acct, MAX_INTERIM};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Open,
    Whole,
    /// The origin has not looked at the request.
    Refused,
    /// The response isn't whole: the type of error, and why.
    Broken(ProxyError, &'static str),
}

#[derive(Debug)]
pub(super) enum RequestEnd {
    /// More of it may come.
    Open,
    /// The end is to be sent, with the fields behind the body.
    Due(Option<Box<Head>>),
    Told,
}

#[derive(Debug)]
pub(super) struct Stream {
    pub id: u32,
    waker: Option<Waker>,
    /// Interim responses that nobody has taken.
    pub interims: VecDeque<Head>,
    interim_count: u32,
    /// The final response's head, until it is taken.
    pub head: Option<Head>,
    pub is_answered: bool,
    /// The body's length as the head announces it.
    pub announced: Option<u64>,
    /// Received bytes of the body that weren't taken.
    pub body: Buffer,
    /// Bytes taken since the origin heard of that.
    pub used: usize,
    pub trailers: Option<Box<Head>>,
    pub end: End,
    /// A piece of the request's body that is to be sent, from `sent` on.
    pub piece: Option<Buf>,
    pub sent: usize,
    pub request_end: RequestEnd,
    /// Either side may end its own bytes, and the other goes on.
    pub is_tunnel: bool,
    /// The request's head is on its way: the origin may have seen it.
    pub is_written: bool,
    pub acct: Acct,
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
            acct: Acct::default(),
        }
    }

    /// Waits for the connection's task.
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

    /// The response is over, unless it was before.
    pub fn ends(&mut self, end: End) {
        if self.end == End::Open {
            self.end = end;
        }
        if self.end != End::Whole {
            // Nobody reads on.
            self.piece = None;
        }
        self.wake();
    }

    /// True if the origin takes more of the request.
    pub fn takes_more(&self) -> bool {
        self.end == End::Open || self.is_tunnel && self.end == End::Whole
    }

    pub fn is_sent(&self) -> bool {
        self.piece.is_none() && matches!(self.request_end, RequestEnd::Told)
    }
}
