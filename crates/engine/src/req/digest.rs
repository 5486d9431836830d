// SPDX-License-Identifier: BSD-2-Clause
//! Digests that a client asks for (RFC 9530 4): SHA-256 of a stored body that is delivered as it is stored. Calculated at the first wish, as few
//! clients ask and none asks for all objects; then known until many others were asked for.

use std::collections::{HashMap, VecDeque};

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

const MAX_KNOWN: usize = 4096;
/// Bodies that may be hashed at the same time. Clients that wish for further ones, or for one of these, get no digest.
const MAX_BEGUN: usize = 4;

type Sha256Digest = [u8; 32];

/// An object by its key, the transaction that fetched it, the bits of its time of origin, and its length. Objects on disk outlive the worker
/// that numbered their transactions.
type BodyKey = (Digest, Vxid, u64, u64);

#[derive(Default)]
pub(crate) struct KnownDigests(Lock<Known>);

#[derive(Default)]
struct Known {
    digests: HashMap<BodyKey, Sha256Digest>,
    by_age: VecDeque<BodyKey>,
    begun: Vec<BodyKey>,
}

/// The right to hash a body.
struct Turn<'a> {
    all: &'a KnownDigests,
    key: BodyKey,
}

impl KnownDigests {
    fn find(&self, key: &BodyKey) -> Option<Sha256Digest> {
        self.0.lock().digests.get(key).copied()
    }

    /// `None`: the body is being hashed, or has been, or enough others are.
    fn begin(&self, key: BodyKey) -> Option<Turn<'_>> {
        let mut known = self.0.lock();
        let may_begin =
            known.begun.len() < MAX_BEGUN && !known.begun.contains(&key) && !known.digests.contains_key(&key);
        may_begin.then(|| {
            known.begun.push(key);
            Turn { all: self, key }
        })
    }
}

impl Turn<'_> {
    fn keep(self, digest: Sha256Digest) {
        let mut known = self.all.0.lock();
        if known.by_age.len() >= MAX_KNOWN
            && let Some(oldest) = known.by_age.pop_front()
        {
            known.digests.remove(&oldest);
        }
        known.by_age.push_back(self.key);
        known.digests.insert(self.key, digest);
        // The turn ends behind this lock.
        drop(known);
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.all.0.lock().begun.retain(|key| *key != self.key);
    }
}

impl Req {
    pub(super) fn wants_digest(&self) -> bool {
        self.params.digest_body_limit > 0
            && (self.ask.head.has(WANT_REPR_DIGEST) || self.ask.head.has(WANT_CONTENT_DIGEST))
    }

    /// Adds the digests that the client asks for, if the whole stored body is the representation.
    pub(super) async fn add_digests(&mut self, answer: &Answer, plan: &Plan) {
        let status = self.resp.head.status() % 1000;
        let is_representation = plan.chain.is_empty() && !plan.do_esi && matches!(status, 200 | 206);
        let stored = stored(answer, self.params.digest_body_limit);
        let Some(obj) = stored.filter(|_| is_representation && !self.esi.is_fragment()) else { return };
        let is_content = status == 200 && matches!(plan.window, Window::All) && self.ask.original.method() == b"GET";
        for (name, wish, is_it) in
            [(REPR_DIGEST, WANT_REPR_DIGEST, true), (CONTENT_DIGEST, WANT_CONTENT_DIGEST, is_content)]
        {
            let wants = |value: &[u8]| is_wanted(value, DigestAlgorithm::Sha256);
            if !is_it || self.resp.head.has(name) || !self.ask.head.joined(wish).is_some_and(|value| wants(&value)) {
                continue;
            }
            let Some(digest) = self.digest_of(obj, is_content).await else { return };
            self.set_resp(name, &[DigestAlgorithm::Sha256.field(&digest).as_bytes()]);
        }
    }

    /// The digest, if it is known or `may_hash`: a client that takes the whole body pays for the work.
    async fn digest_of(&self, obj: &ObjRef, may_hash: bool) -> Option<Sha256Digest> {
        let key = (self.ask.digest, obj.xid(), obj.times().t_origin.0.to_bits(), obj.body_len()?);
        let known = &self.engine().requests.digests;
        if let Some(digest) = known.find(&key) {
            return Some(digest);
        }
        let turn = if may_hash { known.begin(key)? } else { return None };
        let (mut hash, mut reader) = (Sha256::new(), obj.reader(0));
        while let Some(piece) = reader.next().await.ok()? {
            for some in piece.chunks(64 * 1024) {
                hash.update(some);
                rt::spent((some.len() / HASHED_A_MICRO) as u32).await;
            }
        }
        let digest = hash.finalize().into();
        turn.keep(digest);
        Some(digest)
    }
}

/// The object that is delivered as it is stored, if all of it is there and it isn't long.
fn stored(answer: &Answer, limit: u64) -> Option<&ObjRef> {
    let delivery = answer.delivery().filter(|delivery| matches!(delivery.extent, Extent::Stored))?;
    let obj = &delivery.obj;
    (!obj.flags().is_passed() && obj.body_len().is_some_and(|bytes| bytes <= limit)).then_some(obj)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_too_many_digests_is_forgotten() {
        let known = KnownDigests::default();
        (0..MAX_KNOWN as u64).for_each(|n| known.begin(key(n)).unwrap().keep([1; 32]));
        assert_eq!(known.find(&key(0)), Some([1; 32]));
        known.begin(key(u64::MAX)).unwrap().keep([2; 32]);
        let found = [0, 1, u64::MAX].map(|n| known.find(&key(n)));
        assert_eq!(found, [None, Some([1; 32]), Some([2; 32])]);
    }

    #[test]
    fn few_bodies_are_hashed_at_once_and_each_by_one_request() {
        let known = KnownDigests::default();
        let mut turns: Vec<_> = (0..MAX_BEGUN as u64 - 1).map(|n| known.begin(key(n)).unwrap()).collect();
        assert!(known.begin(key(0)).is_none(), "it is being hashed");
        turns.push(known.begin(key(10)).unwrap());
        assert!(known.begin(key(11)).is_none(), "too many");
        turns.pop().unwrap().keep([1; 32]);
        assert!(known.begin(key(10)).is_none(), "it is known");
        // A client that went away.
        turns.pop();
        assert_eq!(known.find(&key(2)), None);
        assert!(known.begin(key(2)).is_some() && known.begin(key(11)).is_some());
    }

    #[test]
    fn a_transaction_of_an_earlier_worker_is_another_one() {
        let known = KnownDigests::default();
        known.begin(key(1)).unwrap().keep([1; 32]);
        let (digest, xid, origin, length) = key(1);
        assert_eq!(known.find(&(digest, xid, origin + 1, length)), None);
    }

    fn key(n: u64) -> BodyKey {
        (Digest([7; 32]), Vxid(n), 4, 1)
    }
}
