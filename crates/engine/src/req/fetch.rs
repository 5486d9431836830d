// SPDX-License-Identifier: BSD-2-Clause
//! A fetch was started: wait until the object's head is there, lending the fetch the request's body meanwhile.

use cache::ObjRef;
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
        let arrived = self.drive(transport, obj.headers()).await;
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
}
