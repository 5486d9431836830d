// SPDX-License-Identifier: BSD-2-Clause
//! Messages on a stream: JSON-RPC 2.0 with headers, in the framing of the Language Server Protocol.

use std::io::{self, BufRead, Read, Write};

use serde_json::{Value, json};

const MAX_HEADER: u64 = 8 << 10;
/// Maximum length of a message, in bytes.
const MAX_MESSAGE: usize = 256 << 20;

/// An error response. `code` is the protocol's number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub code: i32,
    pub reason: String,
}

pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INTERNAL_ERROR: i32 = -32603;
pub(super) const NOT_INITIALIZED: i32 = -32002;
pub(super) const REQUEST_FAILED: i32 = -32803;

impl Refusal {
    pub fn new(code: i32, reason: impl Into<String>) -> Refusal {
        Refusal { code, reason: reason.into() }
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// The answer to a request of ours. We send none.
    Response,
    /// An invalid message: the id that it names, and the error.
    Bad(Value, Refusal),
}

/// Reads the next message. `None` at the end of the stream.
///
/// # Errors
/// No further message can be found.
pub(super) fn read(input: &mut dyn BufRead) -> Result<Option<Vec<u8>>, String> {
    let mut length = None;
    let mut line = Vec::new();
    loop {
        line.clear();
        input.take(MAX_HEADER).read_until(b'\n', &mut line).map_err(|e| e.to_string())?;
        if line.is_empty() {
            return if length.is_none() { Ok(None) } else { Err("the stream ends in a header".to_owned()) };
        }
        let text = line.trim_ascii();
        match (text, length) {
            (b"", None) => continue,
            (b"", Some(_)) => break,
            _ => {}
        }
        let shown = || String::from_utf8_lossy(&text[..text.len().min(80)]).into_owned();
        let colon = text.iter().position(|c| *c == b':').ok_or_else(|| format!("no header: {:?}", shown()))?;
        if text[..colon].eq_ignore_ascii_case(b"Content-Length") {
            let number = std::str::from_utf8(text[colon + 1..].trim_ascii()).ok().and_then(|n| n.parse().ok());
            length = Some(number.filter(|n| *n <= MAX_MESSAGE).ok_or_else(|| format!("no length: {:?}", shown()))?);
        }
    }
    let length = length.unwrap_or(0);
    let mut body = Vec::new();
    input.take(length as u64).read_to_end(&mut body).map_err(|e| e.to_string())?;
    if body.len() < length { Err("the stream ends in a message".to_owned()) } else { Ok(Some(body)) }
}

pub(super) fn parse(body: &[u8]) -> Incoming {
    let message: Value = match serde_json::from_slice(body) {
        Ok(message) => message,
        Err(reason) => return Incoming::Bad(Value::Null, Refusal::new(PARSE_ERROR, reason.to_string())),
    };
    let id = message.get("id").cloned();
    let Some(method) = message.get("method") else {
        return match id {
            Some(_) if message.get("result").or(message.get("error")).is_some() => Incoming::Response,
            id => Incoming::Bad(id.unwrap_or_default(), Refusal::new(INVALID_REQUEST, "a method is missing")),
        };
    };
    let (Some(method), true) = (method.as_str(), id.as_ref().is_none_or(|id| id.is_number() || id.is_string())) else {
        return Incoming::Bad(id.unwrap_or_default(), Refusal::new(INVALID_REQUEST, "this is no request"));
    };
    let (method, params) = (method.to_owned(), message.get("params").cloned().unwrap_or_default());
    match id {
        Some(id) => Incoming::Request { id, method, params },
        None => Incoming::Notification { method, params },
    }
}

pub(super) fn write(out: &mut dyn Write, message: &Value) -> io::Result<()> {
    let body = message.to_string();
    write!(out, "Content-Length: {}\r\n\r\n{body}", body.len())?;
    out.flush()
}

pub(super) fn answer(id: &Value, result: Result<Value, Refusal>) -> Value {
    match result {
        Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        Err(Refusal { code, reason }) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": reason } })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut bytes: &[u8]) -> (Vec<String>, Option<String>) {
        let mut found = Vec::new();
        loop {
            match read(&mut bytes) {
                Ok(Some(body)) => found.push(String::from_utf8(body).unwrap()),
                Ok(None) => return (found, None),
                Err(reason) => return (found, Some(reason)),
            }
        }
    }

    #[test]
    fn messages_follow_each_other() {
        let stream = b"Content-Length: 2\r\n\r\n{}content-length:3\nContent-Type: x; charset=utf-8\n\n[1]\r\n\r\n";
        assert_eq!(all(stream), (vec!["{}".to_owned(), "[1]".to_owned()], None));
    }

    #[test]
    fn where_no_message_is_found_it_ends() {
        let reason = |stream: &[u8]| all(stream).1.unwrap();
        assert_eq!(reason(b"Content-Length: 9\r\n\r\n{}"), "the stream ends in a message");
        assert_eq!(reason(b"Content-Length: 9\r\n"), "the stream ends in a header");
        assert_eq!(reason(b"Content-Length: -1\r\n\r\n"), "no length: \"Content-Length: -1\"");
        assert_eq!(
            reason(b"Content-Length: 999999999999999999\r\n\r\n"),
            "no length: \"Content-Length: 999999999999999999\""
        );
        assert_eq!(reason(b"{\"id\"}\r\n"), "no header: \"{\\\"id\\\"}\"");
        assert_eq!(reason(&[b'x'; 1 << 20]), format!("no header: {:?}", "x".repeat(80)));
    }

    #[test]
    fn what_messages_are() {
        let bad = |text: &str| match parse(text.as_bytes()) {
            Incoming::Bad(id, refusal) => (id, refusal.code),
            other => panic!("{other:?}"),
        };
        assert_eq!(bad("{"), (Value::Null, PARSE_ERROR));
        assert_eq!(bad("\u{0}"), (Value::Null, PARSE_ERROR));
        assert_eq!(bad("[]"), (Value::Null, INVALID_REQUEST));
        assert_eq!(bad("{\"id\":7}"), (json!(7), INVALID_REQUEST));
        assert_eq!(bad("{\"id\":[],\"method\":\"a\"}"), (json!([]), INVALID_REQUEST));
        assert_eq!(parse(b"{\"id\":1,\"result\":null}"), Incoming::Response);
        let note = Incoming::Notification { method: "a".to_owned(), params: Value::Null };
        assert_eq!(parse(b"{\"method\":\"a\"}"), note);
    }
}
