// SPDX-License-Identifier: BSD-2-Clause
//! Edge Side Includes: finds `<esi:...>` tags in a body and says which bytes are delivered, which are left out, and
//! what is included where.
//!
//! [`EsiParser`] takes the body in slices of any size and hands every byte, in order, to a [`ParserSink`] as verbatim or
//! skipped. [`ProgramBuilder`] turns that into a [`EsiProgram`], opaque bytes that are stored with the object; delivery
//! walks them with [`EsiProgram::steps`]. Knows no socket, clock, cache or log; depth is the engine's business.
//! Behaves as Varnish's ESI 1.0 subset: include, remove, comment, `<!--esi -->`.

#![cfg_attr(not(test), warn(clippy::shadow_unrelated, clippy::wildcard_enum_match_arm))]

mod complaint;
mod include;
mod parser;
mod program;
mod tag;

pub use complaint::{Complaint, ComplaintSeverity};
pub use include::EsiInclude;
pub use parser::{EsiParser, ParserSink};
pub use program::{Corrupt, EsiProgram, EsiStep, GzipPiece, ProgramBuilder};

/// Bits of the parameter `feature` that concern parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Features {
    /// `esi_disable_xml_check`: process bodies that don't begin with `<`.
    pub disable_xml_check: bool,
    /// `esi_ignore_https`: treat `https://` in src as `http://`.
    pub ignore_https: bool,
    /// `esi_ignore_other_elements`: don't look for the `>` of other tags, so that ESI may stand within them.
    pub ignore_other_elements: bool,
    /// `esi_remove_bom`: leave out a byte order mark at the start.
    pub remove_bom: bool,
}
