// SPDX-License-Identifier: BSD-2-Clause
//! The language before 4.0: its dialects, subroutines, what each may return, and its variables with their places and
//! what they are called now. vcl(7) of 2.0.6, 2.1.5 and 3.0.7 as data.

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Dialect {
    V20,
    V21,
    V30,
}

impl Dialect {
    pub const ALL: [Dialect; 3] = [Dialect::V20, Dialect::V21, Dialect::V30];

    pub const fn name(self) -> &'static str {
        match self {
            Dialect::V20 => "2.0",
            Dialect::V21 => "2.1",
            Dialect::V30 => "3.0",
        }
    }

    pub fn from_name(name: &str) -> Option<Dialect> {
        Dialect::ALL.into_iter().find(|d| d.name() == name)
    }
}

/// A subroutine that an old machine calls (or, of 2.0, that it had planned to).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum OldSub {
    Recv,
    Pipe,
    Pass,
    Hash,
    Miss,
    Hit,
    Fetch,
    Deliver,
    Error,
    Init,
    Fini,
    Prefetch,
    Timeout,
    Discard,
}

impl OldSub {
    pub const ALL: [OldSub; 14] = [
        OldSub::Recv,
        OldSub::Pipe,
        OldSub::Pass,
        OldSub::Hash,
        OldSub::Miss,
        OldSub::Hit,
        OldSub::Fetch,
        OldSub::Deliver,
        OldSub::Error,
        OldSub::Init,
        OldSub::Fini,
        OldSub::Prefetch,
        OldSub::Timeout,
        OldSub::Discard,
    ];

    pub const fn name(self) -> &'static str {
        match self {
            OldSub::Recv => "vcl_recv",
            OldSub::Pipe => "vcl_pipe",
            OldSub::Pass => "vcl_pass",
            OldSub::Hash => "vcl_hash",
            OldSub::Miss => "vcl_miss",
            OldSub::Hit => "vcl_hit",
            OldSub::Fetch => "vcl_fetch",
            OldSub::Deliver => "vcl_deliver",
            OldSub::Error => "vcl_error",
            OldSub::Init => "vcl_init",
            OldSub::Fini => "vcl_fini",
            OldSub::Prefetch => "vcl_prefetch",
            OldSub::Timeout => "vcl_timeout",
            OldSub::Discard => "vcl_discard",
        }
    }

    /// The letter in the places of [`OldVar`].
    const fn letter(self) -> char {
        match self {
            OldSub::Recv => 'r',
            OldSub::Pipe => 'i',
            OldSub::Pass => 'p',
            OldSub::Hash => 'h',
            OldSub::Miss => 'm',
            OldSub::Hit => 't',
            OldSub::Fetch => 'f',
            OldSub::Deliver => 'd',
            OldSub::Error => 'e',
            OldSub::Init => 'I',
            OldSub::Fini => 'F',
            OldSub::Prefetch => 'P',
            OldSub::Timeout => 'T',
            OldSub::Discard => 'D',
        }
    }

    pub const fn returns(self, dialect: Dialect) -> &'static [&'static str] {
        match self {
            OldSub::Recv => &["error", "pass", "pipe", "lookup"],
            OldSub::Pipe => &["error", "pipe"],
            OldSub::Pass => &["error", "restart", "pass"],
            OldSub::Hash => &["hash"],
            OldSub::Miss => &["error", "restart", "pass", "fetch"],
            OldSub::Hit => &["error", "restart", "pass", "deliver"],
            OldSub::Fetch => match dialect {
                Dialect::V30 => &["error", "restart", "hit_for_pass", "deliver"],
                Dialect::V20 | Dialect::V21 => &["error", "restart", "pass", "deliver"],
            },
            OldSub::Deliver => &["error", "restart", "deliver"],
            OldSub::Error => &["restart", "deliver"],
            OldSub::Init | OldSub::Fini => &["ok"],
            OldSub::Prefetch => &["fetch", "pass"],
            OldSub::Timeout => &["fetch", "discard"],
            OldSub::Discard => &["discard", "keep"],
        }
    }
}

/// Words that alone were a statement in 2.0 (`lookup;`) and stand in `return (...)` since.
pub const BARE: [&str; 9] = ["lookup", "hash", "pipe", "pass", "fetch", "deliver", "discard", "keep", "hit_for_pass"];

