// SPDX-License-Identifier: BSD-2-Clause
//! A fetch was started: wait until the object's head is there, lending the fetch the request's body meanwhile.

use cache::ObjRef;
use tables::close::SessClose;
use tables::tags::Tag;

use super::transmit::Cut;
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
        let arrived = if self.gives_up {
            self.drive_for_client(transport, obj.headers()).await
        } else {
            Some(self.drive(transport, obj.headers()).await)
        };
        if lends {
            self.mark("ReqBody");
        }
        self.mark("Fetch");
        let Some(arrived) = arrived else {
            // Nobody else wants it: the fetch finds that out from its objcore.
            self.engine().main.pass_abort.inc();
            self.log.put(Tag::Error, b"Client gone before its pass was answered");
            self.close = Some(SessClose::RemClose);
            if let Some(nest) = &mut self.nest {
                nest.cut = Some(Cut::GONE);
            }
            return Step::Done;
        };
        if arrived.is_err() {
            self.error = (503, None);
            return Step::Synth;
        }
        Step::Deliver(obj)
    }
}
