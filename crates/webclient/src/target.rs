// SPDX-License-Identifier: BSD-2-Clause
//! Where a URL leads.

use std::net::IpAddr;

use http::Uri;

/// The hosts that may be asked without TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClearText {
    Loopback,
    Anywhere,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebTarget {
    pub is_tls: bool,
    /// The host without brackets.
    pub host: String,
    /// 80 or 443 where it names none.
    pub port: u16,
    pub authority: String,
    pub path: String,
}

impl WebTarget {
    pub fn parse(url: &str, clear: ClearText) -> Result<WebTarget, String> {
        let uri: Uri = url.parse().map_err(|_| "not a URL".to_owned())?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("not an https URL".to_owned()),
        };
        let authority = uri.authority().filter(|a| !a.as_str().contains('@')).ok_or("no host in it")?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("no host in it".to_owned());
        }
        let is_here = || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if !is_tls && clear == ClearText::Loopback && !is_here() {
            return Err("not an https URL (without TLS only a loopback address can be asked)".to_owned());
        }
        let port = authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(WebTarget { is_tls, host, port, authority: authority.as_str().to_owned(), path })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_https_or_on_this_machine() {
        let parse = |url| WebTarget::parse(url, ClearText::Loopback);
        let target = parse("https://[2001:db8::1]:14000/dir?a").unwrap();
        assert_eq!(
            (target.host.as_str(), target.port, target.authority.as_str(), target.path.as_str()),
            ("2001:db8::1", 14000, "[2001:db8::1]:14000", "/dir?a")
        );
        assert_eq!(parse("http://127.0.0.1/").map(|t| t.port), Ok(80));
        for url in ["http://ca.example/", "ftp://x/", "x", "https:///x", "https://u@h/", "/x", "http://localhost/"] {
            assert!(parse(url).is_err(), "{url}");
        }
        assert_eq!(WebTarget::parse("http://collector:4318", ClearText::Anywhere).map(|t| t.path), Ok("/".to_owned()));
    }
}
