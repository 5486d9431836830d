// SPDX-License-Identifier: BSD-2-Clause
//! What a client may do only so often, as it costs it little and us more: each ends its connection with H3_EXCESSIVE_LOAD. Some of it is
//! HTTP/3's, and some QUIC's, whose frames somebody else counts.

use http2::Meter;

use crate::error::{Code, Error};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abuse {
    /// GOAWAY and MAX_PUSH_ID: nothing follows from them.
    Control,
    /// PRIORITY_UPDATE beyond a few for each request.
    Priority,
    /// Frames of unknown kinds, DATA without data, instructions to tables that have no room.
    Ignored,
    /// Streams in one direction that we don't know, or that end before they say what they are.
    Stream,
    Ping,
    /// Moves between addresses, PATH_CHALLENGE, and connection ids that are given and taken back.
    Path,
    /// Changes of windows, and complaints about them, that no data called for.
    Window,
    Stop,
}

impl Abuse {
    pub const ALL: [Abuse; 8] = [
        Abuse::Control,
        Abuse::Priority,
        Abuse::Ignored,
        Abuse::Stream,
        Abuse::Ping,
        Abuse::Path,
        Abuse::Window,
        Abuse::Stop,
    ];

    pub const fn text(self) -> &'static str {
        match self {
            Abuse::Control => "Too many GOAWAY or MAX_PUSH_ID frames",
            Abuse::Priority => "Too many PRIORITY_UPDATE frames",
            Abuse::Ignored => "Too many frames that mean nothing",
            Abuse::Stream => "Too many streams without use",
            Abuse::Ping => "Too many PING frames",
            Abuse::Path => "Too many moves, path challenges or connection ids",
            Abuse::Window => "Too many changes of windows",
            Abuse::Stop => "Too many STOP_SENDING or RESET_STREAM frames",
        }
    }
}

impl From<Abuse> for Error {
    fn from(abuse: Abuse) -> Error {
        Error { abuse: Some(abuse), ..Error::connection(Code::ExcessiveLoad, abuse.text()) }
    }
}

/// Number of acts that there may be in a period; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Seconds in which a spent allowance comes back.
    pub period: u32,
    /// Limits in the order of [`Abuse::ALL`].
    pub most: [u32; Abuse::ALL.len()],
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Meters([Meter; Abuse::ALL.len()]);

impl Meters {
    /// Counts so many. `now`: seconds since the connection began.
    ///
    /// # Errors
    /// They are too many: the connection has to end.
    pub fn count(&mut self, abuse: Abuse, times: u32, now: f32, limits: &Limits) -> Result<(), Error> {
        let (meter, most) = (&mut self.0[abuse as usize], limits.most[abuse as usize]);
        if meter.count_many(times, now, most, limits.period) { Err(abuse.into()) } else { Ok(()) }
    }

    /// There was a good reason for so many.
    pub fn pay_back(&mut self, abuse: Abuse, times: u32) {
        self.0[abuse as usize].pay_back(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_by_itself_and_forgotten_in_time() {
        let limits = Limits { period: 60, most: std::array::from_fn(|n| 10 * (n as u32 + 1)) };
        for (n, abuse) in Abuse::ALL.into_iter().enumerate() {
            let (mut meters, most) = (Meters::default(), limits.most[n]);
            assert_eq!(meters.count(abuse, most, 0.0, &limits), Ok(()), "{abuse:?}");
            assert_eq!(meters.count(abuse, most, 60.0, &limits), Ok(()), "{abuse:?}");
            let error = meters.count(abuse, 1, 60.0, &limits).unwrap_err();
            assert_eq!((error.code, error.abuse, error.text), (Code::ExcessiveLoad, Some(abuse), abuse.text()));
            let other = Abuse::ALL[(n + 1) % Abuse::ALL.len()];
            assert_eq!(meters.count(other, 1, 60.0, &limits), Ok(()));
            meters.pay_back(abuse, 2);
            assert_eq!(meters.count(abuse, 1, 60.0, &limits), Ok(()));
        }
        let mut meters = Meters::default();
        let none = Limits { period: 60, most: [0; Abuse::ALL.len()] };
        assert_eq!(meters.count(Abuse::Ping, 1_000_000, 0.0, &none), Ok(()));
    }
}
