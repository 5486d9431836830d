// SPDX-License-Identifier: BSD-2-Clause
//! A response as HTTP/1 frames it (RFC 9112 6, 7.1, 9.3): the fields that say so, and the bytes around the body's pieces.

use engine::httplog::RESP;
use engine::transport::BodyLen;
use http1::{ChunkHeader, LAST_CHUNK};
use message::{Head, HttpVersion, list, names};
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use crate::output::OutputQueue;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sending {
    Nothing,
    /// Plain; `left` bytes of an announced length are still to come.
    Plain {
        left: Option<u64>,
    },
    Chunked,
    NoBody,
}

#[derive(Debug)]
pub(super) struct Response {
    /// Version of the request: its client understands no newer one.
    version: HttpVersion,
    sending: Sending,
    /// The client has said that it reads what is behind a body.
    takes_trailers: bool,
    /// The body wasn't what was announced: the connection can't go on.
    is_broken: bool,
}

impl Response {
    pub fn new(version: HttpVersion) -> Self {
        Response { version, sending: Sending::Nothing, takes_trailers: false, is_broken: false }
    }

    pub fn is_begun(&self) -> bool {
        self.sending != Sending::Nothing
    }

    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// True if the client takes more than one response to a request.
    pub fn may_be_interim(&self) -> bool {
        self.version >= HttpVersion::HTTP11
    }

    /// The client's request says so (RFC 9110 10.1.4).
    pub fn take_trailers(&mut self) {
        self.takes_trailers = true;
    }

    /// The head is to go out: adds the fields of framing and connection to it and to the log. Whether, and why, the connection
    /// ends after it.
    pub fn begin(
        &mut self,
        resp: &mut Head,
        len: BodyLen,
        mut close: Option<SessClose>,
        log: &mut TxnLog,
    ) -> Option<SessClose> {
        let says_close = resp.get(names::CONNECTION).is_some_and(|value| list::has(value, b"close"));
        if says_close {
            close.get_or_insert(SessClose::RespClose);
        } else if close.is_some() {
            let _ = RESP.force(resp, log, names::CONNECTION, b"close");
        } else if !resp.has(names::CONNECTION) {
            let _ = RESP.append(resp, log, names::CONNECTION, &[b"keep-alive"]);
        }
        self.sending = match len {
            BodyLen::None => Sending::NoBody,
            BodyLen::Known(len) => Sending::Plain { left: Some(len) },
            BodyLen::Unknown if self.version == HttpVersion::HTTP11 => {
                let _ = RESP.append(resp, log, names::TRANSFER_ENCODING, &[b"chunked"]);
                Sending::Chunked
            }
            BodyLen::Unknown => {
                close = Some(SessClose::TxEof);
                Sending::Plain { left: None }
            }
        };
        close
    }

    /// A response without a body, whose head goes out by itself.
    pub fn begin_minimal(&mut self) {
        self.sending = Sending::NoBody;
    }

    /// The next piece of the body; how many bytes of it are sent.
    pub fn data(&mut self, mut piece: Buf, output: &mut OutputQueue) -> usize {
        if let Sending::Plain { left: Some(left) } = &mut self.sending {
            if piece.len() as u64 > *left {
                // The client would take the excess for the next response.
                self.is_broken = true;
                piece = piece.slice(0..*left as usize);
            }
            *left -= piece.len() as u64;
        }
        let bytes = piece.len();
        match self.sending {
            _ if bytes == 0 => {}
            Sending::NoBody => return 0,
            Sending::Chunked => {
                let size = ChunkHeader::new(bytes);
                output.add(|out| out.extend_from_slice(size.as_bytes()));
                output.add_stored(piece);
                output.add(|out| out.extend_from_slice(b"\r\n"));
            }
            Sending::Nothing | Sending::Plain { .. } => output.add_stored(piece),
        }
        bytes
    }

    pub fn end(&mut self, trailers: Option<&Head>, output: &mut OutputQueue) {
        match self.sending {
            Sending::Plain { left: Some(1..) } => self.is_broken = true,
            Sending::Chunked => {
                output.add(|out| match trailers.filter(|_| self.takes_trailers) {
                    None => out.extend_from_slice(LAST_CHUNK),
                    Some(trailers) => {
                        out.extend_from_slice(b"0\r\n");
                        trailers.write_fields(out);
                    }
                });
            }
            Sending::Plain { .. } | Sending::Nothing | Sending::NoBody => {}
        }
    }

    /// True if a body that breaks off now could be taken for whole: one that ends with the connection.
    pub fn would_look_whole(&self) -> bool {
        matches!(self.sending, Sending::Plain { .. }) && self.version < HttpVersion::HTTP11
    }
}
