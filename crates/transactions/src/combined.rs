// SPDX-License-Identifier: BSD-2-Clause
//! A request as web servers write it: the combined format, with times in UTC.

use std::fmt::Write;

use message::date::civil;

use crate::{Transaction, TransactionType};

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

pub fn line(out: &mut String, t: &Transaction) {
    if t.kind != TransactionType::Request {
        return;
    }
    let client = t.peer.as_ref().map_or("-", |peer| &peer.address);
    let bytes = t.bytes.map_or(0, |bytes| bytes.resp_body);
    let _ = write!(out, "{client} - - {} \"", time(t));
    quote(out, &t.request.method);
    let host = t.request.field("host").filter(|_| t.request.url.starts_with('/'));
    let _ = write!(out, " {}://", if t.is_tls { "https" } else { "http" });
    quote(out, host.unwrap_or("localhost"));
    quote(out, &t.request.url);
    out.push(' ');
    quote(out, &t.request.protocol);
    let _ = write!(out, "\" {} {bytes} \"", t.response.status);
    quote(out, t.request.field("referer").unwrap_or("-"));
    out.push_str("\" \"");
    quote(out, t.request.field("user-agent").unwrap_or("-"));
    out.push_str("\"\n");
}

/// The time, like `[14/Nov/2023:22:13:20 +0000]`.
fn time(t: &Transaction) -> String {
    let seconds = t.begin().map_or(0, |at| at.0 / 1_000_000_000);
    let (year, month, day) = civil((seconds / 86_400) as i64);
    let month = MONTHS[month as usize - 1];
    let (hour, minute, second) = (seconds % 86_400 / 3600, seconds % 3600 / 60, seconds % 60);
    format!("[{day:02}/{month}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000]")
}

/// A line stays a line, and what is in quotes stays there.
fn quote(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TransactionMessage, TransactionPeer, TransactionStamp, UnixNs};

    #[test]
    fn a_line_of_the_combined_format() {
        let request = TransactionMessage {
            method: "GET".into(),
            url: "/a?\"\n".into(),
            protocol: "HTTP/1.1".into(),
            fields: vec![("Host".into(), "x".into()), ("User-Agent".into(), "\"quoted\"".into())],
            ..TransactionMessage::default()
        };
        let t = Transaction {
            stamps: vec![TransactionStamp { label: "Start".into(), at: UnixNs(1_700_000_000_000_000_000) }],
            peer: Some(TransactionPeer { address: "192.0.2.1".into(), ..TransactionPeer::default() }),
            request,
            response: TransactionMessage { status: 200, ..TransactionMessage::default() },
            ..Transaction::default()
        };
        let mut out = String::new();
        line(&mut out, &t);
        let expected = "192.0.2.1 - - [14/Nov/2023:22:13:20 +0000] \"GET http://x/a?\\\"\\x0a HTTP/1.1\" 200 0 \"-\" \"\\\"quoted\\\"\"\n";
        assert_eq!(out, expected);
    }
}
