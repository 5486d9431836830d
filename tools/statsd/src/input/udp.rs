// SPDX-License-Identifier: BSD-2-Clause
//! A thread that receives datagrams, many a call, into its own shard.
//!
//! When datagrams come fast the thread sleeps a little between two calls, so that a call brings many and neither it nor
//! the senders pay for a wake-up a datagram. It never sleeps longer than an eighth of the socket's buffer takes to fill.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sys::udp::DatagramBatch;

use super::{SharedRepeater, SharedShard};
use crate::clock;

/// Datagrams per system call.
const SLOTS: usize = 256;
const NAP: Duration = Duration::from_millis(1);
/// A shorter sleep isn't worth its cost.
const SHORTEST_NAP: Duration = Duration::from_micros(80);
/// Bytes that the kernel charges for a small datagram against the buffer (measured).
pub const CHARGE: usize = 832;
const PAUSE: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct UdpReceiver {
    pub socket: Arc<OwnedFd>,
    pub shard: SharedShard,
    /// Bytes of buffer that the kernel granted.
    pub buffer: usize,
    repeater: SharedRepeater,
}

impl UdpReceiver {
    /// A bound socket that nobody receives from yet. Asks for a receive buffer of `wanted` bytes, if not 0.
    pub fn new(
        socket: OwnedFd,
        wanted: usize,
        shard: SharedShard,
        repeater: SharedRepeater,
    ) -> io::Result<UdpReceiver> {
        // A socket that gets no other buffer works with the kernel's.
        let buffer = match wanted {
            0 => sys::udp::receive_buffer(&socket)?,
            wanted => sys::udp::set_receive_buffer(&socket, wanted).or_else(|_| sys::udp::receive_buffer(&socket))?,
        };
        Ok(UdpReceiver { socket: Arc::new(socket), shard, buffer, repeater })
    }

    /// Starts the thread. It ends with the process.
    pub fn start(&self) -> io::Result<()> {
        let receiver = self.clone();
        std::thread::Builder::new().name("statsd-udp".to_owned()).spawn(move || receiver.run())?;
        Ok(())
    }

    fn run(self) {
        let mut batch = DatagramBatch::new(SLOTS);
        let mut pace = Pace::new(self.buffer);
        loop {
            match batch.receive(&*self.socket, true) {
                Ok(0) => {}
                Ok(received) => {
                    self.take_in(&batch);
                    if let Some(nap) = pace.nap(received, Instant::now()) {
                        std::thread::sleep(nap);
                    }
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Takes in what waits in the socket, for the last flush; at most about a buffer's worth.
    pub fn drain(&self) {
        let mut batch = DatagramBatch::new(SLOTS);
        for _ in 0..self.buffer / CHARGE / SLOTS + 1 {
            match batch.receive(&*self.socket, false) {
                Ok(received) if received > 0 => self.take_in(&batch),
                _ => return,
            }
        }
    }

    fn take_in(&self, batch: &DatagramBatch) {
        let mut shard = self.shard.lock();
        shard.seen(clock::seconds());
        batch.datagrams().for_each(|packet| shard.packet(packet));
        drop(shard);
        let repeater = self.repeater.lock().clone();
        if let Some(repeater) = repeater {
            repeater.packets(&mut || Box::new(batch.datagrams()));
        }
    }
}

/// Time to sleep between two calls.
#[derive(Debug)]
struct Pace {
    last: Option<Instant>,
    /// Datagrams that may come during a sleep.
    room: f64,
}

impl Pace {
    fn new(buffer: usize) -> Pace {
        let capacity = (buffer / CHARGE).max(64);
        Pace { last: None, room: (SLOTS * 3 / 4).min(capacity / 8) as f64 }
    }

    fn nap(&mut self, received: usize, now: Instant) -> Option<Duration> {
        let since = now.saturating_duration_since(self.last.replace(now)?);
        // A full batch means that more waits.
        if received >= SLOTS || since.is_zero() {
            return None;
        }
        let per_second = received as f64 / since.as_secs_f64();
        let nap = Duration::from_secs_f64((self.room / per_second).min(1.0)).min(NAP);
        let busy = per_second * NAP.as_secs_f64() > 2.0;
        (busy && nap >= SHORTEST_NAP).then_some(nap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn naps_are_for_fast_senders_and_big_buffers() {
        let start = Instant::now();
        let nap = |buffer: usize, received: usize, micros: u64| {
            let mut pace = Pace::new(buffer);
            assert_eq!(pace.nap(1, start), None, "one batch says nothing about speed");
            pace.nap(received, start + Duration::from_micros(micros))
        };
        assert_eq!(nap(8 << 20, 1, 1000), None);
        assert_eq!(nap(8 << 20, 100, 1000), Some(NAP));
        assert_eq!(nap(8 << 20, SLOTS, 1000), None);
        // 400,000 a second: 192 come within 480 us.
        assert_eq!(nap(8 << 20, 200, 500), Some(Duration::from_micros(480)));
        // The default buffer holds 256: an eighth comes within 320 us.
        assert_eq!(nap(212_992, 100, 1000), Some(Duration::from_micros(320)));
        assert_eq!(nap(212_992, 250, 500), None);
    }
}
