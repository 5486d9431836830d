// SPDX-License-Identifier: BSD-2-Clause
//! A session: one client connection, whatever its HTTP version.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use accounts::Caller;
use base::{Real, Vxid};
use net::proxy::{ProxyHeader, tlv};
use net::{Address, AddressText};
use params::Params;
use params::timeouts::limit;
use shm::vsl::{Marker, TxnLog};
use sys::tcp::SocketNumber;
use tables::close::SessClose;
use tables::tags::Tag;

use crate::engine::Engine;

#[derive(Debug)]
pub struct ListenerInfo {
    pub name: String,
    /// The word for the transport in the session's Begin record: `HTTP/1`, `PROXY`, `TLS`, `QUIC`.
    pub transport: &'static str,
    pub has_proxy_header: bool,
    pub is_tls: bool,
    pub is_quic: bool,
    /// Name of the listener whose certificates clients receive: its own, or for QUIC that of the TLS listener at the
    /// same port.
    pub frontend: String,
    /// The port of a listener for HTTP/3 that its clients may use instead.
    pub h3_port: Option<u16>,
    /// The address as `local.endpoint` shows it: `127.0.0.1:80`, `/path`.
    pub endpoint: String,
    pub is_unix: bool,
}

#[derive(Clone, Copy, Debug)]
pub struct ConnectionInfo {
    pub remote: Address,
    pub local: Address,
    /// The connection's number in the log, which is its descriptor's.
    pub number: u32,
    pub socket: Option<SocketNumber>,
    /// User and group at the other end of a unix socket.
    pub peer_ids: Option<(u32, u32)>,
}

/// A session's own timeouts, which VCL may set (`sess.*`).
#[derive(Clone, Copy, Debug)]
pub struct SessTimeouts {
    pub idle: Duration,
    pub linger: Duration,
    pub send: Duration,
    pub idle_send: Duration,
}

impl SessTimeouts {
    pub fn new(params: &Params) -> Self {
        SessTimeouts {
            idle: limit(params.compat(), params.timeout_idle),
            linger: params.timeout_linger,
            send: limit(params.compat(), params.send_timeout),
            idle_send: params.idle_send_timeout,
        }
    }
}

/// The ends of a session's connection, and those behind it, if there is a PROXY header.
pub struct SessEnds {
    pub remote: Address,
    pub local: Address,
    pub peer_ids: Option<(u32, u32)>,
    client: Cell<Address>,
    /// The client's address as text, which every request logs and sends on.
    client_text: Cell<AddressText>,
    server: Cell<Address>,
    /// Boxed: few sessions have one, and all idle ones would hold room for it.
    proxy: RefCell<Option<Box<ProxyHeader>>>,
}

impl SessEnds {
    fn new(connection: &ConnectionInfo) -> Self {
        let &ConnectionInfo { remote, local, peer_ids, .. } = connection;
        SessEnds {
            remote,
            local,
            peer_ids,
            client: Cell::new(remote),
            client_text: Cell::new(remote.text()),
            server: Cell::new(local),
            proxy: RefCell::new(None),
        }
    }

    /// The client: as the PROXY header says, else the peer.
    pub fn client(&self) -> Address {
        self.client.get()
    }

    pub(crate) fn client_text(&self) -> AddressText {
        self.client_text.get()
    }

    /// The address that the client connected to: as the PROXY header says, else our end.
    pub fn server(&self) -> Address {
        self.server.get()
    }

    pub fn set_proxy(&self, header: ProxyHeader) {
        if let Some(ends) = &header.ends {
            let client = Address::inet(ends.source);
            self.client.set(client);
            self.client_text.set(client.text());
            self.server.set(Address::inet(ends.destination));
        }
        *self.proxy.borrow_mut() = Some(Box::new(header));
    }

    pub(crate) fn proxy_tlvs(&self) -> Option<Vec<u8>> {
        self.proxy.borrow().as_ref().map(|header| header.tlvs.clone())
    }

