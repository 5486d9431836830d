// SPDX-License-Identifier: BSD-2-Clause
//! Whom a program that asks servers trusts, and whether it takes up sessions again: what its options say of TLS.

use std::sync::Arc;

use crate::Client;
use crate::origin::Origin;
use crate::roots::Roots;
use crate::verify::Verify;

/// Servers whose sessions are remembered.
const SESSIONS: usize = 1000;

/// See the module. By default the system's authorities are trusted, names are checked, sessions taken up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Anybody may be the other end.
    pub is_blind: bool,
    /// In place of the system's: authorities, in PEM.
    pub authorities: Option<String>,
    /// Each handshake is a whole one.
    pub is_fresh: bool,
    /// HTTP/2 is offered, and nothing else.
    pub http2: bool,
}

impl Trust {
    /// What speaks TLS.
    ///
    /// # Errors
    /// What is wrong with the authorities.
    pub fn client(&self) -> Result<Arc<Client>, String> {
        let mut origin = Origin::of("");
        if self.is_blind {
            origin.verify = Verify::Nothing;
        }
        if let Some(pem) = &self.authorities {
            origin.roots = Roots::from_pem(pem.as_bytes()).map_err(|error| error.to_string())?;
        }
        let protocol = if self.http2 { "h2" } else { "http/1.1" };
        origin.client_offering(&[protocol], if self.is_fresh { 0 } else { SESSIONS })
    }
}
