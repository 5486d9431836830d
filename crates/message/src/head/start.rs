// SPDX-License-Identifier: BSD-2-Clause
//! The start line of a [`Head`]: method, url and proto of a request; proto, status and reason of a response (RFC 9112 3, 4).

use std::ops::Range;

use super::{ArenaSpan, Head, LostHeader};
use crate::status;

/// The HTTP version that a start line names; [`HttpVersion::Unknown`] for what is none (VCL may set `req.proto` to anything).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum HttpVersion {
    /// Not of the form `HTTP/d.d`.
    #[default]
    Unknown,
    /// `HTTP/<major>.<minor>` as `10 * major + minor`: 10, 11, 20.
    Http(u8),
}

impl HttpVersion {
    /// Version of HTTP/1.0 messages.
    pub const HTTP10: HttpVersion = HttpVersion::Http(10);
    /// Version of HTTP/1.1 messages.
    pub const HTTP11: HttpVersion = HttpVersion::Http(11);

    /// Reads `HTTP/d.d`, case included.
    pub fn parse(proto: &[u8]) -> HttpVersion {
        match proto {
            [b'H', b'T', b'T', b'P', b'/', major @ b'0'..=b'9', b'.', minor @ b'0'..=b'9'] => {
                HttpVersion::Http((major - b'0') * 10 + (minor - b'0'))
            }
            _ => HttpVersion::Unknown,
        }
    }

    /// Varnish's number: 10, 11, 20; 0 when unknown.
    pub fn number(self) -> u8 {
        match self {
            HttpVersion::Unknown => 0,
            HttpVersion::Http(n) => n,
        }
    }
}

impl Head {
    /// Empties the head and makes it a request's.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn start_request(&mut self, method: &[u8], url: &[u8], proto: &[u8]) -> Result<(), LostHeader> {
        self.clear();
        self.set_method(method)?;
        self.set_url(url)?;
        self.set_proto(proto)
    }

    /// Makes a head that a codec has laid (see [`Head::lay`]) a request's, and says where the parts of its start line are.
    pub fn start_laid_request(&mut self, method: Range<usize>, url: Range<usize>, proto: Range<usize>) {
        (self.method, self.url, self.proto) = (ArenaSpan::at(method), ArenaSpan::at(url), ArenaSpan::at(proto));
        self.version = HttpVersion::parse(self.proto());
    }

    /// Empties the head and makes it a response's, with the standard reason of `status`.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn start_response(&mut self, proto: &[u8], status: u16) -> Result<(), LostHeader> {
        self.clear();
        self.set_proto(proto)?;
        self.set_status(status)
    }

    /// The method, `GET`; empty in a response.
    pub fn method(&self) -> &[u8] {
        self.method.slice(&self.arena)
    }

    /// The request target, as VCL's `req.url`; empty in a response.
    pub fn url(&self) -> &[u8] {
        self.url.slice(&self.arena)
    }

    /// The protocol as text, `HTTP/1.1`.
    pub fn proto(&self) -> &[u8] {
        self.proto.slice(&self.arena)
    }

    /// The protocol as a number.
    pub fn version(&self) -> HttpVersion {
        self.version
    }

    /// The status, 0 in a request. VCL may use thousands for itself (`1404`): the wire and `is_status` see `% 1000`.
    pub fn status(&self) -> u16 {
        self.status
    }

    /// True if the status on the wire is `n`.
    pub fn is_status(&self, n: u16) -> bool {
        self.status % 1000 == n
    }

    /// The status as three digits.
    pub fn status_text(&self) -> [u8; 3] {
        status::digits(self.status)
    }

    /// The reason phrase; empty in a request.
    pub fn reason(&self) -> &[u8] {
        self.reason.slice(&self.arena)
    }

    /// True for a request's head.
    pub fn is_request(&self) -> bool {
        self.method.len > 0
    }

    /// Sets the method.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn set_method(&mut self, method: impl AsRef<[u8]>) -> Result<(), LostHeader> {
        self.method = self.put(method.as_ref())?;
        Ok(())
    }

    /// Sets the request target.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn set_url(&mut self, url: impl AsRef<[u8]>) -> Result<(), LostHeader> {
        self.url = self.put(url.as_ref())?;
        Ok(())
    }

    /// Sets the protocol and with it the version.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn set_proto(&mut self, proto: impl AsRef<[u8]>) -> Result<(), LostHeader> {
        let proto = proto.as_ref();
        self.proto = self.put(proto)?;
        self.version = HttpVersion::parse(proto);
        Ok(())
    }

    /// Sets the status and the standard reason for it, as `set resp.status` does.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn set_status(&mut self, status: u16) -> Result<(), LostHeader> {
        self.reason = self.put(status::reason(status).as_bytes())?;
        self.status = status;
        Ok(())
    }

    /// Sets the reason phrase alone.
    ///
    /// # Errors
    /// [`LostHeader::NoSpace`].
    pub fn set_reason(&mut self, reason: impl AsRef<[u8]>) -> Result<(), LostHeader> {
        self.reason = self.put(reason.as_ref())?;
        Ok(())
    }

    /// Writes the start line with its CRLF.
    pub fn write_start_line(&self, out: &mut Vec<u8>) {
        if self.is_request() {
            out.extend_from_slice(self.method());
            out.push(b' ');
            out.extend_from_slice(self.url());
            out.push(b' ');
            out.extend_from_slice(self.proto());
        } else {
            let [a, b, c] = self.status_text();
            out.extend_from_slice(self.proto());
            out.extend_from_slice(&[b' ', a, b, c, b' ']);
            out.extend_from_slice(self.reason());
        }
        out.extend_from_slice(b"\r\n");
    }

    /// Writes the whole head in HTTP/1 wire form, the empty line included.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.reserve(self.arena.len() + 2 * self.len() + 16);
        self.write_start_line(out);
        self.write_fields(out);
    }

    fn put(&mut self, text: &[u8]) -> Result<ArenaSpan, LostHeader> {
        self.room(text.len())?;
        let at = self.arena.len() as u32;
        self.arena.extend_from_slice(text);
        Ok(ArenaSpan { at, len: text.len() as u32 })
    }
}
