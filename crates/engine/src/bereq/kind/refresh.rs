// SPDX-License-Identifier: BSD-2-Clause
//! A fetch that keeps the stale object's body: the backend has said 304, or nothing better (RFC 9111 4.3.4, 4.2.4). The new object
//! has the body under a head that `vcl_backend_refresh`, or the merging of both heads, gives it.

use std::future::poll_fn;

use cache::{BodyReadError, ObjRef, ObjectFlags, Reuse};
use message::digest::{CONTENT_DIGEST, REPR_DIGEST};
use message::{Head, LostHeader, names};
use tables::close::SessClose;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::{BackendRefreshAction, Method};

use super::FetchKind;
use crate::aux_attrs::AuxAttrs;
use crate::bereq::body::BodyFailure;
use crate::bereq::ctx::MAX_TAGS;
use crate::bereq::{Bereq, FetchStep};
use crate::httplog::BERESP;

const NO_STORAGE: &str = "no storage";

/// Fields that tell of the stored body. Those of a newer head don't replace them.
const OF_THE_BODY: [&str; 4] = [names::CONTENT_ENCODING, names::CONTENT_LENGTH, CONTENT_DIGEST, REPR_DIGEST];

#[derive(Debug)]
pub(crate) struct RefreshFetch {
    pub stale: ObjRef,
    /// The stale object's head while `vcl_backend_refresh` runs.
    pub old_head: Option<Box<Head>>,
    /// VCL wants no more of the 304 than its lives (`utils.fast_304`).
    pub keeps_head: bool,
}

impl Bereq {
    /// A 304: the stale object's head with the new fields merged in (RFC 9111 4.3.4).
    pub(super) fn not_modified(&mut self) -> Result<(), FetchStep> {
        let asks_vcl = self.vcl.loaded().program.sub_of(Method::BackendRefresh).is_some()
            && !self.fill.cacheability.is_uncacheable();
        // Where VCL decides, it also decides about answers that nobody asked for.
        let stale =
            self.fill.stale.as_ref().filter(|stale| asks_vcl || stale.flags().reuse == Reuse::HitOrRevalidate).cloned();
        let Some(stale) = stale else {
            if self.fill.cacheability.is_uncacheable() {
                return Ok(());
            }
            self.log.put(Tag::Error, b"304 response but not conditional fetch");
            self.end_link(Some(SessClose::RxBad));
            self.blame(ProxyError::HttpProtocolError, "304 response but not conditional fetch");
            return Err(FetchStep::Error);
        };
        let mut old = Head::with_limits(self.beresp.limits());
        if old.load_from(stale.head()).is_err() {
            return Err(FetchStep::Error);
        }
        let old_head = if asks_vcl {
            Some(Box::new(old))
        } else {
            self.kind = FetchKind::Refresh(RefreshFetch { stale: stale.clone(), old_head: None, keeps_head: false });
            self.take_merged(&stale, &old);
            None
        };
        self.kind = FetchKind::Refresh(RefreshFetch { stale, old_head, keeps_head: false });
        Ok(())
    }

    fn take_merged(&mut self, stale: &ObjRef, old: &Head) {
        if stale.flags().is_recoded {
            self.count_lost(|this| message::encoding::weaken_etag(&mut this.beresp));
        }
        // A 304 has no content, and the stored body may be another than the one that it speaks of.
        for name in OF_THE_BODY {
            BERESP.unset(&mut self.beresp, &mut self.log, name);
        }
        self.count_lost(|this| this.merge(old));
        if self.fill.rfc9111 {
            // Fields that the 304 lacks are taken from the stored head (RFC 9111 3.2).
            self.take_lives();
        }
    }

    /// vcl_backend_refresh says which head the object has from now on. `Err` is the step to go to instead.
    pub(in crate::bereq) async fn ask_refresh(&mut self) -> Result<(), FetchStep> {
        const GIVEN_UP: &str = "given up in vcl_backend_refresh";
        let action = self.run_vcl().await;
        let FetchKind::Refresh(refresh) = &mut self.kind else { return Ok(()) };
        let (stale, Some(old)) = (refresh.stale.clone(), refresh.old_head.take()) else { return Ok(()) };
        match action {
            BackendRefreshAction::Merge => self.take_merged(&stale, &old),
            BackendRefreshAction::ObjStale => self.beresp.copy_from(&old),
            BackendRefreshAction::Beresp => self.count_lost(|this| this.take_own_head(&old)),
            BackendRefreshAction::Error(status) => return Err(self.without_response().error_by_vcl(status)),
            BackendRefreshAction::Retry => return Err(self.retry_response()),
            BackendRefreshAction::Abandon => return Err(self.without_response().abandon(GIVEN_UP)),
            BackendRefreshAction::Fail => return Err(self.without_response().fail_by_vcl(GIVEN_UP)),
        }
        Ok(())
    }

