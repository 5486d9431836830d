// SPDX-License-Identifier: BSD-2-Clause
//! Hop-by-hop fields (RFC 9110 7.6.1): which fields go no further in which direction, and what Connection says.
//!
//! The table has Varnish's outcomes: what a fetch, a pass, an insert into the cache and a delivery leave out.

use std::cmp::Ordering;

use crate::chars::is_name;
use crate::head::{Head, HeadLine, HttpVersion, NOMINATED, key};
use crate::{Field, LostHeader, list, names};

/// Directions in which a head is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopDirection {
    /// Request to the backend, for the cache: conditionals and ranges stay behind.
    Fetch,
    /// Request to the backend of a pass.
    Pass,
    /// Response into the cache.
    Insert,
    /// Response of a pass.
    PassResponse,
    /// Request to the backend of a pipe: everything but what Connection nominates, which may not take the framing away.
    Pipe,
}

const FETCH: u8 = 1;
const PASS: u8 = 2;
const INSERT: u8 = 4;
const PASS_RESPONSE: u8 = 8;
const ALL: u8 = FETCH | PASS | INSERT | PASS_RESPONSE;

/// Fields that go no further in some direction.
const FIELDS: &[(&str, u8)] = &[
    (names::ACCEPT_RANGES, PASS | FETCH | INSERT),
    (names::AGE, INSERT | PASS_RESPONSE),
    (names::CACHE_CONTROL, FETCH),
    (names::CONNECTION, ALL),
    (names::CONTENT_RANGE, FETCH | INSERT),
    (names::HTTP2_SETTINGS, ALL),
    (names::IF_MATCH, FETCH),
    (names::IF_MODIFIED_SINCE, FETCH),
    (names::IF_NONE_MATCH, FETCH),
    (names::IF_RANGE, FETCH),
    (names::IF_UNMODIFIED_SINCE, FETCH),
    (names::KEEP_ALIVE, ALL),
    (names::PROXY_AUTHENTICATE, FETCH | INSERT),
    (names::PROXY_AUTHORIZATION, FETCH | INSERT),
    (names::RANGE, FETCH | INSERT),
    (names::TE, ALL),
    (names::TRAILER, ALL),
    (names::TRANSFER_ENCODING, ALL),
    (names::UPGRADE, ALL),
];

/// For each first letter (without its case) the lengths that names of [`FIELDS`] have, a bit each.
const LENGTHS: [u32; 32] = {
    let (mut table, mut i) = ([0; 32], 0);
    while i < FIELDS.len() {
        let name = FIELDS[i].0.as_bytes();
        table[(name[0] & 31) as usize] |= 1 << name.len();
        i += 1;
    }
    table
};

/// The directions in which the field goes no further.
fn held_back(name: &[u8]) -> u8 {
    // First letter and length decide for nearly every field that isn't in the table.
    let lengths = name.first().map_or(0, |first| LENGTHS[usize::from(first & 31)]);
    if name.len() > 31 || lengths >> name.len() & 1 == 0 {
        return 0;
    }
    FIELDS.iter().find(|(known, _)| is_name(name, known.as_bytes())).map_or(0, |&(_, directions)| directions)
}

impl HopDirection {
    /// True if the field goes on in this direction: neither held back by the table nor nominated by Connection.
    pub fn keeps(self, field: &Field<'_>) -> bool {
        let direction = match self {
            HopDirection::Fetch => FETCH,
            HopDirection::Pass => PASS,
            HopDirection::Insert => INSERT,
            HopDirection::PassResponse => PASS_RESPONSE,
            HopDirection::Pipe => 0,
        };
        // The bytes of a pipe's body go out as they came: without its coding they would be read as requests.
        let is_framing = self == HopDirection::Pipe && field.is(names::TRANSFER_ENCODING);
        (!field.is_nominated() || is_framing) && held_back(field.name()) & direction == 0
    }
}

