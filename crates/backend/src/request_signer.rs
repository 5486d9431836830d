// SPDX-License-Identifier: BSD-2-Clause
//! What a backend wants in each request to it, made of the request as VCL left it: signatures.

use std::fmt;
use std::sync::Arc;

use base::Real;

pub struct Outgoing<'a> {
    pub method: &'a [u8],
    pub url: &'a [u8],
    /// Names and values of its fields.
    pub fields: Vec<(&'a [u8], &'a [u8])>,
    pub body: OutgoingBody<'a>,
    pub now: Real,
}

pub enum OutgoingBody<'a> {
    None,
    /// The body comes while it is sent.
    Streams,
    /// All of it, in pieces.
    Kept(Vec<&'a [u8]>),
}

/// Says which fields a request gets.
pub trait RequestSigner: Send + Sync {
    /// Names and values that take the place of those that the request has.
    ///
    /// # Errors
    /// Why the request can't be sent: the fetch fails.
    fn fields(&self, request: &Outgoing<'_>) -> Result<Vec<(String, String)>, String>;
}

/// One of them, known by its place in memory.
#[derive(Clone)]
pub struct RequestSignerRef(pub Arc<dyn RequestSigner>);

impl PartialEq for RequestSignerRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for RequestSignerRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestSignerRef")
    }
}
