// SPDX-License-Identifier: BSD-2-Clause
//! How long a response lives: Varnish's rules and outcomes (its "clockless cache"), which VCL then may change. By default
//! those of 7.1; what older releases did otherwise is [`crate::ttl_rules`].
//!
//! ```text
//! age      Age; t_origin = now - age
//! ttl      s-maxage, max-age; else Expires against Date or our clock; else default_ttl
//!          302 and 307: only what the response says; other statuses: -1, not cacheable
//! grace    stale-while-revalidate, else default_grace
//! ```

use base::clock::Real;

use crate::cache_control::{first_line_seconds, seconds};
use crate::ttl_rules::{self, StatusLives, TtlRules};
use crate::{Head, date, names};

/// The parameters that take part. All in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// Parameter `default_ttl` in seconds.
    pub ttl: f64,
    /// Parameter `default_grace` in seconds.
    pub grace: f64,
    /// Parameter `default_keep` in seconds.
    pub keep: f64,
    /// Parameter `clock_skew` in seconds.
    pub clock_skew: f64,
    /// The release whose rules count.
    pub rules: &'static TtlRules,
}

impl Default for Defaults {
    fn default() -> Self {
        Defaults { ttl: 120.0, grace: 10.0, keep: 0.0, clock_skew: 10.0, rules: &ttl_rules::TODAY }
    }
}

/// Lifetime that a response's fields give it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Freshness {
    /// When the response was made, as far as Age tells.
    pub t_origin: Real,
    /// Seconds from `t_origin`; negative: not cacheable by itself.
    pub ttl: f64,
    /// Seconds of grace after `ttl`.
    pub grace: f64,
    /// Seconds of keep after `grace`.
    pub keep: f64,
    /// The Date field; 0 when absent or broken.
    pub date: f64,
    /// The Expires field; 0 when absent or broken.
    pub expires: f64,
    /// The max-age or s-maxage that decided; else 0.
    pub max_age: u32,
}

/// The life of a response that is to be cached.
pub fn freshness(response: &Head, now: Real, defaults: &Defaults) -> Freshness {
    let age = response.get(names::AGE).map_or(0, seconds);
    let time = |name| response.get(name).and_then(date::parse).map_or(0.0, |t| t.0);
    let mut life = Freshness {
        t_origin: now.plus(-f64::from(age)),
        ttl: defaults.ttl,
        grace: defaults.grace,
        keep: defaults.keep,
        date: time(names::DATE),
        expires: time(names::EXPIRES),
        max_age: 0,
    };
    life.ttl = match defaults.rules.lives(response.status()) {
        StatusLives::ByDefault => explicit_lifetime(response, &mut life, now, defaults).unwrap_or(life.ttl),
        StatusLives::IfSaid => explicit_lifetime(response, &mut life, now, defaults).unwrap_or(-1.0),
        StatusLives::Never => -1.0,
    };
    if life.ttl >= 0.0
        && defaults.rules.stale_while_revalidate
        && let Some(grace) = first_line_seconds(response, b"stale-while-revalidate")
    {
        life.grace = f64::from(grace);
    }
    life
}

/// The life of a response that is passed: only `t_origin` counts, for Age at delivery.
pub fn passed(response: &Head, now: Real) -> Freshness {
    let age = response.get(names::AGE).map_or(0, seconds);
    Freshness {
        t_origin: now.plus(-f64::from(age)),
        ttl: -1.0,
        grace: 0.0,
        keep: 0.0,
        date: 0.0,
        expires: 0.0,
        max_age: 0,
    }
}

/// True if the response says itself how long it may be kept, or that it mayn't be.
pub fn is_said(response: &Head) -> bool {
    const SAYS: [&[u8]; 5] = [b"max-age", b"s-maxage", b"no-cache", b"no-store", b"private"];
    let mut values = response.get_all(names::CACHE_CONTROL.as_bytes());
    values.any(|value| SAYS.iter().any(|word| crate::list::has(value, word))) || response.has(names::EXPIRES)
}

fn explicit_lifetime(response: &Head, life: &mut Freshness, now: Real, defaults: &Defaults) -> Option<f64> {
    if let Some(max_age) = explicit(response) {
        life.max_age = max_age;
        return Some(f64::from(max_age));
    }
    let (date, expires) = (life.date, life.expires);
    if expires == 0.0 {
        None
    } else if expires < date {
        Some(0.0)
    } else if date == 0.0 || (date - now.0).abs() < defaults.clock_skew {
        // Without a Date, or with one close to our clock, Expires counts on our clock.
        Some((expires - now.0).max(0.0))
    } else {
        // The clocks disagree, but the distance between the two fields still tells.
        Some((expires - date).trunc())
    }
}

