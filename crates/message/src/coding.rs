// SPDX-License-Identifier: BSD-2-Clause
//! Codings of bodies (RFC 9110 8.4.1): what Content-Encoding names and Accept-Encoding asks for.
//!
//! A coding that joins is one more variant of [`Coding`]: the compiler then points at each place that has to know what it
//! does with it. Which of them we make and undo ourselves is `Params::supported_codings`.

use crate::{Head, Liked, list, names};

/// Content codings of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Coding {
    /// They are its content.
    #[default]
    Identity,
    /// Gzip, as in RFC 1952.
    Gzip,
    /// Brotli, as in RFC 7932.
    Brotli,
    /// Zstandard, as in RFC 8878.
    Zstd,
}

impl Coding {
    /// Every coding there is.
    pub const ALL: [Coding; 4] = [Coding::Identity, Coding::Gzip, Coding::Brotli, Coding::Zstd];

    /// The token in Content-Encoding and Accept-Encoding.
    pub const fn token(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Brotli => "br",
            Coding::Zstd => "zstd",
        }
    }

    /// The coding of a body whose Content-Encoding has this value, all lines of it; `None` when it is any other one, or several.
    ///
    /// Only a body without the field is in [`Coding::Identity`]. Neither `identity` as a value nor `x-gzip`, though RFC 9110
    /// takes that for `gzip`, is known to varnishd, which leaves such bodies alone.
    pub fn of_content(value: Option<&[u8]>) -> Option<Self> {
        let Some(value) = value else { return Some(Coding::Identity) };
        Self::ALL.into_iter().skip(1).find(|coding| list::is(value, coding.token().as_bytes()))
    }

    /// True if the client accepts it: Accept-Encoding has it with a weight above 0 (RFC 9110 12.5.3). A star doesn't
    /// count, and nobody refuses [`Coding::Identity`], as in varnishd.
    pub fn is_accepted_by(self, request: &Head) -> bool {
        let Some(value) = request.joined(names::ACCEPT_ENCODING) else { return self == Coding::Identity };
        match self {
            Coding::Identity => true,
            Coding::Gzip => list::has(&value, b"x-gzip") || list::quality(&value, b"gzip") > 0.0,
            Coding::Brotli | Coding::Zstd => list::quality(&value, self.token().as_bytes()) > 0.0,
        }
    }
}

/// A set of codings other than [`Coding::Identity`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Codings(u8);

impl Codings {
    /// No coding: bodies are stored and delivered as they come.
    pub const NONE: Codings = Codings(0);
    /// The set of `gzip` alone.
    pub const GZIP: Codings = Codings(1 << Coding::Gzip as u8);

    /// With that coding, too.
    pub const fn with(self, coding: Coding) -> Self {
        match coding {
            Coding::Identity => self,
            Coding::Gzip | Coding::Brotli | Coding::Zstd => Codings(self.0 | 1 << coding as u8),
        }
    }

    /// Adds the coding or removes it.
    pub fn set(&mut self, coding: Coding, is_in: bool) {
        let bit = Self::NONE.with(coding).0;
        self.0 = if is_in { self.0 | bit } else { self.0 & !bit };
    }

    /// The codings that are in both sets.
    #[must_use]
    pub const fn and(self, other: Codings) -> Codings {
        Codings(self.0 & other.0)
    }

    /// True if the coding is in the set.
    pub const fn has(self, coding: Coding) -> bool {
        self.0 & (1 << coding as u8) != 0
    }

    /// True if we can decompress this coding in bodies that we receive. VCL has always been able to with gzip.
    pub const fn can_undo(self, coding: Coding) -> bool {
        match coding {
            Coding::Identity | Coding::Gzip => true,
            Coding::Brotli | Coding::Zstd => self.has(coding),
        }
    }

    /// True for the empty set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if others than gzip are in the set, whose clients say what they prefer.
    pub const fn are_several(self) -> bool {
        self.0 & !Self::GZIP.0 != 0
    }