    /// The head of the 304 for the object: what tells of the body is the old one's, and so are the validators.
    fn take_own_head(&mut self, old: &Head) -> Result<(), LostHeader> {
        self.beresp.set_status(200)?;
        self.beresp.set_reason(b"OK")?;
        BERESP.log_status(&self.beresp, &mut self.log);
        for name in OF_THE_BODY {
            BERESP.unset(&mut self.beresp, &mut self.log, name);
        }
        for name in OF_THE_BODY.into_iter().chain([names::LAST_MODIFIED, names::ETAG]) {
            let Some(value) = old.get(name) else { continue };
            BERESP.unset(&mut self.beresp, &mut self.log, name);
            BERESP.append(&mut self.beresp, &mut self.log, name, &[value])?;
        }
        Ok(())
    }

    /// The start line of a stored head, and those of its fields that the answer doesn't have.
    fn merge(&mut self, old: &Head) -> Result<(), LostHeader> {
        self.beresp.set_proto(old.proto())?;
        self.beresp.set_status(old.status())?;
        self.beresp.set_reason(old.reason())?;
        BERESP.log_status(&self.beresp, &mut self.log);
        self.merge_fields(old)
    }

    pub(super) fn merge_fields(&mut self, old: &Head) -> Result<(), LostHeader> {
        let own = self.beresp.len();
        for field in old.iter() {
            let is_new = |at: usize| self.beresp.field(at).is_some_and(|new| new.is(field.name()));
            if !(0..own).any(is_new) && !base::failpoint::fault("a 304 that forgets the stored head") {
                self.log.put(Tag::BerespHeader, field.line());
                self.beresp.append_line(field.line())?;
            }
        }
        Ok(())
    }

    /// The stale object's head and store instead of what the 304 and VCL have made of them; its keys before VCL's.
    pub(super) fn keep_stale_head(&mut self) -> Result<(), FetchStep> {
        let FetchKind::Refresh(RefreshFetch { stale, keeps_head: true, .. }) = &self.kind else { return Ok(()) };
        if self.fill.cacheability.is_uncacheable() {
            return Ok(());
        }
        let stale = stale.clone();
        self.beresp.load_from(stale.head()).map_err(|_| FetchStep::Error)?;
        let mut keys = if self.fill.object.has_own_tags { Vec::new() } else { self.engine.cache.tags_of(&stale) };
        keys.append(&mut self.fill.object.keys);
        // Keys that are others each time would pile up.
        keys.truncate(MAX_TAGS);
        self.fill.object.keys = keys;
        self.fill.settings.storage = Some(self.engine.cache.stores().get(stale.store()).clone());
        Ok(())
    }

    pub(in crate::bereq) async fn refresh(&mut self, stale: ObjRef) -> FetchStep {
        match self.take_over_object(&stale).await {
            Ok(()) => self.end_body().await,
            Err(reason) => {
                self.engine.main.fetch_failed.inc();
                FetchStep::Fail(reason)
            }
        }
    }

    async fn take_over_object(&mut self, stale: &ObjRef) -> Result<(), &'static str> {
        if stale.finished().await.is_err() {
            return Err(self.lose_template());
        }
        let kept = stale.flags();
        let body = ObjectFlags { coding: kept.coding, is_recoded: kept.is_recoded, ..ObjectFlags::NONE };
        if self.store_head(body, self.fill.settings.do_stream).is_err() || self.take_over_aux_attrs(stale).is_err() {
            return Err(NO_STORAGE);
        }
        self.end_link(None);
        if self.fill.settings.do_stream {
            self.busy().start_stream();
        } else {
            self.busy().set_transit_buffer(None);
        }
        let mut reader = stale.reader(0);
        loop {
            // A long body is at hand at once: the thread has others to serve, and a passed one's reader must keep up.
            rt::give_way().await;
            if poll_fn(|cx| self.poll_room(cx)).await.is_err() {
                return Ok(());
            }
            match reader.next().await {
                Ok(None) => return Ok(()),
                Ok(Some(piece)) => self.take_over(piece, stale.store()).map_err(|_| NO_STORAGE)?,
                Err(error) => {
                    if let BodyReadError::Store(error) = error {
                        self.log.putf(Tag::Error, format_args!("Storage: {error}"));
                        self.engine.cache.lose(stale);
                    }
                    return Err(self.lose_template());
                }
            }
        }
    }

    fn lose_template(&mut self) -> &'static str {
        self.fetch_error("Template object failed");
        "template object failed"
    }

    fn take_over_aux_attrs(&mut self, stale: &ObjRef) -> Result<(), BodyFailure> {
        let reason = self.fill.cacheability.reason().map(<[u8]>::to_vec);
        let aux_attrs = AuxAttrs { reason: reason.as_deref(), ..AuxAttrs::read(stale.aux_attrs()) };
        self.put_aux_attrs(&aux_attrs.store(), stale.flags().has_esi)
    }
}
