// SPDX-License-Identifier: BSD-2-Clause
//! What an `<esi:include>` asks for.

use crate::{Complaint, Features};

/// One include, its URL decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Include {
    /// Host of an absolute URL, for the fragment's Host field; `None` keeps the parent's.
    pub host: Option<Vec<u8>>,
    /// The URL's path and query. Relative ones are already put under the parent's directory when they come out of a
    /// program; from the parser they come as they are, without a leading `/`.
    pub url: Vec<u8>,
    /// `onerror="continue"`: a failed fragment is left out. Else it breaks the delivery, if the feature
    /// `esi_include_onerror` is on.
    pub continue_on_error: bool,
}

impl Include {
    /// Takes src apart. A warning may come with a good include.
    pub(crate) fn from_src(
        src: &[u8],
        continue_on_error: bool,
        features: Features,
    ) -> (Result<Self, Complaint>, Option<Complaint>) {
        let (rest, warning) = if let Some(rest) = src.strip_prefix(b"http://") {
            (Some(rest), None)
        } else if let Some(rest) = src.strip_prefix(b"https://") {
            if !features.ignore_https {
                return (Err(Complaint::HttpsIgnored), None);
            }
            (Some(rest), Some(Complaint::HttpsTreated))
        } else {
            (None, None)
        };
        // Control characters have no place in a request line; entities can't make any.
        if src.iter().any(|&c| c < 0x20 || c == 0x7f) {
            return (Err(Complaint::InvalidUrl), warning);
        }
        let (host, path) = match rest {
            None => (None, src),
            Some(rest) => match rest.iter().position(|&c| c == b'/') {
                None => return (Err(Complaint::InvalidUrl), warning),
                Some(slash) => (Some(rest[..slash].to_vec()), &rest[slash..]),
            },
        };
        (Ok(Self { host, url: decode(path), continue_on_error }), warning)
    }

    /// Whether the URL is to be put under the parent's directory.
    pub(crate) fn is_relative(&self) -> bool {
        self.host.is_none() && self.url.first() != Some(&b'/')
    }
}

/// The five entities of XML.
const ENTITIES: [(&[u8], u8); 5] =
    [(b"&apos;", b'\''), (b"&quot;", b'"'), (b"&lt;", b'<'), (b"&gt;", b'>'), (b"&amp;", b'&')];

fn decode(mut text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let entity = ENTITIES.iter().find(|(name, _)| text.starts_with(name));
        let (byte, after) = entity.map_or((first, rest), |(name, byte)| (*byte, &text[name.len()..]));
        out.push(byte);
        text = after;
    }
    out
}

/// The directory that relative URLs of a page are under: its URL up to the last `/` before the query, without it. A URL
/// without any is one itself, as in varnishd.
pub(crate) fn directory(url: &[u8]) -> &[u8] {
    let path = url.split(|&c| c == b'?').next().unwrap_or(url);
    path.iter().rposition(|&c| c == b'/').map_or(path, |slash| &path[..slash])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(src: &str, want: Result<(Option<&str>, &str), Complaint>) {
        let got = Include::from_src(src.as_bytes(), false, Features::default()).0;
        let text = |v: &[u8]| String::from_utf8_lossy(v).into_owned();
        let got = got.map(|i| (i.host.map(|h| text(&h)), text(&i.url)));
        assert_eq!(got, want.map(|(h, u)| (h.map(String::from), u.to_string())), "{src}");
    }

    #[test]
    fn sources() {
        check("/a?b=c&amp;d=&quot;e&apos;", Ok((None, "/a?b=c&d=\"e'")));
        check("http://h:80/a&lt;&gt;", Ok((Some("h:80"), "/a<>")));
        check("http://h", Err(Complaint::InvalidUrl));
        check("https://h/", Err(Complaint::HttpsIgnored));
        check("a/b&nope;&am", Ok((None, "a/b&nope;&am")));
        check("/\u{1}", Err(Complaint::InvalidUrl));
        check("", Ok((None, "")));
    }

    #[test]
    fn directories() {
        let check = |url: &str, want: &str| assert_eq!(directory(url.as_bytes()), want.as_bytes(), "{url}");
        check("/", "");
        check("/a/b", "/a");
        check("/a/b/?c=/d", "/a/b");
        check("bar", "bar");
        check("bar?c=/d", "bar");
    }
}
