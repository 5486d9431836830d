// SPDX-License-Identifier: BSD-2-Clause
//! What backends need from the worker: clock, parameters, counters, the log. Implemented once over shared memory by
//! the worker; tests use [`HeapServices`].

use std::sync::Arc;
use std::time::Duration;

use base::Clock;
use parking_lot::Mutex;
use tables::counters::{Main, Vbe};

/// The parameters that backends read, each time they are needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// `connect_timeout`.
    pub connect_timeout: Duration,
    /// `first_byte_timeout`.
    pub first_byte_timeout: Duration,
    /// `between_bytes_timeout`.
    pub between_bytes_timeout: Duration,
    /// `backend_idle_timeout`.
    pub idle_timeout: Duration,
    /// `backend_local_error_holddown`.
    pub local_error_holddown: Duration,
    /// `backend_remote_error_holddown`.
    pub remote_error_holddown: Duration,
    /// `prefer_ipv6`.
    pub prefer_ipv6: bool,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_millis(3500),
            first_byte_timeout: Duration::from_secs(60),
            between_bytes_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(60),
            local_error_holddown: Duration::from_secs(10),
            remote_error_holddown: Duration::from_millis(250),
            prefer_ipv6: false,
        }
    }
}

/// One backend's counters, published under its name until dropped.
pub trait VbeHome: Send + Sync {
    /// The counters `VBE.<vcl>.<backend>.*`.
    fn vbe(&self) -> &Vbe;
    /// Shows (a warm VCL) or hides the set in the list of counters.
    fn reveal(&self, visible: bool);
}

/// The worker's services for backends.
pub trait Services: Send + Sync {
    /// The parameters as they are now.
    fn params(&self) -> Params;
    /// The counters of `MAIN`.
    fn main(&self) -> &Main;
    /// Publishes the counters of a backend, hidden until [`VbeHome::reveal`]. One cluster per VCL, so that a discard
    /// drops one file.
    fn publish(&self, vcl: &str, backend: &str) -> Box<dyn VbeHome>;
    /// Writes a `Backend_health` record outside of any transaction.
    fn log_health(&self, text: &str);
}

/// Clock and services; cheap to clone.
#[derive(Clone)]
pub struct Env {
    /// Time of health changes (wall) and of holddown and idleness (monotonic).
    pub clock: Clock,
    /// What the worker provides.
    pub services: Arc<dyn Services>,
}

/// Services on the heap, for tests and for a checker that publishes nothing.
#[derive(Default)]
pub struct HeapServices {
    /// What [`Services::params`] answers.
    pub params: Params,
    /// `MAIN`.
    pub main: Main,
    /// The records written.
    pub health_log: Mutex<Vec<String>>,
}

impl Services for HeapServices {
    fn params(&self) -> Params {
        self.params
    }

    fn main(&self) -> &Main {
        &self.main
    }

    fn publish(&self, _vcl: &str, _backend: &str) -> Box<dyn VbeHome> {
        Box::new(HeapVbe::default())
    }

    fn log_health(&self, text: &str) {
        self.health_log.lock().push(text.to_string());
    }
}

#[derive(Default)]
struct HeapVbe(Vbe);

impl VbeHome for HeapVbe {
    fn vbe(&self) -> &Vbe {
        &self.0
    }

    fn reveal(&self, _visible: bool) {}
}
