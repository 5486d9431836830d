// SPDX-License-Identifier: BSD-2-Clause
//! Virtual hosts that Apache told apart by the address or port of the connection.

use super::listen::{self, TlsPorts};
use super::reader::Line;
use super::section::Sections;
use crate::migrated::Migrated;

/// The conditions under which a request would reach a virtual host by an address or port that it wasn't for: they all have one port now, and
/// Host alone tells them apart.
pub(super) fn addresses(lines: &[Line], ports: &TlsPorts, sections: &Sections, migrated: &mut Migrated) -> Vec<String> {
    let all: Vec<(&Line, Vec<&str>)> = lines
        .iter()
        .filter(|line| line.words[0].eq_ignore_ascii_case("<virtualhost"))
        .map(|line| {
            let mut words = listen::addresses(line);
            words.sort_unstable();
            (line, words)
        })
        // The reader has refused addresses of TLS: such a host is to be merged with the one without TLS.
        .filter(|(_, words)| words.is_empty() || !words.iter().all(|word| ports.has(word)))
        .collect();
    let plain =
        |words: &[&str]| words.iter().filter(|word| !ports.has(word)).map(ToString::to_string).collect::<Vec<_>>();
    let Some((_, first)) = all.first() else { return Vec::new() };
    if all.iter().all(|(_, words)| plain(words) == plain(first)) {
        return Vec::new();
    }
    let mut out = Vec::new();
    for (line, words) in &all {
        let text = "virtual hosts of other addresses or ports become one listener: those that ask by another one for this host are answered with 403";
        migrated.refuse(&line.place, "VirtualHost", text);
        let Some(host) = sections.host(&line.place) else { continue };
        let own: Option<Vec<String>> = words.iter().map(|word| arrival(word)).collect();
        // The address of a name is unknown here: nobody reaches that host.
        let own = own.unwrap_or_else(|| vec!["false".to_owned()]).join(" || ");
        out.push(
            [host, format!("!({own})")].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" && "),
        );
    }
    out
}

/// The condition under which a request came in by an address of `<VirtualHost>`; None of a name.
fn arrival(word: &str) -> Option<String> {
    let (host, port) = match word.rsplit_once(':').filter(|(host, _)| !host.starts_with('[') || host.ends_with(']')) {
        Some((host, port)) => (host, Some(port)),
        None => (word, None),
    };
    let mut all = Vec::new();
    if let Some(port) = port.filter(|port| *port != "*") {
        all.push(format!("std.port(local.ip) == {}", port.parse::<u16>().ok()?));
    }
    if host != "*" && !host.eq_ignore_ascii_case("_default_") {
        let ip: std::net::IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        all.push(format!("local.ip == \"{ip}\""));
    }
    Some(if all.is_empty() { "true".to_owned() } else { all.join(" && ") })
}
