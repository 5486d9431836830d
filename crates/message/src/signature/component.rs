// SPDX-License-Identifier: BSD-2-Clause
//! Values of the components that a signature covers: header fields (RFC 9421 2.1) and what is derived from a request (2.2).

use crate::rfc9111::decode_form;
use crate::structured::{self, Dictionary, FieldItem, FieldMember, write_list};
use crate::{Head, chars, names};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComponentFault {
    Absent,
    Repeated,
    Ambiguous,
    Unknown,
    Parameter,
    OfResponse,
    Trailer,
    UnknownType,
    Malformed,
    NotAscii,
    AbsoluteTarget,
    TooMuch,
}

impl ComponentFault {
    pub(super) fn text(self) -> &'static str {
        match self {
            ComponentFault::Absent => "isn't in the request",
            ComponentFault::Repeated => "is covered twice",
            ComponentFault::Ambiguous => "is in the request more than once",
            ComponentFault::Unknown => "isn't a component of requests",
            ComponentFault::Parameter => "has a parameter that isn't allowed there",
            ComponentFault::OfResponse => "req is for signatures of responses",
            ComponentFault::Trailer => "trailers come after the request was judged",
            ComponentFault::UnknownType => "the type of this structured field isn't known",
            ComponentFault::Malformed => "isn't a structured field",
            ComponentFault::NotAscii => "has bytes other than ASCII",
            ComponentFault::AbsoluteTarget => "was an absolute URL, which isn't kept",
            ComponentFault::TooMuch => "the covered components are too long",
        }
    }
}

/// The types of structured fields that requests have; for `sf` only.
static DICTIONARIES: [&[u8]; 8] = [
    b"content-digest",
    b"priority",
    b"repr-digest",
    b"signature",
    b"signature-agent",
    b"signature-input",
    b"want-content-digest",
    b"want-repr-digest",
];
static LISTS: [&[u8]; 6] = [
    b"cache-status",
    b"client-cert-chain",
    b"proxy-status",
    b"sec-ch-ua",
    b"sec-ch-ua-full-version-list",
    b"sec-purpose",
];
static ITEMS: [&[u8]; 8] = [
    b"available-dictionary",
    b"client-cert",
    b"dictionary-id",
    b"incremental",
    b"sec-ch-ua-mobile",
    b"sec-ch-ua-platform",
    b"sec-gpc",
    b"upload-complete",
];

/// Bytes of header fields, URLs and members that are read for the bases of a request, however many signatures it has.
const MAX_WORK: usize = 64 * 1024;

/// A request whose signatures are verified. Fields that are dictionaries are parsed once.
pub struct SignedRequest<'a> {
    pub(super) head: &'a Head,
    is_https: bool,
    dictionaries: Vec<(Vec<u8>, Option<Dictionary>)>,
    work_left: usize,
}

type Value = Result<Vec<u8>, ComponentFault>;

impl<'a> SignedRequest<'a> {
    /// `is_https`: the client has sent the request by https.
    pub fn new(head: &'a Head, is_https: bool) -> Self {
        SignedRequest { head, is_https, dictionaries: Vec::new(), work_left: MAX_WORK }
    }

    fn spend(&mut self, work: usize) -> Result<(), ComponentFault> {
        self.work_left = self.work_left.checked_sub(work).ok_or(ComponentFault::TooMuch)?;
        Ok(())
    }

    pub(super) fn value(&mut self, component: &FieldMember) -> Value {
        let name = component.item.string().unwrap_or_default();
        let parameters = &component.parameters;
        let has = |wanted: &[u8]| parameters.iter().any(|(key, _)| key == wanted);
        if has(b"req") {
            return Err(ComponentFault::OfResponse);
        }
        if has(b"tr") {
            return Err(ComponentFault::Trailer);
        }
        let parameters: Vec<_> = parameters.iter().map(|(key, value)| (&key[..], value)).collect();
        match (name, &parameters[..]) {
            (b"@query-param", [(b"name", FieldItem::String(name))]) => self.query_parameter(name),
            ([b'@', ..], []) => self.derived(name),
            ([b'@', ..], _) => Err(ComponentFault::Parameter),
            _ if name.iter().any(u8::is_ascii_uppercase) => Err(ComponentFault::Absent),
            (_, []) => self.field(name),
            (_, [(b"bs", FieldItem::Boolean(true))]) => self.wrapped(name),
            (_, [(b"sf", FieldItem::Boolean(true))]) => self.strict(name),
            (_, [(b"key", FieldItem::String(key))])
            | (_, [(b"key", FieldItem::String(key)), (b"sf", FieldItem::Boolean(true))])
            | (_, [(b"sf", FieldItem::Boolean(true)), (b"key", FieldItem::String(key))]) => self.member(name, key),
            _ => Err(ComponentFault::Parameter),
        }
    }

