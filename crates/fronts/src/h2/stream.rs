// SPDX-License-Identifier: BSD-2-Clause
//! A stream as its connection and its request share it: what has come of the request's body, what of the response waits for its
//! turn, and whether anybody still wants it.

use std::collections::VecDeque;
use std::task::{Context, Waker};

use base::Mono;
use engine::transport::{BodyState, ReqBodyError, TransportAcct};
use message::Head;
use storage::Buf;

/// A body's memory is kept for the next stream up to this.
const KEEP_BYTES: usize = 4 * 1024;
/// Room for so many pieces of a response is kept for the next connection.
const KEEP_PIECES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gone {
    ByClient,
    ByUs,
    /// We have reset it: the client took nothing for too long.
    TooSlow,
}

#[derive(Default)]
pub(super) struct Stream {
    pub(super) id: u32,
    pub(super) acct: TransportAcct,
    pub(super) upload: Upload,
    pub(super) download: Download,
    pub(super) gone: Option<Gone>,
    /// Waker of its request, while that waits for the connection.
    task: Option<Waker>,
}

impl Stream {
    pub(super) fn open(&mut self, id: u32, upload: Phase, len: Option<u64>) {
        self.id = id;
        (self.upload.phase, self.upload.len) = (upload, len);
    }

    /// Nobody's: for the next one.
    pub(super) fn close(&mut self) {
        self.upload.arrived.clear();
        self.upload.arrived.shrink_to(KEEP_BYTES);
        self.download.pieces.clear();
        *self = Stream {
            upload: Upload { arrived: std::mem::take(&mut self.upload.arrived), ..Upload::default() },
            download: Download { pieces: std::mem::take(&mut self.download.pieces), ..Download::default() },
            ..Stream::default()
        };
    }

    /// Frees buffers, but for those that cost nothing to keep: the place isn't used for long.
    pub(super) fn rest(&mut self) {
        self.upload.arrived = Vec::new();
        self.download.pieces.shrink_to(KEEP_PIECES);
    }

    /// Nothing more comes and nothing more is wanted.
    pub(super) fn end(&mut self, gone: Gone, error: ReqBodyError) {
        self.gone.get_or_insert(gone);
        self.upload.fail(error);
        self.download.clear();
        self.wake();
    }

    pub(super) fn waits(&mut self, cx: &Context<'_>) {
        match &mut self.task {
            Some(task) => task.clone_from(cx.waker()),
            None => self.task = Some(cx.waker().clone()),
        }
    }

    pub(super) fn wake(&mut self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    None,
    Open,
    /// All has come, and some wasn't read.
    Ended,
    /// All has come and was read.
    Done,
    Failed(ReqBodyError),
}

#[derive(Default)]
pub(super) struct Upload {
    phase: Phase,
    len: Option<u64>,
    /// Bytes that came and weren't read: at most a window.
    arrived: Vec<u8>,
    trailers: Option<Box<Head>>,
}

impl Upload {
    pub(super) fn state(&self) -> BodyState {
        match self.phase {
            Phase::None => BodyState::None,
            Phase::Open | Phase::Ended => BodyState::Unread,
            Phase::Done => BodyState::Done,
            Phase::Failed(_) => BodyState::Failed,
        }
    }

    pub(super) fn len(&self) -> Option<u64> {
        if self.state() == BodyState::Unread { self.len } else { None }
    }

    pub(super) fn has_arrived(&self) -> bool {
        !self.arrived.is_empty()
    }

    pub(super) fn push(&mut self, bytes: &[u8], end: bool) {
        if self.phase == Phase::Open {
            self.make_room(bytes.len());
            self.arrived.extend_from_slice(bytes);
            if end {
                self.phase = Phase::Ended;
            }
        }
    }

    /// Grows by an eighth, not to the double: what isn't used is nobody's, and isn't counted.
    fn make_room(&mut self, len: usize) {
        if self.arrived.capacity() - self.arrived.len() < len {
            self.arrived.reserve_exact(len.max(self.arrived.len() / 8));
        }
    }

    /// The body has ended, with fields behind it.
    pub(super) fn end_with(&mut self, trailers: Head) {
        self.push(b"", true);
        self.trailers = Some(Box::new(trailers));
    }

    pub(super) fn take_trailers(&mut self) -> Option<Head> {
        self.trailers.take().map(|head| *head)
    }

