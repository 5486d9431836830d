// SPDX-License-Identifier: BSD-2-Clause
//! The CLI commands that the worker answers.

mod costs;
mod invalidation;
mod vcls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backend::{AdminHealth, Director};
use cli::drain::DrainState;
use cli::{CliReply, CliRequest, CliStatus, reply};
use tables::cli_cmds::{self, WorkerCommand as Id};

use crate::conf;
use crate::memory::MemoryReport;
use crate::succession;
use crate::worker::Worker;
use invalidation::{ban, ban_cancel, ban_list, ban_spreads, purge_tags, purge_urls};
use vcls::{vcl_discard, vcl_load, vcl_profile, vcl_show, vcl_state, vcl_use, vmods_in_use};

/// Time limit of VCL for a question.
const EXPLAIN_TIME: Duration = Duration::from_secs(5);

pub fn answer(worker: &Arc<Worker>, request: &CliRequest) -> CliReply {
    let arg = |at: usize| request.arg(at).unwrap_or_default().to_string();
    let Some(command) = cli_cmds::lookup(request.name()) else {
        // The manager passes on what it doesn't know.
        return request.command(true).err().unwrap_or_else(CliReply::unknown);
    };
    let Some(id) = command.worker else { return not_built(command.name) };
    match id {
        Id::Ping => CliReply::ok(format!("PONG {} 1.0", worker.engine.clock.real().0 as u64)),
        Id::Start => start(worker),
        Id::VclLoad => vcl_load(worker, &arg(0), &arg(1), &arg(2)),
        Id::VclUse => vcl_use(worker, &arg(0)),
        Id::VclState => vcl_state(worker, &arg(0), &arg(1)),
        Id::VclLabel => {
            worker.vcls.label(&arg(0), &arg(1));
            if worker.vcls.active() == arg(0) { vcl_use(worker, &arg(0)) } else { CliReply::ok("") }
        }
        Id::VclDiscard => vcl_discard(worker, &arg(0)),
        Id::VclList if request.wants_json() => with_json(worker, request, &worker.vcls.list_json()),
        Id::VclList => CliReply::ok(worker.vcls.list(worker.engine.params.load().compat())),
        Id::ParamSet => param_set(worker, &arg(0), &arg(1)),
        Id::ParamReset => param_reset(worker, &arg(0)),
        Id::Ban => ban(worker, request),
        Id::BanCancel => ban_cancel(worker, request),
        Id::BanSpreads => ban_spreads(worker, request),
        Id::BanList => ban_list(worker, request),
        Id::BotsList => bots_list(worker, request),
        Id::BackendList => backend_list(worker, request),
        Id::BackendSetHealth => set_health(worker, &arg(0), &arg(1)),
        Id::DebugAcme => {
            challenge(worker, &request.args().iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>())
        }
        Id::Drain => leave(worker, request),
        Id::DebugDrain => drain(worker, &arg(0)),
        Id::DebugHandover => handover(worker, &arg(0)),
        Id::DebugListenAddress => CliReply::ok(addresses(worker)),
        Id::DebugXid => xid(worker, request),
        Id::DebugSrandom => {
            worker.engine.vcls.random.seed(arg(0).parse().unwrap_or(1));
            CliReply::ok("")
        }
        Id::DebugFragfetch => fragfetch(worker, &arg(0)),
        Id::DebugPanicWorker => crate::panic::on_request("debug.panic.worker: You asked for it"),
        Id::DebugPersistent => CliReply::new(CliStatus::Cant, "There are no stores here that outlive the worker"),
        Id::DebugSecrets => match worker.secrets.take() {
            Ok(()) => CliReply::ok(""),
            Err(reason) => CliReply::new(CliStatus::Cant, reason),
        },
        Id::DebugShutdownDelay => match base::text::parse_duration(&arg(0)) {
            Some(seconds) => {
                worker.shutdown_delay_ms.store((seconds.clamp(0.0, 3600.0) * 1e3) as u64, Ordering::Relaxed);
                CliReply::ok("")
            }
            None => CliReply::new(CliStatus::Param, "that is no number of seconds"),
        },
        Id::DebugVmod => CliReply::ok(vmods_in_use(worker)),
        Id::VclProfile => vcl_profile(worker, request),
        Id::VclShow => vcl_show(worker, request),
        Id::Explain => explain(worker, request),
        Id::FleetDeployed => fleet_deployed(worker, request),
        Id::FleetDocument | Id::FleetReplace => fleet_document(worker, request),
        Id::FleetNodes => fleet_nodes(worker, request),
        Id::FleetStatus => fleet_status(worker, request),
        Id::PurgeHost => purge_urls(worker, request, |host, _| message::tags::of_prefix(host, b"")),
        Id::PurgePrefix => purge_urls(worker, request, message::tags::of_prefix),
        Id::PurgeTag => purge_tags(worker, request),
        Id::PurgeUrl => purge_urls(worker, request, message::tags::of_url),
        Id::MemoryList => memory_list(worker, request),
        Id::DebugReqpoolFail => not_built(command.name),
    }
}

