// SPDX-License-Identifier: BSD-2-Clause
//! Decoded fields become a [`Head`]: a start line made of pseudo-header fields, then the fields in the order they came.
//!
//! As with varnishd `:authority` becomes a field `host` and `:scheme` a field `scheme`, each in its place; cookies that came in crumbs are joined (RFC
//! 9113 8.2.3). After the first fault the rest is taken and dropped, since a decoder has to read on.

use message::authority::{self, TargetForm};
use message::chars::is_token;
use message::{Head, LostHeader, status};

use super::{Class, FieldFault, Malformed, is_checked_field, is_good_name, is_good_value};
use crate::priority::Priority;

/// Kinds of field sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionKind {
    /// A request's head. `extended`: extended CONNECT is on (RFC 8441).
    Request {
        /// True if `:protocol` is accepted.
        extended: bool,
    },
    /// A response's head, final or interim.
    Response,
    /// Fields behind a body.
    Trailers,
}

/// Facts of a field section that aren't in the head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SectionFacts {
    /// The value of Content-Length.
    pub content_length: Option<u64>,
    /// True for an extended CONNECT for a WebSocket. The head is that of the GET with which HTTP/1 asks for one (RFC
    /// 8441 5).
    pub extended: bool,
    /// Value of the field `priority`.
    pub priority: Option<Priority>,
    /// Reason to refuse a well-formed request.
    pub refusal: Option<FieldsRefusal>,
}

/// Reasons to answer a request with an error, without VCL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldsRefusal {
    /// More than one host (400): two Host fields, or another one than `:authority`. The first is in the head.
    SeveralHosts,
    /// CONNECT to an authority (405): nobody is a tunnel here. There is no path.
    Connect,
    /// Extended CONNECT for another protocol than `websocket` (501).
    Protocol,
}

const METHOD: u8 = 1;
const PATH: u8 = 2;
const SCHEME: u8 = 4;
const AUTHORITY: u8 = 8;
const PROTOCOL: u8 = 16;
const STATUS: u8 = 32;

/// Bytes counted for a field beside its own (RFC 9113 6.5.2).
const FIELD_OVERHEAD: u64 = 32;

/// Most bytes of a field section and of its fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectionLimits {
    /// Bytes of the fields with 32 for each: SETTINGS_MAX_HEADER_LIST_SIZE.
    pub list_bytes: u64,
    /// Bytes of a field as a line of HTTP/1, without its end; pseudo-header fields have no such limit.
    pub line_bytes: usize,
}

impl SectionLimits {
    /// No limits.
    pub const NONE: SectionLimits = SectionLimits { list_bytes: u64::MAX, line_bytes: usize::MAX };
}

/// Fills a head from fields.
pub struct HeadBuilder<'a> {
    head: &'a mut Head,
    kind: SectionKind,
    /// Pseudo-header fields there were.
    seen: u8,
    has_fields: bool,
    takes_late: bool,
    has_host: bool,
    cookies: u32,
    section: SectionFacts,
    left: u64,
    line_bytes: usize,
    malformed: Option<Malformed>,
}

