// SPDX-License-Identifier: BSD-2-Clause
//! The backends that hold unfinished uploads (draft-ietf-httpbis-resumable-upload), by the URLs that they gave to clients. Nobody else
//! knows how much of an upload has come. So what asks about it, continues or ends it goes to that backend, whatever the director would
//! choose (parameter `upload_affinity`).
//!
//! The table has a bound, and lives as long as its worker. A backend ends with its VCL; then the director chooses again.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use backend::{Backend, Director};
use base::Mono;
use base::lock::Mutex;
use cache::{Digest, DigestBuilder};
use message::{Head, names, rfc9111};
use shm::vsl::TxnLog;
use tables::tags::Tag;

use crate::bereq::Bereq;
use crate::req::Req;

const MAX_UPLOADS: usize = 10_000;

const UPLOAD_COMPLETE: &str = "Upload-Complete";

#[derive(Default)]
pub(crate) struct Uploads {
    count: AtomicUsize,
    known: Mutex<KnownUploads>,
}

#[derive(Default)]
struct KnownUploads {
    uploads: HashMap<Digest, HeldUpload>,
    /// Numbers of the uploads' last uses.
    order: BTreeMap<u64, Digest>,
    uses: u64,
}

struct HeldUpload {
    backend: Weak<Backend>,
    used: Mono,
    use_number: u64,
}

/// The request of a client that begins or continues an upload, as far as its upload's URL is relative to it.
pub(crate) struct UploadTarget {
    host: Box<[u8]>,
    url: Box<[u8]>,
    /// `Upload-Complete: ?0`: the response to it names the upload.
    is_partial: bool,
}

impl Uploads {
    /// Returns `true` if another upload was dropped for it. `life`: seconds after which one that isn't used is forgotten.
    fn learn(&self, digest: Digest, backend: &Arc<Backend>, now: Mono, life: f64) -> bool {
        let mut known = self.known.lock();
        known.put(digest, Arc::downgrade(backend), now);
        known.forget_old(now, life);
        let is_full = known.uploads.len() > MAX_UPLOADS;
        if is_full {
            known.forget_first();
        }
        self.count.store(known.uploads.len(), Relaxed);
        is_full
    }

    /// The backend that holds the upload, whose life begins anew.
    fn holder(&self, digest: &Digest, now: Mono, life: f64) -> Option<Arc<Backend>> {
        let mut known = self.known.lock();
        known.forget_old(now, life);
        let backend = known.uploads.get(digest).and_then(|upload| upload.backend.upgrade());
        if let Some(backend) = &backend {
            known.put(*digest, Arc::downgrade(backend), now);
        }
        self.count.store(known.uploads.len(), Relaxed);
        backend
    }

    fn len(&self) -> usize {
        self.count.load(Relaxed)
    }
}

impl KnownUploads {
    fn put(&mut self, digest: Digest, backend: Weak<Backend>, now: Mono) {
        self.uses += 1;
        let upload = HeldUpload { backend, used: now, use_number: self.uses };
        if let Some(before) = self.uploads.insert(digest, upload) {
            self.order.remove(&before.use_number);
        }
        self.order.insert(self.uses, digest);
    }

    fn forget_old(&mut self, now: Mono, life: f64) {
        let is_old = |upload: &HeldUpload| now.since(upload.used) > life;
        while self.order.first_key_value().and_then(|(_, digest)| self.uploads.get(digest)).is_some_and(is_old) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, digest)) = self.order.pop_first() {
            self.uploads.remove(&digest);
        }
    }
}

fn digest_of(host: &[u8], url: &[u8]) -> Digest {
    let mut builder = DigestBuilder::new();
    builder.add(Some(&rfc9111::normal_host(host)));
    builder.add(Some(url));
    builder.finish()
}

impl UploadTarget {
    pub fn of(req: &Req) -> Option<Box<UploadTarget>> {
        let head = &req.ask.original;
        if matches!(head.method(), b"GET" | b"HEAD") {
            return None;
        }
        let is_complete = head.get(UPLOAD_COMPLETE)?;
        Some(Box::new(UploadTarget {
            host: head.get(names::HOST).unwrap_or_default().into(),
            url: head.url().into(),
            is_partial: is_complete == b"?0",
        }))
    }

    /// The URL of the upload that a response names: each 104 may, a final response if the upload goes on.
    fn named_by(&self, response: &Head) -> Option<Vec<u8>> {
        let is_named = match response.status() {
            104 => true,
            200..=299 => {
                self.is_partial && response.get(UPLOAD_COMPLETE).is_none_or(|is_complete| is_complete != b"?1")
            }
            _ => false,
        };
        is_named.then(|| rfc9111::location(response, &self.host, &self.url)).flatten()
    }
}

