// SPDX-License-Identifier: BSD-2-Clause
//! Digests that a client asks for (RFC 9530 4): SHA-256 of a stored body that is delivered as it is stored. Calculated at the first wish, as few
//! clients ask and none asks for all objects; then known until many others were asked for.

use std::collections::HashMap;

use base::Vxid;
use base::critical::Lock;
use cache::{Digest, ObjRef};
use message::digest::{CONTENT_DIGEST, DigestAlgorithm, REPR_DIGEST, WANT_CONTENT_DIGEST, WANT_REPR_DIGEST, is_wanted};
use sha2::{Digest as _, Sha256};

use super::Req;
use super::delivery::{Answer, Extent};
use super::plan::Plan;
use super::transmit::Window;
use crate::bereq::digests::HASHED_A_MICRO;

/// The longest body that is hashed for a client, in bytes.
const MAX_BODY: u64 = 16 << 20;
const MAX_KNOWN: usize = 4096;

/// An object by its key, the transaction that fetched it, and its length.
type BodyKey = (Digest, Vxid, u64);

#[derive(Default)]
pub(crate) struct KnownDigests(Lock<HashMap<BodyKey, [u8; 32]>>);

impl KnownDigests {
    fn find(&self, key: &BodyKey) -> Option<[u8; 32]> {
        self.0.lock().get(key).copied()
    }

    fn keep(&self, key: BodyKey, digest: [u8; 32]) {
        let mut known = self.0.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(key, digest);
    }
}

impl Req {
    pub(super) fn wants_digest(&self) -> bool {
        self.ask.head.has(WANT_REPR_DIGEST) || self.ask.head.has(WANT_CONTENT_DIGEST)
    }

    /// Adds the digests that the client asks for, if the whole stored body is the representation.
    pub(super) async fn add_digests(&mut self, answer: &Answer, plan: &Plan) {
        let status = self.resp.head.status() % 1000;
        let is_representation = plan.chain.is_empty() && !plan.do_esi && matches!(status, 200 | 206);
        let Some(obj) = stored(answer).filter(|_| is_representation && !self.esi.is_fragment()) else { return };
        let is_content = status == 200 && matches!(plan.window, Window::All) && self.ask.original.method() == b"GET";
        for (name, wish, is_it) in
            [(REPR_DIGEST, WANT_REPR_DIGEST, true), (CONTENT_DIGEST, WANT_CONTENT_DIGEST, is_content)]
        {
            let wants = |value: &[u8]| is_wanted(value, DigestAlgorithm::Sha256);
            if !is_it || self.resp.head.has(name) || !self.ask.head.joined(wish).is_some_and(|value| wants(&value)) {
                continue;
            }
            let Some(digest) = self.digest_of(obj).await else { return };
            self.set_resp(name, &[DigestAlgorithm::Sha256.field(&digest).as_bytes()]);
        }
    }

    async fn digest_of(&self, obj: &ObjRef) -> Option<[u8; 32]> {
        let key = (self.ask.digest, obj.xid(), obj.body_len()?);
        let known = &self.engine().requests.digests;
        if let Some(digest) = known.find(&key) {
            return Some(digest);
        }
        let (mut hash, mut reader) = (Sha256::new(), obj.reader(0));
        while let Some(piece) = reader.next().await.ok()? {
            for some in piece.chunks(64 * 1024) {
                hash.update(some);
                rt::spent((some.len() / HASHED_A_MICRO) as u32).await;
            }
        }
        let digest = hash.finalize().into();
        known.keep(key, digest);
        Some(digest)
    }
}

/// The object that is delivered as it is stored, if all of it is there and it isn't long.
fn stored(answer: &Answer) -> Option<&ObjRef> {
    let delivery = answer.delivery().filter(|delivery| matches!(delivery.extent, Extent::Stored))?;
    let obj = &delivery.obj;
    (!obj.flags().is_passed() && obj.body_len().is_some_and(|bytes| bytes <= MAX_BODY)).then_some(obj)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_digests_are_bounded() {
        let known = KnownDigests::default();
        let key = |n: u64| (Digest([7; 32]), Vxid(n), 1);
        (0..MAX_KNOWN as u64).for_each(|n| known.keep(key(n), [1; 32]));
        assert_eq!(known.find(&key(0)), Some([1; 32]));
        known.keep(key(u64::MAX), [2; 32]);
        assert_eq!((known.find(&key(0)), known.find(&key(u64::MAX))), (None, Some([2; 32])));
    }
}
