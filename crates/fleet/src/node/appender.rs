// SPDX-License-Identifier: BSD-2-Clause
//! The thread that appends. What has come meanwhile goes out at once and together; what got no answer is sent again over another
//! connection, until whoever made it has waited long enough.
//!
//! Between entries it asks for the log's end, so that it is known early when the log is away.

use std::time::{Duration, Instant};

use super::{Reach, Shared, Waiting};
use crate::{Applier, Connect, Fault, Link, Outgoing};

/// Entries sent together.
const BATCH: usize = 256;
/// Between two looks at the log's end.
const LOOK: Duration = Duration::from_secs(1);
/// For a connection.
const CONNECT_TIME: Duration = Duration::from_secs(2);
/// Between two attempts to connect, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Appends until the node ends.
pub(super) fn run(shared: &Shared, connect: &dyn Connect, applier: &dyn Applier) {
    let (mut pause, mut turn) = (FIRST_PAUSE, 0);
    while !shared.is_over() {
        let server = &shared.settings.servers[turn % shared.settings.servers.len()];
        let connected = connect.connect(server, Instant::now() + CONNECT_TIME).and_then(|mut link| {
            let bounds = link.bounds()?;
            Ok((link, bounds.last))
        });
        let fault = match connected {
            Ok((mut link, head)) => {
                pause = FIRST_PAUSE;
                shared.change(applier, |status| {
                    (status.append, status.head) = (Reach::Up(server.to_string()), head.max(status.applied));
                });
                serve(shared, &mut *link, applier)
            }
            Err(fault) => fault,
        };
        turn += 1;
        let why = format!("{server}: {fault}");
        shared.change(applier, |status| {
            let since = match &status.append {
                Reach::Away(since, _) => *since,
                Reach::Up(_) => Instant::now(),
            };
            status.append = Reach::Away(since, why);
        });
        wait(shared, applier, pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    expire(shared, applier, None);
}

/// Appends over one connection until it fails.
fn serve(shared: &Shared, link: &mut dyn Link, applier: &dyn Applier) -> Fault {
    loop {
        let batch = next_batch(shared);
        if shared.is_over() {
            requeue(shared, batch);
            return Fault::new("this node ends");
        }
        if batch.is_empty() {
            match link.bounds() {
                Ok(bounds) => shared.change(applier, |status| status.head = bounds.last.max(status.applied)),
                Err(fault) => return fault,
            }
            continue;
        }
        let entries: Vec<Outgoing<'_>> =
            batch.iter().map(|entry| Outgoing { id: &entry.id, bytes: &entry.bytes }).collect();
        match link.append(&entries) {
            Ok(results) => settle(shared, applier, batch, results),
            Err(fault) => {
                requeue(shared, batch);
                return fault;
            }
        }
    }
}

/// What waits; nothing once it is time to look at the log's end.
fn next_batch(shared: &Shared) -> Vec<Waiting> {
    let mut queue = shared.queue.lock();
    let until = Instant::now() + LOOK;
    while queue.waiting.is_empty() && !shared.is_over() {
        if shared.bell.wait_until(&mut queue, until).timed_out() {
            break;
        }
    }
    let count = queue.waiting.len().min(BATCH);
    queue.waiting.drain(..count).collect()
}

/// In front of what has come since.
fn requeue(shared: &Shared, batch: Vec<Waiting>) {
    let mut queue = shared.queue.lock();
    batch.into_iter().rev().for_each(|entry| queue.waiting.push_front(entry));
}

/// Tells who waits for these.
fn settle(shared: &Shared, applier: &dyn Applier, batch: Vec<Waiting>, results: Vec<Result<u64, Fault>>) {
    let appended = results.iter().filter(|result| result.is_ok()).count() as u64;
    let head = results.iter().filter_map(|result| result.as_ref().ok()).max().copied().unwrap_or(0);
    shared.change(applier, |status| {
        status.appended += appended;
        status.refused += results.len() as u64 - appended;
        status.head = status.head.max(head);
    });
    for (entry, result) in batch.iter().zip(results) {
        entry.outcome.set(result.map_err(|fault| format!("the fleet's log doesn't take it: {fault}")));
    }
}

/// Waits for the next attempt, and tells those whose time has come that it is in vain.
fn wait(shared: &Shared, applier: &dyn Applier, pause: Duration) {
    let until = Instant::now() + pause;
    loop {
        expire(shared, applier, Some(Instant::now()));
        let mut queue = shared.queue.lock();
        let earliest = queue.waiting.iter().map(|entry| entry.until).min();
        let next = earliest.map_or(until, |earliest| earliest.min(until));
        if shared.is_over() || Instant::now() >= until {
            return;
        }
        shared.bell.wait_until(&mut queue, next);
    }
}

/// Gives up the entries whose time is over by `now`; `None`: all of them.
fn expire(shared: &Shared, applier: &dyn Applier, now: Option<Instant>) {
    let expired: Vec<Waiting> = {
        let mut queue = shared.queue.lock();
        let is_over = |entry: &Waiting| now.is_none_or(|now| entry.until <= now);
        let (expired, waiting): (Vec<_>, Vec<_>) = queue.waiting.drain(..).partition(is_over);
        queue.waiting = waiting.into();
        expired
    };
    if expired.is_empty() {
        return;
    }
    shared.change(applier, |status| status.refused += expired.len() as u64);
    let why = match &shared.status.lock().append {
        Reach::Up(_) => "it takes too long".to_owned(),
        Reach::Away(_, why) => why.clone(),
    };
    expired.iter().for_each(|entry| entry.outcome.set(Err(shared.away(&why))));
}
