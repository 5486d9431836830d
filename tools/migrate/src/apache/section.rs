// SPDX-License-Identifier: BSD-2-Clause
//! Apache's sections, and the conditions under which a request is in them.

use super::listen::{TlsPorts, addresses, port};
use super::reader::Line;
use crate::source::SourcePlace;
use crate::vcl;

/// The path without its query, decoded.
pub(super) const PATH: &str = "req.http.Apache-Path";

/// The sections around a line, and what is known of virtual hosts.
pub(super) struct Sections {
    hosts: Vec<VirtualHost>,
    is_quick: bool,
    pub open: Vec<Section>,
}

struct VirtualHost {
    place: SourcePlace,
    names: Vec<String>,
    /// Ports of the host if all of them are of TLS, else none: Apache chose by name among those of a port, and among the others.
    tls_ports: Vec<String>,
    /// True if none of its addresses is of TLS.
    is_plain: bool,
    /// None: as the main server.
    is_quick: Option<bool>,
}

/// A section: its name in small letters, and the condition under which a request is in it; None of one that can't be translated.
pub(super) struct Section {
    pub name: String,
    pub condition: Option<String>,
    place: SourcePlace,
}

impl Sections {
    pub(super) fn new(lines: &[Line], ports: &TlsPorts) -> Sections {
        let mut all = Sections { hosts: Vec::new(), is_quick: true, open: Vec::new() };
        let mut is_inside = false;
        for line in lines {
            match line.name().as_str() {
                "<virtualhost" => {
                    is_inside = true;
                    all.hosts.push(VirtualHost {
                        place: line.place.clone(),
                        names: Vec::new(),
                        tls_ports: tls_alone(line, ports),
                        is_plain: !addresses(line).iter().any(|address| ports.has(address)),
                        is_quick: None,
                    });
                }
                "</virtualhost>" => is_inside = false,
                "servername" | "serveralias" if is_inside => {
                    let names = line.words.iter().skip(1).map(|name| {
                        let name = name.rsplit_once("://").map_or(name.as_str(), |(_, name)| name);
                        name.split(':').next().unwrap_or_default().to_owned()
                    });
                    if let Some(host) = all.hosts.last_mut() {
                        host.names.extend(names);
                    }
                }
                "cachequickhandler" => {
                    let is_quick = !line.word(1).eq_ignore_ascii_case("off");
                    match all.hosts.last_mut() {
                        Some(host) if is_inside => host.is_quick = Some(is_quick),
                        _ => all.is_quick = is_quick,
                    }
                }
                _ => {}
            }
        }
        all
    }

    pub(super) fn take(&mut self, name: &str, line: &Line) -> bool {
        if let Some(name) = name.strip_prefix("</") {
            let name = name.trim_end_matches('>');
            if let Some(at) = self.open.iter().rposition(|section| section.name == name) {
                self.open.truncate(at);
            }
            return true;
        }
        let Some(name) = name.strip_prefix('<') else { return false };
        let name = name.trim_end_matches('>').to_owned();
        let argument = line.word(1).trim_end_matches('>');
        let condition = match name.as_str() {
            _ if line.words.iter().any(|word| word.contains("${")) => None,
            "virtualhost" => self.host(&line.place),
            "location" if argument == "~" => matching(line.word(2).trim_end_matches('>')),
            "location" if !argument.contains(['*', '?', '[']) => Some(below(argument)),
            "locationmatch" => matching(argument),
            "limit" => methods(line).map(|all| format!("req.method ~ \"^({all})$\"")),
            "limitexcept" => methods(line).map(|all| format!("req.method !~ \"^({all})$\"")),
            // They say how rules of access are joined, not for which requests.
            "requireall" | "requireany" | "requirenone" => Some(String::new()),
            _ => None,
        };
        self.open.push(Section { name, condition, place: line.place.clone() });
        true
    }

    /// The condition under which a virtual host gets a request: the first one of its address that has the name does, and the first of all one that no
    /// other has.
    pub(super) fn host(&self, place: &SourcePlace) -> Option<String> {
        let this = self.hosts.iter().find(|host| host.place == *place)?;
        let is_beside = |host: &&VirtualHost| match this.tls_ports.is_empty() {
            true => host.tls_ports.is_empty(),
            false => host.tls_ports.iter().any(|port| this.tls_ports.contains(port)),
        };
        let hosts: Vec<&VirtualHost> = self.hosts.iter().filter(is_beside).collect();
        let at = hosts.iter().position(|host| host.place == *place)?;
        let of = |is_not: bool, names: &[String]| {
            let list: Vec<String> =
                names.iter().map(|name| vcl::literal(name).replace("\\*", ".*").replace("\\?", ".")).collect();
            let found = vcl::one_of("req.http.Host", is_not, ("(?i)^(", ")\\.?(:\\d*)?$"), &list)?;
            Some(if found.contains(" || ") { format!("({found})") } else { found })
        };
        let own = &this.names;
        let is_own = |name: &String| own.iter().any(|known| known.eq_ignore_ascii_case(name));
        let others: Vec<String> = match at {
            0 => hosts[1..].iter().flat_map(|host| &host.names).filter(|name| !is_own(name)).cloned().collect(),
            _ => hosts[..at].iter().flat_map(|host| &host.names).cloned().collect(),
        };
        let mut all = Vec::new();
        if !this.tls_ports.is_empty() {
            let ports: Vec<String> =
                this.tls_ports.iter().map(|port| format!("std.port(local.ip) == {port}")).collect();
            all.push(if ports.len() > 1 { format!("({})", ports.join(" || ")) } else { ports.concat() });
        }
        match (at, own.is_empty(), others.is_empty()) {
            (0, _, true) => {}
            (0, true, false) => all.push(of(true, &others)?),
            (0, false, false) => all.push(format!("({} || {})", of(false, own)?, of(true, &others)?)),
            (_, true, _) => return None,
            (_, false, is_first) => {
                all.push(of(false, own)?);
                all.extend(if is_first { None } else { Some(of(true, &others)?) });
            }
        }
        Some(all.join(" && "))
    }

