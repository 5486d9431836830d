// SPDX-License-Identifier: BSD-2-Clause
//! Arguments as the types that a signature promises. A value of another type is a bug of ours, so it panics.

use std::net::SocketAddr;

use vrt::regex::MatchError;
use vrt::vmod::{CallResult, Given};
use vrt::{BackendRef, Blob, Failure, HeadId, Text, Value};

/// The arguments of a call, by position.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(pub(crate) &'a [Value]);

impl<'a> Args<'a> {
    fn wrong(self, at: usize) -> ! {
        panic!("argument {at} is {:?}, which its signature forbids", self.0.get(at))
    }

    /// Whether an optional argument was given.
    pub(crate) fn given(self, at: usize) -> bool {
        !matches!(self.0[at], Value::Absent)
    }

    /// STRING, STRANDS; an optional one that is left out counts as unset.
    pub(crate) fn text(self, at: usize) -> Option<&'a Text> {
        match &self.0[at] {
            Value::String(text) => text.as_ref(),
            Value::Absent => None,
            _ => self.wrong(at),
        }
    }

    /// The same, unset being empty.
    pub(crate) fn bytes_of(self, at: usize) -> &'a [u8] {
        self.text(at).map_or(b"", |text| text.as_bytes())
    }

    /// INT, BYTES
    pub(crate) fn int(self, at: usize) -> i64 {
        match self.0[at] {
            Value::Int(value) | Value::Bytes(value) => value,
            _ => self.wrong(at),
        }
    }

    /// REAL, DURATION, TIME
    pub(crate) fn real(self, at: usize) -> f64 {
        match self.0[at] {
            Value::Real(value) | Value::Duration(value) | Value::Time(value) => value,
            _ => self.wrong(at),
        }
    }

    /// BOOL
    pub(crate) fn bool(self, at: usize) -> bool {
        match self.0[at] {
            Value::Bool(value) => value,
            _ => self.wrong(at),
        }
    }

    /// ENUM
    pub(crate) fn word(self, at: usize) -> &'static str {
        match self.0[at] {
            Value::Enum(word) => word,
            _ => self.wrong(at),
        }
    }

    /// IP
    pub(crate) fn ip(self, at: usize) -> Option<SocketAddr> {
        match self.0[at] {
            Value::Ip(ip) => ip,
            _ => self.wrong(at),
        }
    }

    /// BLOB; one that is left out counts as unset.
    pub(crate) fn blob(self, at: usize) -> Option<&'a Blob> {
        match &self.0[at] {
            Value::Blob(blob) => blob.as_ref(),
            Value::Absent => None,
            _ => self.wrong(at),
        }
    }

    /// BACKEND; one that is left out counts as unset.
    pub(crate) fn backend(self, at: usize) -> Option<&'a BackendRef> {
        match &self.0[at] {
            Value::Backend(backend) => backend.as_ref(),
            Value::Absent => None,
            _ => self.wrong(at),
        }
    }

    /// HEADER
    pub(crate) fn header(self, at: usize) -> (HeadId, &'a Text) {
        match &self.0[at] {
            Value::Header(head, name) => (*head, name),
            _ => self.wrong(at),
        }
    }

    /// HTTP
    pub(crate) fn http(self, at: usize) -> HeadId {
        match self.0[at] {
            Value::Http(head) => head,
            _ => self.wrong(at),
        }
    }

    /// REGEX
    pub(crate) fn regex(self, at: usize) -> &'a vrt::regex::Regex {
        match &self.0[at] {
            Value::Regex(regex) => regex,
            _ => self.wrong(at),
        }
    }
}

/// A value at once.
pub(crate) fn give(value: Value) -> CallResult {
    Ok(Given::Value(value))
}

/// VCL fails with this text.
pub(crate) fn fail<T>(text: impl Into<std::borrow::Cow<'static, str>>) -> Result<T, Failure> {
    Err(Failure::new(text))
}

/// A match was given up.
pub(crate) fn gave_up(error: MatchError) -> Failure {
    Failure::new(format!("Regexp matching failed: {}", error.text()))
}

/// A value later.
pub(crate) fn wait(future: impl Future<Output = Result<Value, Failure>> + 'static) -> CallResult {
    Ok(Given::Wait(Box::pin(future)))
}
