// SPDX-License-Identifier: BSD-2-Clause
//! What the log and the counters say of handshakes. Failures are told as OpenSSL tells them, which people and their programs look for,
//! with our own words behind.

use std::fmt::Write;

use engine::Sess;
use net::{HandshakeError, KtlsOutcome, WriteFault};
use shm::vsl::{Marker, TxnLog};
use tables::counters::{Counter, Main};
use tables::tags::Tag;
use tls::certificate::Certificate;
use tls::hello::HelloError;
use tls::{ErrorKind, HandshakeInfo, NoCertificate, TlsReason};

use super::HandshakeFailure;

/// A handshake is done: what was agreed on, and who the client is.
pub(crate) fn done(sess: &Sess, info: &HandshakeInfo, kernel: &KtlsOutcome) {
    let main = sess.engine.main;
    main.tls_handshakes.inc();
    if info.resumed {
        main.tls_resumed.inc();
    }
    if info.is_post_quantum() {
        main.tls_post_quantum.inc();
    }
    if info.is_compressed {
        main.tls_cert_compressed.inc();
    }
    let mut log = log(sess);
    log.put(Tag::Tls, agreed(info).as_bytes());
    if let Some(leaf) = info.peer_leaf() {
        main.tls_client_certs.inc();
        if let Some(certificate) = Certificate::read(leaf) {
            log.put_parts(Tag::Tls, &[b"Client: ", certificate.subject().as_bytes()]);
        }
    }
    match kernel {
        KtlsOutcome::Unasked => {}
        KtlsOutcome::Given => {
            main.tls_kernel.inc();
            log.put(Tag::Tls, b"Kernel: seals");
        }
        KtlsOutcome::Refused(error) => {
            main.tls_kernel_fail.inc();
            log.putf(Tag::Tls, format_args!("Kernel: refused: {error}"));
        }
    }
}

/// `Handshake: TLSv1.3 TLS_AES_128_GCM_SHA256 X25519 new a.example http/1.1 t13d1516h2_8daaf6152771_e5627efa2ab1`
fn agreed(info: &HandshakeInfo) -> String {
    let mut text = format!("Handshake: {} {} {}", info.version.name(), info.cipher(), info.group_name().unwrap_or("-"));
    let session = if info.resumed { "resumed" } else { "new" };
    let alpn = info.alpn.as_deref().and_then(|alpn| std::str::from_utf8(alpn).ok()).unwrap_or("-");
    let ja4 = info.fingerprint.as_ref().map_or("-", |fingerprint| fingerprint.ja4());
    let _ = write!(text, " {session} {} {alpn} {ja4}", info.sni.as_deref().unwrap_or("-"));
    text
}

/// There is none, and the session ends.
pub(crate) fn failed(sess: &Sess, failure: &HandshakeFailure) {
    let main = sess.engine.main;
    main.tls_fail.inc();
    counter(main, failure).inc();
    let mut log = log(sess);
    if let HandshakeFailure::Handshake(HandshakeError::Os(error)) = failure {
        log.putf(Tag::Error, format_args!("ssl:-1:SSL_ERROR_SYSCALL:{error}"));
    }
    match reason(failure) {
        Some(reason) => {
            log.put(Tag::Error, b"ssl:-1:SSL_ERROR_SSL");
            log.putf(Tag::Tls, format_args!("{reason}: {failure}"));
        }
        None => log.putf(Tag::Tls, format_args!("{failure}")),
    }
}

fn log(sess: &Sess) -> TxnLog {
    TxnLog::new(sess.engine.log.clone(), sess.vxid, Marker::Client)
}

/// OpenSSL's reason for the failure; `None` where release 9 has words of its own.
fn reason(failure: &HandshakeFailure) -> Option<TlsReason> {
    Some(match failure {
        HandshakeFailure::Hello(error) => of_hello(*error),
        HandshakeFailure::NoCertificate(NoCertificate::NothingLoaded, _) => return None,
        HandshakeFailure::NoCertificate(NoCertificate::UnknownName, _) => TlsReason::ServerName,
        HandshakeFailure::NoCertificate(NoCertificate::Broken(_), _) => TlsReason::Internal,
        HandshakeFailure::Handshake(HandshakeError::Timeout | HandshakeError::Os(_)) | HandshakeFailure::TooMany => {
            return None;
        }
        HandshakeFailure::Handshake(HandshakeError::Closed) => TlsReason::Eof,
        HandshakeFailure::Handshake(HandshakeError::Tls(error)) => of_kind(error.kind()),
    })
}

