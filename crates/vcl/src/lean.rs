// SPDX-License-Identifier: BSD-2-Clause
//! Code for runs without `VCL_trace`, and the tests whose results it keeps. [`crate::optimise`] makes it.

use tables::vclsubs::Method;
use tables::vclvars::{HeadId, Var};

use crate::program::{Op, RegexId};

/// The code for runs without `VCL_trace`. The optimiser fills it.
#[derive(Debug, Clone, Default)]
pub struct LeanCode {
    /// The code without ops that have no effect. Each op is at its index in [`crate::Program::code`].
    pub ops: Vec<Op>,
    /// True if VCL sets `req.trace` or `bereq.trace`, so that these ops never run.
    pub sets_trace: bool,
    /// Values that are tested more than once.
    pub subjects: Vec<Subject>,
    /// Tests that follow each other while they fail.
    pub guards: Vec<TestGuard>,
    /// For each built-in subroutine that does nothing but return, the index of the `return`.
    pub ends: [Option<u32>; Method::COUNT],
}

/// A value that is tested in several places, with all tests of it. A result stays valid until the value changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    pub of: SubjectOf,
    /// At most [`Subject::MAX_TESTS`] different tests.
    pub tests: Vec<TestOf>,
}

impl Subject {
    /// Maximum number of tests per subject; further ones are run each time.
    pub const MAX_TESTS: usize = 64;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectOf {
    Field(HeadId, u16),
    /// A text from a request line or status line.
    Var(Var),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TestOf {
    Set,
    /// True if the value equals a text, by its index in [`crate::program::Constants::strings`].
    Equal(u32),
    Match(RegexId),
}

/// A test and its jump targets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestGuard {
    /// An index into [`LeanCode::subjects`].
    pub subject: u16,
    /// An index into the subject's tests.
    pub test: u16,
    /// The next op if the test holds.
    pub then: u32,
    /// The next guard if the test fails.
    pub next: Option<u32>,
    /// The next op if the test fails and there is no next guard.
    pub otherwise: u32,
    /// The index of the test's own op.
    pub pc: u32,
}
