// SPDX-License-Identifier: BSD-2-Clause
//! A pass: `vcl_pass`, and a fetch whose object no lookup finds.

use vrt::{Action, Method};

use super::{Req, ReqStep};
use crate::bereq::{self, FetchMode};
use crate::transport::Transport;

impl Req {
    pub(super) async fn pass(&mut self, transport: &mut dyn Transport) -> ReqStep {
        if self.lacks_memory() {
            return self.shed();
        }
        match self.vcl(Method::Pass, transport).await {
            Action::Fetch => {
                self.gives_up = matches!(self.head.method(), b"GET" | b"HEAD");
                let slot = match self.take_place_and_slot(transport).await {
                    Ok(slot) => slot,
                    Err(step) => return step,
                };
                self.engine().main.s_pass.tally();
                let busy = self.engine().cache.private();
                self.send_hints(None, transport);
                ReqStep::Fetch(bereq::start(self, busy, None, FetchMode::Pass, slot))
            }
            other => Self::common_step(other),
        }
    }
}
