// SPDX-License-Identifier: BSD-2-Clause
//! When a stored response that isn't fresh may be served after all (RFC 9111 4.2.4, RFC 5861 4).

use super::ResponseDirectives;

/// Why no fresh response is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleCause {
    /// The origin gave no answer: no connection, a time-out, an answer that broke off.
    Disconnected,
    /// It answered with an error that tells of its own trouble: 500, 502, 503 or 504.
    ServerError,
    /// The client takes what is stale for so many seconds at most.
    MaxStale(u32),
}

impl StaleCause {
    /// That of a status, if it is one.
    pub fn of_status(status: u16) -> Option<Self> {
        matches!(status % 1000, 500 | 502 | 503 | 504).then_some(StaleCause::ServerError)
    }
}

/// Whether what is stale for `staleness` seconds may be served. While the origin is out of reach anything may that doesn't
/// forbid it; what says stale-if-error says for how long.
pub fn may_serve_stale(directives: &ResponseDirectives, cause: StaleCause, staleness: f64) -> bool {
    if directives.forbids_stale() {
        return false;
    }
    let granted = directives.stale_if_error.map(|seconds| staleness <= f64::from(seconds));
    match cause {
        StaleCause::ServerError => granted == Some(true),
        StaleCause::Disconnected => granted.unwrap_or(directives.s_maxage.is_none()),
        StaleCause::MaxStale(most) => {
            directives.s_maxage.is_none() && (most == u32::MAX || staleness <= f64::from(most))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Head;

    fn check(directives: &str, cause: StaleCause, staleness: f64, want: bool) {
        let mut head = Head::new();
        head.append("Cache-Control", directives).unwrap();
        let directives = ResponseDirectives::from_head(&head, "");
        assert_eq!(may_serve_stale(&directives, cause, staleness), want, "{directives:?} {cause:?} {staleness}");
    }

    #[test]
    fn errors_need_a_grant_and_disconnection_none() {
        use StaleCause::*;
        check("max-age=1", Disconnected, 1e6, true);
        check("max-age=1", ServerError, 1.0, false);
        check("max-age=1, stale-if-error=60", ServerError, 60.0, true);
        check("max-age=1, stale-if-error=60", ServerError, 60.5, false);
        check("max-age=1, stale-if-error=60", Disconnected, 60.5, false);
        check("s-maxage=1", Disconnected, 1.0, false);
        check("s-maxage=1, stale-if-error=60", Disconnected, 1.0, true);
        check("max-age=1", MaxStale(5), 5.0, true);
        check("max-age=1", MaxStale(5), 6.0, false);
        check("max-age=1", MaxStale(u32::MAX), 1e12, true);
        check("s-maxage=1", MaxStale(5), 1.0, false);
        for word in ["must-revalidate", "proxy-revalidate", "no-cache"] {
            for cause in [Disconnected, ServerError, MaxStale(u32::MAX)] {
                check(&format!("max-age=1, stale-if-error=60, {word}"), cause, 1.0, false);
            }
        }
        assert_eq!(
            [500, 501, 502, 503, 504, 505].map(StaleCause::of_status).map(|cause| cause.is_some()),
            [true, false, true, true, true, false]
        );
    }
}
