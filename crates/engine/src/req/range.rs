// SPDX-License-Identifier: BSD-2-Clause
//! What becomes of a client's Range: the whole, one part, several as multipart/byteranges, or 416 (RFC 9110 14).

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use cache::ObjRef;
use filters::{Multipart, PartHeads, RangePart, RangeVerdict};
use message::digest::CONTENT_DIGEST;
use message::range::{self, RangeError, Selection, Slice};
use message::{conditional, names};
use tables::Compat;
use tables::tags::Tag;

use super::Req;
use crate::httplog::RESP;

impl Req {
    /// Evaluates the client's Range for a body of that length, and changes the head. `obj` holds the body, unless the
    /// body is made here.
    pub(super) fn judge_range(&mut self, obj: Option<&ObjRef>, len: Option<u64>) -> RangeVerdict {
        if !conditional::if_range_holds(&self.ask.head, &self.resp.head) {
            return RangeVerdict::Whole;
        }
        let Some(asked) = range::asked(&self.ask.head) else { return RangeVerdict::Whole };
        if self.params.compat().is_9() && len.is_none() {
            return self.judge_open_range(range::select_open(asked));
        }
        match (self.select_range(asked, len), len) {
            (Ok(Selection::One(slice)), _) => {
                self.set_resp(names::CONTENT_RANGE, &[slice.content_range(len).as_bytes()]);
                self.become_part();
                RangeVerdict::Part(slice.low, slice.high)
            }
            // Of which bytes the parts are cut would be a guess: those of the coding, or of what it was made from.
            (Ok(Selection::Many(slices)), Some(len)) if !self.resp.head.has(names::CONTENT_ENCODING) => {
                self.many_parts(&slices, obj, len)
            }
            (Ok(Selection::Whole | Selection::Many(_)), _) => RangeVerdict::Whole,
            (Err(error), _) => {
                self.refuse_range(error, len);
                RangeVerdict::Unsatisfiable
            }
        }
    }

    /// From 7.3 on, a part of a body whose length isn't known is given where both its ends are.
    fn judge_open_range(&mut self, selected: Result<Option<Slice>, RangeError>) -> RangeVerdict {
        match selected {
            Ok(Some(slice)) => {
                self.set_resp(names::CONTENT_RANGE, &[slice.content_range(None).as_bytes()]);
                self.become_part();
                RangeVerdict::UpTo(slice.low, slice.high)
            }
            Ok(None) => RangeVerdict::Whole,
            Err(error) => {
                self.refuse_range(error, None);
                RangeVerdict::Unsatisfiable
            }
        }
    }

    /// Up to 7.1 no part of an empty body can be had; from 8.0 on it is sent whole.
    fn select_range(&self, asked: &[u8], len: Option<u64>) -> Result<Selection, RangeError> {
        let most = self.params.http_range_parts as usize;
        match (self.params.compat(), len) {
            (Compat::V9, Some(0)) => range::select(asked, None, most),
            (Compat::V9 | Compat::V7_1, _) => range::select(asked, len, most),
        }
    }

    fn many_parts(&mut self, slices: &[Slice], obj: Option<&ObjRef>, len: u64) -> RangeVerdict {
        let kind = self.resp.head.get(names::CONTENT_TYPE).map(<[u8]>::to_vec);
        let boundary = boundary(self.log.vxid().log_id());
        let mut before = format!("\r\n--{boundary}\r\n").into_bytes();
        if let Some(kind) = &kind {
            before.extend_from_slice(b"Content-Type: ");
            before.extend_from_slice(kind);
            before.extend_from_slice(b"\r\n");
        }
        before.extend_from_slice(b"Content-Range: bytes ");
        let heads = PartHeads { before, after: format!("/{len}\r\n\r\n").into_bytes() };
        let part = |slice: &Slice| RangePart { low: slice.low, high: slice.high };
        let tail = format!("\r\n--{boundary}--\r\n").into_bytes();
        let mut multipart = Multipart { parts: slices.iter().map(part).collect(), heads, tail };
        if obj.is_some_and(|obj| obj.flags().is_passed()) {
            // Its bytes come by once.
            multipart.sort();
        }
        let multipart_kind = format!("multipart/byteranges; boundary={boundary}");
        if RESP.force(&mut self.resp.head, &mut self.log, names::CONTENT_TYPE, multipart_kind.as_bytes()).is_err() {
            self.log.count_lost();
        }
        self.become_part();
        RangeVerdict::Parts(multipart)
    }

    /// The content is no longer the whole, which its digest is of. A digest of the representation still holds.
    fn become_part(&mut self) {
        RESP.unset(&mut self.resp.head, &mut self.log, CONTENT_DIGEST);
        self.put_status(206);
    }

    fn refuse_range(&mut self, error: RangeError, len: Option<u64>) {
        self.log.put2(Tag::Debug, b"RANGE_FAIL ", error.text().as_bytes());
        if let Some(len) = len {
            self.set_resp(names::CONTENT_RANGE, &[format!("bytes */{len}").as_bytes()]);
        }
        self.put_status(416);
    }
}

/// A boundary that occurs in no body, because nobody can foresee it.
fn boundary(transaction: u64) -> String {
    static KEYS: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    let [a, b] = [0, 1].map(|n: usize| KEYS[n].hash_one(transaction));
    format!("{a:016x}{b:016x}")
}