#[derive(Clone, Copy, Debug)]
pub struct OldVar {
    /// The variable's name; that of a head's fields ends with a point.
    pub name: &'static str,
    /// The present name on the client side; empty when it has no name of its own any more.
    pub client: &'static str,
    /// The present name in `vcl_backend_response` and `vcl_backend_fetch`.
    pub backend: &'static str,
    /// The present name in `vcl_synth`.
    pub synth: &'static str,
    /// Subroutines that may read it, by dialect: a letter for each.
    read: [&'static str; 3],
    /// Subroutines that may set it, by dialect.
    write: [&'static str; 3],
}

impl OldVar {
    /// The variable that `name` means: itself, or a head's field.
    pub fn find(name: &str) -> Option<&'static OldVar> {
        let low = name.to_ascii_lowercase();
        OLD_VARS
            .iter()
            .find(|v| if v.is_field() { low.len() > v.name.len() && low.starts_with(v.name) } else { low == v.name })
    }

    pub fn is_field(&self) -> bool {
        self.name.ends_with('.')
    }

    /// True if `sub` may read it (or set it).
    pub fn has(&self, dialect: Dialect, sub: OldSub, write: bool) -> bool {
        let places = if write { self.write } else { self.read };
        places[dialect as usize].contains(sub.letter())
    }

    /// The subroutines that may read it (or set it).
    pub fn places(&self, dialect: Dialect, write: bool) -> Vec<&'static str> {
        OldSub::ALL.into_iter().filter(|sub| self.has(dialect, *sub, write)).map(OldSub::name).collect()
    }

    pub fn exists(&self, dialect: Dialect) -> bool {
        !self.read[dialect as usize].is_empty() || !self.write[dialect as usize].is_empty()
    }
}

/// All of the machine's subroutines.
const ALL: &str = "riphmtfde";
const REQ20: &str = "riphmtfe";
const BEREQ: &str = "ipmf";
const NONE: &str = "";

const fn var(name: &'static str, new: [&'static str; 3], read: [&'static str; 3], write: [&'static str; 3]) -> OldVar {
    OldVar { name, client: new[0], backend: new[1], synth: new[2], read, write }
}

const fn same(name: &'static str, read: [&'static str; 3], write: [&'static str; 3]) -> OldVar {
    var(name, [name, name, name], read, write)
}

const fn every(places: &'static str) -> [&'static str; 3] {
    [places, places, places]
}

