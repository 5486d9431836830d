// SPDX-License-Identifier: BSD-2-Clause
//! What the log says of a request, as a value: a client's request with its fetches, its restarts and its ESI fragments.
//!
//! [`View`] reads the records of one transaction without copies; all tools that read them use it. [`trees`] makes [`Transaction`]s of a
//! group of records (`varnishlog -g`); [`json`] writes them as lines, [`ids`] gives them the numbers of a trace. All of it comes from
//! peers and may be nonsense: it costs a value, never a crash. Nothing is read or sent here.

pub mod attributes;
mod build;
pub mod combined;
pub mod ids;
pub mod json;
mod time;
mod view;

pub use build::trees;
pub use logq::Handling;
pub use view::{ByteCounts, HeaderLines, PeerView, RequestLine, Stamp, StatusLine, View};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TransactionType {
    /// A request, of a client or of a page that includes it.
    #[default]
    Request,
    Fetch,
}

impl TransactionType {
    pub const fn name(self) -> &'static str {
        match self {
            TransactionType::Request => "request",
            TransactionType::Fetch => "fetch",
        }
    }
}

/// Nanoseconds since 1970 in UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct UnixNs(pub u64);

impl UnixNs {
    /// `seconds` with up to nine digits behind the point.
    pub fn parse(seconds: &str) -> Option<UnixNs> {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let mut digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
        let below =
            digits.try_fold(0u64, |n, digit| digit.is_ascii_digit().then(|| n * 10 + u64::from(digit - b'0')))?;
        whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(below).map(UnixNs)
    }
}

/// A record `Timestamp` of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TransactionStamp {
    /// The step that has ended: `Start`, `Process`, or VCL's own.
    pub label: String,
    pub at: UnixNs,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionMessage {
    pub method: String,
    pub url: String,
    /// The status of a response, 0 where there is none.
    pub status: u16,
    pub reason: String,
    pub protocol: String,
    /// Name and value, in order.
    pub fields: Vec<(String, String)>,
}

impl TransactionMessage {
    /// The last value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().rev().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// The peer at the other end: the client of a request, the backend of a fetch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionPeer {
    /// The address, or a unix socket's path.
    pub address: String,
    /// 0 where it has none.
    pub port: u16,
    /// The listener that it came by, or the backend's name in VCL.
    pub name: String,
    pub is_reused: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VclCall {
    /// Without `vcl_`, in lower case.
    pub sub: String,
    /// The word in lower case; empty while it hasn't returned.
    pub action: String,
}

/// A transaction with those that it caused.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transaction {
    pub vxid: u64,
    pub kind: TransactionType,
    /// The reason in `Begin`: `rxreq`, `esi`, `restart`, `fetch`, `bgfetch`, `pass`, `pipe`.
    pub reason: &'static str,
    /// The transaction that caused it: of a client's request its session. 0 where the log doesn't say.
    pub parent: u64,
    pub stamps: Vec<TransactionStamp>,
    pub peer: Option<TransactionPeer>,
    pub is_tls: bool,
    /// The request: of a client as it came in, of a backend as it was sent.
    pub request: TransactionMessage,
    /// The response: to a client as it was sent, of a backend as it came in.
    pub response: TransactionMessage,
    /// The place that the answer came from, once VCL has decided.
    pub handling: Option<Handling>,
    /// The reason why it was no hit (`log_no_hit`).
    pub no_hit: Option<String>,
    /// The values of `traceparent` that the request has had before VCL ran, or the fetch when it was sent, in order.
    pub trace_parents: Vec<String>,
    /// Bytes that were sent and received, once it has ended.
    pub bytes: Option<ByteCounts>,
    pub vcl: String,
    pub calls: Vec<VclCall>,
    /// Texts that `std.log()` has written.
    pub notes: Vec<String>,
    /// Errors that were logged: FetchError, Error, VCL_Error.
    pub errors: Vec<String>,
    pub children: Vec<Transaction>,
}

impl Transaction {
    pub fn begin(&self) -> Option<UnixNs> {
        self.stamps.first().map(|stamp| stamp.at)
    }

    pub fn end(&self) -> Option<UnixNs> {
        self.stamps.iter().map(|stamp| stamp.at).max()
    }

    pub fn duration_ns(&self) -> Option<u64> {
        Some(self.end()?.0.saturating_sub(self.begin()?.0))
    }

    pub fn stamp(&self, label: &str) -> Option<UnixNs> {
        self.stamps.iter().find(|stamp| stamp.label == label).map(|stamp| stamp.at)
    }

    /// True if it was answered by an error of a server, or something of it failed.
    pub fn has_failed(&self) -> bool {
        self.response.status >= 500 || !self.errors.is_empty() || self.children.iter().any(Transaction::has_failed)
    }
}
