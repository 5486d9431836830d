// SPDX-License-Identifier: BSD-2-Clause
//! Facts of one transaction, read in one pass and without copies. All readers of the log share these rules about which
//! of several records of a kind counts. A reader that needs more passes each record to [`View::add`] and to itself.

mod head;
mod stamp;

use logq::record::{value_of, word};
use logq::{Handling, Rec, Txn, TxnType, records};
use tables::{Tag, no_hit};

pub use head::{HeaderLines, RequestLine, StatusLine};
pub use stamp::Stamp;

/// Usual number of timestamps in a transaction.
const STAMPS: usize = 8;

/// Facts of one transaction. Texts are slices of its records, and malformed records give none.
#[derive(Clone, Debug)]
pub struct View<'a> {
    pub txn: Txn<'a>,
    /// The request as it came, before VCL changed it: the first record of each part.
    pub came: RequestLine<'a>,
    /// The request as VCL left it, such as it was sent to a backend: the last record of each part.
    pub left: RequestLine<'a>,
    /// The last response. Interim responses and those that VCL replaced precede it.
    pub response: StatusLine<'a>,
    /// Header lines of the request: a client's as they came, of a fetch as VCL left them. Empty unless they are kept.
    pub request_headers: HeaderLines<'a>,
    /// Header lines of the last response, as VCL left them. Empty unless they are kept.
    pub response_headers: HeaderLines<'a>,
    pub stamps: Vec<Stamp<'a>>,
    /// The last verdict: an object that was found may still be passed.
    pub handling: Option<Handling>,
    /// The reason why the request was no hit (`log_no_hit`).
    pub no_hit: Option<&'a [u8]>,
    /// `127.0.0.1 53522 a0 https`: address, port, listener, and the scheme unless it is http.
    client: Option<&'a [u8]>,
    /// `28 default 127.0.0.1 8080 127.0.0.1 40000 connect`: the backend that was connected last.
    backend: Option<&'a [u8]>,
    /// `head body both head body both`, in bytes, once the transaction has ended.
    pub account: Option<&'a [u8]>,
    /// Heads of the client's request and the backend's, bytes piped from the client and to it.
    pub pipe_account: Option<&'a [u8]>,
    /// `name`, or `name via label`.
    vcl: &'a [u8],
    /// True between the call of a subroutine and its return: VCL writes the records.
    pub is_in_vcl: bool,
    has_vcl_run: bool,
    keeps_headers: bool,
}

/// The peer at the other end: the client of a request, the backend of a fetch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerView<'a> {
    /// The address, or a unix socket's path.
    pub address: &'a [u8],
    /// 0 if it has none.
    pub port: u16,
    /// The listener that it came by, or the backend's name in VCL.
    pub name: &'a [u8],
    pub is_reused: bool,
}

/// Sizes in bytes that were sent and received.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByteCounts {
    pub req_head: u64,
    pub req_body: u64,
    pub resp_head: u64,
    pub resp_body: u64,
}

