// SPDX-License-Identifier: BSD-2-Clause
//! The lifetimes of an object: TTL, grace and keep, and the moment from which they count.

use base::Mono;

/// TTL, grace and keep of an object and the moment at which they began: on the monotonic clock in memory, where grace
/// and keep have the precision of an `f32`, and as `ObjectTimes<Real>` in a home.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct ObjectTimes<T = Mono> {
    /// Moment at which the object was fresh at the origin; its age counts from here.
    pub t_origin: T,
    /// Seconds it is fresh.
    pub ttl: f64,
    /// Seconds it may then be served stale while a new one is fetched.
    pub grace: f64,
    /// Seconds it is then kept for conditional fetches.
    pub keep: f64,
}

impl<T> ObjectTimes<T> {
    /// The same times with their origin on another clock.
    pub fn on_clock<U>(self, clock: impl FnOnce(T) -> U) -> ObjectTimes<U> {
        let ObjectTimes { t_origin, ttl, grace, keep } = self;
        ObjectTimes { t_origin: clock(t_origin), ttl, grace, keep }
    }
}

impl ObjectTimes {
    /// The end of the ttl; `max_ttl` is `req.ttl`.
    pub fn fresh_until(&self, max_ttl: Option<f64>) -> Mono {
        let ttl = max_ttl.filter(|&limit| limit > 0.0 && limit < self.ttl).unwrap_or(self.ttl);
        self.t_origin.plus(ttl)
    }

    /// The end of grace; the limits are `req.ttl` and `req.grace`.
    pub fn grace_until(&self, max_ttl: Option<f64>, max_grace: Option<f64>) -> Mono {
        let grace = max_grace.filter(|&limit| limit >= 0.0 && limit < self.grace).unwrap_or(self.grace);
        self.fresh_until(max_ttl).plus(grace)
    }

    /// The end of keep, when the object is removed.
    pub fn dead_at(&self) -> Mono {
        self.t_origin.plus(self.ttl + self.grace + self.keep)
    }

    /// True if all are numbers that a fetch could have written.
    pub fn are_finite(&self) -> bool {
        [self.t_origin.0, self.ttl, self.grace, self.keep].iter().all(|seconds| seconds.is_finite())
    }
}
