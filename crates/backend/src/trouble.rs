// SPDX-License-Identifier: BSD-2-Clause
//! Messages for the operator about backends that fail: one for each cause of an outage, and one when the backend responds again.
//!
//! A backend keeps a few bytes of state, so backends that are made at run time need no table. [`LineBudget`] limits the lines of all of
//! them together. A success costs one relaxed load while there is nothing to report.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use base::Mono;
use base::lock::Mutex;
use tables::proxy_error::ProxyError;

use crate::error::{ConnOpenError, ETIMEDOUT, errno_text};

/// Maximum number of outages of one backend that are reported within [`OUTAGE_SECONDS`].
const MAX_OUTAGES: u8 = 5;
/// Seconds over which the outages of one backend are counted.
const OUTAGE_SECONDS: f64 = 600.0;
/// Maximum number of lines of all backends within [`BUDGET_SECONDS`].
const MAX_LINES: u32 = 30;
/// Seconds over which the lines of all backends are counted.
const BUDGET_SECONDS: f64 = 60.0;
/// Maximum length of a cause's text in characters. A peer may have chosen it.
const MAX_CHARS: usize = 200;

/// Error numbers of connection attempts, grouped by their meaning for the operator.
const ECONNREFUSED: i32 = 111;
const EPERM: i32 = 1;
const EACCES: i32 = 13;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EADDRNOTAVAIL: i32 = 99;
const ENETUNREACH: i32 = 101;
const ECONNRESET: i32 = 104;
const EHOSTUNREACH: i32 = 113;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackendFault<'a> {
    Connect(i32),
    HeldDown,
    Busy,
    NoAddress(&'a str),
    /// The TLS handshake failed: the type of error, and the reason.
    Tls(ProxyError, &'a str),
    /// The PROXY header couldn't be written: the error number.
    ProxyWrite(i32),
    /// The probe judges the backend sick: the result of its last request.
    Sick(&'a str),
    Closed,
    Late,
    /// The backend didn't take the request in time.
    Stuck,
    /// The backend's address is one of this server's own listeners, and the request came back.
    Loop,
    /// The response isn't valid HTTP, or the backend reset the request: the type of error, and why.
    Invalid(ProxyError, &'a str),
}

impl BackendFault<'static> {
    /// The backend has refused the request unprocessed, also the second time.
    pub const REFUSED: Self = BackendFault::Invalid(ProxyError::HttpResponseIncomplete, "refused by the backend");
}

impl<'a> BackendFault<'a> {
    /// The fault of a backend, whose name to look up is `host`, that can't be connected to.
    pub(crate) fn of(error: &'a ConnOpenError, host: &'a str) -> Self {
        match error {
            ConnOpenError::Errno(errno) | ConnOpenError::HeldDown(errno) => Self::Connect(*errno),
            ConnOpenError::NoAddress => Self::NoAddress(host),
            ConnOpenError::Proxy(errno) => Self::ProxyWrite(*errno),
            ConnOpenError::Tls(_, error, reason) => Self::Tls(*error, reason),
        }
    }

    /// The bit of the cause. Error numbers other than the two frequent ones share a bit.
    fn bit(self) -> u16 {
        match self {
            Self::Connect(ECONNREFUSED) => 1,
            Self::Connect(ETIMEDOUT) => 1 << 1,
            Self::Connect(_) => 1 << 2,
            Self::NoAddress(_) => 1 << 3,
            Self::Tls(..) => 1 << 4,
            Self::ProxyWrite(_) => 1 << 5,
            Self::Sick(_) => SICK,
            Self::Closed => 1 << 7,
            Self::Late => 1 << 8,
            Self::Invalid(..) => 1 << 9,
            Self::Loop => 1 << 10,
            Self::Stuck => 1 << 11,
            Self::HeldDown => 1 << 12,
            Self::Busy => 1 << 13,
        }
    }

    pub fn proxy_error(self) -> ProxyError {
        match self {
            Self::Connect(errno) => match errno {
                ECONNREFUSED => ProxyError::ConnectionRefused,
                ETIMEDOUT => ProxyError::ConnectionTimeout,
                ENETUNREACH | EHOSTUNREACH => ProxyError::DestinationIpUnroutable,
                EPERM | EACCES => ProxyError::DestinationIpProhibited,
                ECONNRESET => ProxyError::ConnectionTerminated,
                // This host lacks file descriptors or ports.
                ENFILE | EMFILE | EADDRNOTAVAIL => ProxyError::ProxyInternalError,
                _ => ProxyError::DestinationUnavailable,
            },
            Self::HeldDown | Self::Sick(_) => ProxyError::DestinationUnavailable,
            Self::Busy => ProxyError::ConnectionLimitReached,
            Self::NoAddress(_) => ProxyError::DnsError,
            Self::ProxyWrite(_) | Self::Closed => ProxyError::ConnectionTerminated,
            Self::Late => ProxyError::ConnectionReadTimeout,
            Self::Stuck => ProxyError::ConnectionWriteTimeout,
            Self::Loop => ProxyError::ProxyLoopDetected,
            Self::Tls(error, _) | Self::Invalid(error, _) => error,
        }
    }

    /// The same fault without details that only an operator should read: host names, and text that a peer has chosen.
    #[must_use]
    pub fn without_names(self) -> Self {
        match self {
            Self::NoAddress(_) => Self::NoAddress(""),
            Self::Tls(error, _) => Self::Tls(error, ""),
            Self::Sick(_) => Self::Sick(""),
            Self::Connect(_)
            | Self::HeldDown
            | Self::Busy
            | Self::ProxyWrite(_)
            | Self::Closed
            | Self::Late
            | Self::Stuck
            | Self::Loop
            | Self::Invalid(..) => self,
        }
    }
}

/// The bit of the probe's verdict. Only the probe clears it.
const SICK: u16 = 1 << 6;

impl fmt::Display for BackendFault<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(ETIMEDOUT) => f.write_str("no connection within connect_timeout"),
            Self::Connect(errno) => write!(f, "{}", lower(&errno_text(*errno))),
            Self::HeldDown => f.write_str("a connection attempt shortly before failed"),
            Self::Busy => f.write_str("all of its max_connections are in use"),
            Self::NoAddress("") => f.write_str("no address found for its host"),
            Self::NoAddress(host) => write!(f, "no address found for {host}"),
            Self::Tls(_, "") => f.write_str("TLS handshake failed"),
            Self::Tls(_, reason) => write!(f, "TLS handshake failed: {reason}"),
            Self::ProxyWrite(errno) => write!(f, "sending the PROXY header failed: {}", lower(&errno_text(*errno))),
            Self::Sick("") => f.write_str("the backend is sick"),
            Self::Sick(why) => write!(f, "the health probe says sick: {why}"),
            Self::Closed => f.write_str("connection closed before a response"),
            Self::Late => f.write_str("no response in time (first_byte_timeout, between_bytes_timeout)"),
            Self::Stuck => f.write_str("the request wasn't taken in time (between_bytes_timeout)"),
            Self::Loop => f.write_str("its address is this server's own, so that requests come back"),
            Self::Invalid(_, why) => write!(f, "no valid response: {why}"),
        }
    }
}

