// SPDX-License-Identifier: BSD-2-Clause
//! The request's body on its way to the origin: piece by piece, and beside the response where the origin takes it so.

use std::rc::Rc;
use std::task::{Context, Poll};

use backend::{BackendConn, SendProgress};
use filters::Chain;
use message::Head;
use storage::Buf;

use super::BereqBody;
use super::body_filters::FilteredPieces;
use crate::reqbody::ReqBody;
use crate::transport::ReqBodyError;

/// A request's body, piece by piece.
pub(super) enum Pieces {
    Lent(ReqBody),
    /// And which comes next.
    Kept(Rc<Vec<Buf>>, usize),
    Filtered(Box<FilteredPieces>),
}

impl Pieces {
    pub fn new(body: &BereqBody) -> Option<Self> {
        match body {
            BereqBody::None | BereqBody::Gone => None,
            BereqBody::Cached(pieces) => Some(Pieces::Kept(pieces.clone(), 0)),
            BereqBody::Lent(lent) => Some(Pieces::Lent(lent.clone())),
        }
    }

    pub fn through(self, filters: Option<Chain>) -> Self {
        match filters {
            None => self,
            Some(chain) => Pieces::Filtered(Box::new(FilteredPieces::new(self, chain))),
        }
    }

    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        match self {
            Pieces::Filtered(filtered) => filtered.poll_next(cx),
            Pieces::Lent(lent) => lent.poll_next(cx),
            Pieces::Kept(pieces, next) => {
                let piece = pieces.get(*next).cloned();
                *next += 1;
                Poll::Ready(Ok(piece))
            }
        }
    }

    /// The body is complete: the origin is told, with what is behind it.
    pub fn end(&self, conn: &mut BackendConn) {
        let trailers = match self {
            Pieces::Lent(lent) if conn.takes_trailers() => lent.take_trailers(),
            Pieces::Lent(_) | Pieces::Kept(..) | Pieces::Filtered(_) => None,
        };
        conn.send_end(trailers.as_ref());
    }
}

/// The rest of a request that is sent while its response comes.
pub(crate) struct FetchUpload {
    /// `None`: the origin was told that the body is complete.
    pieces: Option<Pieces>,
}

pub(super) enum UploadProgress {
    /// Some of it went on its way.
    Moved,
    Over,
}

impl FetchUpload {
    pub(super) fn new(pieces: Option<Pieces>) -> Self {
        FetchUpload { pieces }
    }

    pub(super) fn is_incomplete(&self) -> bool {
        self.pieces.is_some()
    }

    /// Moves what there is.
    ///
    /// # Errors
    /// The client has broken the body.
    pub(super) fn poll(
        &mut self,
        conn: &mut BackendConn,
        beresp: &mut Head,
        cx: &mut Context<'_>,
    ) -> Poll<Result<UploadProgress, ReqBodyError>> {
        match conn.poll_send(cx, beresp) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(Ok(SendProgress::All)) => {}
            Poll::Ready(Ok(SendProgress::Part | SendProgress::Interim | SendProgress::Begun)) => {
                return Poll::Ready(Ok(UploadProgress::Moved));
            }
            // Who reads the response finds out why.
            Poll::Ready(Ok(SendProgress::Answered) | Err(_)) => return Poll::Ready(Ok(UploadProgress::Over)),
        }
        let Some(pieces) = &mut self.pieces else { return Poll::Ready(Ok(UploadProgress::Over)) };
        let Poll::Ready(piece) = pieces.poll_next(cx)? else { return Poll::Pending };
        match piece {
            Some(piece) => conn.send_data(piece),
            None => {
                pieces.end(conn);
                self.pieces = None;
            }
        }
        Poll::Ready(Ok(UploadProgress::Moved))
    }
}