/// Declared, but not for the worker, or not yet.
fn not_built(name: &str) -> CliReply {
    CliReply::new(CliStatus::Unimplemented, format!("{name} isn't built yet"))
}

/// `explain [-m METHOD] [-c ADDRESS] URL [FIELD...]`
fn explain(worker: &Arc<Worker>, request: &CliRequest) -> CliReply {
    let question = match question(request) {
        Ok(question) => question,
        Err(reason) => return CliReply::new(CliStatus::Param, reason),
    };
    let engine = worker.engine.clone();
    let told = rt::run(async move { rt::timeout(EXPLAIN_TIME, engine::explain(&engine, &question)).await });
    match told {
        Ok(Ok(Ok(text))) => CliReply::ok(text),
        Ok(Ok(Err(reason))) => CliReply::new(CliStatus::Cant, reason),
        Ok(Err(rt::Elapsed)) => CliReply::new(CliStatus::Cant, "VCL waits for something for too long."),
        Err(error) => CliReply::new(CliStatus::Cant, error.to_string()),
    }
}

fn memory_list(worker: &Worker, request: &CliRequest) -> CliReply {
    let report = MemoryReport::gather(worker);
    if request.wants_json() {
        return with_json(worker, request, &report.json());
    }
    CliReply::ok(report.text())
}

fn bots_list(worker: &Worker, request: &CliRequest) -> CliReply {
    let most = match request.arg(0).map(|word| word.parse()) {
        None => costs::ROWS,
        Some(Ok(most @ 1..=costs::MOST_ROWS)) => most,
        Some(_) => return CliReply::param(format!("<rows> is a number from 1 to {}", costs::MOST_ROWS)),
    };
    let Some(report) = worker.engine.costs(most) else {
        return CliReply::new(CliStatus::Cant, "There are no accounts: set the parameter bots to observe or on");
    };
    if request.wants_json() {
        return with_json(worker, request, &costs::json(&report, &worker.engine.params.load().bots));
    }
    CliReply::ok(costs::text(&report))
}

fn question(request: &CliRequest) -> Result<engine::TrialRequest, String> {
    let words = request.args().iter().map(|word| String::from_utf8(word.clone()));
    let words: Vec<String> = words.collect::<Result<_, _>>().map_err(|_| "Only text can be asked about".to_owned())?;
    let mut question = engine::TrialRequest {
        method: "GET".to_owned(),
        url: String::new(),
        fields: Vec::new(),
        // No client has it, and no ACL names it: a trial gets past none unless that is asked for.
        client: SocketAddr::from(([0, 0, 0, 0], 0)),
    };
    let mut words = words.into_iter();
    let url = loop {
        let word = words.next().ok_or("Which URL?")?;
        match word.as_str() {
            "-m" => question.method = words.next().ok_or("Which method?")?,
            "-c" => {
                let address = words.next().ok_or("Which address?")?;
                let ip = address.parse().map_err(|_| format!("{address} is no address"))?;
                question.client = SocketAddr::new(ip, 0);
            }
            _ => break word,
        }
    };
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_graphic());
    if !is_token(&question.method) || !is_token(&url) {
        return Err("That is no method and URL as a request has them".to_owned());
    }
    question.fields = words.collect();
    let (host, path) = taken_apart(&url)?;
    // One that is given counts, as with curl.
    let is_given =
        question.fields.iter().any(|line| line.split(':').next().is_some_and(|n| n.eq_ignore_ascii_case("host")));
    if let Some(host) = host.filter(|_| !is_given) {
        question.fields.insert(0, format!("Host: {host}"));
    }
    question.fields.retain(|line| !line.ends_with(':'));
    question.url = path;
    Ok(question)
}

