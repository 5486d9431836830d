// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a body passes on its way into the cache: `beresp.filters`, its default, and opening the chain.

use crate::esi_fetch::{Esi, EsiGzip};
use crate::list::FilterNames;
use crate::{
    Chain, ChainOpenError, Check, Edit, FilterList, FilterName, Gunzip, Gzip, GzipParams, InjectedFilters, Pack,
    PackParams, Packed, TestGunzip, Unpack,
};
use message::{Coding, Codings};

/// Encodings that VCL wants a body to be given, and those that it wants to be undone, before the body is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Recode {
    pub make: Codings,
    pub undo: Codings,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FetchFacts {
    /// True if a body comes: neither none by status or method nor `Content-Length: 0`.
    pub has_body: bool,
    /// Coding in beresp's Content-Encoding; `None`: one that we don't know.
    pub coding: Option<Coding>,
    pub recode: Recode,
    pub do_esi: bool,
    pub supported: Codings,
    /// A module's filter wants the body: one that came packed is unpacked, and packed again.
    pub is_worked_on: bool,
}

impl FetchFacts {
    /// The coding in which VCL wants the body to be stored, if that is another one than it comes in.
    fn target(&self) -> Option<Coding> {
        let possible = self.recode.make.and(self.supported);
        // The last one compresses best.
        Coding::ALL.into_iter().rev().find(|coding| possible.has(*coding))
    }

    /// True if VCL wants a body that comes in that coding decompressed.
    fn undoes(&self, coding: Coding) -> bool {
        self.recode.undo.has(coding) && (coding != Coding::Gzip || self.supported.has(coding))
    }
}

pub fn default_fetch(facts: FetchFacts) -> FilterList {
    let Some(coding) = facts.coding.filter(|_| facts.has_body) else {
        return if facts.has_body && facts.do_esi { " esi".into() } else { "".into() };
    };
    let target = facts.target();
    if facts.do_esi {
        return default_esi(facts, coding, target);
    }
    match (coding, target) {
        (Coding::Identity, None) => "".into(),
        (Coding::Identity, Some(Coding::Gzip)) => " gzip".into(),
        (_, Some(target)) if target != coding && is_worth(coding, target) => list([undoing(coding), making(target)]),
        (Coding::Identity, Some(_)) => "".into(),
        (coding, _) if facts.undoes(coding) => list([undoing(coding), None]),
        (coding, _) if facts.is_worked_on && can_make(coding, facts.supported) => {
            list([undoing(coding), making(coding)])
        }
        (Coding::Gzip, _) => " testgunzip".into(),
        // What we don't know how to serve to others is none of our business, as ever.
        (coding, _) if !facts.supported.has(coding) => "".into(),
        (coding, _) => list([checking(coding), None]),
    }
}

/// Pages are cut at fragments in gzip or in none.
fn default_esi(facts: FetchFacts, coding: Coding, target: Option<Coding>) -> FilterList {
    match (coding, target) {
        (Coding::Identity, Some(_)) => " esi_gzip".into(),
        (Coding::Identity, None) => " esi".into(),
        (Coding::Gzip, _) if facts.undoes(coding) => " gunzip esi".into(),
        (Coding::Gzip, _) => " gunzip esi_gzip".into(),
        (Coding::Brotli | Coding::Zstd, _) if !facts.supported.has(coding) && !facts.undoes(coding) => " esi".into(),
        (Coding::Brotli | Coding::Zstd, None) if facts.undoes(coding) => list([undoing(coding), Some(FilterName::Esi)]),
        (Coding::Brotli | Coding::Zstd, _) => list([undoing(coding), Some(FilterName::EsiGzip)]),
    }
}

/// A body in gzip is packed anew where VCL asks for another coding, and one in another coding where VCL asks for gzip alone isn't:
/// so it is with varnishd, which leaves it alone.
fn is_worth(coding: Coding, target: Coding) -> bool {
    coding == Coding::Identity || target != Coding::Gzip
}

fn can_make(coding: Coding, supported: Codings) -> bool {
    coding == Coding::Gzip || supported.has(coding)
}

fn undoing(coding: Coding) -> Option<FilterName<'static>> {
    FilterName::undoing(coding)
}

