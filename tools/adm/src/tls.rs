// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer tls status`: a running server's certificates: which there are, until when they hold, what is wrong with them.

use std::collections::BTreeMap;

use base::Clock;
use serde_json::Value;
use shm::reader::CounterReader;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;

use crate::is_good;
use crate::words::{self, AdmTool, AdmWords, tool};

const INTRODUCTION: &str = "\
Usage: lacquer tls status [options]

Lists the certificates of a running server, the next to expire first: listener, expiry, names, and problems such as
invalid changed files or a failing renewal. Below them stand the key of session tickets, and how many handshakes with
clients there were, if the server is on this machine (without -T).

";

const HELP: &[HelpPart<AdmWords>] = &[(
    INTRODUCTION,
    &[
        AdmWords::WORKDIR,
        AdmWords::ADDRESS,
        AdmWords::SECRET,
        AdmWords::TIMEOUT,
        AdmWords::FORMAT,
        AdmWords::flag(
            "--check <days>",
            "For monitoring: exit status 3 if a certificate expires within this many days or has a problem",
        ),
        Opt::HELP,
    ],
)];

pub const TOOL: AdmTool = tool("lacquer tls", HELP);

const DAY: i64 = 86_400;
const MOST_NAMES: usize = 3;
/// The exit status of `--check` when something is wrong.
const WRONG: i32 = 3;

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked; 3: `--check` found something.
pub fn main(args: &[String]) -> i32 {
    let words = match words::read(&TOOL, args, None) {
        Ok(words) => words,
        Err(status) => return status,
    };
    match &words.rest[..] {
        [status] if status == "status" => {}
        [] => return TOOL.refuse("what about TLS? status"),
        [other, ..] => return TOOL.refuse(format!("no command {other}")),
    }
    let is_json = match words.last("--format").unwrap_or("text") {
        "text" => false,
        "json" => true,
        other => return TOOL.refuse(format!("no format {other}")),
    };
    let days = match words.last("--check").map(str::parse::<u32>) {
        None => None,
        Some(Ok(days)) => Some(i64::from(days)),
        Some(Err(_)) => return TOOL.refuse("--check takes a number of days"),
    };
    let Some(mut connection) = words.config().connect() else { return 2 };
    let reply = match connection.ask(b"tls.cert.list -j\n") {
        Ok(reply) => reply,
        Err(status) => return status.clamp(1, 2),
    };
    let text = reply.text();
    if !is_good(reply.status) {
        print::err(format_args!("lacquer tls: {}\n", admin::refusal(&reply)));
        return 1;
    }
    let Some(mut certificates) = read(&text) else {
        print::err("lacquer tls: the server's answer isn't as expected\n");
        return 1;
    };
    // One that knows no ACME says so, and has none to tell of.
    if let Ok(reply) = connection.ask(b"tls.acme.list -j\n")
        && is_good(reply.status)
    {
        add_renewals(&mut certificates, &reply.text());
    }
    let now = Clock::system().real().0 as i64;
    if is_json {
        print::out(format_args!("{:#}\n", Value::Array(certificates.iter().map(|c| c.object.clone()).collect())));
    } else {
        print::out(table(&certificates, now));
        // One that has no such command has nothing to tell either.
        if let Ok(reply) = connection.ask(b"tls.ticket.list -j\n")
            && is_good(reply.status)
        {
            print::out(tickets(&reply.text(), now));
        }
        if words.last("-T").is_none() {
            print::out(handshakes(&counted(words.last("-n"))));
        }
    }
    let is_wrong = |c: &Certificate| {
        c.trouble.is_some() || c.status == MISSING || days.is_some_and(|days| c.not_after - now < days * DAY)
    };
    if days.is_some() && certificates.iter().any(is_wrong) { WRONG } else { 0 }
}

struct Certificate {
    frontend: String,
    id: String,
    status: String,
    names: Vec<String>,
    not_before: i64,
    not_after: i64,
    trouble: Option<String>,
    renewal: Option<i64>,
    object: Value,
}

