// SPDX-License-Identifier: BSD-2-Clause
//! A handshake, of either role: rustls carries it out, one record at a time, so that it keeps nothing of what came after.
//!
//! Bytes that came go in, bytes to be sent come out. Once it is done it becomes the connection's [`Traffic`].

use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::server::{ServerConfig, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{AlertDescription, CommonState, HandshakeKind};

use crate::hello::ClientHello;
use crate::ktls::KtlsTx;
use crate::seal::SealKey;
use crate::traffic::{TrafficSecrets, Tx};
use crate::{
    ErrorKind, HandshakeInfo, KtlsAbility, KtlsKey, TlsClient, TlsError, TlsServer, TlsVersion, Traffic, record,
};

/// Most bytes kept of a server's message that isn't whole: rustls takes messages of 64 KB, and records of few bytes
/// each add to it.
const MAX_KEPT: usize = 128 * 1024;

/// The same of a client, who may be anybody: a hello, or its certificate with those of its issuers, which rustls keeps for as long as the
/// session lives and writes into tickets.
const MAX_KEPT_OF_CLIENT: usize = 24 * 1024;

/// rustls' state of a server whose hello is out (measured: 14 KB with TLS 1.3, 2 KB with TLS 1.2).
const STATE_BYTES: usize = 14 * 1024;

/// Most steps that one record takes; there is no more than a flight of messages to be sent.
const MAX_STEPS: usize = 64;

pub struct Handshake {
    side: Side,
    sni: Option<Box<str>>,
    /// Records whose message isn't whole.
    kept: Vec<u8>,
    /// The peer may have keys of it by now.
    has_spoken: bool,
    asks_peer: bool,
}

enum Side {
    /// The server's side, with the certificate that is shown.
    Server(Box<UnbufferedServerConnection>, Arc<[u8]>),
    Client(Box<UnbufferedClientConnection>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeProgress {
    Waits,
    /// The handshake is done; bytes left over belong to [`Traffic`].
    Done,
}

impl Handshake {
    /// A server's handshake with a client that asked for the name `sni` and offers the application protocols `alpn`.
    ///
    /// # Errors
    /// The settings contradict themselves.
    pub fn server<'a>(
        server: &Arc<TlsServer>,
        sni: Option<&str>,
        alpn: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<Self, TlsError> {
        Handshake::by(server, server.config(alpn), sni)
    }

    /// A server's handshake with the client that sent `hello`. HTTP/2 is offered only if `offers_http2`, whatever the
    /// settings say.
    ///
    /// # Errors
    /// The settings contradict themselves.
    pub fn answering(server: &Arc<TlsServer>, hello: &ClientHello<'_>, offers_http2: bool) -> Result<Self, TlsError> {
        Handshake::by(server, server.config_for(hello, offers_http2), hello.server_name())
    }

    fn by(server: &TlsServer, config: &Arc<ServerConfig>, sni: Option<&str>) -> Result<Self, TlsError> {
        let connection = UnbufferedServerConnection::new(config.clone())?;
        Ok(Handshake {
            side: Side::Server(Box::new(connection), server.leaf().clone()),
            sni: sni.map(Into::into),
            kept: Vec::new(),
            has_spoken: false,
            asks_peer: server.asks_clients(),
        })
    }

    /// A client's handshake with the server `name`: a host name, or an address, which is verified and not sent.
    ///
    /// # Errors
    /// `name` is neither.
    pub fn client(client: &Arc<TlsClient>, name: &str) -> Result<Self, TlsError> {
        let (name, sni) = client.server_name(name)?;
        let connection = UnbufferedClientConnection::new(client.config().clone(), name)?;
        let side = Side::Client(Box::new(connection));
        Ok(Handshake { side, sni, kept: Vec::new(), has_spoken: false, asks_peer: true })
    }

    /// Most bytes of memory that it can hold from its hello on.
    pub fn may_hold(&self) -> usize {
        STATE_BYTES + if self.asks_peer { self.max_kept() } else { 0 }
    }

    pub fn is_server(&self) -> bool {
        matches!(self.side, Side::Server(..))
    }

    /// Takes what came from the front of `received` and appends what is to be sent to `out`, also beside an error: the alert that tells the peer.
    /// A client begins without anything received.
    ///
    /// # Errors
    /// It failed, and is over.
    pub fn advance(&mut self, received: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<HandshakeProgress, TlsError> {
        let mut taken = 0;
        let advanced = self.advance_over(received, &mut taken, out);
        received.drain(..taken);
        advanced
    }

    fn advance_over(
        &mut self,
        received: &[u8],
        taken: &mut usize,
        out: &mut Vec<u8>,
    ) -> Result<HandshakeProgress, TlsError> {
        self.step(out)?;
        while !self.is_done() {
            let rest = &received[*taken..];
            let whole = match record::whole(rest) {
                Ok(whole) => whole,
                Err(error) => return Err(self.refuse(error, rest, out)),
            };
            let Some(length) = whole else { return Ok(HandshakeProgress::Waits) };
            if self.kept.len() + length > self.max_kept() {
                let error = TlsError::new(ErrorKind::Limit, "a handshake message is longer than is taken");
                let error = error.by_alert(AlertDescription::DecodeError);
                return Err(self.refuse(error, &[], out));
            }
            self.kept.extend_from_slice(&rest[..length]);
            *taken += length;
            let before = out.len();
            let stepped = self.step(out);
            self.has_spoken |= out.len() > before;
            stepped?;
        }
        Ok(HandshakeProgress::Done)
    }

    /// The negotiated parameters and the connection. Call it when the handshake is done.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn finish(self) -> Result<(Traffic, HandshakeInfo), TlsError> {
        self.finish_giving(None::<fn(KtlsKey) -> Option<KtlsAbility>>)
    }

    /// The same. `give` gets the key that seals what is sent; where it gives that to a kernel, and says so, nothing is sealed here.
    ///
    /// # Errors
    /// A fault of ours.
    pub fn finish_giving(
        self,
        give: Option<impl FnOnce(KtlsKey) -> Option<KtlsAbility>>,
    ) -> Result<(Traffic, HandshakeInfo), TlsError> {
        if !self.kept.is_empty() {
            return Err(TlsError::new(ErrorKind::Protocol, "a handshake message begins under the old key"));
        }
        let (info, secrets, next) = match self.side {
            Side::Server(connection, own) => {
                let info = info_of(&connection, self.sni, Some(own))?;
                let (secrets, next) = connection.dangerous_into_kernel_connection()?;
                let next = match info.version {
                    TlsVersion::Tls13 => TrafficSecrets::Server(Box::new(next)),
                    TlsVersion::Tls12 => TrafficSecrets::OldServer,
                };
                (info, secrets, next)
            }
            Side::Client(connection) => {
                let info = info_of(&connection, self.sni, None)?;
                let (secrets, next) = connection.dangerous_into_kernel_connection()?;
                let next = match info.version {
                    TlsVersion::Tls13 => TrafficSecrets::Client(Box::new(next)),
                    TlsVersion::Tls12 => TrafficSecrets::OldClient,
                };
                (info, secrets, next)
            }
        };
        let ability = match give {
            Some(give) => give(KtlsKey::new(info.version, secrets.tx.0, &secrets.tx.1)?),
            None => None,
        };
        let tx = match ability {
            Some(ability) => Tx::Kernel(Box::new(KtlsTx::new(info.version, ability))),
            None => Tx::Own(SealKey::new(info.version, secrets.tx)?),
        };
        Ok((Traffic::new(info.version, next, tx, secrets.rx)?, info))
    }

    fn max_kept(&self) -> usize {
        if self.is_server() { MAX_KEPT_OF_CLIENT } else { MAX_KEPT }
    }

    /// Tells the peer of an error of ours: in clear as long as nothing else was said, later by rustls, which has the keys and doesn't
    /// like the record either.
    fn refuse(&mut self, error: TlsError, record: &[u8], out: &mut Vec<u8>) -> TlsError {
        if self.has_spoken {
            self.kept.extend_from_slice(&record[..record.len().min(record::HEADER)]);
            let _ = self.step(out);
        } else if let Some(alert) = error.alert() {
            out.extend_from_slice(&record::fatal_alert(alert));
        }
        error
    }

    fn is_done(&self) -> bool {
        !self.common().is_handshaking()
    }

    fn common(&self) -> &CommonState {
        match &self.side {
            Side::Server(connection, _) => connection,
            Side::Client(connection) => connection,
        }
    }

    fn step(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        for _ in 0..MAX_STEPS {
            let (used, turn) = self.turn(out);
            self.kept.drain(..used);
            match turn {
                Ok(Turn::Goes) => {}
                Ok(Turn::Rests) => {
                    if self.kept.is_empty() {
                        self.kept = Vec::new();
                    }
                    return Ok(());
                }
                Err(error) => {
                    self.say_why(out);
                    return Err(error);
                }
            }
        }
        Err(TlsError::new(ErrorKind::Internal, "a handshake takes no end"))
    }

    /// Lets rustls write the alert that it still has for the peer after an error. Called once: asked again, rustls
    /// would look at the same record a second time, and panic.
    fn say_why(&mut self, out: &mut Vec<u8>) {
        for _ in 0..MAX_STEPS {
            if !self.common().wants_write() {
                return;
            }
            let (used, _) = self.turn(out);
            self.kept.drain(..used);
        }
    }

    fn turn(&mut self, out: &mut Vec<u8>) -> (usize, Result<Turn, TlsError>) {
        match &mut self.side {
            Side::Server(connection, _) => turn(connection.process_tls_records(&mut self.kept), out),
            Side::Client(connection) => turn(connection.process_tls_records(&mut self.kept), out),
        }
    }
}

enum Turn {
    Goes,
    Rests,
}

/// Does what rustls wants done, and says how many bytes it has used up.
fn turn<D>(status: UnbufferedStatus<'_, '_, D>, out: &mut Vec<u8>) -> (usize, Result<Turn, TlsError>) {
    let UnbufferedStatus { discard, state } = status;
    let turn = match state {
        Err(error) => Err(TlsError::from(error)),
        Ok(ConnectionState::EncodeTlsData(mut data)) => {
            let needed = match data.encode(&mut []) {
                Err(EncodeError::InsufficientSize(size)) => size.required_size,
                Ok(_) | Err(EncodeError::AlreadyEncoded) => 0,
            };
            let at = out.len();
            out.resize(at + needed, 0);
            data.encode(&mut out[at..])
                .map(|_| Turn::Goes)
                .map_err(|error| TlsError::new(ErrorKind::Internal, error.to_string()))
        }
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Turn::Goes)
        }
        Ok(ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_)) => Ok(Turn::Rests),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
            Err(TlsError::new(ErrorKind::Closed, "the peer closed during the handshake"))
        }
        Ok(_) => Err(TlsError::new(ErrorKind::Protocol, "data during the handshake")),
    };
    (discard, turn)
}

pub(crate) fn info_of(
    common: &CommonState,
    sni: Option<Box<str>>,
    own_leaf: Option<Arc<[u8]>>,
) -> Result<HandshakeInfo, TlsError> {
    let version = common.protocol_version().and_then(TlsVersion::from_rustls);
    let (Some(version), Some(suite)) = (version, common.negotiated_cipher_suite()) else {
        return Err(TlsError::new(ErrorKind::Internal, "a handshake that isn't done"));
    };
    Ok(HandshakeInfo {
        version,
        suite: u16::from(suite.suite()),
        group: common.negotiated_key_exchange_group().map_or(0, |group| u16::from(group.name())),
        resumed: common.handshake_kind() == Some(HandshakeKind::Resumed),
        early_data: false,
        sni,
        alpn: common.alpn_protocol().map(Into::into),
        peer_leaf: common.peer_certificates().and_then(<[_]>::first).map(|leaf| leaf.as_ref().into()),
        own_leaf,
        clients: None,
        fingerprint: None,
        is_compressed: false,
    })
}

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handshake").field("sni", &self.sni).field("kept", &self.kept.len()).finish_non_exhaustive()
    }
}
