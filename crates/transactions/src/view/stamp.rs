// SPDX-License-Identifier: BSD-2-Clause
//! Timestamps of a transaction: when it began and ended, and how long its steps took.

use super::{View, number};
use crate::UnixNs;

/// A record `Timestamp`: `Process: 1700000000.123456 0.000282 0.000021`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp<'a>(pub &'a [u8]);

impl<'a> Stamp<'a> {
    /// The step that has ended: `Start`, `Process`, or VCL's own.
    pub fn label(&self) -> &'a [u8] {
        let end = self.0.windows(2).rposition(|two| two == b": ");
        &self.0[..end.unwrap_or(self.0.len())]
    }

    pub fn is(&self, label: &str) -> bool {
        self.0.strip_prefix(label.as_bytes()).is_some_and(|rest| rest.starts_with(b": "))
    }

    /// The moment, in seconds since 1970.
    pub fn seconds(&self) -> Option<f64> {
        self.number(0)
    }

    /// The same moment without loss.
    pub fn at(&self) -> Option<UnixNs> {
        UnixNs::parse(std::str::from_utf8(self.word(0)?).ok()?)
    }

    pub fn since_start(&self) -> Option<f64> {
        self.number(1)
    }

    pub fn since_last(&self) -> Option<f64> {
        self.number(2)
    }

    /// One of the three numbers at the end.
    fn word(&self, n: usize) -> Option<&'a [u8]> {
        self.0.rsplit(|b| *b == b' ').nth(2 - n)
    }

    /// A clock that was set back gives negative numbers, which say nothing.
    fn number(&self, n: usize) -> Option<f64> {
        number::<f64>(self.word(n)?).filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
    }
}

impl<'a> View<'a> {
    /// The last timestamp with one of these labels.
    pub fn stamp(&self, labels: &[&str]) -> Option<Stamp<'a>> {
        self.stamps.iter().rev().find(|stamp| labels.iter().any(|label| stamp.is(label))).copied()
    }

    /// Seconds that ended with these timestamps, in all. `None` if there are none.
    pub fn seconds_until(&self, label: &str) -> Option<f64> {
        let all = self.stamps.iter().filter(|stamp| stamp.is(label));
        all.filter_map(Stamp::since_last).fold(None, |sum, seconds| Some(sum.unwrap_or(0.0) + seconds))
    }

    /// The first timestamp. VCL can write further ones with the label `Start`.
    pub fn begin(&self) -> Option<Stamp<'a>> {
        self.stamps.first().copied()
    }

    /// The moment of the latest timestamp.
    pub fn end(&self) -> Option<UnixNs> {
        self.stamps.iter().filter_map(Stamp::at).max()
    }
}
