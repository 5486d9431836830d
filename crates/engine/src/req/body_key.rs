// SPDX-License-Identifier: BSD-2-Clause
//! Cache keys over a request's body: QUERY (RFC 10008 2.7), and POST with `req.hash_body`. The body is kept whole before
//! `vcl_hash` runs, at most `hash_body_limit` bytes of it. The key is made of the digest of `vcl_hash`, which the objects
//! of all bodies have in common (their *family*), the method, the body and the header fields that describe it. A request
//! whose body can't be kept is passed. A body that breaks off is never a key.

use cache::{Digest, DigestBuilder};
use message::incremental::Forwarding;
use message::{Head, names};
use storage::Buf;
use tables::close::SessClose;
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::RecvAction;

use super::reason::NoHitReason;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::reqbody::BeyondLimit;
use crate::transport::{ReqBodyError, Transport};

/// The fields that say what a request's body is (RFC 9110 8.3 to 8.7, 14.4); its length is part of the key anyway.
const METADATA: [&str; 5] = [
    names::CONTENT_TYPE,
    names::CONTENT_ENCODING,
    names::CONTENT_LANGUAGE,
    names::CONTENT_LOCATION,
    names::CONTENT_RANGE,
];

/// First part of each key: no digest of `vcl_hash` is one over a body.
const DOMAIN: &[u8] = b"lacquer: a request's body";

enum NoKey {
    /// Passed; the detail says why.
    Passed(String),
    /// The client has broken the body off.
    Broken,
}

impl Req {
    /// True if the key of this request covers its body, once it is looked up.
    #[inline]
    pub(crate) fn is_keyed_by_body(&self) -> bool {
        self.settings.body_key.applies_to(self.ask.head.method())
    }

    /// Keeps the body, runs `vcl_hash` and makes the key. A request without a key is passed: `action` says so then. `Err`
    /// is the step to go to instead.
    pub(super) async fn hash_with_body(
        &mut self,
        action: &mut RecvAction,
        transport: &mut dyn Transport,
    ) -> Result<(), ReqStep> {
        match self.keep_body(transport).await {
            Ok(()) => {}
            Err(NoKey::Passed(detail)) => {
                self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::PassBody, detail));
                *action = RecvAction::Pass;
            }
            Err(NoKey::Broken) => return Err(self.refuse_body(transport)),
        }
        self.hash(action, transport).await?;
        if *action == RecvAction::Hash {
            let family = self.ask.digest;
            self.ask.digest = key(&family, &self.ask.head, &self.client.body.cached());
            self.ask.family = Some(Box::new(family));
            self.note_key();
        }
        Ok(())
    }

    async fn keep_body(&mut self, transport: &mut dyn Transport) -> Result<(), NoKey> {
        if !self.ask.head.has(names::CONTENT_TYPE) {
            return Err(NoKey::Passed("no Content-Type".to_owned()));
        }
        let body = self.client.body.clone();
        if !body.exists() || body.is_cached() {
            return Ok(());
        }
        if !body.is_unread() {
            return Err(NoKey::Passed("the body was sent to a backend before".to_owned()));
        }
        if Forwarding::of(&self.ask.head) == Forwarding::Incremental {
            return Err(NoKey::Passed("Incremental (RFC 10036): the body goes on as it comes".to_owned()));
        }
        let limit = self.params.hash_body_limit;
        let store = self.settings.store_for_body(self.engine());
        body.keep(limit, &store, BeyondLimit::IsLent);
        if !body.is_unread() {
            self.log.put_parts(Tag::Storage, &[store.kind().as_str().as_bytes(), b" ", store.name().as_bytes()]);
            self.client.body.reads_now();
            self.drive(transport, std::future::poll_fn(|cx| body.poll_kept(cx))).await;
            self.end_reading();
        }
        match body.failure() {
            Some(_) => Err(NoKey::Broken),
            None if body.is_cached() => {
                self.engine().main.transit_stored.add(body.bytes().unwrap_or(0));
                Ok(())
            }
            None if body.bytes().is_some_and(|bytes| bytes > limit) || body.waiting_bytes() as u64 > limit => {
                Err(NoKey::Passed(format!("more than {limit} bytes (hash_body_limit)")))
            }
            None => Err(NoKey::Passed(format!("no room in the store {}", store.name()))),
        }
    }

    fn refuse_body(&mut self, transport: &mut dyn Transport) -> ReqStep {
        self.client.close = Some(SessClose::RxBody);
        if self.client.body.failure() != Some(ReqBodyError::GivenUp) {
            self.engine().main.client_req_400.inc();
            self.minimal(transport, 400, ProxyError::HttpRequestError);
        }
        ReqStep::Done
    }

    fn note_key(&mut self) {
        let bytes = self.client.body.bytes().unwrap_or(0);
        let method = String::from_utf8_lossy(self.ask.head.method()).into_owned();
        let text = format!("{method} with {bytes} bytes of body");
        self.log.put(Tag::Hash, text.as_bytes());
        if let Some(trial) = &mut self.client.trial {
            trial.hashed.push(text);
        }
    }
}

/// The key of a request whose `vcl_hash` made `family`. Each part has its length before it, so that the bytes of one can't
/// be taken for those of another.
fn key(family: &Digest, head: &Head, body: &[Buf]) -> Digest {
    let mut builder = DigestBuilder::new();
    let mut add = |part: &[u8]| {
        builder.add(Some(&(part.len() as u64).to_le_bytes()));
        builder.add(Some(part));
    };
    add(DOMAIN);
    add(&family.0);
    add(head.method());
    for name in METADATA {
        let lines = || head.get_all(name.as_bytes());
        add(&(lines().count() as u64).to_le_bytes());
        lines().for_each(&mut add);
    }
    let bytes: u64 = body.iter().map(|piece| piece.len() as u64).sum();
    builder.add(Some(&bytes.to_le_bytes()));
    body.iter().for_each(|piece| builder.add(Some(piece)));
    builder.finish()
}

#[cfg(test)]
mod tests;
