// SPDX-License-Identifier: BSD-2-Clause
//! Requests that no client sends: the place that they seem to come from, and a transport for their responses.

use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};

use message::Head;
use net::Address;
use shm::vsl::TxnLog;
use storage::Buf;
use tables::close::SessClose;

use crate::sess::{ConnectionInfo, ListenerInfo};
use crate::transport::{BodyLen, BodyState, ReqBodyError, SendError, Transport, TransportAcct, Tunnel};

/// A listener and a connection that don't exist. There is no socket: VCL that asks about it fails.
pub(crate) fn place(name: &str, client: SocketAddr) -> (Arc<ListenerInfo>, ConnectionInfo) {
    let listener = ListenerInfo {
        name: name.into(),
        transport: "HTTP/1",
        has_proxy_header: false,
        is_tls: false,
        is_quic: false,
        frontend: name.into(),
        h3_port: None,
        endpoint: name.into(),
        is_unix: false,
    };
    let local = Address::inet(SocketAddr::from(([127, 0, 0, 1], 80)));
    let remote = Address::inet(client);
    (Arc::new(listener), ConnectionInfo { remote, local, number: 0, socket: None, peer_ids: None })
}

/// A transport that sends nothing, and counts the bytes of the body.
#[derive(Debug, Default)]
pub(crate) struct NullTransport {
    /// 0 until there is a response.
    pub status: u16,
    pub body_bytes: u64,
}

impl Transport for NullTransport {
    fn connection(&mut self, _: &mut Head) -> Result<Option<SessClose>, SessClose> {
        Ok(None)
    }

    fn send_head(
        &mut self,
        resp: &mut Head,
        _: BodyLen,
        close: Option<SessClose>,
        _: &mut TxnLog,
    ) -> Option<SessClose> {
        self.status = resp.status();
        close
    }

    fn send_data(&mut self, piece: Buf) {
        self.body_bytes += piece.len() as u64;
    }

    fn send_end(&mut self, _: Option<&Head>) {}

    fn abort(&mut self) {}

    fn send_minimal(&mut self, status: u16, _: Option<&str>, _: &mut TxnLog) {
        self.status = status;
    }

    fn send_continue(&mut self, _: &mut TxnLog) {}

    fn has_input(&self) -> bool {
        false
    }

    fn send_interim(&mut self, _: &Head) {}

    fn queued(&self) -> usize {
        0
    }

    fn poll_flush(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<(), SendError>> {
        Poll::Ready(Ok(()))
    }

    fn poll_peer_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let _ = cx;
        Poll::Pending
    }

    fn body_state(&self) -> BodyState {
        BodyState::None
    }

    fn body_len(&self) -> Option<u64> {
        None
    }

    fn poll_body(&mut self, _: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        Poll::Ready(Ok(None))
    }

    fn take_tunnel(&mut self) -> Option<Tunnel> {
        None
    }

    fn acct(&self) -> TransportAcct {
        TransportAcct::default()
    }
}
