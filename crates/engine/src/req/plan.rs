// SPDX-License-Identifier: BSD-2-Clause
//! The plan of a delivery: which form of the body goes out, through which filters, and which range of it.

use cache::ObjRef;
use filters::{Chain, DeliverInput, DeliverOpened, Edit, FilterList, RangeVerdict, open_deliver};
use message::{Coding, digest, names};
use tables::tags::Tag;

use super::Req;
use super::delivery::{Answer, plain_bytes};
use super::transmit::Window;
use crate::httplog::{RESP, log_processors};

pub(super) struct Plan {
    pub chain: Chain,
    pub do_esi: bool,
    pub len: Option<u64>,
    pub window: Window,
}

impl Req {
    /// Decides how the answer is sent, and changes its head accordingly. `clen` is the length that the head has so far.
    ///
    /// # Errors
    /// There is no such filter. That is logged.
    pub(super) fn plan(&mut self, answer: &mut Answer, clen: Option<u64>) -> Result<Plan, ()> {
        let list = self.filter_facts().list(answer.obj());
        // varnishd logs these filters; a form is the body that they would make.
        self.log.put(Tag::Filters, list.as_bytes());
        let is_form = self.take_form_against(answer) || self.take_form(answer);
        let list = if is_form { self.filter_facts().list_for_form() } else { list };
        log_processors(&mut self.log, &self.params, "VDP_push", list.as_bytes());
        if let Some(form) = answer.delivery().and_then(|delivery| delivery.form()) {
            self.name_form(form.coding());
        }
        let stored = answer.body_bytes(clen);
        if list.is_empty() {
            return Ok(Plan { chain: Chain::new(), do_esi: false, len: stored, window: Window::All });
        }
        let coding = Coding::of_content(self.resp.head.joined(names::CONTENT_ENCODING).as_deref());
        // Before a range is judged, as each filter changes the head when its turn comes.
        if list.undoes_coding() {
            RESP.unset(&mut self.resp.head, &mut self.log, names::CONTENT_ENCODING);
        }
        let (opened, window) = self.open_filters(&list, answer.obj(), stored, coding)?;
        for (name, reason) in &opened.left_out {
            self.log.putf(Tag::VclError, format_args!("{name} leaves the body as it is: {reason}"));
        }
        for edit in &opened.edits {
            match edit {
                Edit::Unset(name) => RESP.unset(&mut self.resp.head, &mut self.log, name),
                Edit::OtherBody => self.drop_digests(),
                Edit::WeakenEtag => self.weaken_resp_etag(),
                Edit::SetCoding(_) | Edit::VaryAcceptEncoding => {}
            }
        }
        let only_range = !matches!(window, Window::All) && opened.chain.len() == 1 && !opened.do_esi;
        let (chain, window) = if only_range { (Chain::new(), window) } else { (opened.chain, Window::All) };
        Ok(Plan { chain, do_esi: opened.do_esi, len: opened.body_bytes, window })
    }

    /// The body is another one than the stored, which digests tell of (RFC 9530).
    pub(super) fn drop_digests(&mut self) {
        for name in digest::OF_A_BODY {
            RESP.unset(&mut self.resp.head, &mut self.log, name);
        }
    }

    /// Opens the filters, one of which may judge the client's range.
    fn open_filters(
        &mut self,
        list: &FilterList,
        obj: Option<&ObjRef>,
        stored: Option<u64>,
        coding: Option<Coding>,
    ) -> Result<(DeliverOpened, Window), ()> {
        let mut window = Window::All;
        let mut injected = std::mem::take(self.resp.filters.injected());
        let input = DeliverInput {
            body_bytes: stored,
            plain_bytes: obj.and_then(plain_bytes),
            has_esi: obj.is_some_and(|obj| obj.flags().has_esi),
            status: self.resp.head.status(),
            coding,
            range: &mut |len| {
                let verdict = self.judge_range(obj, len);
                match &verdict {
                    RangeVerdict::Part(low, high) => window = Window::Part(*low, *high),
                    RangeVerdict::UpTo(low, high) => window = Window::UpTo(*low, *high),
                    RangeVerdict::Parts(parts) => window = Window::Parts(Box::new(parts.clone())),
                    RangeVerdict::Whole | RangeVerdict::Unsatisfiable => {}
                }
                verdict
            },
        };
        match open_deliver(list, input, &mut injected) {
            Ok(opened) => Ok((opened, window)),
            Err(error) => {
                self.log.putf(Tag::Error, format_args!("{error}"));
                Err(())
            }
        }
    }
}
