// SPDX-License-Identifier: BSD-2-Clause
//! The request comes in: what the engine decides before VCL, `vcl_recv`, `vcl_hash`.

use std::future::poll_fn;

use http1::Expect;
use message::forwarded::{self, FORWARDED};
use message::{HttpVersion, hop, names};
use params::FeatureBit;
use tables::close::SessClose;
use tables::no_hit::NoHit;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::{HashAction, RecvAction};
use vrt::questions;

use super::reason::NoHitReason;
use super::settings::ReqSettings;
use super::verdict::ReqVerdict;
use super::{Req, ReqStep};
use crate::httplog::REQ;
use crate::reqbody::ReqBody;
use crate::synthetic::SynthOrder;
use crate::trace;
use crate::transport::{BodyState, ReqBodyError, Transport};

impl Req {
    /// Expect, Connection and the body, before the first step. An error is answered already.
    pub(super) fn accept(&mut self, transport: &mut dyn Transport) -> Result<(), ()> {
        match http1::expect(&self.ask.head) {
            Expect::Nothing => {}
            Expect::Continue => {
                if self.ask.head.version() >= HttpVersion::HTTP11 && !transport.has_input() {
                    self.client.body.expect_continue();
                }
                REQ.unset(&mut self.ask.head, &mut self.log, names::EXPECT);
            }
            Expect::Unknown => {
                self.client.close = Some(SessClose::RxJunk);
                self.minimal(transport, 417, ProxyError::HttpRequestError);
                self.engine().main.client_req_417.inc();
                return Err(());
            }
        }
        if self.ask.head.has(questions::DEPTH) && questions::depth_of(&self.ask.head).is_none() {
            REQ.unset(&mut self.ask.head, &mut self.log, questions::DEPTH);
        }
        // A HEAD that gets here has none.
        let body = if self.ask.head.method() == b"HEAD" { ReqBody::none() } else { ReqBody::for_request(transport) };
        self.client.body.begin(body);
        self.client.close = match transport.connection(&mut self.ask.head) {
            Ok(close) => close,
            Err(close) => {
                self.client.close = Some(close);
                self.minimal(transport, 400, ProxyError::HttpRequestError);
                self.engine().main.client_req_400.inc();
                return Err(());
            }
        };
        self.ask.original.copy_from(&self.ask.head);
        Ok(())
    }

    /// True if the request is a HEAD that may have a body. HTTP/1 refuses those with the head; over a stream the end
    /// may come later.
    pub(super) fn has_doubtful_body(&self, transport: &dyn Transport) -> bool {
        self.ask.head.method() == b"HEAD" && transport.body_state() == BodyState::Unread
    }

    /// Answers 400, before VCL, to a HEAD with a body (RFC 9110 9.3.2: an origin might take that for another request). Whether it was.
    pub(super) async fn refuse_body_of_head(&mut self, transport: &mut dyn Transport) -> bool {
        let is_empty = match transport.body_len() {
            Some(len) => len == 0,
            // The client would wait for us to ask for it.
            None if self.ask.head.has(names::EXPECT) => false,
            None => loop {
                match poll_fn(|cx| transport.poll_body(cx)).await {
                    Ok(Some(piece)) if piece.is_empty() => {}
                    Ok(piece) => break piece.is_none(),
                    Err(_) => break false,
                }
            },
        };
        if !is_empty {
            self.client.close = Some(SessClose::RxJunk);
            self.refuse_head(transport, 400, "HEAD with a body");
        }
        !is_empty
    }

    /// Answers 400, before VCL, to a request whose body is broken already.
    pub fn refuse_upload(&mut self, transport: &mut dyn Transport, reason: &str) {
        self.log_arrival();
        self.log.put(Tag::FetchError, reason.as_bytes());
        self.engine().main.client_req_400.inc();
        self.client.close = Some(SessClose::RxBody);
        self.minimal(transport, 400, ProxyError::HttpRequestError);
    }