impl Bereq {
    /// Remembers the backend if the response at hand names an upload that it holds.
    pub(crate) fn learn_upload(&mut self) {
        let life = self.params.upload_affinity.as_secs_f64();
        let (Some(target), Some(backend)) = (&self.requester.upload, &self.ask.backend) else { return };
        let Some(url) = target.named_by(&self.beresp).filter(|_| life > 0.0) else { return };
        let uploads = &self.engine.fetches.uploads;
        if uploads.learn(digest_of(&target.host, &url), backend, self.engine.clock.mono(), life) {
            self.engine.main.upload_dropped.inc();
        }
        self.engine.main.n_upload.set(uploads.len() as u64);
        self.log.put_parts(Tag::Notice, &[b"lacquer: upload ", &url, b" is held by ", backend.name().as_bytes()]);
    }
}

impl Req {
    /// True if the request is about an upload whose backend is known: no object of the cache answers it.
    pub(crate) fn holds_upload(&self) -> bool {
        self.holder().is_some()
    }

    /// The backend for the fetch of such a request.
    pub(crate) fn upload_holder(&self, log: &mut TxnLog) -> Option<Arc<dyn Director>> {
        let holder = self.holder()?;
        self.engine().main.upload_held.inc();
        log.put_parts(Tag::Notice, &[b"lacquer: the upload is held by ", holder.name().as_bytes()]);
        Some(holder)
    }

    fn holder(&self) -> Option<Arc<Backend>> {
        let (engine, uploads) = (self.engine(), &self.engine().fetches.uploads);
        if uploads.len() == 0 || !matches!(self.ask.head.method(), b"HEAD" | b"PATCH" | b"DELETE") {
            return None;
        }
        let (head, life) = (&self.ask.original, self.params.upload_affinity.as_secs_f64());
        let digest = digest_of(head.get(names::HOST).unwrap_or_default(), head.url());
        let holder = uploads.holder(&digest, engine.clock.mono(), life);
        engine.main.n_upload.set(uploads.len() as u64);
        holder
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(n: usize) -> Digest {
        digest_of(b"a.example", n.to_string().as_bytes())
    }

    fn put(known: &mut KnownUploads, n: usize, now: f64) {
        known.put(digest(n), Weak::new(), Mono(now));
    }

    #[test]
    fn the_upload_that_was_used_longest_ago_goes_first() {
        let mut known = KnownUploads::default();
        (1..=3).for_each(|n| put(&mut known, n, n as f64));
        put(&mut known, 1, 4.0);
        known.forget_first();
        let left: Vec<bool> = (1..=3).map(|n| known.uploads.contains_key(&digest(n))).collect();
        assert_eq!(left, [true, false, true]);
        known.forget_old(Mono(10.0), 6.5);
        assert_eq!((known.uploads.len(), known.order.len()), (1, 1), "the third was used at 3");
        known.forget_old(Mono(10.5), 6.5);
        assert_eq!(known.uploads.len(), 1, "a whole life isn't over");
        known.forget_old(Mono(10.6), 6.5);
        assert_eq!((known.uploads.len(), known.order.len()), (0, 0));
    }

    fn named(is_complete: &str, response: (u16, &[&str])) -> Option<String> {
        let target =
            UploadTarget { host: (*b"a.example").into(), url: (*b"/files?x").into(), is_partial: is_complete == "?0" };
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", response.0).unwrap();
        response.1.iter().for_each(|line| head.append_line(line.as_bytes()).unwrap());
        target.named_by(&head).map(|url| String::from_utf8(url).unwrap())
    }

    #[test]
    fn responses_name_uploads() {
        const HERE: &str = "Location: /upload/1";
        let check = |is_complete, response, expected: Option<&str>| {
            assert_eq!(named(is_complete, response).as_deref(), expected, "{is_complete} {response:?}");
        };
        check("?1", (104, &[HERE]), Some("/upload/1"));
        check("?1", (104, &["Location: https://A.EXAMPLE/u/../upload/1"]), Some("/upload/1"));
        check("?1", (104, &["Location: upload"]), Some("/upload"));
        check("?1", (104, &["Location: https://b.example/upload/1"]), None);
        check("?1", (104, &["Upload-Offset: 10"]), None);
        check("?0", (201, &[HERE]), Some("/upload/1"));
        check("?0", (201, &[HERE, "Upload-Complete: ?0"]), Some("/upload/1"));
        check("?0", (200, &[HERE, "Upload-Complete: ?1"]), None);
        // This is what was made of the whole upload.
        check("?1", (201, &[HERE]), None);
        check("?0", (307, &[HERE]), None);
    }
}
