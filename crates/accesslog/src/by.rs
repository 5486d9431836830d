// SPDX-License-Identifier: BSD-2-Clause
//! What requests are told apart by, each with its name: client, network, URL and so on.

use std::io::Write;
use std::net::IpAddr;
use std::sync::Arc;

use networks::{Database, address, masked};

use crate::agents;
use crate::entry::AccessEntry;

/// The things that a table can have a line for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupBy {
    Client,
    /// The network of a given length that the address is in.
    Network,
    System,
    /// Host and path, without the query.
    Url,
    /// The path, without host and query.
    Path,
    Host,
    /// The program that the User-Agent field names.
    Agent,
    UserAgent,
    /// The page that the Referer field names: what is asked for with it is an element of the page.
    Page,
    Status,
}

/// Name, heading, what it is.
const NAMES: [(GroupBy, &str, &str, &str); 10] = [
    (GroupBy::Client, "client", "Clients", "the client's address"),
    (GroupBy::Network, "network", "Networks", "its network, the first 24 or 64 bits of it"),
    (GroupBy::System, "asn", "Systems", "the autonomous system, by files of --db"),
    (GroupBy::Url, "url", "URLs", "host and path"),
    (GroupBy::Path, "path", "Paths", "the path, of all hosts"),
    (GroupBy::Host, "host", "Hosts", "the host"),
    (GroupBy::Agent, "agent", "Programs", "browser, robot or library, by User-Agent"),
    (GroupBy::UserAgent, "user-agent", "User-Agents", "the whole User-Agent"),
    (GroupBy::Page, "page", "Pages", "the page that an element belongs to, by Referer"),
    (GroupBy::Status, "status", "Statuses", "the answer's status"),
];

impl GroupBy {
    pub fn all() -> impl Iterator<Item = (GroupBy, &'static str, &'static str)> {
        NAMES.iter().map(|(by, word, _, text)| (*by, *word, *text))
    }

    pub fn from_word(word: &str) -> Option<GroupBy> {
        NAMES.iter().find(|row| row.1 == word).map(|row| row.0)
    }

    fn row(self) -> &'static (GroupBy, &'static str, &'static str, &'static str) {
        // A test sees to it that each is there.
        NAMES.iter().find(|row| row.0 == self).unwrap_or(&NAMES[0])
    }

    pub fn word(self) -> &'static str {
        self.row().1
    }

    pub fn heading(self) -> &'static str {
        self.row().2
    }
}

#[derive(Clone, Default)]
pub struct GroupKeys {
    pub networks: Option<Arc<Database>>,
    pub bits: Bits,
    pub with_query: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bits {
    pub v4: u8,
    pub v6: u8,
}

impl Default for Bits {
    fn default() -> Bits {
        Bits { v4: 24, v6: 64 }
    }
}

impl GroupKeys {
    /// Writes it into `key` (emptied first); `-` where the log doesn't say.
    pub fn write(&self, by: GroupBy, entry: &AccessEntry<'_>, key: &mut Vec<u8>) {
        key.clear();
        match by {
            GroupBy::Client => key.extend_from_slice(entry.client.as_deref().unwrap_or_default()),
            GroupBy::Network => self.network(entry, key),
            GroupBy::System => self.system(entry, key),
            GroupBy::Url => {
                key.extend(entry.host.as_deref().unwrap_or_default().iter().map(u8::to_ascii_lowercase));
                key.extend_from_slice(self.path(&entry.target));
            }
            GroupBy::Path => key.extend_from_slice(self.path(&entry.target)),
            GroupBy::Host => key.extend(entry.host.as_deref().unwrap_or_default().iter().map(u8::to_ascii_lowercase)),
            GroupBy::Agent => key.extend_from_slice(&agents::class(entry.field("User-Agent").unwrap_or_default())),
            GroupBy::UserAgent => key.extend_from_slice(entry.field("User-Agent").unwrap_or_default()),
            GroupBy::Page => self.page(entry.field("Referer").unwrap_or_default(), key),
            GroupBy::Status => {
                if let Some(status) = entry.status {
                    let _ = write!(key, "{status}");
                }
            }
        }
        if key.is_empty() {
            key.push(b'-');
        }
    }

