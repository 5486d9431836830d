// SPDX-License-Identifier: BSD-2-Clause
//! Whether a response to a GET may be stored (RFC 9111 3), and which lives it has then.

use super::lifetime::is_heuristic;
use super::{ExchangeTimes, Lifetime, ResponseDirectives, initial_age, lifetime};
use crate::{Head, names, vary};

/// An operator's decisions where the RFC leaves caches a choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StoringRules<'a> {
    /// Names of fields that are asked before Cache-Control (RFC 9213).
    pub targeted: &'a str,
    /// A response without explicit freshness is fresh for this part of the time since its last change.
    pub heuristic_part: f64,
    /// But for no more than so many seconds.
    pub heuristic_most: f64,
    /// Freshness may be guessed at all. Not for what may be one user's.
    pub may_guess: bool,
    /// A 206 may be stored, as it is known which part of what it is: it is judged as the whole's 200.
    pub takes_parts: bool,
}

impl Default for StoringRules<'_> {
    fn default() -> Self {
        StoringRules {
            targeted: "",
            heuristic_part: 0.1,
            heuristic_most: 86_400.0,
            may_guess: true,
            takes_parts: false,
        }
    }
}

/// Reasons why a response isn't stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoringRefusal {
    /// The response has `no-store`.
    NoStore,
    /// The response has `private`.
    Private,
    /// The request had Authorization, and the response doesn't say that others may have it (3.5).
    Authorization,
    /// Vary: no request would match.
    Vary,
    /// A status whose meaning would have to be understood, and isn't.
    Status,
    /// Neither fresh nor to be validated: nobody would ever get it.
    Useless,
}

/// Lives of a response that may be stored, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ResponseLives {
    /// Present age in seconds.
    pub age: f64,
    /// Age up to which it is fresh; 0: it is to be validated each time.
    pub ttl: f64,
    /// Seconds for which it may then be served while a new one is fetched.
    pub grace: f64,
    /// True if it can be validated.
    pub has_validator: bool,
}

/// The result of [`judge`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Storing {
    /// The response may be stored.
    Store(ResponseLives),
    /// The response mustn't, or needn't, be stored.
    Refuse(StoringRefusal),
}

/// Judges a response to a GET. `is_authorized`: the client's request had Authorization.
pub fn judge(response: &Head, is_authorized: bool, times: ExchangeTimes, rules: &StoringRules<'_>) -> Storing {
    let directives = ResponseDirectives::from_head(response, rules.targeted);
    let status = match response.status() % 1000 {
        206 if rules.takes_parts => 200,
        status => status,
    };
    let lifetime = lifetime(response, &directives, times.received, rules);
    if let Some(refusal) = refusal(response, status, &directives, is_authorized, lifetime) {
        return Storing::Refuse(refusal);
    }
    let age = initial_age(response, times);
    let has_validator = status == 200 && (response.has(names::ETAG) || response.has(names::LAST_MODIFIED));
    let ttl = if directives.must_validate() { 0.0 } else { lifetime.seconds() };
    // Nothing stale may be served behind these; s-maxage alone allows what the response says itself (RFC 5861 3).
    let grace = if directives.forbids_stale() { 0.0 } else { directives.stale_while_revalidate.map_or(0.0, f64::from) };
    let is_of_use = has_validator || ttl + grace > age || directives.stale_if_error.is_some();
    if !is_of_use {
        return Storing::Refuse(StoringRefusal::Useless);
    }
    Storing::Store(ResponseLives { age, ttl, grace, has_validator })
}

fn refusal(
    response: &Head,
    status: u16,
    directives: &ResponseDirectives,
    is_authorized: bool,
    lifetime: Lifetime,
) -> Option<StoringRefusal> {
    let is_understood = is_understood(status);
    // A part that can't be put together with others is of use to nobody else.
    if matches!(status, 206 | 304) || (directives.must_understand && !is_understood) {
        return Some(StoringRefusal::Status);
    }
    if directives.no_store && !directives.must_understand {
        return Some(StoringRefusal::NoStore);
    }
    if directives.is_private(response) {
        return Some(StoringRefusal::Private);
    }
    let is_for_others = directives.public || directives.s_maxage.is_some() || directives.must_revalidate;
    if is_authorized && !is_for_others {
        return Some(StoringRefusal::Authorization);
    }
    if vary::is_star(response) {
        return Some(StoringRefusal::Vary);
    }
    let may_be_stored = directives.public || matches!(lifetime, Lifetime::Explicit(_)) || is_heuristic(status);
    (!may_be_stored).then_some(StoringRefusal::Status)
}

