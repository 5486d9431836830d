// SPDX-License-Identifier: BSD-2-Clause
//! Reasons by the numbers and names that OpenSSL's library gives them: programs that watch logs look for these.

use std::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])* $variant:ident = $number:literal $name:literal;)*) => {
        /// Reasons why connections fail, in OpenSSL's words.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum TlsReason {
            $($(#[doc = $doc])* $variant,)*
            /// The peer's alert of that number.
            Alert(u8),
        }

        impl TlsReason {
            fn number(self) -> u32 {
                match self { $(TlsReason::$variant => $number,)* TlsReason::Alert(alert) => 1000 + u32::from(alert) }
            }

            fn name(self) -> Option<&'static str> {
                match self { $(TlsReason::$variant => Some($name),)* TlsReason::Alert(alert) => alert_name(alert) }
            }
        }
    };
}

reasons! {
    NoKeyShare = 101 "no suitable key share";
    NoSignature = 118 "no suitable signature algorithm";
    BadCertificate = 134 "certificate verify failed";
    /// A request to a proxy, in clear.
    ProxyRequest = 155 "https proxy request";
    HttpRequest = 156 "http request";
    Length = 159 "length mismatch";
    NoSharedCipher = 193 "no shared cipher";
    TooLong = 198 "packet length too long";
    NoPeerCertificate = 199 "peer did not return a certificate";
    /// There is no certificate for the name.
    ServerName = 226 "clienthello tlsext";
    UnexpectedMessage = 244 "unexpected message";
    Version = 258 "unsupported protocol";
    /// A fault of this side.
    Internal = 259 "internal error";
    WrongVersion = 267 "wrong version number";
    Decrypt = 281 "decryption failed or bad record mac";
    Eof = 294 "unexpected eof while reading";
}

/// Names of alerts (RFC 8446 6.2) as OpenSSL has them, with the version that brought them.
fn alert_name(alert: u8) -> Option<&'static str> {
    Some(match alert {
        10 => "sslv3 alert unexpected message",
        20 => "sslv3 alert bad record mac",
        21 => "tlsv1 alert decryption failed",
        22 => "tlsv1 alert record overflow",
        30 => "sslv3 alert decompression failure",
        40 => "sslv3 alert handshake failure",
        41 => "sslv3 alert no certificate",
        42 => "sslv3 alert bad certificate",
        43 => "sslv3 alert unsupported certificate",
        44 => "sslv3 alert certificate revoked",
        45 => "sslv3 alert certificate expired",
        46 => "sslv3 alert certificate unknown",
        47 => "sslv3 alert illegal parameter",
        48 => "tlsv1 alert unknown ca",
        49 => "tlsv1 alert access denied",
        50 => "tlsv1 alert decode error",
        51 => "tlsv1 alert decrypt error",
        70 => "tlsv1 alert protocol version",
        71 => "tlsv1 alert insufficient security",
        80 => "tlsv1 alert internal error",
        86 => "tlsv1 alert inappropriate fallback",
        90 => "tlsv1 alert user cancelled",
        100 => "tlsv1 alert no renegotiation",
        109 => "tlsv13 alert missing extension",
        110 => "tlsv1 unsupported extension",
        112 => "tlsv1 unrecognized name",
        113 => "tlsv1 bad certificate status response",
        115 => "tlsv1 alert unknown psk identity",
        116 => "tlsv13 alert certificate required",
        120 => "tlsv1 alert no application protocol",
        _ => return None,
    })
}

impl fmt::Display for TlsReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // 20 is the number of the library, in the upper bits.
        let code = 20 << 23 | self.number();
        match self.name() {
            Some(name) => write!(f, "error:{code:08X}:SSL routines::{name}"),
            None => write!(f, "error:{code:08X}:SSL routines::reason({})", self.number()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_openssl_prints_them() {
        assert_eq!(TlsReason::HttpRequest.to_string(), "error:0A00009C:SSL routines::http request");
        assert_eq!(TlsReason::Alert(48).to_string(), "error:0A000418:SSL routines::tlsv1 alert unknown ca");
        assert_eq!(TlsReason::Alert(93).to_string(), "error:0A000445:SSL routines::reason(1093)");
    }
}
