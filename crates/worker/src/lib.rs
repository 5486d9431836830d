// SPDX-License-Identifier: BSD-2-Clause
//! The worker process: what serves. It gets its listening sockets and settings from the manager at birth, answers the
//! manager's CLI from its first thread, and serves from one thread per CPU; one more keeps house.

mod backends;
mod birth;
mod commands;
mod conf;
mod housekeeping;
mod panic;
mod serving;
mod vcls;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use cli::{Decoder, Reply};
use shm::vsl::Marker;
use tables::tags::Tag;

use birth::{Birth, Worker};

/// The worker's whole life; the value is the exit status. `args[0]` is the number of the CLI descriptor.
pub fn main(args: &[String]) -> i32 {
    let birth = match Birth::receive(args) {
        Ok(birth) => birth,
        Err(why) => {
            eprintln!("{why}");
            return 1;
        }
    };
    let (socket, leftover) = (birth.socket, birth.leftover);
    let worker = match Worker::new(birth.start) {
        Ok(worker) => worker,
        Err(why) => {
            eprintln!("{why}");
            return 1;
        }
    };
    eprintln!("Child starts");
    // The greeting answers nothing, so it isn't logged as an answer.
    if sys::fd::write_all(&socket, &Reply::ok("").encode()).is_err() {
        return 0;
    }
    housekeeping::start(&worker);
    converse(&socket, leftover, &worker);
    drain(&worker);
    0
}

/// Answers commands until the manager closes.
fn converse(socket: &std::os::fd::OwnedFd, leftover: Vec<u8>, worker: &Arc<Worker>) {
    let mut decoder = Decoder::trusted();
    decoder.feed(&leftover);
    let mut buf = [0; 16 * 1024];
    loop {
        while let Some(request) = decoder.next_request() {
            let reply = match request {
                Ok(request) => {
                    let line = String::from_utf8_lossy(&request.line).into_owned();
                    log_cli(worker, format_args!("Rd {line}"));
                    commands::answer(worker, &request)
                }
                Err(error) => error.reply(),
            };
            if !send(socket, worker, &reply) {
                return;
            }
        }
        match sys::fd::read(socket, &mut buf) {
            Ok(n) if n > 0 => decoder.feed(&buf[..n]),
            Ok(_) | Err(_) => return,
        }
    }
}

fn send(socket: &std::os::fd::OwnedFd, worker: &Worker, reply: &Reply) -> bool {
    let reply = reply.clone();
    log_cli(worker, format_args!("Wr {} {} {}", reply.status as u16, reply.text().len(), reply.text()));
    sys::fd::write_all(socket, &reply.encode()).is_ok()
}

fn log_cli(worker: &Worker, text: std::fmt::Arguments<'_>) {
    worker.engine.log.write_onef(Tag::Cli, base::Vxid::NONE, Marker::None, text);
}

/// The manager is gone or said stop: requests in progress may end, for `shutdown_grace`.
fn drain(worker: &Worker) {
    let engine = &worker.engine;
    engine.draining.store(true, Ordering::Relaxed);
    let grace = engine.params.load().shutdown_grace;
    let until = std::time::Instant::now() + grace;
    while engine.sessions.load(Ordering::Relaxed) > 0 && std::time::Instant::now() < until {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::thread::sleep(std::time::Duration::from_millis(worker.shutdown_delay_ms.load(Ordering::Relaxed)));
    eprintln!("Child dies");
}
