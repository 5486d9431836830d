// SPDX-License-Identifier: BSD-2-Clause
//! What a filter wants to have before the body goes through it: responses to requests of their own, made as fragments are, one after the
//! other, each kept whole up to a limit.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use filters::{Chain, Subrequest};
use storage::Buf;
use tables::tags::Tag;

use super::body_only::BodyOnly;
use super::context::Top;
use crate::contain::contained;
use crate::current::StepName;
use crate::req::Req;
use crate::transport::{SendError, Transport};

struct Capture<'a> {
    body: Vec<u8>,
    most: usize,
    is_cut: bool,
    /// The transport of its page's client.
    outer: &'a mut dyn Transport,
}

impl BodyOnly for Capture<'_> {
    fn put(&mut self, piece: Buf) {
        if self.body.len() + piece.len() > self.most {
            self.is_cut = true;
        }
        if !self.is_cut {
            self.body.extend_from_slice(&piece);
        }
    }

    fn cut(&mut self) {
        self.is_cut = true;
    }

    fn held(&self) -> usize {
        0
    }

    fn poll_room(&mut self, _: &mut Context<'_>, _: usize) -> Poll<Result<(), SendError>> {
        Poll::Ready(if self.is_cut { Err(SendError::Closed) } else { Ok(()) })
    }

    fn poll_closed(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.outer.poll_peer_closed(cx)
    }
}

impl Req {
    /// Gives each filter what it asks for, `first` to begin with. What can't be had, isn't a 200 or is too long is `None`.
    pub(in crate::req) async fn answer_filters(
        &mut self,
        first: (usize, Vec<Subrequest>),
        chain: &mut Chain,
        transport: &mut dyn Transport,
    ) {
        let mut next = Some(first);
        while let Some((filter, asked)) = next {
            let top = self.share_top();
            let mut answers = Vec::with_capacity(asked.len());
            for one in asked {
                let url = one.url.clone();
                let answer = if self.may_include() {
                    self.response_to(one, &top, transport).await
                } else {
                    self.refuse_depth();
                    None
                };
                if answer.is_none() {
                    self.log.putf(Tag::VclError, format_args!("{}: no whole answer of 200", url.escape_ascii()));
                }
                answers.push(answer);
            }
            chain.answer(filter, answers);
            next = chain.take_subrequests();
        }
    }

    async fn response_to(&mut self, asked: Subrequest, top: &Rc<Top>, outer: &mut dyn Transport) -> Option<Vec<u8>> {
        let include = esi::EsiInclude { url: asked.url, host: asked.host, continue_on_error: true };
        let mut child = self.child(&include, top, false);
        let mut kept = Capture { body: Vec::new(), most: asked.most, is_cut: false, outer };
        let panicked = {
            // Named, for a future that contains itself has no size.
            let mut run: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(child.run(&mut kept));
            contained(run.as_mut()).await.is_err()
        };
        if panicked {
            child.note_panic();
        }
        let is_ok = child.resp.head.status() == 200;
        child.finish(&kept);
        crate::current::enter(self.log.vxid(), const { StepName::new("filters") });
        let is_whole = !panicked && !kept.is_cut && child.end_of_fragment(kept.is_cut).cut.is_none();
        (is_whole && is_ok).then_some(kept.body)
    }
}
