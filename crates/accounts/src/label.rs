// SPDX-License-Identifier: BSD-2-Clause
//! The name of an account as bytes of fixed size. It becomes text when a report or a log record is written, which is after the unlock.

use std::fmt;
use std::net::IpAddr;

use crate::account::Level;

const LABEL_BYTES: usize = 40;

/// An address, the number of a network, or up to 40 bytes of text, as its level says.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Label {
    level: Level,
    length: u8,
    bytes: [u8; LABEL_BYTES],
}

impl Label {
    pub(crate) const EMPTY: Label = Label { level: Level::Client, length: 0, bytes: [0; LABEL_BYTES] };

    /// Longer text is cut.
    pub(crate) fn new(level: Level, text: &[u8]) -> Self {
        let length = text.len().min(LABEL_BYTES);
        let mut label = Label { level, length: length as u8, ..Label::EMPTY };
        label.bytes[..length].copy_from_slice(&text[..length]);
        label
    }

    /// `address` is masked already.
    pub(crate) fn of_address(level: Level, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(v4) => Label::new(level, &v4.octets()),
            IpAddr::V6(v6) => Label::new(level, &v6.octets()),
        }
    }

    pub(crate) fn of_network(number: u32) -> Self {
        Label::new(Level::Network, &number.to_be_bytes())
    }

    pub fn level(&self) -> Level {
        self.level
    }

    fn text(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    fn address(&self) -> Option<IpAddr> {
        let v4 = <[u8; 4]>::try_from(self.text()).map(IpAddr::from);
        v4.or_else(|_| <[u8; 16]>::try_from(self.text()).map(IpAddr::from)).ok()
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.level {
            Level::Client | Level::Prefix | Level::Wide => match self.address() {
                Some(address) if address.is_ipv4() && self.level == Level::Client => write!(f, "{address}"),
                Some(address) => write!(f, "{address}/{}", bits(address, self.level)),
                None => Ok(()),
            },
            Level::Network => {
                write!(f, "AS{}", self.text().try_into().map_or(0, u32::from_be_bytes))
            }
            Level::Tls | Level::Agent | Level::Bot => f.write_str(&String::from_utf8_lossy(self.text())),
        }
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {self}", self.level.word())
    }
}

/// Bits of an address that name its client, prefix or wide prefix. An IPv6 client has a /64.
pub(crate) fn bits(address: IpAddr, level: Level) -> u8 {
    match (address, level) {
        (IpAddr::V4(_), Level::Client) => 32,
        (IpAddr::V4(_), Level::Prefix) => 24,
        (IpAddr::V4(_), _) => 16,
        (IpAddr::V6(_), Level::Client) => 64,
        (IpAddr::V6(_), Level::Prefix) => 56,
        (IpAddr::V6(_), _) => 32,
    }
}