/// The operating system's error text, for use within a sentence.
fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[derive(Debug, Default)]
pub(crate) struct BackendTrouble {
    /// True if `outage.causes` isn't empty, to be read without the lock.
    is_failing: AtomicBool,
    outage: Mutex<Outage>,
}

#[derive(Debug, Default)]
struct Outage {
    /// The bits of the causes since the backend last answered.
    causes: u16,
    /// True if neither its causes nor its end are reported, because there were too many lately.
    is_silent: bool,
    last: Option<(Mono, String)>,
    /// Number of outages reported since `since`.
    count: u8,
    since: Option<Mono>,
}

impl BackendTrouble {
    /// Records a failure and its effect on requests. Returns the text after the backend's name and address, if the operator is to be
    /// informed.
    pub fn fails(&self, fault: BackendFault<'_>, effect: &str, now: Mono) -> Option<String> {
        let text: String = base::text::one_line(&fault.to_string(), '?').chars().take(MAX_CHARS).collect();
        let mut outage = self.outage.lock();
        if outage.causes == 0 {
            outage.begin(now);
            self.is_failing.store(true, Ordering::Relaxed);
        }
        let is_new = outage.causes & fault.bit() == 0;
        outage.causes |= fault.bit();
        outage.last = Some((now, text.clone()));
        let (is_told, is_last) = (is_new && !outage.is_silent, outage.count == MAX_OUTAGES);
        drop(outage);
        is_told.then(|| {
            let end = if is_last { "; it fails again and again: no more reports of it for 10 minutes" } else { "" };
            format!("{text}; {effect}{end}")
        })
    }

