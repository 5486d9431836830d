// SPDX-License-Identifier: BSD-2-Clause
//! What of a fetch lives and dies together. What a new try begins with is said by the `reset` of each part.

use std::sync::Arc;
use std::time::Duration;

use backend::Backend;
use base::Real;
use cache::{ObjectTimes, Reuse};
use filters::Recode;
use message::Codings;
use storage::Store;

use crate::response_filters::ResponseFilters;

/// The use of the object for other requests. It only gets worse, over all tries.
#[derive(Debug)]
pub(crate) struct Cacheability {
    kind: Kind,
    reason: Option<Vec<u8>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Cacheable,
    /// Later requests fetch, each for itself, until an answer is cacheable.
    HitForMiss,
    HitForPass,
}

impl Cacheability {
    pub fn cacheable() -> Self {
        Cacheability { kind: Kind::Cacheable, reason: None }
    }

    /// The state in which a pass begins.
    pub fn uncacheable() -> Self {
        Cacheability { kind: Kind::HitForMiss, reason: None }
    }

    pub fn is_uncacheable(&self) -> bool {
        self.kind != Kind::Cacheable
    }

    /// Makes the object hit-for-miss, unless it is uncacheable already.
    pub fn refuse(&mut self) {
        if self.kind == Kind::Cacheable {
            self.kind = Kind::HitForMiss;
        }
    }

    pub fn pass_from_now_on(&mut self) {
        self.kind = Kind::HitForPass;
    }

    pub fn reason(&self) -> Option<&[u8]> {
        self.reason.as_deref()
    }

    pub fn set_reason(&mut self, reason: &[u8]) {
        self.reason = Some(reason.into());
    }

    /// The use of the object for later requests.
    pub fn reuse(&self, may_be_revalidated: bool) -> Reuse {
        match self.kind {
            Kind::Cacheable if may_be_revalidated => Reuse::HitOrRevalidate,
            Kind::Cacheable => Reuse::Hit,
            Kind::HitForMiss => Reuse::HitForMiss,
            Kind::HitForPass => Reuse::HitForPass,
        }
    }
}

/// Limits that VCL sets, in seconds, on waits for the backend.
#[derive(Debug, Default)]
pub(crate) struct TimeLimits {
    pub connect: Option<f64>,
    pub first_byte: Option<f64>,
    pub between_bytes: Option<f64>,
}

impl TimeLimits {
    /// These limits, completed by the backend's; zero is none.
    pub fn at(&self, backend: &Backend) -> backend::Timeouts {
        backend.timeouts(limit(self.first_byte), limit(self.between_bytes))
    }

    /// `bereq.connect_timeout`; zero when VCL didn't set it.
    pub fn connect(&self) -> Duration {
        limit(self.connect)
    }
}

/// A limit in seconds that VCL set; zero when it didn't.
pub(super) fn limit(seconds: Option<f64>) -> Duration {
    seconds.map_or(Duration::ZERO, |seconds| Duration::from_secs_f64(seconds.clamp(0.0, 1e9)))
}

/// Settings for the body that VCL may change.
pub(crate) struct FetchSettings {
    pub do_esi: bool,
    pub recode: Recode,
    pub do_stream: bool,
    /// The store for the object, unless the object is short-lived or uncacheable; `None` if VCL chose none.
    pub storage: Option<Arc<Store>>,
    pub filters: ResponseFilters,
}

impl FetchSettings {
    pub fn new() -> Self {
        FetchSettings {
            do_esi: false,
            recode: Recode::default(),
            do_stream: true,
            storage: None,
            filters: ResponseFilters::default(),
        }
    }

    /// Prepares another try. VCL's settings for gzip stay, as in varnishd.
    pub fn reset(&mut self) {
        let Recode { make, undo } = self.recode;
        let recode = Recode { make: make.and(Codings::GZIP), undo: undo.and(Codings::GZIP) };
        *self = FetchSettings { recode, ..FetchSettings::new() };
    }
}

#[derive(Debug)]
pub(crate) struct NewObject {
    pub times: ObjectTimes,
    /// `times.t_origin` by the wall clock: in VCL age and ttl count from it to the last timestamp, exactly.
    pub t_origin: Real,
    /// Tags that VCL gave it.
    pub keys: Vec<Box<[u8]>>,
    /// They are all that it has: fields give it none.
    pub has_own_tags: bool,
    /// Bytes of the body that the store still takes in place of another store.
    pub body_limit: Option<u64>,
}

impl NewObject {
    pub fn new(now: Real) -> Self {
        NewObject {
            times: ObjectTimes::default(),
            t_origin: now,
            keys: Vec::new(),
            has_own_tags: false,
            body_limit: None,
        }
    }

    pub fn reset(&mut self) {
        self.keys.clear();
        self.has_own_tags = false;
    }

    /// Seconds that it lives in all, from its origin.
    pub fn life(&self) -> f64 {
        self.times.ttl + self.times.grace + self.times.keep
    }
}

#[cfg(test)]
mod tests {
    use message::Coding;

    use super::*;

    #[test]
    fn a_verdict_only_gets_worse() {
        let mut verdict = Cacheability::cacheable();
        assert!(!verdict.is_uncacheable() && verdict.reuse(false) == Reuse::Hit);
        verdict.refuse();
        assert!(verdict.is_uncacheable() && verdict.reuse(true) == Reuse::HitForMiss);
        verdict.pass_from_now_on();
        verdict.refuse();
        assert!(verdict.reuse(true) == Reuse::HitForPass);
        assert!(Cacheability::uncacheable().reuse(true) == Reuse::HitForMiss);
    }

    #[test]
    fn another_try_begins_anew_but_for_gzip() {
        let mut settings = FetchSettings::new();
        (settings.do_esi, settings.do_stream) = (true, false);
        let (gzip, both) = (Codings::GZIP, Codings::GZIP.with(Coding::Zstd));
        settings.recode = Recode { make: both, undo: both };
        settings.filters.set_list(Some("gzip".into()));
        settings.reset();
        let FetchSettings { do_esi, recode, do_stream, storage, filters } = &settings;
        assert_eq!((*do_esi, *do_stream, *recode), (false, true, Recode { make: gzip, undo: gzip }));
        assert!(storage.is_none() && filters.list().is_none());
    }
}
