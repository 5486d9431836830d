// SPDX-License-Identifier: BSD-2-Clause
//! When a stored response that isn't fresh may be served after all (RFC 9111 4.2.4, RFC 5861 4).

use super::ResponseDirectives;
use crate::{Head, conditional, names};

/// Reasons why no fresh response is at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleCause {
    /// The origin gave no answer: no connection, a time-out, an answer that broke off.
    Disconnected,
    /// The origin answered with an error of its own: 500, 502, 503 or 504.
    ServerError,
    /// The client takes what is stale for so many seconds at most.
    MaxStale(u32),
}

impl StaleCause {
    /// The cause for a status, if it is one.
    pub fn of_status(status: u16) -> Option<Self> {
        matches!(status % 1000, 500 | 502 | 503 | 504).then_some(StaleCause::ServerError)
    }
}

/// True if a response that is stale for `staleness` seconds may be served. While the origin is out of reach anything
/// may that doesn't forbid it; stale-if-error sets the limit where it is given.
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

/// True if a 200 to HEAD shows that the stored response isn't what a GET would bring by now (RFC 9111 4.3.5).
pub fn is_outdated(stored: &Head, answer: &Head) -> bool {
    let differs = |name| answer.get(name).is_some_and(|new| stored.get(name) != Some(new));
    let tag = (answer.get(names::ETAG), stored.get(names::ETAG));
    let is_of_other_tag = match tag {
        (Some(new), Some(old)) => !conditional::weak_equal(new, old),
        (Some(_), None) => true,
        (None, _) => false,
    };
    // What is coded has another length.
    let is_as_long = stored.get(names::CONTENT_ENCODING) != answer.get(names::CONTENT_ENCODING)
        || !stored.has(names::CONTENT_LENGTH)
        || !differs(names::CONTENT_LENGTH);
    is_of_other_tag || differs(names::LAST_MODIFIED) || !is_as_long
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(directives: &str, cause: StaleCause, staleness: f64, want: bool) {
        let mut head = Head::new();
        head.append("Cache-Control", directives).unwrap();
        let directives = ResponseDirectives::from_head(&head, "");
        assert_eq!(may_serve_stale(&directives, cause, staleness), want, "{directives:?} {cause:?} {staleness}");
    }

    #[test]
    fn an_answer_to_head_tells_of_what_is_stored() {
        let head = |lines: &[&str]| {
            let mut head = Head::new();
            lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
            head
        };
        let (tag, date, length) = ("ETag: \"a\"", "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT", "Content-Length: 5");
        let stored = [tag, date, length];
        for (answer, want) in [
            (&[][..], false),
            (&stored[..], false),
            (&["ETag: W/\"a\""][..], false),
            (&["ETag: \"b\""][..], true),
            (&["Last-Modified: Sun, 06 Nov 1994 08:49:38 GMT"][..], true),
            (&["Content-Length: 6"][..], true),
            (&["Content-Length: 6", "Content-Encoding: gzip"][..], false),
        ] {
            assert_eq!(is_outdated(&head(&stored), &head(answer)), want, "{answer:?}");
        }
        assert!(is_outdated(&head(&[length]), &head(&[tag])) && !is_outdated(&head(&[tag]), &head(&[length])));
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