fn making(coding: Coding) -> Option<FilterName<'static>> {
    match coding {
        Coding::Identity => None,
        Coding::Gzip => Some(FilterName::Gzip),
        Coding::Brotli => Some(FilterName::Pack(Packed::Brotli)),
        Coding::Zstd => Some(FilterName::Pack(Packed::Zstd)),
    }
}

fn checking(coding: Coding) -> Option<FilterName<'static>> {
    match coding {
        Coding::Identity => None,
        Coding::Gzip => Some(FilterName::TestGunzip),
        Coding::Brotli => Some(FilterName::Check(Packed::Brotli)),
        Coding::Zstd => Some(FilterName::Check(Packed::Zstd)),
    }
}

fn list(names: [Option<FilterName<'static>>; 2]) -> FilterList {
    names.into_iter().flatten().collect()
}

#[derive(Clone, Copy, Debug)]
pub struct FetchInput<'a> {
    pub status: u16,
    /// Coding in beresp's Content-Encoding; `None`: one that we don't know.
    pub coding: Option<Coding>,
    pub url: &'a [u8],
    pub gzip: GzipParams,
    pub pack: PackParams,
    pub esi: esi::Features,
}

#[derive(Default)]
pub struct FetchOpened {
    pub chain: Chain,
    pub edits: Vec<Edit>,
    /// Coding that the filters make or have checked: it can be undone for clients that don't accept it.
    pub coding: Coding,
    /// A filter changed Content-Encoding: a later 304's must not replace it.
    pub is_recoded: bool,
    pub is_esi: bool,
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
) -> Result<FetchOpened, ChainOpenError> {
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
            FilterName::Unpack(packed) | FilterName::Check(packed) if is_part || coding != Some(packed.coding()) => {}
            FilterName::Unpack(packed) => {
                opened.chain.push(Unpack::new(packed));
                opened.edits.extend(RECODED);
                (opened.coding, opened.is_recoded, coding) = (Coding::Identity, true, Some(Coding::Identity));
            }
            FilterName::Check(packed) => {
                opened.chain.push(Check::new(packed));
                opened.edits.push(Edit::VaryAcceptEncoding);
                opened.coding = packed.coding();
            }
            FilterName::Pack(_) if is_part || coding != Some(Coding::Identity) => {}
            FilterName::Pack(packed) => {
                // What is announced is of the body as it comes.
                let bytes = input.pack.bytes.filter(|_| opened.chain.is_empty());
                opened.chain.push(Pack::new(packed, PackParams { bytes, ..input.pack }));
                opened.edits.extend(RECODED);
                opened.edits.extend([Edit::SetCoding(packed.coding()), Edit::VaryAcceptEncoding]);
                (opened.coding, opened.is_recoded, coding) = (packed.coding(), true, Some(packed.coding()));
            }
            FilterName::Esi if is_part => return Err(ChainOpenError::Refused { name: "esi", vcl_error: ESI_ON_PART }),
            FilterName::Esi => {
                opened.chain.push(Esi::new(input.url, input.esi));
                opened.is_esi = true;
            }
            FilterName::EsiGzip if is_part => {
                return Err(ChainOpenError::Refused { name: "esi_gzip", vcl_error: ESI_ON_PART });
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

pub(crate) fn no_work(is_part: bool, coding: Option<Coding>) -> Option<&'static str> {
    match coding {
        _ if is_part => Some("the response is partial"),
        Some(Coding::Identity) => None,
        Some(Coding::Gzip) => Some("the body is packed"),
        Some(Coding::Brotli | Coding::Zstd) | None => Some("the body is in a coding other than gzip"),
    }
}

const ESI_ON_PART: &str = "Attempted ESI on partial (206) response";

const RECODED: [Edit; 3] = [Edit::Unset("Content-Encoding"), Edit::OtherBody, Edit::WeakenEtag];

/// Changes of the head that go with a module's filter.
pub(crate) const REWRITTEN: [Edit; 2] = [Edit::OtherBody, Edit::WeakenEtag];

/// The message has the list from the name on.
pub(crate) fn not_found(name: FilterName<'_>, after: &FilterNames<'_>) -> ChainOpenError {
    ChainOpenError::NotFound(String::from_utf8_lossy(&[name.as_bytes(), after.rest()].concat()).into_owned())
}
