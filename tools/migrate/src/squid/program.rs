// SPDX-License-Identifier: BSD-2-Clause
//! The program: the lists of rules, the choice of a peer and the lifetimes, as subroutines.

use std::collections::BTreeSet;

use super::acl::{HOST, PATH, WHOLE, compared};
use super::peer::Peer;
use super::refresh::URL;
use super::rule::first_match;
use super::{Squid, push};
use crate::migrated::Migrated;
use crate::vcl;

impl Squid {
    pub(super) fn finish(mut self, migrated: &mut Migrated) {
        let mut recv = Vec::new();
        match &self.default_site {
            Some((site, true)) => recv.push(format!("set req.http.Host = \"{site}\";")),
            Some((site, false)) => recv.push(format!("if (!req.http.Host) {{ set req.http.Host = \"{site}\"; }}")),
            None => {}
        }
        let at = recv.len();
        recv.push(
            "# Each list in order: the first line that holds decides, then the opposite of the last one.".to_owned(),
        );
        recv.extend(self.list("http_access", false, "return (synth(403));"));
        let direct = first_match(self.rules.get("always_direct").map_or(&[][..], Vec::as_slice), false);
        if direct != "false" {
            recv.extend(vcl::chain(vec![(
                if direct == "true" { String::new() } else { direct },
                vec!["return (synth(503));".to_owned()],
            )]));
        }
        let mut init = Vec::new();
        recv.extend(vcl::chain(self.choice(&mut init)));
        if self.is_passing {
            recv.push("return (pass);".to_owned());
        } else {
            let is_unsafe = "if (req.method != \"GET\" && req.method != \"HEAD\") { return (pass); }";
            recv.push(is_unsafe.to_owned());
            recv.extend(self.list("cache", true, "return (pass);"));
            if self.is_ignoring_reload {
                recv.extend(["unset req.http.Cache-Control;", "unset req.http.Pragma;"].map(str::to_owned));
            }
            recv.extend(self.reloads());
            recv.push("if (req.http.Pragma ~ \"(?i)no-cache\") { set req.hash_always_miss = true; }".to_owned());
            recv.push("return (hash);".to_owned());
        }
        let mut missed = match self.rules.contains_key("miss_access") {
            true => self.list("miss_access", true, "return (synth(403));"),
            false => Vec::new(),
        };
        let mut text = "vcl 4.1;\n\nimport std;\n".to_owned();
        let is_compared = recv.iter().chain(&missed).any(|line| line.contains("req.http.Squid-"));
        if is_compared {
            text.push_str("import blob;\n");
            let scheme = match migrated.tls.is_empty() {
                true => "\"http\"",
                false => "regsub(req.http.X-Forwarded-Proto, \"^(?!https$).*$\", \"http\")",
            };
            let lines = compared(scheme).into_iter();
            let own = if migrated.tls.is_empty() { "80" } else { "80|443" };
            recv.splice(at..at, lines.map(|line| line.replace("OWN PORTS", own)));
        }
        if !init.is_empty() {
            text.push_str("import directors;\n");
        }
        // A peer that no request may go to is an error in VCL.
        let chosen: String = recv.iter().chain(&init).cloned().collect();
        let used = |peer: &&Peer| {
            [format!("= {};", peer.name), format!("({});", peer.name)].iter().any(|end| chosen.contains(end.as_str()))
        };
        self.peers.retain(|peer| used(&peer));
        self.peers.iter().for_each(|peer| text.push_str(&peer.text));
        if self.peers.is_empty() {
            text.push_str("\nbackend default none;\n");
        }
        text.push_str(&vcl::sub("vcl_init", &init));
        // An acl that no rule names is an error in VCL.
        let named: BTreeSet<&str> = recv.iter().chain(&missed).flat_map(|line| named_acls(line)).collect();
        for (name, networks) in self.networks.iter().filter(|(name, _)| named.contains(name.as_str())) {
            let lines: Vec<String> = networks.iter().map(|network| format!("{network};")).collect();
            text.push_str(&format!("\nacl {name} {{\n{}}}\n", vcl::indented(&lines, 1)));
        }
        text.push_str(&vcl::sub("vcl_recv", &recv));
        let mut passed = missed.clone();
        if !self.is_passing {
            passed.push("if (req.http.Cache-Control ~ \"(?i)only-if-cached\") { return (synth(504)); }".to_owned());
        }
        text.push_str(&vcl::sub("vcl_pass", &passed));
        if !self.is_passing {
            // squid keeps the response to a HEAD for other HEADs alone.
            missed.push("if (req.method == \"HEAD\") { return (pass); }".to_owned());
        }
        text.push_str(&vcl::sub("vcl_miss", &missed));
        let hosts = self.peers.iter().filter_map(|peer| {
            let host = peer.host.as_ref()?;
            Some(format!("if (bereq.backend == {}) {{ set bereq.http.Host = \"{host}\"; }}", peer.name))
        });
        let mut fetch: Vec<String> = hosts.collect();
        let mut response = if self.is_passing { String::new() } else { self.response() };
        let url = URL;
        if !fetch.is_empty() && response.contains(url) {
            // The URL is the one that came in, also where the peer gets another Host.
            text = text.replacen("import std;\n", "import std;\nimport cookie;\n", 1);
            fetch.insert(0, format!("cookie.set(\"url\", {url});"));
            response = response.replace(url, "cookie.get(\"url\")");
        }
        if is_compared {
            fetch.extend([HOST, PATH, WHOLE].map(|name| format!("unset be{name};")));
        }
        text.push_str(&vcl::sub("vcl_backend_fetch", &fetch));
        text.push_str(&response);
        if !self.is_passing {
            text.push_str(&vcl::sub("vcl_deliver", &self.deliver()));
            push(migrated, "-p", "feature=+rfc9111");
        }
        migrated.vcl = text;
        if !migrated.tls.is_empty() {
            push(migrated, "-p", "x_forwarded_proto=on");
        }
    }
}

/// The acls that a line compares the client with.
fn named_acls(line: &str) -> impl Iterator<Item = &str> {
    const TEST: &str = "client.ip ~ ";
    line.match_indices(TEST).map(|(at, _)| {
        let rest = &line[at + TEST.len()..];
        &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len())]
    })
}
