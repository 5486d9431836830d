// SPDX-License-Identifier: BSD-2-Clause
//! A pass: `vcl_pass`, and a fetch whose object no lookup finds.

use tables::vclsubs::PassAction;

use super::{Req, ReqStep};
use crate::bereq::{self, FetchMode};
use crate::transport::Transport;

impl Req {
    pub(super) async fn pass(&mut self, transport: &mut dyn Transport) -> ReqStep {
        if self.lacks_memory() {
            return self.shed();
        }
        match self.run_vcl(transport).await {
            PassAction::Fetch => {
                self.client.gives_up = matches!(self.ask.head.method(), b"GET" | b"HEAD");
                let turn = match self.take_turn(None, transport).await {
                    Ok(turn) => turn,
                    Err(step) => return step,
                };
                self.engine().main.s_pass.tally();
                let busy = Box::new(self.engine().cache.private());
                self.send_hints(None, transport);
                ReqStep::Fetch(bereq::start(self, busy, None, FetchMode::Pass, turn))
            }
            PassAction::Synth(status) => {
                self.note_vcl_refusal();
                self.synth_by_vcl(status)
            }
            PassAction::Restart => ReqStep::Restart,
            PassAction::Fail => ReqStep::VclFail,
        }
    }
}