/// Makes `to` the request head that goes to the backend: start line and the fields that `filter` keeps.
///
/// # Errors
/// See [`LostHeader`].
pub fn filter_request(from: &Head, to: &mut Head, filter: HopDirection) -> Result<(), LostHeader> {
    to.start_request(from.method(), from.url(), from.proto())?;
    to.append_from(from, |field| filter.keeps(field))
}

/// Fields that say where a message ends, whom it is for, or what its body is: whoever reads them behind the body takes
/// them for the head's (RFC 9110 6.5.1).
const NO_TRAILERS: [&str; 8] = [
    names::CONTENT_LENGTH,
    names::HOST,
    names::CONTENT_ENCODING,
    names::CONTENT_TYPE,
    names::CONTENT_RANGE,
    names::AUTHORIZATION,
    names::SET_COOKIE,
    names::CACHE_CONTROL,
];

/// True if the sender of a request reads fields behind a response's body (RFC 9110 10.1.4).
pub fn takes_trailers(head: &Head) -> bool {
    head.get_all(names::TE.as_bytes()).any(|value| list::has(value, b"trailers"))
}

/// True if a field behind a body may go on.
pub fn may_be_trailer(name: &[u8]) -> bool {
    let goes_on = held_back(name) & PASS_RESPONSE == 0;
    goes_on && !NO_TRAILERS.iter().any(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Reuse of a connection after this message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// The connection stays open.
    Keep,
    /// The message says `close` (close reason `REQ_CLOSE` or `RESP_CLOSE`).
    Close,
    /// HTTP/1.0 without `keep-alive` (close reason `REQ_HTTP10`).
    Http10,
}

/// Connection nominates a field that must go on: a known one that isn't hop-by-hop. Close reason `RX_BAD`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadConnection;

/// Reads Connection: joins its lines, marks the fields that it nominates (see [`HopDirection::keeps`]), and says whether the
/// connection persists.
///
/// # Errors
/// [`BadConnection`]: it names fields whose loss would change what the message means (VSV00010): VCL could choose by a
/// Cookie that the origin never gets. Those stay; refuse a request, and don't use the connection of a response again.
pub fn connection(head: &mut Head) -> Result<Persistence, BadConnection> {
    let mut persistence = if head.version() == HttpVersion::HTTP10 { Persistence::Http10 } else { Persistence::Keep };
    if !head.has(names::CONNECTION) {
        return Ok(persistence);
    }
    head.collect(names::CONNECTION).map_err(|_| BadConnection)?;
    let (arena, lines) = head.lines_mut();
    let name = names::CONNECTION.as_bytes();
    let Some(range) = lines.iter().find(|l| l.is(key(name), name, arena)).map(|l| l.value_range()) else {
        return Ok(persistence);
    };
    let (mut is_bad, mut many) = (false, Vec::new());
    for (count, member) in list::members(&arena[range]).enumerate() {
        if member.eq_ignore_ascii_case(b"close") {
            persistence = Persistence::Close;
        } else if persistence == Persistence::Http10 && member.eq_ignore_ascii_case(b"keep-alive") {
            persistence = Persistence::Keep;
        }
        if must_go_on(member) {
            is_bad = true;
            continue;
        }
        if count >= FEW {
            many.push(member);
            continue;
        }
        let member_key = key(member);
        let nominated = lines.iter_mut().filter(|l| l.is(member_key, member, arena));
        nominated.for_each(|line| line.flags |= NOMINATED);
    }
    if !many.is_empty() {
        nominate(&mut many, arena, lines, by_name);
    }
    if is_bad { Err(BadConnection) } else { Ok(persistence) }
}

/// Number of names up to which each is looked for among the lines; of more, each line is looked for among the names.
const FEW: usize = 16;

/// Marks the lines with these names: sorted, thousands of names cost each line a few comparisons.
fn nominate(
    names: &mut [&[u8]],
    arena: &[u8],
    lines: &mut [HeadLine],
    mut order: impl FnMut(&[u8], &[u8]) -> Ordering,
) {
    names.sort_unstable_by(|a, b| order(a, b));
    for line in lines {
        if names.binary_search_by(|name| order(name, line.name(arena))).is_ok() {
            line.flags |= NOMINATED;
        }
    }
}

/// An order of names in any case.
fn by_name(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().map(u8::to_ascii_lowercase).cmp(b.iter().map(u8::to_ascii_lowercase)))
}

