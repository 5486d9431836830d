// SPDX-License-Identifier: BSD-2-Clause
//! Receives datagrams and does nothing but count them: what a receiver can cost least. Prints its address, and at the end
//! of its stdin one line of JSON.
//!
//! count_only ADDRESS [RECEIVE_BUFFER_BYTES]

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

fn main() {
    let mut args = std::env::args().skip(1);
    let address = args.next().expect("count_only ADDRESS [BUFFER]").parse().expect("an address");
    let socket = Arc::new(sys::udp::bind_group(address, 1).expect("the address").remove(0));
    if let Some(bytes) = args.next() {
        sys::udp::set_receive_buffer(&*socket, bytes.parse().expect("bytes")).expect("a buffer");
    }
    let (received, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let thread = (Arc::clone(&socket), Arc::clone(&received), Arc::clone(&bytes));
    std::thread::spawn(move || {
        let (socket, received, bytes) = thread;
        let mut batch = sys::udp::DatagramBatch::new(64);
        loop {
            let n = batch.receive(&*socket, true).expect("datagrams");
            bytes.fetch_add(batch.datagrams().map(|d| d.len() as u64).sum(), Ordering::Relaxed);
            received.fetch_add(n as u64, Ordering::Relaxed);
        }
    });
    println!("server is up");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    let drops = sys::udp::drops(&*socket).expect("a count");
    println!(
        "{{\"received\": {}, \"bytes\": {}, \"drops\": {drops}}}",
        received.load(Ordering::Relaxed),
        bytes.load(Ordering::Relaxed)
    );
}
