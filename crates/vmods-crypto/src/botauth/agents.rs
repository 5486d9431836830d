// SPDX-License-Identifier: BSD-2-Clause
//! Names of agents: the hosts at which their directories are, and whose directories may be fetched.

use std::net::IpAddr;

/// Names of a list.
const MAX_NAMES: usize = 1000;

/// A host, and a port if it isn't 443, in small letters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Agent(String);

impl Agent {
    /// Reads the origin that a Signature-Agent names, `https://host` with or without a slash at its end.
    pub(super) fn of_uri(uri: &str) -> Option<Agent> {
        let (scheme, rest) = uri.split_at_checked(8)?;
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if scheme.eq_ignore_ascii_case("https://") { Agent::parse(authority) } else { None }
    }

    fn parse(authority: &str) -> Option<Agent> {
        let authority = authority.to_ascii_lowercase();
        let is_plain = |c: u8| c.is_ascii_alphanumeric() || b"-._:[]".contains(&c);
        if authority.len() > 260
            || !authority.bytes().all(is_plain)
            || !message::authority::is_valid(authority.as_bytes())
        {
            return None;
        }
        let authority = authority.strip_suffix(":443").or(authority.strip_suffix(':')).unwrap_or(&authority);
        let agent = Agent(authority.to_owned());
        (!agent.host().is_empty()).then_some(agent)
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    fn host(&self) -> &str {
        match self.0.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => self.0.split(':').next().unwrap_or_default(),
        }
    }

    /// The domain whose owner may name this host: two labels, or three below a suffix such as co.uk or com.au.
    pub(super) fn site(&self) -> &str {
        let host = self.host();
        let ends: Vec<usize> = host.rmatch_indices('.').map(|(at, _)| at).take(3).collect();
        let label = |from: usize, to: usize| &host[ends[from] + 1..to];
        let is_suffix = ends.len() >= 2 && label(0, host.len()).len() == 2 && label(1, ends[0]).len() <= 3;
        ends.get(if is_suffix { 2 } else { 1 }).map_or(host, |at| &host[at + 1..])
    }

    /// True for a full DNS name on the port of https.
    fn is_public_name(&self) -> bool {
        !self.0.contains(':') && self.0.trim_end_matches('.').contains('.') && self.0.parse::<IpAddr>().is_err()
    }
}

/// The reason for which a directory may be fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// VCL names it: at any address.
    Listed,
    /// The client names it: at public addresses, and not many at a time.
    Open,
}

/// The agents that VCL accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AgentList {
    names: Vec<Agent>,
    /// Ends of names, with the dot before them.
    below: Vec<String>,
    is_any: bool,
}

impl AgentList {
    /// Reads names between blanks or commas: `host`, `host:port`, `*.host`, `any`.
    pub(super) fn parse(text: &str) -> Result<AgentList, String> {
        let mut list = AgentList::default();
        for word in text.split([' ', '\t', '\n', '\r', ',']).filter(|word| !word.is_empty()) {
            let bad = || format!("\"{}\" is neither a host nor \"any\"", word.escape_debug());
            match word.strip_prefix("*.") {
                Some(name) => {
                    let below = Agent::parse(name).filter(|agent| !agent.0.contains([':', '*'])).ok_or_else(bad)?;
                    list.below.push(format!(".{}", below.0));
                }
                None if word == "any" => list.is_any = true,
                None => list.names.push(Agent::of_uri(word).or_else(|| Agent::parse(word)).ok_or_else(bad)?),
            }
            if list.names.len() + list.below.len() > MAX_NAMES {
                return Err(format!("more than {MAX_NAMES} agents"));
            }
        }
        Ok(list)
    }

    pub(super) fn lane(&self, agent: &Agent) -> Option<Lane> {
        if self.names.contains(agent) {
            return Some(Lane::Listed);
        }
        let is_open = self.is_any || self.below.iter().any(|end| agent.0.ends_with(end));
        (is_open && agent.is_public_name()).then_some(Lane::Open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_is_an_https_origin() {
        let name = |uri: &str| Agent::of_uri(uri).map(|agent| agent.0);
        for (uri, want) in [
            ("https://Signature-Agent.test", "signature-agent.test"),
            ("HTTPS://a.test/", "a.test"),
            ("https://a.test:443", "a.test"),
            ("https://a.test:8443/", "a.test:8443"),
            ("https://[2001:DB8::1]:443", "[2001:db8::1]"),
        ] {
            assert_eq!(name(uri).as_deref(), Some(want));
        }
        for uri in [
            "http://a.test",
            "a.test",
            "https://",
            "https:///",
            "https://a.test/x",
            "https://a.test?",
            "https://a.test#",
            "https://u@a.test",
            "https://a.test:99999",
            "https://a%2e.test",
            "https://a b",
            "https://é.test",
            "https://:1",
            "data:,",
            "",
            "https://a.test//",
            "https://a.test\r\nX: y",
        ] {
            assert_eq!(name(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_site_is_what_one_owner_names() {
        for (uri, want) in [
            ("https://a.test", "a.test"),
            ("https://x.y.a.test:1", "a.test"),
            ("https://x.a.co.uk", "a.co.uk"),
            ("https://a.co.uk", "a.co.uk"),
            ("https://b.shop.de", "shop.de"),
            ("https://localhost", "localhost"),
        ] {
            assert_eq!(Agent::of_uri(uri).expect("an agent").site(), want);
        }
    }

    #[test]
    fn lists() {
        let list = AgentList::parse("a.test, localhost:8443\n127.0.0.1 *.b.test https://c.test/").expect("a list");
        let lane = |list: &AgentList, uri: &str| list.lane(&Agent::of_uri(uri).expect("an agent"));
        for uri in ["https://a.test", "https://localhost:8443", "https://127.0.0.1", "https://c.test"] {
            assert_eq!(lane(&list, uri), Some(Lane::Listed), "{uri}");
        }
        assert_eq!(lane(&list, "https://x.b.test"), Some(Lane::Open));
        for uri in ["https://b.test", "https://xb.test", "https://localhost", "https://x.b.test:8443", "https://d.test"]
        {
            assert_eq!(lane(&list, uri), None, "{uri}");
        }
        let any = AgentList::parse("any").expect("a list");
        assert_eq!(lane(&any, "https://d.test"), Some(Lane::Open));
        for uri in
            ["https://localhost", "https://127.0.0.1", "https://[::1]", "https://d.test:8443", "https://localhost."]
        {
            assert_eq!(lane(&any, uri), None, "{uri}");
        }
        for text in ["a b/c", "*", "*.", "*.a:1", "http://a", "*.*.a", "a@b"] {
            assert!(AgentList::parse(text).is_err_and(|reason| reason.contains("neither a host")), "{text}");
        }
        assert_eq!(AgentList::parse(&"a ".repeat(1001)), Err("more than 1000 agents".to_owned()));
    }
}
