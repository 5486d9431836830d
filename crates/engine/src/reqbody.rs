// SPDX-License-Identifier: BSD-2-Clause
//! A request's body between the client that sends it and the fetch that lends it. It belongs to the client's side: only the
//! reader of the client's framing may say that it is complete, and only that lets the origin side end its message.
//!
//! ```text
//! None
//! Unread <--give_back-- Lent
//! Unread --lend--> Lent --end--> Spent        (a second reader gets nothing: retry and restart know)
//!    |\--discard-------------------/
//!    \--keep--> Caching --end--> Cached       (read as often as wanted)
//! Unread <--beyond the limit-- Caching         (if the body is to be lent then: its first bytes are at hand)
//! any --broken or cut--> Failed
//! ```

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use message::Head;
use storage::{Buf, Store};

use crate::transport::{BodyState, ReqBodyError, Transport};

/// Most bytes that may wait between client and origin.
const AHEAD: usize = 64 * 1024;
/// Pieces shorter than this are gathered, so that a body in chunks of one byte costs no more memory than its bytes.
const PIECE: usize = 16 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReqBodyState {
    None,
    Unread,
    Lent,
    Caching,
    Cached,
    Spent,
    Failed(ReqBodyError),
}

struct Inner {
    state: ReqBodyState,
    len: Option<u64>,
    pieces: VecDeque<Buf>,
    /// Short pieces, gathered behind the last of `pieces`, or of those that are kept.
    open: Vec<u8>,
    waiting: usize,
    kept: KeptBody,
    trailers: Option<Box<Head>>,
    is_used: bool,
    reader: Option<Waker>,
    pump: Option<Waker>,
}

/// Treatment of a body that is larger than may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BeyondLimit {
    /// Nobody can have it (`std.cache_req_body`).
    #[default]
    Fails,
    /// The body can be lent as if none of it had been read.
    IsLent,
}

/// A body that is kept whole, at most `limit` bytes of it.
#[derive(Default)]
struct KeptBody {
    pieces: Vec<Buf>,
    bytes: u64,
    limit: u64,
    store: Option<Arc<Store>>,
    beyond: BeyondLimit,
}

impl KeptBody {
    /// Counts bytes that came. False if they are too many.
    fn has_room(&mut self, len: usize) -> bool {
        self.bytes += len as u64;
        self.bytes <= self.limit
    }

    /// Keeps a piece. False if the store has no room.
    fn keep(&mut self, piece: &[u8]) -> bool {
        let kept = self.store.as_ref().and_then(|store| store.block(&[piece]).ok());
        let is_kept = kept.is_some();
        self.pieces.extend(kept);
        is_kept
    }
}

/// A handle on one request's body; its clones are the same body. Most requests have none, and nothing is allocated then.
#[derive(Clone)]
pub struct ReqBody(Option<Rc<RefCell<Inner>>>);

impl ReqBody {
    pub fn for_request(transport: &dyn Transport) -> Self {
        let state = match transport.body_state() {
            BodyState::None => ReqBodyState::None,
            BodyState::Unread => ReqBodyState::Unread,
            BodyState::Done => ReqBodyState::Spent,
            BodyState::Failed => ReqBodyState::Failed(ReqBodyError::GivenUp),
        };
        Self::new(state, transport.body_len())
    }

    pub fn none() -> Self {
        ReqBody(None)
    }

    fn new(state: ReqBodyState, len: Option<u64>) -> Self {
        if state == ReqBodyState::None {
            return ReqBody(None);
        }
        ReqBody(Some(Rc::new(RefCell::new(Inner {
            state,
            len,
            pieces: VecDeque::new(),
            open: Vec::new(),
            waiting: 0,
            kept: KeptBody::default(),
            trailers: None,
            is_used: false,
            reader: None,
            pump: None,
        }))))
    }

    fn state(&self) -> ReqBodyState {
        self.0.as_ref().map_or(ReqBodyState::None, |inner| inner.borrow().state)
    }

