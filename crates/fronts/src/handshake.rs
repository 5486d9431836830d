// SPDX-License-Identifier: BSD-2-Clause
//! The TLS handshake that a connection on an https listener begins with. The hello is read first: by its name the certificate is
//! found, and who speaks no TLS is told so.
//!
//! Until it has said hello a connection holds what it has sent, 16 KB at most. All of it has `tls_handshake_timeout`, and a thread has
//! so many of them at once ([`MAX_IN_PROGRESS`]), which hold so much in all ([`MAX_BYTES`]); those beyond are closed without a word.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use engine::Sess;
use net::handshake::{CalledClient, answer};
use net::{HandshakeError, IdleState, KtlsUse, Stream, WriteFault};
use rt::Instant;
use tables::close::SessClose;
use tls::hello::{ClientHello, Finder, HelloError, HelloOutline};
use tls::{ClientPolicy, Handshake, NoCertificate, TlsServer};

use crate::conn::ClientConn;

pub(crate) mod report;

const READ: usize = 2048;

const MAX_IN_PROGRESS: u32 = 10_000;

/// Bytes that they hold in all: hellos, and what answering them takes. It is all of the first limit with usual hellos.
const MAX_BYTES: usize = 160 << 20;

thread_local! {
    static IN_PROGRESS: Cell<(u32, usize)> = const { Cell::new((0, 0)) };
}

pub(crate) struct InProgress {
    bytes: usize,
}

impl InProgress {
    pub(crate) fn count() -> u32 {
        IN_PROGRESS.get().0
    }

    pub(crate) fn begin() -> Result<Self, HandshakeFailure> {
        IN_PROGRESS.with(|all| {
            let (count, bytes) = all.get();
            if count == MAX_IN_PROGRESS {
                return Err(HandshakeFailure::TooMany);
            }
            all.set((count + 1, bytes));
            Ok(InProgress { bytes: 0 })
        })
    }

    /// Notes that it holds so many bytes now. A smaller number than before is ignored: who has filled a buffer once may
    /// do so again.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), HandshakeFailure> {
        let more = bytes.saturating_sub(self.bytes);
        IN_PROGRESS.with(|all| {
            let (count, held) = all.get();
            if held + more > MAX_BYTES {
                return Err(HandshakeFailure::TooMany);
            }
            all.set((count, held + more));
            self.bytes += more;
            Ok(())
        })
    }
}

impl Drop for InProgress {
    fn drop(&mut self) {
        // A thread that is ending counts no more.
        let _ = IN_PROGRESS.try_with(|all| {
            let (count, bytes) = all.get();
            all.set((count - 1, bytes - self.bytes));
        });
    }
}

#[derive(Debug)]
pub(crate) enum HandshakeFailure {
    Hello(HelloError),
    /// Nobody could be shown to it, who asked for that name.
    NoCertificate(NoCertificate, Option<Box<str>>),
    Handshake(HandshakeError),
    /// There are more of them than a thread takes, or they hold more.
    TooMany,
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeFailure::Hello(error) => error.fmt(f),
            HandshakeFailure::NoCertificate(NoCertificate::UnknownName, Some(name)) => {
                write!(f, "no certificate for the name {name}")
            }
            HandshakeFailure::NoCertificate(error, _) => error.fmt(f),
            HandshakeFailure::Handshake(error) => error.fmt(f),
            HandshakeFailure::TooMany => f.write_str("too many handshakes in progress"),
        }
    }
}

struct Chosen {
    handshake: Handshake,
    hello: HelloOutline,
    clients: Option<ClientPolicy>,
    /// The client only wants to see a certificate, and no request may follow (RFC 8737 3).
    is_challenge: bool,
}

