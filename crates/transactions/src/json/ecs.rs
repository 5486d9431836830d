// SPDX-License-Identifier: BSD-2-Clause
//! The names of the Elastic Common Schema 8. What it has no name for is below `lacquer`.

use super::VERSION;
use super::writer::Writer;
use crate::time::rfc3339;
use crate::{Transaction, TransactionType, ids};

const SCHEMA: &str = "8.17.0";

pub(super) fn write(w: &mut Writer<'_>, t: &Transaction) {
    w.object(|w| {
        if let Some(begin) = t.begin() {
            w.text("@timestamp", &rfc3339(begin));
        }
        w.child("ecs", |w| w.text("version", SCHEMA));
        w.child("event", |w| event(w, t));
        w.child("http", |w| http(w, t));
        w.child("url", |w| {
            let (path, query) = t.request.url.split_once('?').unwrap_or((&t.request.url, ""));
            w.text("original", &t.request.url);
            w.text("path", path);
            w.text("query", query);
            w.text("domain", t.request.field("host").unwrap_or_default());
            w.text("scheme", if t.is_tls { "https" } else { "http" });
        });
        w.child("user_agent", |w| w.text("original", t.request.field("user-agent").unwrap_or_default()));
        if let Some(peer) = &t.peer {
            w.child(if t.kind == TransactionType::Request { "source" } else { "destination" }, |w| {
                w.text("address", &peer.address);
                w.text("ip", if peer.address.parse::<std::net::IpAddr>().is_ok() { &peer.address } else { "" });
                w.positive("port", peer.port.into());
            });
        }
        let id = ids::of_request(t).own;
        w.child("trace", |w| w.text("id", &format!("{:032x}", id.trace)));
        w.child("span", |w| w.text("id", &format!("{:016x}", id.span)));
        if let Some(error) = t.errors.first() {
            w.child("error", |w| w.text("message", error));
        }
        w.child("lacquer", |w| lacquer(w, t));
    });
}

fn event(w: &mut Writer<'_>, t: &Transaction) {
    w.text("kind", "event");
    w.text("dataset", "lacquer.access");
    w.text("outcome", if t.has_failed() { "failure" } else { "success" });
    if let Some(ns) = t.duration_ns() {
        w.number("duration", ns);
    }
}

fn http(w: &mut Writer<'_>, t: &Transaction) {
    w.text("version", t.request.protocol.strip_prefix("HTTP/").unwrap_or(&t.request.protocol));
    w.child("request", |w| {
        w.text("method", &t.request.method);
        w.text("referrer", t.request.field("referer").unwrap_or_default());
        if let Some(bytes) = t.bytes {
            w.number("bytes", bytes.req_head + bytes.req_body);
            w.child("body", |w| w.number("bytes", bytes.req_body));
        }
    });
    w.child("response", |w| {
        w.positive("status_code", t.response.status.into());
        w.text("mime_type", t.response.field("content-type").unwrap_or_default());
        if let Some(bytes) = t.bytes {
            w.number("bytes", bytes.resp_head + bytes.resp_body);
            w.child("body", |w| w.number("bytes", bytes.resp_body));
        }
    });
}

fn lacquer(w: &mut Writer<'_>, t: &Transaction) {
    w.number("version", VERSION.into());
    w.number("vxid", t.vxid);
    w.text("handling", t.handling.map_or("", |handling| handling.name()));
    w.text("no_hit", t.no_hit.as_deref().unwrap_or_default());
    w.text("vcl", &t.vcl);
    w.texts("notes", &t.notes);
    w.list("caused", &t.children, |w, child| {
        w.item(|w| {
            w.text("type", child.kind.name());
            w.text("reason", child.reason);
            w.number("vxid", child.vxid);
            w.text(
                "backend",
                child.peer.as_ref().filter(|_| child.kind == TransactionType::Fetch).map_or("", |peer| &peer.name),
            );
            w.positive("status_code", child.response.status.into());
            w.text("url", &child.request.url);
            if let Some(ns) = child.duration_ns() {
                w.number("duration", ns);
            }
            w.texts("errors", &child.errors);
        });
    });
    w.list("request_fields", &t.request.fields, |w, (name, value)| {
        w.item(|w| {
            w.text("name", name);
            w.text("value", value);
        });
    });
}