    pub fn exists(&self) -> bool {
        self.0.is_some()
    }

    /// True if a fetch could still send the body: it is unread, or kept.
    pub fn is_available(&self) -> bool {
        matches!(self.state(), ReqBodyState::Unread | ReqBodyState::Cached)
    }

    pub fn is_cached(&self) -> bool {
        self.state() == ReqBodyState::Cached
    }

    pub fn is_unread(&self) -> bool {
        self.state() == ReqBodyState::Unread
    }

    /// Notes that the body was read and thrown away, so that nobody else can have it.
    pub fn discarded(&self) {
        let Some(inner) = &self.0 else { return };
        let mut inner = inner.borrow_mut();
        if inner.state == ReqBodyState::Unread {
            inner.state = ReqBodyState::Spent;
            inner.drop_waiting();
        }
    }

    pub fn is_lent(&self) -> bool {
        self.state() == ReqBodyState::Lent
    }

    /// True if the body was lent and can't be lent again.
    pub fn is_spent(&self) -> bool {
        matches!(self.state(), ReqBodyState::Lent | ReqBodyState::Spent)
    }

    pub fn failure(&self) -> Option<ReqBodyError> {
        match self.state() {
            ReqBodyState::Failed(error) => Some(error),
            ReqBodyState::None
            | ReqBodyState::Unread
            | ReqBodyState::Lent
            | ReqBodyState::Caching
            | ReqBodyState::Cached
            | ReqBodyState::Spent => None,
        }
    }

    /// True if a part of the body was taken, or the body failed: another fetch can't send it.
    pub fn is_used(&self) -> bool {
        self.failure().is_some() || self.0.as_ref().is_some_and(|inner| inner.borrow().is_used)
    }

    /// Length of the body, as announced or as kept.
    pub fn bytes(&self) -> Option<u64> {
        let inner = self.0.as_ref()?.borrow();
        if inner.state == ReqBodyState::Cached { Some(inner.kept.bytes) } else { inner.len }
    }