/// True if a Connection field may not take this one away: every known field that a pass would send on.
fn must_go_on(name: &[u8]) -> bool {
    match held_back(name) {
        0 => names::is_known(name),
        held => held & PASS == 0,
    }
}

/// Removes the fields that Connection nominates, but for those that are hop-by-hop anyway: nobody behind us gets them, so
/// nothing may be decided by them. Calls `removed` for each.
pub fn remove_nominated(head: &mut Head, mut removed: impl FnMut(&Field<'_>)) {
    if !head.has(names::CONNECTION) {
        return;
    }
    head.retain(|field| {
        let stays = !field.is_nominated() || held_back(field.name()) & PASS != 0;
        if !stays {
            removed(field);
        }
        stays
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HeadLimits;

    fn head(lines: &[&str]) -> Head {
        let mut head = Head::with_limits(HeadLimits::new(10_000, 1 << 20));
        head.start_request(b"GET", b"/", b"HTTP/1.1").unwrap();
        lines.iter().for_each(|l| head.append_line(l.as_bytes()).unwrap());
        head
    }

    fn left(head: &Head, filter: HopDirection) -> Vec<String> {
        let kept = head.iter().filter(|f| filter.keeps(f));
        kept.map(|f| String::from_utf8_lossy(f.name()).into_owned()).collect()
    }

    #[test]
    fn each_direction_holds_its_fields_back() {
        let h =
            head(&["Host: a", "range: x", "If-None-Match: y", "Upgrade: z", "Age: 1", "Cache-Control: q", "Cookie: c"]);
        assert_eq!(left(&h, HopDirection::Fetch), ["Host", "Age", "Cookie"]);
        assert_eq!(left(&h, HopDirection::Pass), ["Host", "range", "If-None-Match", "Age", "Cache-Control", "Cookie"]);
        assert_eq!(left(&h, HopDirection::Insert), ["Host", "If-None-Match", "Cache-Control", "Cookie"]);
        assert_eq!(left(&h, HopDirection::PassResponse), ["Host", "range", "If-None-Match", "Cache-Control", "Cookie"]);
    }

    #[test]
    fn a_pipe_keeps_its_framing() {
        let mut h = head(&["Host: a", "Transfer-Encoding: chunked", "X-A: b", "Connection: transfer-encoding, x-a"]);
        connection(&mut h).unwrap();
        assert_eq!(left(&h, HopDirection::Pipe), ["Host", "Transfer-Encoding", "Connection"]);
        assert_eq!(left(&h, HopDirection::Pass), ["Host"]);
    }

    #[test]
    fn nominated_fields_stay_behind() {
        let mut h = head(&["Host: a", "X-A: b", "Connection: x-a", "Connection: keep-alive, foo"]);
        assert_eq!(connection(&mut h), Ok(Persistence::Keep));
        assert_eq!(left(&h, HopDirection::Pass), ["Host"]);
        assert_eq!(h.get("connection"), Some(&b"x-a, keep-alive, foo"[..]));
    }

    #[test]
    fn many_fields_are_nominated() {
        let names: Vec<String> = (0..300).map(|n| format!("x-{}", n * 7919 % 300)).collect();
        let mut lines: Vec<String> = (0..600).map(|n| format!("X-{n}: 1")).collect();
        lines.push(format!("Connection: close, {}", names.join(",")));
        lines.push("Host: a".to_owned());
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut h = head(&lines);
        assert_eq!(connection(&mut h), Ok(Persistence::Close));
        let want: Vec<String> = (300..600).map(|n| format!("X-{n}")).chain(["Host".to_owned()]).collect();
        assert_eq!(left(&h, HopDirection::Pass), want);
        let mut h = head(&[&format!("Connection: {},host", names.join(","))]);
        assert_eq!(connection(&mut h), Err(BadConnection));
    }

    #[test]
    fn each_line_is_compared_with_a_few_names() {
        let lines: Vec<String> = (0..4000).map(|n| format!("x-{n}: 1")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let mut h = head(&lines);
        let names: Vec<String> = (0..4000).map(|n| format!("X-{}", n * 7919 % 4000)).collect();
        let mut names: Vec<&[u8]> = names.iter().map(String::as_bytes).collect();
        let (arena, lines) = h.lines_mut();
        let mut count = 0;
        nominate(&mut names, arena, lines, |a, b| {
            count += 1;
            by_name(a, b)
        });
        assert!(lines.iter().all(|line| line.flags & NOMINATED != 0));
        assert!(count < 4000 * 40, "{count} comparisons");
    }

    #[test]
    fn what_may_not_be_nominated() {
        let hop_by_hop = [
            "Accept-Ranges",
            "Connection",
            "HTTP2-Settings",
            "Keep-Alive",
            "TE",
            "Trailer",
            "Transfer-Encoding",
            "Upgrade",
        ];
        for name in names::ALL {
            for name in [(*name).to_owned(), name.to_lowercase(), name.to_uppercase()] {
                let mut h = head(&["Host: a", &format!("Connection: close, {name}"), &format!("{name}: 1")]);
                let is_hop_by_hop = hop_by_hop.iter().any(|known| known.eq_ignore_ascii_case(&name));
                let want = if is_hop_by_hop { Ok(Persistence::Close) } else { Err(BadConnection) };
                assert_eq!(connection(&mut h), want, "{name}");
            }
        }
        for name in ["X-Hop", "Proxy-Connection", "Cooki", "Cookie2"] {
            let mut h = head(&["Host: a", &format!("Connection: {name}")]);
            assert_eq!(connection(&mut h), Ok(Persistence::Keep), "{name}");
        }
    }

    #[test]
    fn nominated_fields_are_removed_but_for_those_of_the_hop() {
        let mut h = head(&["Host: a", "X-A: b", "Upgrade: c", "x-a: d", "TE: e", "Connection: x-a, upgrade, te, x-b"]);
        connection(&mut h).unwrap();
        let mut gone = Vec::new();
        remove_nominated(&mut h, |field| gone.push(String::from_utf8_lossy(field.value()).into_owned()));
        assert_eq!(gone, ["b", "d"]);
        let names: Vec<_> = h.iter().map(|field| String::from_utf8_lossy(field.name()).into_owned()).collect();
        assert_eq!(names, ["Host", "Upgrade", "TE", "Connection"]);
    }

    #[test]
    fn persistence_by_version_and_option() {
        let check = |proto: &str, option: &str, want| {
            let mut h = head(&[&format!("Connection: {option}")]);
            h.set_proto(proto).unwrap();
            assert_eq!(connection(&mut h), Ok(want), "{proto} {option}");
        };
        check("HTTP/1.1", "", Persistence::Keep);
        check("HTTP/1.1", "Close", Persistence::Close);
        check("HTTP/1.0", "", Persistence::Http10);
        check("HTTP/1.0", "Keep-Alive", Persistence::Keep);
        check("HTTP/1.0", "close", Persistence::Close);
        // RFC 9112 9.3: wherever it stands.
        check("HTTP/1.1", "close, keep-alive", Persistence::Close);
        check("HTTP/1.0", "keep-alive, close", Persistence::Close);
    }
}