    /// Answers `status`, before VCL, to a request whose head was taken and has no meaning here: `reason` says what is bogus.
    pub fn refuse_head(&mut self, transport: &mut dyn Transport, status: u16, reason: &str) {
        let main = self.engine().main;
        main.client_req.tally();
        main.client_req_400.add(u64::from(status == 400));
        self.log_arrival();
        self.log.put(Tag::BogoHeader, reason.as_bytes());
        self.minimal(transport, status, ProxyError::HttpRequestError);
    }

    fn log_arrival(&mut self) {
        self.log_start();
        REQ.log_request(&self.ask.head, &mut self.log);
    }

    /// Logs a client whose request is refused before its head is known. Releases up to 7.2 don't.
    pub fn log_refused_start(&mut self) {
        if self.params.compat().is_9() {
            self.log_start();
        }
    }

    fn log_start(&mut self) {
        let client = self.client.sess.ends.client_text();
        // A fourth word as release 9 has it; without TLS the record is 7.1's.
        let scheme: &[u8] = if self.client.sess.tls.get().is_some() { b" https" } else { b"" };
        self.log.put_parts(Tag::ReqStart, &[client.ip_port(), b" ", self.client.sess.listener.name.as_bytes(), scheme]);
    }

    pub(super) async fn recv(&mut self, transport: &mut dyn Transport) -> ReqStep {
        self.log_arrival();
        self.join_cookies();
        self.remove_nominated();
        if let Some(body) = self.challenge_answer() {
            return self.answer_challenge(body, transport).await;
        }
        if self.is_misdirected() {
            return self.refuse_misdirected(transport).await;
        }
        if self.is_special() && self.is_for_hot_list() {
            // Boxed: it is rare.
            return Box::pin(self.answer_hot_list(transport)).await;
        }
        self.prepare();
        let mut action: RecvAction = self.run_vcl(transport).await;
        if let RecvAction::Vcl(label) = &action
            && self.ask.restarts == 0
        {
            action = match self.select_vcl(label) {
                Ok(()) => {
                    self.prepare();
                    self.run_vcl(transport).await
                }
                Err(()) => RecvAction::Fail,
            };
        }
        if action == RecvAction::Fail {
            return ReqStep::VclFail;
        }
        if let Some(failure) = self.client.body.failure() {
            self.client.close = Some(SessClose::RxBody);
            if failure == ReqBodyError::Incremental {
                let details = "std.cache_req_body needs the whole body";
                return ReqStep::Synth(SynthOrder::because(501, ProxyError::IncrementalRefused, details));
            }
            if !goes_without_body(&action) {
                return ReqStep::Done;
            }
        } else if self.client.body.take_unless_late() {
            transport.send_continue(&mut self.log);
        }
        self.normalise_encoding(&action);
        let hashed = match self.is_keyed_by_body() && action == RecvAction::Hash {
            // Boxed: it is rare.
            true => Box::pin(self.hash_with_body(&mut action, transport)).await,
            false => self.hash(&action, transport).await,
        };
        if let Err(step) = hashed {
            return step;
        }
        // After VCL: a node of a cluster may recognise its own request and answer it.
        let may_fetch = matches!(action, RecvAction::Hash | RecvAction::Pass | RecvAction::Pipe);
        if may_fetch && self.has_come_back(action == RecvAction::Hash) {
            return self.refuse_loop(transport).await;
        }
        self.ask.upload = if may_fetch { self.find_upload() } else { None };
        match action {
            RecvAction::Hash | RecvAction::Pass if transport.asks_tunnel() => {
                self.log.put(Tag::VclError, b"vcl_recv{} doesn't return pipe for an extended CONNECT.  Doing synth.");
                ReqStep::Synth(SynthOrder::because(501, ProxyError::HttpUpgradeFailed, "VCL makes no pipe of it"))
            }
            RecvAction::Purge => ReqStep::Purge,
            RecvAction::Hash if self.ask.upload.is_some() => {
                self.verdict = ReqVerdict::no_hit(NoHitReason::new(NoHit::PassUpload, ""));
                ReqStep::Pass
            }
            RecvAction::Hash => ReqStep::Lookup,
            RecvAction::Pipe if self.esi.is_fragment() => {
                self.log.put(Tag::VclError, b"vcl_recv{} returns pipe for ESI included object.  Doing pass.");
                ReqStep::Pass
            }
            RecvAction::Pipe if self.ask.original.version() > HttpVersion::HTTP11 && !transport.asks_tunnel() => {
                self.log.put(Tag::VclError, b"vcl_recv{} returns pipe for HTTP/2 request.  Doing pass.");
                ReqStep::Pass
            }
            // A pipe sends only what comes from now on.
            RecvAction::Pipe if self.client.body.waiting_bytes() > 0 => {
                let reason = "a part of the request's body was read";
                self.log.putf(Tag::VclError, format_args!("vcl_recv{{}} returns pipe after {reason}.  Doing pass."));
                ReqStep::Pass
            }
            RecvAction::Pipe => ReqStep::Pipe,
            RecvAction::Vcl(_) => {
                let reason = if self.ask.restarts > 0 { "Not after restarts" } else { "Only from active VCL" };
                self.log.putf(Tag::VclError, format_args!("Illegal return(vcl): {reason}"));
                ReqStep::Synth(SynthOrder::because(503, ProxyError::ProxyConfigurationError, "illegal return (vcl)"))
            }
            RecvAction::Pass => ReqStep::Pass,
            RecvAction::Synth(status) => self.synth_by_vcl(status),
            RecvAction::Restart => ReqStep::Restart,
            RecvAction::Fail => ReqStep::VclFail,
        }
    }