/// Statuses whose caching needs nothing that isn't built: those that HTTP defines, but for parts.
fn is_understood(status: u16) -> bool {
    matches!(status, 200..=205 | 300..=303 | 305 | 307 | 308 | 400..=417 | 421 | 422 | 426 | 500..=505)
}

#[cfg(test)]
mod tests {
    use base::clock::Real;

    use super::*;

    const NOW: Real = Real(784_111_777.0); // Sun, 06 Nov 1994 08:49:37 GMT

    fn judged(status: u16, lines: &[&str], is_authorized: bool) -> Storing {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).unwrap();
        lines.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        let times = ExchangeTimes { sent: NOW, received: NOW };
        judge(&head, is_authorized, times, &StoringRules { targeted: "CDN-Cache-Control", ..StoringRules::default() })
    }

    fn check(status: u16, lines: &[&str], want: Result<(f64, f64), StoringRefusal>) {
        let got = match judged(status, lines, false) {
            Storing::Store(lives) => Ok((lives.ttl, lives.grace)),
            Storing::Refuse(refusal) => Err(refusal),
        };
        assert_eq!(got, want, "{status} {lines:?}");
    }

    #[test]
    fn explicit_freshness_makes_any_final_status_storable() {
        for status in [200, 201, 299, 302, 403, 429, 500, 503, 599] {
            check(status, &["Cache-Control: max-age=5"], Ok((5.0, 0.0)));
        }
        check(206, &["Cache-Control: max-age=5"], Err(StoringRefusal::Status));
        check(201, &["ETag: \"a\""], Err(StoringRefusal::Status));
        check(200, &["ETag: \"a\""], Ok((0.0, 0.0)));
        check(404, &[], Err(StoringRefusal::Useless));
        check(404, &["ETag: \"a\""], Err(StoringRefusal::Useless));
    }

    #[test]
    fn what_forbids_storing() {
        check(200, &["Cache-Control: max-age=5, no-store"], Err(StoringRefusal::NoStore));
        check(200, &["Cache-Control: max-age=5, private"], Err(StoringRefusal::Private));
        check(200, &["Cache-Control: max-age=5, private=\"a\"", "A: 1"], Err(StoringRefusal::Private));
        check(200, &["Cache-Control: max-age=5, private=\"a\"", "B: 1"], Ok((5.0, 0.0)));
        check(200, &["Cache-Control: max-age=5", "Vary: a", "Vary: b, *"], Err(StoringRefusal::Vary));
        check(200, &["Cache-Control: max-age=5, private", "CDN-Cache-Control: max-age=9"], Ok((9.0, 0.0)));
    }

    #[test]
    fn must_understand_overrides_no_store_where_it_is_understood() {
        check(200, &["Cache-Control: max-age=5, no-store, must-understand"], Ok((5.0, 0.0)));
        check(599, &["Cache-Control: max-age=5, must-understand"], Err(StoringRefusal::Status));
        check(599, &["Cache-Control: max-age=5, no-store, must-understand"], Err(StoringRefusal::Status));
    }

    #[test]
    fn an_answer_to_authorization_says_itself_that_it_is_for_others() {
        let of = |directive: &str| judged(200, &[&format!("Cache-Control: max-age=5, {directive}")], true);
        for directive in ["public", "s-maxage=5", "must-revalidate"] {
            assert!(matches!(of(directive), Storing::Store(_)), "{directive}");
        }
        for directive in ["x", "proxy-revalidate", "no-cache"] {
            assert_eq!(of(directive), Storing::Refuse(StoringRefusal::Authorization), "{directive}");
        }
    }

    #[test]
    fn grace_is_what_the_response_grants() {
        let swr = |more: &str| format!("Cache-Control: max-age=5, stale-while-revalidate=9{more}");
        check(200, &[&swr("")], Ok((5.0, 9.0)));
        check(200, &[&swr(", s-maxage=7")], Ok((7.0, 9.0)));
        for more in [", must-revalidate", ", proxy-revalidate"] {
            check(200, &[&swr(more)], Ok((5.0, 0.0)));
        }
        check(200, &[&swr(", no-cache"), "ETag: \"a\""], Ok((0.0, 0.0)));
        check(200, &[&swr(", no-cache")], Err(StoringRefusal::Useless));
        check(200, &["Age: 10", &swr("")], Ok((5.0, 9.0)));
        check(200, &["Age: 20", &swr("")], Err(StoringRefusal::Useless));
    }
}
