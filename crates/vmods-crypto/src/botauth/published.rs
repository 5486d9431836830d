// SPDX-License-Identifier: BSD-2-Clause
//! Bots that are known by the address ranges that their operators publish in files. A client that claims the name of such a bot from another
//! address is logged and counted.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use networks::PublishedRanges;
use tables::Tag;
use vmod_support::args::fail;
use vmod_support::files::ParsedFiles;
use vrt::vmod::{BOOL, CallResult, INT, STRING, VmodCall, give};
use vrt::{HeadId, Method, Text};

const MAX_FILE: u64 = 16 << 20;
const MAX_FILES: usize = 100;
/// Bytes of a User-Agent in which names are looked for, as many as accounts of clients know of it.
const AGENT_BYTES: usize = 256;

static FILES: ParsedFiles<PublishedRanges> = ParsedFiles::new(MAX_FILE, |bytes| PublishedRanges::parse(&bytes));

#[derive(Default)]
pub(super) struct Published {
    /// Changes in vcl_init only, and each request may read it twice.
    bots: ArcSwap<Vec<PublishedBot>>,
}

#[derive(Clone)]
struct PublishedBot {
    name: Text,
    ranges: Arc<PublishedRanges>,
}

pub(super) fn add(this: &Arc<Published>, call: &mut VmodCall<'_>, name: &[u8], file: &[u8]) -> CallResult<INT> {
    if call.method != Method::Init {
        return fail("botauth: add() works in vcl_init only");
    }
    if name.is_empty() || !name.iter().all(|c| message::chars::is_token(&[*c])) {
        return fail(format!("botauth: add(): \"{}\" is no name of a bot", name.escape_ascii()));
    }
    if this.bots.load().len() >= MAX_FILES {
        return fail(format!("botauth: add(): more than {MAX_FILES} files"));
    }
    let path = PathBuf::from(String::from_utf8_lossy(file).into_owned());
    match FILES.share(&path) {
        Ok(ranges) => {
            let count = ranges.prefixes();
            let bot = PublishedBot { name: Text::from(name), ranges };
            this.bots.rcu(|bots| bots.iter().chain([&bot]).cloned().collect::<Vec<_>>());
            give(count as i64)
        }
        Err(reason) => fail(format!("botauth: add(): {}: {reason}", path.display())),
    }
}

pub(super) fn bot(this: &Arc<Published>, _: &mut VmodCall<'_>, ip: Option<SocketAddr>) -> CallResult<STRING> {
    give(this.owner(ip))
}

/// True if the User-Agent names a bot of which no file has the address.
pub(super) fn is_spoofed(this: &Arc<Published>, call: &mut VmodCall<'_>, ip: Option<SocketAddr>) -> CallResult<BOOL> {
    let agent = call.ctx.head(HeadId::Req).and_then(|head| head.get("User-Agent")).unwrap_or_default();
    let Some((claimed, is_of_it)) = this.claimed(agent, ip) else { return give(false) };
    let is_spoofed = !is_of_it;
    if is_spoofed {
        if let Some(main) = call.ctx.main_counters() {
            main.bot_spoofed.inc();
        }
        let name = base::text::printable(&claimed.lossy()).to_string();
        call.ctx.log().putf(Tag::VclLog, format_args!("botauth: spoofed {name}: the address isn't in its ranges"));
    }
    give(is_spoofed)
}

impl Published {
    fn owner(&self, ip: Option<SocketAddr>) -> Option<Text> {
        let ip = ip?.ip();
        self.bots.load().iter().find(|bot| bot.ranges.has(ip)).map(|bot| bot.name.clone())
    }

    /// The first listed name in the User-Agent. True if a file of a name in it has the address: a name may have several files.
    fn claimed(&self, agent: &[u8], ip: Option<SocketAddr>) -> Option<(Text, bool)> {
        let agent = &agent[..agent.len().min(AGENT_BYTES)];
        let bots = self.bots.load();
        let is_named = |bot: &&PublishedBot| {
            let name = bot.name.as_bytes();
            agent.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
        };
        let mut named = bots.iter().filter(is_named).peekable();
        let first = named.peek()?.name.clone();
        Some((first, ip.is_some_and(|ip| named.any(|bot| bot.ranges.has(ip.ip())))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_range_belong_together() {
        let bot = |name: &str, prefix: &str| {
            let json = format!("{{\"prefixes\":[{{\"ipv4Prefix\":\"{prefix}\"}}]}}");
            let ranges = PublishedRanges::parse(json.as_bytes()).expect("valid");
            PublishedBot { name: Text::from(name.as_bytes()), ranges: Arc::new(ranges) }
        };
        let bots = vec![
            bot("Googlebot", "192.0.2.0/25"),
            bot("bingbot", "198.51.100.0/24"),
            bot("Googlebot", "203.0.113.0/24"),
        ];
        let published = Published { bots: ArcSwap::from_pointee(bots) };
        let claim = |agent: &str, address: &str| {
            let ip = Some(SocketAddr::new(address.parse().expect("an address"), 1));
            published.claimed(agent.as_bytes(), ip).map(|(_, is_of_it)| is_of_it)
        };
        assert_eq!(claim("Mozilla/5.0 (compatible; googlebot/2.1)", "192.0.2.1"), Some(true));
        assert_eq!(claim("Googlebot", "203.0.113.1"), Some(true), "its second file");
        assert_eq!(claim("Googlebot", "198.51.100.1"), Some(false), "another bot's range excuses nothing");
        assert_eq!(claim("bingbot", "198.51.100.1"), Some(true));
        assert_eq!(claim("Firefox", "198.51.100.1"), None);
        let padded = |len: usize| format!("{}bingbot", " ".repeat(len));
        assert_eq!(claim(&padded(AGENT_BYTES - 7), "192.0.2.1"), Some(false));
        assert_eq!(claim(&padded(AGENT_BYTES - 6), "192.0.2.1"), None, "beyond the bytes that are read");
    }
}
