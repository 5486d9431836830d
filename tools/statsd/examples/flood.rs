// SPDX-License-Identifier: BSD-2-Clause
//! Sends counters to a statsd, as fast as it goes or at a rate. Prints one line of JSON.
//!
//! flood ADDRESS [packets=N] [rate=PER_SECOND] [metrics=PER_PACKET] [batch=PACKETS_A_CALL] [names=N]

use std::net::UdpSocket;
use std::time::{Duration, Instant};

/// Delay after which a sender that had no CPU for a while still catches up: a burst that a buffer of 8 MB takes twice.
const CATCH_UP: Duration = Duration::from_millis(40);

fn main() {
    let mut args = std::env::args().skip(1);
    let address = args.next().expect("flood ADDRESS [packets=N] [rate=N] [metrics=N] [batch=N] [names=N]");
    let (mut packets, mut rate, mut metrics, mut batch, mut names) = (1_000_000usize, 0.0f64, 1usize, 1usize, 100usize);
    for arg in args {
        let (name, value) = arg.split_once('=').expect("name=value");
        let value: f64 = value.parse().expect("a number");
        match name {
            "packets" => packets = value as usize,
            "rate" => rate = value,
            "metrics" => metrics = value as usize,
            "batch" => batch = (value as usize).max(1),
            "names" => names = (value as usize).max(1),
            _ => panic!("no option {name}"),
        }
    }
    let lines: Vec<String> = (0..names).map(|n| format!("bench.counter.{n}:1|c")).collect();
    let payload = |first: usize| {
        let all: Vec<&str> = (0..metrics).map(|n| lines[(first + n) % names].as_str()).collect();
        all.join("\n").into_bytes()
    };
    let payloads: Vec<Vec<u8>> = (0..names).map(payload).collect();
    let socket = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    socket.connect(&address).expect("an address");
    let began = Instant::now();
    // When the sender itself had no CPU for a while it goes on at its rate instead of catching up in a burst.
    let mut lost_time = Duration::ZERO;
    let (mut sent, mut refused) = (0usize, 0usize);
    while sent < packets {
        let group: Vec<&[u8]> =
            (0..batch.min(packets - sent)).map(|n| payloads[(sent + n) % names].as_slice()).collect();
        match group.as_slice() {
            [one] => refused += usize::from(socket.send(one).is_err()),
            many => refused += many.len() - sys::udp::send_all(&socket, many).unwrap_or(0),
        }
        sent += group.len();
        if rate > 0.0 {
            let due = Duration::from_secs_f64(sent as f64 / rate) + lost_time;
            let ahead = due.saturating_sub(began.elapsed());
            lost_time += began.elapsed().saturating_sub(due + CATCH_UP);
            // Sleeping for less than the timer's slack would make bursts.
            if ahead > Duration::from_micros(200) {
                std::thread::sleep(ahead - Duration::from_micros(60));
            }
        }
    }
    let seconds = began.elapsed().as_secs_f64();
    println!("{{\"sent\": {}, \"refused\": {refused}, \"seconds\": {seconds:.6}}}", sent - refused);
}
