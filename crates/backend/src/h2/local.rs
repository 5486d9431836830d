// SPDX-License-Identifier: BSD-2-Clause
//! This thread's connections by pool, and the connection that is being opened. Callers that need one meanwhile wait for it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::connection::Http2Origin;
use super::exchange::Http2Exchange;
use super::{Shared, task};
use crate::error::{ConnOpenError, ETIMEDOUT};
use crate::pool::{EndpointPool, PeerLabel};
use crate::{BackendEnv, BackendParams};

thread_local! {
    static HERE: RefCell<HashMap<u64, Local>> = RefCell::default();
}

#[derive(Default)]
struct Local {
    /// The oldest first. It is filled first, so that the others become idle.
    connections: Vec<Shared>,
    opening: Option<Rc<ConnectionOpening>>,
}

#[derive(Debug, Default)]
pub(crate) struct ConnectionOpening(RefCell<Progress>);

#[derive(Debug, Default)]
struct Progress {
    /// `Some` once the attempt has ended.
    result: Option<Result<(), ConnOpenError>>,
    waiting: Vec<Waker>,
}

impl ConnectionOpening {
    /// Waits for the end of the attempt, at most for `limit`.
    ///
    /// # Errors
    /// There is no connection to be had.
    pub(crate) async fn wait(&self, limit: Duration) -> Result<(), ConnOpenError> {
        let over = poll_fn(|cx| {
            let mut progress = self.0.borrow_mut();
            match &progress.result {
                Some(result) => Poll::Ready(result.clone()),
                None => {
                    if !progress.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                        progress.waiting.push(cx.waker().clone());
                    }
                    Poll::Pending
                }
            }
        });
        rt::timeout(limit, over).await.unwrap_or(Err(ConnOpenError::Errno(ETIMEDOUT)))
    }
}

/// The duty to open a connection that others wait for. Dropping it passes the duty to one of them.
pub(crate) struct OpeningTicket {
    pool: u64,
    opening: Rc<ConnectionOpening>,
    result: Result<(), ConnOpenError>,
}

impl OpeningTicket {
    pub(crate) fn failed(mut self, error: ConnOpenError) {
        self.result = Err(error);
    }
}

impl Drop for OpeningTicket {
    fn drop(&mut self) {
        let _ = HERE.try_with(|here| {
            if let Some(local) = here.borrow_mut().get_mut(&self.pool) {
                local.opening = None;
            }
        });
        let mut progress = self.opening.0.borrow_mut();
        progress.result = Some(self.result.clone());
        let waiting = std::mem::take(&mut progress.waiting);
        drop(progress);
        waiting.into_iter().for_each(Waker::wake);
    }
}

pub(crate) fn reuse(pool: &EndpointPool) -> Option<Http2Exchange> {
    HERE.with(|here| {
        let here = here.borrow();
        let local = here.get(&pool.id)?;
        let found = local.connections.iter().find(|shared| {
            let mut connection = shared.borrow_mut();
            if !pool.is_current(&connection.label) {
                connection.retire();
            }
            connection.slots() > 0
        });
        found.map(Http2Exchange::new)
    })
}

/// The right to open the next connection, or another caller's attempt.
pub(crate) fn opening(pool: &EndpointPool) -> Result<OpeningTicket, Rc<ConnectionOpening>> {
    HERE.with(|here| {
        let mut here = here.borrow_mut();
        let local = here.entry(pool.id).or_default();
        if let Some(opening) = &local.opening {
            return Err(opening.clone());
        }
        let opening = Rc::<ConnectionOpening>::default();
        local.opening = Some(opening.clone());
        Ok(OpeningTicket { pool: pool.id, opening, result: Ok(()) })
    })
}

/// Adds a new connection to this thread's list and returns its first exchange. Callers that wait for it proceed once the origin has sent
/// its limit on streams.
pub(crate) fn add(
    net: net::Stream,
    label: PeerLabel,
    pool: &Arc<EndpointPool>,
    env: &BackendEnv,
    params: &BackendParams,
    ticket: Option<OpeningTicket>,
) -> Http2Exchange {
    let shared = start(net, label, pool, env, params);
    ticket.into_iter().for_each(|ticket| shared.borrow_mut().keep_ticket(ticket));
    HERE.with(|here| here.borrow_mut().entry(pool.id).or_default().connections.push(shared.clone()));
    Http2Exchange::new(&shared)
}

pub(crate) fn alone(
    net: net::Stream,
    label: PeerLabel,
    pool: &Arc<EndpointPool>,
    env: &BackendEnv,
    params: &BackendParams,
) -> Http2Exchange {
    Http2Exchange::new(&start(net, label, pool, env, params)).alone()
}

fn start(
    net: net::Stream,
    label: PeerLabel,
    pool: &Arc<EndpointPool>,
    env: &BackendEnv,
    params: &BackendParams,
) -> Shared {
    let connection = Http2Origin::new(net, Arc::new(label), pool, env.clock.clone(), params);
    let shared = Rc::new(RefCell::new(connection));
    rt::spawn(task::run(shared.clone(), env.clone()));
    shared
}

pub(super) fn remove(shared: &Shared) {
    // The list is gone if the thread is ending.
    let _ = HERE.try_with(|here| {
        here.borrow_mut().retain(|_, local| {
            local.connections.retain(|other| !Rc::ptr_eq(other, shared));
            !local.connections.is_empty() || local.opening.is_some()
        });
    });
}
