// SPDX-License-Identifier: BSD-2-Clause
//! Bots that are known by the address ranges that their operators publish in files. A client that claims the name of such a bot from another
//! address is logged and counted.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use networks::PublishedRanges;
use parking_lot::RwLock;
use tables::Tag;
use vmod_support::args::fail;
use vmod_support::files::ParsedFiles;
use vrt::vmod::{BOOL, CallResult, INT, STRING, VmodCall, give};
use vrt::{HeadId, Method, Text};

const MAX_FILE: u64 = 16 << 20;
const MAX_FILES: usize = 100;

static FILES: ParsedFiles<PublishedRanges> = ParsedFiles::new(MAX_FILE, |bytes| PublishedRanges::parse(&bytes));

#[derive(Default)]
pub(super) struct Published {
    bots: RwLock<Vec<PublishedBot>>,
}

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
    if this.bots.read().len() >= MAX_FILES {
        return fail(format!("botauth: add(): more than {MAX_FILES} files"));
    }
    let path = PathBuf::from(String::from_utf8_lossy(file).into_owned());
    match FILES.share(&path) {
        Ok(ranges) => {
            let count = ranges.prefixes();
            this.bots.write().push(PublishedBot { name: Text::from(name), ranges });
            give(count as i64)
        }
        Err(reason) => fail(format!("botauth: add(): {}: {reason}", path.display())),
    }
}

/// The bot that has the address.
pub(super) fn bot(this: &Arc<Published>, _: &mut VmodCall<'_>, ip: Option<SocketAddr>) -> CallResult<STRING> {
    give(this.owner(ip))
}

/// True if the User-Agent names a bot of which the address isn't.
pub(super) fn is_spoofed(this: &Arc<Published>, call: &mut VmodCall<'_>, ip: Option<SocketAddr>) -> CallResult<BOOL> {
    let agent = call.ctx.head(HeadId::Req).and_then(|head| head.get("User-Agent")).unwrap_or_default();
    let Some(claimed) = this.claimed(agent) else { return give(false) };
    let owner = this.owner(ip);
    let is_spoofed = owner.is_none();
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
        self.bots.read().iter().find(|bot| bot.ranges.has(ip)).map(|bot| bot.name.clone())
    }

    fn claimed(&self, agent: &[u8]) -> Option<Text> {
        let names = |bot: &&PublishedBot| {
            let name = bot.name.as_bytes();
            agent.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name))
        };
        self.bots.read().iter().find(names).map(|bot| bot.name.clone())
    }
}
