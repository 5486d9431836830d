// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a body passes on its way into the cache: `beresp.filters`, its default, and opening the chain.

use crate::esi_fetch::{Esi, EsiGzip};
use crate::list::Names;
use crate::{Chain, Edit, FilterList, FilterName, Gunzip, Gzip, GzipParams, InjectedFilters, OpenError, TestGunzip};
use message::{Coding, Codings};

/// What the default of `beresp.filters` depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FetchFacts {
    /// Whether a body comes: neither none by status or method nor `Content-Length: 0`.
    pub has_body: bool,
    /// What beresp's Content-Encoding says; `None`: a coding that we don't know.
    pub coding: Option<Coding>,
    /// `beresp.do_gzip`.
    pub do_gzip: bool,
    /// `beresp.do_gunzip`.
    pub do_gunzip: bool,
    /// `beresp.do_esi`.
    pub do_esi: bool,
    /// The codings that we make and undo.
    pub supported: Codings,
    /// A module's filter wants the body: one that came packed is unpacked, and packed again.
    pub is_worked_on: bool,
}

/// The default of `beresp.filters`.
pub fn default_fetch(facts: FetchFacts) -> FilterList {
    let can_recode = facts.supported.has(Coding::Gzip);
    let (pack, unpack) = (facts.do_gzip && can_recode, facts.do_gunzip && can_recode);
    let names = match facts.coding {
        _ if !facts.has_body => "",
        Some(Coding::Identity) => match (facts.do_esi, pack) {
            (true, true) => " esi_gzip",
            (true, false) => " esi",
            (false, true) => " gzip",
            (false, false) => "",
        },
        Some(Coding::Gzip) => match (facts.do_esi, unpack) {
            (true, true) => " gunzip esi",
            (true, false) => " gunzip esi_gzip",
            (false, true) => " gunzip",
            (false, false) if facts.is_worked_on => " gunzip gzip",
            (false, false) => " testgunzip",
        },
        Some(Coding::Brotli | Coding::Zstd) | None if facts.do_esi => " esi",
        Some(Coding::Brotli | Coding::Zstd) | None => "",
    };
    names.into()
}

/// What the filters need to know.
#[derive(Clone, Copy, Debug)]
pub struct FetchInput<'a> {
    /// beresp's status.
    pub status: u16,
    /// What beresp's Content-Encoding says; `None`: a coding that we don't know.
    pub coding: Option<Coding>,
    /// bereq's URL.
    pub url: &'a [u8],
    /// Of packing.
    pub gzip: GzipParams,
    /// Of ESI.
    pub esi: esi::Features,
}

/// An open chain and what goes with it.
#[derive(Default)]
pub struct FetchOpened {
    /// The filters, first the one next to the backend.
    pub chain: Chain,
    /// Changes of beresp, in order.
    pub edits: Vec<Edit>,
    /// What the filters make of the body or check it to be: who doesn't take that coding can have it undone.
    pub coding: Coding,
    /// A filter changed Content-Encoding: a later 304's must not replace it.
    pub is_recoded: bool,
    /// The body goes through ESI.
    pub is_esi: bool,
    /// Filters of modules that can't work on this body, and why.
    pub left_out: Vec<Skipped>,
}

/// A module's filter that lets a body be: its name, and what is with the body.
pub type Skipped = (&'static str, &'static str);

/// Opens the chain of a list; see [`InjectedFilters::complete`].
///
/// # Errors
/// An unknown filter, or one that refuses this body.
pub fn open_fetch(
    list: &FilterList,
    input: FetchInput<'_>,
    injected: &mut InjectedFilters,
) -> Result<FetchOpened, OpenError> {
    let mut opened = FetchOpened::default();
    // What the body is in as it comes to the next filter.
    let mut coding = input.coding;
    let mut names = list.names();
    while let Some(name) = names.next() {
        // Packing and unpacking make no sense on part of a body; they let it be.
        let is_part = input.status == 206;
        match name {
            FilterName::Gunzip if is_part || coding != Some(Coding::Gzip) => {}
            FilterName::Gunzip => {
                opened.chain.push(Gunzip::fetch());
                opened.edits.extend(RECODED);
                (opened.coding, opened.is_recoded, coding) = (Coding::Identity, true, Some(Coding::Identity));
            }
            FilterName::TestGunzip if is_part || coding != Some(Coding::Gzip) => {}
            FilterName::TestGunzip => {
                opened.chain.push(TestGunzip::new());
                opened.edits.push(Edit::VaryAcceptEncoding);
                opened.coding = Coding::Gzip;
            }
            FilterName::Gzip if is_part || coding != Some(Coding::Identity) => {}
            FilterName::Gzip => {
                opened.chain.push(Gzip::new(input.gzip));
                opened.edits.extend(RECODED);
                opened.edits.extend([Edit::SetCoding(Coding::Gzip), Edit::VaryAcceptEncoding]);
                (opened.coding, opened.is_recoded, coding) = (Coding::Gzip, true, Some(Coding::Gzip));
            }
            FilterName::Esi if is_part => return Err(OpenError::Refused { name: "esi", vcl_error: ESI_ON_PART }),
            FilterName::Esi => {
                opened.chain.push(Esi::new(input.url, input.esi));
                opened.is_esi = true;
            }
            FilterName::EsiGzip if is_part => {
                return Err(OpenError::Refused { name: "esi_gzip", vcl_error: ESI_ON_PART });
            }
            FilterName::EsiGzip => {
                opened.chain.push(EsiGzip::new(input.url, input.esi, input.gzip));
                // In Varnish's order, which the log shows.
                opened.edits.extend(RECODED.into_iter().rev());
                opened.edits.extend([Edit::SetCoding(Coding::Gzip), Edit::VaryAcceptEncoding]);
                opened.is_esi = true;
                (opened.coding, opened.is_recoded, coding) = (Coding::Gzip, true, Some(Coding::Gzip));
            }
            FilterName::Range | FilterName::Injected(_) => {
                let filter = injected.take(name).ok_or_else(|| not_found(name, &names))?;
                if let Some(reason) = no_work(is_part, coding) {
                    opened.left_out.push((filter.name(), reason));
                } else {
                    if !filter.keeps_body() {
                        opened.edits.extend(REWRITTEN);
                    }
                    opened.chain.push_boxed(filter);
                }
            }
        }
    }
    Ok(opened)
}

/// Why a module's filter lets a body be.
pub(crate) fn no_work(is_part: bool, coding: Option<Coding>) -> Option<&'static str> {
    match coding {
        _ if is_part => Some("the response is partial"),
        Some(Coding::Identity) => None,
        Some(Coding::Gzip) => Some("the body is packed"),
        Some(Coding::Brotli | Coding::Zstd) | None => Some("the body is in a coding other than gzip"),
    }
}

const ESI_ON_PART: &str = "Attempted ESI on partial (206) response";

/// What a change of the body's coding does to the head.
const RECODED: [Edit; 3] = [Edit::Unset("Content-Encoding"), Edit::Unset("Content-Length"), Edit::WeakenEtag];

/// What a module's filter does to the head.
pub(crate) const REWRITTEN: [Edit; 2] = [Edit::Unset("Content-Length"), Edit::WeakenEtag];

/// The message has the list from the name on.
pub(crate) fn not_found(name: FilterName<'_>, after: &Names<'_>) -> OpenError {
    OpenError::NotFound(String::from_utf8_lossy(&[name.as_bytes(), after.rest()].concat()).into_owned())
}
