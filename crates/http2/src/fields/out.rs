// SPDX-License-Identifier: BSD-2-Clause
//! The fields of a head that goes out: pseudo-header fields first, then the others, without those that speak of a connection. Each is given to
//! `take`: its name in any case, and its value.

use message::chars::{is_value, is_value_char};
use message::{Field, Fields, Head};

use super::Class;

/// The fields of a request. `:authority` is Host.
pub fn request_fields(head: &Head, scheme: &str, take: &mut (impl FnMut(&[u8], &[u8]) + ?Sized)) {
    take(b":method", head.method());
    take(b":scheme", scheme.as_bytes());
    take(b":path", head.url());
    if let Some(host) = head.get("host").filter(|host| !host.is_empty()) {
        take(b":authority", host);
    }
    fields(head.iter(), true, take);
}

/// The fields of an extended CONNECT (RFC 8441): `head` is the request that HTTP/1 asks for that protocol with.
pub fn connect_fields(head: &Head, scheme: &str, protocol: &[u8], take: &mut (impl FnMut(&[u8], &[u8]) + ?Sized)) {
    take(b":method", b"CONNECT");
    take(b":protocol", protocol);
    take(b":scheme", scheme.as_bytes());
    take(b":path", head.url());
    take(b":authority", head.get("host").unwrap_or_default());
    fields(head.iter(), true, take);
}

/// The fields of a response.
pub fn response_fields(head: &Head, take: &mut (impl FnMut(&[u8], &[u8]) + ?Sized)) {
    take(b":status", &head.status_text());
    fields(head.iter(), false, take);
}

/// The fields behind a body.
pub fn trailer_fields(head: &Head, take: &mut (impl FnMut(&[u8], &[u8]) + ?Sized)) {
    for field in head.iter() {
        match Class::of_any_case(field.name()) {
            Class::Connection | Class::Te | Class::Host | Class::ContentLength | Class::Pseudo => {}
            Class::Cookie | Class::Priority | Class::Other => give(&field, take),
        }
    }
}

pub(super) fn fields(lines: Fields<'_>, is_request: bool, take: &mut (impl FnMut(&[u8], &[u8]) + ?Sized)) {
    for field in lines.filter(|field| !field.is_nominated()) {
        match Class::of_any_case(field.name()) {
            Class::Connection | Class::Pseudo => {}
            Class::Host if is_request => {}
            Class::Te if !field.value().eq_ignore_ascii_case(b"trailers") => {}
            Class::Te | Class::Host | Class::ContentLength | Class::Cookie | Class::Priority | Class::Other => {
                give(&field, take);
            }
        }
    }
}

/// Passes a field on without the control characters that VCL may have set.
#[inline]
fn give(field: &Field<'_>, take: &mut (impl FnMut(&[u8], &[u8]) + ?Sized)) {
    let value = field.value();
    if is_value(value) { take(field.name(), value) } else { take(field.name(), &cleaned(value)) }
}

#[cold]
fn cleaned(value: &[u8]) -> Vec<u8> {
    value.iter().map(|&c| if is_value_char(c) { c } else { b' ' }).collect::<Vec<u8>>().trim_ascii().to_vec()
}