    /// True if the PROXY header says that the client came by TLS or, without a word about TLS, names 443 as the port
    /// that the client connected to.
    fn came_by_tls(&self) -> bool {
        const SSL: u8 = 0x20;
        const CLIENT_SSL: u8 = 0x01;
        const HTTPS: u16 = 443;
        let proxy = self.proxy.borrow();
        let Some(header) = &*proxy else { return false };
        match tlv(&header.tlvs, SSL) {
            Some(ssl) => ssl.first().is_some_and(|flags| flags & CLIENT_SSL != 0),
            None => header.ends.is_some_and(|ends| ends.destination.port() == HTTPS),
        }
    }
}

pub struct Sess {
    pub engine: Arc<Engine>,
    pub vxid: Vxid,
    pub listener: Arc<ListenerInfo>,
    pub ends: SessEnds,
    /// The results of the TLS handshake; empty if the session has no TLS of ours.
    pub tls: OnceCell<Box<tls::HandshakeInfo>>,
    pub t_open: Real,
    pub timeouts: Cell<SessTimeouts>,
    /// The socket, if the session has one of its own. May be another's once the session is over.
    pub socket: Option<SocketNumber>,
    /// The version of HTTP that it speaks now, as VCL and the log call it: the front's word.
    pub version: Cell<&'static str>,
    /// The client of its latest request, while `bots` counts.
    pub(crate) latest_caller: RefCell<Option<Rc<Caller>>>,
    /// The value that `std.set_ip_tos` asked for, until the front has set it.
    pub tos: Cell<Option<u32>>,
}

impl Sess {
    /// Begins a session: its id, its first records, its count. See [`Sess::version`] for the protocol.
    pub fn open(
        engine: &Arc<Engine>,
        listener: &Arc<ListenerInfo>,
        connection: &ConnectionInfo,
        version: &'static str,
    ) -> Rc<Self> {
        let sess = Self::new(engine, engine.vxids.take(), listener, connection, version);
        // Together, under one lock of the log's.
        let mut log = TxnLog::new(engine.log.clone(), sess.vxid, Marker::Client);
        log.put2(Tag::Begin, b"sess 0 ", listener.transport.as_bytes());
        let (from, to) = (sess.ends.client_text(), connection.local.text());
        let mut record = log.record(Tag::SessOpen);
        record.text(from.ip_port()).text(" ").text(&listener.name).text(" ").text(to.ip_port());
        record.sp_time(sess.t_open).sp_num(connection.number.into());
        drop(record);
        drop(log);
        engine.main.s_sess.inc();
        Rc::new(sess)
    }

    pub(crate) fn new(
        engine: &Arc<Engine>,
        vxid: Vxid,
        listener: &Arc<ListenerInfo>,
        connection: &ConnectionInfo,
        version: &'static str,
    ) -> Self {
        Sess {
            engine: engine.clone(),
            vxid,
            listener: listener.clone(),
            ends: SessEnds::new(connection),
            tls: OnceCell::new(),
            t_open: engine.clock.real(),
            timeouts: Cell::new(SessTimeouts::new(&engine.params.load())),
            socket: connection.socket,
            version: Cell::new(version),
            latest_caller: RefCell::default(),
            tos: Cell::new(None),
        }
    }

    /// Ends the session: its last records and its counts. The task that began the session calls it once.
    pub fn close(&self, reason: SessClose) {
        let main = self.engine.main;
        let open = self.engine.clock.real().since(self.t_open);
        reason.counter(main).inc();
        main.sess_closed.inc();
        if reason.is_err() {
            main.sess_closed_err.inc();
        }
        let mut log = TxnLog::new(self.engine.log.clone(), self.vxid, Marker::Client);
        log.record(Tag::SessClose).text(reason.text()).text(" ").fixed3(open);
        log.put(Tag::End, b"");
        log.flush();
        // A client that sees the connection's end finds its records in the log, before those of a later connection.
        shm::vsl::flush_gathered();
    }

    /// True if the client came by TLS: ours, or that of a proxy.
    pub fn came_by_tls(&self) -> bool {
        self.tls.get().is_some() || self.ends.came_by_tls()
    }
}
