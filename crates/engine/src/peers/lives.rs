// SPDX-License-Identifier: BSD-2-Clause
//! The object's lifetime, which a key's owner sends beside the head, so that no node serves an object for longer than
//! its owner does.
//!
//! ```text
//! Lacquer-Object: age=12.345 ttl=47.655 grace=10.000 keep=0.000 took=0.002 [uncacheable] [hot]
//! ```
//!
//! All values are in seconds. `ttl` is the remaining ttl, negative for an object served in grace. `took` is the time
//! from the request to the response, from which the asking node calculates the response's greatest possible age.

use base::Real;

/// The response header with the object's lifetime at the owner.
pub(crate) const LACQUER_OBJECT: &str = "Lacquer-Object";
/// The response header in which an owner says why it refuses.
pub(crate) const LACQUER_REFUSED: &str = "Lacquer-Refused";
/// The ttl of an object that the owner serves in grace: it is stale when found again, and is asked for again.
const MOMENT: f64 = 1e-6;
/// Longest lifetime, a century.
const LONGEST: f64 = 100.0 * 365.0 * 86_400.0;

/// The object's lifetime as the response header gives it, in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OwnerSays {
    pub age: f64,
    pub ttl: f64,
    pub grace: f64,
    pub keep: f64,
    pub took: f64,
    pub is_uncacheable: bool,
    pub is_hot: bool,
}

/// An object's lifetime at the owner, by the asking node's clock: the most that it may have here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OwnerLives {
    /// Moment at which the object was fresh at the origin.
    pub t_origin: Real,
    /// The ttl in seconds, from `t_origin` on.
    pub ttl: f64,
    pub grace: f64,
    pub keep: f64,
    pub is_uncacheable: bool,
}

impl OwnerSays {
    /// The value of the response header.
    pub fn text(&self) -> String {
        let OwnerSays { age, ttl, grace, keep, took, .. } = self;
        let flag = |is: bool, word: &'static str| if is { word } else { "" };
        format!(
            "age={age:.3} ttl={ttl:.3} grace={grace:.3} keep={keep:.3} took={took:.3}{}{}",
            flag(self.is_uncacheable, " uncacheable"),
            flag(self.is_hot, " hot")
        )
    }

    pub fn parse(value: &[u8]) -> Option<OwnerSays> {
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let mut number = |name: &str| {
            let number = words.next()?.strip_prefix(name)?.strip_prefix('=')?.parse::<f64>().ok()?;
            (-LONGEST..=LONGEST).contains(&number).then_some(number)
        };
        let (age, ttl, grace) = (number("age")?, number("ttl")?, number("grace")?);
        let (keep, took) = (number("keep")?, number("took")?);
        let mut says = OwnerSays { age, ttl, grace, keep, took, is_uncacheable: false, is_hot: false };
        if [age, grace, keep, took].iter().any(|seconds| *seconds < 0.0) {
            return None;
        }
        for word in words {
            match word {
                "uncacheable" => says.is_uncacheable = true,
                "hot" => says.is_hot = true,
                // Of a later version.
                _ => {}
            }
        }
        Some(says)
    }

    /// The lifetime here, for a response to a request sent at `sent` that arrived at `came`.
    pub fn lives(&self, sent: Real, came: Real) -> OwnerLives {
        // On its way for no longer than that, both ways.
        let under_way = (came.since(sent) - self.took).max(0.0);
        let age = self.age + under_way;
        let (left, grace) = (self.ttl - under_way, self.grace);
        let (ttl, grace) = match left > 0.0 {
            true => (age + left, grace),
            false => (age + MOMENT, (grace + left - MOMENT).max(0.0)),
        };
        let keep = if left + self.grace > 0.0 { self.keep } else { (self.keep + left + self.grace).max(0.0) };
        OwnerLives { t_origin: came.plus(-age), ttl, grace, keep, is_uncacheable: self.is_uncacheable }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SAYS: OwnerSays =
        OwnerSays { age: 12.0, ttl: 48.0, grace: 10.0, keep: 5.0, took: 1.0, is_uncacheable: false, is_hot: false };

    #[test]
    fn what_is_said_is_read() {
        for says in [SAYS, OwnerSays { ttl: -3.5, is_uncacheable: true, is_hot: true, ..SAYS }] {
            assert_eq!(OwnerSays::parse(says.text().as_bytes()), Some(says));
        }
        for bad in [
            "",
            "age=1",
            "age=1 ttl=x grace=1 keep=1 took=1",
            "age=-1 ttl=1 grace=1 keep=1 took=1",
            "age=1 ttl=nan grace=1 keep=1 took=1",
        ] {
            assert_eq!(OwnerSays::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    /// Seconds left of ttl, grace and keep together, at a time.
    fn left(lives: &OwnerLives, at: f64) -> [f64; 3] {
        let age = at - lives.t_origin.0;
        [lives.ttl - age, lives.ttl + lives.grace - age, lives.ttl + lives.grace + lives.keep - age]
    }

    #[test]
    fn what_is_served_in_grace_is_stale_here_too() {
        let lives = OwnerSays { ttl: -4.0, ..SAYS }.lives(Real(100.0), Real(101.0));
        let [ttl, grace, keep] = left(&lives, 101.0);
        assert!(ttl > 0.0 && ttl < 1e-5 && (grace - 6.0).abs() < 1e-5 && (keep - 11.0).abs() < 1e-5, "{lives:?}");
    }

    proptest! {
        #[test]
        fn nothing_outlives_its_owner(age in 0_u32..1000, ttl in -1000_i32..1000, grace in 0_u32..1000, keep in 0_u32..1000,
                                      there in 0_u32..50, took in 0_u32..50, back in 0_u32..50) {
            let [age, grace, keep, there, took, back] = [age, grace, keep, there, took, back].map(|ticks| f64::from(ticks) / 8.0);
            let ttl = f64::from(ttl) / 8.0;
            let says = OwnerSays { age, ttl, grace, keep, took, ..SAYS };
            let sent = 1000.0;
            let answered = sent + there + took;
            let came = answered + back;
            let lives = says.lives(Real(sent), Real(came));
            let ours = left(&lives, came);
            let theirs = [ttl, ttl + grace, ttl + grace + keep].map(|left| left - (came - answered));
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                // Except for the moment in which it is delivered to the waiting request.
                prop_assert!(ours <= theirs.max(MOMENT) + 1e-5, "{ours} of {theirs}");
            }
        }
    }
}
