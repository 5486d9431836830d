// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a body passes on its way into the cache: `beresp.filters`, its default, and opening the chain.

use crate::esi_fetch::{Esi, EsiGzip};
use crate::{Brought, Chain, Edit, Gunzip, Gzip, GzipParams, OpenError, TestGunzip};

/// What the default of `beresp.filters` depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FetchFacts<'a> {
    /// Whether a body comes: neither none by status or method nor `Content-Length: 0`.
    pub has_body: bool,
    /// beresp's Content-Encoding.
    pub content_encoding: Option<&'a [u8]>,
    /// `beresp.do_gzip`.
    pub do_gzip: bool,
    /// `beresp.do_gunzip`.
    pub do_gunzip: bool,
    /// `beresp.do_esi`.
    pub do_esi: bool,
    /// Parameter `http_gzip_support`.
    pub gzip_support: bool,
    /// A module's filter wants the body: one that came packed is unpacked, and packed again.
    pub is_worked_on: bool,
}

/// The default of `beresp.filters`, each name with a blank before it as Varnish logs it.
pub fn default_fetch(facts: FetchFacts<'_>) -> &'static str {
    if !facts.has_body {
        return "";
    }
    let is_gzip = facts.content_encoding.is_some_and(|value| value.eq_ignore_ascii_case(b"gzip"));
    let is_plain = facts.content_encoding.is_none();
    let do_gunzip = facts.do_gunzip && facts.gzip_support && is_gzip;
    let do_gzip = facts.do_gzip && facts.gzip_support && is_plain;
    if facts.is_worked_on && is_gzip && !facts.do_esi && !do_gunzip {
        return " gunzip gzip";
    }
    match (facts.do_esi, is_gzip, do_gunzip, do_gzip) {
        (true, true, true, _) => " gunzip esi",
        (true, true, false, _) => " gunzip esi_gzip",
        (true, false, _, true) => " esi_gzip",
        (true, false, _, false) => " esi",
        (false, true, true, _) => " gunzip",
        (false, true, false, _) => " testgunzip",
        (false, false, _, true) => " gzip",
        (false, false, _, false) => "",
    }
}

/// What the filters need to know.
#[derive(Clone, Copy, Debug)]
pub struct FetchInput<'a> {
    /// beresp's status.
    pub status: u16,
    /// beresp's Content-Encoding.
    pub content_encoding: Option<&'a [u8]>,
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
    /// The stored body will be gzip, and can be unpacked for who doesn't take it.
    pub is_gzip: bool,
    /// A filter changed Content-Encoding: a later 304's must not replace it.
    pub is_encoding_changed: bool,
    /// The body goes through ESI.
    pub is_esi: bool,
    /// Filters of modules that can't work on this body, and why.
    pub left_out: Vec<LeftOut>,
}

/// A module's filter that lets a body be: its name, and what is with the body.
pub type LeftOut = (&'static str, &'static str);

/// Opens the chain that `names` (blank-separated) lists; see [`Brought::complete`].
///
/// # Errors
/// An unknown filter, or one that refuses this body.
pub fn open_fetch(names: &[u8], input: FetchInput<'_>, brought: &mut Brought) -> Result<FetchOpened, OpenError> {
    let mut opened = FetchOpened::default();
    let mut coding = Coding::of(input.content_encoding);
    let mut rest = names;
    while let Some(name) = next_name(&mut rest) {
        // Packing and unpacking make no sense on part of a body; they let it be.
        let is_part = input.status == 206;
        match name {
            b"gunzip" if is_part || coding != Coding::Gzip => {}
            b"gunzip" => {
                opened.chain.push(Gunzip::fetch());
                opened.edits.extend(RECODED);
                (opened.is_gzip, opened.is_encoding_changed, coding) = (false, true, Coding::Plain);
            }
            b"testgunzip" if is_part || coding != Coding::Gzip => {}
            b"testgunzip" => {
                opened.chain.push(TestGunzip::new());
                opened.edits.push(Edit::VaryAcceptEncoding);
                opened.is_gzip = true;
            }
            b"gzip" if is_part || coding != Coding::Plain => {}
            b"gzip" => {
                opened.chain.push(Gzip::new(input.gzip));
                opened.edits.extend(RECODED);
                opened.edits.extend([Edit::SetGzip, Edit::VaryAcceptEncoding]);
                (opened.is_gzip, opened.is_encoding_changed, coding) = (true, true, Coding::Gzip);
            }
            b"esi" if is_part => return Err(OpenError::Refused { name: "esi", vcl_error: ESI_ON_PART }),
            b"esi" => {
                opened.chain.push(Esi::new(input.url, input.esi));
                opened.is_esi = true;
            }
            b"esi_gzip" if is_part => return Err(OpenError::Refused { name: "esi_gzip", vcl_error: ESI_ON_PART }),
            b"esi_gzip" => {
                opened.chain.push(EsiGzip::new(input.url, input.esi, input.gzip));
                // In Varnish's order, which the log shows.
                opened.edits.extend(RECODED.into_iter().rev());
                opened.edits.extend([Edit::SetGzip, Edit::VaryAcceptEncoding]);
                opened.is_esi = true;
                (opened.is_gzip, opened.is_encoding_changed, coding) = (true, true, Coding::Gzip);
            }
            name => {
                let filter = brought.take(name).ok_or_else(|| not_found(name, rest))?;
                if let Some(why) = no_work(is_part, coding) {
                    opened.left_out.push((filter.name(), why));
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
pub(crate) fn no_work(is_part: bool, coding: Coding) -> Option<&'static str> {
    match coding {
        _ if is_part => Some("the response is partial"),
        Coding::Plain => None,
        Coding::Gzip => Some("the body is packed"),
        Coding::Other => Some("the body is in a coding other than gzip"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    Plain,
    Gzip,
    Other,
}

impl Coding {
    pub(crate) fn of(content_encoding: Option<&[u8]>) -> Self {
        match content_encoding {
            None => Coding::Plain,
            Some(value) if value.eq_ignore_ascii_case(b"gzip") => Coding::Gzip,
            Some(_) => Coding::Other,
        }
    }
}

const ESI_ON_PART: &str = "Attempted ESI on partial (206) response";

/// What a change of the body's coding does to the head.
const RECODED: [Edit; 3] = [Edit::Unset("Content-Encoding"), Edit::Unset("Content-Length"), Edit::WeakenEtag];

/// What a module's filter does to the head.
pub(crate) const REWRITTEN: [Edit; 2] = [Edit::Unset("Content-Length"), Edit::WeakenEtag];

/// Takes the next word off a list.
pub(crate) fn next_name<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let start = rest.iter().position(|c| !c.is_ascii_whitespace())?;
    let from = &rest[start..];
    let len = from.iter().position(u8::is_ascii_whitespace).unwrap_or(from.len());
    *rest = &from[len..];
    Some(&from[..len])
}

pub(crate) fn not_found(name: &[u8], rest: &[u8]) -> OpenError {
    OpenError::NotFound(String::from_utf8_lossy(&[name, rest].concat()).into_owned())
}
