// SPDX-License-Identifier: BSD-2-Clause
//! A connection after its handshake: records out of plaintext and plaintext out of records, and what TLS itself says in between
//! (alerts, new keys, tickets). It holds keys and no buffer.
//!
//! What a peer can do without end is bounded here: empty records, warnings, changes of keys, requests to negotiate again.

use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{AlertDescription, ConnectionTrafficSecrets, HandshakeType};

use crate::error::from_alert;
use crate::ktls::{self, KtlsTx};
use crate::record::Content;
use crate::seal::SealKey;
use crate::{ErrorKind, KtlsKey, TlsError, TlsVersion};

/// The longest message that is taken after the handshake: tickets are the longest there are.
const MAX_MESSAGE: usize = 16 * 1024;

/// Bytes of a handshake message's type and length.
const MESSAGE_HEADER: usize = 4;

/// Value of a key update that requests none from the peer (RFC 8446 4.6.3).
const NOT_REQUESTED: u8 = 0;
/// Value of a key update that requests one (update_requested).
const REQUESTED: u8 = 1;

const WARNING: u8 = 1;
const FATAL: u8 = 2;

#[derive(Debug)]
pub struct Traffic {
    tx: Tx,
    rx: SealKey,
    version: TlsVersion,
    secrets: TrafficSecrets,
    /// The beginning of a handshake message whose rest is in the next record.
    message: Vec<u8>,
    limits: Limits,
    /// Our answer to a request for new keys may still be on its way: it answers all that come until then.
    is_answering: bool,
    /// Either side said that it sends nothing more, or failed.
    peer_closed: bool,
    we_closed: bool,
}

/// The side that seals: this process or the kernel.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a box would be an allocation a connection, and a step further on the way of each record"
)]
pub(crate) enum Tx {
    Own(SealKey),
    Kernel(Box<KtlsTx>),
}

impl Tx {
    fn is_used_up(&self) -> bool {
        match self {
            Tx::Own(key) => key.is_used_up(),
            Tx::Kernel(kernel) => kernel.is_used_up(),
        }
    }

    fn seal(&mut self, content: Content, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), TlsError> {
        match self {
            Tx::Own(key) => key.seal(content, out, fill),
            Tx::Kernel(_) => {
                ktls::put(content, out, fill);
                Ok(())
            }
        }
    }
}

pub(crate) enum TrafficSecrets {
    Server(Box<KernelConnection<ServerConnectionData>>),
    Client(Box<KernelConnection<ClientConnectionData>>),
    /// TLS 1.2 has one pair of keys.
    OldServer,
    OldClient,
}

/// Remaining allowance for messages that cost us CPU and carry nothing.
#[derive(Debug)]
struct Limits {
    empties: u8,
    warnings: u8,
    key_updates: u8,
    renegotiations: u8,
    tickets: u8,
    /// Records that end within a message.
    pieces: u8,
    /// Bytes of data that no further key update was allowed for.
    carried: usize,
}

impl Limits {
    /// In a row, as BoringSSL has them.
    const EMPTIES: u8 = 32;
    const KEY_UPDATES: u8 = 32;
    const TICKETS: u8 = 16;
    const PIECES: u8 = 64;

    /// Bytes of data that earn the peer another key update.
    const BYTES_A_KEY: usize = 4096;

    const fn new() -> Self {
        Limits {
            empties: Self::EMPTIES,
            warnings: 4,
            key_updates: Self::KEY_UPDATES,
            renegotiations: 1,
            tickets: Self::TICKETS,
            pieces: Self::PIECES,
            carried: 0,
        }
    }