fn read(reply: &str) -> Option<Vec<Certificate>> {
    let mut out = elements(reply)?.map(certificate).collect::<Option<Vec<_>>>()?;
    sort(&mut out);
    Some(out)
}

/// The elements behind the version, the command and the time.
fn elements(reply: &str) -> Option<impl Iterator<Item = Value>> {
    let Value::Array(rows) = serde_json::from_str(reply).ok()? else { return None };
    let (Some(Value::Number(_)), Some(Value::Array(_))) = (rows.first(), rows.get(1)) else { return None };
    Some(rows.into_iter().skip(3))
}

fn sort(certificates: &mut [Certificate]) {
    certificates.sort_by(|a, b| (a.not_after, &a.id).cmp(&(b.not_after, &b.id)));
}

/// A name in a certificate is anybody's choice: it is printed without what terminals act on.
fn text(value: &Value) -> Option<String> {
    Some(value.as_str()?.chars().filter(|c| !c.is_control()).collect())
}

/// Adds what ACME is about: when each certificate is renewed, what went wrong, and which there aren't yet.
fn add_renewals(certificates: &mut Vec<Certificate>, reply: &str) {
    for renewal in elements(reply).into_iter().flatten() {
        let Some(name) = renewal.get("name").and_then(text) else { continue };
        let id = format!("acme:{name}");
        let at = certificates.iter().position(|c| c.id == id).unwrap_or_else(|| {
            certificates.push(missing(&name, &id));
            certificates.len() - 1
        });
        let certificate = &mut certificates[at];
        certificate.renewal = renewal.get("renewal").and_then(Value::as_i64);
        if renewal.get("ends").is_some_and(Value::is_null) {
            // What is there is a placeholder.
            certificate.status = MISSING.to_owned();
            certificate.not_after = 0;
        }
        if let Some(error) = renewal.get("error").and_then(text) {
            let failures = renewal.get("failures").and_then(Value::as_u64).unwrap_or(0);
            certificate.trouble.get_or_insert(format!("ACME, after {failures} failures: {error}"));
        }
        if let Value::Object(members) = &mut certificate.object {
            members.insert("acme".to_owned(), renewal);
        }
    }
    sort(certificates);
}

/// A certificate that ACME is to get.
fn missing(name: &str, id: &str) -> Certificate {
    let object = serde_json::json!({ "frontend": "default", "id": id, "status": MISSING, "names": [name] });
    Certificate {
        frontend: "default".to_owned(),
        id: id.to_owned(),
        status: MISSING.to_owned(),
        names: vec![name.to_owned()],
        not_before: 0,
        not_after: 0,
        trouble: None,
        renewal: None,
        object,
    }
}

const MISSING: &str = "missing";

fn certificate(object: Value) -> Option<Certificate> {
    let member = |key: &str| object.get(key).and_then(text);
    let names = object.get("names")?.as_array()?.iter().map(text).collect::<Option<_>>()?;
    Some(Certificate {
        frontend: member("frontend")?,
        id: member("id")?,
        status: member("status")?,
        names,
        not_before: object.get("not_before")?.as_i64()?,
        not_after: object.get("not_after")?.as_i64()?,
        trouble: member("trouble"),
        renewal: None,
        object,
    })
}

fn table(certificates: &[Certificate], now: i64) -> String {
    if certificates.is_empty() {
        return "no certificates: every handshake fails\n".to_owned();
    }
    let rows: Vec<[String; 4]> =
        certificates.iter().map(|c| [c.frontend.clone(), id(c), expiry(c, now), names(c)]).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0).max(8), width(1).max(11), width(2).max(7)];
    let line = |[a, b, c, d]: [&str; 4]| {
        let [w0, w1, w2] = widths;
        format!("{a:w0$}  {b:w1$}  {c:w2$}  {d}\n")
    };
    let mut out = line(["FRONTEND", "CERTIFICATE", "EXPIRES", "NAMES"]);
    for (certificate, row) in certificates.iter().zip(&rows) {
        out.push_str(&line([&row[0], &row[1], &row[2], &row[3]]));
        if let Some(trouble) = &certificate.trouble {
            out.push_str(&format!("  ! {trouble}\n"));
        }
    }
    out
}

