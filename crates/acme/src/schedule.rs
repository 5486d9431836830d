// SPDX-License-Identifier: BSD-2-Clause
//! When a certificate is renewed, and how long to wait after a failure. Times of the clock on the wall: a certificate ends by it.

use std::time::{Duration, SystemTime};

pub const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
pub const LONGEST_ASKED: Duration = Duration::from_secs(24 * 3600);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    pub from: SystemTime,
    pub until: SystemTime,
}

impl Validity {
    fn lifetime(&self) -> Duration {
        self.until.duration_since(self.from).unwrap_or_default()
    }
}

/// A window that the CA suggests for the renewal (RFC 9773 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RenewalWindow {
    pub from: SystemTime,
    pub until: SystemTime,
}

/// The time of the renewal. `draw` is drawn once for a certificate, from 0 to 1, so that the many of one CA don't come
/// at once. Without a window: at two thirds of its life, or up to a thirtieth of it earlier. A window that would leave
/// less than a tenth is cut there.
pub fn renewal(validity: Validity, window: Option<RenewalWindow>, draw: f64) -> SystemTime {
    let life = validity.lifetime();
    let latest = validity.from + life.mul_f64(0.9);
    match window.filter(|window| window.until > window.from) {
        Some(window) => {
            let width = window.until.duration_since(window.from).unwrap_or_default();
            (window.from + width.mul_f64(draw)).min(latest)
        }
        None => validity.from + life.mul_f64(2.0 / 3.0 - draw / 30.0),
    }
}

/// Time to wait after the `failures`th failure in a row: four times longer each time, drawn from three quarters to five
/// quarters of that; at least as long as the CA asks.
pub fn pause(first: Duration, failures: u32, asked: Option<Duration>, draw: f64) -> Duration {
    let grown = first.saturating_mul(4u32.saturating_pow(failures.saturating_sub(1))).min(LONGEST_PAUSE);
    let drawn = grown.mul_f64(0.75 + draw / 2.0);
    drawn.max(asked.unwrap_or_default().min(LONGEST_ASKED))
}

/// A number from 0 to 1.
pub fn draw() -> f64 {
    let number = getrandom::u32().unwrap_or(u32::MAX / 2);
    f64::from(number) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Duration = Duration::from_secs(86_400);

    fn ninety() -> Validity {
        let from = SystemTime::UNIX_EPOCH + 20_000 * DAY;
        Validity { from, until: from + 90 * DAY }
    }

    #[test]
    fn without_a_window_a_certificate_is_renewed_at_two_thirds_of_its_life() {
        let v = ninety();
        assert_eq!(renewal(v, None, 0.0), v.from + 60 * DAY);
        assert_eq!(renewal(v, None, 1.0), v.from + 57 * DAY);
    }

    #[test]
    fn a_window_of_the_ca_counts_more_but_not_too_late() {
        let v = ninety();
        let window = |from, until| Some(RenewalWindow { from: v.from + from * DAY, until: v.from + until * DAY });
        assert_eq!(renewal(v, window(40, 42), 0.5), v.from + 41 * DAY);
        assert_eq!(renewal(v, window(89, 95), 0.5), v.from + 81 * DAY);
        // Nonsense is none.
        assert_eq!(renewal(v, window(50, 50), 0.0), v.from + 60 * DAY);
        let revoked = Some(RenewalWindow { from: v.from - DAY, until: v.from });
        assert!(renewal(v, revoked, 1.0) <= v.from);
    }

    #[test]
    fn pauses_grow_and_end_at_six_hours_unless_the_ca_asks_for_more() {
        let minutes = |n: u64| Duration::from_secs(60 * n);
        let pause_after = |failures| pause(minutes(1), failures, None, 0.5);
        assert_eq!([1, 2, 3, 4].map(pause_after), [minutes(1), minutes(4), minutes(16), minutes(64)]);
        assert_eq!(pause_after(400), LONGEST_PAUSE);
        assert_eq!(pause(minutes(1), 1, Some(minutes(90)), 0.5), minutes(90));
        assert_eq!(pause(minutes(1), 1, Some(400 * DAY), 0.5), LONGEST_ASKED);
    }

    proptest! {
        #[test]
        fn a_renewal_leaves_a_tenth_of_the_life(
            life in 1u64..400_000_000, from in -400_000_000i64..400_000_000, width in 0u64..400_000_000, draw in 0.0f64..=1.0,
        ) {
            let begin = SystemTime::UNIX_EPOCH + 20_000 * DAY;
            let v = Validity { from: begin, until: begin + Duration::from_secs(life) };
            let at = |n: i64| if n < 0 { begin - Duration::from_secs(n.unsigned_abs()) } else { begin + Duration::from_secs(n as u64) };
            let window = RenewalWindow { from: at(from), until: at(from) + Duration::from_secs(width) };
            for window in [None, Some(window)] {
                prop_assert!(renewal(v, window, draw) <= v.from + Duration::from_secs(life).mul_f64(0.9));
            }
        }
    }
}
