// SPDX-License-Identifier: BSD-2-Clause
//! What backends need from the worker: clock, parameters, counters, the log. Implemented once over shared memory by
//! the worker; tests use [`HeapServices`].

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use parking_lot::Mutex;
use shm::vsc::CounterSet;
use tables::Compat;
use tables::counters::{Main, Vbe, Vcp};

use crate::BackendLimits;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BackendParams {
    pub limits: BackendLimits,
    pub idle_timeout: Duration,
    pub local_error_holddown: Duration,
    pub remote_error_holddown: Duration,
    pub prefer_ipv6: bool,
    pub wait_limit: u32,
    pub wait_timeout: Duration,
    pub dns_ttl: Duration,
    pub tls_strict_end: bool,
    pub http2_streams: u32,
    pub http2_window: u32,
    pub resp_head_bytes: u32,
    pub resp_line_bytes: u32,
}

impl From<&params::Params> for BackendParams {
    fn from(params: &params::Params) -> Self {
        Self {
            limits: BackendLimits::of(params),
            idle_timeout: params.backend_idle_timeout,
            local_error_holddown: params.backend_local_error_holddown,
            remote_error_holddown: params.backend_remote_error_holddown,
            prefer_ipv6: params.prefer_ipv6,
            wait_limit: params.backend_wait_limit,
            wait_timeout: params.backend_wait_timeout,
            dns_ttl: params.backend_dns_ttl,
            tls_strict_end: params.backend_tls_strict_end,
            http2_streams: params.backend_h2_streams,
            http2_window: u32::try_from(params.backend_h2_window).unwrap_or(u32::MAX),
            resp_head_bytes: u32::try_from(params.http_resp_size).unwrap_or(u32::MAX),
            resp_line_bytes: u32::try_from(params.http_resp_hdr_len).unwrap_or(u32::MAX),
        }
    }
}

impl Default for BackendParams {
    fn default() -> Self {
        Self::from(&params::Params::default())
    }
}

pub trait BackendServices: Send + Sync {
    fn params(&self) -> BackendParams;
    fn main(&self) -> &Main;
    fn pools(&self) -> &Vcp;
    /// Publishes the counters `VBE.<vcl>.<backend>`, in the VCL's cluster if it has one; this crate hides and shows
    /// them. When shared memory is full, [`CounterSet::private`] will do.
    fn publish(&self, vcl: &str, backend: &str) -> CounterSet<Vbe>;
    /// Writes a `Backend_health` record outside of any transaction.
    fn log_health(&self, text: &str);
    /// Writes an `Error` record outside of any transaction.
    fn log_error(&self, text: &str);
    /// Writes a `Notice` record outside of any transaction.
    fn log_notice(&self, text: &str);
    /// Prints a line for the operator where the worker's other messages go.
    fn tell_operator(&self, line: &str);
    /// Looks a name up with the system's resolver. Blocks, perhaps for long.
    ///
    /// # Errors
    /// Unknown, or nobody answered.
    fn lookup(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        base::lookup::addresses(host, port)
    }
}

/// Clock and services; cheap to clone.
#[derive(Clone)]
pub struct BackendEnv {
    /// Time of health changes (wall) and of holddown and idleness (monotonic).
    pub clock: Clock,
    pub services: Arc<dyn BackendServices>,
    pub compat: Compat,
}

#[derive(Default)]
pub struct HeapServices {
    pub params: BackendParams,
    pub main: Main,
    pub pools: Vcp,
    pub health_log: Mutex<Vec<String>>,
    pub error_log: Mutex<Vec<String>>,
    pub notice_log: Mutex<Vec<String>>,
    pub operator_log: Mutex<Vec<String>>,
    pub hosts: Mutex<HashMap<String, Vec<SocketAddr>>>,
}

impl BackendServices for HeapServices {
    fn params(&self) -> BackendParams {
        self.params
    }

    fn main(&self) -> &Main {
        &self.main
    }

    fn pools(&self) -> &Vcp {
        &self.pools
    }

    fn publish(&self, _vcl: &str, _backend: &str) -> CounterSet<Vbe> {
        CounterSet::private()
    }

    fn log_health(&self, text: &str) {
        self.health_log.lock().push(text.to_string());
    }

    fn log_error(&self, text: &str) {
        self.error_log.lock().push(text.to_string());
    }

    fn log_notice(&self, text: &str) {
        self.notice_log.lock().push(text.to_string());
    }

    fn tell_operator(&self, line: &str) {
        self.operator_log.lock().push(line.to_string());
    }

    fn lookup(&self, host: &str, _port: u16) -> io::Result<Vec<SocketAddr>> {
        self.hosts.lock().get(host).cloned().ok_or_else(|| io::Error::other("Name or service not known"))
    }
}
