// SPDX-License-Identifier: BSD-2-Clause
//! What a handshake agreed on, for VCL and the log.

use std::sync::Arc;

use rustls::{CipherSuite, NamedGroup, ProtocolVersion};

use crate::groups;
use crate::hello::{Fingerprint, HelloOutline};
use crate::server::ClientPolicy;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TlsVersion {
    Tls12,
    Tls13,
}

impl TlsVersion {
    /// The version's name as OpenSSL, VCL and the log write it.
    pub fn name(self) -> &'static str {
        match self {
            TlsVersion::Tls12 => "TLSv1.2",
            TlsVersion::Tls13 => "TLSv1.3",
        }
    }

    pub(crate) fn from_rustls(version: ProtocolVersion) -> Option<Self> {
        match version {
            ProtocolVersion::TLSv1_2 => Some(TlsVersion::Tls12),
            ProtocolVersion::TLSv1_3 => Some(TlsVersion::Tls13),
            _ => None,
        }
    }
}

#[derive(Clone, Debug)]
pub struct HandshakeInfo {
    pub version: TlsVersion,
    /// The cipher suite's number in the registry.
    pub suite: u16,
    /// The key exchange group's number; 0 where none was used (TLS 1.2, resumed).
    pub group: u16,
    pub resumed: bool,
    pub early_data: bool,
    pub sni: Option<Box<str>>,
    pub alpn: Option<Box<[u8]>>,
    /// The peer's own certificate in DER. Those of its issuers are done with once it is verified.
    pub peer_leaf: Option<Box<[u8]>>,
    /// The certificate that we showed to a client. Nothing else of ours is held for as long as the connection lives, least of all the key.
    pub own_leaf: Option<Arc<[u8]>>,
    /// The policy for the client, if another host has a different one.
    pub clients: Option<ClientPolicy>,
    pub fingerprint: Option<Box<Fingerprint>>,
    /// A client got our certificates compressed.
    pub is_compressed: bool,
}

impl HandshakeInfo {
    /// The same with what is known of the client alone.
    #[must_use]
    pub fn of_client(self, hello: &HelloOutline, clients: Option<ClientPolicy>, with_ja3: bool) -> Self {
        let is_compressed = self.version == TlsVersion::Tls13 && !self.resumed && hello.takes_compressed_certificates;
        HandshakeInfo { fingerprint: Some(Box::new(Fingerprint::new(hello, with_ja3))), clients, is_compressed, ..self }
    }

    /// The cipher suite as OpenSSL calls it.
    pub fn cipher(&self) -> &'static str {
        SUITES.iter().find(|(suite, _)| u16::from(*suite) == self.suite).map_or("", |(_, name)| name)
    }

    /// The key exchange group's name in the registry.
    pub fn group_name(&self) -> Option<&'static str> {
        groups::name(self.group)
    }

    /// True if a recorded connection can't be read later by a quantum computer: its keys come from ML-KEM, too.
    pub fn is_post_quantum(&self) -> bool {
        self.group == u16::from(NamedGroup::X25519MLKEM768)
    }

    pub fn own_leaf(&self) -> Option<&[u8]> {
        self.own_leaf.as_deref()
    }

    pub fn peer_leaf(&self) -> Option<&[u8]> {
        self.peer_leaf.as_deref()
    }
}

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