    /// Records a response of the backend. Returns true if the operator is to be informed.
    pub fn answers(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed) && self.recover(!SICK)
    }

    /// Records that the probe judges the backend healthy. Returns true if the operator is to be informed.
    pub fn is_healthy(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed) && self.recover(u16::MAX)
    }

    fn recover(&self, causes: u16) -> bool {
        let mut outage = self.outage.lock();
        let had_causes = outage.causes != 0;
        outage.causes &= !causes;
        let is_over = had_causes && outage.causes == 0;
        if is_over {
            self.is_failing.store(false, Ordering::Relaxed);
            outage.last = None;
        }
        is_over && !outage.is_silent
    }

    /// Time and text of the last failure, if the backend hasn't responded since.
    pub fn last(&self) -> Option<(Mono, String)> {
        self.outage.lock().last.clone()
    }
}

impl Outage {
    fn begin(&mut self, now: Mono) {
        if self.since.is_none_or(|since| now.since(since) >= OUTAGE_SECONDS) {
            (self.since, self.count) = (Some(now), 0);
        }
        self.is_silent = self.count == MAX_OUTAGES;
        if !self.is_silent {
            self.count += 1;
        }
    }
}

/// Number of lines that the backends of a worker may print.
#[derive(Debug, Default)]
pub(crate) struct LineBudget(Mutex<Spent>);

#[derive(Debug, Default)]
struct Spent {
    lines: u32,
    since: Option<Mono>,
}

