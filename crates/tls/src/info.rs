// SPDX-License-Identifier: BSD-2-Clause
//! What a handshake agreed on, for VCL and the log.

use std::sync::Arc;

use rustls::{CipherSuite, ProtocolVersion};

use crate::hello::Fingerprint;
use crate::server::ClientPolicy;

/// A version of TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// RFC 5246.
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl Version {
    /// As OpenSSL, VCL and the log write it.
    pub fn name(self) -> &'static str {
        match self {
            Version::Tls12 => "TLSv1.2",
            Version::Tls13 => "TLSv1.3",
        }
    }

    pub(crate) fn from_rustls(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(Version::Tls12),
            ProtocolVersion::TLSv1_3 => Some(Version::Tls13),
            _ => None,
        }
    }
}

/// What a handshake agreed on.
#[derive(Clone, Debug)]
pub struct Info {
    /// The version.
    pub version: Version,
    /// The cipher suite's number in the registry.
    pub suite: u16,
    /// The key exchange group's number; 0 where none was used (TLS 1.2, resumed).
    pub group: u16,
    /// Whether an earlier session was taken up again.
    pub resumed: bool,
    /// Whether what the client sends before the handshake's end is taken (early data).
    pub early_data: bool,
    /// The name that the client asked for.
    pub sni: Option<Box<str>>,
    /// The application protocol.
    pub alpn: Option<Box<[u8]>>,
    /// The peer's own certificate in DER. Those of its issuers are done with once it is verified.
    pub peer_leaf: Option<Box<[u8]>>,
    /// The certificate that we showed to a client. Nothing else of ours is held for as long as the connection lives, least of all the key.
    pub own_leaf: Option<Arc<[u8]>>,
    /// What was asked of the client, where it could have been asked something else; whoever chose the certificate sets it.
    pub clients: Option<ClientPolicy>,
    /// By what a client can be recognised; whoever reads its hello sets it.
    pub fingerprint: Option<Box<Fingerprint>>,
}

impl Info {
    /// The cipher suite as OpenSSL calls it.
    pub fn cipher(&self) -> &'static str {
        SUITES.iter().find(|(suite, _)| u16::from(*suite) == self.suite).map_or("", |(_, name)| name)
    }

    /// The key exchange group's name in the registry.
    pub fn group_name(&self) -> Option<&'static str> {
        GROUPS.iter().find(|(group, _)| *group == self.group).map(|(_, name)| *name)
    }

    /// The certificate that we showed to a client.
    pub fn own_leaf(&self) -> Option<&[u8]> {
        self.own_leaf.as_deref()
    }

    /// The peer's own certificate.
    pub fn peer_leaf(&self) -> Option<&[u8]> {
        self.peer_leaf.as_deref()
    }
}

/// Groups that rustls has with one of its providers.
const GROUPS: [(u16, &str); 5] =
    [(23, "secp256r1"), (24, "secp384r1"), (25, "secp521r1"), (29, "X25519"), (0x11ec, "X25519MLKEM768")];

/// All that we speak.
const SUITES: [(CipherSuite, &str); 9] = [
    (CipherSuite::TLS13_AES_128_GCM_SHA256, "TLS_AES_128_GCM_SHA256"),
    (CipherSuite::TLS13_AES_256_GCM_SHA384, "TLS_AES_256_GCM_SHA384"),
    (CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, "TLS_CHACHA20_POLY1305_SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, "ECDHE-ECDSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-ECDSA-CHACHA20-POLY1305"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, "ECDHE-RSA-AES128-GCM-SHA256"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384, "ECDHE-RSA-AES256-GCM-SHA384"),
    (CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, "ECDHE-RSA-CHACHA20-POLY1305"),
];