    fn derived(&mut self, name: &[u8]) -> Value {
        let url = self.head.url();
        self.spend(url.len())?;
        match name {
            b"@method" => Ok(self.head.method().to_vec()),
            b"@authority" => self.authority(),
            b"@scheme" => Ok(self.scheme().into()),
            // RFC 9421 2.2.5: the signer has signed the target as it was sent.
            b"@request-target" if self.head.had_absolute_target() => Err(ComponentFault::AbsoluteTarget),
            b"@request-target" => Ok(url.to_vec()),
            b"@target-uri" => {
                // The target of `OPTIONS *` has no path (RFC 9112 3.3).
                let rest = if url == b"*" { b"" } else { self.origin_form()? };
                Ok([self.scheme().as_bytes(), b"://", &self.authority()?, rest].concat())
            }
            b"@path" if url == b"*" => Ok(b"/".to_vec()),
            b"@path" => Ok(split(self.origin_form()?).0.to_vec()),
            b"@query" => Ok([b"?", split(url).1.unwrap_or_default()].concat()),
            _ => Err(ComponentFault::Unknown),
        }
    }

    fn origin_form(&self) -> Result<&'a [u8], ComponentFault> {
        let url = self.head.url();
        if url.starts_with(b"/") { Ok(url) } else { Err(ComponentFault::Absent) }
    }

    fn scheme(&self) -> &'static str {
        if self.is_https { "https" } else { "http" }
    }

    /// The host in small letters, without the scheme's own port (RFC 9110 4.2.3).
    fn authority(&self) -> Value {
        let host = self.head.only(names::HOST).filter(|host| !host.is_empty()).ok_or(ComponentFault::Absent)?;
        let own_port: &[u8] = if self.is_https { b":443" } else { b":80" };
        let host = host.strip_suffix(own_port).or(host.strip_suffix(b":")).unwrap_or(host);
        Ok(host.to_ascii_lowercase())
    }

    /// The value of the only query parameter of this name, both encoded in the one way of RFC 9421 2.2.8.
    fn query_parameter(&mut self, name: &[u8]) -> Value {
        self.spend(self.head.url().len())?;
        let query = split(self.head.url()).1.unwrap_or_default();
        let mut found = query.split(|&c| c == b'&').filter(|pair| !pair.is_empty()).filter_map(|pair| {
            let at = pair.iter().position(|&c| c == b'=').unwrap_or(pair.len());
            (recoded(&pair[..at]) == name).then(|| recoded(pair.get(at + 1..).unwrap_or_default()))
        });
        let value = found.next().ok_or(ComponentFault::Absent)?;
        if found.next().is_some() { Err(ComponentFault::Ambiguous) } else { Ok(value) }
    }

    fn lines<'b>(&mut self, name: &'b [u8]) -> Result<Vec<&'b [u8]>, ComponentFault>
    where
        'a: 'b,
    {
        let lines: Vec<&[u8]> = self.head.get_all(name).map(chars::trim).collect();
        self.spend(lines.iter().map(|line| line.len() + 2).sum())?;
        if lines.is_empty() { Err(ComponentFault::Absent) } else { Ok(lines) }
    }

    fn field(&mut self, name: &[u8]) -> Value {
        Ok(self.lines(name)?.join(&b", "[..]))
    }

    fn wrapped(&mut self, name: &[u8]) -> Value {
        let bytes = |line: &&[u8]| FieldMember { item: FieldItem::Bytes(line.to_vec()), parameters: Vec::new() };
        let mut out = Vec::new();
        write_list(&self.lines(name)?.iter().map(bytes).collect::<Vec<_>>(), &mut out);
        Ok(out)
    }

    fn strict(&mut self, name: &[u8]) -> Value {
        let (text, mut out) = (self.field(name)?, Vec::new());
        if DICTIONARIES.contains(&name) {
            self.dictionary(name)?.write(&mut out);
        } else if LISTS.contains(&name) {
            write_list(&structured::list(&text).ok_or(ComponentFault::Malformed)?, &mut out);
        } else if ITEMS.contains(&name) {
            structured::item(&text).ok_or(ComponentFault::Malformed)?.write(&mut out);
        } else {
            return Err(ComponentFault::UnknownType);
        }
        Ok(out)
    }

    /// A member of a dictionary: `key` says that the field is one.
    fn member(&mut self, name: &[u8], key: &[u8]) -> Value {
        let dictionary = self.dictionary(name)?;
        let (mut out, looked_at) = (Vec::new(), dictionary.len());
        dictionary.get(key).ok_or(ComponentFault::Absent)?.write(&mut out);
        self.spend(looked_at + out.len())?;
        Ok(out)
    }

    pub(super) fn dictionary(&mut self, name: &[u8]) -> Result<&Dictionary, ComponentFault> {
        let known = self.dictionaries.iter().position(|(known, _)| known == name);
        let at = match known {
            Some(at) => at,
            None => {
                let parsed = Dictionary::parse(&self.field(name)?);
                self.dictionaries.push((name.to_vec(), parsed));
                self.dictionaries.len() - 1
            }
        };
        self.dictionaries[at].1.as_ref().ok_or(ComponentFault::Malformed)
    }
}

fn split(url: &[u8]) -> (&[u8], Option<&[u8]>) {
    match memchr::memchr(b'?', url) {
        Some(at) => (&url[..at], Some(&url[at + 1..])),
        None => (url, None),
    }
}

/// A name or value of a form, decoded, and encoded again.
fn recoded(text: &[u8]) -> Vec<u8> {
    let text = decode_form(text);
    text.iter().fold(Vec::with_capacity(text.len()), |mut out, &c| {
        if c.is_ascii_alphanumeric() || b"*-._".contains(&c) {
            out.push(c);
        } else {
            out.extend_from_slice(format!("%{c:02X}").as_bytes());
        }
        out
    })
}
