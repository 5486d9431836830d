// SPDX-License-Identifier: BSD-2-Clause
//! The worker process: what serves. It gets its listening sockets and settings from the manager at birth, answers the
//! manager's CLI from its first thread, and serves from one thread per CPU; one more keeps house.

#[macro_use]
mod report;

mod adoption;
mod backends;
mod commands;
pub mod conf;
mod demand;
mod disks;
mod drain;
mod fleet;
mod housekeeping;
mod journal;
mod memory;
mod panic;
mod peers;
mod pools;
mod profile;
mod quic;
mod relay;
mod secrets;
mod serving;
mod steps;
mod succession;
mod suspects;
mod vcls;
mod warm;
mod watchdog;
mod worker;

use std::os::fd::AsFd;
use std::sync::Arc;

use cli::{CliDecoder, CliReply};
use shm::vsl::Marker;
use sys::fd::Interest;
use sys::signal::{self, Signals};
use tables::tags::Tag;

pub use backends::Vmods;
pub use fleet::Carrier;
pub use journal::{FormerJournal, open_on as open_journal};
pub use worker::adopt;
use worker::{Inheritance, Worker};

/// The AppArmor profile that the worker goes over into, where an operator or a package has loaded it (packaging/deb/apparmor.d).
const PROFILE: &str = "lacquer-worker";

/// The worker's whole life; the value is the exit status. `socket` is the number of the CLI descriptor.
pub fn main(socket: &str, vmods: Vmods) -> i32 {
    // What monitoring looks for.
    let _ = sys::limits::set_thread_name("cache-main");
    // A terminal's ^C reaches all processes of its group: the manager decides what it means.
    let _ = signal::ignore(signal::SIGINT);
    let _ = signal::ignore(signal::SIGHUP);
    // Before there is a thread: one that doesn't block the signal would get it, and the process would die of it.
    let signals = match Signals::new(&[signal::SIGTERM]) {
        Ok(signals) => signals,
        Err(error) => {
            report_line!("signals: {error}");
            return 1;
        }
    };
    let birth = match Inheritance::receive(socket) {
        Ok(birth) => birth,
        Err(reason) => {
            report_line!("{reason}");
            return 1;
        }
    };
    let (socket, leftover) = (birth.socket, birth.leftover);
    // Who is in a container's profile already stays there.
    let _ = sys::confine::enter_profile(PROFILE);
    worker::start_sentinels(&birth.start);
    let worker = match Worker::new(birth.start, vmods) {
        Ok(worker) => worker,
        Err(reason) => {
            report_line!("{reason}");
            return 1;
        }
    };
    if let Ok(limit) = sys::limits::open_files_limit() {
        net::scarce::set_limit(limit);
    }
    if let Err(error) = rt::prepare_blocking() {
        report_line!("no thread for calls that block: {error}; raise the limit of processes (lacquer doctor names it)");
        return 1;
    }
    report_line!("Child starts");
    // The greeting answers nothing, so it isn't logged as an answer.
    if sys::fd::write_all(&socket, &CliReply::ok("").encode()).is_err() {
        return 0;
    }
    worker.disks.start(&worker.engine.clock);
    memory::start(&worker);
    housekeeping::start(&worker);
    journal::start(&worker);
    adoption::start(&worker);
    if worker.start.succession.former_fd.is_none()
        && let Err(reason) = fleet::start(&worker)
    {
        report_line!("{reason}");
        return 1;
    }
    converse(&socket, leftover, &worker, &signals);
    drain::finish(&worker);
    0
}

/// Answers commands until the manager closes, or SIGTERM comes.
fn converse(socket: &std::os::fd::OwnedFd, leftover: Vec<u8>, worker: &Arc<Worker>, signals: &Signals) {
    let mut decoder = CliDecoder::trusted();
    decoder.feed(&leftover);
    let mut buf = [0; 16 * 1024];
    loop {
        while let Some(request) = decoder.next_request() {
            let reply = match request {
                Ok(request) => {
                    let line = String::from_utf8_lossy(&request.line).into_owned();
                    log_cli(worker, format_args!("Rd {line}"));
                    answer(worker, &request)
                }
                Err(error) => error.reply(),
            };
            if !send(socket, worker, &reply) {
                return;
            }
        }
        if worker.drain.has_begun() {
            succession::tend(worker);
        }
        if worker.drain.is_over(&worker.engine) {
            return;
        }
        let wants = [(socket.as_fd(), Interest::Read), (signals.as_fd(), Interest::Read)];
        let pause = worker.drain.has_begun().then_some(drain::LOOK);
        match sys::fd::wait_any(&wants, pause) {
            Ok(ready) if ready[1] => return,
            Ok(ready) if !ready[0] => continue,
            Ok(_) => {}
            Err(error) => {
                report_line!("poll: {error}");
                return;
            }
        }
        match sys::fd::read(socket, &mut buf) {
            Ok(n) if n > 0 => decoder.feed(&buf[..n]),
            Ok(_) | Err(_) => return,
        }
    }
}

/// A command that panics is answered like one that fails; the next one may do better.
fn answer(worker: &Arc<Worker>, request: &cli::CliRequest) -> CliReply {
    let _contained = base::critical::contain();
    let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| commands::answer(worker, request)));
    answered.unwrap_or_else(|_| CliReply::new(cli::CliStatus::Cant, "Panic in the worker: see its output"))
}

fn send(socket: &std::os::fd::OwnedFd, worker: &Worker, reply: &CliReply) -> bool {
    let reply = reply.clone();
    log_cli(worker, format_args!("Wr {} {} {}", reply.status as u16, reply.text().len(), reply.text()));
    sys::fd::write_all(socket, &reply.encode()).is_ok()
}

fn log_cli(worker: &Worker, text: std::fmt::Arguments<'_>) {
    worker.engine.log.write_onef(Tag::Cli, base::Vxid::NONE, Marker::None, text);
}