    /// Data came: what is counted in a row begins anew. A byte is no reason for new keys.
    fn progress(&mut self, bytes: usize) {
        (self.empties, self.tickets, self.pieces) = (Self::EMPTIES, Self::TICKETS, Self::PIECES);
        self.carried += bytes;
        if self.carried >= Self::BYTES_A_KEY {
            self.carried = 0;
            self.key_updates = Self::KEY_UPDATES.min(self.key_updates + 1);
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub enum OpenedRecord<'a> {
    /// Plaintext, at least a byte of it.
    Data(&'a mut [u8]),
    Nothing,
    Closed,
}

impl Traffic {
    pub(crate) fn new(
        version: TlsVersion,
        secrets: TrafficSecrets,
        tx: Tx,
        rx: (u64, ConnectionTrafficSecrets),
    ) -> Result<Self, TlsError> {
        Ok(Traffic {
            tx,
            rx: SealKey::new(version, rx)?,
            version,
            secrets,
            message: Vec::new(),
            is_answering: false,
            limits: Limits::new(),
            peer_closed: false,
            we_closed: false,
        })
    }

    /// Takes one whole record ([`crate::record::whole`]), which is opened where it lies. What the peer is to be told is appended
    /// to `replies`, also beside an error.
    ///
    /// # Errors
    /// The connection is over; the alert is in `replies`.
    pub fn open<'a>(&mut self, record: &'a mut [u8], replies: &mut Vec<u8>) -> Result<OpenedRecord<'a>, TlsError> {
        let taken = self.take(record, replies);
        if let Err(error) = &taken {
            self.fail(error, replies);
        }
        taken
    }

    pub fn sealed_len(&self, plain: usize) -> usize {
        match &self.tx {
            Tx::Own(key) => key.sealed_len(plain),
            Tx::Kernel(_) => plain + ktls::RECORD_HEADER,
        }
    }

    /// True if the kernel seals. Data goes to it as plaintext, and what is appended to `out` and `replies` are records
    /// for it ([`crate::ktls::record`]).
    pub fn is_sealed_by_kernel(&self) -> bool {
        matches!(self.tx, Tx::Kernel(_))
    }

    /// Before data goes: what has to go first is appended to `out`.
    ///
    /// # Errors
    /// We have said that nothing more comes, or the key is used up and there is no other.
    pub fn prepare_data(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        if self.we_closed {
            return Err(TlsError::new(ErrorKind::Closed, "the connection is closed"));
        }
        if self.tx.is_used_up() { self.next_tx_key(out) } else { Ok(()) }
    }

    pub fn note_given(&mut self, bytes: usize) {
        if let Tx::Kernel(kernel) = &mut self.tx {
            kernel.note_given(bytes);
        }
    }

    /// The key that the kernel gets once it has the record that tells of it ([`crate::ktls::is_key_update`]).
    pub fn take_kernel_key(&mut self) -> Option<KtlsKey> {
        match &mut self.tx {
            Tx::Own(_) => None,
            Tx::Kernel(kernel) => kernel.next_keys.pop_front(),
        }
    }

    /// Appends a record of data to `out`. `fill` appends its plaintext, at most [`crate::record::MAX_PLAINTEXT`] bytes.
    ///
    /// # Errors
    /// We have said that nothing more comes, or TLS 1.2's only key is used up.
    pub fn seal(&mut self, out: &mut Vec<u8>, fill: impl FnOnce(&mut Vec<u8>)) -> Result<(), TlsError> {
        self.prepare_data(out)?;
        self.tx.seal(Content::Data, out, fill)
    }

    /// Says that nothing more comes. The second time it has been said.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if !self.we_closed {
            self.send_alert(WARNING, u8::from(AlertDescription::CloseNotify), out);
            self.we_closed = true;
        }
    }

    /// Gives up because of what came that was no whole record, and tells the peer.
    pub fn fail(&mut self, error: &TlsError, out: &mut Vec<u8>) {
        if let Some(alert) = error.alert().filter(|_| !self.we_closed) {
            self.send_alert(FATAL, alert, out);
        }
        (self.we_closed, self.peer_closed) = (true, true);
    }

    pub fn replies_are_sent(&mut self) {
        self.is_answering = false;
    }

    pub fn peer_closed(&self) -> bool {
        self.peer_closed
    }

    pub fn we_closed(&self) -> bool {
        self.we_closed
    }

    fn take<'a>(&mut self, record: &'a mut [u8], replies: &mut Vec<u8>) -> Result<OpenedRecord<'a>, TlsError> {
        if self.peer_closed {
            // RFC 8446 6.1: what comes after the end is ignored.
            return Ok(OpenedRecord::Closed);
        }
        let (content, plain) = self.rx.open(record)?;
        match content {
            Content::Data if !self.message.is_empty() => Err(unexpected("data within a handshake message")),
            Content::Data if plain.is_empty() => {
                spend(&mut self.limits.empties, "empty records")?;
                Ok(OpenedRecord::Nothing)
            }
            Content::Data => {
                self.limits.progress(plain.len());
                Ok(OpenedRecord::Data(plain))
            }
            Content::Alert => self.alert(plain),
            Content::Handshake => self.handshake(plain, replies).map(|()| OpenedRecord::Nothing),
            Content::ChangeCipherSpec => Err(unexpected("a change of ciphers after the handshake")),
        }
    }

    fn alert(&mut self, plain: &[u8]) -> Result<OpenedRecord<'static>, TlsError> {
        let &[level, code] = plain else {
            return Err(malformed("an alert that isn't two bytes long"));
        };
        if code == u8::from(AlertDescription::CloseNotify) {
            self.peer_closed = true;
            return Ok(OpenedRecord::Closed);
        }
        // RFC 8446 6: whatever the level says, all but these two are fatal.
        let is_warning = match self.version {
            TlsVersion::Tls13 => code == u8::from(AlertDescription::UserCanceled),
            TlsVersion::Tls12 => level == WARNING,
        };
        if !is_warning {
            self.peer_closed = true;
            return Err(from_alert(code));
        }
        spend(&mut self.limits.warnings, "warnings")?;
        Ok(OpenedRecord::Nothing)
    }

    fn handshake(&mut self, plain: &[u8], replies: &mut Vec<u8>) -> Result<(), TlsError> {
        if plain.is_empty() {
            return Err(unexpected("an empty handshake record"));
        }
        let mut bytes = std::mem::take(&mut self.message);
        bytes.extend_from_slice(plain);
        let mut rest = &bytes[..];
        while let Some((kind, body, after)) = self.next_message(rest)? {
            self.message(kind, body, after, replies)?;
            rest = after;
        }
        let done = bytes.len() - rest.len();
        if done < bytes.len() {
            spend(&mut self.limits.pieces, "pieces of a message")?;
            bytes.drain(..done);
            self.message = bytes;
        }
        Ok(())
    }

    /// The first message in `bytes`, once it is whole. One that has no place here is refused as soon as its header is there.
    fn next_message<'a>(&self, bytes: &'a [u8]) -> Result<Option<Message<'a>>, TlsError> {
        let Some((&[kind, a, b, c], rest)) = bytes.split_first_chunk::<MESSAGE_HEADER>() else { return Ok(None) };
        let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
        match (HandshakeType::from(kind), &self.secrets) {
            (HandshakeType::KeyUpdate, TrafficSecrets::Server(_) | TrafficSecrets::Client(_)) if length != 1 => {
                return Err(malformed("a key update that isn't one byte long"));
            }
            (HandshakeType::KeyUpdate, TrafficSecrets::Server(_) | TrafficSecrets::Client(_))
            | (HandshakeType::NewSessionTicket, TrafficSecrets::Client(_))
            | (HandshakeType::ClientHello, TrafficSecrets::OldServer)
            | (HandshakeType::HelloRequest, TrafficSecrets::OldClient) => {}
            _ => return Err(unexpected("a handshake message after the handshake")),
        }
        if length > MAX_MESSAGE {
            let error = TlsError::new(ErrorKind::Limit, "a handshake message is longer than is taken");
            return Err(error.by_alert(AlertDescription::DecodeError));
        }
        Ok(rest.split_at_checked(length).map(|(body, after)| (kind, body, after)))
    }

    fn message(&mut self, kind: u8, body: &[u8], after: &[u8], replies: &mut Vec<u8>) -> Result<(), TlsError> {
        match (HandshakeType::from(kind), &mut self.secrets) {
            (HandshakeType::KeyUpdate, TrafficSecrets::Server(_) | TrafficSecrets::Client(_)) => {
                self.key_update(body, after, replies)
            }
            (HandshakeType::NewSessionTicket, TrafficSecrets::Client(secrets)) => {
                spend(&mut self.limits.tickets, "tickets")?;
                secrets.handle_new_session_ticket(body).map_err(TlsError::from)
            }
            (HandshakeType::ClientHello, TrafficSecrets::OldServer)
            | (HandshakeType::HelloRequest, TrafficSecrets::OldClient) => {
                spend(&mut self.limits.renegotiations, "requests to negotiate again")?;
                self.send_alert(WARNING, u8::from(AlertDescription::NoRenegotiation), replies);
                Ok(())
            }
            _ => Err(unexpected("a handshake message after the handshake")),
        }
    }

    /// The peer seals with its next key from here on, and may want us to, too (RFC 8446 4.6.3).
    fn key_update(&mut self, body: &[u8], after: &[u8], replies: &mut Vec<u8>) -> Result<(), TlsError> {
        let &[is_request] = body else { return Err(malformed("a key update that isn't one byte long")) };
        if is_request > 1 {
            let error = TlsError::new(ErrorKind::Protocol, "a key update that asks for what there isn't");
            return Err(error.by_alert(AlertDescription::IllegalParameter));
        }
        if !after.is_empty() {
            return Err(unexpected("more behind a key update, under the old key"));
        }
        spend(&mut self.limits.key_updates, "key updates")?;
        self.rx = SealKey::new(self.version, self.secrets.next_rx()?)?;
        if is_request == 1 && !self.we_closed && !self.is_answering {
            self.next_tx_key(replies)?;
            self.is_answering = true;
        }
        Ok(())
    }

    fn next_tx_key(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.change_tx_key(NOT_REQUESTED, out)
    }

    /// Changes our key, and asks the peer to do so, too: TLS 1.3 only.
    ///
    /// # Errors
    /// The keys of this connection can't be changed.
    pub fn request_new_keys(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.change_tx_key(REQUESTED, out)
    }

    /// Seals with the next key from here on, and says so.
    fn change_tx_key(&mut self, request: u8, out: &mut Vec<u8>) -> Result<(), TlsError> {
        let (version, secrets) = (self.version, &mut self.secrets);
        let update = [u8::from(HandshakeType::KeyUpdate), 0, 0, 1, request];
        match &mut self.tx {
            Tx::Own(key) => {
                let next = secrets.next_tx()?;
                key.seal(Content::Handshake, out, |plain| plain.extend_from_slice(&update))?;
                *key = SealKey::new(version, next)?;
                Ok(())
            }
            Tx::Kernel(kernel) => kernel.change_key(&update, out, || {
                let (sequence, next) = secrets.next_tx()?;
                KtlsKey::new(version, sequence, &next)
            }),
        }
    }

    fn send_alert(&mut self, level: u8, code: u8, out: &mut Vec<u8>) {
        // Two bytes always fit, and an alert that can't be sealed isn't missed by anybody.
        let _ = self.tx.seal(Content::Alert, out, |plain| plain.extend_from_slice(&[level, code]));
    }
}

