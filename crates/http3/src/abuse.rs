// SPDX-License-Identifier: BSD-2-Clause
//! What a client may do only so often, as it costs it little and us more: each ends its connection with H3_EXCESSIVE_LOAD. Some of it is
//! HTTP/3's, and some QUIC's, whose frames somebody else counts.

use http2::EventMeter;

use crate::error::{Http3Error, Http3ErrorCode};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3Abuse {
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

impl Http3Abuse {
    pub const ALL: [Http3Abuse; 8] = [
        Http3Abuse::Control,
        Http3Abuse::Priority,
        Http3Abuse::Ignored,
        Http3Abuse::Stream,
        Http3Abuse::Ping,
        Http3Abuse::Path,
        Http3Abuse::Window,
        Http3Abuse::Stop,
    ];

    pub const fn text(self) -> &'static str {
        match self {
            Http3Abuse::Control => "Too many GOAWAY or MAX_PUSH_ID frames",
            Http3Abuse::Priority => "Too many PRIORITY_UPDATE frames",
            Http3Abuse::Ignored => "Too many frames that mean nothing",
            Http3Abuse::Stream => "Too many streams without use",
            Http3Abuse::Ping => "Too many PING frames",
            Http3Abuse::Path => "Too many moves, path challenges or connection ids",
            Http3Abuse::Window => "Too many changes of windows",
            Http3Abuse::Stop => "Too many STOP_SENDING or RESET_STREAM frames",
        }
    }
}

impl From<Http3Abuse> for Http3Error {
    fn from(abuse: Http3Abuse) -> Http3Error {
        Http3Error { abuse: Some(abuse), ..Http3Error::connection(Http3ErrorCode::ExcessiveLoad, abuse.text()) }
    }
}

/// Number of acts that there may be in a period; 0 means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http3AbuseLimits {
    /// Seconds in which a spent allowance comes back.
    pub period: u32,
    /// Limits in the order of [`Http3Abuse::ALL`].
    pub most: [u32; Http3Abuse::ALL.len()],
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Meters([EventMeter; Http3Abuse::ALL.len()]);

impl Meters {
    /// Counts so many. `now`: seconds since the connection began.
    ///
    /// # Errors
    /// They are too many: the connection has to end.
    pub fn count(
        &mut self,
        abuse: Http3Abuse,
        times: u32,
        now: f32,
        limits: &Http3AbuseLimits,
    ) -> Result<(), Http3Error> {
        let (meter, most) = (&mut self.0[abuse as usize], limits.most[abuse as usize]);
        if meter.count_many(times, now, most, limits.period) { Err(abuse.into()) } else { Ok(()) }
    }

    /// There was a good reason for so many.
    pub fn pay_back(&mut self, abuse: Http3Abuse, times: u32) {
        self.0[abuse as usize].pay_back(times);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_counted_by_itself_and_forgotten_in_time() {
        let limits = Http3AbuseLimits { period: 60, most: std::array::from_fn(|n| 10 * (n as u32 + 1)) };
        for (n, abuse) in Http3Abuse::ALL.into_iter().enumerate() {
            let (mut meters, most) = (Meters::default(), limits.most[n]);
            assert_eq!(meters.count(abuse, most, 0.0, &limits), Ok(()), "{abuse:?}");
            assert_eq!(meters.count(abuse, most, 60.0, &limits), Ok(()), "{abuse:?}");
            let error = meters.count(abuse, 1, 60.0, &limits).unwrap_err();
            assert_eq!(
                (error.code, error.abuse, error.text),
                (Http3ErrorCode::ExcessiveLoad, Some(abuse), abuse.text())
            );
            let other = Http3Abuse::ALL[(n + 1) % Http3Abuse::ALL.len()];
            assert_eq!(meters.count(other, 1, 60.0, &limits), Ok(()));
            meters.pay_back(abuse, 2);
            assert_eq!(meters.count(abuse, 1, 60.0, &limits), Ok(()));
        }
        let mut meters = Meters::default();
        let none = Http3AbuseLimits { period: 60, most: [0; Http3Abuse::ALL.len()] };
        assert_eq!(meters.count(Http3Abuse::Ping, 1_000_000, 0.0, &none), Ok(()));
    }
}
