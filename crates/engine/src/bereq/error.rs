// SPDX-License-Identifier: BSD-2-Clause
//! An object made here because the backend gave none: `vcl_backend_error`.

use cache::{ObjectFlags, ObjectTimes};
use message::rfc9111::StaleCause;
use message::{Head, date, names};
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::BackendErrorAction;

use super::{Bereq, FetchStep};
use crate::httplog::BERESP;
use crate::proxy_status::{PROXY_STATUS, ProxyCause};

const GIVEN_UP: &str = "given up in vcl_backend_error";

impl Bereq {
    pub(super) async fn make_error(&mut self) -> FetchStep {
        if let Err(step) = self.turn_to_error() {
            return step;
        }
        if !self.failure.is_asked_for {
            self.engine.main.fetch_failed.inc();
        }
        let now = self.engine.clock.real();
        self.log.timestamp("Error", now);
        self.start_error();
        let waited_for = self.busy().has_waiters();
        let t_origin = self.engine.mono_of(now);
        self.fill.object.t_origin = now;
        // Those who wait share the error for a moment, so that they don't try one after the other.
        self.fill.object.times = if waited_for {
            ObjectTimes { t_origin, ttl: 1.0, grace: 5.0, keep: 5.0 }
        } else {
            ObjectTimes { t_origin, ttl: 0.0, grace: 0.0, keep: 0.0 }
        };
        self.fill.settings.storage.get_or_insert_with(|| self.engine.cache.stores().transient().clone());
        let action = self.run_vcl().await;
        self.note_uncacheable(false);
        match action {
            BackendErrorAction::Deliver => {
                if self.fill.rfc9111
                    && !self.failure.is_asked_for
                    && let Some(step) = self.stale_instead(StaleCause::Disconnected)
                {
                    return step;
                }
            }
            BackendErrorAction::Retry if self.may_retry() => return FetchStep::Retry,
            BackendErrorAction::Retry => {
                self.log.put(Tag::VclError, b"Too many retries, failing");
                self.blame_too(ProxyError::ProxyConfigurationError, "max_retries");
                return FetchStep::Fail("too many retries");
            }
            BackendErrorAction::Abandon => return self.abandon(GIVEN_UP),
            BackendErrorAction::Fail => return self.fail_by_vcl(GIVEN_UP),
        }
        self.judge_star();
        if self.store_head(ObjectFlags::NONE, false).is_err() {
            return FetchStep::Fail("no storage");
        }
        let body = self.failure.made.take_body();
        if self.busy().append(&body).is_err() {
            self.fetch_error("Could not get storage");
            return FetchStep::Fail("no storage");
        }
        let replaces = !waited_for && self.fill.object.times.ttl > 0.0;
        let busy = self.take_busy();
        let times = &self.fill.object.times;
        let is_for_nobody = times.ttl <= 0.0 && times.grace <= 0.0 && times.keep <= 0.0;
        let length = match busy {
            busy if is_for_nobody && !self.failure.is_asked_for => busy.finish_failed(),
            busy => match busy.finish(None) {
                Ok(length) => length,
                Err(_) => return FetchStep::Done,
            },
        };
        if let Some(stale) = self.fill.stale.take().filter(|_| replaces) {
            self.engine.cache.kill(&stale);
        }
        self.log.record(Tag::Length).num(length);
        FetchStep::Done
    }

    fn start_error(&mut self) {
        let limits = self.beresp.limits();
        self.beresp = Head::with_limits(limits);
        let (status, reason) = match self.failure.made.begin() {
            (0, _) => (503, Some(b"Backend fetch failed".to_vec())),
            given => given,
        };
        let cause = self.cause_of_error();
        self.count_lost(|this| this.beresp.start_response(b"HTTP/1.1", status));
        if let Some(reason) = reason {
            self.count_lost(|this| this.beresp.set_reason(reason));
        }
        BERESP.log_status(&self.beresp, &mut self.log);
        let date = date::format(self.engine.clock.real());
        self.count_lost(|this| BERESP.append(&mut this.beresp, &mut this.log, names::DATE, &[&date]));
        self.count_lost(|this| BERESP.append(&mut this.beresp, &mut this.log, names::SERVER, &[b"Varnish"]));
        if let Some(text) = cause.and_then(|cause| cause.value(&self.params)) {
            self.count_lost(|this| BERESP.append(&mut this.beresp, &mut this.log, PROXY_STATUS, &[text.as_bytes()]));
        }
    }

    fn cause_of_error(&mut self) -> Option<ProxyCause> {
        let cause = match self.failure.made.take_cause() {
            Some(of_vcl) if !self.ask.tries.has_status() => *of_vcl,
            Some(of_vcl) => of_vcl.at(self.ask.backend.as_deref(), &self.params),
            None if self.failure.is_asked_for => return None,
            None => match &self.failure.cause {
                Some(cause) => (**cause).clone(),
                None => ProxyCause::new(ProxyError::ProxyInternalError, ""),
            },
        };
        Some(cause.after(self.ask.tries.status))
    }
}
