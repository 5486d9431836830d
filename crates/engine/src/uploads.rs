// SPDX-License-Identifier: BSD-2-Clause
//! The backends that hold unfinished uploads (draft-ietf-httpbis-resumable-upload), by the URLs that they gave to clients. Nobody else
//! knows how much of an upload has come. A request that asks about it, continues or ends it goes to that backend, whichever one the
//! director would choose (parameter `upload_affinity`). VCL chooses the director, and uploads begun with another one don't count.
//!
//! The table has a bound, and lives as long as its worker. A lookup changes nothing: the responses say whether an upload goes on.

mod holder;
mod request;
mod table;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use backend::Director;
use base::Mono;
use base::lock::Mutex;
use message::{names, rfc9111};
use net::Address;
use shm::vsl::TxnLog;
use tables::tags::Tag;

use self::holder::Holder;
pub(crate) use self::request::UploadRequest;
use self::request::{CurrentUpload, UPLOAD_OFFSET, UploadNews};
use self::table::{ClientNetwork, UploadKey, UploadTable};
use crate::bereq::{Bereq, FetchMode};
use crate::engine::Engine;
use crate::req::Req;

#[derive(Default)]
pub(crate) struct Uploads {
    count: AtomicUsize,
    table: Mutex<UploadTable>,
    hasher: RandomState,
}

/// The upload that a client's request is about, found once for all steps.
pub(crate) struct RequestedUpload {
    pub holder: Arc<dyn Director>,
    /// The director that VCL had chosen when the upload was looked up.
    director: Arc<dyn Director>,
    key: UploadKey,
}

impl Uploads {
    fn key(&self, host: &[u8], url: &[u8]) -> UploadKey {
        self.hasher.hash_one((rfc9111::normal_host(host), url))
    }

    fn change<R>(&self, engine: &Engine, change: impl FnOnce(&mut UploadTable) -> R) -> R {
        let mut table = self.table.lock();
        let changed = change(&mut table);
        self.count.store(table.len(), Relaxed);
        engine.main.n_upload.set(table.unfinished() as u64);
        changed
    }
}

impl Engine {
    /// The housekeeping thread calls this once a second.
    pub fn forget_old_uploads(&self) {
        let uploads = &self.fetches.uploads;
        if uploads.count.load(Relaxed) > 0 {
            uploads.change(self, |table| table.forget_old(self.clock.mono()));
        }
    }
}

impl Bereq {
    /// Takes down what the response at hand says about an upload.
    pub(crate) fn learn_upload(&mut self) {
        let Some(news) = self.requester.upload.as_mut().and_then(|request| request.hear(&self.beresp)) else { return };
        let (now, life) = (self.engine.clock.mono(), self.params.upload_affinity.as_secs_f64());
        match news {
            UploadNews::Named(url) if life > 0.0 => self.hold_upload(&url, now, life),
            UploadNews::Named(_) => {}
            UploadNews::GoesOn => self.change_upload(|table, key| table.goes_on(key, now, life)),
            UploadNews::Finished => self.change_upload(|table, key| table.finish(key, now)),
            UploadNews::Gone => self.change_upload(|table, key| _ = table.remove(key)),
        }
    }

    fn hold_upload(&mut self, url: &[u8], now: Mono, life: f64) {
        let (Some(request), Some(backend)) = (&mut self.requester.upload, &self.ask.backend) else { return };
        let uploads = &self.engine.fetches.uploads;
        let key = uploads.key(request.host(), url);
        request.current = Some(CurrentUpload { key, holder: backend.name().into() });
        let holder = Holder::new(self.vcl.loaded(), backend, &request.director);
        if uploads.change(&self.engine, |table| table.put(key, holder, request.client, now, life)) {
            self.engine.main.upload_dropped.inc();
        }
        self.log.put_parts(Tag::Notice, &[b"lacquer: upload ", url, b" is held by ", backend.name().as_bytes()]);
    }

    /// Only the holder knows about its upload, and after a retry another backend may have answered.
    fn change_upload(&self, change: impl FnOnce(&mut UploadTable, UploadKey)) {
        let (Some(request), Some(backend)) = (&self.requester.upload, &self.ask.backend) else { return };
        if let Some(current) = request.current.as_ref().filter(|current| *current.holder == *backend.name()) {
            self.engine.fetches.uploads.change(&self.engine, |table| change(table, current.key));
        }
    }
}

impl Req {
    /// The upload that the request is about, if its backend is known: no object of the cache is the response.
    pub(crate) fn find_upload(&self) -> Option<Box<RequestedUpload>> {
        let uploads = &self.engine().fetches.uploads;
        let head = &self.ask.original;
        let may_be = match self.ask.head.method() {
            b"HEAD" | b"DELETE" => true,
            b"PATCH" => head.has(UPLOAD_OFFSET),
            _ => false,
        };
        if !may_be || uploads.count.load(Relaxed) == 0 || self.params.upload_affinity.is_zero() {
            return None;
        }
        let director = self.director()?;
        let key = uploads.key(head.get(names::HOST).unwrap_or_default(), head.url());
        let now = self.engine().clock.mono();
        let holder = uploads.table.lock().get(key, now)?.holder.find(self.vcl.loaded(), &*director)?;
        Some(Box::new(RequestedUpload { key, holder, director }))
    }

    /// The upload for a pass, unless VCL has chosen another director since it was looked up.
    pub(crate) fn take_upload(&mut self, mode: FetchMode, log: &mut TxnLog) -> Option<Box<RequestedUpload>> {
        let upload = self.ask.upload.take().filter(|_| mode == FetchMode::Pass)?;
        if !std::ptr::addr_eq(Arc::as_ptr(&upload.director), Arc::as_ptr(&self.director()?)) {
            return None;
        }
        self.engine().main.upload_held.inc();
        log.put_parts(Tag::Notice, &[b"lacquer: the upload is held by ", upload.holder.name().as_bytes()]);
        Some(upload)
    }

    /// The request as its fetch's responses are read: `None` if they say nothing about an upload.
    pub(crate) fn upload_request(&self, upload: Option<&RequestedUpload>) -> Option<Box<UploadRequest>> {
        let head = &self.ask.original;
        if upload.is_none() && !UploadRequest::may_begin(head) {
            return None;
        }
        let current = upload.map(|upload| CurrentUpload { key: upload.key, holder: upload.holder.name().into() });
        Some(Box::new(UploadRequest::new(head, self.director()?.name(), self.client_network(), current)))
    }

    fn client_network(&self) -> ClientNetwork {
        let (v4_bits, v6_bits) = (self.params.max_sessions_ipv4_prefix, self.params.max_sessions_ipv6_prefix);
        match self.client.sess.ends.client() {
            Address::Inet(addr) => Some(net::address::network_of(addr.ip(), v4_bits, v6_bits)),
            Address::Unix => None,
        }
    }
}