fn of_hello(error: HelloError) -> TlsReason {
    match error {
        HelloError::PlainHttp => TlsReason::HttpRequest,
        HelloError::ProxyHeader | HelloError::Ssl2 | HelloError::NotTls => TlsReason::WrongVersion,
        HelloError::OldVersion(_) => TlsReason::Version,
        HelloError::Record(_) | HelloError::EmptyRecord | HelloError::Message(_) => TlsReason::UnexpectedMessage,
        HelloError::RecordTooLong(_) | HelloError::TooLong => TlsReason::TooLong,
        HelloError::Malformed(_) => TlsReason::Length,
    }
}

fn of_kind(kind: ErrorKind) -> TlsReason {
    match kind {
        ErrorKind::NotTls => TlsReason::WrongVersion,
        ErrorKind::Version => TlsReason::Version,
        ErrorKind::Parameters => TlsReason::NoSharedCipher,
        ErrorKind::Name => TlsReason::ServerName,
        ErrorKind::Certificate => TlsReason::BadCertificate,
        ErrorKind::Alert(alert) => TlsReason::Alert(alert),
        ErrorKind::Protocol => TlsReason::UnexpectedMessage,
        ErrorKind::Decrypt => TlsReason::Decrypt,
        ErrorKind::Limit => TlsReason::TooLong,
        ErrorKind::Closed => TlsReason::Eof,
        ErrorKind::Exhausted | ErrorKind::Internal => TlsReason::Internal,
    }
}

fn counter<'a>(main: &'a Main, failure: &HandshakeFailure) -> &'a Counter {
    match failure {
        HandshakeFailure::Hello(HelloError::PlainHttp | HelloError::ProxyHeader | HelloError::NotTls) => {
            &main.tls_fail_not_tls
        }
        HandshakeFailure::Hello(HelloError::Ssl2 | HelloError::OldVersion(_)) => &main.tls_fail_version,
        HandshakeFailure::Hello(_) => &main.tls_fail_protocol,
        HandshakeFailure::NoCertificate(NoCertificate::NothingLoaded | NoCertificate::UnknownName, _) => {
            &main.tls_fail_name
        }
        HandshakeFailure::NoCertificate(NoCertificate::Broken(_), _) => &main.tls_fail_internal,
        HandshakeFailure::TooMany => &main.sess_dropped,
        HandshakeFailure::Handshake(HandshakeError::Timeout) => &main.tls_fail_timeout,
        HandshakeFailure::Handshake(HandshakeError::Closed | HandshakeError::Os(_)) => &main.tls_fail_closed,
        HandshakeFailure::Handshake(HandshakeError::Tls(error)) => match error.kind() {
            ErrorKind::NotTls => &main.tls_fail_not_tls,
            ErrorKind::Version => &main.tls_fail_version,
            ErrorKind::Parameters => &main.tls_fail_cipher,
            ErrorKind::Name => &main.tls_fail_name,
            ErrorKind::Certificate => &main.tls_fail_cert,
            ErrorKind::Alert(_) => &main.tls_fail_alert,
            ErrorKind::Protocol | ErrorKind::Decrypt | ErrorKind::Limit => &main.tls_fail_protocol,
            ErrorKind::Closed => &main.tls_fail_closed,
            ErrorKind::Exhausted | ErrorKind::Internal => &main.tls_fail_internal,
        },
    }
}

/// Nothing more can be written, and the session ends.
pub(super) fn unwritten(sess: &Sess, fault: &WriteFault) {
    match fault {
        WriteFault::Tls(error) => broken(sess, error),
        WriteFault::Os(..) => log(sess).putf(Tag::Error, format_args!("ssl:-1:SSL_ERROR_SYSCALL:{fault}")),
    }
}

/// Reports that TLS can't be read any more, and the session ends.
pub(crate) fn broken(sess: &Sess, error: &tls::TlsError) {
    let mut log = log(sess);
    log.put(Tag::Error, b"ssl:-1:SSL_ERROR_SSL");
    log.putf(Tag::Tls, format_args!("{}: {error}", of_kind(error.kind())));
}
