// SPDX-License-Identifier: BSD-2-Clause
//! The steps, in the order in which they are told.

use crate::Report;
use crate::origin::{self, LONG};
use crate::server::{SelftestServer, own, said_by};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use webclient::WebResponse;

/// The programs of Varnish's that this one is, by links beside it.
const PROGRAMS: [&str; 8] = [
    "varnishd",
    "varnishlog",
    "varnishlog-json",
    "varnishncsa",
    "varnishstat",
    "varnishtop",
    "varnishhist",
    "varnishadm",
];

/// Time that a new worker may take to be there, and the log to have what was asked for.
const SOON: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(20);

/// The VCL of the server: hits and misses by the built-in policy, and one path for each thing that is tried.
fn vcl(origin: SocketAddr) -> String {
    let (host, port) = (origin.ip(), origin.port());
    format!(
        r#"vcl 4.1;
backend default {{ .host = "{host}"; .port = "{port}"; }}
sub vcl_recv {{ if (req.method == "PURGE") {{ return (purge); }} }}
sub vcl_backend_response {{
    if (bereq.url == "/long") {{ set beresp.do_gzip = true; }}
    if (bereq.url == "/page") {{ set beresp.do_esi = true; }}
    if (bereq.url == "/disk") {{ set beresp.storage = storage.disk; }} else {{ set beresp.storage = storage.default; }}
}}
sub vcl_deliver {{ set resp.http.X-Hits = obj.hits; }}
"#
    )
}

/// The links beside this program. Those that aren't there are told of: `lacquer NAME` does the same.
pub fn programs(report: &mut Report) -> Result<(), String> {
    let own_file = std::env::current_exe().map_err(|e| format!("this program's own file: {e}"))?;
    let directory = own_file.parent().unwrap_or(Path::new("/"));
    for name in PROGRAMS {
        let path = directory.join(name);
        if !path.exists() {
            // Debian has varnishd in sbin, the tools in bin.
            if name != "varnishd" || !Path::new("/usr/sbin/varnishd").exists() {
                report.note(&format!("no {}: a link to lacquer of that name is that program", path.display()));
            }
            continue;
        }
        report.step(&format!("{} prints its version", path.display()), || {
            let mut command = std::process::Command::new(&path);
            // varnishadm has no option for its version, as Varnish's hasn't.
            let (option, wanted) = if name == "varnishadm" { ("-h", "usage: varnishadm") } else { ("-V", "lacquer") };
            command.arg(option).stdin(std::process::Stdio::null());
            let (_, text) = said_by(command)?;
            match text.to_lowercase().contains(wanted) {
                true => Ok(()),
                false => Err(format!("{option}: expected {wanted}, got {text}")),
            }
        });
    }
    Ok(())
}

pub fn compiles(vcl: &Path) -> Result<(), String> {
    let mut command = own("lacquer")?;
    command.args(["vcl", "check"]).arg(vcl);
    match said_by(command)? {
        (true, _) => Ok(()),
        (false, text) => Err(text),
    }
}

/// All that is asked of a running server; gives its directory if that is kept.
pub fn of_server(report: &mut Report, is_kept: bool) -> Result<Option<PathBuf>, String> {
    let origin = origin::start().map_err(|e| format!("the origin: {e}"))?;
    let mut started = None;
    report.step("a server starts", || {
        started = Some(SelftestServer::start(&vcl(origin), is_kept)?);
        Ok(())
    });
    let Some(mut server) = started else { return Ok(None) };
    let kept = server.kept();
    report.step("a miss is fetched, a hit is served from the cache", || hit(&server));
    report.step("a request with a cookie is passed", || passed(&server));
    report.step("an upload arrives completely", || upload(&server));
    report.step("text is compressed with gzip for clients that accept it", || gzip(&server));
    report.step("a range request and a conditional request", || partial(&server));
    report.step("a page is assembled (ESI)", || esi(&server));
    report.step("a purge", || purge(&server));
    report.step("a ban", || ban(&mut server));
    report.step("a store on disk", || disk(&server));
    report.step("an invalid VCL is refused without side effects", || mistake(&mut server));
    report.step("the log has the records of a request", || log(&server));
    report.step("the counters count", || counters(&server));
    report.step("a killed worker is replaced with its cache", || death(&server));
    report.step("the server stops", || server.stop());
    Ok(kept)
}

fn expect<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: expected {wanted:?}, got {got:?}")) }
}

fn field(answer: &WebResponse, name: &str) -> String {
    String::from_utf8_lossy(answer.head.get(name).unwrap_or_default()).into_owned()
}

/// Asks for `path` twice: the answers, the second of which is to be the first one, kept.
fn twice(server: &SelftestServer, path: &str) -> Result<[WebResponse; 2], String> {
    let both = [server.get("GET", path, "", "")?, server.get("GET", path, "", "")?];
    for answer in &both {
        expect("the status", answer.head.status(), 200)?;
    }
    Ok(both)
}

fn hit(server: &SelftestServer) -> Result<(), String> {
    let [first, second] = twice(server, "/")?;
    expect("the first answer's hits", field(&first, "X-Hits"), "0".to_owned())?;
    expect("the second answer's hits", field(&second, "X-Hits"), "1".to_owned())?;
    expect("the same answer of the origin", field(&second, "X-Answer"), field(&first, "X-Answer"))?;
    expect("the body", second.body, b"hello, world".to_vec())
}

