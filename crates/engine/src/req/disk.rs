// SPDX-License-Identifier: BSD-2-Clause
//! The body of a hit that is only on a disk: its first piece is read before the response begins. What can't be read is a
//! miss.

use std::future::poll_fn;
use std::task::Poll;

use cache::{BodyReadError, BodyReader, ObjRef};
use message::names;
use message::range::{self, Selection};
use tables::tags::Tag;

use super::Req;
use super::search::ReqSearch;
use crate::transport::Transport;

impl Req {
    /// True if a hit's body is only on a disk and will be sent: nobody knows yet if it can be read. Where the response
    /// may be a 304, the disk isn't read in vain.
    pub(super) fn is_to_be_read(&self, obj: &ObjRef) -> bool {
        let may_be_unneeded = || self.ask.head.has(names::IF_NONE_MATCH) || self.ask.head.has(names::IF_MODIFIED_SINCE);
        obj.is_in_home_alone() && self.ask.head.method() == b"GET" && !may_be_unneeded()
    }

    /// Reads the piece that will be sent first. `None`: it can't be read, and the client hasn't been told anything yet.
    pub(super) async fn read_first(
        &mut self,
        obj: &ObjRef,
        asked: &mut ReqSearch,
        transport: &mut dyn Transport,
    ) -> Option<Box<BodyReader>> {
        let start = self.first_wanted(obj);
        let mut reader = obj.reader(start);
        reader.stop_at(start + 1);
        let deadline = asked.read_until(&self.params);
        let first = poll_fn(|cx| match reader.poll_next(cx) {
            Poll::Ready(first) => Poll::Ready(first.map(drop)),
            // It was found, and may still come: its delivery waits for it.
            Poll::Pending => deadline.poll(cx).map(Ok),
        });
        match self.drive(transport, first).await {
            Err(BodyReadError::Store(error)) => {
                self.log.putf(Tag::Error, format_args!("Storage: {error}"));
                None
            }
            Ok(()) | Err(BodyReadError::Fetch(_)) => Some(Box::new(reader)),
        }
    }

    /// Offset at which reading the body begins, as far as that is known before VCL runs.
    fn first_wanted(&self, obj: &ObjRef) -> u64 {
        let (Some(asked), Some(len)) = (range::asked(&self.ask.head), obj.body_len()) else { return 0 };
        if crate::parts::StoredParts::of(obj).is_some() {
            return 0;
        }
        match range::select(asked, Some(len), self.params.http_range_parts as usize) {
            Ok(Selection::One(slice)) => slice.low,
            Ok(Selection::Many(slices)) => slices.first().map_or(0, |slice| slice.low),
            Ok(Selection::Whole) | Err(_) => 0,
        }
    }
}
