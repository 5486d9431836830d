// SPDX-License-Identifier: BSD-2-Clause
//! The request's body and the client's wish to be told before it sends one (`Expect: 100-continue`, RFC 9110 10.1.1).
//!
//! ```text
//! Nothing                                  no Expect, or the client was told
//! Expected { late } --somebody reads--> Due --the next wait--> Nothing
//!      \--told at once, passed on to a backend, or the connection ends--/
//! ```

use std::ops::Deref;

use crate::reqbody::ReqBody;

/// A request's body as its own side has it. What the fetch may do with it as well is [`ReqBody`].
pub struct Upload {
    body: ReqBody,
    expect: Expect,
    /// VCL waits until all of it is kept.
    is_kept_for_vcl: bool,
}

/// The client's expectation before it sends the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    Nothing,
    /// A 100; `late` when VCL wants it to be sent only once somebody reads the body.
    Expected {
        late: bool,
    },
    /// A 100 that is to be sent with the next wait, for somebody reads the body now.
    Due,
}

impl Upload {
    pub(crate) fn none() -> Self {
        Upload { body: ReqBody::none(), expect: Expect::Nothing, is_kept_for_vcl: false }
    }

    pub(crate) fn begin(&mut self, body: ReqBody) {
        self.body = body;
    }

    pub(crate) fn expect_continue(&mut self) {
        self.expect = Expect::Expected { late: false };
    }

    /// True if the client waits for a 100 that nobody has asked for yet.
    pub fn is_expected(&self) -> bool {
        matches!(self.expect, Expect::Expected { .. })
    }

    /// Implements `std.late_100_continue()`.
    pub(crate) fn set_late(&mut self, is_late: bool) {
        if let Expect::Expected { late } = &mut self.expect {
            *late = is_late;
        }
    }

    /// `vcl_recv` is over: whether a 100 is to be sent now.
    pub(crate) fn take_unless_late(&mut self) -> bool {
        let is_due = self.expect == (Expect::Expected { late: false });
        if is_due {
            self.expect = Expect::Nothing;
        }
        is_due
    }

    /// Takes the client's expectation of a 100, which the caller fulfils.
    pub(crate) fn take_expected(&mut self) -> bool {
        let is_expected = self.is_expected();
        if is_expected {
            self.expect = Expect::Nothing;
        }
        is_expected
    }

    /// True if a 100 is to be sent before the request waits.
    pub(crate) fn take_due(&mut self) -> bool {
        let is_due = self.expect == Expect::Due;
        if is_due {
            self.expect = Expect::Nothing;
        }
        is_due
    }

    pub(crate) fn lend(&mut self) -> ReqBody {
        self.reads_now();
        self.body.lend();
        self.body.clone()
    }

    /// VCL has begun to keep the body, and waits for its end.
    pub(crate) fn keep_for_vcl(&mut self) {
        self.reads_now();
        self.is_kept_for_vcl = true;
    }

    /// True if VCL waited for the body, and that wait is over.
    pub(crate) fn take_kept_for_vcl(&mut self) -> bool {
        std::mem::take(&mut self.is_kept_for_vcl)
    }

    pub(crate) fn reads_now(&mut self) {
        if self.is_expected() {
            self.expect = Expect::Due;
        }
    }
}

impl Deref for Upload {
    type Target = ReqBody;

    fn deref(&self) -> &ReqBody {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expecting() -> Upload {
        let mut upload = Upload::none();
        upload.expect_continue();
        upload
    }

    #[test]
    fn after_vcl_recv_the_client_is_told_once() {
        let mut upload = expecting();
        assert!(upload.is_expected());
        assert!(upload.take_unless_late());
        assert!(!upload.take_unless_late() && !upload.take_expected() && !upload.take_due());
    }

    #[test]
    fn a_late_100_waits_for_a_reader() {
        let mut upload = expecting();
        upload.set_late(true);
        assert!(!upload.take_unless_late());
        let _ = upload.lend();
        assert!(!upload.is_expected(), "a reader has come");
        assert!(upload.take_due());
        assert!(!upload.take_due(), "once");
    }

    #[test]
    fn vcl_may_change_its_mind_about_lateness() {
        let mut upload = expecting();
        upload.set_late(true);
        upload.set_late(false);
        assert!(upload.take_unless_late());
    }

    #[test]
    fn nobody_is_told_who_does_not_wait() {
        let mut upload = Upload::none();
        upload.set_late(true);
        upload.keep_for_vcl();
        assert!(upload.take_kept_for_vcl() && !upload.take_kept_for_vcl());
        assert!(!upload.take_due() && !upload.take_unless_late() && !upload.is_expected());
    }
}
