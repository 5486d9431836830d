// SPDX-License-Identifier: BSD-2-Clause
//! Signatures: headers that a backend requires in each request, calculated from the request as VCL left it.

use std::fmt;
use std::sync::Arc;

use base::Real;

pub struct OutgoingRequest<'a> {
    pub method: &'a [u8],
    pub url: &'a [u8],
    pub fields: Vec<(&'a [u8], &'a [u8])>,
    pub body: OutgoingBody<'a>,
    pub now: Real,
}

pub enum OutgoingBody<'a> {
    None,
    Streams,
    /// The complete body, in pieces.
    Kept(Vec<&'a [u8]>),
}

/// Calculates additional headers of a request.
pub trait RequestSigner: Send + Sync {
    /// Names and values that replace those of the request.
    ///
    /// # Errors
    /// Why the request can't be sent: the fetch fails.
    fn fields(&self, request: &OutgoingRequest<'_>) -> Result<Vec<(String, String)>, String>;
}

/// A signer, identified by its address in memory.
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
