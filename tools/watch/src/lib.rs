// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer watch`: a page, metrics and health checks for a running server, ours or a genuine varnishd.
//!
//! One thread reads shared memory ([`follow`]) and adds up ([`tally`], [`history`]). Another one serves the results ([`http`], [`routes`]).
//! The server never waits for either.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod access;
mod blame;
mod book;
mod control;
mod counters;
mod document;
mod events;
mod follow;
mod health;
mod history;
mod http;
mod keeping;
mod latency;
mod live;
mod metrics;
mod options;
mod places;
mod problems;
mod program;
mod routes;
mod sealing;
mod state;
mod tally;
mod text;
mod transaction;
mod used;

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::Arc;

use shm::reader::CounterReader;
use shm::reader::find::Unfound;
use sys::holder::{self, SocketProtocol};
use sys::signal::{SIGHUP, SIGINT, SIGTERM, Signals};
use tokio::sync::{Mutex, Semaphore, mpsc};
use toolkit::print;

use access::PageAccess;
use options::WatchOptions;
use routes::Context;
use sealing::PageTls;
use state::WatchShared;

pub use options::{DEFAULT_ADDRESS, TOOL};
pub use problems::{Errors, ProblemJudge};

/// Number of open files to request: enough for more than a thousand viewers.
const OPEN_FILES: u64 = 8192;
/// Prefix of the line on standard output from which the parent process reads the address.
pub const LISTENS: &str = "watch: ";

/// Runs until SIGINT, SIGTERM or SIGHUP, or until the server that started this process has gone. Returns the exit status.
///
/// `judge` finds the server's problems. Must be called before the process has started a thread: it blocks signals for all threads to come.
pub fn main(args: &[String], judge: ProblemJudge) -> i32 {
    TOOL.main(args, WatchOptions::parse, |options| run(options, judge).map(|()| 0))
}

fn run(options: WatchOptions, judge: ProblemJudge) -> Result<(), String> {
    let sealing = options.tls.clone().map(PageTls::new).transpose()?;
    let access = PageAccess::new(options.token_file.as_deref(), sealing.as_ref())?;
    let addresses = options.addresses()?;
    // The server before the port, which another page may have: of two mistakes this is the one to fix first.
    let workdir = workdir(&options)?;
    let listener = listen(&options, &addresses)?;
    let address = listener.local_addr().map_err(|e| e.to_string())?;
    let signals = Signals::new(&[SIGINT, SIGTERM, SIGHUP]).map_err(|e| format!("signals: {e}"))?;
    // The system may grant fewer.
    let _ = sys::limits::raise_open_files(OPEN_FILES);
    print::out(format_args!("{LISTENS}{}://{address}/\n", if sealing.is_some() { "https" } else { "http" }));
    let is_child = options.is_child;
    let channel = options.cli_channel.map(control::CliChannel::inherit).transpose()?;
    let shared = Arc::new(WatchShared { channel, ..WatchShared::new(options, workdir) });
    let keeping = shared.options.history.map(keeping::Keeping::inherit).transpose()?;
    let (reading, judging) = (Arc::clone(&shared), Arc::clone(&shared));
    let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
    thread("watch-read").spawn(move || follow::run(&reading, keeping)).map_err(|e| format!("a thread: {e}"))?;
    thread("watch-judge").spawn(move || problems::run(&judging, judge)).map_err(|e| format!("a thread: {e}"))?;
    let context = Context {
        shared,
        access,
        asks: Semaphore::new(routes::MAX_ASKS),
        pages: Semaphore::new(routes::MAX_PAGES),
        listed: Mutex::default(),
    };
    let (ends, mut ended) = mpsc::unbounded_channel();
    wait_for_end(signals, is_child, &ends).map_err(|e| format!("a thread: {e}"))?;
    let served = rt::run(async move {
        listener.set_nonblocking(true)?;
        rt::spawn(http::serve(tokio::net::TcpListener::from_std(listener)?, sealing, Rc::new(context)));
        ended.recv().await;
        Ok::<(), io::Error>(())
    });
    served.and_then(|inner| inner).map_err(|e| e.to_string())
}

/// The server's workdir. The server need not run yet: the page waits for it.
fn workdir(options: &WatchOptions) -> Result<std::path::PathBuf, String> {
    let name = options.name.as_deref();
    if options.is_child {
        return Ok(CounterReader::workdir_of(name));
    }
    match shm::reader::find(name) {
        Ok(found) => {
            if let Some(remark) = found.remark {
                print::foreign_err(format_args!("lacquer watch: {remark}\n"));
            }
            Ok(found.workdir)
        }
        Err(error @ Unfound::NotRunning { .. }) => {
            print::foreign_err(format_args!("lacquer watch: {error}\nThe page waits for it.\n"));
            Ok(CounterReader::workdir_of(name))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Sends a message when a signal arrives, or when the server that started this process has gone.
fn wait_for_end(mut signals: Signals, is_child: bool, ends: &mpsc::UnboundedSender<()>) -> io::Result<()> {
    let end = ends.clone();
    let wait = move || {
        while sys::fd::wait(&signals, sys::fd::Interest::Read, None).is_ok() {
            if matches!(signals.take(), Ok(Some(_))) && end.send(()).is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new().name("watch-signals".to_owned()).spawn(wait)?;
    if is_child {
        let end = ends.clone();
        let wait = move || {
            let mut byte = [0];
            // The server never writes to this pipe; it only closes it.
            while matches!(io::stdin().read(&mut byte), Ok(1..)) {}
            let _ = end.send(());
        };
        std::thread::Builder::new().name("watch-parent".to_owned()).spawn(wait)?;
    }
    Ok(())
}

fn listen(options: &WatchOptions, addresses: &[SocketAddr]) -> Result<TcpListener, String> {
    match TcpListener::bind(addresses) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && options.any_port => {
            let any: Vec<SocketAddr> = addresses.iter().map(|address| SocketAddr::new(address.ip(), 0)).collect();
            print::err(format_args!("lacquer watch: {} is taken, another port is used\n", options.listen));
            TcpListener::bind(&any[..]).map_err(|e| format!("{}: {e}", options.listen))
        }
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let holder = addresses.iter().find_map(|address| holder::of(*address, SocketProtocol::Tcp));
            let by = holder.map(|holder| format!(" by {holder}")).unwrap_or_default();
            Err(format!("{}: {error}{by}", options.listen))
        }
        bound => bound.map_err(|e| format!("{}: {e}", options.listen)),
    }
}
