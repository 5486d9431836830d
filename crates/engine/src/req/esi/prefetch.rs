// SPDX-License-Identifier: BSD-2-Clause
//! Fragments that begin while what comes before them in their page is still being delivered (`esi_parallel`).
//!
//! Each is a task of its own on the page's thread. Its body waits here until its turn comes, at most as much as a transport
//! queues; then it goes on as fast as the page does. All fragments of a client's request, nested ones too, share one number
//! of places; a fragment has its place until it was delivered, so that what waits is bounded as well. A page whose next
//! fragment found no place delivers it as if there were no parallelism: nothing can wait for its own turn.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use esi::{EsiProgram, EsiStep};
use filters::stitch::GzipSum;
use storage::Buf;
use tables::tags::Tag;

use super::Page;
use super::body_only::BodyOnly;
use super::context::Top;
use crate::contain::{Panic, contained};
use crate::current::StepName;
use crate::req::Req;
use crate::req::outlet::{Outlet, close_of};
use crate::req::transmit::DeliveryFailure;
use crate::transport::SendError;

/// Steps of the program that are looked at for the next include, each time that the page has come one step further.
const LOOK_AHEAD: usize = 256;

pub(super) struct Prefetch<'a> {
    top: Rc<Top>,
    /// Position from which the next include that hasn't begun is searched.
    scout: EsiProgram<'a>,
    begun: VecDeque<Prefetched>,
}

/// A fragment on its way. Dropping it gives its place back and ends what has no reader any more.
pub(super) struct Prefetched {
    shared: Rc<RefCell<Shared>>,
    top: Rc<Top>,
    continues_on_error: bool,
}

/// Between a fragment and its page.
#[derive(Default)]
struct Shared {
    pieces: VecDeque<Buf>,
    bytes: usize,
    is_closed: bool,
    end: Option<Result<End, Panic>>,
    fragment: Option<Waker>,
    page: Option<Waker>,
}

pub(super) struct End {
    /// Checksum and length of the bytes that it joined to its page's gzip.
    pub sum: GzipSum,
    /// The reason why it broke off, if it did.
    pub cut: Option<DeliveryFailure>,
    /// True if it had no response, or broke off.
    pub is_cut: bool,
}

/// The next event of a fragment for its page.
enum Next {
    Piece(Buf),
    End(Result<End, Panic>),
}

impl<'a> Prefetch<'a> {
    pub fn new(top: Rc<Top>, program: EsiProgram<'a>) -> Self {
        Prefetch { top, scout: program, begun: VecDeque::new() }
    }

    /// The page has come to an include, behind which `program` goes on: its fragment, if that has begun.
    pub fn take(&mut self, program: EsiProgram<'a>) -> Option<Prefetched> {
        let fragment = self.begun.pop_front();
        if fragment.is_none() {
            self.scout = program;
        }
        fragment
    }

    /// The next include for which there is a place.
    fn next(&mut self) -> Option<esi::EsiInclude> {
        if self.top.places.get() == 0 {
            return None;
        }
        for _ in 0..LOOK_AHEAD {
            match self.scout.next_step() {
                Ok(Some(EsiStep::Include(include))) => return Some(include),
                Ok(Some(EsiStep::Skip { .. } | EsiStep::Verbatim { .. })) => {}
                // A corrupt program is found out by the delivery.
                Ok(None) | Err(_) => return None,
            }
        }
        None
    }
}

impl Req {
    pub(super) fn prefetch(&mut self, prefetch: &mut Prefetch<'_>, is_gzip: bool) {
        while let Some(include) = prefetch.next() {
            let top = prefetch.top.clone();
            top.places.set(top.places.get() - 1);
            let child = self.child(&include, &top, is_gzip);
            let shared = Rc::<RefCell<Shared>>::default();
            let inlet = PageWriter { shared: shared.clone(), is_cut: false };
            prefetch.begun.push_back(Prefetched { shared, top, continues_on_error: include.continue_on_error });
            // Named, for a future that contains itself has no size.
            let task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(run(child, inlet));
            rt::spawn(task);
        }
    }
}

