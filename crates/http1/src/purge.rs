// SPDX-License-Identifier: BSD-2-Clause
//! Requests of programs that purge, and that send a whole URL for a Host: `BAN /a HTTP/1.0` with `Host: http://www.example.org`.
//! Before VCL they become what was meant, the host and the URL of the object; varnishd leaves them as they are, and they hit
//! nothing. Only methods that say so: no other request may have two opinions of its host.

use message::authority::{self, TargetForm};
use message::{Head, LostHeader, names};

/// Methods that programs purge with; VCL gives them their meaning.
const METHODS: [&[u8]; 7] = [b"BAN", b"PURGE", b"REFRESH", b"URIBAN", b"DOMAINPURGE", b"FULLBAN", b"URLPURGE"];

pub(crate) fn is_method(method: &[u8]) -> bool {
    METHODS.contains(&method)
}

/// True if this Host is a whole URL of a request that purges.
pub(crate) fn is_purgers_host(method: &[u8], host: &[u8]) -> bool {
    let is_visible = |rest: &[u8]| rest.iter().all(|&c| c > b' ' && c != 0x7f);
    is_method(method)
        && matches!(authority::target(host, true), TargetForm::Absolute { authority, rest }
            if !authority.is_empty() && authority.first() != Some(&b':') && authority::is_valid(authority) && is_visible(rest))
}

/// Makes a Host that [`is_purgers_host`] a host; its path is that of the request, or stands before it.
pub(crate) fn rewrite_host(head: &mut Head) -> Result<(), LostHeader> {
    let host = head.get(names::HOST).unwrap_or_default().to_vec();
    let TargetForm::Absolute { authority, rest } = authority::target(&host, true) else { return Ok(()) };
    let port: &[u8] = if host[..5].eq_ignore_ascii_case(b"https") { b":443" } else { b":80" };
    let name = authority.strip_suffix(port).unwrap_or(authority).to_ascii_lowercase();
    let path = rest.split(|&c| c == b'#').next().unwrap_or_default();
    let url = meant(path, head.url());
    if let Some(url) = url {
        head.set_url(url)?;
    }
    head.set(names::HOST, name)
}

/// The URL that is meant by that of a Host and the request's own, if that isn't it.
fn meant(base: &[u8], url: &[u8]) -> Option<Vec<u8>> {
    let stem = base.strip_suffix(b"/").unwrap_or(base);
    let rest = url.strip_prefix(stem);
    let is_whole = rest.is_some_and(|rest| stem.is_empty() || matches!(rest, [] | [b'/' | b'?', ..]));
    if url.first() != Some(&b'/') {
        // A whole URL of its own says all.
        return None;
    }
    let last = stem.rsplit(|&c| c == b'/').next().unwrap_or_default();
    match () {
        // Host has nothing but `?query`.
        () if base.first() == Some(&b'?') => (url == b"/").then(|| [b"/", base].concat()),
        () if is_whole => None,
        // A page, and not a folder that what is meant lies in.
        () if url == b"/" && (stem.contains(&b'?') || last.contains(&b'.')) => Some(stem.to_vec()),
        () => Some([stem, url].concat()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_mean() {
        let check = |base: &str, url: &str, want: &str| {
            let got = meant(base.as_bytes(), url.as_bytes()).unwrap_or_else(|| url.as_bytes().to_vec());
            assert_eq!(String::from_utf8_lossy(&got), want, "{base} {url}");
        };
        check("", "/a", "/a");
        check("/", "/a", "/a");
        check("/a", "/a", "/a");
        check("/a/", "/a/", "/a/");
        check("/blog", "/blog/2012/", "/blog/2012/");
        check("/blog", "/", "/blog/");
        check("/blog/", "/", "/blog/");
        check("/blog", "/2012/", "/blog/2012/");
        check("/blog", "/blogs", "/blog/blogs");
        check("/a.html", "/", "/a.html");
        check("/a?b", "/", "/a?b");
        check("/a?b", "/a?b", "/a?b");
        check("?b", "/", "/?b");
        check("/blog", "http://x/a", "http://x/a");
    }
}
