// SPDX-License-Identifier: BSD-2-Clause
//! What VCL expressions and modules pass around: one enum with a variant per VCL type, and the byte string behind
//! `STRING`. Values are cheap to clone and to move between threads; none of them borrows from a transaction.

use std::any::Any;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use backend::Director;
use tables::vclvars::{HeadId, Type};
use vcl_regex::Regex;

use crate::acl::Acl;

/// A value of any VCL type. `None` inside is VCL's unset (NULL): a missing field, `vtc.no_backend()`.
#[derive(Clone, Default)]
pub enum Value {
    /// An optional argument that the caller left out.
    #[default]
    Absent,
    /// The result of a `VOID` function.
    Void,
    /// A value of type `BOOL`.
    Bool(bool),
    /// A value of type `INT`.
    Int(i64),
    /// A value of type `REAL`.
    Real(f64),
    /// A value of type `BYTES`.
    Bytes(i64),
    /// A `DURATION` in seconds.
    Duration(f64),
    /// `TIME`, seconds since 1970.
    Time(f64),
    /// A value of type `STRING`.
    String(Option<Text>),
    /// A value of type `IP`.
    Ip(Option<SocketAddr>),
    /// A value of type `BLOB`.
    Blob(Option<Blob>),
    /// A value of type `BACKEND`.
    Backend(Option<BackendRef>),
    /// `HEADER`: a field's name in one head.
    Header(HeadId, Text),
    /// A value of type `HTTP`.
    Http(HeadId),
    /// `ENUM`: the word, out of the signature.
    Enum(&'static str),
    /// A value of type `REGEX`.
    Regex(Arc<Regex>),
    /// A value of type `ACL`.
    Acl(Arc<Acl>),
    /// `STEVEDORE`: a store's name.
    Stevedore(Option<Text>),
    /// `PROBE`: index into the VCL's probes.
    Probe(Option<u32>),
    /// `SUB`: index into the VCL's subroutines.
    Sub(u32),
}

/// A backend or a director.
pub type BackendRef = Arc<dyn Director>;

impl Value {
    /// A `STRING` that isn't set.
    pub const NULL: Value = Value::String(None);

    /// A `STRING` with this text.
    pub fn text(text: impl Into<Text>) -> Value {
        Value::String(Some(text.into()))
    }

    /// A limit as VCL reads it: one without an end is the largest number that VCL has.
    pub fn limit(limit: Duration) -> Value {
        Value::Duration(limit.as_secs_f64().min(crate::convert::REAL_MAX))
    }

    /// The VCL type; [`Value::Absent`] counts as `VOID`.
    pub fn ty(&self) -> Type {
        match self {
            Value::Absent | Value::Void => Type::Void,
            Value::Bool(_) => Type::Bool,
            Value::Int(_) => Type::Int,
            Value::Real(_) => Type::Real,
            Value::Bytes(_) => Type::Bytes,
            Value::Duration(_) => Type::Duration,
            Value::Time(_) => Type::Time,
            Value::String(_) => Type::String,
            Value::Ip(_) => Type::Ip,
            Value::Blob(_) => Type::Blob,
            Value::Backend(_) => Type::Backend,
            Value::Header(..) => Type::Header,
            Value::Http(_) => Type::Http,
            Value::Enum(_) => Type::Enum,
            Value::Regex(_) => Type::Regex,
            Value::Acl(_) => Type::Acl,
            Value::Stevedore(_) => Type::Stevedore,
            Value::Probe(_) => Type::Probe,
            Value::Sub(_) => Type::Sub,
        }
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut show = |value: &dyn fmt::Debug| write!(f, "{}({value:?})", self.ty().name());
        match self {
            Value::Absent => f.write_str("Absent"),
            Value::Void => f.write_str("Void"),
            Value::Bool(v) => show(v),
            Value::Int(v) | Value::Bytes(v) => show(v),
            Value::Real(v) | Value::Duration(v) | Value::Time(v) => show(v),
            Value::String(v) | Value::Stevedore(v) => show(v),
            Value::Ip(v) => show(v),
            Value::Blob(v) => show(v),
            Value::Backend(v) => show(&v.as_ref().map(|d| d.name())),
            Value::Header(head, name) => show(&(head, name)),
            Value::Http(head) => show(head),
            Value::Enum(v) => show(v),
            Value::Regex(v) => show(&Text::from(v.pattern())),
            Value::Acl(v) => show(&v.name()),
            Value::Probe(v) => show(v),
            Value::Sub(v) => show(v),
        }
    }
}

/// Bytes that nobody changes: what a `STRING` holds when it is set. Short ones need no allocation, long ones are shared.
#[derive(Clone)]
pub struct Text(Repr);

const INLINE: usize = 22;

#[derive(Clone)]
enum Repr {
    Static(&'static [u8]),
    Inline(u8, [u8; INLINE]),
    Shared(Arc<[u8]>),
}

impl Text {
    /// No bytes; a set, empty string.
    pub const EMPTY: Text = Text(Repr::Static(b""));

