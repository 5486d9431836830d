// SPDX-License-Identifier: BSD-2-Clause
//! TLS with an origin: the settings and remembered sessions of a pool, and the handshake of a new connection.

use std::sync::Arc;

use net::Stream;
use net::handshake::{HandshakeError, handshake};
use rt::Instant;
use tables::counters::Main;
use tables::origin_proto::OriginProto;
use tables::proxy_error::ProxyError;
use tls::origin::TlsOrigin;
use tls::{ErrorKind, Handshake, TlsClient};

use crate::error::{ConnOpenError, EPROTO, ETIMEDOUT};

/// Maximum number of TLS sessions that a pool remembers for resumption. They are one server's; TLS 1.3 gives at most eight tickets.
const SESSIONS: usize = 8;

pub(crate) struct TlsPeer {
    name: String,
    /// `Err`: the reason why TLS isn't possible.
    client: Result<Arc<TlsClient>, String>,
    /// A client that speaks only HTTP/1.1, if `client` leaves the choice to the origin.
    http1: Option<Result<Arc<TlsClient>, String>>,
}

impl TlsPeer {
    pub(crate) fn new(origin: &Result<TlsOrigin, String>, proto: OriginProto) -> Self {
        match origin {
            Ok(origin) => {
                let client = |offered: OriginProto| origin.client_offering(offered.offers(), SESSIONS);
                let http1 = (proto == OriginProto::Auto).then(|| client(OriginProto::Http1));
                Self { name: origin.name.clone(), client: client(proto), http1 }
            }
            Err(reason) => Self { name: String::new(), client: Err(reason.clone()), http1: None },
        }
    }

    /// Does the handshake over a new connection, and counts its success or failure. `http1`: use HTTP/1.1 if the origin has a choice.
    pub(crate) async fn seal(
        &self,
        stream: Stream,
        http1: bool,
        until: Option<Instant>,
        main: &Main,
    ) -> Result<(Stream, Box<tls::HandshakeInfo>), ConnOpenError> {
        match self.shake_hands(stream, http1, until).await {
            Ok((stream, info)) => {
                main.backend_tls.inc();
                if info.resumed {
                    main.backend_tls_resumed.inc();
                }
                if info.is_post_quantum() {
                    main.backend_tls_post_quantum.inc();
                }
                Ok((stream, Box::new(info)))
            }
            Err(error) => {
                main.backend_tls_fail.inc();
                Err(error)
            }
        }
    }

    async fn shake_hands(
        &self,
        stream: Stream,
        http1: bool,
        until: Option<Instant>,
    ) -> Result<(Stream, tls::HandshakeInfo), ConnOpenError> {
        let client = self.http1.as_ref().filter(|_| http1).unwrap_or(&self.client);
        let client = client
            .as_ref()
            .map_err(|reason| ConnOpenError::Tls(EPROTO, ProxyError::ProxyConfigurationError, reason.clone()))?;
        let hello = Handshake::client(client, &self.name).map_err(|error| failed(&error))?;
        handshake(stream, hello, Vec::new(), until).await.map_err(|it| match it.error {
            HandshakeError::Timeout => {
                ConnOpenError::Tls(ETIMEDOUT, ProxyError::ConnectionTimeout, "Handshake timeout".to_owned())
            }
            HandshakeError::Closed => {
                let reason = "the backend closed the connection in the handshake";
                ConnOpenError::Tls(EPROTO, ProxyError::ConnectionTerminated, reason.to_owned())
            }
            HandshakeError::Tls(error) => failed(&error),
            HandshakeError::Os(error) => {
                let errno = error.raw_os_error().unwrap_or(EPROTO);
                ConnOpenError::Tls(errno, ProxyError::ConnectionTerminated, error.to_string())
            }
        })
    }
}

fn failed(error: &tls::TlsError) -> ConnOpenError {
    let reason = match matches!(error.kind(), ErrorKind::Certificate) {
        true => format!("Server verification failed: {error}"),
        false => error.to_string(),
    };
    ConnOpenError::Tls(EPROTO, proxy_error(error.kind()), reason)
}

fn proxy_error(kind: ErrorKind) -> ProxyError {
    match kind {
        ErrorKind::Certificate => ProxyError::TlsCertificateError,
        ErrorKind::Alert(_) => ProxyError::TlsAlertReceived,
        ErrorKind::Closed => ProxyError::ConnectionTerminated,
        ErrorKind::Internal => ProxyError::ProxyInternalError,
        ErrorKind::NotTls
        | ErrorKind::Version
        | ErrorKind::Parameters
        | ErrorKind::Name
        | ErrorKind::Protocol
        | ErrorKind::Decrypt
        | ErrorKind::Limit
        | ErrorKind::Exhausted => ProxyError::TlsProtocolError,
    }
}
