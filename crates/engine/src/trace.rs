// SPDX-License-Identifier: BSD-2-Clause
//! The parameter `traceparent`: requests continue their client's trace or begin one, and origins receive it (W3C Trace
//! Context). A transaction's number in its trace follows from its vxid, so that readers of the log calculate the same
//! one.

use std::hash::{BuildHasher, RandomState};

use base::Vxid;
use message::Head;
use message::trace_context::{FIELD, STATE, TraceContext, is_state};
use shm::vsl::TxnLog;

use crate::httplog::HeadTags;

thread_local! {
    static SEED: RandomState = RandomState::new();
}

/// Sets the trace header for what transaction `vxid` causes. Continues the trace that the head names, or, with `begin`,
/// begins one, of which this share is kept. Several lines name none. A `tracestate` of another trace, or one that isn't
/// valid, goes (W3C Trace Context, 3.3 and 4.3). Returns `false` if there was no room.
pub fn put(head: &mut Head, log: &mut TxnLog, kind: &HeadTags, vxid: Vxid, begin: Option<f64>) -> bool {
    let told = head.only(FIELD).and_then(TraceContext::parse);
    let cause = match (told, begin) {
        (Some(cause), _) => {
            if !is_state(head.get_all(STATE.as_bytes())) {
                kind.unset(head, log, STATE);
            }
            cause
        }
        (None, Some(ratio)) => {
            kind.unset(head, log, STATE);
            fresh(vxid, ratio)
        }
        (None, None) => return true,
    };
    let own = cause.child(vxid.log_id()).to_string();
    kind.force(head, log, FIELD, own.as_bytes()).is_ok()
}

fn fresh(vxid: Vxid, ratio: f64) -> TraceContext {
    let draw = |half: u8| SEED.with(|seed| seed.hash_one((vxid.log_id(), half)));
    let (high, low) = (draw(0), draw(1));
    let is_kept = ratio >= 1.0 || (low as f64) < ratio * u64::MAX as f64;
    TraceContext::root(u128::from(high) << 64 | u128::from(low), is_kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::VxidSource;

    #[test]
    fn traces_differ_and_a_part_is_kept() {
        let source = VxidSource::new(1 << 30);
        let drawn: Vec<TraceContext> = (0..1000).map(|_| fresh(source.take(), 0.25)).collect();
        let kept = drawn.iter().filter(|context| context.is_sampled()).count();
        assert!((150..350).contains(&kept), "{kept}");
        let mut traces: Vec<u128> = drawn.iter().map(|context| context.trace).collect();
        traces.sort_unstable();
        traces.dedup();
        assert_eq!(traces.len(), 1000);
        assert!(!fresh(source.take(), 0.0).is_sampled() && fresh(source.take(), 1.0).is_sampled());
    }
}