/// s-maxage before max-age, in the first Cache-Control line. As in varnishd the presence of s-maxage, even without an
/// argument, hides max-age.
fn explicit(response: &Head) -> Option<u32> {
    let value = response.get(names::CACHE_CONTROL)?;
    let directive: &[u8] = if crate::list::has(value, b"s-maxage") { b"s-maxage" } else { b"max-age" };
    crate::list::argument(value, directive).map(seconds)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NOW: Real = Real(784_111_777.0); // Sun, 06 Nov 1994 08:49:37 GMT

    fn life(status: u16, lines: &[&str]) -> Freshness {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).unwrap();
        lines.iter().for_each(|l| head.append_line(l.as_bytes()).unwrap());
        freshness(&head, NOW, &Defaults::default())
    }

    fn check(status: u16, lines: &[&str], ttl: f64) {
        assert_eq!(life(status, lines).ttl, ttl, "{status} {lines:?}");
    }

    #[test]
    fn nothing_said_means_the_default() {
        check(200, &[], 120.0);
        check(404, &[], 120.0);
        check(302, &[], -1.0);
        check(307, &[], -1.0);
        check(500, &["Cache-Control: max-age=5"], -1.0);
        check(206, &["Cache-Control: max-age=5"], -1.0);
    }

    #[test]
    fn rules_of_old_releases() {
        let life = |rules, status, line: &[u8]| {
            let mut head = Head::new();
            head.start_response(b"HTTP/1.1", status).unwrap();
            head.append_line(line).unwrap();
            let life = freshness(&head, NOW, &Defaults { rules, ..Defaults::default() });
            (life.ttl, life.grace)
        };
        assert_eq!(life(&ttl_rules::V30, 302, b"A: b"), (120.0, 10.0));
        assert_eq!(life(&ttl_rules::V30, 204, b"Cache-Control: max-age=9"), (-1.0, 10.0));
        assert_eq!(life(&ttl_rules::V2X, 500, b"Cache-Control: max-age=9"), (9.0, 10.0));
        assert_eq!(life(&ttl_rules::V2X, 200, b"Cache-Control: max-age=9, stale-while-revalidate=99"), (9.0, 10.0));
    }

    #[test]
    fn cache_control_comes_first() {
        check(200, &["Cache-Control: max-age=5", "Expires: Sun, 06 Nov 1994 08:59:37 GMT"], 5.0);
        check(200, &["Cache-Control: max-age=5, s-maxage=7"], 7.0);
        check(302, &["Cache-Control: max-age=5"], 5.0);
        check(200, &["Cache-Control: max-age"], 120.0);
        check(200, &["Cache-Control: max-age=-5"], 0.0);
        check(200, &["Cache-Control: s-maxage, max-age=5"], 120.0);
    }

    #[test]
    fn expires_by_our_clock_or_by_theirs() {
        check(200, &["Expires: Sun, 06 Nov 1994 08:50:37 GMT"], 60.0);
        check(200, &["Expires: Sun, 06 Nov 1994 08:40:37 GMT"], 0.0);
        check(200, &["Date: Sun, 06 Nov 1994 08:49:40 GMT", "Expires: Sun, 06 Nov 1994 08:50:37 GMT"], 60.0);
        check(200, &["Date: Sun, 06 Nov 1994 07:00:00 GMT", "Expires: Sun, 06 Nov 1994 07:00:30 GMT"], 30.0);
        check(200, &["Date: Sun, 06 Nov 1994 07:00:31 GMT", "Expires: Sun, 06 Nov 1994 07:00:30 GMT"], 0.0);
        check(200, &["Expires: 0"], 120.0);
    }

    #[test]
    fn age_moves_the_origin_and_not_the_ttl() {
        let life = life(200, &["Age: 30", "Cache-Control: max-age=100, stale-while-revalidate=9"]);
        assert_eq!((life.t_origin, life.ttl, life.grace), (Real(NOW.0 - 30.0), 100.0, 9.0));
    }

    proptest! {
        #[test]
        fn any_fields_give_a_number(status in 100u16..600, values in proptest::collection::vec("(max-age|s-maxage|=|,| |\"|-|[0-9]{1,12}|\\PC|Sun, 06 Nov 1994 08:49:3[0-9] GMT){0,6}", 4)) {
            let names = ["Cache-Control", "Expires", "Date", "Age"];
            let lines: Vec<String> = names.iter().zip(&values).map(|(name, value)| format!("{name}: {}", value.trim())).collect();
            let ttl = life(status, &lines.iter().map(String::as_str).collect::<Vec<_>>()).ttl;
            prop_assert!(ttl.is_finite() && ttl >= -1.0 - f64::from(u32::MAX), "{ttl}");
        }
    }
}
