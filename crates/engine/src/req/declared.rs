// SPDX-License-Identifier: BSD-2-Clause
//! What parameters take out of a request before VCL sees it: arguments of its query, cookies. Without them nothing is looked at.

use message::{cookies, names, query};

use super::Req;
use super::class::COOKIE_PREFIX;
use crate::httplog::REQ;

const PLACE_COOKIES: &str = "lacquer-place-*";

impl Req {
    fn has_place_cookie(&self) -> bool {
        let mut values = self.ask.head.get_all(names::COOKIE.as_bytes());
        values.any(|value| value.windows(COOKIE_PREFIX.len()).any(|part| part == COOKIE_PREFIX.as_bytes()))
    }

    /// Applies `query_keep`, `query_drop`, `cookie_keep` and `cookie_drop`.
    pub(super) fn take_out_declared(&mut self) {
        let has_arguments = !(self.params.query_drop.is_empty() && self.params.query_keep.is_empty());
        if has_arguments {
            let params = self.params.clone();
            self.take_out_arguments(&params.query_keep, &params.query_drop);
        }
        if self.engine().requests.classes.is_on() && self.has_place_cookie() {
            self.take_out_cookies("", PLACE_COOKIES);
        }
        let has_cookies = !(self.params.cookie_drop.is_empty() && self.params.cookie_keep.is_empty());
        if has_cookies {
            let params = self.params.clone();
            self.take_out_cookies(&params.cookie_keep, &params.cookie_drop);
        }
    }

    fn take_out_arguments(&mut self, keep: &str, drop: &str) {
        let Some(url) = query::filtered(self.ask.head.url(), keep, drop) else { return };
        if self.ask.head.set_url(&url).is_err() {
            self.log.count_lost();
        }
        self.log.put(REQ.url, self.ask.head.url());
    }

    fn take_out_cookies(&mut self, keep: &str, drop: &str) {
        let Some(value) = self.ask.head.get(names::COOKIE) else { return };
        let Some(value) = cookies::filtered(value, keep, drop) else { return };
        REQ.unset(&mut self.ask.head, &mut self.log, names::COOKIE);
        if !value.is_empty() {
            self.set_req(names::COOKIE, &[&value]);
        }
    }
}
