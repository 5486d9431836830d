// SPDX-License-Identifier: BSD-2-Clause
//! A handshake over a stream, of either role.
//!
//! A step of a server's takes a fifth of a millisecond or more, and anybody can ask for one. A thread takes one at a time, and between two of
//! them it looks for events and serves who is ready: a flood of handshakes delays other connections by a step, not by all of them.

use std::io;
use std::rc::Rc;

use rt::Instant;
use tls::{Handshake, Info, Progress};
use tokio::sync::Semaphore;

use crate::kernel::{self, KernelTls, KernelUse};
use crate::sealed::Sealed;
use crate::{IdleState, IoError, Stream};

/// What is read at once: most flights are shorter.
const READ: usize = 4096;

thread_local! {
    static STEPS: Rc<Semaphore> = Rc::new(Semaphore::new(1));
}

/// Why no sealed stream came about.
#[derive(Debug)]
pub enum HandshakeError {
    /// It took too long.
    Timeout,
    /// The peer closed.
    Closed,
    /// The operating system's word.
    Os(io::Error),
    /// TLS' word; the peer has been told.
    Tls(tls::Error),
}

impl From<IoError> for HandshakeError {
    fn from(error: IoError) -> Self {
        match error {
            IoError::Timeout => HandshakeError::Timeout,
            IoError::Closed => HandshakeError::Closed,
            IoError::Os(error) => HandshakeError::Os(error),
        }
    }
}

impl std::fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HandshakeError::Timeout => f.write_str("Handshake timeout"),
            HandshakeError::Closed => f.write_str("the peer closed during the handshake"),
            HandshakeError::Os(error) => error.fmt(f),
            HandshakeError::Tls(error) => error.fmt(f),
        }
    }
}

/// A handshake that failed, with the stream, for who wants to end it in order.
#[derive(Debug)]
pub struct Failed {
    /// Why.
    pub error: HandshakeError,
    /// The stream it was on.
    pub stream: Stream,
}

/// Carries out a handshake on `stream`, from which `received` was read already, and seals it.
///
/// # Errors
/// See [`HandshakeError`]; the alert that tells the peer is sent.
pub async fn handshake(
    stream: Stream,
    handshake: Handshake,
    received: Vec<u8>,
    deadline: Option<Instant>,
) -> Result<(Stream, Info), Failed> {
    let (stream, info, _) = handshake_giving(stream, handshake, received, deadline, KernelUse::Off).await?;
    Ok((stream, info))
}

/// The same; by `wanted` it is the kernel that seals.
///
/// # Errors
/// See [`handshake`].
pub async fn handshake_giving(
    stream: Stream,
    mut handshake: Handshake,
    mut received: Vec<u8>,
    deadline: Option<Instant>,
    wanted: KernelUse,
) -> Result<(Stream, Info, KernelTls), Failed> {
    if let Err(error) = carry_out(&stream, &mut handshake, &mut received, deadline).await {
        return Err(Failed { error, stream });
    }
    let mut told = KernelTls::Unasked;
    let give = |key| {
        let (ability, outcome) = kernel::give(&stream, wanted, &key);
        told = outcome;
        ability
    };
    match handshake.finish_giving((wanted != KernelUse::Off).then_some(give)) {
        Ok((traffic, info)) => Ok((Stream::Sealed(Box::new(Sealed::new(stream, traffic, received))), info, told)),
        Err(error) => Err(Failed { error: HandshakeError::Tls(error), stream }),
    }
}

async fn carry_out(
    stream: &Stream,
    handshake: &mut Handshake,
    received: &mut Vec<u8>,
    deadline: Option<Instant>,
) -> Result<(), HandshakeError> {
    loop {
        let mut out = Vec::new();
        let progress = match is_worth_a_step(handshake, received) {
            true => step(stream, handshake, received, &mut out, deadline).await?,
            false => Ok(Progress::Waits),
        };
        received.shrink_to(READ);
        if let Err(error) = progress {
            // An alert is few bytes: a socket that doesn't take them has a peer that doesn't read.
            let _ = stream.try_write(&out);
            return Err(HandshakeError::Tls(error));
        }
        stream.write_all(&out, deadline).await?;
        drop(out);
        if progress == Ok(Progress::Done) {
            received.shrink_to_fit();
            return Ok(());
        }
        if stream.read_more(received, READ, deadline).await? == 0 {
            return Err(HandshakeError::Closed);
        }
    }
}

/// Whether there is anything to be done: a client begins with nothing, a server waits for whole records.
fn is_worth_a_step(handshake: &Handshake, received: &[u8]) -> bool {
    !handshake.is_server() || !matches!(tls::record::whole(received), Ok(None))
}

/// A step, when it is this handshake's turn. A client's are as many as we begin connections: they don't wait. Whose time is over by
/// then, or whose peer has gone, costs no signature.
async fn step(
    stream: &Stream,
    handshake: &mut Handshake,
    received: &mut Vec<u8>,
    out: &mut Vec<u8>,
    deadline: Option<Instant>,
) -> Result<Result<Progress, tls::Error>, HandshakeError> {
    if !handshake.is_server() {
        return Ok(handshake.advance(received, out));
    }
    let steps = STEPS.with(Rc::clone);
    let has_waited = steps.available_permits() == 0;
    let turn = match deadline {
        Some(deadline) => {
            rt::timeout_at(deadline, steps.acquire()).await.map_err(|rt::Elapsed| HandshakeError::Timeout)?
        }
        None => steps.acquire().await,
    };
    if has_waited && stream.pending() == IdleState::Closed {
        return Err(HandshakeError::Closed);
    }
    let progress = handshake.advance(received, out);
    rt::yield_now().await;
    drop(turn);
    Ok(progress)
}
