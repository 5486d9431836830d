// SPDX-License-Identifier: BSD-2-Clause
//! The client's side of TLS for QUIC, for programs that ask servers: whom it trusts and which sessions it remembers are a [`TlsClient`]'s, as
//! with TCP. It sends no early data.

use std::any::Any;
use std::fmt;
use std::io::Cursor;
use std::sync::Arc;

use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{self, ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectError, ConnectionId, Side, TransportError};
use rustls::AlertDescription;
use rustls::quic::{ClientConnection, Secrets, Suite};

use super::{VERSION, VERSION_NUMBER, agreed_keys, first_suite, initial_keys, next_keys, nobody, refuse};
use crate::{TlsClient, TlsError, handshake};

/// Bytes of the tag of a Retry (RFC 9001 5.8).
const TAG_BYTES: usize = 16;

/// A client for QUIC: a `quinn_proto::crypto::ClientConfig`.
pub struct QuicClient {
    client: Arc<TlsClient>,
    suite: Suite,
    /// Knows the tags of Retry packets.
    first: Arc<QuicServerConfig>,
}

impl QuicClient {
    /// One that goes about it as `client` does.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn new(client: Arc<TlsClient>) -> Result<Self, TlsError> {
        let suite = first_suite()?;
        Ok(QuicClient { client, suite, first: nobody(suite)? })
    }
}

impl fmt::Debug for QuicClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("QuicClient").field("client", &self.client).finish_non_exhaustive()
    }
}

impl crypto::ClientConfig for QuicClient {
    fn start_session(
        self: Arc<Self>,
        _: u32,
        server_name: &str,
        params: &TransportParameters,
    ) -> Result<Box<dyn crypto::Session>, ConnectError> {
        let wrong = |_: TlsError| ConnectError::InvalidServerName(server_name.to_owned());
        let (name, sni) = self.client.server_name(server_name).map_err(wrong)?;
        let mut ours = Vec::new();
        params.write(&mut ours);
        let connection = ClientConnection::new(self.client.config().clone(), VERSION, name, ours);
        let connection = connection.map_err(|error| wrong(error.into()))?;
        Ok(Box::new(Session { connection, sni, suite: self.suite, first: self.first.clone(), next: None }))
    }
}

struct Session {
    connection: ClientConnection,
    sni: Option<Box<str>>,
    suite: Suite,
    first: Arc<QuicServerConfig>,
    next: Option<Secrets>,
}

impl crypto::Session for Session {
    fn initial_keys(&self, dst_cid: &ConnectionId, side: Side) -> Keys {
        initial_keys(self.suite, dst_cid, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        let info = handshake::info_of(&self.connection, self.sni.clone(), None).ok()?;
        Some(Box::new(info))
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        None
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        None
    }

    fn early_data_accepted(&self) -> Option<bool> {
        Some(false)
    }

    fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    fn read_handshake(&mut self, buf: &[u8]) -> Result<bool, TransportError> {
        let was_known = self.connection.alpn_protocol().is_some();
        self.connection.read_hs(buf).map_err(|error| {
            let alert = self.connection.alert().unwrap_or(AlertDescription::InternalError);
            refuse(alert, TlsError::from(error).to_string())
        })?;
        Ok(!was_known && self.connection.alpn_protocol().is_some())
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        let Some(theirs) = self.connection.quic_transport_parameters() else { return Ok(None) };
        TransportParameters::read(Side::Client, &mut Cursor::new(theirs)).map(Some).map_err(TransportError::from)
    }

    fn write_handshake(&mut self, buf: &mut Vec<u8>) -> Option<Keys> {
        let change = self.connection.write_hs(buf)?;
        Some(agreed_keys(change, &mut self.next))
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.next.as_mut().map(next_keys)
    }

    fn is_valid_retry(&self, orig_dst_cid: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        let Some((token, tag)) = payload.split_last_chunk::<TAG_BYTES>() else { return false };
        self.first.retry_tag(VERSION_NUMBER, orig_dst_cid, &[header, token].concat()) == *tag
    }

    /// Nothing here is derived from a session.
    fn export_keying_material(&self, _: &mut [u8], _: &[u8], _: &[u8]) -> Result<(), ExportKeyingMaterialError> {
        Err(ExportKeyingMaterialError)
    }
}
