// SPDX-License-Identifier: BSD-2-Clause
//! Backends that are no server: a task answers each request (`backend::Responder`).

use std::pin::Pin;
use std::sync::Arc;

use backend::responder::{self, FailureText};
use backend::{Exchange, Responder, Service, ServiceRef};
use base::Vxid;
use shm::vsl::{LogRing, Marker};
use tables::Tag;

pub(crate) type Answering = Pin<Box<dyn Future<Output = Result<(), FailureText>>>>;

pub(crate) trait LocalResponder: Send + Sync + 'static {
    /// Answers a request. After an error the answer is cut; the log says why.
    fn answer(self: Arc<Self>, responder: Responder) -> Answering;
}

/// A service of `answer`'s, whose errors are logged under a name.
pub(crate) fn service<A: LocalResponder>(name: &str, log: Arc<LogRing>, answer: Arc<A>) -> ServiceRef {
    ServiceRef(Arc::new(Local { name: name.to_owned(), log, answer }))
}

struct Local<A> {
    name: String,
    log: Arc<LogRing>,
    answer: Arc<A>,
}

impl<A: LocalResponder> Service for Local<A> {
    fn exchange(&self) -> Box<dyn Exchange> {
        let (name, log, answer) = (self.name.clone(), self.log.clone(), self.answer.clone());
        let (exchange, mut responder) = responder::exchange();
        let given_up = responder.given_up();
        drop(rt::spawn(async move {
            let answered = async { if responder.begin().await { answer.answer(responder).await } else { Ok(()) } };
            let done = tokio::select! {
                biased;
                done = answered => done,
                () = given_up => Ok(()),
            };
            if let Err(reason) = done {
                log.write_onef(Tag::Error, Vxid::NONE, Marker::None, format_args!("{name}: {reason}"));
            }
        }));
        exchange
    }
}
