// SPDX-License-Identifier: BSD-2-Clause
//! Passes packets on to other statsds as they came, from the thread that received them. Nothing waits for a target: what
//! can't be sent at once (UDP) or doesn't fit the buffer (TCP) is dropped and counted.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use crate::config::RepeaterConfig as Config;

/// The most bytes that wait for one TCP target.
const BUFFER_BYTES: usize = 8 << 20;
const TCP_PERIOD: Duration = Duration::from_millis(10);
const LOOKUP_PERIOD: Duration = Duration::from_secs(30);
const RETRY_PERIOD: Duration = Duration::from_secs(1);
/// Time limit of a TCP target for connecting and for taking bytes.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Repeater {
    how: How,
    config: Config,
    pub sent: AtomicU64,
    pub dropped: AtomicU64,
}

#[derive(Debug)]
enum How {
    Udp { socket: UdpSocket, targets: Mutex<Arc<[SocketAddr]>> },
    Tcp { buffers: Vec<Mutex<Vec<u8>>> },
}

impl Repeater {
    /// Nothing is passed on before [`Repeater::run`] has found the targets.
    pub fn new(config: &Config) -> std::io::Result<Repeater> {
        let how = if config.tcp {
            How::Tcp { buffers: config.targets.iter().map(|_| Mutex::default()).collect() }
        } else {
            let any: SocketAddr =
                if config.v6 { (Ipv6Addr::UNSPECIFIED, 0).into() } else { (Ipv4Addr::UNSPECIFIED, 0).into() };
            let socket = UdpSocket::bind(any)?;
            socket.set_nonblocking(true)?;
            How::Udp { socket, targets: Mutex::new(Arc::from([])) }
        };
        Ok(Repeater { how, config: config.clone(), sent: AtomicU64::new(0), dropped: AtomicU64::new(0) })
    }

    /// Passes packets on; `packets` gives them, each time it is called.
    pub fn packets<'a>(&self, packets: &mut dyn FnMut() -> Box<dyn Iterator<Item = &'a [u8]> + 'a>) {
        match &self.how {
            How::Udp { socket, targets } => {
                let targets = Arc::clone(&targets.lock());
                for packet in packets() {
                    for target in targets.iter() {
                        self.count(socket.send_to(packet, target).is_ok(), 1);
                    }
                }
            }
            How::Tcp { buffers } => {
                for buffer in buffers {
                    let mut buffer = buffer.lock();
                    for packet in packets() {
                        let fits = buffer.len() + packet.len() < BUFFER_BYTES;
                        if fits {
                            buffer.extend_from_slice(packet);
                            buffer.push(b'\n');
                        }
                        self.count(fits, 1);
                    }
                }
            }
        }
    }

    fn count(&self, sent: bool, packets: u64) {
        let counter = if sent { &self.sent } else { &self.dropped };
        counter.fetch_add(packets, Ordering::Relaxed);
    }

    /// Looks names up, or sends what waits; never ends.
    pub async fn run(self: Arc<Repeater>) {
        match &self.how {
            How::Udp { targets, .. } => loop {
                *targets.lock() = self.look_up().await;
                tokio::time::sleep(LOOKUP_PERIOD).await;
            },
            How::Tcp { buffers } => {
                let links = (0..buffers.len()).map(|at| tokio::task::spawn_local(Arc::clone(&self).link(at)));
                for link in links.collect::<Vec<_>>() {
                    let _ = link.await;
                }
            }
        }
    }

    /// Sends what waits for one TCP target; never ends. A slow target holds up no other.
    async fn link(self: Arc<Repeater>, at: usize) {
        let How::Tcp { buffers } = &self.how else { return };
        let (buffer, target) = (&buffers[at], &self.config.targets[at]);
        let mut stream = None;
        loop {
            tokio::time::sleep(TCP_PERIOD).await;
            if buffer.lock().is_empty() {
                continue;
            }
            if stream.is_none() {
                let connect = TcpStream::connect((target.0.as_str(), target.1));
                stream = tokio::time::timeout(PATIENCE, connect).await.ok().and_then(Result::ok);
            }
            let Some(open) = &mut stream else {
                tokio::time::sleep(RETRY_PERIOD).await;
                continue;
            };
            let waiting = std::mem::take(&mut *buffer.lock());
            if !matches!(tokio::time::timeout(PATIENCE, open.write_all(&waiting)).await, Ok(Ok(()))) {
                self.count(false, memchr::memchr_iter(b'\n', &waiting).count() as u64);
                stream = None;
                tokio::time::sleep(RETRY_PERIOD).await;
            }
        }
    }

    async fn look_up(&self) -> Arc<[SocketAddr]> {
        let mut all = Vec::new();
        for (host, port) in &self.config.targets {
            if let Ok(found) = tokio::net::lookup_host((host.as_str(), *port)).await {
                all.extend(found.filter(|addr| addr.is_ipv6() == self.config.v6).take(1));
            }
        }
        all.into()
    }
}
