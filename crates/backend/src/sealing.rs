// SPDX-License-Identifier: BSD-2-Clause
//! TLS with an origin: the settings and remembered sessions of a pool, and the handshake of a new connection.

use std::sync::Arc;

use net::Stream;
use net::handshake::{HandshakeError, handshake};
use rt::Instant;
use tables::counters::Main;
use tls::origin::Origin;
use tls::{Client, ErrorKind, Handshake};

use crate::error::{EPROTO, ETIMEDOUT, OpenError};

/// Sessions that a pool remembers, to take them up again: those of one server, eight tickets of TLS 1.3 at most.
const SESSIONS: usize = 8;

/// With whom the connections of a pool are.
pub(crate) struct TlsPeer {
    name: String,
    /// `Err`: why there can be none.
    client: Result<Arc<Client>, String>,
}

impl TlsPeer {
    pub(crate) fn new(origin: &Result<Origin, String>) -> Self {
        match origin {
            Ok(origin) => Self { name: origin.name.clone(), client: origin.client(SESSIONS) },
            Err(reason) => Self { name: String::new(), client: Err(reason.clone()) },
        }
    }

    /// Shakes hands over a connection that has just been opened; counted either way.
    pub(crate) async fn seal(
        &self,
        stream: Stream,
        until: Option<Instant>,
        main: &Main,
    ) -> Result<(Stream, Box<tls::Info>), OpenError> {
        match self.shake_hands(stream, until).await {
            Ok((stream, info)) => {
                main.backend_tls.inc();
                if info.resumed {
                    main.backend_tls_resumed.inc();
                }
                Ok((stream, Box::new(info)))
            }
            Err(error) => {
                main.backend_tls_fail.inc();
                Err(error)
            }
        }
    }

    async fn shake_hands(&self, stream: Stream, until: Option<Instant>) -> Result<(Stream, tls::Info), OpenError> {
        let client = self.client.as_ref().map_err(|reason| OpenError::Tls(EPROTO, reason.clone()))?;
        let hello = Handshake::client(client, &self.name).map_err(|error| failed(&error))?;
        handshake(stream, hello, Vec::new(), until).await.map_err(|it| match it.error {
            HandshakeError::Timeout => OpenError::Tls(ETIMEDOUT, "Handshake timeout".to_owned()),
            HandshakeError::Closed => {
                OpenError::Tls(EPROTO, "the backend closed the connection in the handshake".to_owned())
            }
            HandshakeError::Tls(error) => failed(&error),
            HandshakeError::Os(error) => OpenError::Tls(error.raw_os_error().unwrap_or(EPROTO), error.to_string()),
        })
    }
}

fn failed(error: &tls::Error) -> OpenError {
    let reason = match error.kind() {
        ErrorKind::Certificate => format!("Server verification failed: {error}"),
        _ => error.to_string(),
    };
    OpenError::Tls(EPROTO, reason)
}
