// SPDX-License-Identifier: BSD-2-Clause
//! What can go wrong with a request.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
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

impl Fault {
    pub const ALL: [Fault; 10] = [
        Fault::Refused,
        Fault::Connect,
        Fault::Exhausted,
        Fault::Tls,
        Fault::Reset,
        Fault::Closed,
        Fault::Truncated,
        Fault::BadHead,
        Fault::BadBody,
        Fault::Timeout,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Fault::Refused => "refused",
            Fault::Connect => "connect",
            Fault::Exhausted => "exhausted",
            Fault::Tls => "tls",
            Fault::Reset => "reset",
            Fault::Closed => "closed",
            Fault::Truncated => "truncated",
            Fault::BadHead => "bad_head",
            Fault::BadBody => "bad_body",
            Fault::Timeout => "timeout",
        }
    }

    pub const fn text(self) -> &'static str {
        match self {
            Fault::Refused => "connections refused",
            Fault::Connect => "connections failed",
            Fault::Exhausted => "no descriptor or port left here",
            Fault::Tls => "connections on which TLS failed",
            Fault::Reset => "connections reset",
            Fault::Closed => "connections closed without an answer",
            Fault::Truncated => "answers cut off",
            Fault::BadHead => "answers that aren't HTTP/1",
            Fault::BadBody => "answers with broken chunks",
            Fault::Timeout => "answers not in time (--timeout)",
        }
    }
}
