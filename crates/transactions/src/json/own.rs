// SPDX-License-Identifier: BSD-2-Clause
//! Our own names: a request, and within it the fetches, restarts and fragments that it caused.

use super::VERSION;
use super::writer::Writer;
use crate::time::rfc3339;
use crate::{Transaction, TransactionMessage, TransactionPeer, TransactionType};

pub(super) fn write(w: &mut Writer<'_>, transaction: &Transaction) {
    w.object(|w| {
        w.number("version", VERSION.into());
        fields(w, transaction);
    });
}

fn fields(w: &mut Writer<'_>, t: &Transaction) {
    w.text("type", t.kind.name());
    w.text("reason", t.reason);
    w.number("vxid", t.vxid);
    w.positive("parent", t.parent);
    if let Some(begin) = t.begin() {
        w.text("time", &rfc3339(begin));
    }
    if let Some(ns) = t.duration_ns() {
        w.seconds("duration", ns);
    }
    w.text("handling", t.handling.map_or("", |handling| handling.name()));
    w.text("no_hit", t.no_hit.as_deref().unwrap_or_default());
    w.text("vcl", &t.vcl);
    if let Some(peer) = &t.peer {
        w.child(if t.kind == TransactionType::Request { "client" } else { "backend" }, |w| write_peer(w, t, peer));
    }
    w.child("request", |w| message(w, &t.request));
    if t.response.status > 0 {
        w.child("response", |w| message(w, &t.response));
    }
    if let Some(bytes) = t.bytes {
        w.child("bytes", |w| {
            w.number("request_head", bytes.req_head);
            w.number("request_body", bytes.req_body);
            w.number("response_head", bytes.resp_head);
            w.number("response_body", bytes.resp_body);
        });
    }
    w.list("steps", &t.stamps, |w, stamp| {
        w.item(|w| {
            w.text("name", &stamp.label);
            w.seconds("at", stamp.at.0.saturating_sub(t.begin().unwrap_or_default().0));
        });
    });
    w.list("calls", &t.calls, |w, call| {
        w.item(|w| {
            w.text("sub", &call.sub);
            w.text("return", &call.action);
        });
    });
    w.texts("notes", &t.notes);
    w.texts("errors", &t.errors);
    w.list("caused", &t.children, |w, child| w.item(|w| fields(w, child)));
}

fn write_peer(w: &mut Writer<'_>, t: &Transaction, peer: &TransactionPeer) {
    w.text("address", &peer.address);
    w.positive("port", peer.port.into());
    match t.kind {
        TransactionType::Request => {
            w.text("listener", &peer.name);
            w.boolean("tls", t.is_tls);
        }
        TransactionType::Fetch => {
            w.text("name", &peer.name);
            w.boolean("reused", peer.is_reused);
        }
    }
}

fn message(w: &mut Writer<'_>, message: &TransactionMessage) {
    w.text("method", &message.method);
    w.text("url", &message.url);
    w.positive("status", message.status.into());
    w.text("reason", &message.reason);
    w.text("protocol", &message.protocol);
    w.list("fields", &message.fields, |w, (name, value)| {
        w.item(|w| {
            w.text("name", name);
            w.text("value", value);
        });
    });
}
