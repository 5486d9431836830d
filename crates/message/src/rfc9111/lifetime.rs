// SPDX-License-Identifier: BSD-2-Clause
//! How old a response is when it comes (RFC 9111 4.2.3), and for how long it is fresh (4.2.1, 4.2.2).

use base::clock::Real;

use super::directives::seconds;
use super::{ResponseDirectives, StoringRules};
use crate::{Head, date, names};

/// When the request was sent and its answer came, by the same clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExchangeTimes {
    /// Time `request_time` of RFC 9111.
    pub sent: Real,
    /// Time `response_time` of RFC 9111.
    pub received: Real,
}

/// For how long a response is fresh, in seconds since its origin made it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Lifetime {
    /// Given by its fields.
    Explicit(f64),
    /// Estimated from its last change.
    Heuristic(f64),
    /// Neither given nor estimated.
    Unknown,
}

impl Lifetime {
    /// Seconds; what is unknown is over.
    pub fn seconds(self) -> f64 {
        match self {
            Lifetime::Explicit(seconds) | Lifetime::Heuristic(seconds) => seconds,
            Lifetime::Unknown => 0.0,
        }
    }
}

/// The `corrected_initial_age` of RFC 9111, 4.2.3, in seconds.
pub fn initial_age(response: &Head, times: ExchangeTimes) -> f64 {
    let date = response.get(names::DATE).and_then(lenient_date);
    let apparent = date.map_or(0.0, |date| times.received.since(date).max(0.0));
    let delay = times.received.since(times.sent).max(0.0);
    let delay = if base::failpoint::fault("an age that forgets the way") { 0.0 } else { delay };
    (age(response) + delay).max(apparent)
}

/// Age: the first member of its list if that is a number (RFC 9111 5.1), else nothing.
fn age(response: &Head) -> f64 {
    let Some(value) = response.get(names::AGE) else { return 0.0 };
    let first = value.split(|&c| c == b',').next().unwrap_or_default();
    seconds(crate::chars::trim(first)).map_or(0.0, f64::from)
}

/// The first of s-maxage, max-age, Expires that there is; else a part of the time since the last change, if the status
/// or `public` allows that.
pub fn lifetime(
    response: &Head,
    directives: &ResponseDirectives,
    received: Real,
    rules: &StoringRules<'_>,
) -> Lifetime {
    if let Some(seconds) = directives.s_maxage.or(directives.max_age) {
        return Lifetime::Explicit(f64::from(seconds));
    }
    let date = response.get(names::DATE).and_then(lenient_date).unwrap_or(received);
    if !directives.is_targeted && response.has(names::EXPIRES) {
        let mut lines = response.get_all(names::EXPIRES.as_bytes());
        let expires = lines.next().and_then(lenient_date);
        // Several, or what is no date ("0"), are in the past (5.3).
        let expires = expires.filter(|_| lines.next().is_none());
        return Lifetime::Explicit(expires.map_or(0.0, |expires| expires.since(date).max(0.0)));
    }
    let modified = response.get(names::LAST_MODIFIED).and_then(lenient_date);
    match modified {
        Some(modified) if rules.may_guess && (directives.public || is_heuristic(response.status())) => {
            let seconds = date.since(modified) * rules.heuristic_part;
            Lifetime::Heuristic(seconds.clamp(0.0, rules.heuristic_most.max(0.0)))
        }
        _ => Lifetime::Unknown,
    }
}

