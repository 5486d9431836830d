// SPDX-License-Identifier: BSD-2-Clause
//! Compression dictionaries (RFC 9842) on the side of the backend: which responses become dictionaries, and those that the
//! backend has compressed against one itself.

use std::sync::Arc;

use cache::{Dictionary, DictionarySource, ObjRef};
use message::dictionary::{DictionaryRule, USE_AS_DICTIONARY, needs_dictionary, varies_by_dictionary};
use message::{Head, names};
use tables::no_hit::Uncacheable;
use tables::tags::Tag;

use super::Bereq;
use super::kind::FetchKind;
use crate::req::ReqAsk;

/// URL and Host of a request as they came from the client, where VCL has changed either.
pub(crate) struct ClientTarget {
    host: Box<[u8]>,
    url: Box<[u8]>,
}

impl ClientTarget {
    pub fn of(ask: &ReqAsk) -> Option<Box<Self>> {
        let host_of = |head: &Head| head.get(names::HOST).unwrap_or_default().into();
        let target = || ClientTarget { host: host_of(&ask.original), url: ask.original.url().into() };
        let is_same =
            ask.original.get(names::HOST) == ask.head.get(names::HOST) && ask.original.url() == ask.head.url();
        (!is_same).then(|| Box::new(target()))
    }
}

impl Bereq {
    /// The facts that make a dictionary of the object that was fetched, if it may be one. The log says why it may not.
    pub(super) fn dictionary_source(&mut self, obj: &ObjRef) -> Option<DictionarySource> {
        if !self.beresp.has(USE_AS_DICTIONARY) || !self.params.has_dictionaries() {
            return None;
        }
        match self.try_dictionary_source(obj) {
            Ok(source) => Some(source),
            Err(reason) => {
                self.engine.main.dictionary_refused.inc();
                self.log.putf(Tag::Notice, format_args!("lacquer: dictionary: not kept: {reason}"));
                None
            }
        }
    }

    fn try_dictionary_source(&self, obj: &ObjRef) -> Result<DictionarySource, &'static str> {
        let (flags, asked) = (obj.flags(), &self.ask.original);
        let is_whole = matches!(self.kind, FetchKind::Whole | FetchKind::Refresh(_));
        if !is_whole || self.fill.cacheability.is_uncacheable() || flags.is_private {
            return Err("the response isn't cached as a whole");
        }
        if !self.beresp.is_status(200) || self.ask.head.method() != b"GET" {
            return Err("it isn't a 200 to a GET");
        }
        if asked.has(names::AUTHORIZATION) || self.is_for_one_user() {
            return Err("the response may be for one user");
        }
        if flags.has_esi {
            return Err("clients get another body, by ESI");
        }
        if self.beresp_coding() != Some(flags.coding) {
            return Err("the content coding isn't decoded here");
        }
        let (host, url) = (asked.get(names::HOST).unwrap_or_default(), asked.url());
        let field = self.beresp.joined(USE_AS_DICTIONARY).unwrap_or_default();
        // The client resolves and compares it with the URL that it knows. Bans know what VCL has made of that.
        let (client_host, client_url) =
            self.ask.target.as_ref().map_or((host, url), |target| (&target.host, &target.url));
        let rule = DictionaryRule::parse(&field, client_host, client_url).map_err(|error| error.text())?;
        Ok(DictionarySource { rule, host: host.into(), url: url.into() })
    }

    /// `known`: the dictionary that the body is already, if it is that of the stale object.
    pub(super) fn learn_dictionary(&mut self, obj: ObjRef, source: DictionarySource, known: Option<Arc<Dictionary>>) {
        let (engine, refused) = (&self.engine, &self.engine.main.dictionary_refused);
        if let Some(known) = known {
            if engine.cache.keep_dictionary(&obj, &known, source).is_err() {
                refused.inc();
            }
        } else if let Some(reader) = engine.cache.begin_dictionary() {
            engine.learn_dictionary(obj, source, reader);
        } else {
            refused.inc();
            self.log.put(Tag::Notice, b"lacquer: dictionary: not kept: too many others are being read");
        }
    }

    fn is_for_one_user(&self) -> bool {
        let control = self.beresp.joined(names::CACHE_CONTROL).unwrap_or_default();
        ["private", "no-store"].iter().any(|directive| message::list::has(&control, directive.as_bytes()))
    }

    /// Doesn't cache a body that the backend has compressed against a dictionary, unless each client for whom it is would ask for
    /// the same one: Vary names both fields, and Accept-Encoding is compared as it came.
    pub(super) fn judge_dictionary_coding(&mut self) {
        let is_cached = !self.fill.cacheability.is_uncacheable() && self.beresp.has(names::CONTENT_ENCODING);
        if !is_cached || !self.params.has_dictionaries() {
            return;
        }
        let coding = self.beresp.joined(names::CONTENT_ENCODING).unwrap_or_default();
        if !needs_dictionary(&coding) {
            return;
        }
        let vary = self.beresp.joined(names::VARY).unwrap_or_default();
        if varies_by_dictionary(&vary) && self.params.supported_codings().is_empty() && !self.fill.rfc9111 {
            return;
        }
        self.log.put(Tag::Notice, b"lacquer: dictionary: a body that isn't for all clients, making this a pass");
        self.fill.cacheability.refuse();
        self.fill.cacheability.set_reason(Uncacheable::Dictionary.word().as_bytes());
    }
}