/// Host and path of a URL as people write them for curl: `http://host/a`, `host:6081/a`, or a path alone.
fn taken_apart(url: &str) -> Result<(Option<String>, String), String> {
    let url = url.split('#').next().unwrap_or_default();
    if url.starts_with('/') || url == "*" {
        return Ok((None, url.to_owned()));
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let port = match scheme.to_ascii_lowercase().as_str() {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(format!("{scheme}:// is not asked for here: http:// or https://")),
    };
    let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    if host.contains('@') {
        return Err("Give the user as a field: Authorization: Basic ...".to_owned());
    }
    let host = host.strip_suffix(port).unwrap_or(host);
    if !message::authority::is_valid(host.as_bytes()) || host.is_empty() {
        return Err(format!("{host:?} is no host"));
    }
    let slash = if path.starts_with('/') { "" } else { "/" };
    Ok((Some(host.to_owned()), format!("{slash}{path}")))
}

fn fragfetch(worker: &Worker, bytes: &str) -> CliReply {
    let Ok(bytes) = bytes.parse() else { return CliReply::new(CliStatus::Param, "A number of bytes is wanted") };
    worker.engine.fetches.set_piece_bytes(bytes);
    CliReply::ok("")
}

/// A question of a certificate authority that is to be answered, or no longer.
fn challenge(worker: &Worker, words: &[std::borrow::Cow<'_, str>]) -> CliReply {
    use sha2::{Digest, Sha256};
    let all = &worker.engine.sessions.challenges;
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    match words.as_slice() {
        ["http-01", name, token, answer] => all.add_http(name, token, answer),
        ["tls-alpn-01", name, token, answer] => {
            if let Err(reason) = all.add_alpn(name, token, &Sha256::digest(answer.as_bytes()).into()) {
                return CliReply::new(CliStatus::Param, reason);
            }
        }
        ["hide", token] => all.remove(token),
        ["wanted", "names"] => return CliReply::ok(worker.secrets.keyring.wanted().take().join("\n")),
        ["wanted", "allowed"] => return CliReply::ok(worker.demand.take_allowed().join("\n")),
        ["ask", name] => worker.demand.ask(name),
        _ => {
            return CliReply::new(
                CliStatus::Param,
                "http-01 or tls-alpn-01 with name, token and answer; hide with a token; ask with a name; or wanted names, wanted allowed",
            );
        }
    }
    CliReply::ok("")
}

fn leave(worker: &Worker, request: &CliRequest) -> CliReply {
    let sessions = &worker.engine.sessions;
    if let Some(word) = request.arg(0) {
        sessions.drain.set_leaving(word == "on");
    }
    let in_progress: u64 = worker.threads.lock().iter().map(|thread| thread.work.open()).sum();
    let state = DrainState {
        is_on: sessions.drain.is_leaving(),
        connections: u64::try_from(sessions.open()).unwrap_or(0),
        requests: in_progress,
    };
    if request.wants_json() { with_json(worker, request, &state.json()) } else { CliReply::ok(state.to_string()) }
}

fn drain(worker: &Worker, seconds: &str) -> CliReply {
    let number = seconds.parse().ok().or_else(|| base::text::parse_duration(seconds));
    let Some(limit) = number.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) else {
        return CliReply::new(CliStatus::Param, "that is no number of seconds");
    };
    worker.drain.begin(&worker.engine, limit);
    CliReply::ok("")
}

/// `debug.handover begin|end|undo`, to a worker that has a successor; `undo` says whether there was anything to undo.
/// `commit`, to the successor: the other one isn't asked to go on any more.
fn handover(worker: &Arc<Worker>, what: &str) -> CliReply {
    let done = match what {
        "begin" => succession::begin(worker),
        "end" => succession::end(worker),
        "commit" => {
            worker.disks.want_to_write();
            Ok(())
        }
        "undo" => return CliReply::ok(if succession::undo(worker) { "undone" } else { "" }),
        _ => return CliReply::new(CliStatus::Param, "begin, commit, end or undo"),
    };
    match done {
        Ok(()) => CliReply::ok(""),
        Err(reason) => CliReply::new(CliStatus::Cant, reason),
    }
}

fn with_json(worker: &Worker, request: &CliRequest, members: &str) -> CliReply {
    let begin = reply::json_begin(2, &request.words, worker.engine.clock.real().0);
    CliReply::ok(format!("{}{members}{}", begin, reply::json_end()))
}

fn start(worker: &Arc<Worker>) -> CliReply {
    if worker.accepting.swap(true, Ordering::Relaxed) {
        return CliReply::ok("");
    }
    let taken_over = succession::take_over(worker);
    match taken_over.and_then(|()| crate::serving::start(worker)).and_then(|()| crate::worker::reserve_log(worker)) {
        Ok(()) => CliReply::ok(""),
        Err(reason) => CliReply::new(CliStatus::Cant, reason),
    }
}

fn param_set(worker: &Worker, name: &str, value: &str) -> CliReply {
    change_params(worker, |params| params.set(name, value).map(drop))
}

fn param_reset(worker: &Worker, name: &str) -> CliReply {
    change_params(worker, |params| params.reset(name).map(drop))
}

fn change_params(
    worker: &Worker,
    change: impl FnOnce(&mut params::Params) -> Result<(), params::ParamError>,
) -> CliReply {
    let engine = &worker.engine;
    let mut params = (*engine.params.load_full()).clone();
    if let Err(error) = change(&mut params) {
        return CliReply::new(CliStatus::Param, error.to_string());
    }
    engine.log.apply(params.log_settings());
    engine.requests.admission.apply(&params);
    worker.services.declare_classes(&params);
    worker.services.declare_tenants(&params);
    engine.cache.set_params(engine::cache_params(&params));
    conf::apply_to_process(&params);
    crate::steps::apply(&params);
    worker.memory.apply(&params);
    if conf::gives_tags(&params) {
        worker.services.enable_tags();
    }
    engine.params.store(Arc::new(params));
    CliReply::ok("")
}

fn fleet_node(worker: &Worker) -> Result<&fleet::Node, CliReply> {
    let none = || CliReply::new(CliStatus::Cant, "This server belongs to no fleet: it was started without --fleet");
    worker.engine.cluster.node().ok_or_else(none)
}

fn fleet_nodes(worker: &Worker, request: &CliRequest) -> CliReply {
    let node = match fleet_node(worker) {
        Ok(node) => node,
        Err(reply) => return reply,
    };
    match request.wants_json() {
        true => with_json(worker, request, &format!(",\n{}", crate::fleet::nodes_json(node))),
        false => CliReply::ok(crate::fleet::nodes_text(node, worker.engine.clock.real())),
    }
}

fn fleet_deployed(worker: &Worker, request: &CliRequest) -> CliReply {
    let node = match fleet_node(worker) {
        Ok(node) => node,
        Err(reply) => return reply,
    };
    let said = request.args().first().map(Vec::as_slice).unwrap_or_default();
    match fleet::Deployed::read(said) {
        Some(deployed) => {
            node.set_deployed(deployed);
            CliReply::ok("")
        }
        None => CliReply::new(CliStatus::Param, "that is no report of a roll-out"),
    }
}

fn fleet_document(worker: &Worker, request: &CliRequest) -> CliReply {
    let node = match fleet_node(worker) {
        Ok(node) => node,
        Err(reply) => return reply,
    };
    if !node.settings().deploys {
        return CliReply::new(CliStatus::Cant, "This node doesn't accept roll-outs: set deploy=on in --fleet");
    }
    let word = |at: usize| request.args().get(at).map(Vec::as_slice);
    let name = request.arg(0).unwrap_or("\u{fffd}");
    let done = match (word(1), word(2)) {
        (None, _) => node.document(name).map(|found| match found {
            Some(bytes) => CliReply { status: CliStatus::Ok, body: bytes },
            None => CliReply::ok(""),
        }),
        (Some(bytes), Some(b"")) => node.replace(name, None, bytes).map(replaced),
        (Some(bytes), Some(was)) => node.replace(name, Some(was), bytes).map(replaced),
        (Some(bytes), None) => {
            node.document(name).and_then(|was| node.replace(name, was.as_deref(), bytes)).map(replaced)
        }
    };
    done.unwrap_or_else(|reason| CliReply::new(CliStatus::Cant, reason))
}

fn replaced(is_done: bool) -> CliReply {
    match is_done {
        true => CliReply::ok(""),
        false => CliReply::new(CliStatus::Cant, "Another one is there"),
    }
}

fn fleet_status(worker: &Worker, request: &CliRequest) -> CliReply {
    let (node, peers) = (worker.engine.cluster.node(), worker.engine.cluster.peers());
    if node.is_none() && peers.is_none() {
        return CliReply::new(
            CliStatus::Cant,
            "This server belongs to no fleet: it was started without --fleet and --peers",
        );
    }
    if request.wants_json() {
        let mut row = node.map_or_else(|| serde_json::json!({}), crate::fleet::status_json);
        if let Some(peers) = peers {
            row["peers"] = crate::peers::status_json(peers);
        }
        return with_json(worker, request, &format!(",\n{row}"));
    }
    let text = node.map(crate::fleet::status_text).unwrap_or_default();
    CliReply::ok(text + &peers.map(crate::peers::status_text).unwrap_or_default())
}

fn all_directors(worker: &Worker) -> Vec<Arc<dyn Director>> {
    worker.vcls.all().iter().flat_map(|vcl| vcl.directors()).collect()
}

fn backend_list(worker: &Worker, request: &CliRequest) -> CliReply {
    let words: Vec<&str> = request.words.iter().map(|word| std::str::from_utf8(word).unwrap_or("")).collect();
    let (flags, pattern) = match backend::parse_list_flags(&words[1..]) {
        Ok(parsed) => parsed,
        Err(text) => return CliReply::new(CliStatus::Param, text),
    };
    let found = backend::matching(pattern, &worker.vcls.active(), &all_directors(worker));
    let now = worker.engine.clock.real();
    if flags.json {
        return CliReply::ok(backend::list_json(&found, &words, flags, now));
    }
    CliReply::ok(backend::list_text(&found, flags, now, worker.engine.params.load().compat(), message::date::text))
}

fn set_health(worker: &Worker, pattern: &str, word: &str) -> CliReply {
    let Some(health) = AdminHealth::parse(word) else {
        let invalid = CliReply::param(format!("Invalid state {word}"));
        return invalid.meant(word, ["auto", "healthy", "sick"].into_iter());
    };
    let (active, all) = (worker.vcls.active(), all_directors(worker));
    let found = backend::matching(Some(pattern), &active, &all);
    if backend::set_health(&found, health, worker.engine.clock.real()) {
        CliReply::ok("")
    } else {
        // With a dot the pattern begins with the name of a VCL, without one it is a name of the active VCL's.
        let names = all.iter().map(|director| director.base().cli_name());
        let own = names.clone().filter_map(|name| name.strip_prefix(&*active)?.strip_prefix('.'));
        CliReply::param("No Backends matches").meant(pattern, names.chain(own))
    }
}

fn addresses(worker: &Worker) -> String {
    let mut rows: Vec<String> = Vec::new();
    for listener in &worker.start.listeners {
        let tail = if listener.is_uds { " -" } else { "" };
        let row = format!("{} {}{tail}\n", listener.name, listener.address);
        if rows.last() != Some(&row) {
            rows.push(row);
        }
    }
    rows.concat()
}

fn xid(worker: &Worker, request: &CliRequest) -> CliReply {
    // Up to 7.1 the number is the last one used, from 7.3 on the next one.
    let next = u64::from(worker.engine.params.load().compat().is_9());
    if let Some(number) = request.arg(0) {
        let Ok(number) = number.parse::<u64>() else {
            return CliReply::new(CliStatus::Param, format!("{number} is no number"));
        };
        worker.engine.vxids.set_last(number.saturating_sub(next));
    }
    let chunk = request.arg(1).map_or_else(|| "1".to_owned(), |word| word.to_string());
    CliReply::ok(format!("XID is {} chunk {chunk}", worker.engine.vxids.last() + next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_as_curl_takes_them() {
        let apart = |url: &str| taken_apart(url);
        let is = |host: &str, path: &str| Ok((Some(host.to_owned()), path.to_owned()));
        assert_eq!(apart("127.0.0.1:6081/a"), is("127.0.0.1:6081", "/a"));
        assert_eq!(apart("localhost/a?b#c"), is("localhost", "/a?b"));
        assert_eq!(apart("localhost"), is("localhost", "/"));
        assert_eq!(apart("HTTP://h:80?x"), is("h", "/?x"));
        assert_eq!(apart("https://h:443/"), is("h", "/"));
        assert_eq!(apart("http://[::1]:6081/"), is("[::1]:6081", "/"));
        assert_eq!(apart("/a"), Ok((None, "/a".to_owned())));
        assert!(apart("ftp://h/").is_err() && apart("http://u:p@h/").is_err() && apart("http:///a").is_err());
    }
}
