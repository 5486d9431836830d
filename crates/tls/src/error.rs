// SPDX-License-Identifier: BSD-2-Clause
//! Why a handshake or a connection failed: a kind, for counters and decisions, and words, for the log.

use std::fmt;

use rustls::{AlertDescription, InvalidMessage, PeerIncompatible};

/// Kinds of failure, one variant for each that is counted or handled differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    NotTls,
    Version,
    /// No cipher suite, group, signature scheme or application protocol in common.
    Parameters,
    Name,
    Certificate,
    Alert(u8),
    Protocol,
    /// A record isn't what was sealed: another key, or changed on its way.
    Decrypt,
    /// Longer, or more of it, than is taken.
    Limit,
    Closed,
    /// These keys have sealed as much as they may.
    Exhausted,
    Internal,
}

impl ErrorKind {
    /// The alert that tells the peer (RFC 8446 6.2); none where it knows.
    fn alert(self) -> Option<u8> {
        let alert = match self {
            ErrorKind::Alert(_) | ErrorKind::Closed => return None,
            ErrorKind::NotTls | ErrorKind::Protocol => AlertDescription::UnexpectedMessage,
            ErrorKind::Version => AlertDescription::ProtocolVersion,
            ErrorKind::Parameters => AlertDescription::HandshakeFailure,
            ErrorKind::Name => AlertDescription::UnrecognisedName,
            ErrorKind::Certificate => AlertDescription::BadCertificate,
            ErrorKind::Decrypt => AlertDescription::BadRecordMac,
            ErrorKind::Limit => AlertDescription::RecordOverflow,
            ErrorKind::Exhausted | ErrorKind::Internal => AlertDescription::InternalError,
        };
        Some(u8::from(alert))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError {
    kind: ErrorKind,
    alert: Option<u8>,
    text: Box<str>,
}

impl TlsError {
    pub fn new(kind: ErrorKind, text: impl Into<Box<str>>) -> Self {
        TlsError { kind, alert: kind.alert(), text: text.into() }
    }

    /// Sets the alert that the peer hears, in place of the usual one for this kind.
    pub(crate) fn by_alert(self, alert: AlertDescription) -> Self {
        TlsError { alert: Some(u8::from(alert)), ..self }
    }

    pub fn alert(&self) -> Option<u8> {
        self.alert
    }

    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        let text = match &error {
            rustls::Error::InvalidCertificate(error) => crate::verify::reason(error),
            error => error.to_string(),
        };
        TlsError::new(kind_of(&error), text)
    }
}

fn kind_of(error: &rustls::Error) -> ErrorKind {
    match error {
        rustls::Error::AlertReceived(alert) => ErrorKind::Alert(u8::from(*alert)),
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => ErrorKind::Certificate,
        rustls::Error::PeerIncompatible(what) => incompatible(what),
        rustls::Error::NoApplicationProtocol => ErrorKind::Parameters,
        rustls::Error::DecryptError => ErrorKind::Decrypt,
        rustls::Error::PeerSentOversizedRecord
        | rustls::Error::InvalidMessage(InvalidMessage::HandshakePayloadTooLarge | InvalidMessage::MessageTooLarge) => {
            ErrorKind::Limit
        }
        rustls::Error::InappropriateMessage { .. }
        | rustls::Error::InappropriateHandshakeMessage { .. }
        | rustls::Error::InvalidMessage(_)
        | rustls::Error::PeerMisbehaved(_) => ErrorKind::Protocol,
        _ => ErrorKind::Internal,
    }
}

fn incompatible(what: &PeerIncompatible) -> ErrorKind {
    match what {
        PeerIncompatible::ServerDoesNotSupportTls12Or13
        | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig
        | PeerIncompatible::SupportedVersionsExtensionRequired
        | PeerIncompatible::Tls12NotOffered
        | PeerIncompatible::Tls12NotOfferedOrEnabled
        | PeerIncompatible::Tls13RequiredForQuic => ErrorKind::Version,
        _ => ErrorKind::Parameters,
    }
}

pub(crate) fn from_alert(code: u8) -> TlsError {
    TlsError::from(rustls::Error::AlertReceived(AlertDescription::from(code)))
}
