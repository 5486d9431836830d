// SPDX-License-Identifier: BSD-2-Clause
//! A fetch was started: wait until the object's head is there, lending the fetch the request's body meanwhile.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use cache::{FetchFailed, ObjRef};
use tables::tags::Tag;

use super::{Req, Step};
use crate::transport::Transport;

impl Req {
    pub(super) async fn fetch(&mut self, obj: ObjRef, transport: &mut dyn Transport) -> Step {
        self.engine().main.s_fetch.inc();
        let lends = self.body.is_spent();
        if lends {
            self.log.put(Tag::Storage, b"malloc Transient");
        }
        self.log.flush();
        let arrived = self.hear(&obj, transport).await;
        if lends {
            self.mark("ReqBody");
        }
        self.mark("Fetch");
        if arrived.is_err() {
            self.error = (503, None);
            return Step::Synth;
        }
        Step::Deliver(obj)
    }

    /// Waits for the object's head; what the backend says before goes to the client at once.
    async fn hear(&mut self, obj: &ObjRef, transport: &mut dyn Transport) -> Result<(), FetchFailed> {
        let Some(interims) = self.interims.take() else { return self.drive(transport, obj.headers()).await };
        let mut arrives = pin!(obj.headers());
        loop {
            let next = poll_fn(|cx| match interims.poll_next(cx) {
                Poll::Ready(interim) => Poll::Ready(Err(interim)),
                Poll::Pending => arrives.as_mut().poll(cx).map(Ok),
            });
            match self.drive(transport, next).await {
                Ok(arrived) => return arrived,
                Err(interim) => transport.send_interim(&interim),
            }
        }
    }
}
