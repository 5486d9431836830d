// SPDX-License-Identifier: BSD-2-Clause
//! What can go wrong with a request.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplayFault {
    Refused,
    Connect,
    Exhausted,
    Tls,
    Reset,
    Closed,
    Truncated,
    BadHead,
    BadBody,
    Timeout,
}

impl ReplayFault {
    pub const ALL: [ReplayFault; 10] = [
        ReplayFault::Refused,
        ReplayFault::Connect,
        ReplayFault::Exhausted,
        ReplayFault::Tls,
        ReplayFault::Reset,
        ReplayFault::Closed,
        ReplayFault::Truncated,
        ReplayFault::BadHead,
        ReplayFault::BadBody,
        ReplayFault::Timeout,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            ReplayFault::Refused => "refused",
            ReplayFault::Connect => "connect",
            ReplayFault::Exhausted => "exhausted",
            ReplayFault::Tls => "tls",
            ReplayFault::Reset => "reset",
            ReplayFault::Closed => "closed",
            ReplayFault::Truncated => "truncated",
            ReplayFault::BadHead => "bad_head",
            ReplayFault::BadBody => "bad_body",
            ReplayFault::Timeout => "timeout",
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            ReplayFault::Refused => "connections refused",
            ReplayFault::Connect => "connections failed",
            ReplayFault::Exhausted => "no descriptor or port left here",
            ReplayFault::Tls => "connections on which TLS failed",
            ReplayFault::Reset => "connections reset",
            ReplayFault::Closed => "connections closed without an answer",
            ReplayFault::Truncated => "answers cut off",
            ReplayFault::BadHead => "answers that aren't HTTP/1",
            ReplayFault::BadBody => "answers with broken chunks",
            ReplayFault::Timeout => "answers not in time (--timeout)",
        }
    }
}
