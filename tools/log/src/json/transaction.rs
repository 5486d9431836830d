// SPDX-License-Identifier: BSD-2-Clause
//! A transaction as an object of `varnishlog-json`: request and response as the peer, client or backend, sees them, without the changes that VCL makes
//! before or behind.

use logq::{Rec, Select, Txn, TxnType, records};
use tables::Tag;

use super::value::{JsonObject, JsonValue};

/// The object of a transaction. `None` for one that is no request and no backend request.
pub fn object(select: &Select, txn: &Txn<'_>) -> Option<JsonObject> {
    let side = match txn.kind {
        TxnType::Req => "client",
        TxnType::Bereq => "backend",
        TxnType::Unknown | TxnType::Sess | TxnType::Raw => return None,
    };
    let mut made = Transaction::new(side);
    records(txn.records).filter(|rec| select.shows(rec)).for_each(|rec| made.add(&rec));
    Some(made.finish())
}

#[derive(Default)]
struct Transaction {
    is_client: bool,
    all: JsonObject,
    req: Message,
    resp: Message,
    timeline: Vec<JsonValue>,
    handling: Handling,
}

/// A request or a response.
#[derive(Default)]
struct Message {
    /// Start line and sizes.
    members: JsonObject,
    /// Header lines.
    lines: Vec<Vec<u8>>,
    /// True once VCL runs: the records that follow show its changes, not the peer's bytes.
    is_done: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Handling {
    #[default]
    Incomplete,
    Known(&'static str),
    /// No later step changes it.
    GivenUp(&'static str),
}

impl Transaction {
    fn new(side: &str) -> Transaction {
        let mut new = Transaction { is_client: side == "client", ..Transaction::default() };
        new.all.set("side", JsonValue::text(side.as_bytes()));
        // Placeholders keep the order of the names; the values come at the end.
        for name in ["req", "resp", "timeline"] {
            new.all.set(name, JsonValue::Bool(false));
        }
        new
    }

    fn add(&mut self, rec: &Rec<'_>) {
        let text = rec.text();
        match rec.tag {
            Tag::Begin => self.all.set("id", JsonValue::Text(rec.vxid.to_string())),
            Tag::VclCall => self.call(text),
            Tag::VclReturn => self.decide(text),
            Tag::Hit => self.handle(if words(text).count() >= HIT_OF_FETCH { "streaming-hit" } else { "hit" }),
            Tag::ReqMethod | Tag::BereqMethod => self.req.set("method", text),
            Tag::ReqProtocol | Tag::BereqProtocol => self.req.set("proto", text),
            Tag::ReqUrl | Tag::BereqUrl => self.req.set("url", text),
            Tag::RespReason | Tag::BerespReason => self.resp.set("reason", text),
            Tag::RespProtocol | Tag::BerespProtocol => self.resp.set("proto", text),
            Tag::RespStatus | Tag::BerespStatus if !self.resp.is_done => {
                self.resp.members.set("status", JsonValue::number(text));
            }
            Tag::ReqHeader | Tag::BereqHeader => self.req.line(text),
            Tag::RespHeader | Tag::BerespHeader => self.resp.line(text),
            Tag::ReqUnset | Tag::BereqUnset => self.req.unset(text),
            Tag::RespUnset | Tag::BerespUnset => self.resp.unset(text),
            Tag::ReqAcct | Tag::BereqAcct => self.bytes(text),
            Tag::VclUse => self.all.set("vcl", JsonValue::text(text)),
            Tag::Storage => self.all.set("storage", JsonValue::text(text)),
            Tag::VclLog => self.all.push("logs", JsonValue::text(text)),
            Tag::Error | Tag::FetchError | Tag::VclError => self.all.push("errors", JsonValue::text(text)),
            Tag::Link => self.all.push("links", members(text, &["type", "id", "reason"], JsonValue::text)),
            Tag::Timestamp => self.stamp(text),
            Tag::BackendOpen => self.backend(text),
            Tag::ReqStart => self.client(text),
            Tag::End if text == b"synth" => self.all.set("error", JsonValue::text(b"truncated log")),
            _ => {}
        }
    }

    fn call(&mut self, sub: &[u8]) {
        let is_answered = matches!(sub, b"BACKEND_RESPONSE" | b"BACKEND_ERROR");
        if self.is_client {
            self.req.is_done = true;
        } else if is_answered {
            self.resp.is_done = true;
        }
        match sub {
            b"MISS" => self.handle("miss"),
            b"PASS" => self.handle("pass"),
            b"PIPE" => self.handle("pipe"),
            b"SYNTH" => self.handle("synth"),
            b"BACKEND_RESPONSE" => self.handle("fetch"),
            b"BACKEND_ERROR" => self.handle("error"),
            _ => {}
        }
    }

    fn decide(&mut self, action: &[u8]) {
        if !self.is_client && matches!(action, b"fetch" | b"error") {
            self.req.is_done = true;
        }
        match action {
            b"fail" => self.handling = Handling::GivenUp("fail"),
            b"abandon" => self.handling = Handling::GivenUp("abandon"),
            _ => {}
        }
    }

    fn handle(&mut self, how: &'static str) {
        if !matches!(self.handling, Handling::GivenUp(_)) {
            self.handling = Handling::Known(how);
        }
    }

    fn bytes(&mut self, text: &[u8]) {
        let all: Vec<&[u8]> = words(text).collect();
        if let [req_head, req_body, _, resp_head, resp_body, _] = all[..] {
            self.req.bytes(req_head, req_body);
            self.resp.bytes(resp_head, resp_body);
        }
    }

    fn stamp(&mut self, text: &[u8]) {
        let mut words = words(text);
        let name = words.next().unwrap_or_default();
        let mut stamp = JsonObject::default();
        stamp.set("name", JsonValue::text(name.strip_suffix(b":").unwrap_or(name)));
        stamp.set("timestamp", JsonValue::number(words.next().unwrap_or_default()));
        self.timeline.push(JsonValue::Object(stamp));
    }

    fn backend(&mut self, text: &[u8]) {
        let mut words = words(text).skip(1);
        let mut next = || words.next().unwrap_or_default();
        let mut backend = JsonObject::default();
        backend.set("name", JsonValue::text(backend_name(next())));
        backend.set("rAddr", JsonValue::text(next()));
        backend.set("rPort", JsonValue::number(next()));
        let is_reused = (next(), next(), next()).2 == b"reuse";
        backend.set("connReused", JsonValue::Bool(is_reused));
        self.all.set("backend", JsonValue::Object(backend));
    }

    fn client(&mut self, text: &[u8]) {
        let mut words = words(text);
        let mut next = || words.next().unwrap_or_default();
        let mut client = JsonObject::default();
        client.set("rAddr", JsonValue::text(next()));
        client.set("rPort", JsonValue::number(next()));
        client.set("sock", JsonValue::text(next()));
        self.all.set("client", JsonValue::Object(client));
    }

    fn finish(self) -> JsonObject {
        let mut all = self.all;
        all.set("req", JsonValue::Object(self.req.finish(false)));
        all.set("resp", JsonValue::Object(self.resp.finish(true)));
        all.set("timeline", JsonValue::List(self.timeline));
        let (Handling::Known(handling) | Handling::GivenUp(handling)) = self.handling else {
            all.set("handling", JsonValue::text(b"incomplete"));
            return all;
        };
        all.set("handling", JsonValue::text(handling.as_bytes()));
        all
    }
}

/// Words of a `Hit` whose object was still being fetched, and had a length: VXID, three lifetimes, bytes so far, bytes in all.
const HIT_OF_FETCH: usize = 6;

impl Message {
    fn set(&mut self, name: &str, text: &[u8]) {
        if !self.is_done {
            self.members.set(name, JsonValue::text(text));
        }
    }

    fn bytes(&mut self, head: &[u8], body: &[u8]) {
        self.members.set("hdrBytes", JsonValue::number(head));
        self.members.set("bodyBytes", JsonValue::number(body));
    }

    fn line(&mut self, line: &[u8]) {
        if !self.is_done {
            self.lines.push(line.to_vec());
        }
    }

    fn unset(&mut self, line: &[u8]) {
        if !self.is_done
            && let Some(at) = self.lines.iter().position(|own| own.eq_ignore_ascii_case(line))
        {
            self.lines.remove(at);
        }
    }

    /// The headers come first, Set-Cookie of a response behind all others. Values of several lines of one name are joined.
    fn finish(self, is_response: bool) -> JsonObject {
        let (mut headers, mut cookies) = (JsonObject::default(), Vec::new());
        for line in &self.lines {
            let (name, value) = split_header(line);
            if is_response && name == "set-cookie" {
                cookies.push(JsonValue::text(value));
                continue;
            }
            let mut text = String::from_utf8_lossy(value).into_owned();
            if let Some(JsonValue::Text(before)) = headers.get(&name) {
                let separator = if name == "cookie" { ';' } else { ',' };
                text = format!("{before}{separator}{text}");
            }
            headers.set(&name, JsonValue::Text(text));
        }
        let mut all = JsonObject::default();
        all.set("headers", JsonValue::Object(headers));
        all.append(self.members);
        cookies.into_iter().for_each(|cookie| all.push("set-cookie", cookie));
        all
    }
}

/// Name, in lower case, and value of a header line.
fn split_header(line: &[u8]) -> (String, &[u8]) {
    let line = line.strip_prefix(b":").unwrap_or(line);
    let end = line.iter().position(|b| *b == b':').unwrap_or(line.len());
    let value = line.get(end + 1..).unwrap_or_default().trim_ascii_start();
    (String::from_utf8_lossy(&line[..end]).to_ascii_lowercase(), value)
}

/// The name without that of the VCL. Backends that a director makes are named by it.
fn backend_name(full: &[u8]) -> &[u8] {
    let Some(point) = full.iter().position(|b| *b == b'.') else { return full };
    let name = &full[point + 1..];
    if name.starts_with(b"goto.") {
        return b"goto";
    }
    match name.strip_prefix(b"udo.").or_else(|| name.strip_prefix(b"s3.")) {
        Some(director) => director.split(|b| *b == b'.').next().unwrap_or_default(),
        None => name,
    }
}

fn members(text: &[u8], names: &[&str], value: impl Fn(&[u8]) -> JsonValue) -> JsonValue {
    let mut all = JsonObject::default();
    names.iter().zip(words(text)).for_each(|(name, word)| all.set(name, value(word)));
    JsonValue::Object(all)
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}