    fn path<'a>(&self, target: &'a [u8]) -> &'a [u8] {
        let end = target.iter().position(|b| *b == b'?').filter(|_| !self.with_query);
        &target[..end.unwrap_or(target.len())]
    }

    /// A page as its own requests are called by URL: host and path.
    fn page(&self, referer: &[u8], key: &mut Vec<u8>) {
        let end = referer.iter().position(|b| *b == b'#').unwrap_or(referer.len());
        let begin = referer.windows(3).position(|w| w == b"://").map_or(0, |at| at + 3).min(end);
        let url = self.path(&referer[begin..end]);
        let host = url.iter().position(|b| *b == b'/').unwrap_or(url.len());
        key.extend(url[..host].iter().map(u8::to_ascii_lowercase));
        key.extend_from_slice(&url[host..]);
    }

    fn network(&self, entry: &AccessEntry<'_>, key: &mut Vec<u8>) {
        let Some(address) = entry.client.as_deref().and_then(address) else { return };
        let bits = if address.is_ipv4() { self.bits.v4 } else { self.bits.v6 };
        let _ = write!(key, "{}/{bits}", masked(address, bits));
    }

    fn system(&self, entry: &AccessEntry<'_>, key: &mut Vec<u8>) {
        let found = |address: IpAddr| {
            let database = self.networks.as_ref()?;
            let asn = database.origin(address).asn;
            (asn != 0).then(|| (asn, database.name(asn)))
        };
        if let Some((asn, name)) = entry.client.as_deref().and_then(address).and_then(found) {
            let _ = write!(key, "AS{asn}");
            name.into_iter().for_each(|name| drop(write!(key, " {name}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::Cow;

    #[test]
    fn each_has_a_name() {
        for (by, word, _) in GroupBy::all() {
            assert_eq!((GroupBy::from_word(word), by.word()), (Some(by), word));
        }
    }

    #[test]
    fn keys_of_a_request() {
        let field =
            |name: &'static str, value: &'static str| (Cow::Borrowed(name.as_bytes()), Cow::Borrowed(value.as_bytes()));
        let entry = AccessEntry {
            client: Some(Cow::Borrowed(b"192.0.2.7")),
            host: Some(Cow::Borrowed(b"WWW.a.nz")),
            target: Cow::Borrowed(b"/x?y=1"),
            fields: vec![field("user-agent", "curl/7"), field("Referer", "https://WWW.a.nz/P?q=2#top")],
            status: Some(404),
            ..AccessEntry::default()
        };
        let all = |keys: &GroupKeys, entry: &AccessEntry<'_>| {
            let mut key = Vec::new();
            let one = |(by, _, _)| {
                keys.write(by, entry, &mut key);
                String::from_utf8_lossy(&key).into_owned()
            };
            GroupBy::all().map(one).collect::<Vec<String>>()
        };
        assert_eq!(
            all(&GroupKeys::default(), &entry),
            ["192.0.2.7", "192.0.2.0/24", "-", "www.a.nz/x", "/x", "www.a.nz", "curl", "curl/7", "www.a.nz/P", "404"]
        );
        let keys = GroupKeys { bits: Bits { v4: 8, v6: 32 }, with_query: true, ..GroupKeys::default() };
        assert_eq!(
            all(&keys, &entry)[1..9],
            ["192.0.0.0/8", "-", "www.a.nz/x?y=1", "/x?y=1", "www.a.nz", "curl", "curl/7", "www.a.nz/P?q=2"]
        );
        assert_eq!(all(&keys, &AccessEntry::default()), ["-"; 10]);
        let mapped = AccessEntry { client: Some(Cow::Borrowed(b"::ffff:192.0.2.1")), ..AccessEntry::default() };
        assert_eq!(all(&GroupKeys::default(), &mapped)[1], "192.0.2.0/24");
    }
}
