// SPDX-License-Identifier: BSD-2-Clause
//! The filters of a body by name, in their order: what `beresp.filters` and `resp.filters` say.

use std::borrow::Cow;

use message::Coding;

use crate::Packed;

/// A filter by its name. One that joins is a variant here, and the compiler points at what has to know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterName<'a> {
    Esi,
    /// Makes a page's ESI program and packs the page with gzip, so that it can be cut at fragments.
    EsiGzip,
    Gunzip,
    Gzip,
    Range,
    TestGunzip,
    Pack(Packed),
    Unpack(Packed),
    Check(Packed),
    /// One that a module injected, if there is any of that name.
    Injected(&'a [u8]),
}

impl<'a> FilterName<'a> {
    const OURS: [FilterName<'static>; 12] = [
        FilterName::Esi,
        FilterName::EsiGzip,
        FilterName::Gunzip,
        FilterName::Gzip,
        FilterName::Range,
        FilterName::TestGunzip,
        FilterName::Pack(Packed::Brotli),
        FilterName::Unpack(Packed::Brotli),
        FilterName::Check(Packed::Brotli),
        FilterName::Pack(Packed::Zstd),
        FilterName::Unpack(Packed::Zstd),
        FilterName::Check(Packed::Zstd),
    ];

    pub const fn as_bytes(self) -> &'a [u8] {
        match self {
            FilterName::Esi => b"esi",
            FilterName::EsiGzip => b"esi_gzip",
            FilterName::Gunzip => b"gunzip",
            FilterName::Gzip => b"gzip",
            FilterName::Range => b"range",
            FilterName::TestGunzip => b"testgunzip",
            FilterName::Pack(Packed::Brotli) => b"br",
            FilterName::Unpack(Packed::Brotli) => b"unbr",
            FilterName::Check(Packed::Brotli) => b"testbr",
            FilterName::Pack(Packed::Zstd) => b"zstd",
            FilterName::Unpack(Packed::Zstd) => b"unzstd",
            FilterName::Check(Packed::Zstd) => b"testzstd",
            FilterName::Injected(name) => name,
        }
    }

    /// The filter that undoes a coding; `None` where there is nothing to undo, or we can't.
    pub const fn undoing(coding: Coding) -> Option<FilterName<'static>> {
        match coding {
            Coding::Gzip => Some(FilterName::Gunzip),
            Coding::Brotli => Some(FilterName::Unpack(Packed::Brotli)),
            Coding::Zstd => Some(FilterName::Unpack(Packed::Zstd)),
            Coding::Identity => None,
        }
    }

    pub const fn undone(self) -> Option<Coding> {
        match self {
            FilterName::Gunzip => Some(Coding::Gzip),
            FilterName::Unpack(packed) => Some(packed.coding()),
            FilterName::Esi
            | FilterName::EsiGzip
            | FilterName::Gzip
            | FilterName::Range
            | FilterName::TestGunzip
            | FilterName::Pack(_)
            | FilterName::Check(_)
            | FilterName::Injected(_) => None,
        }
    }
}

impl<'a> From<&'a [u8]> for FilterName<'a> {
    fn from(name: &'a [u8]) -> Self {
        Self::OURS.into_iter().find(|ours| ours.as_bytes() == name).unwrap_or(FilterName::Injected(name))
    }
}

/// The filters of one body as text, which goes to the log and to VCL as it is: ours has a blank in front of each name, as
/// varnishd writes it, VCL's may have anything between two.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FilterList(Cow<'static, [u8]>);

impl FilterList {
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn names(&self) -> FilterNames<'_> {
        FilterNames(&self.0)
    }

    pub fn undoes_coding(&self) -> bool {
        self.names().any(|name| name.undone().is_some())
    }
}

impl From<&'static str> for FilterList {
    fn from(names: &'static str) -> Self {
        Self(names.as_bytes().into())
    }
}

impl From<Vec<u8>> for FilterList {
    fn from(names: Vec<u8>) -> Self {
        Self(names.into())
    }
}

/// Each blank in front of a name, as our own lists have it.
impl<'a> FromIterator<FilterName<'a>> for FilterList {
    fn from_iter<I: IntoIterator<Item = FilterName<'a>>>(names: I) -> Self {
        let names = names.into_iter().flat_map(|name| [b" ", name.as_bytes()]);
        Self(names.flatten().copied().collect())
    }
}

#[derive(Clone, Debug)]
pub struct FilterNames<'a>(&'a [u8]);

impl<'a> FilterNames<'a> {
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for FilterNames<'a> {
    type Item = FilterName<'a>;

    fn next(&mut self) -> Option<FilterName<'a>> {
        let start = self.0.iter().position(|c| !c.is_ascii_whitespace())?;
        let from = &self.0[start..];
        let len = from.iter().position(u8::is_ascii_whitespace).unwrap_or(from.len());
        let name;
        (name, self.0) = from.split_at(len);
        Some(name.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_whatever_is_between_its_names() {
        for (text, names) in [
            ("", vec![]),
            (" ", vec![]),
            (" esi gunzip range", vec![FilterName::Esi, FilterName::Gunzip, FilterName::Range]),
            ("testgunzip  esi_gzip\tgzip\n", vec![FilterName::TestGunzip, FilterName::EsiGzip, FilterName::Gzip]),
            ("Gzip xbody", vec![FilterName::Injected(b"Gzip"), FilterName::Injected(b"xbody")]),
        ] {
            let list = FilterList::from(text);
            assert_eq!(list.names().collect::<Vec<_>>(), names, "{text:?}");
            assert_eq!((list.as_bytes(), list.is_empty()), (text.as_bytes(), text.is_empty()));
            let ours: FilterList = list.names().collect();
            assert_eq!(ours.names().collect::<Vec<_>>(), names, "{text:?}");
        }
        let mut names = FilterNames(b" a  b c");
        assert_eq!((names.nth(1), names.rest()), (Some(FilterName::Injected(b"b")), &b" c"[..]));
    }

    #[test]
    fn what_undoes_a_coding() {
        for coding in Coding::ALL {
            let undoing = FilterName::undoing(coding);
            assert!(undoing.is_none_or(|name| name.undone() == Some(coding)), "{coding:?}");
        }
        assert_eq!(["gzip testgunzip", "esi gunzip"].map(|list| FilterList::from(list).undoes_coding()), [false, true]);
        for name in FilterName::OURS {
            assert_eq!(FilterName::from(name.as_bytes()), name);
        }
    }
}
