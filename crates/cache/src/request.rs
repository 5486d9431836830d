// SPDX-License-Identifier: BSD-2-Clause
//! What the cache takes from above: requests, stored heads, regular expressions.

pub trait CacheRequest {
    /// Appends the values this request has for the fields that `spec` names, in the form in which
    /// [`crate::VaryKey::values`] were made.
    fn vary_values(&self, spec: &[u8], out: &mut Vec<u8>);

    /// True if those values are `values`. Called under a lock; override it if the comparison is possible without
    /// building them.
    fn vary_matches(&self, spec: &[u8], values: &[u8]) -> bool {
        let mut own = Vec::with_capacity(values.len());
        self.vary_values(spec, &mut own);
        own == values
    }

    /// The value of `req.url`, for bans.
    fn url(&self) -> &[u8];

    /// The first field of this name (any case), for bans.
    fn header(&self, name: &str) -> Option<&[u8]>;
}

pub trait HeadReader: Send + Sync {
    /// The first field of this name (any case).
    fn header<'h>(&self, head: &'h [u8], name: &str) -> Option<&'h [u8]>;

    fn status(&self, head: &[u8]) -> u16;
}

pub trait CacheRegex: Send + Sync {
    fn is_match(&self, text: &[u8]) -> bool;
}

pub trait Regexes: Send + Sync {
    /// Compiles; the error is a text for people, without a prefix.
    fn compile(&self, pattern: &str) -> Result<Box<dyn CacheRegex>, String>;
}

/// Knows nothing: a request without fields, a head without fields, no regular expressions. For tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRequest;

impl CacheRequest for NoRequest {
    fn vary_values(&self, _: &[u8], _: &mut Vec<u8>) {}

    fn url(&self) -> &[u8] {
        b""
    }

    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }
}

impl HeadReader for NoRequest {
    fn header<'h>(&self, _: &'h [u8], _: &str) -> Option<&'h [u8]> {
        None
    }

    fn status(&self, _: &[u8]) -> u16 {
        200
    }
}

impl Regexes for NoRequest {
    fn compile(&self, _: &str) -> Result<Box<dyn CacheRegex>, String> {
        Err("no regular expressions here".to_owned())
    }
}
