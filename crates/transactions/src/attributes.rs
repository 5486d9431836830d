// SPDX-License-Identifier: BSD-2-Clause
//! What OpenTelemetry's semantic conventions call the facts of a transaction (HTTP spans, version 1.27). What they have no name for
//! begins with `lacquer.`.

use crate::{Transaction, TransactionType};

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AttributeValue {
    Text(String),
    Number(u64),
    Boolean(bool),
}

/// Names and values; header fields aside.
pub fn of(t: &Transaction) -> Vec<(String, AttributeValue)> {
    let mut all = Vec::with_capacity(20);
    let mut add = |name: &str, value: AttributeValue| {
        if value != AttributeValue::Text(String::new()) {
            all.push((name.to_owned(), value));
        }
    };
    let text = |text: &str| AttributeValue::Text(text.to_owned());
    let (path, query) = t.request.url.split_once('?').unwrap_or((&t.request.url, ""));
    add("http.request.method", text(&t.request.method));
    add("url.path", text(path));
    add("url.query", text(query));
    add("network.protocol.name", text("http"));
    add("network.protocol.version", text(t.request.protocol.strip_prefix("HTTP/").unwrap_or_default()));
    if t.response.status > 0 {
        add("http.response.status_code", AttributeValue::Number(t.response.status.into()));
    }
    if t.response.status >= 500 {
        add("error.type", text(&t.response.status.to_string()));
    }
    add("server.address", text(t.request.field("host").unwrap_or_default()));
    let peer = t.peer.clone().unwrap_or_default();
    match t.kind {
        TransactionType::Request => {
            add("url.scheme", text(if t.is_tls { "https" } else { "http" }));
            add("client.address", text(&peer.address));
            add("client.port", AttributeValue::Number(peer.port.into()));
            add("user_agent.original", text(t.request.field("user-agent").unwrap_or_default()));
            add("lacquer.listener", text(&peer.name));
        }
        TransactionType::Fetch => {
            add("network.peer.address", text(&peer.address));
            add("network.peer.port", AttributeValue::Number(peer.port.into()));
            add("lacquer.backend", text(&peer.name));
            add("lacquer.connection.reused", AttributeValue::Boolean(peer.is_reused));
        }
    }
    if let Some(bytes) = t.bytes {
        add("http.request.body.size", AttributeValue::Number(bytes.req_body));
        add("http.response.body.size", AttributeValue::Number(bytes.resp_body));
    }
    add("lacquer.vxid", AttributeValue::Number(t.vxid));
    add("lacquer.reason", text(t.reason));
    add("lacquer.handling", text(t.handling.map_or("", |handling| handling.name())));
    add("lacquer.no_hit", text(t.no_hit.as_deref().unwrap_or_default()));
    add("lacquer.vcl", text(&t.vcl));
    all
}