impl LineBudget {
    /// The line to print instead of `line`: the same, a final notice, or none.
    pub fn spend(&self, line: String, now: Mono) -> Option<String> {
        let mut spent = self.0.lock();
        if spent.since.is_none_or(|since| now.since(since) >= BUDGET_SECONDS) {
            *spent = Spent { lines: 0, since: Some(now) };
        }
        spent.lines = spent.lines.saturating_add(1);
        match spent.lines {
            n if n < MAX_LINES => Some(line),
            MAX_LINES => Some("more backends fail; lacquer doctor and varnishlog -q FetchError name them".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFFECT: &str = "answered 503";
    const SUFFIX: &str = "; answered 503";

    #[test]
    fn each_cause_of_an_outage_is_reported_once() {
        let (trouble, now) = (BackendTrouble::default(), Mono(1.0));
        assert!(!trouble.answers());
        let refused = trouble.fails(BackendFault::Connect(ECONNREFUSED), EFFECT, now);
        assert_eq!(refused, Some(format!("connection refused{SUFFIX}")));
        assert_eq!(trouble.fails(BackendFault::Connect(ECONNREFUSED), EFFECT, now), None);
        assert_eq!(
            trouble.fails(BackendFault::Connect(ETIMEDOUT), EFFECT, now),
            Some(format!("no connection within connect_timeout{SUFFIX}"))
        );
        assert!(trouble.answers());
        assert!(!trouble.answers());
        assert!(trouble.fails(BackendFault::Connect(ECONNREFUSED), EFFECT, now).is_some(), "the next outage");
    }

    #[test]
    fn only_the_probe_takes_its_verdict_back() {
        let trouble = BackendTrouble::default();
        let told = trouble.fails(BackendFault::Sick("HTTP/1.1 500 Oops"), EFFECT, Mono(1.0));
        assert_eq!(told, Some(format!("the health probe says sick: HTTP/1.1 500 Oops{SUFFIX}")));
        assert!(trouble.fails(BackendFault::Late, EFFECT, Mono(1.0)).is_some());
        assert!(!trouble.answers(), "a fetch that had begun before");
        assert!(trouble.is_healthy());
        assert!(!trouble.is_healthy());
    }

    #[test]
    fn a_backend_that_comes_and_goes_is_silenced() {
        let trouble = BackendTrouble::default();
        let outage = |now| (trouble.fails(BackendFault::Closed, EFFECT, Mono(now)), trouble.answers());
        for n in 1..MAX_OUTAGES {
            assert_eq!(outage(f64::from(n)).0, Some(format!("connection closed before a response{SUFFIX}")));
        }
        assert!(outage(10.0).0.is_some_and(|text| text.ends_with("no more reports of it for 10 minutes")));
        assert_eq!(outage(11.0), (None, false));
        assert_eq!(trouble.last(), None);
        trouble.fails(BackendFault::Connect(ECONNREFUSED), EFFECT, Mono(12.0));
        assert_eq!(trouble.last(), Some((Mono(12.0), "connection refused".to_owned())), "for lacquer explain");
        trouble.answers();
        assert_eq!(outage(600.0), (None, false));
        assert_eq!(outage(601.0), (Some(format!("connection closed before a response{SUFFIX}")), true));
    }

    #[test]
    fn all_backends_share_a_budget() {
        let budget = LineBudget::default();
        let printed = (0..10 * MAX_LINES).filter_map(|n| budget.spend(n.to_string(), Mono(5.0))).collect::<Vec<_>>();
        assert_eq!(printed.len(), MAX_LINES as usize);
        assert!(printed.last().is_some_and(|line| line.starts_with("more backends fail")));
        assert_eq!(budget.spend("later".to_owned(), Mono(65.0)), Some("later".to_owned()));
    }

    #[test]
    fn a_cause_is_one_line_of_bounded_length() {
        let reason = format!("a\nb\x1b{}", "x".repeat(1000));
        let text = BackendTrouble::default()
            .fails(BackendFault::Tls(ProxyError::TlsProtocolError, &reason), EFFECT, Mono(0.0))
            .unwrap();
        assert!(text.starts_with("TLS handshake failed: a?b?xx") && text.len() < 300, "{text}");
    }

    #[test]
    fn each_fault_has_a_registered_type() {
        let check = |fault: BackendFault<'_>, want| assert_eq!(fault.proxy_error().word(), want, "{fault}");
        for (errno, want) in [
            (ECONNREFUSED, "connection_refused"),
            (ETIMEDOUT, "connection_timeout"),
            (EHOSTUNREACH, "destination_ip_unroutable"),
            (ENETUNREACH, "destination_ip_unroutable"),
            (EACCES, "destination_ip_prohibited"),
            (EADDRNOTAVAIL, "proxy_internal_error"),
            (2, "destination_unavailable"),
        ] {
            check(BackendFault::Connect(errno), want);
        }
        check(BackendFault::NoAddress("o.example"), "dns_error");
        check(BackendFault::Busy, "connection_limit_reached");
        check(BackendFault::Sick(""), "destination_unavailable");
        check(BackendFault::HeldDown, "destination_unavailable");
        check(BackendFault::Closed, "connection_terminated");
        check(BackendFault::Late, "connection_read_timeout");
        check(BackendFault::Stuck, "connection_write_timeout");
        check(BackendFault::Loop, "proxy_loop_detected");
    }

    #[test]
    fn what_only_operators_read_can_be_left_out() {
        let told = |fault: BackendFault<'_>| fault.without_names().to_string();
        assert_eq!(told(BackendFault::NoAddress("inner.example")), "no address found for its host");
        let reason = "certificate is good for inner.example alone";
        assert_eq!(told(BackendFault::Tls(ProxyError::TlsCertificateError, reason)), "TLS handshake failed");
        assert_eq!(told(BackendFault::Sick("HTTP/1.1 500 Oops")), "the backend is sick");
        assert_eq!(told(BackendFault::Connect(ECONNREFUSED)), "connection refused");
    }
}