fn tickets(reply: &str, now: i64) -> String {
    let Some(row) = elements(reply).and_then(|mut rows| rows.next()) else { return String::new() };
    let number = |key: &str| row.get(key).and_then(Value::as_i64);
    let from = match row.get("file").and_then(text) {
        Some(path) => format!("of {path}"),
        None => "made here".to_owned(),
    };
    let since = number("sealing_since").map(|at| format!(", in use for {}", span((now - at).max(0))));
    let next = number("next").map(|at| format!(", the next one in {}", span((at - now).max(0))));
    format!("\nsession tickets: a key {from}{}{}\n", since.unwrap_or_default(), next.unwrap_or_default())
}

/// Counters of the worker; none if there isn't one.
fn counted(name: Option<&str>) -> BTreeMap<String, u64> {
    let readings = CounterReader::new(&CounterReader::workdir_of(name)).read().unwrap_or_default();
    readings.into_iter().filter(|one| &*one.set == "MAIN").map(|one| (one.about.name.clone(), one.value)).collect()
}

fn handshakes(counters: &BTreeMap<String, u64>) -> String {
    let count = |name: &str| counters.get(name).copied().unwrap_or(0);
    let all = count("tls_handshakes");
    if all == 0 {
        return String::new();
    }
    let share = |part: u64| format!("{part} ({:.1} %)", 100.0 * part as f64 / all as f64);
    let (resumed, post_quantum) = (share(count("tls_resumed")), share(count("tls_post_quantum")));
    format!(
        "handshakes with clients: {all}, resumed: {resumed}, post-quantum: {post_quantum}, failed: {}\n",
        count("tls_fail")
    )
}

/// A time, as long as people say it.
fn span(seconds: i64) -> String {
    match seconds / DAY {
        0 => format!("{} h", seconds / 3600),
        1 => "1 day".to_owned(),
        days => format!("{days} days"),
    }
}

fn id(c: &Certificate) -> String {
    match c.status.as_str() {
        "active" | MISSING => c.id.clone(),
        status => format!("{} ({status})", c.id),
    }
}

fn expiry(c: &Certificate, now: i64) -> String {
    if c.status == MISSING {
        return "none yet".to_owned();
    }
    if let Some(renewal) = c.renewal.filter(|_| c.not_before <= now && now < c.not_after) {
        return format!("in {}, renewed in {}", span(c.not_after - now), span((renewal - now).max(0)));
    }
    match (c.not_before - now, c.not_after - now) {
        (.., left) if left <= 0 => format!("EXPIRED {} ago", span(-left)),
        (until, _) if until > 0 => format!("NOT YET VALID for {}", span(until)),
        (_, left) => format!("in {}", span(left)),
    }
}