    /// Sets the state in which each pass through `vcl_recv` begins. A restart keeps VCL's settings.
    fn prepare(&mut self) {
        if self.params.traceparent {
            let ratio = Some(self.params.traceparent_ratio);
            let vxid = self.log.vxid();
            if !trace::put(&mut self.ask.head, &mut self.log, &REQ, vxid, ratio) {
                self.log.count_lost();
            }
        }
        if self.ask.restarts > 0 {
            return;
        }
        self.forwarded_for();
        if self.params.forwarded {
            self.add_forwarded();
        }
        self.name_hop();
        if self.params.x_forwarded_proto {
            let scheme: &[u8] = if self.client.sess.came_by_tls() { b"https" } else { b"http" };
            REQ.unset(&mut self.ask.head, &mut self.log, names::X_FORWARDED_PROTO);
            self.set_req(names::X_FORWARDED_PROTO, &[scheme]);
        }
        if self.ask.head.collect(names::CACHE_CONTROL).is_err() {
            self.log.count_lost();
        }
        self.take_out_declared();
        let rfc9111 = self.params.feature.has(FeatureBit::Rfc9111);
        self.settings = ReqSettings { rfc9111, ..ReqSettings::default() };
    }

    /// Removes the fields that Connection nominates: VCL mustn't decide by a field that the origin doesn't get.
    fn remove_nominated(&mut self) {
        REQ.unset_nominated(&mut self.ask.head, &mut self.log);
        hop::remove_nominated(&mut self.ask.original, |_| {});
    }

    /// Joins the lines of Cookie, which the log has as they came: VCL sees one view of cookies, whatever the client speaks. Streams have
    /// theirs joined already (RFC 9113 8.2.3).
    fn join_cookies(&mut self) {
        let joined = self.ask.head.collect_with(names::COOKIE, b"; ");
        let is_whole = match joined {
            Ok(false) => true,
            Ok(true) => self.ask.original.collect_with(names::COOKIE, b"; ").is_ok(),
            Err(_) => false,
        };
        if !is_whole {
            self.log.count_lost();
        }
    }

    fn forwarded_for(&mut self) {
        let client = self.client.sess.ends.client_text();
        if REQ.extend(&mut self.ask.head, &mut self.log, names::X_FORWARDED_FOR, client.ip()).is_err() {
            self.log.count_lost();
        }
    }

