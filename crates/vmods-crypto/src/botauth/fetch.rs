// SPDX-License-Identifier: BSD-2-Clause
//! One fetch of a directory, on a thread of the pool for blocking calls.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base::Vxid;
use base::text::printable;
use message::Head;
use shm::vsl::{LogRing, Marker};
use tables::Tag;
use tables::counters::Main;
use tls::TlsClient;
use tls::verify::Verify;
use webclient::{ClearText, WebTarget, connect_where, in_words, talk_to};

use super::agents::{Agent, Lane};
use super::cut;
use super::directories::{FetchTurn, Fetched};
use super::keys::KeySet;

const PATH: &str = "/.well-known/http-message-signatures-directory";
const MEDIA_TYPE: &str = "application/http-message-signatures-directory+json";
const MAX_BYTES: usize = 256 * 1024;
const TIME: Duration = Duration::from_secs(10);
/// Lifetime of a directory: without Cache-Control, at least, at most.
const LIFE: Duration = Duration::from_secs(3600);
const MIN_LIFE: Duration = Duration::from_secs(60);
const MAX_LIFE: Duration = Duration::from_secs(86_400);

pub(super) fn start(turn: FetchTurn, log: Arc<LogRing>, main: Option<&'static Main>) {
    let name = turn.agent.name().to_owned();
    let no_thread_log = log.clone();
    let fetch = move || {
        let fetched = at_large().and_then(|tls| fetch(&turn.agent, turn.lane, &tls)).unwrap_or_else(Fetched::Failed);
        if let Fetched::Withdrawn(reason) | Fetched::Failed(reason) = &fetched {
            note(&log, main, turn.agent.name(), reason);
        }
        turn.finish(fetched);
    };
    // The turn is dropped with the call.
    if let Err(no_thread) = rt::hand_off(fetch) {
        note(&no_thread_log, main, &name, no_thread.text());
    }
}

fn note(log: &LogRing, main: Option<&'static Main>, agent: &str, reason: &str) {
    if let Some(main) = main {
        main.bot_directory_fail.inc();
    }
    let reason = cut(reason);
    log.write_onef(Tag::Error, Vxid::NONE, Marker::None, format_args!("botauth: directory of {agent}: {reason}"));
}

fn at_large() -> Result<Arc<TlsClient>, String> {
    tls::origin::at_large(Verify::ChainAndName)
}

fn fetch(agent: &Agent, lane: Lane, tls: &Arc<TlsClient>) -> Result<Fetched, String> {
    let target = WebTarget::parse(&format!("https://{}{PATH}", agent.name()), ClearText::Loopback)?;
    let until = base::clock::now() + TIME;
    let may_ask = |address: &SocketAddr| lane == Lane::Listed || is_public(address.ip());
    let request = format!(
        "GET {PATH} HTTP/1.1\r\nHost: {}\r\nAccept: {MEDIA_TYPE}\r\nAccept-Encoding: identity\r\n\
         User-Agent: Lacquer-botauth\r\nConnection: close\r\n\r\n",
        target.authority
    );
    let (mut body, mut is_too_long) = (Vec::new(), false);
    let mut take = |piece: &[u8]| {
        is_too_long = body.len() + piece.len() > MAX_BYTES;
        if is_too_long {
            return Err(io::Error::other("too long"));
        }
        body.extend_from_slice(piece);
        Ok(())
    };
    let link = connect_where(&target, tls, until, &may_ask).map_err(|error| in_words(&error))?;
    match talk_to(link, request.as_bytes(), false, &mut take) {
        Ok(head) => Ok(read(&head, &body)),
        Err(_) if is_too_long => Ok(Fetched::Withdrawn(format!("longer than {MAX_BYTES} bytes"))),
        Err(error) => Err(in_words(&error)),
    }
}

/// Redirections aren't followed: a directory is at its well-known URI or nowhere.
pub(super) fn read(head: &Head, body: &[u8]) -> Fetched {
    match head.status() {
        200 => match key_set(head, body) {
            Ok(keys) => Fetched::Keys(keys, life(head)),
            Err(reason) => Fetched::Withdrawn(reason),
        },
        // The server cannot say now: it was too slow (RFC 9110 15.5.9), limits requests or has failed.
        status @ (408 | 429 | 500..) => Fetched::Failed(format!("status {status}")),
        status => Fetched::Withdrawn(format!("status {status}")),
    }
}

