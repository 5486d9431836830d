// SPDX-License-Identifier: BSD-2-Clause
//! Access control of the page.
//!
//! On this machine's own addresses, everybody who can connect may look, but only by a name that is this machine's own. A web page can make
//! a browser connect to any name that it controls; this check keeps it out. Over TLS, the certificate does so: it isn't valid for that
//! name.
//!
//! If there is a token, everybody needs it, as `Authorization: Bearer` or by logging in. A login sets a cookie that is valid as long as
//! this process runs. If authorities for clients are configured, a certificate of theirs works as well. Requests that change the server
//! must also come from our own page.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use message::Head;

use crate::sealing::PageTls;

/// Minimum length of a token, in bytes.
const SHORTEST: usize = 16;
/// Maximum length of the token's file, in bytes.
const LONGEST: u64 = 4096;
pub const COOKIE: &str = "lacquer_watch";
/// Maximum number of logins at a time. The oldest one ends when another begins.
const MAX_LOGINS: usize = 1000;

#[derive(Debug)]
pub struct PageAccess {
    token: Option<Vec<u8>>,
    /// True if the page is served over TLS, where clients may show certificates.
    is_sealed: bool,
    asks_clients: bool,
    logins: Mutex<VecDeque<String>>,
    /// Secret that our own page sends with each request that changes something.
    pub page_key: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessVerdict {
    Granted,
    NeedsToken,
    /// No token is configured: only a certificate is accepted.
    NeedsCertificate,
    WrongHost,
}

fn random() -> io::Result<String> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).map_err(|e| io::Error::other(e.to_string()))?;
    Ok(base::hex::encode(&bytes))
}

impl PageAccess {
    /// Reads the token from the file, if any. `sealing` is set if the page is served over TLS.
    ///
    /// # Errors
    /// The file can't be read, or its content isn't a valid token.
    pub fn new(token_file: Option<&Path>, sealing: Option<&PageTls>) -> Result<PageAccess, String> {
        let token = token_file.map(read_token).transpose()?;
        let page_key = random().map_err(|e| format!("no random numbers: {e}"))?;
        let asks_clients = sealing.is_some_and(PageTls::asks_clients);
        Ok(PageAccess { token, is_sealed: sealing.is_some(), asks_clients, logins: Mutex::default(), page_key })
    }

    /// True if only clients that have a token or a certificate see anything.
    pub fn is_guarded(&self) -> bool {
        self.token.is_some() || self.asks_clients
    }