/// Puts TLS on the connection. `Err`: it has to end for that reason, and the client has been told why.
pub(crate) async fn receive(conn: &mut ClientConn) -> Result<(), SessClose> {
    let sess = conn.sess.clone();
    let done = shake_hands(conn, &sess).await;
    conn.idle_since = Instant::now();
    match done {
        Ok(false) => Ok(()),
        Ok(true) => {
            sess.engine.main.acme_answers.inc();
            conn.stream().shutdown_write();
            Err(SessClose::RespClose)
        }
        Err(failure) => {
            if matches!(failure, HandshakeFailure::Handshake(HandshakeError::Timeout)) {
                // Who began together ends together: one goes, and then all that is ready goes on before the next.
                rt::give_way().await;
            }
            report::failed(&sess, &failure);
            // As release 9: why is in the log.
            Err(if matches!(failure, HandshakeFailure::TooMany) { SessClose::Overload } else { SessClose::RxBad })
        }
    }
}

async fn shake_hands(conn: &mut ClientConn, sess: &Sess) -> Result<bool, HandshakeFailure> {
    let mut in_progress = InProgress::begin()?;
    let deadline = Instant::now() + sess.engine.params.load().tls_handshake_timeout;
    read_hello(conn, &mut in_progress, deadline).await?;
    let called = wait_for_turn(conn, sess, deadline).await?;
    // From here to the answer nothing waits.
    let chosen = begin(conn, sess)?;
    // The hello is there twice: as it came, and as numbers.
    in_progress.hold(2 * conn.input.capacity() + chosen.handshake.may_hold())?;
    let is_challenge = chosen.is_challenge;
    carry_out(conn, sess, (called, chosen), deadline).await.map(|()| is_challenge)
}

/// The reason for a session's end, given `close`: to the codec, a client that changes records or ends TLS by an alert
/// looks as if it had gone.
pub(crate) fn why_it_ended(conn: &ClientConn, close: SessClose) -> SessClose {
    let Some(stream) = conn.stream.as_ref().filter(|_| conn.sess.tls.get().is_some()) else { return close };
    let has_gone = close == SessClose::RemClose;
    if let Some(error) = stream.tls_fault() {
        report::broken(&conn.sess, &error);
        return if has_gone { SessClose::RxBad } else { close };
    }
    match stream.tls_write_fault() {
        Some(fault) => {
            report::unwritten(&conn.sess, &fault);
            if has_gone && matches!(fault, WriteFault::Tls(_)) { SessClose::TxError } else { close }
        }
        None => close,
    }
}

/// Reads until there is a hello, or what can't become one.
async fn read_hello(
    conn: &mut ClientConn,
    in_progress: &mut InProgress,
    deadline: Instant,
) -> Result<(), HandshakeFailure> {
    let mut finder = Finder::default();
    while let Ok(None) = finder.find(&conn.input) {
        let stream = conn.stream.as_ref().expect(crate::conn::AFTER_PIPE);
        match stream.read_more(&mut conn.input, READ, Some(deadline)).await {
            Ok(0) => return Err(HandshakeFailure::Handshake(HandshakeError::Closed)),
            Ok(_) => in_progress.hold(conn.input.capacity())?,
            Err(error) => return Err(HandshakeFailure::Handshake(error.into())),
        }
    }
    Ok(())
}

/// Until this client may be answered: see [`net::handshake::turns`]. Who has gone meanwhile costs no signature.
async fn wait_for_turn<'a>(
    conn: &ClientConn,
    sess: &'a Sess,
    deadline: Instant,
) -> Result<CalledClient<'a>, HandshakeFailure> {
    let client = sess.ends.client().ip();
    let waited = CalledClient::wait(&sess.engine.sessions.known_clients, client, deadline).await;
    let (called, has_waited) = waited.map_err(HandshakeFailure::Handshake)?;
    if has_waited {
        sess.engine.main.tls_handshakes_waited.inc();
        if conn.stream().pending() == IdleState::Closed {
            return Err(HandshakeFailure::Handshake(HandshakeError::Closed));
        }
    }
    Ok(called)
}

