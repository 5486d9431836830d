// SPDX-License-Identifier: BSD-2-Clause
//! A body that goes out compressed against a dictionary that the client has (RFC 9842).
//!
//! The client's offer is read before Accept-Encoding is normalised, and is taken up once VCL has decided on the response.
//! Where no form is there, one is made in the background, and the client gets what it would get without a dictionary.

use std::sync::Arc;

use cache::{Dictionary, ObjRef};
use message::dictionary::{
    AVAILABLE_DICTIONARY, DictionaryHash, MalformedHash, USE_AS_DICTIONARY, is_readable, offered, vary_on_dictionary,
};
use message::{Coding, names};
use tables::tags::Tag;
use tables::vclsubs::RecvAction;

use super::Req;
use super::delivery::{Answer, Delivery, Extent};
use crate::httplog::RESP;

impl Req {
    /// Notes the dictionary that the client offers to use. VCL takes the offer back by unsetting the field.
    pub(super) fn note_dictionary(&mut self, action: &RecvAction) {
        if !self.ask.head.has(AVAILABLE_DICTIONARY) || *action != RecvAction::Hash || !self.params.has_dictionaries() {
            self.ask.dictionary = None;
            return;
        }
        match offered(&self.ask.head) {
            Ok(Some(hash)) => self.ask.dictionary = Some(Box::new(hash)),
            // `dcz` is gone from Accept-Encoding since the first time.
            Ok(None) if self.ask.restarts > 0 && self.ask.head.has(names::ACCEPT_ENCODING) => {}
            Ok(None) => self.ask.dictionary = None,
            Err(MalformedHash) => {
                self.ask.dictionary = None;
                self.note_unused("Available-Dictionary is malformed");
            }
        }
    }

    fn note_unused(&mut self, reason: &str) {
        self.engine().main.dictionary_miss.inc();
        self.log.putf(Tag::Notice, format_args!("lacquer: dictionary: not used: {reason}"));
    }

    /// Decides, once VCL has run, whether a form goes out that was compressed against the client's dictionary.
    pub(super) fn take_form_against(&mut self, answer: &mut Answer) -> bool {
        if self.ask.dictionary.is_none() && !self.resp.head.has(USE_AS_DICTIONARY) {
            return false;
        }
        // A peer decides for its own clients.
        if self.is_of_peer() {
            return false;
        }
        let Answer::Object(delivery) = answer else { return false };
        let status = self.resp.head.status() % 1000;
        let may_be = self.params.has_dictionaries() && !self.esi.is_fragment() && matches!(status, 200 | 304);
        if !may_be || delivery.obj.flags().is_passed() || delivery.obj.flags().is_private {
            return false;
        }
        self.vary_on_dictionary();
        if status == 304 {
            return false;
        }
        let Some(hash) = self.ask.dictionary.take() else { return false };
        match self.form_against(&hash, delivery) {
            Ok(()) => {
                self.engine().main.dictionary_hit.inc();
                self.weaken_resp_etag();
                true
            }
            Err(reason) => {
                self.note_unused(reason);
                false
            }
        }
    }

    /// Another client may get other bytes: caches on the way have to know by what.
    fn vary_on_dictionary(&mut self) {
        let vary = self.resp.head.joined(names::VARY).map(|vary| vary.to_vec());
        if let Some(new) = vary_on_dictionary(vary.as_deref())
            && RESP.force(&mut self.resp.head, &mut self.log, names::VARY, &new).is_err()
        {
            self.log.count_lost();
        }
    }

    fn form_against(&self, hash: &DictionaryHash, delivery: &mut Delivery) -> Result<(), &'static str> {
        if !matches!(delivery.extent, Extent::Stored) || !self.may_be_compressed(&delivery.obj) {
            return Err("the stored body isn't what goes out, or isn't whole");
        }
        if !is_readable(&self.ask.original, &self.resp.head) {
            return Err("a page of another origin may not read the response");
        }
        if self.engine().cluster.gate.is_restricted() {
            return Err("the cache is restricted");
        }
        let dictionary = self.find_dictionary(hash)?;
        let now = self.engine().mono_of(self.ask.t_req);
        match self.engine().cache.form(&delivery.obj, *hash, now) {
            Some(form) => {
                delivery.extent = Extent::Form(form);
                Ok(())
            }
            None => Err(self.make_form_against(&delivery.obj, dictionary)),
        }
    }

    /// True if nothing but the encoding of the whole body would change, and the stored encoding is known.
    fn may_be_compressed(&self, obj: &ObjRef) -> bool {
        let coding = Coding::of_content(self.resp.head.joined(names::CONTENT_ENCODING).as_deref());
        self.may_have_form(obj) && coding == Some(obj.flags().coding) && !self.ask.head.has(names::RANGE)
    }

    fn find_dictionary(&self, hash: &DictionaryHash) -> Result<Arc<Dictionary>, &'static str> {
        let host = self.ask.head.get(names::HOST).unwrap_or_default();
        let destination = self.ask.original.get("Sec-Fetch-Dest");
        let found = self.engine().cache.dictionary(hash, host, self.ask.original.url(), destination);
        found.map_err(|miss| miss.text())
    }

    /// Has the form made, and says what becomes of it.
    fn make_form_against(&self, obj: &ObjRef, dictionary: Arc<Dictionary>) -> &'static str {
        let (cache, hash) = (&self.engine().cache, dictionary.hash);
        if cache.is_form_refused(obj, hash) {
            return "no such form is smaller, or there is no room for one";
        }
        if cache.has_many_forms_against(obj) {
            return "the object has had too many such forms lately";
        }
        if self.ask.head.method() == b"GET"
            && let Some(right) = cache.wants_form_against(obj, hash)
        {
            self.engine().make_form_against(right, dictionary);
        }
        "the form is being made"
    }
}
