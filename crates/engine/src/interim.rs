// SPDX-License-Identifier: BSD-2-Clause
//! Interim responses (RFC 9110 15.2) on their way from a fetch to the client that waits for it; both are on one thread.
//!
//! They are only for the client whose request caused the fetch, at that moment: they are never stored, and aren't sent
//! to clients that wait for the same object. VCL doesn't see them. So only those without the effects of a response are
//! forwarded: 102, which says nothing, from 103 the headers for which RFC 8297 has it, and from 104 those of resumable uploads
//! (draft-ietf-httpbis-resumable-upload).

use message::hop::{self, HopDirection};
use message::{Head, names};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Most interim responses that a client gets for one request. Reports of an upload's progress don't count: a fetch accepts 64 in all.
const MAX: usize = 16;

/// Headers of a 103 that are forwarded: links to load meanwhile, and the page's policy for them.
const EARLY_HINTS: [&str; 2] = [message::links::LINK, "Content-Security-Policy"];

/// Headers of a 104 that are forwarded: where an upload can go on, under which limits, and how much of it has come.
const UPLOAD_RESUMPTION: [&str; 4] = [names::LOCATION, "Upload-Limit", "Upload-Offset", "Upload-Draft-Interop-Version"];

/// The way; its clones are the same one.
#[derive(Clone, Default)]
pub(crate) struct Interims(Rc<RefCell<Inner>>);

#[derive(Default)]
struct Inner {
    waiting: VecDeque<Head>,
    passed: usize,
}

impl Interims {
    /// Queues a backend's interim response; returns `true` if it is forwarded. The caller then wakes the requests that
    /// wait for the object. `lenient`: forwards any status, and all end-to-end headers.
    pub fn put(&self, interim: &Head, lenient: bool) -> bool {
        // A client that expected a 100 got one from us when a fetch began to read the request's body.
        let kept: &[&str] = match interim.status() {
            ..=101 => return false,
            _ if lenient => &[],
            102 => &[],
            103 => &EARLY_HINTS,
            104 => &UPLOAD_RESUMPTION,
            _ => return false,
        };
        let is_of_upload = interim.status() == 104;
        if !is_of_upload && self.0.borrow().passed == MAX {
            return false;
        }
        let mut head = Head::with_limits(interim.limits());
        head.copy_from(interim);
        if hop::connection(&mut head).is_err() || head.set_proto("HTTP/1.1").is_err() {
            return false;
        }
        head.retain(|field| {
            let goes_on = lenient || kept.iter().any(|name| field.is(name));
            goes_on && HopDirection::PassResponse.keeps(field) && !field.is(names::CONTENT_LENGTH)
        });
        let mut inner = self.0.borrow_mut();
        inner.passed += usize::from(!is_of_upload);
        inner.waiting.push_back(head);
        true
    }

    pub fn next(&self) -> Option<Head> {
        self.0.borrow_mut().waiting.pop_front()
    }
}
