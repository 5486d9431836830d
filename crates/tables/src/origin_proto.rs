// SPDX-License-Identifier: BSD-2-Clause
//! Which version of HTTP is spoken with an origin: the words of a backend's `.proto`.

/// The word of a backend's `.proto`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OriginProto {
    #[default]
    Http1,
    /// HTTP/2, which in clear text the origin is known to speak (RFC 9113 3.3) and by TLS has to choose.
    Http2,
    /// The origin chooses in the TLS handshake (RFC 7301).
    Auto,
}

impl OriginProto {
    pub const ALL: [Self; 3] = [Self::Http1, Self::Http2, Self::Auto];

    /// The word for it, which for one version is what TLS calls that.
    pub fn word(self) -> &'static str {
        match self {
            Self::Http1 => "http/1.1",
            Self::Http2 => "h2",
            Self::Auto => "auto",
        }
    }

    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proto| proto.word() == word)
    }

    /// The protocols that are offered in a TLS handshake, the preferred one first.
    pub fn offers(self) -> &'static [&'static str] {
        match self {
            Self::Http1 => &["http/1.1"],
            Self::Http2 => &["h2"],
            Self::Auto => &["h2", "http/1.1"],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_of_one() {
        for proto in OriginProto::ALL {
            assert_eq!(OriginProto::of(proto.word()), Some(proto));
        }
        assert_eq!(OriginProto::of("h3"), None);
    }
}
