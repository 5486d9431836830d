// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a body passes on its way to a client: `resp.filters`, its default, and opening the chain.
//!
//! `esi` is no link of the chain: the engine walks the object's program and feeds the chain with pieces and fragments.

use crate::fetch::{Coding, LeftOut, REWRITTEN, next_name, no_work, not_found};
use crate::{Brought, Chain, Edit, Gunzip, Multipart, OpenError, Range};

/// What the default of `resp.filters` depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeliverFacts {
    /// The object has an ESI program and VCL didn't switch ESI off.
    pub do_esi: bool,
    /// The object is gzip, the client doesn't take gzip, and `http_gzip_support` is on.
    pub do_gunzip: bool,
    /// The request has a Range, the status is 200, and `http_range_support` is on.
    pub do_range: bool,
}

/// The default of `resp.filters`, each name with a blank before it as Varnish logs it.
pub fn default_deliver(facts: DeliverFacts) -> &'static str {
    match (facts.do_esi, facts.do_gunzip, facts.do_range) {
        (false, false, false) => "",
        (false, false, true) => " range",
        (false, true, false) => " gunzip",
        (false, true, true) => " gunzip range",
        (true, false, false) => " esi",
        (true, false, true) => " esi range",
        (true, true, false) => " esi gunzip",
        (true, true, true) => " esi gunzip range",
    }
}

/// What the filters need to know.
pub struct DeliverInput<'a> {
    /// Bytes of the stored body; `None` while it is being fetched.
    pub body_bytes: Option<u64>,
    /// Bytes it unpacks to (`GzipBits::plain_bytes`), if it is gzip, fetched to the end, and they are known.
    pub plain_bytes: Option<u64>,
    /// The object has an ESI program.
    pub has_esi: bool,
    /// resp's status.
    pub status: u16,
    /// resp's Content-Encoding.
    pub content_encoding: Option<&'a [u8]>,
    /// Decides about the range of a body so long (`None`: not known) and changes resp's head to 206 or 416.
    pub range: &'a mut dyn FnMut(Option<u64>) -> RangeVerdict,
}

/// What becomes of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeVerdict {
    /// The whole body, 200.
    Whole,
    /// The bytes from the first up to and with the second, 206.
    Part(u64, u64),
    /// Several parts, 206.
    Parts(Multipart),
    /// No body, 416.
    Unsatisfiable,
}

/// An open chain and what goes with it.
#[derive(Default)]
pub struct DeliverOpened {
    /// The filters, first the one next to the storage.
    pub chain: Chain,
    /// Changes of resp, in order (those of a range were made by the verdict).
    pub edits: Vec<Edit>,
    /// Bytes that will come out; `None`: not known, so chunked or up to close.
    pub body_bytes: Option<u64>,
    /// The engine is to follow the ESI program.
    pub do_esi: bool,
    /// Filters of modules that can't work on this body, and why.
    pub left_out: Vec<LeftOut>,
}

/// Opens the chain that `names` (blank-separated) lists; see [`Brought::complete`].
///
/// # Errors
/// An unknown filter.
pub fn open_deliver(names: &[u8], input: DeliverInput<'_>, brought: &mut Brought) -> Result<DeliverOpened, OpenError> {
    let mut opened = DeliverOpened { body_bytes: input.body_bytes, ..DeliverOpened::default() };
    let mut coding = Coding::of(input.content_encoding);
    let mut rest = names;
    while let Some(name) = next_name(&mut rest) {
        match name {
            b"esi" if !input.has_esi => {}
            b"esi" => {
                opened.do_esi = true;
                opened.edits.push(Edit::WeakenEtag);
                if opened.body_bytes != Some(0) {
                    opened.body_bytes = None;
                }
            }
            b"gunzip" => {
                opened.chain.push(Gunzip::deliver());
                coding = Coding::Plain;
                opened.edits.push(Edit::Unset("Content-Encoding"));
                opened.body_bytes = if opened.do_esi { None } else { input.plain_bytes };
            }
            b"range" => match (input.range)(opened.body_bytes) {
                RangeVerdict::Whole => {}
                RangeVerdict::Part(low, high) => {
                    opened.chain.push(Range::new(low, high));
                    opened.body_bytes = Some(high - low + 1);
                }
                RangeVerdict::Parts(parts) => {
                    opened.body_bytes = Some(parts.bytes());
                    opened.chain.push(Range::parts(parts));
                }
                RangeVerdict::Unsatisfiable => opened.body_bytes = Some(0),
            },
            name => {
                let filter = brought.take(name).ok_or_else(|| not_found(name, rest))?;
                if let Some(why) = no_work(input.status == 206, coding) {
                    opened.left_out.push((filter.name(), why));
                } else {
                    if !filter.keeps_body() {
                        opened.edits.extend(REWRITTEN);
                        opened.body_bytes = None;
                    }
                    opened.chain.push_boxed(filter);
                }
            }
        }
    }
    Ok(opened)
}