    pub(super) fn fail(&mut self, error: ReqBodyError) {
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Failed(error);
            self.arrived = Vec::new();
        }
    }

    /// The next bytes, or that nothing more will come; `None`: it has to be waited for.
    pub(super) fn take(&mut self) -> Option<Result<Option<Buf>, ReqBodyError>> {
        if !self.arrived.is_empty() {
            return Some(Ok(Some(Buf::unaccounted(std::mem::take(&mut self.arrived)))));
        }
        match self.phase {
            Phase::Open => return None,
            Phase::Ended => self.phase = Phase::Done,
            Phase::None | Phase::Done => {}
            Phase::Failed(error) => return Some(Err(error)),
        }
        Some(Ok(None))
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    #[default]
    Open,
    Due,
    /// The client was told.
    Said,
}

#[derive(Default)]
pub(super) struct Download {
    pieces: VecDeque<Buf>,
    queued: usize,
    pub(super) is_begun: bool,
    pub(super) end: End,
    pub(super) trailers: Option<Box<Head>>,
    /// Time from which the response's limit runs (`send_timeout`).
    pub(super) since: Option<Mono>,
    /// Since when a window is shut, as far as anybody has looked.
    pub(super) shut_since: Option<Mono>,
}

impl Download {
    pub(super) fn queued(&self) -> usize {
        self.queued
    }

    pub(super) fn push(&mut self, piece: Buf) {
        self.queued += piece.len();
        self.pieces.push_back(piece);
    }

    /// The next bytes, at most `max` of them and as they lie together.
    pub(super) fn take(&mut self, max: usize) -> Option<Buf> {
        let first = self.pieces.front_mut()?;
        let piece = if first.len() > max {
            let piece = first.slice(0..max);
            *first = first.slice(max..first.len());
            piece
        } else {
            self.pieces.pop_front()?
        };
        self.queued -= piece.len();
        Some(piece)
    }

    /// Bytes of the list of pieces.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.pieces.capacity() * size_of::<Buf>()
    }

    /// Nobody wants what waits.
    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.queued = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buf(text: &str) -> Buf {
        Buf::unaccounted(text.as_bytes().to_vec())
    }

    #[test]
    fn a_body_comes_in_pieces_and_ends_once() {
        let mut upload = Upload { phase: Phase::Open, len: Some(4), ..Upload::default() };
        assert!(upload.take().is_none());
        upload.push(b"bo", false);
        upload.push(b"dy", true);
        assert_eq!((upload.len(), upload.state()), (Some(4), BodyState::Unread));
        assert_eq!(upload.take().unwrap().unwrap().as_deref(), Some(&b"body"[..]));
        assert!(upload.take().unwrap().unwrap().is_none());
        assert_eq!((upload.len(), upload.state()), (None, BodyState::Done));
        upload.fail(ReqBodyError::Closed("late"));
        assert_eq!(upload.state(), BodyState::Done, "what was whole stays so");
    }

    #[test]
    fn a_body_that_waits_takes_little_more_than_its_bytes() {
        let mut upload = Upload { phase: Phase::Open, ..Upload::default() };
        let mut moves = 0;
        for _ in 0..64 * 1024 {
            let before = upload.arrived.capacity();
            upload.push(b"x", false);
            moves += usize::from(upload.arrived.capacity() != before);
        }
        let room = upload.arrived.capacity();
        assert!(room <= 74 * 1024 && moves < 150, "{room} bytes, moved {moves} times");
    }

    #[test]
    fn a_body_that_breaks_is_never_whole() {
        let mut upload = Upload { phase: Phase::Open, ..Upload::default() };
        upload.push(b"half", false);
        upload.fail(ReqBodyError::Closed("reset"));
        upload.push(b"", true);
        assert_eq!(upload.take().unwrap().err(), Some(ReqBodyError::Closed("reset")));
        assert_eq!(upload.state(), BodyState::Failed);
    }

    #[test]
    fn pieces_are_cut_to_what_may_go() {
        let mut download = Download::default();
        download.push(buf("hello"));
        download.push(buf("world"));
        assert_eq!(download.take(3).as_deref(), Some(&b"hel"[..]));
        assert_eq!(download.take(3).as_deref(), Some(&b"lo"[..]));
        assert_eq!((download.take(9).as_deref(), download.queued()), (Some(&b"world"[..]), 0));
        assert!(download.take(1).is_none());
    }
}
