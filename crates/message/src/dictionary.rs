// SPDX-License-Identifier: BSD-2-Clause
//! Compression dictionaries (RFC 9842): what the fields of a request and a response say of them, and the header of `dcz`.

use crate::liked::weight;
use crate::structured::{Dictionary, FieldItem};
use crate::url_pattern::{UrlPattern, UrlPatternError};
use crate::{Head, chars, list, names};

/// `Available-Dictionary`: the SHA-256 of a dictionary that the client has.
pub const AVAILABLE_DICTIONARY: &str = "Available-Dictionary";
/// The request fields of a client that has a dictionary. They mean nothing without `dcb` or `dcz` in Accept-Encoding.
pub const DICTIONARY_OFFER: [&str; 2] = [AVAILABLE_DICTIONARY, "Dictionary-ID"];
/// `Use-As-Dictionary`: the response may be used as a dictionary.
pub const USE_AS_DICTIONARY: &str = "Use-As-Dictionary";

const MAX_ID: usize = 1024;
const MAX_MEMBERS: usize = 64;

/// The SHA-256 of a dictionary's bytes.
pub type DictionaryHash = [u8; 32];

/// The content coding that compresses with zstd against a dictionary (RFC 9842 5), the only one that is made here.
pub const DCZ: &str = "dcz";
/// The same with brotli (RFC 9842 4). The encoder of the brotli crate fails for some dictionaries.
const DCB: &str = "dcb";

/// The bytes with which a body in `dcz` begins: the head of a skippable frame, which has the hash.
pub const DCZ_MAGIC: [u8; 8] = [0x5e, 0x2a, 0x4d, 0x18, 0x20, 0, 0, 0];

/// True if one of the codings in a Content-Encoding needs a dictionary.
pub fn needs_dictionary(content_encoding: &[u8]) -> bool {
    [DCB, DCZ].iter().any(|coding| list::has(content_encoding, coding.as_bytes()))
}

/// The requests for which a client may use a dictionary, as the response says that brings it.
#[derive(Debug)]
pub struct DictionaryRule {
    pattern: UrlPattern,
    /// Destinations of requests; none: all.
    destinations: Vec<Vec<u8>>,
}

/// The reason why a Use-As-Dictionary isn't followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DictionaryRuleError {
    /// The value isn't a structured field, or a member is of another type than the RFC says.
    Malformed,
    /// There is no `match`.
    NoMatch,
    /// A `type` other than `raw`.
    UnknownType,
    /// The `match` isn't a supported pattern.
    Pattern(UrlPatternError),
}

impl DictionaryRuleError {
    /// The reason in words.
    pub const fn text(self) -> &'static str {
        match self {
            DictionaryRuleError::Malformed => "the field is malformed",
            DictionaryRuleError::NoMatch => "there is no match",
            DictionaryRuleError::UnknownType => "the type isn't raw",
            DictionaryRuleError::Pattern(error) => error.text(),
        }
    }
}

impl DictionaryRule {
    /// Reads the Use-As-Dictionary of the response for a URL of a host. Members that the RFC doesn't know are ignored.
    ///
    /// # Errors
    /// [`DictionaryRuleError`].
    pub fn parse(field: &[u8], host: &[u8], url: &[u8]) -> Result<Self, DictionaryRuleError> {
        let malformed = DictionaryRuleError::Malformed;
        let dictionary = Dictionary::parse(field).ok_or(malformed)?;
        let (mut pattern, mut destinations) = (None, Vec::new());
        for (key, item) in dictionary.members() {
            match (key, item) {
                (b"match", FieldItem::String(text)) => pattern = Some(text),
                (b"match-dest", list) => destinations = list.strings().ok_or(malformed)?,
                (b"id", FieldItem::String(id)) if id.len() <= MAX_ID => {}
                (b"type", FieldItem::Token(kind)) if kind == b"raw" => {}
                (b"type", FieldItem::Token(_)) => return Err(DictionaryRuleError::UnknownType),
                (b"match" | b"id" | b"type", _) => return Err(malformed),
                _ => {}
            }
        }
        let pattern = pattern.ok_or(DictionaryRuleError::NoMatch)?;
        let pattern = UrlPattern::parse(pattern, host, url).map_err(DictionaryRuleError::Pattern)?;
        Ok(DictionaryRule { pattern, destinations })
    }

