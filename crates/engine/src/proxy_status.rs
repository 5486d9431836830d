// SPDX-License-Identifier: BSD-2-Clause
//! `Proxy-Status` (RFC 9209): the reason why a response was made here, for clients that see only the response.
//!
//! Only responses that are made here have it. A response from an origin keeps the header as it came.

use std::borrow::Cow;
use std::fmt::Write;

use backend::{Backend, BackendFault, Director};
use params::Params;
use tables::proxy_error::ProxyError;

pub const PROXY_STATUS: &str = "Proxy-Status";

/// Value of the parameter `proxy_status` that puts addresses and host names into the header.
const ADDRESS: &str = "address";

/// The reason why a response is made here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProxyCause {
    /// `None` if no registered type applies: VCL has replaced a response of the origin.
    pub error: Option<ProxyError>,
    /// A description in words. Empty if the type says it all.
    details: Cow<'static, str>,
    next_hop: Option<String>,
    received_status: Option<u16>,
}

impl ProxyCause {
    pub fn new(error: ProxyError, details: &'static str) -> Self {
        ProxyCause { error: Some(error), details: details.into(), next_hop: None, received_status: None }
    }

    pub fn of_fault(fault: BackendFault<'_>, params: &Params) -> Self {
        let told = if names_hosts(params) { fault } else { fault.without_names() };
        ProxyCause { details: told.to_string().into(), ..ProxyCause::new(fault.proxy_error(), "") }
    }

    /// The cause for a status that VCL has chosen. `None` if the status is no error.
    pub fn of_vcl(status: u16, was_forwarded: bool) -> Option<Self> {
        let error = match status % 1000 {
            403 if !was_forwarded => Some(ProxyError::HttpRequestDenied),
            400..500 => Some(ProxyError::HttpRequestError),
            500..600 if !was_forwarded => Some(ProxyError::ProxyInternalResponse),
            500..600 => None,
            _ => return None,
        };
        Some(ProxyCause {
            error,
            details: "VCL has chosen this response".into(),
            next_hop: None,
            received_status: None,
        })
    }

    /// Adds the backend that the request was or would have been sent to.
    #[must_use]
    pub fn at(mut self, backend: Option<&Backend>, params: &Params) -> Self {
        self.next_hop = backend.and_then(|backend| next_hop(backend, params));
        self
    }

    /// Adds the status of the origin's response. 0 if there was none.
    #[must_use]
    pub fn after(mut self, status: u16) -> Self {
        self.received_status = (status != 0).then_some(status);
        self
    }

    /// The header's value. `None` if the parameter `proxy_status` is off.
    pub fn value(&self, params: &Params) -> Option<String> {
        (params.proxy_status != "off").then(|| self.text())
    }

    fn text(&self) -> String {
        let mut text = String::from("Lacquer");
        if let Some(error) = self.error {
            let _ = write!(text, "; error={}", error.word());
        }
        if let Some(next_hop) = &self.next_hop {
            text.push_str("; next-hop=");
            push_item(&mut text, next_hop);
        }
        if let Some(status) = self.received_status {
            let _ = write!(text, "; received-status={status}");
        }
        if !self.details.is_empty() {
            text.push_str("; details=");
            push_string(&mut text, &self.details);
        }
        text
    }
}

fn names_hosts(params: &Params) -> bool {
    params.proxy_status == ADDRESS
}

/// The backend's name, or its address if the parameter says so. Names made by modules often contain an address.
fn next_hop(backend: &Backend, params: &Params) -> Option<String> {
    if names_hosts(params) && !backend.is_service() {
        return Some(backend.spec().endpoint.to_string());
    }
    Some(backend.name()).filter(|name| names_hosts(params) || is_identifier(name)).map(str::to_owned)
}

/// True if VCL could declare a backend of that name.
fn is_identifier(name: &str) -> bool {
    let is_part = |c: u8| c.is_ascii_alphanumeric() || c == b'_' || c == b'-';
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(is_part)
}

/// Writes a token if the text is a valid one (RFC 8941, 3.3.4), else a string.
fn push_item(out: &mut String, text: &str) {
    let is_part = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(&c);
    let is_token = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*') && text.bytes().all(is_part);
    match is_token {
        true => out.push_str(text),
        false => push_string(out, text),
    }
}

/// Writes a string (RFC 8941, 3.3.3) of printable ASCII. Other characters become `?`.
fn push_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars().take(MAX_CHARS) {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ => out.push('?'),
        }
    }
    out.push('"');
}

/// Maximum length of a string in characters. A peer may have chosen its text.
const MAX_CHARS: usize = 200;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_one_member_of_a_list() {
        let cause = ProxyCause::new(ProxyError::ConnectionRefused, "");
        assert_eq!(cause.text(), "Lacquer; error=connection_refused");
        let cause = ProxyCause {
            next_hop: Some("default".into()),
            ..ProxyCause::new(ProxyError::HttpProtocolError, "\"a\\\n\u{e9}")
        };
        assert_eq!(
            cause.after(200).text(),
            r#"Lacquer; error=http_protocol_error; next-hop=default; received-status=200; details="\"a\\??""#
        );
        let long = ProxyCause { details: "x".repeat(1000).into(), ..ProxyCause::new(ProxyError::DnsError, "") };
        assert!(long.text().len() < 300);
    }

    #[test]
    fn a_next_hop_is_a_token_or_a_string() {
        for (name, want) in
            [("b1", "b1"), ("o.example:80", "o.example:80"), ("10.0.0.1:80", "\"10.0.0.1:80\""), ("a b", "\"a b\"")]
        {
            let mut text = String::new();
            push_item(&mut text, name);
            assert_eq!(text, want);
        }
    }

    #[test]
    fn names_that_tell_an_address_arent_vcls() {
        for (name, is_one) in
            [("default", true), ("b-1_x", true), ("d1(10.0.0.1:80)", false), ("10", false), ("a.b", false), ("", false)]
        {
            assert_eq!(is_identifier(name), is_one, "{name}");
        }
    }

    #[test]
    fn vcls_choice_is_an_error_from_400_on() {
        let error = |status, was_forwarded| {
            ProxyCause::of_vcl(status, was_forwarded).map(|cause| cause.error.map(ProxyError::word))
        };
        assert_eq!(error(200, false), None);
        assert_eq!(error(301, false), None);
        assert_eq!(error(750, false), None, "a number that vcl_synth makes something else of");
        assert_eq!(error(404, false), Some(Some("http_request_error")));
        assert_eq!(error(403, false), Some(Some("http_request_denied")));
        assert_eq!(error(403, true), Some(Some("http_request_error")), "it was forwarded");
        assert_eq!(error(503, false), Some(Some("proxy_internal_response")));
        assert_eq!(error(1503, false), Some(Some("proxy_internal_response")));
        assert_eq!(error(503, true), Some(None));
    }
}