fn names(c: &Certificate) -> String {
    let shown = c.names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    match c.names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY: &str = r#"[ 2, ["tls.cert.list", "-j"], 1764000000.000,
  {"frontend": "default", "id": "b", "status": "active", "subject": "b", "names": ["b.example", "c", "d", "e"], "not_before": 0, "not_after": 900000},
  {"frontend": "tls0", "id": "a", "status": "staged", "names": ["a\u001b[31m"], "not_before": 0, "not_after": 90000, "trouble": "/a.pem: no key"},
  {"frontend": "default", "id": "old", "status": "active", "names": [], "not_before": 0, "not_after": 10},
  {"frontend": "default", "id": "new", "status": "active", "names": [], "not_before": 7000, "not_after": 999999999}
]"#;

    #[test]
    fn renewals_are_told_beside_their_certificates() {
        const CERTIFICATES: &str = r#"[ 2, ["tls.cert.list", "-j"], 1.5,
  {"frontend": "default", "id": "acme:a.example", "status": "active", "names": ["a.example"], "not_before": 0, "not_after": 5184000},
  {"frontend": "default", "id": "b", "status": "active", "names": ["b"], "not_before": 0, "not_after": 864000}
]"#;
        const RENEWALS: &str = r#"[ 2, ["tls.acme.list", "-j"], 1.5,
  {"name": "a.example", "ends": 5184000, "renewal": 2592000, "tried": 1, "next": null, "failures": 0, "error": null},
  {"name": "new.example", "ends": null, "renewal": null, "tried": 1, "next": 9, "failures": 2, "error": "no\u001b answer"}
]"#;
        let mut rows = read(CERTIFICATES).unwrap();
        add_renewals(&mut rows, RENEWALS);
        let shown = table(&rows, 0);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "FRONTEND  CERTIFICATE       EXPIRES                         NAMES",
                "default   acme:new.example  none yet                        new.example",
                "  ! ACME, after 2 failures: no answer",
                "default   b                 in 10 days                      b",
                "default   acme:a.example    in 60 days, renewed in 30 days  a.example",
            ]
        );
        assert_eq!(rows[2].object["acme"]["renewal"], 2_592_000);
        add_renewals(&mut rows, "nonsense");
        assert_eq!(rows.len(), 3);
    }

    #[test]
    fn the_age_of_the_tickets_key_is_told() {
        let told =
            |members: &str| tickets(&format!("[ 2, [\"tls.ticket.list\", \"-j\"], 1.5,\n  {members}\n]"), 10 * DAY);
        let own = format!(
            r#"{{"keys": 2, "file": null, "sealing_since": {}, "next": {}}}"#,
            10 * DAY - 7200,
            10 * DAY + 36_000
        );
        assert_eq!(told(&own), "\nsession tickets: a key made here, in use for 2 h, the next one in 10 h\n");
        let file = format!(r#"{{"keys": 1, "file": "/k\u001b", "sealing_since": {}, "next": null}}"#, DAY);
        assert_eq!(told(&file), "\nsession tickets: a key of /k, in use for 9 days\n");
        let unknown = r#"{"keys": 1, "file": "/k", "sealing_since": null, "next": null}"#;
        assert_eq!(told(unknown), "\nsession tickets: a key of /k\n");
        assert_eq!((tickets("x", 0), tickets("[1]", 0)), (String::new(), String::new()));
    }

    #[test]
    fn handshakes_are_told_with_their_shares() {
        let told = |rows: &[(&str, u64)]| handshakes(&rows.iter().map(|&(name, n)| (name.to_owned(), n)).collect());
        assert_eq!((told(&[]), told(&[("tls_handshakes", 0), ("tls_fail", 3)])), (String::new(), String::new()));
        assert_eq!(
            told(&[("tls_handshakes", 3), ("tls_resumed", 1), ("tls_post_quantum", 2), ("tls_fail", 7)]),
            "handshakes with clients: 3, resumed: 1 (33.3 %), post-quantum: 2 (66.7 %), failed: 7\n"
        );
    }

    #[test]
    fn the_next_to_expire_comes_first() {
        let shown = table(&read(REPLY).unwrap(), 3600);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert_eq!(
            lines,
            [
                "FRONTEND  CERTIFICATE  EXPIRES                NAMES",
                "default   old          EXPIRED 0 h ago",
                "tls0      a (staged)   in 1 day               a[31m",
                "  ! /a.pem: no key",
                "default   b            in 10 days             b.example, c, d and 1 more",
                "default   new          NOT YET VALID for 0 h",
            ]
        );
        assert!(table(&read("[ 2, [\"tls.cert.list\", \"-j\"], 1.5\n]\n").unwrap(), 0).starts_with("no certificates"));
        assert!(read("x").is_none() && read("[1]").is_none() && read("[]").is_none());
    }
}