    /// Text that lives as long as the program.
    pub const fn fixed(bytes: &'static [u8]) -> Text {
        Text(Repr::Static(bytes))
    }

    /// A copy of `bytes`.
    pub fn copy(bytes: &[u8]) -> Text {
        if bytes.len() <= INLINE {
            let mut short = [0; INLINE];
            short[..bytes.len()].copy_from_slice(bytes);
            Text(Repr::Inline(bytes.len() as u8, short))
        } else {
            Text(Repr::Shared(Arc::from(bytes)))
        }
    }

    /// The bytes of the text.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Static(bytes) => bytes,
            Repr::Inline(len, bytes) => &bytes[..*len as usize],
            Repr::Shared(bytes) => bytes,
        }
    }

    /// For messages: invalid UTF-8 replaced.
    pub fn lossy(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(self.as_bytes())
    }
}

impl std::ops::Deref for Text {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl AsRef<[u8]> for Text {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

/// A table by texts is asked by bytes: both have the same hash.
impl std::borrow::Borrow<[u8]> for Text {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl From<&[u8]> for Text {
    fn from(bytes: &[u8]) -> Text {
        Text::copy(bytes)
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Text {
        Text::copy(text.as_bytes())
    }
}

impl From<Vec<u8>> for Text {
    fn from(bytes: Vec<u8>) -> Text {
        if bytes.len() <= INLINE { Text::copy(&bytes) } else { Text(Repr::Shared(Arc::from(bytes))) }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Text {
        text.into_bytes().into()
    }
}

impl From<Arc<[u8]>> for Text {
    fn from(bytes: Arc<[u8]>) -> Text {
        Text(Repr::Shared(bytes))
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl std::hash::Hash for Text {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// Content of a `BLOB`: bytes, or a module's own object that only this module can read back.
#[derive(Clone)]
pub struct Blob {
    data: Arc<[u8]>,
    own: Option<Arc<dyn Any + Send + Sync>>,
}

impl Blob {
    /// A blob of bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Blob {
        Blob { data: bytes.into(), own: None }
    }

    /// A module's object; its bytes are empty.
    pub fn from_owner(own: Arc<dyn Any + Send + Sync>) -> Blob {
        Blob { data: Arc::from([]), own: Some(own) }
    }

    /// The bytes; empty for a module's object.
    pub fn as_bytes(&self) -> &[u8] {
        &self.data
    }

    /// The module's object, if it is one.
    pub fn own(&self) -> Option<&Arc<dyn Any + Send + Sync>> {
        self.own.as_ref()
    }

    /// True when both are the same place in memory.
    pub fn same(&self, other: &Blob) -> bool {
        match (&self.own, &other.own) {
            (None, None) => {
                std::ptr::eq(self.data.as_ptr(), other.data.as_ptr()) && self.data.len() == other.data.len()
            }
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Blob({} bytes)", self.data.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_small_and_compares_by_bytes() {
        assert_eq!(size_of::<Text>(), 24);
        assert_eq!(size_of::<Option<Text>>(), 24);
        let long = "x".repeat(40);
        assert_eq!(Text::from(long.as_str()), Text::from(long.clone()));
        assert_eq!(Text::fixed(b"abc"), Text::copy(b"abc"));
        assert_ne!(Text::EMPTY, Text::copy(b"a"));
    }

    #[test]
    fn blobs_know_their_place() {
        let (a, b) = (Blob::new(*b"xy"), Blob::new(*b"xy"));
        assert!(a.same(&a.clone()) && !a.same(&b));
    }
}