impl<'a> View<'a> {
    /// Reads a whole transaction, without its headers.
    pub fn of(txn: &Txn<'a>) -> View<'a> {
        View::new(txn).read()
    }

    /// The view before the first record that keeps headers, too. They cost more than all the rest.
    pub fn with_headers(txn: &Txn<'a>) -> View<'a> {
        View { keeps_headers: true, ..View::new(txn) }
    }

    pub fn read(mut self) -> View<'a> {
        records(self.txn.records).for_each(|rec| self.add(&rec));
        self
    }

    /// The view of a transaction before its first record.
    pub fn new(txn: &Txn<'a>) -> View<'a> {
        View {
            txn: *txn,
            came: RequestLine::default(),
            left: RequestLine::default(),
            response: StatusLine::default(),
            request_headers: HeaderLines::default(),
            response_headers: HeaderLines::default(),
            stamps: Vec::with_capacity(STAMPS),
            handling: None,
            no_hit: None,
            client: None,
            backend: None,
            account: None,
            pipe_account: None,
            vcl: b"",
            is_in_vcl: false,
            has_vcl_run: false,
            keeps_headers: false,
        }
    }

    pub fn add(&mut self, rec: &Rec<'a>) {
        match rec.tag {
            Tag::ReqMethod | Tag::BereqMethod => self.request(|line| &mut line.method, rec.text()),
            Tag::ReqUrl | Tag::BereqUrl => self.request(|line| &mut line.url, rec.text()),
            Tag::ReqProtocol | Tag::BereqProtocol => self.request(|line| &mut line.protocol, rec.text()),
            Tag::ReqHeader | Tag::BereqHeader => {
                if let Some(host) = value_of(rec.text(), b"host") {
                    self.request(|line| &mut line.host, host);
                }
                if self.keeps_request_headers() {
                    self.request_headers.add(rec.text());
                }
            }
            Tag::ReqUnset | Tag::BereqUnset if self.keeps_request_headers() => self.request_headers.remove(rec.text()),
            Tag::RespHeader | Tag::BerespHeader if self.keeps_headers => self.response_headers.add(rec.text()),
            Tag::RespUnset | Tag::BerespUnset if self.keeps_headers => self.response_headers.remove(rec.text()),
            // Doesn't begin a response: the server writes its own behind the headers of an object that came by HTTP/1.0.
            Tag::RespProtocol | Tag::BerespProtocol => self.response.protocol = Some(rec.text()),
            Tag::RespStatus | Tag::BerespStatus => {
                // VCL may also set the status of the response that is there.
                if !self.is_in_vcl {
                    self.response.reason = None;
                    self.response_headers.clear();
                }
                self.response.status = Some(rec.text());
            }
            Tag::RespReason | Tag::BerespReason => self.response.reason = Some(rec.text()),
            Tag::Timestamp => self.stamps.push(Stamp(rec.text())),
            Tag::ReqStart => _ = self.client.get_or_insert(rec.text()),
            Tag::BackendOpen => self.backend = Some(rec.text()),
            Tag::ReqAcct | Tag::BereqAcct => _ = self.account.get_or_insert(rec.text()),
            Tag::PipeAcct => _ = self.pipe_account.get_or_insert(rec.text()),
            Tag::VclUse => self.vcl = rec.text(),
            Tag::VclCall => {
                (self.is_in_vcl, self.has_vcl_run) = (true, true);
                self.handling = Handling::of_vcl_call(rec.text()).or(self.handling);
            }
            Tag::VclReturn => self.is_in_vcl = false,
            Tag::Hit => self.handling = Some(Handling::Hit),
            Tag::Notice => self.no_hit = rec.text().strip_prefix(no_hit::NOTICE.as_bytes()).or(self.no_hit),
            _ => {}
        }
    }

    fn request(&mut self, part: impl for<'b> Fn(&'b mut RequestLine<'a>) -> &'b mut Option<&'a [u8]>, text: &'a [u8]) {
        part(&mut self.came).get_or_insert(text);
        *part(&mut self.left) = Some(text);
    }

    fn keeps_request_headers(&self) -> bool {
        self.keeps_headers && (self.txn.kind == TxnType::Bereq || !self.has_vcl_run)
    }

    /// The request of this transaction: a client's as it came, a fetch as it was sent.
    pub fn request_line(&self) -> &RequestLine<'a> {
        if self.txn.kind == TxnType::Bereq { &self.left } else { &self.came }
    }

    /// The backend, if one was connected; otherwise the client.
    pub fn peer(&self) -> Option<PeerView<'a>> {
        let port = |text, at| number(word(text, at)).unwrap_or(0);
        let backend = self.backend.map(|text| PeerView {
            address: word(text, 2),
            port: port(text, 3),
            name: word(text, 1),
            // Release 9 has age and number of its requests behind it.
            is_reused: word(text, 6) == b"reuse",
        });
        let client =
            |text| PeerView { address: word(text, 0), port: port(text, 1), name: word(text, 2), is_reused: false };
        backend.or_else(|| self.client.map(client))
    }

    /// The scheme by which the client came; empty unless the log has it.
    pub fn scheme(&self) -> &'a [u8] {
        self.client.map_or(b"", |text| word(text, 3))
    }

    /// Bytes that were sent and received, once the transaction has ended.
    pub fn bytes(&self) -> Option<ByteCounts> {
        let number = |text, at| number(word(text, at));
        let account = self.account.and_then(|text| {
            let (req_head, req_body) = (number(text, 0)?, number(text, 1)?);
            Some(ByteCounts { req_head, req_body, resp_head: number(text, 3)?, resp_body: number(text, 4)? })
        });
        account.or_else(|| {
            let text = self.pipe_account?;
            let (req_head, req_body) = (number(text, 0)?, number(text, 2)?);
            Some(ByteCounts { req_head, req_body, resp_head: 0, resp_body: number(text, 3)? })
        })
    }

    /// The name under which the VCL was loaded.
    pub fn vcl(&self) -> &'a [u8] {
        word(self.vcl, 0)
    }

    /// The label that led to the VCL, or its name. The label is stable over reloads.
    pub fn vcl_label(&self) -> &'a [u8] {
        if word(self.vcl, 1) == b"via" { word(self.vcl, 2) } else { self.vcl() }
    }
}

pub(crate) fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.trim_ascii().parse().ok()
}

#[cfg(test)]
mod tests;
