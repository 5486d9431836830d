// SPDX-License-Identifier: BSD-2-Clause
//! The messages between manager and checker: fields of a length and bytes, in a fixed order.

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckerSource {
    /// The text, preceded by its name.
    Text(String, Vec<u8>),
    /// A file, searched along vcl_path.
    File(String),
    /// All sources, as a bundle from another machine. No other file is included.
    Bundle(Vec<u8>),
}

/// Forbids VCL 4.0: an address is a unix socket's, and 4.0 needs an IP address to show.
pub const SINCE_4_1: &str = "since_4_1";
/// Begins the feature that names the release to be compatible with.
pub const COMPAT: &str = "compat=";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRequest {
    pub source: CheckerSource,
    pub vcl_path: String,
    /// Allowed features: `allow_inline_c`, `err_unref`, `unsafe_path`, `lazy_hosts`, `prefer_ipv6`; also `dialect=2.1`, `compat=9` and [`SINCE_4_1`].
    pub features: Vec<String>,
    pub stores: Vec<String>,
    pub labels: Vec<String>,
    /// Value of -C: write a listing instead of the bundle.
    pub listing: bool,
    /// Listeners to which no VCL may send all its requests, each as `name=address` or `name=/path`.
    pub listeners: Vec<String>,
}

fn put(out: &mut Vec<u8>, field: &[u8]) {
    out.extend_from_slice(&(field.len() as u32).to_le_bytes());
    out.extend_from_slice(field);
}

fn take<'a>(from: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = from.split_first_chunk::<4>()?;
    let len = u32::from_le_bytes(*len) as usize;
    let field = rest.get(..len)?;
    *from = &rest[len..];
    Some(field)
}

fn take_text(from: &mut &[u8]) -> Option<String> {
    String::from_utf8(take(from)?.to_vec()).ok()
}

fn take_list(from: &mut &[u8]) -> Option<Vec<String>> {
    Some(take_text(from)?.split_ascii_whitespace().map(String::from).collect())
}

/// Reads texts until the end.
fn take_rest(from: &mut &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    while !from.is_empty() {
        texts.push(take_text(from)?);
    }
    Some(texts)
}

impl CheckRequest {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match &self.source {
            CheckerSource::Text(name, text) => {
                put(&mut out, b"text");
                put(&mut out, name.as_bytes());
                put(&mut out, text);
            }
            CheckerSource::File(name) => {
                put(&mut out, b"file");
                put(&mut out, name.as_bytes());
                put(&mut out, b"");
            }
            CheckerSource::Bundle(bytes) => {
                put(&mut out, b"bundle");
                put(&mut out, b"");
                put(&mut out, bytes);
            }
        }
        put(&mut out, self.vcl_path.as_bytes());
        for list in [&self.features, &self.stores, &self.labels] {
            put(&mut out, list.join(" ").as_bytes());
        }
        put(&mut out, if self.listing { b"listing" } else { b"" });
        self.listeners.iter().for_each(|listener| put(&mut out, listener.as_bytes()));
        out
    }

    /// Reads the output of `encode`. `None` if `bytes` is anything else.
    pub fn decode(mut bytes: &[u8]) -> Option<CheckRequest> {
        let from = &mut bytes;
        let kind = take(from)?;
        let (name, text) = (take_text(from)?, take(from)?);
        let source = match kind {
            b"text" => CheckerSource::Text(name, text.to_vec()),
            b"file" => CheckerSource::File(name),
            b"bundle" => CheckerSource::Bundle(text.to_vec()),
            _ => return None,
        };
        Some(CheckRequest {
            source,
            vcl_path: take_text(from)?,
            features: take_list(from)?,
            stores: take_list(from)?,
            labels: take_list(from)?,
            listing: take(from)? == b"listing",
            listeners: take_rest(from)?,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Good {
    pub labels: Vec<String>,
    /// Files of client certificates with keys for its backends.
    pub key_files: Vec<String>,
    pub text: Vec<u8>,
}

impl Good {
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, self.labels.join(" ").as_bytes());
        put(&mut out, &self.text);
        self.key_files.iter().for_each(|path| put(&mut out, path.as_bytes()));
        out
    }

    pub fn decode(mut bytes: &[u8]) -> Option<Good> {
        let from = &mut bytes;
        let (labels, text) = (take_list(from)?, take(from)?.to_vec());
        Some(Good { labels, key_files: take_rest(from)?, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_survives_the_way() {
        let request = CheckRequest {
            source: CheckerSource::Text("<vcl.inline>".into(), b"vcl 4.1;".to_vec()),
            vcl_path: "/etc/varnish".into(),
            features: vec!["err_unref".into()],
            stores: vec!["s0".into(), "Transient".into()],
            labels: Vec::new(),
            listing: true,
            listeners: vec!["a0=127.0.0.1:80".into(), "a1=/a b".into()],
        };
        for source in [request.source.clone(), CheckerSource::File("a.vcl".into()), CheckerSource::Bundle(vec![0, 255])]
        {
            let request = CheckRequest { source, ..request.clone() };
            assert_eq!(CheckRequest::decode(&request.encode()), Some(request));
        }
    }

    #[test]
    fn what_is_good_survives_the_way() {
        let good =
            Good { labels: vec!["l".into()], key_files: vec!["a b".into(), "c".into()], text: b"bundle".to_vec() };
        assert_eq!(Good::decode(&good.encode()), Some(good));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_answered(bytes in proptest::collection::vec(proptest::num::u8::ANY, 0..64)) {
            let _ = CheckRequest::decode(&bytes);
            let _ = Good::decode(&bytes);
        }
    }
}
