// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a body passes on its way to a client: `resp.filters`, its default, and opening the chain.
//!
//! `esi` is no link of the chain: the engine walks the object's program and feeds the chain with pieces and fragments.

use message::Coding;

use crate::fetch::{REWRITTEN, Skipped, no_work, not_found};
use crate::{
    Chain, ChainOpenError, Edit, FilterList, FilterName, Gunzip, InjectedFilters, Multipart, RangeFilter, Unpack,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeliverFacts {
    /// The object has an ESI program and VCL didn't switch ESI off.
    pub do_esi: bool,
    /// The coding that the object has and this client doesn't take, if we can undo it.
    pub undone: Option<Coding>,
    /// The request has a Range, the status is 200, and `http_range_support` is on.
    pub do_range: bool,
}

pub fn default_deliver(facts: DeliverFacts) -> FilterList {
    let [plain, with_range, with_esi, with_both] = match facts.undone {
        Some(Coding::Gzip) => [" gunzip", " gunzip range", " esi gunzip", " esi gunzip range"],
        Some(Coding::Brotli) => [" unbr", " unbr range", " esi unbr", " esi unbr range"],
        Some(Coding::Zstd) => [" unzstd", " unzstd range", " esi unzstd", " esi unzstd range"],
        Some(Coding::Identity) | None => ["", " range", " esi", " esi range"],
    };
    let names = match (facts.do_esi, facts.do_range) {
        (false, false) => plain,
        (false, true) => with_range,
        (true, false) => with_esi,
        (true, true) => with_both,
    };
    names.into()
}

pub struct DeliverInput<'a> {
    /// Bytes of the stored body; `None` while it is being fetched.
    pub body_bytes: Option<u64>,
    /// Bytes it unpacks to, if it is packed, fetched to the end, and they are known.
    pub plain_bytes: Option<u64>,
    pub has_esi: bool,
    pub status: u16,
    /// Coding in resp's Content-Encoding; `None`: one that we don't know.
    pub coding: Option<Coding>,
    /// Decides about the range of a body so long (`None`: not known) and changes resp's head to 206 or 416.
    pub range: &'a mut dyn FnMut(Option<u64>) -> RangeVerdict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RangeVerdict {
    Whole,
    /// The bytes from the first up to and with the second, 206.
    Part(u64, u64),
    /// The bytes between these ends as far as there are any, 206: the body's length isn't known.
    UpTo(u64, u64),
    Parts(Multipart),
    /// The range is invalid: no body, 416.
    Unsatisfiable,
}

#[derive(Default)]
pub struct DeliverOpened {
    pub chain: Chain,
    /// Changes of resp, in order (those of a range were made by the verdict).
    pub edits: Vec<Edit>,
    /// Bytes that will come out; `None`: not known, so chunked or up to close.
    pub body_bytes: Option<u64>,
    pub do_esi: bool,
    pub left_out: Vec<Skipped>,
}

/// Opens the chain of a list; see [`InjectedFilters::complete`].
///
/// # Errors
/// An unknown filter.
pub fn open_deliver(
    list: &FilterList,
    input: DeliverInput<'_>,
    injected: &mut InjectedFilters,
) -> Result<DeliverOpened, ChainOpenError> {
    let mut opened = DeliverOpened { body_bytes: input.body_bytes, ..DeliverOpened::default() };
    let mut coding = input.coding;
    let mut names = list.names();
    while let Some(name) = names.next() {
        match name {
            FilterName::Esi if !input.has_esi => {}
            FilterName::Esi => {
                opened.do_esi = true;
                opened.edits.extend([Edit::OtherBody, Edit::WeakenEtag]);
                if opened.body_bytes != Some(0) {
                    opened.body_bytes = None;
                }
            }
            FilterName::Gunzip => {
                opened.chain.push(Gunzip::deliver());
                coding = Some(Coding::Identity);
                opened.edits.extend([Edit::Unset("Content-Encoding"), Edit::OtherBody]);
                opened.body_bytes = if opened.do_esi { None } else { input.plain_bytes };
            }
            FilterName::Unpack(packed) => {
                opened.chain.push(Unpack::new(packed));
                coding = Some(Coding::Identity);
                opened.edits.extend([Edit::Unset("Content-Encoding"), Edit::OtherBody]);
                opened.body_bytes = if opened.do_esi { None } else { input.plain_bytes };
            }
            FilterName::Range => match (input.range)(opened.body_bytes) {
                RangeVerdict::Whole => {}
                RangeVerdict::Part(low, high) => {
                    opened.chain.push(RangeFilter::new(low, high));
                    opened.body_bytes = Some(high - low + 1);
                }
                RangeVerdict::UpTo(low, high) => opened.chain.push(RangeFilter::up_to(low, high)),
                RangeVerdict::Parts(parts) => {
                    opened.body_bytes = Some(parts.bytes());
                    opened.chain.push(RangeFilter::parts(parts));
                }
                RangeVerdict::Unsatisfiable => opened.body_bytes = Some(0),
            },
            FilterName::EsiGzip
            | FilterName::Gzip
            | FilterName::TestGunzip
            | FilterName::Pack(_)
            | FilterName::Check(_)
            | FilterName::Injected(_) => {
                let filter = injected.take(name).ok_or_else(|| not_found(name, &names))?;
                if let Some(reason) = no_work(input.status == 206, coding) {
                    opened.left_out.push((filter.name(), reason));
                } else {
                    if !filter.keeps_body() {
                        // Also where the origin has said it to HEAD.
                        opened.edits.push(Edit::Unset("Content-Length"));
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