    /// Attributes that end our cookie: `; Secure` if the page is served over TLS only.
    pub fn cookie_ending(&self) -> &'static str {
        if self.is_sealed { "; Secure" } else { "" }
    }

    /// Checks whether a request may be answered. `is_known`: the client has shown a valid certificate.
    pub fn judge(&self, head: &Head, is_known: bool) -> AccessVerdict {
        if is_known && self.asks_clients {
            return AccessVerdict::Granted;
        }
        match &self.token {
            None if self.asks_clients => AccessVerdict::NeedsCertificate,
            None if self.is_sealed => AccessVerdict::Granted,
            None if is_own_name(head.get("host").unwrap_or_default()) => AccessVerdict::Granted,
            None => AccessVerdict::WrongHost,
            Some(token) => {
                let given = head.get("authorization").and_then(|value| {
                    let (scheme, rest) = value.split_at_checked(7)?;
                    scheme.eq_ignore_ascii_case(b"bearer ").then(|| rest.trim_ascii())
                });
                let has_token = given.is_some_and(|given| equal(given, token));
                if has_token || self.is_logged_in(head) { AccessVerdict::Granted } else { AccessVerdict::NeedsToken }
            }
        }
    }

    /// True if a request that changes something comes from our own page.
    ///
    /// A proxy in between may send another `Host` than the browser did, so that `Origin` doesn't fit it. What the browser itself says of
    /// both (`Sec-Fetch-Site`, over TLS and on this machine) counts then, or the name that the proxy forwards.
    pub fn is_from_our_page(&self, head: &Head) -> bool {
        let key = head.get("x-watch-key").is_some_and(|given| equal(given, self.page_key.as_bytes()));
        let is_same_origin = match head.get("sec-fetch-site") {
            Some(site) => site == b"same-origin" && head.get("origin").is_some(),
            None => {
                let origin = head.get("origin").unwrap_or_default();
                let rest = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
                let names = [head.get("host"), head.get("x-forwarded-host")];
                rest.is_some_and(|rest| names.into_iter().flatten().any(|name| rest.eq_ignore_ascii_case(name)))
            }
        };
        key && is_same_origin
    }

    /// Checks a token that was typed in. Returns the cookie for it.
    pub fn log_in(&self, given: &[u8]) -> Option<String> {
        self.token.as_ref().filter(|token| equal(given.trim_ascii(), token))?;
        let login = random().ok()?;
        let mut logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        if logins.len() == MAX_LOGINS {
            logins.pop_front();
        }
        logins.push_back(login.clone());
        Some(login)
    }

    fn is_logged_in(&self, head: &Head) -> bool {
        let logins = self.logins.lock().unwrap_or_else(PoisonError::into_inner);
        let cookies = head.get_all(b"cookie").flat_map(|line| line.split(|b| *b == b';'));
        let mut ours =
            cookies.filter_map(|cookie| cookie.trim_ascii().strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"="));
        ours.any(|given| logins.iter().any(|login| equal(given, login.as_bytes())))
    }
}

fn read_token(path: &Path) -> Result<Vec<u8>, String> {
    use std::io::Read;
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(LONGEST).read_to_end(&mut text));
    read.map_err(|e| format!("--token-file {}: {e}", path.display()))?;
    let token = text.trim_ascii().to_vec();
    match token.len() {
        n if n < SHORTEST => {
            Err(format!("--token-file {}: a token has at least {SHORTEST} characters", path.display()))
        }
        _ if !token.iter().all(u8::is_ascii_graphic) => {
            Err(format!("--token-file {}: a token is of letters, digits and signs", path.display()))
        }
        _ => Ok(token),
    }
}

/// Compares in a time that depends only on the length, so that it doesn't reveal the token.
fn equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |different, (a, b)| std::hint::black_box(different | (a ^ b))) == 0
}