impl<'a> HeadBuilder<'a> {
    /// Empties `head` and begins; `proto` is `HTTP/2.0` or `HTTP/3.0`.
    pub fn new(head: &'a mut Head, kind: SectionKind, proto: &[u8], limits: SectionLimits) -> HeadBuilder<'a> {
        head.clear();
        let mut builder = HeadBuilder {
            head,
            kind,
            seen: 0,
            has_fields: false,
            takes_late: false,
            has_host: false,
            cookies: 0,
            section: SectionFacts::default(),
            left: limits.list_bytes,
            line_bytes: limits.line_bytes,
            malformed: None,
        };
        if kind != SectionKind::Trailers {
            let set = builder.head.set_proto(proto);
            builder.keep(set.map_err(|lost| Malformed::new(of_lost(lost), b"", b"")));
        }
        builder
    }

    /// Takes pseudo-header fields behind others, too. That is malformed (RFC 9113 8.3), but varnishd's clients know it otherwise, and it can't
    /// change what a request means: each may come once. `:authority` has to come first even so, as Host is judged by it.
    pub fn take_late_pseudo(&mut self) {
        self.takes_late = true;
    }

    /// Takes the next field.
    pub fn field(&mut self, name: &[u8], value: &[u8]) {
        self.take(name, value, is_checked_field(name, value));
    }

    /// Takes the next field, of which it is known whether name and value have only bytes that they may have.
    #[inline]
    pub fn take(&mut self, name: &[u8], value: &[u8], is_checked: bool) {
        if self.malformed.is_some() {
            return;
        }
        let taken = if is_checked { self.add(name, value) } else { Err(byte_fault(name, value)) };
        self.keep(taken.map_err(|fault| Malformed::new(fault, name, value)));
    }

    fn keep(&mut self, result: Result<(), Malformed>) {
        if let Err(malformed) = result {
            self.malformed.get_or_insert(malformed);
        }
    }

    #[inline]
    fn add(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldFault> {
        let bytes = name.len() + value.len();
        let class = Class::of(name);
        let left = self.left.checked_sub(bytes as u64 + FIELD_OVERHEAD);
        self.left = left.ok_or(if name == b":path" { FieldFault::PathTooLarge } else { FieldFault::TooLarge })?;
        if class == Class::Pseudo {
            return self.pseudo(name, value);
        }
        if bytes + b": ".len() > self.line_bytes {
            return Err(FieldFault::TooLong);
        }
        self.has_fields = true;
        if name == b"scheme" && matches!(self.kind, SectionKind::Request { .. }) {
            // The field of that name is what `:scheme` has become: VCL must not see the client's own.
            return Ok(());
        }
        match class {
            Class::Connection => return Err(FieldFault::Connection),
            Class::Te if !value.eq_ignore_ascii_case(b"trailers") => return Err(FieldFault::Te),
            Class::ContentLength | Class::Host if self.kind == SectionKind::Trailers => {
                return Err(FieldFault::Trailer);
            }
            Class::ContentLength => self.content_length(value)?,
            Class::Host if matches!(self.kind, SectionKind::Request { .. }) => return self.host(value),
            Class::Cookie => self.cookies += 1,
            Class::Priority => self.section.priority = Some(Priority::parse(value)),
            Class::Te | Class::Host | Class::Other | Class::Pseudo => {}
        }
        self.append(name, value)
    }

    #[inline]
    fn append(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldFault> {
        self.head.append_known(name, &[value]).map_err(of_lost)
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), FieldFault> {
        let bit = match (self.kind, name) {
            (SectionKind::Request { .. }, b":method") => METHOD,
            (SectionKind::Request { .. }, b":path") => PATH,
            (SectionKind::Request { .. }, b":scheme") => SCHEME,
            (SectionKind::Request { .. }, b":authority") => AUTHORITY,
            (SectionKind::Request { extended: true }, b":protocol") => PROTOCOL,
            (SectionKind::Request { extended: false }, b":protocol") => return Err(FieldFault::Protocol),
            (SectionKind::Response, b":status") => STATUS,
            _ => return Err(FieldFault::UnknownPseudo),
        };
        if self.has_fields && (!self.takes_late || bit == AUTHORITY) {
            return Err(FieldFault::LatePseudo);
        }
        if self.seen & bit != 0 {
            return Err(FieldFault::DuplicatePseudo);
        }
        self.seen |= bit;
        match bit {
            METHOD if is_token(value) => self.head.set_method(value).map_err(of_lost),
            METHOD => Err(FieldFault::Method),
            // Whether it is one depends on the method, which may come later.
            PATH => self.head.set_url(value).map_err(|_| FieldFault::PathTooLarge),
            SCHEME if is_scheme(value) => self.append(b"scheme", value),
            SCHEME => Err(FieldFault::Scheme),
            AUTHORITY if !value.is_empty() && authority::is_valid(value) => self.append(b"host", value),
            AUTHORITY => Err(FieldFault::Authority),
            PROTOCOL if is_token(value) => self.append(b"upgrade", value),
            PROTOCOL => Err(FieldFault::Protocol),
            _ => self.status(value),
        }
    }

    fn status(&mut self, value: &[u8]) -> Result<(), FieldFault> {
        // There is no 101 here (RFC 9113 8.6).
        let code = status::parse(value).filter(|&code| code < 1000 && code != 101).ok_or(FieldFault::Status)?;
        self.head.set_status(code).map_err(of_lost)
    }

    /// Host is what `:authority` says, or stands for it (RFC 9113 8.3.1).
    fn host(&mut self, value: &[u8]) -> Result<(), FieldFault> {
        if self.seen & AUTHORITY != 0 {
            let same = self.head.get(b"host").is_some_and(|authority| authority.eq_ignore_ascii_case(value));
            if !same {
                self.section.refusal = Some(FieldsRefusal::SeveralHosts);
            }
            return Ok(());
        }
        if self.has_host {
            self.section.refusal = Some(FieldsRefusal::SeveralHosts);
            return Ok(());
        }
        if value.is_empty() || !authority::is_valid(value) {
            return Err(FieldFault::Authority);
        }
        self.has_host = true;
        self.append(b"host", value)
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), FieldFault> {
        if self.section.content_length.is_some() || !value.iter().all(u8::is_ascii_digit) {
            return Err(FieldFault::ContentLength);
        }
        let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
        self.section.content_length = Some(length.ok_or(FieldFault::ContentLength)?);
        Ok(())
    }

    /// True once the section is known to be too large: nothing behind that counts.
    pub fn is_too_large(&self) -> bool {
        self.malformed.as_ref().is_some_and(|malformed| malformed.status().is_some())
    }

    /// The section is complete.
    ///
    /// # Errors
    /// See [`Malformed`]: of the first field that was, or of the whole.
    pub fn finish(mut self) -> Result<SectionFacts, Malformed> {
        if let Some(malformed) = self.malformed.take() {
            return Err(malformed);
        }
        if self.cookies > 1 {
            self.head.collect_with("cookie", b"; ").map_err(|lost| Malformed::new(of_lost(lost), b"cookie", b""))?;
        }
        match self.kind {
            SectionKind::Request { .. } => self.finish_request()?,
            SectionKind::Response if self.seen & STATUS == 0 => return Err(missing(":status")),
            SectionKind::Response | SectionKind::Trailers => {}
        }
        Ok(self.section)
    }

    fn finish_request(&mut self) -> Result<(), Malformed> {
        if self.seen & METHOD == 0 {
            return Err(missing(":method"));
        }
        let is_connect = self.head.method() == b"CONNECT";
        if self.seen & PROTOCOL != 0 {
            if !is_connect || self.seen & AUTHORITY == 0 {
                return Err(Malformed::new(FieldFault::Protocol, b"", b""));
            }
        } else if is_connect {
            return self.finish_connect();
        }
        for (bit, name) in [(PATH, ":path"), (SCHEME, ":scheme")] {
            if self.seen & bit == 0 {
                return Err(missing(name));
            }
        }
        if !is_good_path(self.head.url(), self.head.method()) {
            return Err(Malformed::new(FieldFault::Path, b":path", self.head.url()));
        }
        if self.seen & PROTOCOL != 0 { self.finish_extended() } else { Ok(()) }
    }
}

impl HeadBuilder<'_> {
    /// Extended CONNECT becomes what it is over HTTP/1, so that whoever reads the head needn't know of it. The bytes behind it are no body, whatever
    /// Content-Length says, and the key of the handshake is that of a connection (RFC 8441 5).
    fn finish_extended(&mut self) -> Result<(), Malformed> {
        self.section.content_length = None;
        if !self.head.get("upgrade").is_some_and(|protocol| protocol.eq_ignore_ascii_case(b"websocket")) {
            self.section.refusal = Some(FieldsRefusal::Protocol);
            return Ok(());
        }
        self.section.extended = self.section.refusal.is_none();
        for name in ["content-length", "sec-websocket-key"] {
            self.head.unset(name);
        }
        let made = self.head.set_method("GET").and_then(|()| self.head.append_known("connection", &[b"upgrade"]));
        made.map_err(|lost| Malformed::new(of_lost(lost), b"connection", b"upgrade"))
    }

    /// CONNECT has an authority, and neither path nor scheme (RFC 9113 8.5).
    fn finish_connect(&mut self) -> Result<(), Malformed> {
        if self.seen & AUTHORITY == 0 {
            return Err(missing(":authority"));
        }
        if self.seen & (PATH | SCHEME) != 0 {
            return Err(Malformed::new(FieldFault::Connect, b"", b""));
        }
        self.section.refusal = Some(FieldsRefusal::Connect);
        Ok(())
    }
}

fn missing(name: &'static str) -> Malformed {
    Malformed::new(FieldFault::MissingPseudo(name), b"", b"")
}

fn of_lost(lost: LostHeader) -> FieldFault {
    match lost {
        LostHeader::TooManyFields => FieldFault::TooManyFields,
        LostHeader::NoSpace | LostHeader::BadField => FieldFault::TooLarge,
    }
}

fn byte_fault(name: &[u8], value: &[u8]) -> FieldFault {
    debug_assert!(!is_checked_field(name, value));
    let name = name.strip_prefix(b":").unwrap_or(name);
    if name.is_empty() {
        FieldFault::EmptyName
    } else if is_good_name(name) {
        debug_assert!(!is_good_value(value));
        FieldFault::Value
    } else {
        let bad = name.iter().find(|&&c| !is_good_name(&[c]));
        if bad.is_some_and(u8::is_ascii_uppercase) { FieldFault::UpperCase } else { FieldFault::Name }
    }
}

fn is_scheme(text: &[u8]) -> bool {
    let rest = |c: &u8| c.is_ascii_alphanumeric() || b"+-.".contains(c);
    text.first().is_some_and(u8::is_ascii_alphabetic) && text.iter().all(rest)
}

/// A path without fragment and blanks (RFC 9113 8.3.1), or `*` with OPTIONS.
fn is_good_path(path: &[u8], method: &[u8]) -> bool {
    let form = match authority::target(path, true) {
        TargetForm::Origin => true,
        TargetForm::Asterisk => method == b"OPTIONS",
        TargetForm::Absolute { .. } | TargetForm::Other => false,
    };
    form && path.iter().fold(true, |good, &c| good & (c > b' ') & (c != b'#') & (c != 0x7f))
}
