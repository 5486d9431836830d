// SPDX-License-Identifier: BSD-2-Clause
//! What is asked, and where: hosts with all their addresses, and a pool of paths.

use std::io::Read;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::options::{ProbeFamily, ProbeOptions};
use base::lookup::addresses_of_text;

const DEFAULT_PATH: &str = "/ping.html";
/// Most bytes of a list of URLs.
const MOST_LIST: u64 = 16 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProbeTarget {
    /// `HOST` or `HOST:PORT` as in the Host field.
    pub name: String,
    /// All its addresses, in the resolver's order.
    pub addresses: Vec<SocketAddr>,
    pub paths: Vec<String>,
    pub lookup: Duration,
    pub is_tls: bool,
    pub sni: String,
}

impl ProbeTarget {
    /// All hosts of the command line, looked up.
    ///
    /// # Errors
    /// A host that has no address, a list that can't be read.
    pub fn all(options: &ProbeOptions) -> Result<Vec<ProbeTarget>, String> {
        let listed = options.urls.as_deref().map(read_list).transpose()?.unwrap_or_default();
        options.hosts.iter().map(|host| ProbeTarget::of(host, options, &listed)).collect()
    }

    fn of(host: &str, options: &ProbeOptions, listed: &[String]) -> Result<ProbeTarget, String> {
        let (is_tls, authority, own_path) = split_url(host)?;
        let begin = Instant::now();
        let port = match (has_port(authority), is_tls) {
            (true, _) => "",
            (false, false) => ":80",
            (false, true) => ":443",
        };
        let found = addresses_of_text(&format!("{authority}{port}")).map_err(|error| format!("{host}: {error}"))?;
        let mut addresses: Vec<SocketAddr> = Vec::new();
        for address in found.into_iter().filter(|address| match options.family {
            ProbeFamily::Any => true,
            ProbeFamily::V4 => address.is_ipv4(),
            ProbeFamily::V6 => address.is_ipv6(),
        }) {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(format!("{host}: has no address of that family"));
        }
        let given = options.paths.iter().map(String::as_str).chain(own_path).map(|path| Ok(path.to_owned()));
        let of_list = listed.iter().filter_map(|line| path_for(line, is_tls, authority));
        let mut paths = given.chain(of_list).collect::<Result<Vec<String>, String>>()?;
        if let Some(wrong) = paths.iter().find(|path| !is_path(path)) {
            return Err(format!("{wrong:?} is no path: it begins with / and has no blanks"));
        }
        if paths.is_empty() {
            paths.push(DEFAULT_PATH.to_owned());
        }
        let name = options.host.clone().unwrap_or_else(|| authority.to_owned());
        if name.bytes().any(|b| b.is_ascii_control() || b == b' ') {
            return Err(format!("{name:?} is no Host"));
        }
        let sni = options.sni.clone().unwrap_or_else(|| without_port(authority).to_owned());
        Ok(ProbeTarget { name, addresses, paths, lookup: begin.elapsed(), is_tls, sni })
    }
}

/// The parts (true for TLS, authority, path) of `http://HOST[:PORT][/PATH]`, `https://...` or `HOST[:PORT]`.
fn split_url(url: &str) -> Result<(bool, &str, Option<&str>), String> {
    let after = |scheme: &str| {
        let is_it = url.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme));
        is_it.then(|| &url[scheme.len()..])
    };
    let (is_tls, rest) = match after("https://") {
        Some(rest) => (true, rest),
        None => (false, after("http://").unwrap_or(url)),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(&rest[at..]).filter(|path| *path != "/" || url.len() != rest.len())),
        None => (rest, None),
    };
    if authority.is_empty() { Err(format!("{url:?}: names no host")) } else { Ok((is_tls, authority, path)) }
}

fn without_port(authority: &str) -> &str {
    if has_port(authority) { authority.rsplit_once(':').map_or(authority, |(host, _)| host) } else { authority }
}

fn has_port(authority: &str) -> bool {
    let after_address = authority.rfind(']').map_or(authority, |at| &authority[at..]);
    after_address.contains(':')
}

/// The path that a line of a list says for this host: a URL of another host says nothing.
fn path_for(line: &str, is_tls: bool, authority: &str) -> Option<Result<String, String>> {
    if line.starts_with('/') {
        return Some(Ok(line.to_owned()));
    }
    match split_url(line) {
        // One without a scheme is the host's, whichever it has.
        Ok((tls, own, path)) => (own.eq_ignore_ascii_case(authority) && (tls == is_tls || !line.contains("://")))
            .then(|| Ok(path.unwrap_or("/").to_owned())),
        Err(error) => Some(Err(error)),
    }
}

fn is_path(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|b| b > b' ' && b != 0x7f)
}

fn read_list(file: &str) -> Result<Vec<String>, String> {
    let mut text = String::new();
    let read = match file {
        "-" => std::io::stdin().take(MOST_LIST).read_to_string(&mut text),
        file => std::fs::File::open(file).and_then(|list| list.take(MOST_LIST).read_to_string(&mut text)),
    };
    read.map_err(|error| format!("--urls {file}: {error}"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(lines.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_split() {
        assert_eq!(split_url("www.example.org"), Ok((false, "www.example.org", None)));
        assert_eq!(split_url("HTTP://www.example.org:81/a?b"), Ok((false, "www.example.org:81", Some("/a?b"))));
        assert_eq!(split_url("https://www.example.org/a"), Ok((true, "www.example.org", Some("/a"))));
        assert_eq!(["a:1", "[::1]:1", "[::1]", "a"].map(without_port), ["a", "[::1]", "[::1]", "a"]);
        assert!(split_url("http:///a").is_err());
        assert!(has_port("a:1") && has_port("[::1]:1") && !has_port("[::1]") && !has_port("a"));
    }

    #[test]
    fn a_list_is_for_its_host() {
        let paths = |line| path_for(line, false, "a.example");
        assert_eq!(paths("/x"), Some(Ok("/x".to_owned())));
        assert_eq!(paths("http://a.example/y"), Some(Ok("/y".to_owned())));
        assert_eq!(paths("http://b.example/y"), None);
        assert_eq!(paths("https://a.example/y"), None);
        assert_eq!(path_for("https://a.example/y", true, "a.example"), Some(Ok("/y".to_owned())));
        assert_eq!(path_for("a.example/y", true, "a.example"), Some(Ok("/y".to_owned())));
        assert!(!is_path("/a b") && !is_path("a") && is_path("/%20?x=1"));
    }
}
