// SPDX-License-Identifier: BSD-2-Clause
//! A transaction as a director sees it while it chooses.

use std::any::{Any, TypeId};
use std::cell::{OnceCell, RefCell};

use backend::ResolveCtx;
use base::{Real, Vxid};
use message::Head;
use shm::vsl::{Marker, TxnLog};
use tables::tags::Tag;

use crate::engine::Engine;
use crate::sess::Sess;
use crate::vars;
use vrt::Privates;
use vrt::value::Text;

/// The request and its surroundings that a director may look at.
pub struct DirectorChoice<'a> {
    pub sess: &'a Sess,
    /// bereq, on the client side req.
    pub head: &'a Head,
    /// The URL of `head`; in `vcl_pipe` that of req.
    pub url: &'a [u8],
    pub task: &'a Privates,
    /// The object's hash, for directors that shard by it.
    pub digest: &'a [u8; 32],
    pub identity: Option<&'a Text>,
    /// `client.identity` as text, once a director has asked for it.
    pub identity_text: OnceCell<Vec<u8>>,
    pub is_bereq: bool,
    pub log: RefCell<&'a mut TxnLog>,
}

impl DirectorChoice<'_> {
    fn engine(&self) -> &Engine {
        &self.sess.engine
    }
}

impl ResolveCtx for DirectorChoice<'_> {
    fn now(&self) -> Real {
        self.engine().clock.real()
    }

    fn task_value(&self, id: TypeId, key: usize) -> Option<&dyn Any> {
        self.task.peek(id, key)
    }

    fn is_bereq(&self) -> bool {
        self.is_bereq
    }

    fn url(&self) -> &[u8] {
        self.url
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.head.get(name)
    }

    fn digest(&self) -> &[u8; 32] {
        self.digest
    }

    fn client_identity(&self) -> &[u8] {
        self.identity_text.get_or_init(|| vars::identity(self.sess, self.identity))
    }

    fn random(&self) -> f64 {
        self.engine().vcls.random.next()
    }

    fn log_error(&self, text: &str) {
        self.log.borrow_mut().put(Tag::VclError, text.as_bytes());
    }

    fn log(&self, text: &str) {
        self.log.borrow_mut().put(Tag::VclLog, text.as_bytes());
    }

    fn log_debug(&self, text: &str) {
        self.log.borrow().ring().write_one(Tag::Debug, Vxid::NONE, Marker::None, text.as_bytes());
    }
}
