// SPDX-License-Identifier: BSD-2-Clause
//! The places of transactions in a trace (W3C Trace Context): as the server has told origins where it makes them, otherwise such as
//! it would have.

use message::trace_context::TraceContext;

use crate::Transaction;

/// A transaction's own span, and what caused it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanId {
    pub own: TraceContext,
    /// The span that caused it; 0: nothing did.
    pub parent: u64,
}

/// The number of a client's request.
pub fn of_request(request: &Transaction) -> SpanId {
    let contexts = || request.trace_parents.iter().filter_map(|value| TraceContext::parse(value.as_bytes()));
    let vxid = request.vxid;
    // What the client has sent causes it, unless the server has made it of nothing.
    let root = contexts().next_back().map(|last| TraceContext { span: 0, ..last });
    if let Some(own) = contexts().next_back().filter(|last| root.is_some_and(|root| root.child(vxid) == *last)) {
        return SpanId { own, parent: 0 };
    }
    let cause = contexts().next().unwrap_or_else(|| TraceContext::root(made_up(request), false));
    SpanId { own: cause.child(vxid), parent: cause.span }
}

pub fn of_child(child: &Transaction, parent: SpanId) -> SpanId {
    SpanId { own: parent.own.child(child.vxid), parent: parent.own.span }
}

/// A trace's number where nobody has given one: of when a request began, and its own.
fn made_up(request: &Transaction) -> u128 {
    let begin = request.begin().map_or(0, |at| at.0);
    let seed = TraceContext { trace: u128::from(begin) << 32 | u128::from(request.vxid), span: begin, flags: 0 };
    u128::from(seed.child(1).span) << 64 | u128::from(seed.child(2).span)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn request(trace_parents: &[String]) -> Transaction {
        Transaction { vxid: 12, trace_parents: trace_parents.to_vec(), ..Transaction::default() }
    }

    #[test]
    fn a_client_has_begun_the_trace() {
        let client = TraceContext::parse(CLIENT.as_bytes()).expect("a good one");
        // Whether the server tells origins its own span or not, it is the same.
        for values in [vec![CLIENT.to_owned()], vec![CLIENT.to_owned(), client.child(12).to_string()]] {
            let id = of_request(&request(&values));
            assert_eq!((id.own, id.parent), (client.child(12), client.span));
        }
    }

    #[test]
    fn the_server_has_begun_the_trace() {
        let own = TraceContext::root(99, true).child(12);
        let id = of_request(&request(&[own.to_string()]));
        assert_eq!((id.own, id.parent), (own, 0));
        // A client may have sent what is none.
        let id = of_request(&request(&["nonsense".to_owned(), own.to_string()]));
        assert_eq!((id.own, id.parent), (own, 0));
    }

    #[test]
    fn nobody_has_begun_one() {
        let id = of_request(&request(&[]));
        assert!(id.own.trace != 0 && id.own.span != 0 && id.parent == 0 && !id.own.is_sampled());
        let child = of_child(&Transaction { vxid: 13, ..Transaction::default() }, id);
        assert_eq!((child.own.trace, child.parent), (id.own.trace, id.own.span));
        assert_ne!(child.own.span, id.own.span);
    }
}
