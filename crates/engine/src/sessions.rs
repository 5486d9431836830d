// SPDX-License-Identifier: BSD-2-Clause
//! State common to all client connections: their number, their certificates, their end.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use net::handshake::KnownClients;
use tls::challenge::Challenges;

use crate::drain::DrainWatch;

pub struct Sessions {
    open: AtomicI64,
    pub drain: DrainWatch,
    pub certificates: Arc<dyn tls::Certificates>,
    /// Responses for a certificate authority that is checking names.
    pub challenges: Challenges,
    pub known_clients: KnownClients,
}

impl Sessions {
    pub(crate) fn new(certificates: Arc<dyn tls::Certificates>) -> Self {
        Sessions {
            open: AtomicI64::new(0),
            drain: DrainWatch::default(),
            certificates,
            challenges: Challenges::default(),
            known_clients: KnownClients::default(),
        }
    }

    /// Counts a connection; [`Sessions::leave`] is to follow. The number of open ones, with it.
    pub fn enter(&self) -> i64 {
        self.open.fetch_add(1, Relaxed) + 1
    }

    pub fn leave(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    pub fn open(&self) -> i64 {
        self.open.load(Relaxed)
    }
}
