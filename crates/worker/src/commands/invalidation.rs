// SPDX-License-Identifier: BSD-2-Clause
//! CLI commands that ban and purge.

use cache::{BAN_FIELDS, BanError, SpreadRow};
use cli::{CliReply, CliRequest, CliStatus, reply};
use fleet::Invalidation;
use params::DebugBit;

use super::{taken_apart, with_json};
use crate::worker::Worker;

pub(super) fn ban(worker: &Worker, request: &CliRequest) -> CliReply {
    let args = request.split_args();
    let words: Vec<&str> = args.iter().map(|word| std::str::from_utf8(word).unwrap_or("")).collect();
    let cache = &worker.engine.cache;
    let spec = match cache.ban_of_words(&words) {
        Ok(spec) => spec,
        Err(error) => return bad_ban(&error),
    };
    if let Err(reason) = worker.engine.may_ban(&spec) {
        return CliReply::new(CliStatus::Cant, format!("Nothing is banned: {reason}"));
    }
    if let Err(refusal) = worker.engine.cluster.may_announce() {
        return CliReply::new(CliStatus::Cant, format!("Nothing is banned: {}", refusal.0));
    }
    let (entry, now) = (engine::cluster::ban(&spec), worker.engine.clock.real());
    let pending = worker.engine.begin_invalidation();
    cache.ban(spec);
    let announced = crate::fleet::announce(worker, || entry, now);
    drop(pending);
    if let Err(reason) = crate::journal::wait(worker) {
        return CliReply::new(
            CliStatus::Cant,
            format!("The ban is in effect, but may not survive a restart: {reason}"),
        );
    }
    match announced.map_or(Ok(()), crate::fleet::wait) {
        Ok(()) => CliReply::ok(""),
        Err(reason) => CliReply::new(
            CliStatus::Cant,
            format!("The ban is in effect on this node, but perhaps on no other: {reason}"),
        ),
    }
}

fn bad_ban(error: &BanError) -> CliReply {
    let refusal = CliReply::param(error.to_string());
    match error {
        BanError::UnknownField(word) => refusal.meant(word, BAN_FIELDS.into_iter()).line(reply::BAN_EXAMPLE),
        _ => refusal.line(reply::BAN_EXAMPLE),
    }
}

pub(super) fn purge_tags(worker: &Worker, request: &CliRequest) -> CliReply {
    if !worker.engine.cache.keeps_tags() {
        return CliReply::new(CliStatus::Cant, "No tags are kept: name fields in tag_fields, or give tags by VCL");
    }
    purge(worker, request, |tags| Ok(tags.to_vec()))
}

/// `purge.url [-s] URL` and its like: `tag` makes of host and path what is to be purged.
pub(super) fn purge_urls(worker: &Worker, request: &CliRequest, tag: fn(&[u8], &[u8]) -> Vec<u8>) -> CliReply {
    if !worker.engine.params.load().tag_urls {
        return CliReply::new(CliStatus::Cant, "Objects have no tags of their URLs: switch tag_urls on");
    }
    purge(worker, request, |words| {
        let [url] = words else { return Err("One at a time".to_owned()) };
        let url = std::str::from_utf8(url).map_err(|_| "Only text can be a URL".to_owned())?;
        let (host, path) = taken_apart(url)?;
        let host = host.ok_or("Which host? As in http://host/path, or host/path")?;
        Ok(vec![tag(host.as_bytes(), path.as_bytes())])
    })
}

/// Purges what `tags` makes of the words behind the command and its `-s`.
fn purge(
    worker: &Worker,
    request: &CliRequest,
    tags: impl FnOnce(&[Vec<u8>]) -> Result<Vec<Vec<u8>>, String>,
) -> CliReply {
    let is_soft = request.arg(0) == Some("-s");
    let words = &request.args()[usize::from(is_soft)..];
    if words.is_empty() {
        return CliReply::new(CliStatus::Param, "Purge what?");
    }
    let tags = match tags(words) {
        Ok(tags) => tags,
        Err(reason) => return CliReply::new(CliStatus::Param, reason),
    };
    let engine = &worker.engine;
    if let Err(refusal) = engine.cluster.may_announce() {
        return CliReply::new(CliStatus::Cant, format!("Nothing is purged: {}", refusal.0));
    }
    let now = engine.clock.real();
    let pending = engine.begin_invalidation();
    let mut purge = engine.cache.purge_tags(tags.iter().map(Vec::as_slice), engine.mono_of(now), is_soft);
    let count = loop {
        if let Some(count) = purge.step() {
            break count;
        }
    };
    let told = format!("{count} object{} purged", if count == 1 { "" } else { "s" });
    let announced = crate::fleet::announce(worker, || Invalidation::Tags { tags, is_soft }, now);
    drop(pending);
    if let Err(reason) = crate::journal::wait(worker) {
        return CliReply::new(CliStatus::Cant, format!("{told}, which may not survive a restart: {reason}"));
    }
    match announced.map_or(Ok(()), crate::fleet::wait) {
        Ok(()) => CliReply::ok(format!("{told}\n")),
        Err(reason) => CliReply::new(CliStatus::Cant, format!("{told} on this node, perhaps none on others: {reason}")),
    }
}

pub(super) fn ban_cancel(worker: &Worker, request: &CliRequest) -> CliReply {
    let id = request.arg(0).and_then(|id| id.parse().ok());
    let Some(count) = id.and_then(|id| worker.engine.cache.cancel_spread(id)) else {
        return CliReply::param("No ban with this ID is being spread: see ban.spreads");
    };
    let told =
        format!("Cancelled; {count} object{} that had a moment still become stale", if count == 1 { "" } else { "s" });
    match crate::journal::wait(worker) {
        Ok(()) => CliReply::ok(format!("{told}\n")),
        Err(reason) => CliReply::new(CliStatus::Cant, format!("{told}, but the ban may come back: {reason}")),
    }
}

pub(super) fn ban_spreads(worker: &Worker, request: &CliRequest) -> CliReply {
    let rows = worker.engine.cache.spreads();
    if request.wants_json() {
        let objects = rows.iter().map(|row| {
            let SpreadRow { id, made, matched, turned, left_seconds, is_complete, spec } = row;
            serde_json::json!({
                "id": id, "time": made, "matched": matched, "turned": turned, "left": matched - turned,
                "ends_in": left_seconds, "complete": is_complete, "spec": spec,
            })
        });
        return with_json(worker, request, &objects.map(|object| format!(",\n{object}")).collect::<String>());
    }
    let mut out =
        format!("{:>8} {:>17} {:>9} {:>9} {:>9} {:>8} C\n", "ID", "Time", "Matched", "Turned", "Left", "Ends in");
    for row in rows {
        let (left, done) = (row.matched - row.turned, if row.is_complete { 'C' } else { '-' });
        out.push_str(&format!(
            "{:8} {:17.6} {:9} {:9} {left:9} {:7.0}s {done}  {}\n",
            row.id, row.made, row.matched, row.turned, row.left_seconds, row.spec
        ));
    }
    CliReply::ok(out)
}

pub(super) fn ban_list(worker: &Worker, request: &CliRequest) -> CliReply {
    let debug = worker.engine.params.load().debug.has(DebugBit::Lurker);
    if request.wants_json() {
        let rows = worker.engine.cache.ban_list_json(debug);
        return with_json(worker, request, &if rows.is_empty() { rows } else { format!(",\n{rows}") });
    }
    CliReply::ok(worker.engine.cache.ban_list(debug))
}
