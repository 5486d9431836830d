// SPDX-License-Identifier: BSD-2-Clause
//! Timeouts and what 0 means for each. In parameters and VCL that depends on the release; everywhere else a limit of zero
//! is none, and [`AT_ONCE`] ends a wait at once.

use std::time::Duration;

use tables::Compat;

use super::Params;

/// A timeout that never ends: more seconds than a number can give (15 digits), and few enough to be added to any clock.
pub const NEVER: Duration = Duration::from_secs(1_000_000_000_000_000);

/// A timeout that ends a wait for anything that isn't there yet. VCL reads it as 0.
pub const AT_ONCE: Duration = Duration::from_nanos(1);

/// The limit for a timeout. From 7.5 on, 0 ends the wait at once; up to 7.4 it is no limit, or leaves it to the next setting.
pub fn limit(compat: Compat, timeout: Duration) -> Duration {
    match compat {
        Compat::V7_1 => timeout,
        Compat::V9 => timeout.max(AT_ONCE),
    }
}

/// Limits of the waits for a backend, as parameters or as VCL sets them. Zero: none, or for a setting of VCL the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackendLimits {
    pub connect: Duration,
    pub first_byte: Duration,
    pub between_bytes: Duration,
}

impl BackendLimits {
    pub fn set(compat: Compat, [connect, first_byte, between_bytes]: [Option<f64>; 3]) -> Self {
        let read = |seconds| set(seconds).map_or(Duration::ZERO, |timeout| limit(compat, timeout));
        BackendLimits {
            connect: match (compat, set(connect)) {
                // 9.0.2 connects without a limit then.
                (Compat::V9, Some(Duration::ZERO)) => NEVER,
                (Compat::V9 | Compat::V7_1, timeout) => timeout.unwrap_or_default(),
            },
            first_byte: read(first_byte),
            between_bytes: read(between_bytes),
        }
    }

    /// Takes the other limits where there are none.
    pub fn or(self, others: Self) -> Self {
        let or = |own: Duration, other| if own.is_zero() { other } else { own };
        BackendLimits {
            connect: or(self.connect, others.connect),
            first_byte: or(self.first_byte, others.first_byte),
            between_bytes: or(self.between_bytes, others.between_bytes),
        }
    }

    pub fn of(params: &Params) -> Self {
        BackendLimits {
            connect: params.connect_timeout,
            first_byte: params.first_byte_timeout.max(AT_ONCE),
            between_bytes: limit(params.compat, params.between_bytes_timeout),
        }
    }
}

fn set(seconds: Option<f64>) -> Option<Duration> {
    seconds.map(|seconds| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

/// `pipe_timeout`. In 7.1, 0 ends a pipe as soon as nothing is at hand; later it is no limit.
pub fn pipe(params: &Params) -> Duration {
    match params.compat {
        Compat::V7_1 => params.pipe_timeout.max(AT_ONCE),
        Compat::V9 => params.pipe_timeout,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn set(compat: Compat, seconds: f64) -> [Duration; 3] {
        let limits = BackendLimits::set(compat, [Some(seconds); 3]);
        [limits.connect, limits.first_byte, limits.between_bytes]
    }

    #[test]
    fn what_vcl_sets_to_0_is_left_to_the_next_setting_in_7_1_and_over_at_once_in_9() {
        assert_eq!(set(Compat::V7_1, 0.0), [Duration::ZERO; 3]);
        assert_eq!(set(Compat::V9, 0.0), [NEVER, AT_ONCE, AT_ONCE]);
        for compat in Compat::ALL {
            assert_eq!(set(compat, 7.0), [secs(7); 3]);
            assert_eq!(set(compat, -1.0), set(compat, 0.0));
            assert_eq!(set(compat, f64::INFINITY), [secs(1_000_000_000); 3]);
            assert_eq!(BackendLimits::set(compat, [None; 3]), BackendLimits::default());
        }
    }

    #[test]
    fn a_parameter_of_0() {
        let of = |compat| {
            let mut params = Params::of(compat);
            (params.connect_timeout, params.first_byte_timeout) = (Duration::ZERO, Duration::ZERO);
            (params.between_bytes_timeout, params.pipe_timeout) = (Duration::ZERO, Duration::ZERO);
            let limits = BackendLimits::of(&params);
            [limits.connect, limits.first_byte, limits.between_bytes, pipe(&params)]
        };
        assert_eq!(of(Compat::V7_1), [Duration::ZERO, AT_ONCE, Duration::ZERO, AT_ONCE]);
        assert_eq!(of(Compat::V9), [Duration::ZERO, AT_ONCE, AT_ONCE, Duration::ZERO]);
    }

    #[test]
    fn the_next_setting_counts_where_there_is_none() {
        let own = BackendLimits { first_byte: secs(1), ..BackendLimits::default() };
        let others = BackendLimits { connect: secs(2), first_byte: secs(3), between_bytes: secs(4) };
        assert_eq!(own.or(others), BackendLimits { first_byte: secs(1), ..others });
    }
}