    /// Bytes that were read from the client and wait for a fetch.
    pub fn waiting_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |inner| inner.borrow().waiting)
    }

    pub fn cached(&self) -> Vec<Buf> {
        self.0.as_ref().map_or_else(Vec::new, |inner| inner.borrow().kept.pieces.clone())
    }

    /// Lends an unread body to a fetch. Without effect on a kept one.
    pub fn lend(&self) {
        let Some(inner) = &self.0 else { return };
        let mut inner = inner.borrow_mut();
        if inner.state == ReqBodyState::Unread {
            inner.state = ReqBodyState::Lent;
            wake(&mut inner.pump);
        }
    }

    /// Takes the body back from a fetch that has read none of it. Pieces at hand stay so for the next one.
    pub fn give_back(&self) {
        let Some(inner) = &self.0 else { return };
        let mut inner = inner.borrow_mut();
        if inner.state == ReqBodyState::Lent {
            inner.state = ReqBodyState::Unread;
            inner.close_piece();
        }
    }

    /// Starts keeping the whole body in `store`, at most `limit` bytes.
    pub(crate) fn keep(&self, limit: u64, store: &Arc<Store>, beyond: BeyondLimit) {
        let Some(inner) = &self.0 else { return };
        let mut inner = inner.borrow_mut();
        if inner.state == ReqBodyState::Unread {
            inner.begin_keeping(KeptBody { limit, store: Some(store.clone()), beyond, ..KeptBody::default() });
            wake(&mut inner.pump);
        }
    }

    pub fn refuse_to_keep(&self, why: ReqBodyError) {
        let Some(inner) = &self.0 else { return };
        let mut inner = inner.borrow_mut();
        if inner.state == ReqBodyState::Unread {
            inner.state = ReqBodyState::Failed(why);
        }
    }

    /// Ready when [`ReqBody::keep`] has ended: `true` if the body is kept.
    pub fn poll_kept(&self, cx: &mut Context<'_>) -> Poll<bool> {
        let Some(inner) = &self.0 else { return Poll::Ready(true) };
        let mut inner = inner.borrow_mut();
        match inner.state {
            ReqBodyState::Cached | ReqBodyState::None => Poll::Ready(true),
            ReqBodyState::Unread | ReqBodyState::Lent | ReqBodyState::Spent | ReqBodyState::Failed(_) => {
                Poll::Ready(false)
            }
            ReqBodyState::Caching => {
                inner.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The next piece for the fetch that it is lent to; `None` at its end.
    pub fn poll_next(&self, cx: &mut Context<'_>) -> Poll<Result<Option<Buf>, ReqBodyError>> {
        let Some(inner) = &self.0 else { return Poll::Ready(Ok(None)) };
        let mut inner = inner.borrow_mut();
        if inner.pieces.is_empty() {
            inner.close_piece();
        }
        if let Some(piece) = inner.pieces.pop_front() {
            inner.waiting -= piece.len();
            inner.is_used = true;
            wake(&mut inner.pump);
            return Poll::Ready(Ok(Some(piece)));
        }
        match inner.state {
            ReqBodyState::Failed(error) => Poll::Ready(Err(error)),
            ReqBodyState::None | ReqBodyState::Spent => Poll::Ready(Ok(None)),
            ReqBodyState::Lent | ReqBodyState::Unread | ReqBodyState::Caching | ReqBodyState::Cached => {
                inner.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }

    /// The trailers of a completed body that may be forwarded.
    pub fn take_trailers(&self) -> Option<Head> {
        let mut inner = self.0.as_ref()?.borrow_mut();
        let mut trailers = inner.trailers.take()?;
        inner.is_used = true;
        trailers.retain(|field| message::hop::may_be_trailer(field.name()));
        (!trailers.is_empty()).then_some(*trailers)
    }

    /// Ends the body because the client's side has gone.
    pub fn give_up(&self) {
        let Some(inner) = &self.0 else { return };
        let mut inner = inner.borrow_mut();
        if matches!(inner.state, ReqBodyState::Unread | ReqBodyState::Lent | ReqBodyState::Caching) {
            inner.state = ReqBodyState::Failed(ReqBodyError::GivenUp);
            wake(&mut inner.reader);
        }
    }

    /// Moves bytes from the client towards the reader. Pending while there is nothing to do; ready at the body's end
    /// (also when nobody reads it now).
    pub fn poll_pump(&self, cx: &mut Context<'_>, transport: &mut dyn Transport) -> Poll<()> {
        let Some(shared) = &self.0 else { return Poll::Ready(()) };
        loop {
            {
                let mut inner = shared.borrow_mut();
                match inner.state {
                    ReqBodyState::Lent if inner.waiting < AHEAD => {}
                    ReqBodyState::Caching => {}
                    ReqBodyState::Unread | ReqBodyState::Lent => {
                        inner.pump = Some(cx.waker().clone());
                        return Poll::Pending;
                    }
                    ReqBodyState::None | ReqBodyState::Cached | ReqBodyState::Spent | ReqBodyState::Failed(_) => {
                        return Poll::Ready(());
                    }
                }
            }
            let Poll::Ready(piece) = transport.poll_body(cx) else {
                shared.borrow_mut().pump = Some(cx.waker().clone());
                return Poll::Pending;
            };
            if let Ok(None) = piece {
                shared.borrow_mut().trailers = transport.take_trailers().map(Box::new);
            }
            Self::take(shared, piece);
        }
    }

    fn take(shared: &RefCell<Inner>, piece: Result<Option<Buf>, ReqBodyError>) {
        let mut inner = shared.borrow_mut();
        let inner = &mut *inner;
        match (piece, inner.state) {
            (Err(_), ReqBodyState::Caching) if base::failpoint::fault("a cut upload kept as a whole one") => {
                inner.state = ReqBodyState::Cached;
            }
            (Err(error), _) => inner.state = ReqBodyState::Failed(error),
            (Ok(None), ReqBodyState::Caching) => {
                let gathered = std::mem::take(&mut inner.open);
                inner.state = ReqBodyState::Cached;
                if !gathered.is_empty() {
                    inner.store_last(Buf::unaccounted(gathered));
                }
            }
            (Ok(None), _) => inner.state = ReqBodyState::Spent,
            (Ok(Some(piece)), ReqBodyState::Caching) => inner.keep_piece(piece),
            (Ok(Some(piece)), _) => {
                inner.waiting += piece.len();
                gather(&mut inner.open, piece, |piece| inner.pieces.push_back(piece));
            }
        }
        wake(&mut inner.reader);
    }
}

impl Inner {
    fn begin_keeping(&mut self, kept: KeptBody) {
        let is_too_long = self.len.is_some_and(|len| len > kept.limit) || self.waiting as u64 > kept.limit;
        self.state = match (is_too_long, kept.beyond) {
            (false, _) => ReqBodyState::Caching,
            (true, BeyondLimit::Fails) => ReqBodyState::Failed(ReqBodyError::TooLarge),
            (true, BeyondLimit::IsLent) => ReqBodyState::Unread,
        };
        if self.state == ReqBodyState::Unread {
            return;
        }
        self.kept = kept;
        // Bytes that an earlier attempt has read.
        let read = std::mem::take(&mut self.pieces);
        self.waiting = 0;
        for piece in read {
            match self.state {
                ReqBodyState::Caching => self.keep_piece(piece),
                _ => self.wait_with(piece),
            }
        }
    }

    fn keep_piece(&mut self, piece: Buf) {
        if !self.kept.has_room(piece.len()) {
            return self.refuse(Some(piece));
        }
        let mut ready = None;
        gather(&mut self.open, piece, |piece| ready = Some(piece));
        if let Some(gathered) = ready {
            self.store_piece(gathered);
        }
    }

    fn store_piece(&mut self, piece: Buf) {
        if !self.kept.keep(&piece) {
            self.refuse(Some(piece));
        }
    }

    /// Keeps the end of the body. It can't be lent again, so that a full store doesn't refuse it.
    fn store_last(&mut self, piece: Buf) {
        if self.kept.beyond == BeyondLimit::Fails {
            self.store_piece(piece);
        } else if !self.kept.keep(&piece) {
            self.kept.pieces.push(piece);
        }
    }

    /// Ends the keeping of a body that is too large; `last` is what can't be kept.
    fn refuse(&mut self, last: Option<Buf>) {
        let kept = std::mem::take(&mut self.kept.pieces);
        let open = std::mem::take(&mut self.open);
        if self.kept.beyond == BeyondLimit::Fails {
            self.state = ReqBodyState::Failed(ReqBodyError::TooLarge);
            return;
        }
        self.state = ReqBodyState::Unread;
        let open = (!open.is_empty()).then(|| Buf::unaccounted(open));
        kept.into_iter().chain(open).chain(last).for_each(|piece| self.wait_with(piece));
    }

    fn wait_with(&mut self, piece: Buf) {
        self.waiting += piece.len();
        self.pieces.push_back(piece);
    }

    fn close_piece(&mut self) {
        let gathered = std::mem::take(&mut self.open);
        if !gathered.is_empty() {
            self.pieces.push_back(Buf::unaccounted(gathered));
        }
    }

    fn drop_waiting(&mut self) {
        self.pieces.clear();
        self.open = Vec::new();
        self.waiting = 0;
    }
}

/// Adds a piece to `open`, and hands pieces on that are long enough.
fn gather(open: &mut Vec<u8>, piece: Buf, mut keep: impl FnMut(Buf)) {
    if open.is_empty() && piece.len() >= PIECE {
        return keep(piece);
    }
    open.extend_from_slice(&piece);
    if open.len() >= PIECE {
        keep(Buf::unaccounted(std::mem::take(open)));
    }
}

fn wake(waker: &mut Option<Waker>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
