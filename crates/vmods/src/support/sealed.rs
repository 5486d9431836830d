// SPDX-License-Identifier: BSD-2-Clause
//! TLS over a connection that a module has opened.

use std::sync::Arc;
use std::time::Duration;

use net::Stream;
use net::handshake::{HandshakeError, handshake};
use rt::Instant;
use tls::{ErrorKind, Handshake, TlsClient};

/// Shakes hands with `name`, for as long as `limit` (zero: as whoever waits for it likes).
pub(crate) async fn seal(
    stream: Stream,
    client: &Arc<TlsClient>,
    name: &str,
    limit: Duration,
) -> Result<Stream, String> {
    let hello = Handshake::client(client, name).map_err(|error| error.to_string())?;
    let until = (!limit.is_zero()).then(|| Instant::now() + limit);
    match handshake(stream, hello, Vec::new(), until).await.map_err(|it| it.error) {
        Ok((stream, _)) => Ok(stream),
        Err(HandshakeError::Timeout) => Err("no TLS handshake in time".to_owned()),
        Err(HandshakeError::Closed) => Err("the connection ended in the TLS handshake".to_owned()),
        Err(HandshakeError::Tls(error)) if error.kind() == ErrorKind::Certificate => {
            Err(format!("the certificate of {name} is refused: {error}"))
        }
        Err(HandshakeError::Tls(error)) => Err(format!("TLS: {error}")),
        Err(HandshakeError::Os(error)) => Err(error.to_string()),
    }
}