impl Outlet<'_> {
    /// The fragment's turn has come.
    pub(super) async fn deliver_prefetched(
        &mut self,
        fragment: Prefetched,
        page: &mut Page,
    ) -> Result<(), DeliveryFailure> {
        loop {
            let next = poll_fn(|cx| {
                if let Poll::Ready(next) = fragment.shared.borrow_mut().poll_next(cx) {
                    return Poll::Ready(Ok(next));
                }
                match self.transport.poll_flush(cx, 0) {
                    Poll::Ready(Err(error)) => Poll::Ready(Err(DeliveryFailure::Client(close_of(error)))),
                    Poll::Ready(Ok(())) | Poll::Pending => {
                        self.req.poll_peer_closed(cx, &mut *self.transport).map(|()| Err(DeliveryFailure::GONE))
                    }
                }
            });
            match next.await? {
                Next::Piece(piece) => self.push(piece, false).await?,
                Next::End(end) => {
                    crate::current::enter(self.req.log.vxid(), const { StepName::new("esi") });
                    return self.req.included(end, fragment.continues_on_error, page);
                }
            }
        }
    }
}

async fn run(mut child: Box<Req>, mut inlet: PageWriter) {
    let ran = contained(pin!(child.run(&mut inlet))).await;
    if ran.is_err() {
        child.note_panic();
    }
    child.finish(&inlet);
    let end = ran.map(|()| child.end_of_fragment(inlet.is_cut));
    inlet.shared.borrow_mut().finish(end);
}

impl Shared {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Next> {
        if let Some(piece) = self.pieces.pop_front() {
            self.bytes -= piece.len();
            self.fragment.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(Next::Piece(piece));
        }
        if let Some(end) = self.end.take() {
            return Poll::Ready(Next::End(end));
        }
        self.page = Some(cx.waker().clone());
        Poll::Pending
    }

    fn finish(&mut self, end: Result<End, Panic>) {
        self.end = Some(end);
        self.page.take().into_iter().for_each(Waker::wake);
    }
}

impl Drop for Prefetched {
    fn drop(&mut self) {
        self.top.places.set(self.top.places.get() + 1);
        if base::failpoint::fault("an ESI child that outlives its page") {
            return;
        }
        let mut shared = self.shared.borrow_mut();
        shared.is_closed = true;
        shared.pieces.clear();
        shared.bytes = 0;
        shared.fragment.take().into_iter().for_each(Waker::wake);
    }
}

struct PageWriter {
    shared: Rc<RefCell<Shared>>,
    is_cut: bool,
}

impl Drop for PageWriter {
    fn drop(&mut self) {
        // A task that is dropped before its end mustn't leave its page waiting.
        let mut shared = self.shared.borrow_mut();
        if shared.end.is_none() {
            shared.finish(Err(Panic));
        }
    }
}

impl BodyOnly for PageWriter {
    fn put(&mut self, piece: Buf) {
        let mut shared = self.shared.borrow_mut();
        if !piece.is_empty() && !shared.is_closed {
            shared.bytes += piece.len();
            shared.pieces.push_back(piece);
            shared.page.take().into_iter().for_each(Waker::wake);
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
    }

    fn held(&self) -> usize {
        self.shared.borrow().bytes
    }

    fn poll_room(&mut self, cx: &mut Context<'_>, keep: usize) -> Poll<Result<(), SendError>> {
        let mut shared = self.shared.borrow_mut();
        if shared.is_closed {
            return Poll::Ready(Err(SendError::Closed));
        }
        if shared.bytes <= keep {
            return Poll::Ready(Ok(()));
        }
        shared.fragment = Some(cx.waker().clone());
        Poll::Pending
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let mut shared = self.shared.borrow_mut();
        if shared.is_closed {
            return Poll::Ready(());
        }
        shared.fragment = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Req {
    /// Counts and logs a panic of this fragment, whose page goes on to end in order.
    pub(super) fn note_panic(&mut self) {
        self.engine().main.req_panic.inc();
        self.log.put(Tag::Error, b"Panic in the request: see the panic report");
    }
}