    /// True if a request for that path and query may use the dictionary. `destination` is its Sec-Fetch-Dest, if it has one.
    pub fn matches(&self, url: &[u8], destination: Option<&[u8]>) -> bool {
        // Fetch calls a destination "" that the field calls "empty".
        let is_meant =
            |own: &[u8]| self.destinations.iter().any(|meant| meant == if own == b"empty" { b"" } else { own });
        (self.destinations.is_empty() || destination.is_none_or(is_meant)) && self.pattern.matches(url)
    }

    /// Memory of the rule, in bytes.
    pub fn bytes(&self) -> usize {
        self.pattern.bytes() + self.destinations.iter().map(|name| size_of::<Vec<u8>>() + name.len()).sum::<usize>()
    }
}

/// Available-Dictionary isn't the hash of one dictionary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedHash;

/// The hash of the dictionary against which a body may be compressed for a request. `None`: the request has none, or `dcz` isn't
/// among the codings that it likes best. A star in Accept-Encoding doesn't stand for it, as a client names it only if it
/// has a dictionary.
///
/// # Errors
/// [`MalformedHash`].
pub fn offered(request: &Head) -> Result<Option<DictionaryHash>, MalformedHash> {
    if !request.has(AVAILABLE_DICTIONARY) {
        return Ok(None);
    }
    let hash = request.only(AVAILABLE_DICTIONARY).and_then(hash_of).ok_or(MalformedHash)?;
    Ok(likes_dcz(request).then_some(hash))
}

fn likes_dcz(request: &Head) -> bool {
    let (mut ours, mut others) = (None, 0);
    let lines = request.get_all(names::ACCEPT_ENCODING.as_bytes());
    for member in lines.flat_map(list::members).take(MAX_MEMBERS) {
        let mut parts = member.split(|&c| c == b';');
        let name = chars::trim(parts.next().unwrap_or_default());
        let Some(weight) = weight(parts) else { continue };
        if list::is(name, DCZ.as_bytes()) {
            // The first weight holds.
            ours.get_or_insert(weight);
        } else if name != b"*" && !list::is(name, DCB.as_bytes()) {
            others = others.max(weight);
        }
    }
    ours.is_some_and(|weight| weight >= others.max(1))
}

/// The hash in a structured field that is one byte sequence (RFC 9651 3.3.5).
fn hash_of(field: &[u8]) -> Option<DictionaryHash> {
    let digits = chars::trim(field).strip_prefix(b":")?.strip_suffix(b":")?;
    if digits.len() > 44 {
        return None;
    }
    base::base64::decode(digits)?.try_into().ok()
}

/// True unless the page that asks may not read the response: it is of another origin, and the response isn't shared with that
/// (RFC 9842 9.3.3). Without the fields that browsers send nothing is known against it.
pub fn is_readable(request: &Head, response: &Head) -> bool {
    let Some(site) = request.get("Sec-Fetch-Site") else { return true };
    let Some(mode) = request.get("Sec-Fetch-Mode") else { return true };
    if site == b"same-origin" {
        return true;
    }
    match mode {
        b"navigate" | b"same-origin" => true,
        b"cors" => {
            let allowed = response.get("Access-Control-Allow-Origin");
            let origin = request.get("Origin");
            origin.is_some() && allowed.is_some_and(|allowed| allowed == b"*" || Some(allowed) == origin)
        }
        _ => false,
    }
}

/// The Vary of a response that may be compressed against a dictionary; `None`: it says so already.
pub fn vary_on_dictionary(vary: Option<&[u8]>) -> Option<Vec<u8>> {
    let mut new = vary.unwrap_or_default().to_vec();
    if list::has(&new, b"*") {
        return None;
    }
    for name in [names::ACCEPT_ENCODING, AVAILABLE_DICTIONARY] {
        if !list::has(&new, name.as_bytes()) {
            new.extend_from_slice(if new.is_empty() { b"" } else { b", " });
            new.extend_from_slice(name.as_bytes());
        }
    }
    (Some(&new[..]) != vary).then_some(new)
}

/// True if a Vary says for whom a body is that was compressed against a dictionary elsewhere.
pub fn varies_by_dictionary(vary: &[u8]) -> bool {
    [names::ACCEPT_ENCODING, AVAILABLE_DICTIONARY].iter().all(|name| list::has(vary, name.as_bytes()))
}

#[cfg(test)]
mod tests;
