// SPDX-License-Identifier: BSD-2-Clause
//! A handshake over a stream, of either role.
//!
//! A step of a server's takes a fifth of a millisecond or more, and anybody can ask for one: each has its turn ([`turns`]), and between two of
//! them the thread looks for events and serves who is ready. A flood of handshakes delays other connections by a step, not by all of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr};

use rt::Instant;
use tls::{Handshake, HandshakeInfo, HandshakeProgress};

use crate::ktls::{self, KtlsOutcome, KtlsUse};
use crate::sealed::SealedStream;
use crate::{IdleState, IoError, Stream};

pub mod turns;

use turns::HandshakeStep;
pub use turns::known::KnownClients;

/// Bytes read at once: most flights are shorter.
const READ: usize = 4096;

/// Reasons why no sealed stream came about.
#[derive(Debug)]
pub enum HandshakeError {
    /// The handshake took too long.
    Timeout,
    /// The peer closed the connection.
    Closed,
    /// The operating system's word.
    Os(io::Error),
    /// TLS' word; the peer has been told.
    Tls(tls::TlsError),
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
    /// The reason for the failure.
    pub error: HandshakeError,
    /// The stream it was on.
    pub stream: Stream,
}

/// A client whose hello may be answered now: its turn has come.
#[derive(Clone, Copy, Debug)]
pub struct CalledClient<'a> {
    client: IpAddr,
    known: &'a KnownClients,
}

impl<'a> CalledClient<'a> {
    /// Waits until the hello of that client may be answered, at most until `deadline`. Whether it had to wait is told, too.
    ///
    /// # Errors
    /// The time is over.
    pub async fn wait(
        known: &'a KnownClients,
        client: IpAddr,
        deadline: Instant,
    ) -> Result<(CalledClient<'a>, bool), HandshakeError> {
        let has_waited = wait(client, HandshakeStep::Answer, known.has(client), Some(deadline)).await?;
        Ok((CalledClient { client, known }, has_waited))
    }
}

/// Carries out a handshake on `stream`, from which `received` was read already, and seals it.
///
/// # Errors
/// See [`HandshakeError`]; the alert that tells the peer is sent.
pub async fn handshake(
    stream: Stream,
    mut handshake: Handshake,
    mut received: Vec<u8>,
    deadline: Option<Instant>,
) -> Result<(Stream, HandshakeInfo), Failed> {
    let pace = if handshake.is_server() { Pace::Waits(UNNAMED) } else { Pace::Free };
    if let Err(error) = carry_out(&stream, &mut handshake, &mut received, deadline, pace).await {
        return Err(Failed { error, stream });
    }
    match handshake.finish() {
        Ok((traffic, info)) => Ok((Stream::Sealed(Box::new(SealedStream::new(stream, traffic, received))), info)),
        Err(error) => Err(Failed { error: HandshakeError::Tls(error), stream }),
    }
}

/// Answers a client whose turn has come, and carries out the rest as [`handshake`] does; by `wanted` it is the kernel that seals.
///
/// # Errors
/// See [`handshake`].
pub async fn answer(
    CalledClient { client, known }: CalledClient<'_>,
    stream: Stream,
    mut handshake: Handshake,
    mut received: Vec<u8>,
    deadline: Instant,
    wanted: KtlsUse,
) -> Result<(Stream, HandshakeInfo, KtlsOutcome), Failed> {
    let pace = Pace::IsCalled(client);
    if let Err(error) = carry_out(&stream, &mut handshake, &mut received, Some(deadline), pace).await {
        return Err(Failed { error, stream });
    }
    known.learn(client);
    let mut told = KtlsOutcome::Unasked;
    let give = |key| {
        let (ability, outcome) = ktls::give(&stream, wanted, &key);
        told = outcome;
        ability
    };
    match handshake.finish_giving((wanted != KtlsUse::Off).then_some(give)) {
        Ok((traffic, info)) => Ok((Stream::Sealed(Box::new(SealedStream::new(stream, traffic, received))), info, told)),
        Err(error) => Err(Failed { error: HandshakeError::Tls(error), stream }),
    }
}

/// Clients whose addresses nobody has named.
const UNNAMED: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

#[derive(Clone, Copy)]
enum Pace {
    /// At once: a client's are as many as we begin connections.
    Free,
    /// The client waits for its turn to be answered.
    Waits(IpAddr),
    /// Now: that turn has come.
    IsCalled(IpAddr),
    /// The client waits for its turn behind that.
    Follows(IpAddr),
}

async fn carry_out(
    stream: &Stream,
    handshake: &mut Handshake,
    received: &mut Vec<u8>,
    deadline: Option<Instant>,
    mut pace: Pace,
) -> Result<(), HandshakeError> {
    loop {
        let mut out = Vec::new();
        let progress = match is_worth_a_step(handshake, received) {
            true => {
                pace = wait_for(stream, pace, deadline).await?;
                handshake.advance(received, &mut out)
            }
            false => Ok(HandshakeProgress::Waits),
        };
        received.shrink_to(READ);
        if let Err(error) = progress {
            // An alert is few bytes: a socket that doesn't take them has a peer that doesn't read.
            let _ = stream.try_write(&out);
            return Err(HandshakeError::Tls(error));
        }
        stream.write_all(&out, deadline).await?;
        drop(out);
        if progress == Ok(HandshakeProgress::Done) {
            received.shrink_to_fit();
            return Ok(());
        }
        if stream.read_more(received, READ, deadline).await? == 0 {
            return Err(HandshakeError::Closed);
        }
    }
}

/// True if there is anything to be done: a client begins with nothing, a server waits for whole records.
fn is_worth_a_step(handshake: &Handshake, received: &[u8]) -> bool {
    !handshake.is_server() || !matches!(tls::record::whole(received), Ok(None))
}

/// Waits until the next step may be done; returns the pace of the one behind it. A client whose time is over by then,
/// or that has gone, costs no signature.
async fn wait_for(stream: &Stream, pace: Pace, deadline: Option<Instant>) -> Result<Pace, HandshakeError> {
    let (client, step) = match pace {
        Pace::Free => return Ok(Pace::Free),
        Pace::IsCalled(client) => return Ok(Pace::Follows(client)),
        Pace::Waits(client) => (client, HandshakeStep::Answer),
        Pace::Follows(client) => (client, HandshakeStep::Next),
    };
    if wait(client, step, false, deadline).await? && stream.pending() == IdleState::Closed {
        return Err(HandshakeError::Closed);
    }
    Ok(Pace::Follows(client))
}

async fn wait(
    client: IpAddr,
    step: HandshakeStep,
    is_known: bool,
    deadline: Option<Instant>,
) -> Result<bool, HandshakeError> {
    let turn = turns::wait(client, step, is_known);
    match deadline {
        Some(deadline) => rt::timeout_at(deadline, turn).await.map_err(|rt::Elapsed| HandshakeError::Timeout),
        None => Ok(turn.await),
    }
}
