// SPDX-License-Identifier: BSD-2-Clause
//! A synthetic response: to a client (`vcl_synth`), or instead of a backend's (`vcl_backend_error`).

use tables::proxy_error::ProxyError;
use tables::vclsubs::VclStatus;

use crate::classes::ClassRefusal;
use crate::proxy_status::ProxyCause;

/// A synthetic response. The request for it sets status and reason; then VCL writes the body.
#[derive(Debug, Default)]
pub(crate) struct SyntheticResponse {
    status: u16,
    reason: Option<Vec<u8>>,
    body: Vec<u8>,
    later: bool,
    refusal: Option<Box<ClassRefusal>>,
    cause: Option<Box<ProxyCause>>,
}

impl SyntheticResponse {
    pub fn ask(&mut self, VclStatus { status, reason }: VclStatus, was_forwarded: bool) {
        (self.status, self.reason) = (status, reason);
        self.cause = ProxyCause::of_vcl(status, was_forwarded).map(Box::new);
    }

    /// Sets the status for an error of the engine, which couldn't do what was asked for, and the error's details.
    pub fn ask_because(&mut self, status: u16, error: ProxyError, details: &'static str) {
        (self.status, self.reason) = (status, None);
        self.cause = Some(Box::new(ProxyCause::new(error, details)));
    }

    pub fn ask_in_words(&mut self, status: u16, reason: &str, error: ProxyError) {
        self.ask_because(status, error, "");
        self.reason = Some(reason.into());
    }

    pub fn ask_for_later(&mut self, status: u16, error: ProxyError, details: &'static str) {
        self.ask_because(status, error, details);
        self.later = true;
    }

    pub fn take_cause(&mut self) -> Option<Box<ProxyCause>> {
        self.cause.take()
    }

    /// Sets the response to a request for which its class has neither a worker nor a slot in the queue.
    pub fn ask_refusal(&mut self, refusal: ClassRefusal) {
        self.ask_because(503, ProxyError::HttpRequestDenied, "no worker of its class is free");
        self.refusal = Some(Box::new(refusal));
    }

    pub fn take_refusal(&mut self) -> Option<Box<ClassRefusal>> {
        self.refusal.take()
    }

    pub fn take_later(&mut self) -> bool {
        std::mem::take(&mut self.later)
    }

    pub fn write(&mut self, data: &[u8], append: bool) {
        if !append {
            self.body.clear();
        }
        self.body.extend_from_slice(data);
    }

    /// The status, 0 when nobody asked for one, and the reason; the body is empty again.
    pub fn begin(&mut self) -> (u16, Option<Vec<u8>>) {
        self.body.clear();
        (self.status, self.reason.take())
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
        made.ask(VclStatus { status: 404, reason: Some(b"No".to_vec()) }, false);
        made.write(b"left over", false);
        assert_eq!((made.begin(), made.take_body()), ((404, Some(b"No".to_vec())), Vec::new()));
        made.write(b"gone", false);
        made.write(b"a", false);
        made.write(b"b", true);
        assert_eq!(made.take_body(), b"ab");
    }
}
