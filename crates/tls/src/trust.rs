// SPDX-License-Identifier: BSD-2-Clause
//! Whom a program that asks servers trusts, and whether it takes up sessions again: what its options say of TLS.

use std::sync::Arc;

use crate::TlsClient;
use crate::origin::TlsOrigin;
use crate::roots::Roots;
use crate::verify::Verify;

const SESSIONS: usize = 1000;

/// A version of HTTP, as programs that ask servers speak one alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spoken {
    #[default]
    Http1,
    Http2,
    Http3,
}

impl Spoken {
    pub const fn alpn(self) -> &'static str {
        match self {
            Spoken::Http1 => "http/1.1",
            Spoken::Http2 => "h2",
            Spoken::Http3 => "h3",
        }
    }

    pub fn parse(alpn: &str) -> Option<Spoken> {
        [Spoken::Http1, Spoken::Http2, Spoken::Http3].into_iter().find(|spoken| spoken.alpn() == alpn)
    }
}

/// See the module. By default the system's authorities are trusted, names are checked, sessions taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Anybody may be the other end.
    pub is_blind: bool,
    /// In place of the system's: authorities, in PEM.
    pub authorities: Option<String>,
    /// Each handshake is a whole one.
    pub is_fresh: bool,
    pub spoken: Spoken,
}

impl Trust {
    /// The client for these settings.
    ///
    /// # Errors
    /// A fault of the authorities, in words.
    pub fn client(&self) -> Result<Arc<TlsClient>, String> {
        let mut origin = TlsOrigin::of("");
        if self.is_blind {
            origin.verify = Verify::Nothing;
        }
        if let Some(pem) = &self.authorities {
            origin.roots = Roots::from_pem(pem.as_bytes()).map_err(|error| error.to_string())?;
        }
        origin.client_offering(&[self.spoken.alpn()], if self.is_fresh { 0 } else { SESSIONS })
    }
}
