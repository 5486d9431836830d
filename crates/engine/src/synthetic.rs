// SPDX-License-Identifier: BSD-2-Clause
//! A synthetic response: to a client (`vcl_synth`), or instead of a backend's (`vcl_backend_error`).

use tables::proxy_error::ProxyError;
use tables::vclsubs::VclStatus;

use crate::classes::ClassRefusal;
use crate::proxy_status::ProxyCause;

/// The reason for a synthetic response, from the step that decides so to the one that makes it.
#[derive(Debug, Default)]
pub(crate) struct SynthOrder {
    pub status: u16,
    pub reason: Option<Vec<u8>>,
    pub cause: Option<Box<ProxyCause>>,
    /// The client may try again soon.
    pub is_for_later: bool,
    /// The class of the request has neither a worker nor a slot in its queue.
    pub refusal: Option<Box<ClassRefusal>>,
}

impl SynthOrder {
    pub fn by_vcl(VclStatus { status, reason }: VclStatus, was_forwarded: bool) -> Self {
        let cause = ProxyCause::of_vcl(status, was_forwarded).map(Box::new);
        SynthOrder { status, reason, cause, ..SynthOrder::default() }
    }

    /// An error of the engine, which couldn't do what was asked for, with the error's details.
    pub fn because(status: u16, error: ProxyError, details: &'static str) -> Self {
        let cause = Some(Box::new(ProxyCause::new(error, details)));
        SynthOrder { status, cause, ..SynthOrder::default() }
    }

    pub fn in_words(status: u16, reason: &str, error: ProxyError) -> Self {
        SynthOrder { reason: Some(reason.into()), ..Self::because(status, error, "") }
    }

    pub fn for_later(status: u16, error: ProxyError, details: &'static str) -> Self {
        SynthOrder { is_for_later: true, ..Self::because(status, error, details) }
    }

    pub fn of_refusal(refusal: ClassRefusal) -> Self {
        let order = Self::because(503, ProxyError::HttpRequestDenied, "no worker of its class is free");
        SynthOrder { refusal: Some(Box::new(refusal)), ..order }
    }
}

/// Writes a body as VCL does: `append` for `+=`.
pub(crate) fn write(body: &mut Vec<u8>, data: &[u8], append: bool) {
    if !append {
        body.clear();
    }
    body.extend_from_slice(data);
}

/// The response instead of a backend's. The request for it sets status and reason; then VCL writes the body.
#[derive(Debug, Default)]
pub(crate) struct SyntheticResponse {
    order: SynthOrder,
    body: Vec<u8>,
}

impl SyntheticResponse {
    pub fn ask(&mut self, order: SynthOrder) {
        self.order = order;
    }

    pub fn take_cause(&mut self) -> Option<Box<ProxyCause>> {
        self.order.cause.take()
    }

    pub fn write(&mut self, data: &[u8], append: bool) {
        write(&mut self.body, data, append);
    }

    /// The status, 0 when nobody asked for one, and the reason; the body is empty again.
    pub fn begin(&mut self) -> (u16, Option<Vec<u8>>) {
        self.body.clear();
        (self.order.status, self.order.reason.take())
    }

    pub fn take_body(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_begins_with_an_empty_body() {
        let mut made = SyntheticResponse::default();
        assert_eq!(made.begin(), (0, None));
        made.ask(SynthOrder::by_vcl(VclStatus { status: 404, reason: Some(b"No".to_vec()) }, false));
        made.write(b"left over", false);
        assert_eq!((made.begin(), made.take_body()), ((404, Some(b"No".to_vec())), Vec::new()));
        made.write(b"gone", false);
        made.write(b"a", false);
        made.write(b"b", true);
        assert_eq!(made.take_body(), b"ab");
    }
}