    /// Adds this server's element of Forwarded (RFC 7239) to those that came. Behind an open quote it would be a part of the client's word.
    fn add_forwarded(&mut self) {
        if self.ask.head.joined(FORWARDED).is_some_and(|came| !forwarded::is_list(&came)) {
            self.log.put(Tag::Notice, b"lacquer: Forwarded dropped: not a list of elements (RFC 7239)");
            REQ.unset(&mut self.ask.head, &mut self.log, FORWARDED);
        }
        let ends = &self.client.sess.ends;
        let client = ends.client_text();
        let client = matches!(ends.client(), net::Address::Inet(_)).then(|| client.ip());
        let scheme = if self.client.sess.came_by_tls() { "https" } else { "http" };
        let element = forwarded::element(client, self.ask.head.get(names::HOST), scheme);
        if REQ.extend(&mut self.ask.head, &mut self.log, FORWARDED, &element).is_err() {
            self.log.count_lost();
        }
    }

    /// Names this server among those that the request went through. Up to 7.1 only responses do.
    fn name_hop(&mut self) {
        let via = &self.client.sess.engine.requests.via;
        if self.params.compat().is_9()
            && REQ.extend(&mut self.ask.head, &mut self.log, names::VIA, via.as_bytes()).is_err()
        {
            self.log.count_lost();
        }
    }

    /// Goes over to the VCL of a label, with the head as it came.
    fn select_vcl(&mut self, label: &str) -> Result<(), ()> {
        let Some(vcl) = self.engine().vcls.labelled(label) else {
            self.log.putf(Tag::VclError, format_args!("No VCL labelled {label}"));
            return Err(());
        };
        self.rollback();
        self.log.putf(Tag::VclUse, format_args!("{} via {label}", vcl.name));
        self.vcl.select(vcl);
        Ok(())
    }

    /// Accept-Encoding becomes what the client takes of what is made here, or nothing.
    fn normalise_encoding(&mut self, action: &RecvAction) {
        self.note_dictionary(action);
        let supported = self.params.supported_codings();
        if supported.is_empty() || matches!(action, RecvAction::Pipe | RecvAction::Pass) {
            return;
        }
        let kept = if let Some(codings) = supported.liked_by(&self.ask.head).text() {
            REQ.force(&mut self.ask.head, &mut self.log, names::ACCEPT_ENCODING, &codings)
        } else {
            REQ.unset(&mut self.ask.head, &mut self.log, names::ACCEPT_ENCODING);
            Ok(())
        };
        if kept.is_err() {
            self.log.count_lost();
        }
    }

    /// `Err` is the step to go to instead of what `vcl_recv` wants.
    pub(super) async fn hash(&mut self, wanted: &RecvAction, transport: &mut dyn Transport) -> Result<(), ReqStep> {
        let action = self.run_vcl(transport).await;
        self.ask.digest = self.ask.hasher.finish();
        self.ask.alias = None;
        match action {
            HashAction::Lookup => {}
            HashAction::Fail => return Err(ReqStep::VclFail),
        }
        if !self.is_special() {
            return Ok(());
        }
        if self.settings.rfc9111 && !(self.is_keyed_by_body() && *wanted == RecvAction::Hash) {
            self.hash_alias(transport).await?;
        }
        if *wanted == RecvAction::Hash && self.is_of_peer() {
            return Box::pin(self.take_in_peer(transport)).await.map_or(Ok(()), Err);
        }
        Ok(())
    }
}

/// True if VCL's verdict holds for a request whose body `std.cache_req_body` couldn't have. VCL may answer by itself or
/// begin anew; a lookup or a backend would lack the body that VCL hashes and judges by.
fn goes_without_body(action: &RecvAction) -> bool {
    matches!(action, RecvAction::Synth(_) | RecvAction::Restart | RecvAction::Vcl(_))
}
