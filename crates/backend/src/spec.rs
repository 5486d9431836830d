// SPDX-License-Identifier: BSD-2-Clause
//! The declaration of a backend and its probe in VCL (vcl-backend(7), vcl-probe(7)), after names were resolved.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use net::proxy::{self, ProxyEnds};

use crate::{BackendLimits, Endpoint, RequestSignerRef, ServiceRef};

#[derive(Clone, Debug, PartialEq)]
pub struct BackendSpec {
    /// Name without the VCL's: `s1`.
    pub name: String,
    pub endpoint: Endpoint,
    /// `.host_header`: Host of requests and probes that have none. VCL sets it to `.host` by default; `None` makes it the endpoint's
    /// address.
    pub hosthdr: Option<String>,
    /// `.connect_timeout`, `.first_byte_timeout` and `.between_bytes_timeout`; zero = the parameter.
    pub limits: BackendLimits,
    /// `.max_connections`; 0 = no limit.
    pub max_connections: u32,
    /// `.proxy_header`: 0 none, 1 or 2 = version of the PROXY header each connection begins with.
    pub proxy_header: u8,
    /// `.wait_limit`: how many fetches may wait for a connection when `max_connections` are in use; `None` = the parameter.
    pub wait_limit: Option<u32>,
    /// `.wait_timeout`: how long such a fetch waits, zero = not at all; `None` = the parameter.
    pub wait_timeout: Option<Duration>,
    /// The addresses that the endpoint's name had when the VCL was checked.
    pub found: Vec<SocketAddr>,
    /// `.probe`, or the VCL's default probe.
    pub probe: Option<ProbeSpec>,
    /// Service in this process that responds instead of the endpoint.
    pub service: Option<ServiceRef>,
    /// `.via`: `endpoint` is that of another backend, whose connections are to go on to this one.
    pub via: Option<Via>,
    /// Adds headers that the backend requires to each request: a signature.
    pub signer: Option<RequestSignerRef>,
    /// True for a peer: requests are sent to another backend while this one fails.
    pub is_optional: bool,
}

impl BackendSpec {
    pub fn service(name: impl Into<String>, service: ServiceRef) -> Self {
        Self { service: Some(service), ..Self::new(name, Endpoint::default()) }
    }

    pub fn new(name: impl Into<String>, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            endpoint,
            hosthdr: None,
            limits: BackendLimits::default(),
            max_connections: 0,
            proxy_header: 0,
            wait_limit: None,
            wait_timeout: None,
            found: Vec::new(),
            probe: None,
            service: None,
            via: None,
            signer: None,
            is_optional: false,
        }
    }
}

/// The address and the name of a backend for whoever connects to it on our behalf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Via {
    pub ipv4: Option<SocketAddr>,
    pub ipv6: Option<SocketAddr>,
    /// The name for TLS; empty = none.
    pub authority: String,
}

impl Via {
    /// The PROXY header of version 2 that begins a connection. The client's address is the empty one, as Varnish sends it: a connection serves many.
    pub(crate) fn header(&self, prefer_ipv6: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let both = if prefer_ipv6 { [self.ipv6, self.ipv4] } else { [self.ipv4, self.ipv6] };
        if let Some(destination) = both.into_iter().flatten().next() {
            let nobody: IpAddr =
                if destination.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
            let ends = ProxyEnds { source: SocketAddr::new(nobody, 0), destination };
            let authority = Some(self.authority.as_str()).filter(|name| !name.is_empty());
            proxy::write_v2(&ends, authority, &mut out);
        }
        out
    }
}

/// One `probe`; zero and `None` stand for the default, as Varnish's compiler writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeSpec {
    /// URL (`.url`); default `/`.
    pub url: Option<String>,
    /// `.request`: the whole request, line ends and the empty line included; excludes `url`.
    pub request: Option<Vec<u8>>,
    /// `.expected_response`; 0 = 200.
    pub expected_response: u16,
    /// `.timeout`; zero = 2 s.
    pub timeout: Duration,
    /// `.interval`; zero = 5 s.
    pub interval: Duration,
    /// `.window`, at most 64; 0 = 8.
    pub window: u32,
    /// `.threshold`, at most 64; 0 = 3.
    pub threshold: u32,
    /// `.initial`; `None` = threshold - 1; never above the threshold.
    pub initial: Option<u32>,
    /// `.expect_close`: the response must end with the connection. `false` also accepts the bytes received until the timeout.
    pub expect_close: bool,
}

impl Default for ProbeSpec {
    fn default() -> Self {
        Self {
            url: None,
            request: None,
            expected_response: 0,
            timeout: Duration::ZERO,
            interval: Duration::ZERO,
            window: 0,
            threshold: 0,
            initial: None,
            expect_close: true,
        }
    }
}

impl ProbeSpec {
    /// The same with the defaults filled in.
    pub(crate) fn resolved(&self) -> ProbeSpec {
        let or = |value: u32, default| if value == 0 { default } else { value };
        let or_time = |value: Duration, default| if value.is_zero() { Duration::from_secs(default) } else { value };
        let window = or(self.window, 8).min(64);
        let threshold = or(self.threshold, 3).min(64);
        ProbeSpec {
            url: self.url.clone(),
            request: self.request.clone(),
            expected_response: if self.expected_response == 0 { 200 } else { self.expected_response },
            timeout: or_time(self.timeout, 2),
            interval: or_time(self.interval, 5),
            window,
            threshold,
            initial: Some(self.initial.unwrap_or(threshold - 1).min(threshold)),
            expect_close: self.expect_close,
        }
    }
}