/// Every variable of 2.0, 2.1 and 3.0. Since real files are older than their name, `obj.` in vcl_fetch is read in 2.1 too,
/// and `beresp.` in 2.0.
#[rustfmt::skip]
pub static OLD_VARS: &[OldVar] = &[
    same("client.ip", every(ALL), every(NONE)),
    same("client.identity", [NONE, ALL, ALL], [NONE, ALL, ALL]),
    same("server.ip", every(ALL), every(NONE)),
    same("server.hostname", every(ALL), every(NONE)),
    same("server.identity", every(ALL), every(NONE)),
    var("server.port", ["std.port(server.ip)"; 3], every(ALL), every(NONE)),
    var("req.request", ["req.method", "bereq.method", "req.method"], [REQ20, ALL, ALL], [REQ20, ALL, ALL]),
    var("req.url", ["req.url", "bereq.url", "req.url"], every(ALL), [REQ20, ALL, ALL]),
    var("req.proto", ["req.proto", "bereq.proto", "req.proto"], every(ALL), [REQ20, ALL, ALL]),
    var("req.http.", ["req.http.", "bereq.http.", "req.http."], every(ALL), every(ALL)),
    var("req.hash", [""; 3], every(NONE), ["he", "he", NONE]),
    var("req.backend", ["req.backend_hint", "bereq.backend", "req.backend_hint"], every(ALL), every(ALL)),
    var("req.backend.healthy", ["std.healthy(req.backend_hint)", "std.healthy(bereq.backend)", "std.healthy(req.backend_hint)"], every(ALL), every(NONE)),
    var("req.restarts", ["req.restarts", "", "req.restarts"], every(ALL), every(NONE)),
    var("req.esi_level", ["req.esi_level", "", "req.esi_level"], [NONE, NONE, ALL], every(NONE)),
    var("req.ttl", ["req.ttl", "", "req.ttl"], [NONE, NONE, ALL], [NONE, NONE, ALL]),
    var("req.grace", ["req.grace", "", "req.grace"], every(ALL), every(ALL)),
    var("req.keep", ["", "", ""], [NONE, NONE, ALL], [NONE, NONE, ALL]),
    var("req.xid", ["req.xid", "bereq.xid", "req.xid"], every(ALL), every(NONE)),
    var("req.esi", ["", "", ""], every("rfde"), every("rfde")),
    var("req.can_gzip", ["req.can_gzip", "", "req.can_gzip"], [NONE, NONE, ALL], every(NONE)),
    same("req.hash_ignore_busy", [NONE, "r", "r"], [NONE, "r", "r"]),
    same("req.hash_always_miss", [NONE, "r", "r"], [NONE, "r", "r"]),
    var("bereq.request", ["bereq.method"; 3], every(BEREQ), every(BEREQ)),
    same("bereq.url", every(BEREQ), every(BEREQ)),
    same("bereq.proto", every(BEREQ), every(BEREQ)),
    same("bereq.http.", every(BEREQ), every(BEREQ)),
    same("bereq.connect_timeout", every("ipm"), every("ipm")),
    same("bereq.first_byte_timeout", every("pm"), every("pm")),
    same("bereq.between_bytes_timeout", every("pm"), every("pm")),
    same("beresp.proto", every("f"), every("f")),
    var("beresp.saintmode", [""; 3], every(NONE), every("f")),
    same("beresp.status", every("f"), every("f")),
    var("beresp.response", ["beresp.reason"; 3], every("f"), every("f")),
    same("beresp.http.", every("f"), every("f")),
    same("beresp.do_esi", every("f"), every("f")),
    same("beresp.do_stream", every("f"), every("f")),
    same("beresp.do_gzip", every("f"), every("f")),
    same("beresp.do_gunzip", every("f"), every("f")),
    var("beresp.cacheable", [""; 3], every("f"), every("f")),
    same("beresp.ttl", every("f"), every("f")),
    same("beresp.grace", every("f"), every("f")),
    same("beresp.keep", every("f"), every("f")),
    same("beresp.backend.name", every("f"), every(NONE)),
    var("beresp.backend.ip", [""; 3], every("f"), every(NONE)),
    var("beresp.backend.port", [""; 3], every("f"), every(NONE)),
    same("beresp.storage", every("f"), every("f")),
    var("obj.proto", ["obj.proto", "beresp.proto", "resp.proto"], ["tfe", "tfe", "te"], ["tfe", "tfe", "te"]),
    var("obj.status", ["obj.status", "beresp.status", "resp.status"], ["tfe", "tfe", "te"], ["fe", "fe", "e"]),
    var("obj.response", ["obj.reason", "beresp.reason", "resp.reason"], ["tfe", "tfe", "te"], ["fe", "fe", "e"]),
    var("obj.hits", ["obj.hits", "", ""], ["tfd", "td", "td"], every(NONE)),
    var("obj.http.", ["obj.http.", "beresp.http.", "resp.http."], ["tfe", "tfe", "te"], ["fe", "fe", "e"]),
    var("obj.cacheable", [""; 3], ["tfe", "tf", NONE], ["tfe", "tf", NONE]),
    var("obj.ttl", ["obj.ttl", "beresp.ttl", ""], ["tf", "tf", "t"], ["tfe", "tfe", "te"]),
    var("obj.grace", ["obj.grace", "beresp.grace", ""], ["tf", "tf", "t"], ["tfe", "tfe", "te"]),
    var("obj.keep", ["obj.keep", "", ""], [NONE, NONE, "t"], [NONE, NONE, "te"]),
    var("obj.prefetch", [""; 3], every(NONE), ["fP", "f", NONE]),
    var("obj.lastuse", [""; 3], ["tfde", "tde", "tde"], every(NONE)),
    var("obj.hash", [""; 3], ["mtfde", NONE, NONE], every(NONE)),
    same("resp.proto", every("d"), every("d")),
    same("resp.status", every("d"), every("d")),
    var("resp.response", ["resp.reason"; 3], every("d"), every("d")),
    same("resp.http.", every("d"), every("d")),
    same("now", every("riphmtfdeIF"), every(NONE)),
];

/// Variables that a file which is new can have and an old one can't.
pub const NEW_WORDS: [&str; 14] = [
    "req.method",
    "bereq.method",
    "req.backend_hint",
    "bereq.backend",
    "beresp.uncacheable",
    "bereq.uncacheable",
    "beresp.reason",
    "resp.reason",
    "obj.uncacheable",
    "bereq.retries",
    "resp.body",
    "beresp.body",
    "obj.reason",
    "req_top.url",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_variables_are_found_whatever_their_case() {
        assert_eq!(OldVar::find("req.http.Host").map(|v| v.name), Some("req.http."));
        assert_eq!(OldVar::find("Req.Request").map(|v| v.client), Some("req.method"));
        assert!(OldVar::find("req.http.").is_none() && OldVar::find("req.method").is_none());
    }

    #[test]
    fn places_differ_by_dialect() {
        let ttl = OldVar::find("obj.ttl").unwrap();
        assert!(ttl.has(Dialect::V20, OldSub::Fetch, true) && !ttl.has(Dialect::V30, OldSub::Fetch, true));
        assert_eq!(ttl.places(Dialect::V30, false), ["vcl_hit"]);
        assert!(!OldVar::find("req.hash").unwrap().exists(Dialect::V30));
    }

    #[test]
    fn what_fetch_returns_changed_its_name_in_3_0() {
        assert!(OldSub::Fetch.returns(Dialect::V21).contains(&"pass"));
        assert!(OldSub::Fetch.returns(Dialect::V30).contains(&"hit_for_pass"));
    }
}