impl TrafficSecrets {
    fn next_tx(&mut self) -> Result<(u64, ConnectionTrafficSecrets), TlsError> {
        match self {
            TrafficSecrets::Server(secrets) => Ok(secrets.update_tx_secret()?),
            TrafficSecrets::Client(secrets) => Ok(secrets.update_tx_secret()?),
            TrafficSecrets::OldServer | TrafficSecrets::OldClient => {
                Err(TlsError::new(ErrorKind::Exhausted, "the connection has sealed as much as its key may"))
            }
        }
    }

    fn next_rx(&mut self) -> Result<(u64, ConnectionTrafficSecrets), TlsError> {
        match self {
            TrafficSecrets::Server(secrets) => Ok(secrets.update_rx_secret()?),
            TrafficSecrets::Client(secrets) => Ok(secrets.update_rx_secret()?),
            TrafficSecrets::OldServer | TrafficSecrets::OldClient => Err(unexpected("a key update in TLS 1.2")),
        }
    }
}

impl std::fmt::Debug for TrafficSecrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            TrafficSecrets::Server(_) | TrafficSecrets::OldServer => "of a server",
            TrafficSecrets::Client(_) | TrafficSecrets::OldClient => "of a client",
        })
    }
}

/// A handshake message: its type, its body, and what follows it.
type Message<'a> = (u8, &'a [u8], &'a [u8]);

/// One of a few: an error when there is none left.
fn spend(left: &mut u8, what: &str) -> Result<(), TlsError> {
    *left = left.checked_sub(1).ok_or_else(|| unexpected(&format!("too many {what}")))?;
    Ok(())
}

fn unexpected(text: &str) -> TlsError {
    TlsError::new(ErrorKind::Protocol, text)
}

fn malformed(text: &str) -> TlsError {
    TlsError::new(ErrorKind::Protocol, text).by_alert(AlertDescription::DecodeError)
}

#[cfg(test)]
impl Traffic {
    pub(crate) fn seal_as(&mut self, content: Content, plain: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        self.tx.seal(content, &mut out, |text| text.extend_from_slice(plain)).unwrap();
        out
    }

    pub(crate) fn request_key_update(&mut self, out: &mut Vec<u8>) {
        self.request_new_keys(out).unwrap();
    }

    /// Acts as if `records` had gone each way.
    pub(crate) fn age(&mut self, records: u64) {
        match &mut self.tx {
            Tx::Own(key) => key.age(records),
            Tx::Kernel(kernel) => (0..records).for_each(|_| kernel.note_given(1)),
        }
        self.rx.age(records);
    }
}
