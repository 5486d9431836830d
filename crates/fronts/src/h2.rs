// SPDX-License-Identifier: BSD-2-Clause
//! HTTP/2 on the client's side (RFC 9113): many requests at once on a connection.
//!
//! ```text
//! connection's task: read -> codec -> streams begin -> what they queue, by turns and windows -> one write for all
//! a stream: a request of the engine's like any other, over a transport of its own
//! ```
//!
//! The connection's task alone reads and writes. A stream runs first within it, so that a hit ends there; one that has to wait
//! becomes a task of its own on the same thread. What both sides know of a stream is in [`mux`]. An idle connection keeps the
//! codec's state and no buffer.

mod codes;
mod config;
mod drain;
mod mux;
mod places;
mod request;
mod serve;
mod stream;
mod transport;
pub(crate) mod upgrade;
mod wire;

use std::rc::Rc;

use rt::Runners;

use crate::conn::ClientConn;
use crate::session::SessionOutcome;

pub(crate) use mux::Mux;
use serve::Workspace;
pub(crate) use serve::say_goodbye;
pub(crate) use upgrade::Upgraded;

/// Name in VCL (`req.transport`).
pub(crate) const VERSION: &str = "HTTP/2";

/// Protocol in start lines, which HTTP/2 hasn't got.
const PROTOCOL: &str = "HTTP/2.0";

thread_local! {
    static RUNNERS: Runners<Box<ClientConn>, (Box<ClientConn>, SessionOutcome)> = const { Runners::new() };
}

pub(crate) fn trim() {
    RUNNERS.with(Runners::trim);
    request::trim();
    transport::trim();
}

/// The connection goes on as HTTP/2: its client's preface comes next, unless it is in the input already.
pub(crate) fn begin(conn: &mut ClientConn, upgraded: Option<Box<Upgraded>>) {
    conn.sess.version.set(VERSION);
    conn.sess.engine.main.h2_sess.inc();
    let mux = Rc::new(Mux::new(&conn.sess, upgraded));
    drain::enter(&mux);
    conn.h2 = Some(mux);
}

/// Serves the connection until it is idle or at its end.
pub(crate) fn run(conn: Box<ClientConn>) -> impl Future<Output = (Box<ClientConn>, SessionOutcome)> {
    Runners::run_here(&RUNNERS, busy, conn)
}

async fn busy(conn: Box<ClientConn>, workspace: Workspace) -> ((Box<ClientConn>, SessionOutcome), Workspace) {
    let mut serving = serve::Serving::new(conn, workspace);
    let outcome = serving.run().await;
    let (back, emptied) = serving.into_parts();
    ((back, outcome), emptied)
}