fn passed(server: &SelftestServer) -> Result<(), String> {
    let one = server.get("GET", "/", "Cookie: a=b\r\n", "")?;
    let other = server.get("GET", "/", "Cookie: a=b\r\n", "")?;
    match field(&one, "X-Answer") == field(&other, "X-Answer") {
        true => Err("two requests with a cookie got the same stored answer".to_owned()),
        false => Ok(()),
    }
}

fn upload(server: &SelftestServer) -> Result<(), String> {
    let body = LONG.repeat(100);
    let answer = server.get("POST", "/echo", "", &body)?;
    expect("the body that came back", answer.body == body.as_bytes(), true)
}

fn gzip(server: &SelftestServer) -> Result<(), String> {
    let packed = server.get("GET", "/long", "Accept-Encoding: gzip\r\n", "")?;
    expect("Content-Encoding", field(&packed, "Content-Encoding"), "gzip".to_owned())?;
    let plain = server.get("GET", "/long", "", "")?;
    expect("Content-Encoding for others", field(&plain, "Content-Encoding"), String::new())?;
    expect("the text for others", plain.body.starts_with(LONG.as_bytes()), true)?;
    expect("that it is shorter when packed", packed.body.len() < plain.body.len() / 10, true)
}

fn partial(server: &SelftestServer) -> Result<(), String> {
    let part = server.get("GET", "/", "Range: bytes=0-4\r\n", "")?;
    expect("the status of a range", part.head.status(), 206)?;
    expect("the range", part.body, b"hello".to_vec())?;
    let known = server.get("GET", "/", "If-None-Match: \"one\"\r\n", "")?;
    expect("the status for who has it", known.head.status(), 304)
}

fn esi(server: &SelftestServer) -> Result<(), String> {
    let page = server.get("GET", "/page", "", "")?;
    expect("the page", String::from_utf8_lossy(&page.body).into_owned(), "<p>before, a part, after</p>".to_owned())
}

fn purge(server: &SelftestServer) -> Result<(), String> {
    twice(server, "/purged")?;
    expect("the status of PURGE", server.get("PURGE", "/purged", "", "")?.head.status(), 200)?;
    let after = server.get("GET", "/purged", "", "")?;
    expect("hits of the answer after it", field(&after, "X-Hits"), "0".to_owned())
}

fn ban(server: &mut SelftestServer) -> Result<(), String> {
    twice(server, "/banned")?;
    server.ask("ban req.url == /banned")?;
    let after = server.get("GET", "/banned", "", "")?;
    expect("hits of the answer after it", field(&after, "X-Hits"), "0".to_owned())
}

fn disk(server: &SelftestServer) -> Result<(), String> {
    let [_, second] = twice(server, "/disk")?;
    expect("hits of the second answer", field(&second, "X-Hits"), "1".to_owned())
}

fn mistake(server: &mut SelftestServer) -> Result<(), String> {
    let refused = server.ask("vcl.inline wrong \"vcl 4.1; backend a none; sub vcl_recv { return (nonsense); }\"");
    if refused.is_ok() {
        return Err("it was taken".to_owned());
    }
    expect("the status afterwards", server.get("GET", "/", "", "")?.head.status(), 200)
}

fn log(server: &SelftestServer) -> Result<(), String> {
    server.get("GET", "/told-of", "", "")?;
    let end = Instant::now() + SOON;
    loop {
        let mut command = own("varnishlog")?;
        command.args(["-d", "-i", "ReqURL", "-n"]).arg(server.n());
        let (_, text) = said_by(command)?;
        if text.contains("/told-of") {
            return Ok(());
        }
        if Instant::now() > end {
            return Err(format!("varnishlog -d doesn't show the request: {text}"));
        }
        thread::sleep(STEP);
    }
}

fn counters(server: &SelftestServer) -> Result<(), String> {
    let mut reader = shm::reader::CounterReader::new(&server.n());
    let end = Instant::now() + SOON;
    loop {
        let all = reader.read().map_err(|e| e.to_string())?;
        let of = |name: &str| all.iter().find(|counter| counter.full_name() == name).map_or(0, |counter| counter.value);
        if of("MAIN.client_req") > 0 && of("MAIN.cache_hit") > 0 && of("MAIN.cache_miss") > 0 {
            return Ok(());
        }
        if Instant::now() > end {
            return Err("MAIN.client_req, cache_hit or cache_miss stands at 0".to_owned());
        }
        thread::sleep(STEP);
    }
}

fn death(server: &SelftestServer) -> Result<(), String> {
    let [first, _] = twice(server, "/kept")?;
    let worker = server.worker().ok_or("there is no worker")?;
    let pid = i32::try_from(worker).map_err(|e| e.to_string())?;
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
        .map_err(|e| e.to_string())?;
    let end = Instant::now() + SOON;
    while server.worker() == Some(worker) || server.worker().is_none() {
        if Instant::now() > end {
            return Err(format!("no new worker after {} s", SOON.as_secs()));
        }
        thread::sleep(STEP);
    }
    let after = server.get("GET", "/kept", "", "")?;
    expect("the answer, still the same", field(&after, "X-Answer"), field(&first, "X-Answer"))
}