fn key_set(head: &Head, body: &[u8]) -> Result<KeySet, String> {
    let kind = head.only("Content-Type").unwrap_or_default();
    let essence = kind.split(|c| *c == b';').next().unwrap_or_default().trim_ascii();
    if !essence.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()) {
        return Err(format!("its type is \"{}\" instead of {MEDIA_TYPE}", printable(&String::from_utf8_lossy(kind))));
    }
    let keys = KeySet::of_directory(body)?;
    if keys.len() == 0 {
        return Err("it has no key for ed25519".to_owned());
    }
    Ok(keys)
}

fn life(head: &Head) -> Duration {
    let control = message::cache_control::CacheControl::from_head(head);
    let life = match control.max_age {
        _ if control.no_store || control.no_cache => MIN_LIFE,
        Some(seconds) => Duration::from_secs(seconds.into()),
        None => LIFE,
    };
    life.clamp(MIN_LIFE, MAX_LIFE)
}

/// True for addresses of the public Internet (IANA's registries of special-purpose addresses).
fn is_public(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => is_public_v6(ip),
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let is_special = match a {
        0 | 10 | 127 | 224.. => true,
        100 => (64..128).contains(&b),
        169 => b == 254,
        172 => (16..32).contains(&b),
        192 => b == 168 || (b == 0 && matches!(c, 0 | 2)) || (b == 88 && c == 99),
        198 => matches!(b, 18 | 19) || (b == 51 && c == 100),
        203 => b == 0 && c == 113,
        _ => false,
    };
    !is_special
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let segments = ip.segments();
    let embedded = |high: u16, low: u16| is_public_v4(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)));
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => embedded(high, low),
        [0x2002, high, low, ..] => embedded(high, low),
        // IETF protocol assignments, Teredo among them, and documentation.
        [0x2001, 0..0x200, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..0x1000, ..] => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_the_public_internet() {
        let is_public = |text: &str| is_public(text.parse().expect("an address"));
        for ip in [
            "1.1.1.1",
            "9.9.9.9",
            "100.63.0.1",
            "172.32.0.1",
            "192.0.1.1",
            "2606:4700::1",
            "2002:0101:0101::1",
            "::ffff:1.1.1.1",
        ] {
            assert!(is_public(ip), "{ip}");
        }
        for ip in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "2001::1",
            "3fff::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "64:ff9b::a00:1",
            "2002:7f00:1::1",
        ] {
            assert!(!is_public(ip), "{ip}");
        }
    }

    fn answer(status: u16, fields: &[(&str, &str)], body: &str) -> Result<u64, Fetched> {
        let mut head = Head::new();
        head.start_response(b"HTTP/1.1", status).expect("room");
        fields.iter().for_each(|(name, value)| head.append(name, value).expect("room"));
        match read(&head, body.as_bytes()) {
            Fetched::Keys(_, life) => Ok(life.as_secs()),
            other => Err(other),
        }
    }

    #[test]
    fn a_directory_is_what_the_draft_says() {
        const SET: &str =
            "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";
        let kind = ("Content-Type", "Application/http-message-signatures-directory+json; charset=utf-8");
        let life = |control| answer(200, &[kind, ("Cache-Control", control)], SET);
        assert_eq!(answer(200, &[kind], SET), Ok(3600));
        assert_eq!(
            ["max-age=600", "max-age=0", "max-age=999999", "no-store"].map(life),
            [Ok(600), Ok(60), Ok(86_400), Ok(60)]
        );
        for status in [302, 401, 404, 410] {
            let withdrawn = Fetched::Withdrawn(format!("status {status}"));
            assert_eq!(answer(status, &[kind, ("Location", "/x")], SET), Err(withdrawn));
        }
        for status in [408, 429, 500, 503] {
            assert_eq!(answer(status, &[kind], SET), Err(Fetched::Failed(format!("status {status}"))));
        }
        let Err(Fetched::Withdrawn(html)) = answer(200, &[("Content-Type", "text/html\u{7}")], SET) else {
            panic!("another type is no directory")
        };
        assert!(html.starts_with("its type is \"text/html") && !html.contains('\u{7}'));
        for (body, why) in [("{\"keys\":[]}", "it has no key for ed25519"), ("[]", "not a key set: it has no keys")] {
            assert_eq!(answer(200, &[kind], body), Err(Fetched::Withdrawn(why.to_owned())));
        }
    }
}