    /// The condition of all sections around; None where one of them can't be translated.
    pub(super) fn condition(&self) -> Option<String> {
        let all: Option<Vec<&str>> = self.open.iter().map(|section| section.condition.as_deref()).collect();
        Some(all?.into_iter().filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" && "))
    }

    pub(super) fn unknown(&self) -> &str {
        self.open.iter().find(|section| section.condition.is_none()).map_or("", |section| section.name.as_str())
    }

    /// The condition of the sections around whose condition is known: they hold for more than is in all of them.
    pub(super) fn known(&self) -> String {
        let all = self.open.iter().filter_map(|section| section.condition.as_deref());
        all.filter(|condition| !condition.is_empty()).collect::<Vec<_>>().join(" && ")
    }

    /// True within a section that Apache knows only once it has a path for the request.
    pub(super) fn is_in_path(&self) -> bool {
        const OF_SERVERS: [&str; 6] = ["virtualhost", "ifmodule", "ifdefine", "ifversion", "iffile", "ifdirective"];
        self.open.iter().any(|section| !OF_SERVERS.contains(&section.name.as_str()))
    }

    /// The turn in which Apache merges the sections around: servers before paths, the main server's before those of a virtual host.
    pub(super) fn rank(&self) -> usize {
        let is_in_host = self.open.iter().any(|section| section.name == "virtualhost");
        usize::from(is_in_host) + 2 * usize::from(self.is_in_path())
    }

    fn own_host(&self) -> Option<&VirtualHost> {
        let place = self.open.iter().find(|section| section.name == "virtualhost").map(|section| &section.place);
        self.hosts.iter().find(|host| Some(&host.place) == place)
    }

    /// True within a virtual host all of whose addresses are of TLS.
    pub(super) fn is_of_tls(&self) -> bool {
        self.own_host().is_some_and(|host| !host.tls_ports.is_empty())
    }

    /// True within a virtual host all of whose requests have one scheme.
    pub(super) fn has_one_scheme(&self) -> bool {
        self.own_host().is_some_and(|host| host.is_plain || !host.tls_ports.is_empty())
    }

    /// True if mod_cache decides here before sections are known, by the URL as it came.
    pub(super) fn is_quick(&self) -> bool {
        self.own_host().and_then(|host| host.is_quick).unwrap_or(self.is_quick)
    }

    pub(super) fn is_cached(&self, lines: &[Line]) -> bool {
        let has = |line: &Line| line.words[0].eq_ignore_ascii_case("cacheenable");
        self.open.iter().any(|section| section.name.starts_with("location")) && lines.iter().any(has)
    }
}

/// The ports of a `<VirtualHost>` if all its addresses are of TLS, else none.
fn tls_alone(line: &Line, ports: &TlsPorts) -> Vec<String> {
    let all = addresses(line);
    match all.iter().all(|address| ports.has(address)) {
        true => all.into_iter().filter_map(port).collect(),
        false => Vec::new(),
    }
}

/// Paths below one, and itself: `/a` has `/a` and `/a/b`, but not `/ab`.
fn below(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => String::new(),
        _ if path.ends_with('/') => format!("{PATH} ~ \"^{}\"", vcl::literal(path)),
        bare => format!("{PATH} ~ \"^{}(/|$)\"", vcl::literal(bare)),
    }
}

fn matching(regex: &str) -> Option<String> {
    (!regex.is_empty()).then_some(format!("{PATH} ~ {}", vcl::string(regex)?))
}

/// The methods of `<Limit>`; GET is HEAD, too.
fn methods(line: &Line) -> Option<String> {
    let words = line.words.iter().skip(1).map(|word| word.trim_end_matches('>')).filter(|word| !word.is_empty());
    let mut all: Vec<&str> = words.collect();
    if all.contains(&"GET") {
        all.push("HEAD");
    }
    let is_name = |word: &&str| word.bytes().all(|c| c.is_ascii_alphabetic());
    (!all.is_empty() && all.iter().all(is_name)).then(|| all.join("|"))
}
