// SPDX-License-Identifier: BSD-2-Clause
//! The way to a backend, for a fetch and for a pipe: who it is, which Host it gets, a connection, and the records of these.

use std::sync::Arc;

use backend::{Backend, BackendConn, BackendConnectError, Director};
use base::Clock;
use message::{Head, LostHeader, names};
use shm::vsl::TxnLog;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;

use crate::choice::DirectorChoice;
use crate::httplog::BEREQ;
use crate::proxy_status::ProxyCause;

pub(super) fn find(director: Option<&Arc<dyn Director>>, choice: &DirectorChoice<'_>) -> Option<Arc<Backend>> {
    let Some(director) = director else {
        choice.log.borrow_mut().put(Tag::FetchError, b"No backend");
        return None;
    };
    let found = director.resolve(choice);
    if found.is_none() {
        let mut log = choice.log.borrow_mut();
        log.putf(Tag::FetchError, format_args!("Director {} returned no backend", director.name()));
    }
    found
}

pub(super) fn cause_of_none(has_director: bool) -> ProxyCause {
    match has_director {
        true => ProxyCause::new(ProxyError::DestinationUnavailable, "the director has no backend to offer"),
        false => ProxyCause::new(ProxyError::DestinationNotFound, "VCL has set no backend"),
    }
}

/// The backend's name for a request that has no Host.
pub(super) fn give_host(backend: &Backend, head: &mut Head, log: &mut TxnLog) -> Result<(), LostHeader> {
    if head.has(names::HOST) {
        return Ok(());
    }
    BEREQ.append(head, log, names::HOST, &[backend.hosthdr().as_bytes()])
}

/// The records of a connection that was waited for.
pub(super) fn connected(
    conn: Result<BackendConn, BackendConnectError>,
    clock: &Clock,
    log: &mut TxnLog,
) -> Result<BackendConn, BackendConnectError> {
    match conn {
        Ok(conn) => {
            if let Some(tls) = conn.tls().filter(|_| !conn.is_reused()) {
                let how = if tls.resumed { "resumed" } else { "full" };
                log.putf(Tag::BackendSsl, format_args!("{} {} {how}", tls.version.name(), tls.cipher()));
            }
            log.timestamp("Connected", clock.real());
            Ok(conn)
        }
        Err(error) => {
            if let BackendConnectError::Tls { reason, .. } = &error {
                log.put(Tag::BackendSsl, reason.as_bytes());
            }
            log.putf(Tag::FetchError, format_args!("{error}"));
            Err(error)
        }
    }
}