/// Statuses that are heuristically cacheable (RFC 9110 15.1).
pub(super) fn is_heuristic(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

/// A date whose words may be in any case, and whose weekday may be another one's (RFC 9111 4.2: caches are free to be lenient
/// there).
pub fn lenient_date(text: &[u8]) -> Option<Real> {
    if let Some(date) = date::parse(text) {
        return Some(date);
    }
    let mut words = [0u8; 40];
    let words = words.get_mut(..text.len())?;
    words.copy_from_slice(text);
    for word in words.split_mut(|c| !c.is_ascii_alphabetic()) {
        word.make_ascii_lowercase();
        if word == b"gmt" {
            word.make_ascii_uppercase();
        } else if let Some(first) = word.first_mut() {
            first.make_ascii_uppercase();
        }
    }
    date::parse(words).or_else(|| on_any_day(words))
}

/// A date that is right but for its weekday.
fn on_any_day(text: &mut [u8]) -> Option<Real> {
    const DAYS: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
    let first: [u8; 3] = text.get(..3)?.try_into().ok()?;
    if !DAYS.contains(&&first) {
        return None;
    }
    DAYS.iter().find_map(|day| {
        text[..3].copy_from_slice(&day[..]);
        date::parse(text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Real = Real(784_111_777.0); // Sun, 06 Nov 1994 08:49:37 GMT
    const DATE: &str = "Date: Sun, 06 Nov 1994 08:49:37 GMT";

    fn head(status: u16, lines: &[&str]) -> Head {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        head
    }

    fn check(status: u16, lines: &[&str], want: Lifetime) {
        let head = head(status, lines);
        let rules = StoringRules { targeted: "CDN-Cache-Control", ..StoringRules::default() };
        let directives = ResponseDirectives::from_head(&head, rules.targeted);
        assert_eq!(lifetime(&head, &directives, NOW, &rules), want, "{status} {lines:?}");
    }

    #[test]
    fn the_most_specific_field_counts() {
        let expires = "Expires: Sun, 06 Nov 1994 08:50:37 GMT";
        check(200, &["Cache-Control: max-age=5, s-maxage=9", expires], Lifetime::Explicit(9.0));
        check(200, &["Cache-Control: max-age=5", expires], Lifetime::Explicit(5.0));
        check(599, &[DATE, expires], Lifetime::Explicit(60.0));
        check(200, &["Date: Sun, 06 Nov 1994 08:50:07 GMT", expires], Lifetime::Explicit(30.0));
        check(200, &[expires, "CDN-Cache-Control: public"], Lifetime::Unknown);
        check(200, &["Expires: 0", "Last-Modified: Sun, 06 Nov 1994 08:00:00 GMT"], Lifetime::Explicit(0.0));
        check(200, &[expires, expires], Lifetime::Explicit(0.0));
        check(200, &[DATE], Lifetime::Unknown);
    }

    #[test]
    fn a_tenth_of_the_time_since_the_last_change_is_a_guess() {
        let modified = "Last-Modified: Sun, 06 Nov 1994 08:48:37 GMT";
        check(200, &[DATE, modified], Lifetime::Heuristic(6.0));
        check(201, &[DATE, modified], Lifetime::Unknown);
        check(599, &[DATE, modified, "Cache-Control: public"], Lifetime::Heuristic(6.0));
        check(200, &[DATE, "Last-Modified: Sun, 06 Nov 1988 08:48:37 GMT"], Lifetime::Heuristic(86_400.0));
        check(200, &[DATE, "Last-Modified: Sun, 06 Nov 1994 09:48:37 GMT"], Lifetime::Heuristic(0.0));
    }

    #[test]
    fn age_is_what_came_and_what_the_date_and_the_way_tell() {
        let age = |lines: &[&str], sent: f64| {
            initial_age(&head(200, lines), ExchangeTimes { sent: Real(NOW.0 - sent), received: NOW })
        };
        assert_eq!(age(&["Age: 30"], 0.0), 30.0);
        assert_eq!(age(&["Age: 30"], 2.0), 32.0);
        assert_eq!(age(&["Date: Sun, 06 Nov 1994 08:48:37 GMT", "Age: 30"], 2.0), 60.0);
        assert_eq!(age(&["Date: Sun, 06 Nov 1994 09:48:37 GMT"], 0.0), 0.0);
        for ignored in ["-1", "1.5", "x", "1 2", "", "7200x"] {
            assert_eq!(age(&[&format!("Age: {ignored}")], 0.0), 0.0, "{ignored}");
        }
        assert_eq!(age(&["Age: 10, 20"], 0.0), 10.0);
        assert_eq!(age(&["Age: 10", "Age: 20"], 0.0), 10.0);
    }

    #[test]
    fn dates_in_any_case() {
        for text in ["SUN, 06 nov 1994 08:49:37 gmt", "sunday, 06-NOV-94 08:49:37 GMT", "sun nov  6 08:49:37 1994"] {
            assert_eq!(lenient_date(text.as_bytes()), Some(NOW), "{text}");
        }
        for text in ["Thu, 06 Nov 1994 08:49:37 GMT", "Mon Nov  6 08:49:37 1994"] {
            assert_eq!(lenient_date(text.as_bytes()), Some(NOW), "{text}: another day");
        }
        for text in [
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun 06 Nov 1994 08:49:37 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            &"x".repeat(41),
        ] {
            assert_eq!(lenient_date(text.as_bytes()), None, "{text}");
        }
    }
}