/// Finds out who we are to a client that has said hello.
fn begin(conn: &ClientConn, sess: &Sess) -> Result<Chosen, HandshakeFailure> {
    let chosen = match Finder::default().find(&conn.input) {
        Ok(Some(message)) => choose(sess, &message),
        // It was read whole.
        Ok(None) => Err(HandshakeFailure::Handshake(HandshakeError::Closed)),
        Err(error) => Err(HandshakeFailure::Hello(error)),
    };
    chosen.inspect_err(|failure| refuse(conn.stream(), failure))
}

fn choose(sess: &Sess, message: &[u8]) -> Result<Chosen, HandshakeFailure> {
    let hello = ClientHello::parse(message).map_err(HandshakeFailure::Hello)?;
    let name = hello.server_name().map(str::to_ascii_lowercase);
    let is_challenge = hello.is_acme_challenge();
    let server = match is_challenge {
        true => challenge(sess, name.as_deref()),
        false => sess.engine.sessions.certificates.find(&sess.listener.frontend, name.as_deref()),
    };
    let server = server.map_err(|none| HandshakeFailure::NoCertificate(none, hello.server_name().map(Into::into)))?;
    let offers_http2 = sess.engine.params.load().feature.offers_http2();
    let handshake = Handshake::answering(&server, &hello, offers_http2)
        .map_err(|error| HandshakeFailure::Handshake(HandshakeError::Tls(error)))?;
    Ok(Chosen { handshake, hello: HelloOutline::new(&hello), clients: server.clients(), is_challenge })
}

/// A certificate authority asks whether the name is ours.
fn challenge(sess: &Sess, name: Option<&str>) -> Result<Arc<TlsServer>, NoCertificate> {
    name.and_then(|name| sess.engine.sessions.challenges.server(name)).ok_or(NoCertificate::UnknownName)
}

/// Tells a client that gets no handshake why, as far as the socket takes it at once.
fn refuse(stream: &Stream, failure: &HandshakeFailure) {
    let _ = match failure {
        HandshakeFailure::Hello(HelloError::PlainHttp) => stream.try_write(PLAIN_HTTP),
        HandshakeFailure::Hello(error) => {
            error.alert().map_or(Ok(0), |alert| stream.try_write(&tls::record::fatal_alert(alert)))
        }
        HandshakeFailure::NoCertificate(..) => stream.try_write(&tls::record::fatal_alert(UNRECOGNIZED_NAME)),
        HandshakeFailure::Handshake(_) | HandshakeFailure::TooMany => Ok(0),
    };
}

/// The alert unrecognized_name (RFC 6066 3).
const UNRECOGNIZED_NAME: u8 = 112;

const PLAIN_HTTP: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 52\r\n\
    Connection: close\r\n\
    \r\n\
    A plain HTTP request was sent to a port for HTTPS.\r\n";

async fn carry_out(
    conn: &mut ClientConn,
    sess: &Sess,
    (called, chosen): (CalledClient<'_>, Chosen),
    deadline: Instant,
) -> Result<(), HandshakeFailure> {
    let stream = conn.stream.take().expect(crate::conn::AFTER_PIPE);
    let input = std::mem::take(&mut conn.input);
    let wanted = KtlsUse::from_name(&sess.engine.params.load().tls_kernel).unwrap_or(KtlsUse::Off);
    match answer(called, stream, chosen.handshake, input, deadline, wanted).await {
        Ok((stream, info, kernel)) => {
            let info = info.of_client(&chosen.hello, chosen.clients, sess.engine.params.load().tls_ja3);
            report::done(sess, &info, &kernel);
            // A session has one handshake.
            let _ = sess.tls.set(Box::new(info));
            conn.stream = Some(stream);
            Ok(())
        }
        Err(failed) => {
            conn.stream = Some(failed.stream);
            Err(HandshakeFailure::Handshake(failed.error))
        }
    }
}