/// True for `localhost` and for addresses: no DNS entry can redirect these.
fn is_own_name(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').map_or(rest, |(name, _)| name),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        fields.iter().for_each(|(name, value)| head.append(name, value).unwrap());
        head
    }

    fn with_token() -> PageAccess {
        let token = Some(b"0123456789abcdef".to_vec());
        PageAccess {
            token,
            is_sealed: false,
            asks_clients: false,
            logins: Mutex::default(),
            page_key: "key".to_owned(),
        }
    }

    #[test]
    fn names_of_others_are_refused_where_there_is_no_token() {
        let access = PageAccess::new(None, None).unwrap();
        for host in ["127.0.0.1:6085", "localhost", "LOCALHOST:1", "[::1]:6085", "[::1]", "10.0.0.1"] {
            assert_eq!(access.judge(&head(&[("Host", host)]), false), AccessVerdict::Granted, "{host}");
        }
        for host in ["evil.test", "localhost.evil.test:6085", "", "127.0.0.1.evil.test"] {
            assert_eq!(access.judge(&head(&[("Host", host)]), false), AccessVerdict::WrongHost, "{host}");
        }
    }

    #[test]
    fn a_token_is_needed_where_there_is_one() {
        let access = with_token();
        let judge = |fields: &[(&str, &str)]| access.judge(&head(fields), false);
        assert_eq!(judge(&[("Host", "127.0.0.1")]), AccessVerdict::NeedsToken);
        assert_eq!(judge(&[("Authorization", "Bearer 0123456789abcdef")]), AccessVerdict::Granted);
        assert_eq!(judge(&[("Authorization", "Bearer 0123456789abcdeg")]), AccessVerdict::NeedsToken);
        assert_eq!(judge(&[("Authorization", "Basic 0123456789abcdef")]), AccessVerdict::NeedsToken);
        assert_eq!(access.log_in(b"wrong"), None);
        let cookie = access.log_in(b" 0123456789abcdef\n").unwrap();
        assert_eq!(judge(&[("Cookie", &format!("a=b; {COOKIE}={cookie}"))]), AccessVerdict::Granted);
        assert_eq!(judge(&[("Cookie", &format!("{COOKIE}={cookie}0"))]), AccessVerdict::NeedsToken);
        assert_eq!(judge(&[("Cookie", &format!("{COOKIE}="))]), AccessVerdict::NeedsToken);
    }

    #[test]
    fn a_certificate_does_as_well_where_it_is_asked_for() {
        let ask = |token: bool, asks_clients, is_known| {
            let token = token.then(|| b"0123456789abcdef".to_vec());
            let access =
                PageAccess { token, is_sealed: true, asks_clients, logins: Mutex::default(), page_key: String::new() };
            access.judge(&head(&[("Host", "watch.test")]), is_known)
        };
        assert_eq!([ask(false, true, true), ask(true, true, true)], [AccessVerdict::Granted; 2]);
        assert_eq!(ask(false, true, false), AccessVerdict::NeedsCertificate);
        assert_eq!(ask(true, true, false), AccessVerdict::NeedsToken);
        // The server asks no client for certificates: one that a client shows unasked proves nothing.
        assert_eq!(ask(true, false, true), AccessVerdict::NeedsToken);
        assert_eq!(ask(false, false, false), AccessVerdict::Granted);
    }

    #[test]
    fn what_changes_something_comes_from_our_page() {
        let access = with_token();
        let is_ours = |fields: &[(&str, &str)]| access.is_from_our_page(&head(fields));
        let good = [("Host", "a:1"), ("Origin", "http://a:1"), ("X-Watch-Key", "key")];
        assert!(is_ours(&good));
        assert!(!is_ours(&good[..2]) && !is_ours(&[good[0], good[2]]));
        assert!(!is_ours(&[("Host", "a:1"), ("Origin", "http://b:1"), ("X-Watch-Key", "key")]));
        assert!(!is_ours(&[good[0], good[1], good[2], ("Sec-Fetch-Site", "cross-site")]));
        assert!(!is_ours(&[good[0], good[1], good[2], ("Sec-Fetch-Site", "same-site")]));
    }

    #[test]
    fn a_proxy_may_send_another_host() {
        let access = with_token();
        let is_ours = |more: &[(&str, &str)]| {
            let through = [("Host", "127.0.0.1:6085"), ("Origin", "https://watch.example"), ("X-Watch-Key", "key")];
            access.is_from_our_page(&head(&[&through, more].concat()))
        };
        assert!(!is_ours(&[]));
        assert!(is_ours(&[("Sec-Fetch-Site", "same-origin")]));
        assert!(is_ours(&[("X-Forwarded-Host", "watch.example")]));
        assert!(!is_ours(&[("X-Forwarded-Host", "other.example")]));
        assert!(!is_ours(&[("X-Forwarded-Host", "watch.example"), ("Sec-Fetch-Site", "cross-site")]));
    }

    #[test]
    fn tokens_are_long_enough() {
        let file = std::env::temp_dir().join(format!("watch-token-{}", std::process::id()));
        std::fs::write(&file, "short\n").unwrap();
        assert!(PageAccess::new(Some(&file), None).unwrap_err().contains("at least 16 characters"));
        std::fs::write(&file, "0123456789abcdef\n").unwrap();
        assert!(PageAccess::new(Some(&file), None).unwrap().is_guarded());
        std::fs::remove_file(&file).unwrap();
        assert!(PageAccess::new(Some(&file), None).unwrap_err().contains("No such file"));
    }
}
