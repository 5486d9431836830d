// SPDX-License-Identifier: BSD-2-Clause
//! The response's head from an object: `vcl_deliver`, conditional answers.

use cache::ObjRef;
use message::digest::CONTENT_DIGEST;
use message::{conditional, names};
use shm::vsl::num::dec;
use tables::Compat;
use tables::proxy_error::ProxyError;
use tables::tags::Tag;
use tables::vclsubs::DeliverAction;

use super::ctx::Lent;
use super::delivery::{Answer, Delivery, Extent};
use super::verdict::FoundKind;
use super::{Req, ReqStep};
use crate::httplog::RESP;
use crate::parts::StoredParts;
use crate::slices::SliceSet;
use crate::synthetic::SynthOrder;
use crate::transport::Transport;

impl Req {
    pub(super) async fn deliver(&mut self, mut delivery: Delivery, transport: &mut dyn Transport) -> ReqStep {
        if let Some(parts) = StoredParts::of(&delivery.obj) {
            if self.wants_more(&parts, &delivery.obj) {
                return self.look_again_for_parts();
            }
            delivery.extent = Extent::Parts(Box::new(parts));
        } else if let Some(set) = SliceSet::of(&delivery.obj)
            // Boxed: the many that have no slices shan't have a larger future.
            && let Err(step) = Box::pin(self.begin_slices(set, &mut delivery, transport)).await
        {
            return step;
        }
        if self.start_deliver(&delivery).is_err() {
            return ReqStep::Synth(SynthOrder::because(500, ProxyError::ProxyInternalError, "no room for the head"));
        }
        if self.is_special() {
            if self.is_of_peer() {
                return self.deliver_to_peer(delivery);
            }
            if self.settings.rfc9111 {
                self.deliver_by_rfc9111(&delivery.obj, transport).await;
            }
        }
        self.resp.time.set(None);
        let action: DeliverAction = self.run_vcl_with(Lent::Delivered(&delivery.obj), transport).await;
        self.mark("Process");
        match action {
            DeliverAction::Deliver => {}
            DeliverAction::Synth(status) => return ReqStep::Synth(SynthOrder::by_vcl(status, true)),
            DeliverAction::Restart => return ReqStep::Restart,
            DeliverAction::Fail => return ReqStep::VclFail,
        }
        if !self.esi.is_fragment() && self.is_not_modified(&delivery.obj) {
            self.turn_to_not_modified();
            if self.settings.rfc9111 {
                // Of what it doesn't bring it tells only what caches need (RFC 9110 15.4.5).
                for name in [names::CONTENT_TYPE, names::CONTENT_ENCODING, names::CONTENT_LANGUAGE] {
                    RESP.unset(&mut self.resp.head, &mut self.log, name);
                }
            }
        }
        ReqStep::Transmit(Answer::Object(delivery))
    }

    pub(super) fn is_not_modified(&self, obj: &ObjRef) -> bool {
        let date = || match self.settings.rfc9111.then(|| self.resp.head.get(names::DATE)).flatten() {
            // RFC 9111 4.3.2. varnishd compares with the time at which the response came.
            Some(date) => message::date::parse(date),
            None => Some(self.engine().real_of(obj.times().t_origin)),
        };
        conditional::is_not_modified(&self.ask.head, &self.resp.head, self.ask.t_req, date)
    }

    pub(super) fn turn_to_not_modified(&mut self) {
        if self.resp.head.set_status(304).is_err() {
            self.log.count_lost();
        }
        RESP.log_status(&self.resp.head, &mut self.log);
        // The digest is one of the body, which isn't sent.
        RESP.unset(&mut self.resp.head, &mut self.log, CONTENT_DIGEST);
    }

    /// The stored head and the fields that each delivery adds.
    fn start_deliver(&mut self, delivery: &Delivery) -> Result<(), message::head::BadStored> {
        let obj = &delivery.obj;
        self.resp.head.load_from(obj.head())?;
        RESP.log_response(&self.resp.head, &mut self.log);
        if self.resp.head.proto() != b"HTTP/1.1" {
            if self.resp.head.set_proto("HTTP/1.1").is_err() {
                self.log.count_lost();
            }
            self.log.put(Tag::RespProtocol, self.resp.head.proto());
        }
        let own = dec(self.log.vxid().log_id());
        if self.verdict.found() == FoundKind::Hit {
            let other = dec(obj.xid().log_id());
            self.set_resp(names::X_VARNISH, &[own.as_bytes(), b" ", other.as_bytes()]);
        } else {
            self.set_resp(names::X_VARNISH, &[own.as_bytes()]);
        }
        let t_origin = obj.times().t_origin;
        let age = self.engine().mono_of(self.log.last()).since(t_origin).max(0.0).floor();
        self.set_resp(names::AGE, &[dec(age as u64).as_bytes()]);
        self.set_via();
        self.announce_h3();
        self.tell_timing();
        if let Some(status) = self.cache_status(delivery) {
            self.set_resp("Cache-Status", &[status.as_bytes()]);
        }
        if self.may_get_another_form(obj) {
            self.weaken_resp_etag();
        }
        // Pages that are put together aren't cut, though Varnish says so.
        let may_be_cut = !(self.settings.rfc9111 && obj.flags().has_esi);
        let can_range = self.params.http_range_support && self.resp.head.is_status(200) && may_be_cut;
        if can_range
            && !obj.flags().is_private
            && RESP.force(&mut self.resp.head, &mut self.log, names::ACCEPT_RANGES, b"bytes").is_err()
        {
            self.log.count_lost();
        }
        Ok(())
    }

    /// Up to 7.1 our Via takes the place of the origin's; later it follows it.
    fn set_via(&mut self) {
        let via = self.client.sess.engine.requests.via.as_bytes();
        let set = match self.params.compat() {
            Compat::V7_1 => RESP.append(&mut self.resp.head, &mut self.log, names::VIA, &[via]),
            Compat::V9 => RESP.extend(&mut self.resp.head, &mut self.log, names::VIA, via),
        };
        if set.is_err() {
            self.log.count_lost();
        }
    }

    /// Tells a client that HTTP/3 is spoken here (RFC 7838 3, RFC 9114 3.1.1).
    pub(super) fn announce_h3(&mut self) {
        let Some(port) = self.client.sess.listener.h3_port else { return };
        let seconds = self.params.h3_alt_svc.as_secs();
        if seconds > 0 && !self.esi.is_fragment() && !self.resp.head.has("Alt-Svc") {
            let (port, seconds) = (dec(port.into()), dec(seconds));
            self.set_resp("Alt-Svc", &[b"h3=\":", port.as_bytes(), b"\"; ma=", seconds.as_bytes()]);
        }
    }

    /// The bytes that go out aren't those that the ETag stands for.
    pub(super) fn weaken_resp_etag(&mut self) {
        let Some(old) = self.resp.head.get(names::ETAG).map(<[u8]>::to_vec) else { return };
        if old.starts_with(b"W/") {
            return;
        }
        RESP.unset(&mut self.resp.head, &mut self.log, names::ETAG);
        self.set_resp(names::ETAG, &[b"W/", &old]);
    }
}
