// SPDX-License-Identifier: BSD-2-Clause
//! An answer that is made here: to a client (`vcl_synth`), or in the place of a backend's (`vcl_backend_error`).

use tables::proxy_error::ProxyError;

use crate::classes::Refusal;
use crate::proxy_status::Cause;

/// What asks for it says status and reason; then VCL writes the body.
#[derive(Debug, Default)]
pub(crate) struct SyntheticResponse {
    status: u16,
    reason: Option<Vec<u8>>,
    body: Vec<u8>,
    later: bool,
    refusal: Option<Box<Refusal>>,
    cause: Option<Box<Cause>>,
}

impl SyntheticResponse {
    /// It is to have that status, which VCL has chosen.
    pub fn ask(&mut self, status: u16, reason: Option<Vec<u8>>, was_forwarded: bool) {
        (self.status, self.reason) = (status, reason);
        self.cause = Cause::of_vcl(status, was_forwarded).map(Box::new);
    }

    /// It is to have that status, as the engine can't do what was asked for: why.
    pub fn ask_because(&mut self, status: u16, error: ProxyError, details: &'static str) {
        (self.status, self.reason) = (status, None);
        self.cause = Some(Box::new(Cause::new(error, details)));
    }

    /// As [`SyntheticResponse::ask_because`], with a reason phrase.
    pub fn ask_in_words(&mut self, status: u16, reason: &str, error: ProxyError) {
        self.ask_because(status, error, "");
        self.reason = Some(reason.into());
    }

    /// It is to have that status, and to say that the same request may do better later.
    pub fn ask_for_later(&mut self, status: u16, error: ProxyError, details: &'static str) {
        self.ask_because(status, error, details);
        self.later = true;
    }

    /// Why it is made.
    pub fn take_cause(&mut self) -> Option<Box<Cause>> {
        self.cause.take()
    }

    /// A class has no worker and no chair for the request.
    pub fn ask_refusal(&mut self, refusal: Refusal) {
        self.ask_because(503, ProxyError::HttpRequestDenied, "no worker of its class is free");
        self.refusal = Some(Box::new(refusal));
    }

    /// What such an answer says.
    pub fn take_refusal(&mut self) -> Option<Box<Refusal>> {
        self.refusal.take()
    }

    /// Whether it says so.
    pub fn take_later(&mut self) -> bool {
        std::mem::take(&mut self.later)
    }

    /// VCL writes the body, or more of it.
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
        made.ask(404, Some(b"No".to_vec()), false);
        made.write(b"left over", false);
        assert_eq!((made.begin(), made.take_body()), ((404, Some(b"No".to_vec())), Vec::new()));
        made.write(b"gone", false);
        made.write(b"a", false);
        made.write(b"b", true);
        assert_eq!(made.take_body(), b"ab");
    }
}
