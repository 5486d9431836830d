// SPDX-License-Identifier: BSD-2-Clause
//! Endpoints of one process, and between them a network that loses, doubles and delays datagrams, and so turns their order round. It has no socket, and
//! its time is the runtime's.

use std::collections::HashMap;
use std::fmt;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use base::lock::Mutex;
use net::quic::GroupSocket;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{AsyncUdpSocket, Endpoint, ServerConfig, UdpPoller};
use rt::{Instant, Sleep};
use tls::quic::QuicKeys;

/// The fate of each datagram: one of so many is lost, one of so many comes twice, and each takes a time between both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The value 0: none.
    pub lost_one_in: u64,
    /// The value 0: none.
    pub doubled_one_in: u64,
    /// Drawn for each: where they differ later ones overtake.
    pub delay: (Duration, Duration),
}

pub type NumberDraw = Box<dyn FnMut(u64) -> u64 + Send>;

#[derive(Clone)]
pub struct QuicNetwork(Arc<Mutex<State>>);

struct State {
    path: Path,
    draw: NumberDraw,
    inboxes: HashMap<SocketAddr, Inbox>,
    lost: u64,
}

#[derive(Default)]
struct Inbox {
    arriving: Vec<Datagram>,
    waker: Option<Waker>,
}

struct Datagram {
    at: Instant,
    from: SocketAddr,
    octets: Box<[u8]>,
}

impl QuicNetwork {
    pub fn new(path: Path, draw: NumberDraw) -> Self {
        QuicNetwork(Arc::new(Mutex::new(State { path, draw, inboxes: HashMap::new(), lost: 0 })))
    }

    pub fn serve(
        &self,
        at: SocketAddr,
        own_socket: GroupSocket,
        keys: &QuicKeys,
        config: ServerConfig,
    ) -> io::Result<Endpoint> {
        net::quic::listen_on(self.socket(at), own_socket, keys, config)
    }

    pub fn client(&self, at: SocketAddr) -> io::Result<Endpoint> {
        net::quic::client_on(self.socket(at))
    }

    /// This becomes of each datagram from now on; those under way arrive.
    pub fn set_path(&self, path: Path) {
        self.0.lock().path = path;
    }

    pub fn lost(&self) -> u64 {
        self.0.lock().lost
    }

    fn socket(&self, at: SocketAddr) -> Arc<Socket> {
        self.0.lock().inboxes.insert(at, Inbox::default());
        Arc::new(Socket { network: self.clone(), at, timer: Mutex::new(None) })
    }
}

impl State {
    fn send(&mut self, from: SocketAddr, to: SocketAddr, octets: &[u8]) -> Option<Waker> {
        let one_in = |draw: &mut NumberDraw, count: u64| count > 0 && (*draw)(count) == 0;
        if one_in(&mut self.draw, self.path.lost_one_in) {
            self.lost += 1;
            return None;
        }
        let copies = if one_in(&mut self.draw, self.path.doubled_one_in) { 2 } else { 1 };
        let (least, most) = self.path.delay;
        let inbox = self.inboxes.get_mut(&to)?;
        for _ in 0..copies {
            let more = (self.draw)((most - least).as_micros() as u64 + 1);
            let at = Instant::now() + least + Duration::from_micros(more);
            inbox.arriving.push(Datagram { at, from, octets: octets.into() });
        }
        inbox.waker.take()
    }
}

impl Inbox {
    /// The datagram that has arrived; else the time when one will.
    fn take(&mut self, now: Instant) -> Result<Datagram, Option<Instant>> {
        let next = (0..self.arriving.len()).min_by_key(|&i| self.arriving[i].at).ok_or(None)?;
        let at = self.arriving[next].at;
        if at > now { Err(Some(at)) } else { Ok(self.arriving.remove(next)) }
    }
}

struct Socket {
    network: QuicNetwork,
    at: SocketAddr,
    timer: Mutex<Option<Pin<Box<Sleep>>>>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.at)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.network.0.lock().inboxes.remove(&self.at);
    }
}

/// A socket that always takes more.
#[derive(Debug)]
struct Writable;

impl UdpPoller for Writable {
    fn poll_writable(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl AsyncUdpSocket for Socket {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Box::pin(Writable)
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        let each = transmit.segment_size.unwrap_or(transmit.contents.len()).max(1);
        for octets in transmit.contents.chunks(each) {
            let woken = self.network.0.lock().send(self.at, transmit.destination, octets);
            woken.into_iter().for_each(Waker::wake);
        }
        Ok(())
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        let (Some(buf), Some(meta)) = (bufs.first_mut(), meta.first_mut()) else { return Poll::Ready(Ok(0)) };
        loop {
            let due = {
                let mut state = self.network.0.lock();
                let Some(inbox) = state.inboxes.get_mut(&self.at) else { return Poll::Pending };
                match inbox.take(Instant::now()) {
                    Ok(Datagram { from, octets, .. }) => {
                        let len = octets.len().min(buf.len());
                        buf[..len].copy_from_slice(&octets[..len]);
                        *meta = RecvMeta { addr: from, len, stride: len, ecn: None, dst_ip: None };
                        return Poll::Ready(Ok(1));
                    }
                    Err(due) => {
                        inbox.waker = Some(cx.waker().clone());
                        due
                    }
                }
            };
            let Some(due) = due else { return Poll::Pending };
            let mut timer = self.timer.lock();
            let timer = timer.get_or_insert_with(|| Box::pin(rt::sleep_until(due)));
            timer.as_mut().reset(due);
            std::task::ready!(timer.as_mut().poll(cx));
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.at)
    }
}
