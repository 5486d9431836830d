// SPDX-License-Identifier: BSD-2-Clause
//! The parts of a request, each of which is about one thing: who asks, what is asked for, and the response's head.

use std::cell::Cell;
use std::rc::Rc;

use ::accounts::BotClass;
use ::cache::{Digest, DigestBuilder};
use base::Real;
use message::Head;
use message::dictionary::DictionaryHash;
use tables::close::SessClose;

use super::class::ClassState;
use super::explain::TrialState;
use super::peer::ReqSender;
use super::rfc9111::Alias;
use super::timing::Waited;
use super::upload::Upload;
use crate::early::Handshaking;
use crate::response_filters::ResponseFilters;
use crate::serving::Noted;
use crate::sess::Sess;
use crate::uploads::RequestedUpload;

/// The client that asks, its connection, and the course of the request as it sees it.
pub struct ReqClient {
    pub sess: Rc<Sess>,
    pub body: Upload,
    /// The reason for ending the connection after the request, once that is known.
    pub close: Option<SessClose>,
    /// True once `feature=+vcl_req_reset` found that the client has reset the request: VCL fails from then on.
    pub(crate) is_reset: bool,
    /// The handshake, which may still go on, of a request that came by early data.
    pub(crate) early: Option<Rc<Handshaking>>,
    pub(crate) sender: ReqSender,
    /// Nobody's request: nothing is to be done for it.
    pub(crate) trial: Option<Box<TrialState>>,
    /// The fetch is a pass that changes nothing at the backend: of no use once this client is gone.
    pub(crate) gives_up: bool,
    pub(crate) is_piped: bool,
    pub(crate) class_state: ClassState,
    pub(crate) bot_class: BotClass,
    pub(crate) waited: Waited,
}

impl ReqClient {
    pub(super) fn new(sess: &Rc<Sess>) -> Self {
        ReqClient {
            sess: sess.clone(),
            body: Upload::none(),
            close: None,
            is_reset: false,
            early: None,
            sender: ReqSender::default(),
            trial: None,
            gives_up: false,
            is_piped: false,
            class_state: ClassState::None,
            bot_class: BotClass::Reader,
            waited: Waited::default(),
        }
    }
}

/// The request's head and what follows from it.
pub struct ReqAsk {
    /// The head as VCL has left it.
    pub head: Head,
    /// The head as it came, for restarts and rollback; after `recv` began.
    pub original: Head,
    /// Time at which its last byte came (`req.time`).
    pub t_req: Real,
    pub(crate) hasher: DigestBuilder,
    pub(crate) digest: Digest,
    pub(crate) alias: Option<Box<Alias>>,
    /// The client's dictionary, if it takes a body that was compressed against it.
    pub(crate) dictionary: Option<Box<DictionaryHash>>,
    /// The digest that `vcl_hash` made, if the key covers the body, too (`super::body_key`).
    pub(crate) family: Option<Box<Digest>>,
    pub(crate) upload: Option<Box<RequestedUpload>>,
    pub(crate) restarts: u32,
    /// Times that the response was begun anew because the object had changed.
    pub(crate) begun_anew: u32,
}

impl ReqAsk {
    pub(super) fn new(head: Head, original: Head, t_req: Real) -> Self {
        ReqAsk {
            head,
            original,
            t_req,
            hasher: DigestBuilder::new(),
            digest: Digest([0; 32]),
            alias: None,
            dictionary: None,
            family: None,
            upload: None,
            restarts: 0,
            begun_anew: 0,
        }
    }
}

/// The response as VCL and the engine make it. Its body is in the [`super::delivery::Answer`].
pub(crate) struct Response {
    pub head: Head,
    /// When it was begun (`resp.time`), once VCL has asked for it.
    pub time: Cell<Option<Real>>,
    pub filters: ResponseFilters,
    /// The object that was found, as far as that outlives the worker.
    pub noted: Noted,
    /// True once it has begun and nothing needs the request's heads or VCL any more.
    pub is_told: bool,
}

impl Response {
    pub fn new(head: Head) -> Self {
        Response {
            head,
            time: Cell::new(None),
            filters: ResponseFilters::default(),
            noted: Noted::default(),
            is_told: false,
        }
    }
}
