// SPDX-License-Identifier: BSD-2-Clause
//! `host:port` text, and names to addresses.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What an address text names, before any look-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Host (`None`: any) and port or service (`None`: the default).
    Inet { host: Option<String>, port: Option<String> },
    /// A path: text that begins with `/` or `@` (abstract).
    Unix(PathBuf),
}

/// Why a text gave no address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveError {
    /// The text isn't `host[:port]`, `[v6][:port]`, `host port` or a path.
    Syntax(&'static str),
    /// The resolver's word.
    Lookup(String),
}

impl Endpoint {
    /// Reads `host`, `host:port`, `:port`, `[::1]:port`, `::1`, `host port`, `/path`.
    ///
    /// # Errors
    /// [`ResolveError::Syntax`].
    pub fn parse(text: &str) -> Result<Self, ResolveError> {
        let _ = text;
        todo!()
    }
}

/// Resolves host and port (a number or a service name) with the system's resolver, on the blocking pool. `passive`: for
/// listening, where no host means any address; else it means loopback.
///
/// # Errors
/// [`ResolveError::Lookup`].
pub async fn resolve(host: Option<&str>, port: &str, passive: bool) -> Result<Vec<SocketAddr>, ResolveError> {
    let (host, port) = (host.map(str::to_owned), port.to_owned());
    rt::blocking(move || resolve_now(host.as_deref(), &port, passive)).await
}

/// As [`resolve`], blocking the caller.
///
/// # Errors
/// [`ResolveError::Lookup`].
pub fn resolve_now(host: Option<&str>, port: &str, passive: bool) -> Result<Vec<SocketAddr>, ResolveError> {
    let _ = (host, port, passive);
    todo!()
}
