// SPDX-License-Identifier: BSD-2-Clause
//! From a group's records to [`Transaction`]s.

use std::collections::HashMap;

use logq::record::value_of;
use logq::{BeginReason, Txn, TxnType, records};
use tables::Tag;

use crate::view::{HeaderLines, PeerView, RequestLine, Stamp, StatusLine, View};
use crate::{Transaction, TransactionMessage, TransactionPeer, TransactionStamp, TransactionType, VclCall};

/// Levels of a tree at most: whoever walks it calls itself. A deeper transaction becomes a sibling of its parent.
const MAX_DEPTH: usize = 64;

/// The trees of a group, in which a parent stands before its children (level by level, as [`logq::group`] gives it out):
/// each transaction below the one that caused it, a restart beside the request that it continues. A transaction whose
/// parent is not in the group is a root. Sessions and records alone are left out.
pub fn trees(group: &[Txn<'_>]) -> Vec<Transaction> {
    struct Node {
        made: Transaction,
        /// The index of the node above.
        above: Option<usize>,
        depth: usize,
    }
    let mut nodes: Vec<Node> = Vec::with_capacity(group.len());
    let mut by_vxid: HashMap<u64, usize> = HashMap::with_capacity(group.len());
    for txn in group {
        let Some(made) = transaction(txn) else { continue };
        let parent = by_vxid.get(&txn.parent).and_then(|at| Some((*at, nodes.get(*at)?)));
        let above = match parent {
            Some((_, parent)) if txn.reason == BeginReason::Restart || parent.depth == MAX_DEPTH => parent.above,
            parent => parent.map(|(at, _)| at),
        };
        let depth = above.and_then(|at| nodes.get(at)).map_or(1, |node| node.depth + 1);
        by_vxid.insert(txn.vxid, nodes.len());
        nodes.push(Node { made, above, depth });
    }
    let mut roots = Vec::new();
    // From the last to the first, so that a node is whole when it moves below another.
    while let Some(Node { mut made, above, .. }) = nodes.pop() {
        made.children.reverse();
        match above.and_then(|at| nodes.get_mut(at)) {
            Some(node) => node.made.children.push(made),
            None => roots.push(made),
        }
    }
    roots.reverse();
    roots
}

/// The transaction that records tell. `None`: it is neither a request nor a fetch.
fn transaction(txn: &Txn<'_>) -> Option<Transaction> {
    let kind = match txn.kind {
        TxnType::Req => TransactionType::Request,
        TxnType::Bereq => TransactionType::Fetch,
        TxnType::Unknown | TxnType::Sess | TxnType::Raw => return None,
    };
    let mut view = View::with_headers(txn);
    let mut made = Transaction { vxid: txn.vxid, kind, reason: txn.reason.name(), ..Default::default() };
    for rec in records(txn.records) {
        view.add(&rec);
        match rec.tag {
            Tag::VclCall => made.calls.push(VclCall { sub: lower(rec.text()), action: String::new() }),
            Tag::VclReturn => {
                if let Some(call) = made.calls.last_mut() {
                    call.action = lower(rec.text());
                }
            }
            Tag::VclLog => made.notes.push(text(rec.text())),
            Tag::FetchError | Tag::Error | Tag::VclError => made.errors.push(text(rec.text())),
            // A client's request counts with its records from before VCL ran.
            Tag::ReqHeader if made.calls.is_empty() => made.trace_parents.extend(trace_parent(rec.text())),
            Tag::BereqHeader => made.trace_parents.extend(trace_parent(rec.text())),
            _ => {}
        }
    }
    // In a group of one the parent is known from its own words only.
    made.parent = Txn::read(txn.records).map_or(txn.parent, |own| own.parent);
    made.stamps = view.stamps.iter().filter_map(stamp_of).collect();
    made.peer = view.peer().map(peer);
    made.is_tls = view.scheme() == b"https";
    made.request = request(view.request_line(), &view.request_headers);
    made.response = response(&view.response, &view.response_headers);
    made.handling = view.handling;
    made.no_hit = view.no_hit.map(text);
    made.bytes = view.bytes();
    made.vcl = text(view.vcl());
    Some(made)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lower(bytes: &[u8]) -> String {
    text(bytes).to_ascii_lowercase()
}

fn trace_parent(line: &[u8]) -> Option<String> {
    value_of(line, b"traceparent").map(text)
}

fn stamp_of(stamp: &Stamp<'_>) -> Option<TransactionStamp> {
    Some(TransactionStamp { label: text(stamp.label()), at: stamp.at()? })
}

fn peer(peer: PeerView<'_>) -> TransactionPeer {
    TransactionPeer { address: text(peer.address), port: peer.port, name: text(peer.name), is_reused: peer.is_reused }
}

fn request(line: &RequestLine<'_>, headers: &HeaderLines<'_>) -> TransactionMessage {
    let of = |part: Option<&[u8]>| text(part.unwrap_or_default());
    TransactionMessage {
        method: of(line.method),
        url: of(line.url),
        protocol: of(line.protocol),
        fields: fields(headers),
        ..TransactionMessage::default()
    }
}

fn response(line: &StatusLine<'_>, headers: &HeaderLines<'_>) -> TransactionMessage {
    let of = |part: Option<&[u8]>| text(part.unwrap_or_default());
    TransactionMessage {
        status: line.status(),
        reason: of(line.reason),
        protocol: of(line.protocol),
        fields: fields(headers),
        ..TransactionMessage::default()
    }
}

fn fields(headers: &HeaderLines<'_>) -> Vec<(String, String)> {
    headers.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[cfg(test)]
mod tests;
