// SPDX-License-Identifier: BSD-2-Clause
//! The ClientHello (RFC 8446 4.1.2, RFC 5246 7.4.1.2), read before the handshake begins: by its server name and protocols a server
//! chooses certificate and settings, and by its lists clients are recognised ([`Fingerprint`]). It is read and never answered:
//! whether it is acceptable as a whole is decided by the handshake, which gets the same bytes.

mod error;
mod finder;
mod fingerprint;
mod reader;

pub use error::HelloError;
pub use finder::{Finder, MAX_RAW_BYTES};
pub use fingerprint::{Fingerprint, HelloOutline};

use reader::Reader;

/// Numbers of extensions (registry "TLS ExtensionType Values").
mod extension {
    pub(super) const SERVER_NAME: u16 = 0;
    pub(super) const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const EC_POINT_FORMATS: u16 = 11;
    pub(super) const SIGNATURE_ALGORITHMS: u16 = 13;
    pub(super) const ALPN: u16 = 16;
    pub(super) const COMPRESS_CERTIFICATE: u16 = 27;
    pub(super) const SESSION_TICKET: u16 = 35;
    pub(super) const PRE_SHARED_KEY: u16 = 41;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;
    pub(super) const QUIC_TRANSPORT_PARAMETERS: u16 = 57;
}

const SSL3: u16 = 0x0300;

/// A protocol that is offered by who only wants to see a challenge's certificate (RFC 8737).
const ACME_TLS: &[u8] = b"acme-tls/1";

/// A parsed ClientHello. Borrows the handshake message that [`Finder::find`] has found.
#[derive(Debug, Clone, Copy)]
pub struct ClientHello<'a> {
    version: u16,
    ciphers: &'a [u8],
    extensions: &'a [u8],
    server_name: Option<&'a str>,
    alpn: &'a [u8],
    /// Body of `supported_versions`; empty without the extension.
    versions: &'a [u8],
}

impl<'a> ClientHello<'a> {
    /// Reads the body of a handshake message of type 1.
    ///
    /// # Errors
    /// [`HelloError::Malformed`] if lengths don't fit, or what a server needs of it isn't as it must be;
    /// [`HelloError::OldVersion`] for SSL 3.0 and less.
    pub fn parse(message: &'a [u8]) -> Result<Self, HelloError> {
        let mut message = Reader::new(message, "ClientHello");
        let version = message.number()?;
        if version <= SSL3 {
            return Err(HelloError::OldVersion(version));
        }
        message.take(32)?;
        if message.list8()?.len() > 32 {
            return Err(HelloError::Malformed("session id"));
        }
        let ciphers = message.list16()?;
        if ciphers.is_empty() || ciphers.len() % 2 != 0 {
            return Err(HelloError::Malformed("cipher suites"));
        }
        if message.list8()?.is_empty() {
            return Err(HelloError::Malformed("compression methods"));
        }
        let extensions = if message.is_empty() { &[] } else { message.list16()? };
        message.end()?;
        let mut hello = ClientHello { version, ciphers, extensions, server_name: None, alpn: &[], versions: &[] };
        hello.read_extensions()?;
        Ok(hello)
    }

