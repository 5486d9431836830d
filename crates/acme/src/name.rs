// SPDX-License-Identifier: BSD-2-Clause
//! A host name that a certificate can be asked for: lower case, and harmless as the name of a file.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest name (RFC 1035 2.3.4).
const LONGEST: usize = 253;
const LONGEST_LABEL: usize = 63;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AcmeName(String);

impl AcmeName {
    pub fn parse(text: &str) -> Result<AcmeName, String> {
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        if name.starts_with("*.") {
            return Err(format!("{text}: a CA gives out wildcards by DNS only, which isn't built"));
        }
        if name.parse::<std::net::IpAddr>().is_ok() {
            return Err(format!("{text}: an address, not a name"));
        }
        let is_label = |label: &str| {
            (1..=LONGEST_LABEL).contains(&label.len())
                && label.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        if name.len() > LONGEST || !name.split('.').all(is_label) {
            return Err(format!("{}: not a host name", text.escape_default()));
        }
        Ok(AcmeName(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AcmeName {
    type Error = String;
    fn try_from(text: String) -> Result<AcmeName, String> {
        AcmeName::parse(&text)
    }
}

impl From<AcmeName> for String {
    fn from(name: AcmeName) -> String {
        name.0
    }
}

impl fmt::Display for AcmeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_name_is_what_dns_and_a_file_system_take() {
        let parsed = |text: &str| AcmeName::parse(text).map(|name| name.0);
        assert_eq!(parsed("WWW.Example.org."), Ok("www.example.org".to_owned()));
        assert_eq!(parsed("xn--bcher-kva.example"), Ok("xn--bcher-kva.example".to_owned()));
        for text in
            ["", ".", "..", "a..b", "-a.b", "a-.b", "a/b", "../etc", "a b", "a_b", "192.0.2.1", "::1", "*.a.b", "é.org"]
        {
            assert!(parsed(text).is_err(), "{text}");
        }
        assert!(parsed(&"a".repeat(64)).is_err());
        assert!(parsed(&"a.".repeat(126)).is_ok() && parsed(&"a.".repeat(128)).is_err());
        assert!(parsed("*.example.org").unwrap_err().contains("wildcards"));
    }

    proptest! {
        #[test]
        fn no_name_leaves_its_directory(text in ".{0,80}") {
            if let Ok(name) = AcmeName::parse(&text) {
                prop_assert!(!name.as_str().contains(['/', '\0']) && !name.as_str().starts_with('.'));
                prop_assert!(AcmeName::parse(name.as_str()) == Ok(name));
            }
        }
    }
}
