// SPDX-License-Identifier: BSD-2-Clause
//! Reasons why a fetch got no connection. The text of each is what Varnish writes into its FetchError record.

use std::fmt;
use std::io;
use std::time::Duration;

use tables::proxy_error::ProxyError;

use crate::{BackendFault, BackendParams};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendConnectError {
    /// The probe or the administrator says it is sick.
    Unhealthy {
        backend: String,
    },
    /// `.max_connections` are in use, and no slot became free in time.
    Busy {
        backend: String,
    },
    /// Connecting failed, or the last failure is so recent that it wasn't tried (`errno` 0).
    Failed {
        backend: String,
        errno: i32,
    },
    /// The backend's name has no address yet, by any lookup.
    NoAddress {
        backend: String,
        host: String,
    },
    Tls {
        backend: String,
        /// The error number that varnishd reports for it, if any.
        errno: i32,
        error: ProxyError,
        reason: String,
    },
    ProxyWrite {
        backend: String,
        errno: i32,
    },
}

impl BackendConnectError {
    pub fn fault(&self) -> BackendFault<'_> {
        match self {
            Self::Unhealthy { .. } => BackendFault::Sick(""),
            Self::Busy { .. } => BackendFault::Busy,
            Self::Failed { errno: 0, .. } => BackendFault::HeldDown,
            Self::Failed { errno, .. } => BackendFault::Connect(*errno),
            Self::NoAddress { host, .. } => BackendFault::NoAddress(host),
            Self::Tls { error, reason, .. } => BackendFault::Tls(*error, reason),
            Self::ProxyWrite { errno, .. } => BackendFault::ProxyWrite(*errno),
        }
    }
}

impl fmt::Display for BackendConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unhealthy { backend } => write!(f, "backend {backend}: unhealthy"),
            Self::Busy { backend } => write!(f, "backend {backend}: busy"),
            Self::Failed { backend, errno } | Self::Tls { backend, errno, .. } => {
                write!(f, "backend {backend}: fail errno {errno} ({})", errno_text(*errno))
            }
            Self::NoAddress { backend, host } => write!(f, "backend {backend}: no address for {host}"),
            Self::ProxyWrite { backend, errno } => {
                write!(f, "backend {backend}: proxy write errno {errno} ({})", errno_text(*errno))
            }
        }
    }
}

impl std::error::Error for BackendConnectError {}

/// Error of a connection attempt that took too long.
pub(crate) const ETIMEDOUT: i32 = 110;

/// Error of a TLS handshake on which the peers don't agree.
pub(crate) const EPROTO: i32 = 71;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConnOpenError {
    Errno(i32),
    /// A recent attempt failed with this error number, and no new one is made yet.
    HeldDown(i32),
    NoAddress,
    Proxy(i32),
    /// The TLS handshake failed: an error number, the registered type of error, and why.
    Tls(i32, ProxyError, String),
}

impl ConnOpenError {
    /// The text for a probe: varnishd's, except for `Open error 0 (Success)` if no attempt is made.
    pub fn text(&self) -> String {
        match self {
            Self::Errno(errno) => format!("Open error {errno} ({})", errno_text(*errno)),
            Self::HeldDown(errno) => {
                format!("Open error {errno} ({}) of an attempt shortly before", errno_text(*errno))
            }
            Self::NoAddress => "Open error: the host's name has no address".into(),
            Self::Proxy(errno) => format!("Write error {errno} ({})", errno_text(*errno)),
            Self::Tls(errno, _, reason) => format!("Open error {errno} ({}): {reason}", errno_text(*errno)),
        }
    }
}

/// Time without attempts after such a failure.
#[expect(clippy::wildcard_enum_match_arm, reason = "the system's errors")]
pub(crate) fn holddown_of(errno: i32, params: &BackendParams) -> Option<Duration> {
    let hold = match io::Error::from_raw_os_error(errno).kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::AddrNotAvailable => params.local_error_holddown,
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NetworkUnreachable => params.remote_error_holddown,
        _ => Duration::ZERO,
    };
    (!hold.is_zero()).then_some(hold)
}

pub(crate) fn errno_text(errno: i32) -> String {
    if errno == 0 {
        return "Success".into();
    }
    let mut text = std::io::Error::from_raw_os_error(errno).to_string();
    if let Some(at) = text.rfind(" (os error") {
        text.truncate(at);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_of_varnish() {
        let failed = BackendConnectError::Failed { backend: "s1".into(), errno: 111 };
        assert_eq!(failed.to_string(), "backend s1: fail errno 111 (Connection refused)");
        let held = BackendConnectError::Failed { backend: "s1".into(), errno: 0 };
        assert_eq!(held.to_string(), "backend s1: fail errno 0 (Success)");
    }
}