    fn read_extensions(&mut self) -> Result<(), HelloError> {
        let mut extensions = Reader::new(self.extensions, "extensions");
        while !extensions.is_empty() {
            let kind = extensions.number()?;
            let body = extensions.list16()?;
            match kind {
                extension::SERVER_NAME => self.server_name = Some(server_name(body)?),
                extension::ALPN => self.alpn = protocols(body)?,
                extension::SUPPORTED_VERSIONS => self.versions = versions(body)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The version in the hello itself, which TLS 1.3 leaves at 1.2 (0x0303).
    pub fn version(&self) -> u16 {
        self.version
    }

    /// The newest version on offer, whatever place says so.
    pub fn newest_version(&self) -> u16 {
        numbers(self.versions).filter(|version| !is_grease(*version)).max().unwrap_or(self.version)
    }

    pub fn offers_tls13(&self) -> bool {
        numbers(self.versions).any(|version| version == 0x0304)
    }

    /// The ticket of a session of TLS 1.2 that it wants to take up again.
    pub fn ticket(&self) -> Option<&'a [u8]> {
        self.extension(extension::SESSION_TICKET).filter(|ticket| !ticket.is_empty())
    }

    /// True if the client wants to resume a session of TLS 1.3.
    pub fn has_psk(&self) -> bool {
        self.extension(extension::PRE_SHARED_KEY).is_some()
    }

    /// True if the client decompresses certificates of one of our algorithms: zlib (1) or br (2).
    fn takes_compressed_certificates(&self) -> bool {
        let list =
            self.extension(extension::COMPRESS_CERTIFICATE).and_then(|body| Reader::new(body, "list").list8().ok());
        numbers(list.unwrap_or_default()).any(|algorithm| matches!(algorithm, 1 | 2))
    }

    /// The host that the client wants to speak with (SNI): printable ASCII, as the client wrote it, not always a valid name.
    pub fn server_name(&self) -> Option<&'a str> {
        self.server_name
    }

    /// The protocols on offer (ALPN), by the client's preference.
    pub fn alpn(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = Reader::new(self.alpn, "ALPN");
        std::iter::from_fn(move || rest.list8().ok())
    }

    /// True if only a challenge's certificate is wanted (ACME's TLS-ALPN-01): nothing else is on offer.
    pub fn is_acme_challenge(&self) -> bool {
        self.alpn().eq([ACME_TLS])
    }

    /// The cipher suites on offer, by the client's preference.
    pub fn ciphers(&self) -> impl Iterator<Item = u16> + use<'a> {
        numbers(self.ciphers)
    }

    /// Numbers and bodies of the extensions in the order in which they were sent.
    pub fn extensions(&self) -> impl Iterator<Item = (u16, &'a [u8])> + use<'a> {
        let mut rest = Reader::new(self.extensions, "extensions");
        std::iter::from_fn(move || Some((rest.number().ok()?, rest.list16().ok()?)))
    }

    pub fn extension(&self, wanted: u16) -> Option<&'a [u8]> {
        self.extensions().find(|(kind, _)| *kind == wanted).map(|(_, body)| body)
    }

    fn point_formats(&self) -> &'a [u8] {
        let body = self.extension(extension::EC_POINT_FORMATS).and_then(<[u8]>::split_first);
        body.map_or(&[], |(_, formats)| formats)
    }

    /// A list of 16-bit numbers that is all of an extension; empty if it isn't there or isn't one.
    fn numbers_of(&self, wanted: u16) -> impl Iterator<Item = u16> + use<'a> {
        let list = self.extension(wanted).and_then(|body| Reader::new(body, "list").list16().ok());
        numbers(list.unwrap_or_default())
    }
}

fn numbers(bytes: &[u8]) -> impl Iterator<Item = u16> + '_ {
    bytes.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]]))
}

/// Numbers that clients make up so that servers get used to unknown ones (RFC 8701): 0x0a0a, 0x1a1a .. 0xfafa.
fn is_grease(number: u16) -> bool {
    let [high, low] = number.to_be_bytes();
    high == low && low & 0x0f == 0x0a
}

/// The first entry of the list, which has no other kind than host names and no second one in practice.
fn server_name(body: &[u8]) -> Result<&str, HelloError> {
    const WHAT: &str = "server name";
    let mut body = Reader::new(body, WHAT);
    let mut list = Reader::new(body.list16()?, WHAT);
    body.end()?;
    let is_host = list.take(1)? == [0];
    let name = list.list16()?;
    if !is_host || name.is_empty() || name.len() > 255 || !name.iter().all(u8::is_ascii_graphic) {
        return Err(HelloError::Malformed(WHAT));
    }
    std::str::from_utf8(name).map_err(|_| HelloError::Malformed(WHAT))
}

fn protocols(body: &[u8]) -> Result<&[u8], HelloError> {
    let mut body = Reader::new(body, "ALPN");
    let list = body.list16()?;
    body.end()?;
    let mut names = Reader::new(list, "ALPN");
    while !names.is_empty() {
        if names.list8()?.is_empty() {
            return Err(HelloError::Malformed("ALPN"));
        }
    }
    if list.is_empty() { Err(HelloError::Malformed("ALPN")) } else { Ok(list) }
}

fn versions(body: &[u8]) -> Result<&[u8], HelloError> {
    let mut body = Reader::new(body, "supported versions");
    let list = body.list8()?;
    body.end()?;
    if list.is_empty() || list.len() % 2 != 0 { Err(HelloError::Malformed("supported versions")) } else { Ok(list) }
}

#[cfg(test)]
mod tests;
