// SPDX-License-Identifier: BSD-2-Clause
//! Which form of an object's body goes out: the stored one, through filters that undo its coding where the client doesn't take
//! that, or one that is kept beside it (`cache::forms`), as it is.
//!
//! VCL sees the stored head and the filters that would run, whatever is kept. A form is used where VCL and its modules have
//! left the filters alone.

use std::sync::Arc;

use cache::{Form, FormCoding, ObjRef};
use message::dictionary::DCZ;
use message::{Coding, Codings, names};

use super::Req;
use super::delivery::{Answer, Extent, plain_bytes};
use super::outlet::Outlet;
use super::transmit::DeliveryFailure;
use crate::httplog::RESP;

/// A form is packed as hard as it can be once it was delivered as often.
const HARD_USES: u32 = 100;

impl Req {
    /// True if this client may get other bytes than the stored ones, so that a strong ETag doesn't hold for them.
    pub(super) fn may_get_another_form(&self, obj: &ObjRef) -> bool {
        let (stored, made) = (obj.flags().coding, self.params.supported_codings());
        let is_undone = made.is_undone_for(stored, &self.ask.head);
        is_undone
            || stored != Coding::Identity && made.are_several() && !obj.flags().is_passed() && {
                let liked = made.liked_by(&self.ask.head);
                liked.codings().next() != Some(stored)
            }
    }

    /// Decides, once VCL has run, whether a form goes out. One that is missed is made, if it is missed often.
    pub(super) fn take_form(&mut self, answer: &mut Answer) -> bool {
        let Answer::Object(delivery) = answer else { return false };
        let is_coded = delivery.obj.flags().coding != Coding::Identity;
        if !is_coded || !matches!(delivery.extent, Extent::Stored) || !self.may_have_form(&delivery.obj) {
            return false;
        }
        let Some(form) = self.choose_form(&delivery.obj) else { return false };
        delivery.extent = Extent::Form(form);
        true
    }

    fn choose_form(&self, obj: &ObjRef) -> Option<Arc<Form>> {
        let made = self.params.supported_codings();
        let is_undone = made.is_undone_for(obj.flags().coding, &self.ask.head);
        if made.are_several() {
            return self.liked_form(obj, made, is_undone);
        }
        if is_undone { self.find_form(obj, Coding::Identity) } else { None }
    }

    /// True if nothing but the encoding of the body changes.
    pub(super) fn may_have_form(&self, obj: &ObjRef) -> bool {
        let flags = obj.flags();
        let does_esi = flags.has_esi && !self.settings.disable_esi;
        let has_body = !matches!(self.resp.head.status() % 1000, 204 | 206 | 304);
        let is_plain = has_body && !flags.is_passed() && !does_esi && self.resp.filters.are_default();
        is_plain && obj.body_len().is_some_and(|bytes| bytes > 0)
    }

    /// The form that the client likes best, of those that exist.
    fn liked_form(&self, obj: &ObjRef, made: Codings, is_undone: bool) -> Option<Arc<Form>> {
        let stored = obj.flags().coding;
        let liked = made.liked_by(&self.ask.head);
        // Parts are cut of what stays as it is: a form may be packed anew at any time.
        let is_whole = !self.ask.head.has(names::RANGE);
        for coding in liked.codings().filter(|&coding| is_whole || coding == stored || coding == Coding::Identity) {
            match coding {
                Coding::Identity => break,
                _ if coding == stored => return self.harder_form(obj, is_whole),
                Coding::Gzip | Coding::Brotli | Coding::Zstd => {}
            }
            if let Some(form) = self.find_form(obj, coding) {
                self.pack_harder(obj, &form);
                return Some(form);
            }
        }
        let likes_plain = liked.codings().next() == Some(Coding::Identity);
        if is_undone || likes_plain { self.find_form(obj, Coding::Identity) } else { None }
    }

    /// The stored encoding, compressed harder, if such a form exists and the body was compressed here.
    fn harder_form(&self, obj: &ObjRef, is_whole: bool) -> Option<Arc<Form>> {
        if !obj.flags().is_recoded || !is_whole {
            return None;
        }
        let cache = &self.engine().cache;
        let (coding, now) = (obj.flags().coding, self.engine().mono_of(self.ask.t_req));
        let form = cache.form(obj, coding, now);
        if form.is_none()
            && obj.hits() % HARD_USES == HARD_USES - 1
            && let Some(right) = cache.wants_hard_form(obj, coding)
        {
            self.engine().make_form(right);
        }
        form
    }

    fn pack_harder(&self, obj: &ObjRef, form: &Form) {
        if !form.is_hard()
            && form.uses().is_multiple_of(HARD_USES)
            && let FormCoding::Plain(_) = form.coding()
            && let Some(right) = self.engine().cache.wants_hard_form(obj, form.coding())
        {
            self.engine().make_form(right);
        }
    }

    /// The form in that coding, if it is there; else it is missed.
    fn find_form(&self, obj: &ObjRef, coding: Coding) -> Option<Arc<Form>> {
        let engine = self.engine();
        let form = engine.cache.form(obj, coding, engine.mono_of(self.ask.t_req));
        if form.is_none()
            && self.ask.head.method() == b"GET"
            && let Some(right) = engine.cache.wants_form(obj, coding)
        {
            // What is known to be too long, as a bomb is, isn't even begun: others would go for its beginning.
            let plain = plain_bytes(obj).filter(|_| coding == Coding::Identity);
            match plain.is_none_or(|bytes| right.may_be(bytes)) {
                true => engine.make_form(right),
                false => right.refuse(),
            }
        }
        form
    }

    /// The head says what the form is in.
    pub(super) fn name_form(&mut self, coding: FormCoding) {
        self.drop_digests();
        let token = match coding {
            FormCoding::Plain(Coding::Identity) => {
                return RESP.unset(&mut self.resp.head, &mut self.log, names::CONTENT_ENCODING);
            }
            FormCoding::Plain(coding) => coding.token(),
            FormCoding::Against(_) => DCZ,
        };
        let named = RESP.force(&mut self.resp.head, &mut self.log, names::CONTENT_ENCODING, token.as_bytes());
        if named.is_err() {
            self.log.count_lost();
        }
    }
}

impl Outlet<'_> {
    /// Sends the bytes of a form from `start` up to `end`.
    pub(super) async fn send_form(&mut self, form: &Form, start: u64, end: u64) -> Result<(), DeliveryFailure> {
        let mut at = 0;
        for piece in form.pieces() {
            let len = piece.len() as u64;
            let (from, to) = (start.clamp(at, at + len) - at, end.clamp(at, at + len) - at);
            at += len;
            if from < to {
                self.push(piece.slice(from as usize..to as usize), false).await?;
            }
        }
        Ok(())
    }
}
