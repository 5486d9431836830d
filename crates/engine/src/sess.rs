// SPDX-License-Identifier: BSD-2-Clause
//! A session: one client connection, whatever its HTTP version.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use base::{Real, Vxid};
use net::proxy::Header as ProxyHeader;
use net::{Address, AddressText};
use tables::params::Params;

use crate::shared::Engine;

/// A listener as its sessions know it.
#[derive(Debug)]
pub struct ListenerInfo {
    /// The name in `-a name=address`: `a0`.
    pub name: String,
    /// `HTTP/1` or `PROXY`: the reason in the session's Begin record.
    pub transport: &'static str,
    /// Where it listens as `local.endpoint` shows it: `127.0.0.1:80`, `/path`.
    pub endpoint: String,
    /// Whether it is a unix socket.
    pub is_unix: bool,
}

/// A session's own timeouts, which VCL may set (`sess.*`).
#[derive(Clone, Copy, Debug)]
pub struct SessTimeouts {
    /// `timeout_idle`
    pub idle: Duration,
    /// `timeout_linger`
    pub linger: Duration,
    /// `send_timeout`
    pub send: Duration,
    /// `idle_send_timeout`
    pub idle_send: Duration,
}

impl SessTimeouts {
    /// The parameters'.
    pub fn of(params: &Params) -> Self {
        SessTimeouts {
            idle: params.timeout_idle,
            linger: params.timeout_linger,
            send: params.send_timeout,
            idle_send: params.idle_send_timeout,
        }
    }
}

/// A client connection.
pub struct Sess {
    /// The worker.
    pub engine: Arc<Engine>,
    /// Its id.
    pub vxid: Vxid,
    /// Who accepted it.
    pub listener: Arc<ListenerInfo>,
    /// The peer of the socket.
    pub remote: Address,
    /// Our end of the socket.
    pub local: Address,
    /// What a PROXY header said. Boxed: few sessions have one, and all idle ones would hold room for it.
    pub proxy: RefCell<Option<Box<ProxyHeader>>>,
    /// The client: as the PROXY header says, else the peer. See [`Sess::set_client`].
    pub client: Cell<Address>,
    /// Its text, which every request logs and sends on.
    pub client_text: Cell<AddressText>,
    /// Where the client connected to: as the PROXY header says, else our end.
    pub server: Cell<Address>,
    /// When it began.
    pub t_open: Real,
    /// Its timeouts.
    pub timeouts: Cell<SessTimeouts>,
    /// User and group at the other end of a unix socket.
    pub peer_ids: Option<(u32, u32)>,
    /// Its socket, if it has one of its own; another's once the session is over.
    pub socket: Option<sys::tcp::SocketNumber>,
    /// What `std.set_ip_tos` asked for, until the front has done it.
    pub tos: Cell<Option<u32>>,
}

impl Sess {
    /// Another client than the peer is behind the connection.
    pub fn set_client(&self, client: Address) {
        self.client.set(client);
        self.client_text.set(client.text());
    }
}