    /// Accept-Encoding for backends, the coding that compresses best first; `None`: the field stays as it is.
    pub fn asked_for(self) -> Option<&'static str> {
        match (self.has(Coding::Gzip), self.has(Coding::Brotli), self.has(Coding::Zstd)) {
            (false, _, _) => None,
            (true, false, false) => Some("gzip"),
            (true, true, false) => Some("br, gzip"),
            (true, false, true) => Some("zstd, gzip"),
            (true, true, true) => Some("br, zstd, gzip"),
        }
    }

    /// The codings of the set that the client accepts, the preferred one first.
    pub fn liked_by(self, request: &Head) -> Liked {
        if self.are_several() {
            return Liked::read(request.get_all(names::ACCEPT_ENCODING.as_bytes()), self);
        }
        let takes_gzip = self.has(Coding::Gzip) && Coding::Gzip.is_accepted_by(request);
        if takes_gzip { Liked::only(Coding::Gzip) } else { Liked::default() }
    }

    /// True if a body in that coding, which a filter has made or checked, has to be decompressed for this client. For
    /// gzip a parameter says whether we do.
    pub fn is_undone_for(self, coding: Coding, request: &Head) -> bool {
        match coding {
            Coding::Identity => false,
            Coding::Gzip => self.has(coding) && !coding.is_accepted_by(request),
            Coding::Brotli | Coding::Zstd => !coding.is_accepted_by(request),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn codings_are_read_from_all_lines() {
        let mut head = Head::new();
        head.append(names::ACCEPT_ENCODING, "br").unwrap();
        head.append(names::ACCEPT_ENCODING, "gzip").unwrap();
        assert!(Coding::Gzip.is_accepted_by(&head) && Coding::Brotli.is_accepted_by(&head));
        assert!(!Coding::Zstd.is_accepted_by(&head));
        head.append(names::CONTENT_ENCODING, "gzip").unwrap();
        head.append(names::CONTENT_ENCODING, "gzip").unwrap();
        assert_eq!(Coding::of_content(head.joined(names::CONTENT_ENCODING).as_deref()), None, "compressed twice");
    }

    fn request(accept_encoding: &str) -> Head {
        let mut head = Head::new();
        head.append(names::ACCEPT_ENCODING, accept_encoding).unwrap();
        head
    }

    fn preferred(accept_encoding: &str) -> Option<String> {
        text(Codings::GZIP, &request(accept_encoding))
    }

    fn text(codings: Codings, request: &Head) -> Option<String> {
        codings.liked_by(request).text().map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn content_encoding_names_one_coding_or_none_that_is_known() {
        assert_eq!(Coding::of_content(None), Some(Coding::Identity));
        for (value, coding) in
            [("gzip", Coding::Gzip), ("GZip", Coding::Gzip), ("Br", Coding::Brotli), ("zstd", Coding::Zstd)]
        {
            assert_eq!(Coding::of_content(Some(value.as_bytes())), Some(coding), "{value}");
        }
        for value in ["", "identity", "x-gzip", "deflate", "gzip, br", "gzip,", " gzip", "brotli"] {
            assert_eq!(Coding::of_content(Some(value.as_bytes())), None, "{value}");
        }
    }

    #[test]
    fn a_coding_joins_a_set_and_leaves_it() {
        let mut codings = Codings::GZIP;
        codings.set(Coding::Brotli, true);
        codings.set(Coding::Identity, true);
        assert_eq!(codings, Codings::GZIP.with(Coding::Brotli));
        assert_eq!(codings.and(Codings::GZIP.with(Coding::Zstd)), Codings::GZIP);
        codings.set(Coding::Gzip, false);
        codings.set(Coding::Zstd, false);
        assert_eq!(codings, Codings::NONE.with(Coding::Brotli));
    }

    #[test]
    fn accept_encoding_becomes_gzip_or_goes() {
        for yes in ["gzip", "x-gzip", "br, GZIP;q=0.5", "deflate, gzip", "gzip;q=1.0, *;q=0"] {
            assert_eq!(preferred(yes), Some("gzip".to_owned()), "{yes}");
        }
        for no in ["", "br", "gzip;q=0", "gzip;q=0.0", "*", "gzipped"] {
            assert_eq!(preferred(no), None, "{no}");
        }
        assert_eq!(text(Codings::NONE, &request("gzip")), None);
    }

    #[test]
    fn what_a_client_does_not_take_is_undone_where_we_can() {
        let (plain, both) = (request("br;q=0.1, gzip;q=0"), request("zstd, gzip"));
        let undone =
            |codings: Codings, request: &Head| Coding::ALL.map(|coding| codings.is_undone_for(coding, request));
        assert_eq!(undone(Codings::GZIP, &plain), [false, true, false, true]);
        assert_eq!(undone(Codings::GZIP, &Head::new()), [false, true, true, true]);
        assert_eq!(undone(Codings::GZIP, &both), [false, false, true, false]);
        assert_eq!(undone(Codings::NONE, &plain), [false, false, false, true]);
        assert_eq!(Coding::ALL.map(|coding| coding.is_accepted_by(&plain)), [true, false, true, false]);
        assert_eq!(Coding::ALL.map(|coding| coding.is_accepted_by(&both)), [true, true, false, true]);
    }

    #[test]
    fn origins_are_asked_for_the_preferred_coding_first() {
        let (br, zstd) = (Codings::GZIP.with(Coding::Brotli), Codings::GZIP.with(Coding::Zstd));
        let asked_for = [Codings::NONE, Codings::GZIP, br, zstd, br.with(Coding::Zstd)].map(Codings::asked_for);
        assert_eq!(asked_for, [None, Some("gzip"), Some("br, gzip"), Some("zstd, gzip"), Some("br, zstd, gzip")]);
    }

    proptest! {
        #[test]
        fn any_accept_encoding_becomes_gzip_or_goes(value in "(gzip|x-gzip|br|\\*|[;, \t=]|q=|[01](\\.[0-9]{0,3})?|[!-~]){0,9}") {
            let mut head = request(value.trim());
            if let Some(made) = text(Codings::GZIP, &head) {
                prop_assert_eq!(&made, "gzip");
                head.set(names::ACCEPT_ENCODING, &made).unwrap();
                prop_assert_eq!(text(Codings::GZIP, &head), Some(made));
            }
        }
    }
}
