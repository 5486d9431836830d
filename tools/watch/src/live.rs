// SPDX-License-Identifier: BSD-2-Clause
//! The live list of requests: its followers with their filters, and the records of the requests shown, so that a request can be opened.
//!
//! Transactions are assembled only while the list has followers. [`logq::redact`] removes secrets from the records first, so filters see no
//! more than people do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use logq::group::{Grouper, TxnFilter};
use logq::{BeginReason, Grouping, Query, Redaction, Txn, TxnType, record};
use serde_json::{Value, json};
use tables::tags::TagKind;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::text::shown;
use crate::transaction::{self, WatchedTransaction};

pub const MAX_FOLLOWERS: usize = 32;
/// Size of a follower's queue, in messages. Messages that don't fit are lost, and the follower is informed.
const QUEUE: usize = 256;
/// Maximum number of requests per second that are sent to a follower. Further matches are only counted.
const RATE: f64 = 50.0;
/// Maximum number of requests that can be opened.
const KEPT: usize = 1000;
/// Maximum size of their records in total, in bytes.
const KEPT_BYTES: usize = 16 << 20;
/// Maximum size of the records of one request, in bytes. The rest is dropped.
const GROUP_BYTES: usize = 1 << 20;
pub const MAX_QUERY_BYTES: usize = 2000;

struct Follower {
    number: u64,
    query: Option<Query>,
    sender: Sender<Arc<str>>,
    credits: f64,
    /// Number of matches that weren't sent because of the rate or a full queue.
    more: u64,
    lost: u64,
}

/// A transaction without its hidden parts.
struct Clean {
    vxid: u64,
    level: u32,
    parent: u64,
    kind: TxnType,
    reason: BeginReason,
    records: Vec<u8>,
}

struct Kept {
    number: u64,
    bytes: usize,
    group: Vec<Clean>,
    is_cut: bool,
}

pub struct LiveRequests {
    redaction: Redaction,
    followers: Vec<Follower>,
    grouper: Option<Grouper>,
    kept: VecDeque<Kept>,
    kept_bytes: usize,
    next: u64,
    refilled: Instant,
}

impl std::fmt::Debug for LiveRequests {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveRequests").field("followers", &self.followers.len()).finish_non_exhaustive()
    }
}

fn grouper() -> Grouper {
    let wanted = TxnFilter { backend: true, client: true, esi: true, limit: 2000, timeout: Duration::from_secs(60) };
    Grouper::new(Grouping::Request, wanted)
}

impl LiveRequests {
    pub fn new(redaction: Redaction) -> LiveRequests {
        LiveRequests {
            redaction,
            followers: Vec::new(),
            grouper: None,
            kept: VecDeque::new(),
            kept_bytes: 0,
            next: 1,
            refilled: Instant::now(),
        }
    }

    pub fn is_followed(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Begins to follow requests that match `query`.
    ///
    /// # Errors
    /// The filter is invalid, or there are too many followers.
    pub fn follow(&mut self, query: &str) -> Result<Receiver<Arc<str>>, FollowError> {
        self.forget_those_gone();
        if self.followers.len() >= MAX_FOLLOWERS {
            return Err(FollowError::TooMany);
        }
        if query.len() > MAX_QUERY_BYTES {
            return Err(FollowError::Query("the filter is too long".to_owned()));
        }
        let query = match query.trim() {
            "" => None,
            text => Some(Query::new(text, false).map_err(FollowError::Query)?),
        };
        let (sender, receiver) = channel(QUEUE);
        self.next += 1;
        self.followers.push(Follower { number: self.next, query, sender, credits: RATE, more: 0, lost: 0 });
        Ok(receiver)
    }

    fn forget_those_gone(&mut self) {
        self.followers.retain(|follower| !follower.sender.is_closed());
        if self.followers.is_empty() {
            self.grouper = None;
        }
    }

    pub fn feed(&mut self, records: &[u8], now: Instant) {
        if self.followers.is_empty() {
            return;
        }
        let mut grouper = self.grouper.take().unwrap_or_else(grouper);
        grouper.feed(records, now);
        while grouper.take(|group| self.take(group)).is_some() {}
        self.grouper = Some(grouper);
    }

    /// Handles a gap in the log: incomplete transactions will never be complete.
    pub fn gap(&mut self) {
        self.grouper = None;
    }

    fn take(&mut self, group: &[Txn<'_>]) {
        if group.first().is_none_or(|txn| txn.reason != BeginReason::Rxreq) {
            return;
        }
        // A follower without a filter needs the request only if its rate allows it.
        let has_use = |follower: &Follower| follower.query.is_some() || follower.credits >= 1.0;
        if !self.followers.iter().any(has_use) {
            self.followers.iter_mut().for_each(|follower| follower.more += 1);
            return;
        }
        let (clean, is_cut) = self.clean(group);
        let view: Vec<Txn<'_>> = clean.iter().map(Clean::view).collect();
        let fits: Vec<u64> = self
            .followers
            .iter()
            .filter(|follower| follower.query.as_ref().is_none_or(|query| query.matches(&view)))
            .map(|follower| follower.number)
            .collect();
        let mut line = None::<Arc<str>>;
        let number = self.next;
        for follower in self.followers.iter_mut().filter(|follower| fits.contains(&follower.number)) {
            if follower.credits < 1.0 {
                follower.more += 1;
                continue;
            }
            let line = line.get_or_insert_with(|| summary(number, &view).to_string().into());
            match follower.sender.try_send(Arc::clone(line)) {
                Ok(()) => follower.credits -= 1.0,
                Err(_) => follower.lost += 1,
            }
        }
        if line.is_some() {
            drop(view);
            self.keep(clean, is_cut);
        }
    }

    fn clean(&self, group: &[Txn<'_>]) -> (Vec<Clean>, bool) {
        let mut secrets = Vec::new();
        group.iter().for_each(|txn| self.redaction.secrets(txn.records, &mut secrets));
        let (mut left, mut is_cut) = (GROUP_BYTES, false);
        let clean = group.iter().map(|txn| {
            let whole = &txn.records[..txn.records.len().min(left)];
            is_cut |= whole.len() < txn.records.len();
            left -= whole.len();
            let records = self.redaction.apply(whole, &secrets);
            Clean { vxid: txn.vxid, level: txn.level, parent: txn.parent, kind: txn.kind, reason: txn.reason, records }
        });
        (clean.collect(), is_cut)
    }

    fn keep(&mut self, group: Vec<Clean>, is_cut: bool) {
        let bytes = group.iter().map(|txn| txn.records.len() + size_of::<Clean>()).sum();
        self.kept.push_back(Kept { number: self.next, bytes, group, is_cut });
        self.next += 1;
        self.kept_bytes += bytes;
        while self.kept.len() > KEPT || self.kept_bytes > KEPT_BYTES {
            let Some(gone) = self.kept.pop_front() else { return };
            self.kept_bytes -= gone.bytes;
        }
    }

    /// Informs followers of matches that weren't sent. To be called a few times per second.
    pub fn tick(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.refilled).as_secs_f64();
        self.refilled = now;
        self.forget_those_gone();
        for follower in &mut self.followers {
            follower.credits = (follower.credits + seconds * RATE).min(RATE);
            if follower.more + follower.lost > 0 {
                let text = json!({ "more": follower.more, "lost": follower.lost }).to_string();
                if follower.sender.try_send(text.into()).is_ok() {
                    (follower.more, follower.lost) = (0, 0);
                }
            }
        }
    }

    pub fn open(&self, number: u64) -> Option<Value> {
        let kept = self.kept.iter().find(|kept| kept.number == number)?;
        let transactions = kept.group.iter().map(|txn| {
            json!({
                "vxid": txn.vxid, "level": txn.level, "parent": txn.parent,
                "type": txn.kind.name(), "reason": txn.reason.name(),
                "records": record::records(&txn.records).map(|rec| {
                    let text = match rec.tag.kind() {
                        TagKind::Binary => base::hex::encode(rec.raw),
                        _ => shown(rec.text()),
                    };
                    json!([rec.tag.name(), rec.side().to_string(), text])
                }).collect::<Vec<_>>(),
            })
        });
        Some(json!({ "id": number, "cut": kept.is_cut, "transactions": transactions.collect::<Vec<_>>() }))
    }
}

impl Clean {
    fn view(&self) -> Txn<'_> {
        Txn {
            vxid: self.vxid,
            level: self.level,
            parent: self.parent,
            kind: self.kind,
            reason: self.reason,
            records: &self.records,
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FollowError {
    TooMany,
    Query(String),
}

fn summary(number: u64, group: &[Txn<'_>]) -> Value {
    let mut requests = group.iter().filter_map(|txn| match transaction::read(txn.records) {
        Some(WatchedTransaction::Request(request)) if txn.level == 1 => Some(request),
        _ => None,
    });
    let Some(first) = requests.next() else { return Value::Null };
    // The last restart has the response.
    let last = requests.next_back().unwrap_or(first);
    let backend = group.iter().find_map(|txn| match transaction::read(txn.records) {
        Some(WatchedTransaction::Fetch(fetch)) => Some(shown(fetch.backend)),
        _ => None,
    });
    let why = last.why.map(shown);
    let ms = |seconds: Option<f64>| seconds.map(|s| (s * 1e6).round() / 1e3);
    json!({
        "id": number, "vxid": group.first().map(|txn| txn.vxid), "t": (first.start * 1e3).round() / 1e3,
        "method": shown(first.method), "host": shown(first.host), "url": shown(first.url), "status": last.status,
        "handling": last.handling.name(), "first_byte": ms(last.first_byte), "ms": ms(last.duration), "bytes": last.bytes,
        "vcl": shown(last.vcl), "backend": backend, "why": why, "transactions": group.len(),
    })
}

#[cfg(test)]
mod tests {
    use logq::record::make;
    use shm::vsl::Marker;
    use tables::Tag;

    use super::*;

    fn request(vxid: u64, url: &str, agent: &str) -> Vec<u8> {
        [
            (Tag::Begin, "req 1 rxreq"),
            (Tag::Timestamp, "Start: 1700000000.5 0.000000 0.000000"),
            (Tag::ReqMethod, "GET"),
            (Tag::ReqUrl, url),
            (Tag::ReqHeader, agent),
            (Tag::ReqHeader, "Cookie: sid=topsecret1"),
            (Tag::VclCall, "HIT"),
            (Tag::RespStatus, "200"),
            (Tag::End, ""),
        ]
        .iter()
        .flat_map(|(tag, text)| make(*tag, vxid, Marker::Client, text.as_bytes()))
        .collect()
    }

    fn lines(receiver: &mut Receiver<Arc<str>>) -> Vec<Value> {
        std::iter::from_fn(|| receiver.try_recv().ok()).map(|line| serde_json::from_str(&line).unwrap()).collect()
    }

    #[test]
    fn who_follows_gets_what_fits_and_can_open_it() {
        let mut live = LiveRequests::new(Redaction::new(&[]));
        let now = Instant::now();
        live.feed(&request(2, "/before", "User-Agent: x"), now);
        let mut all = live.follow("").unwrap();
        let mut some = live.follow("ReqURL ~ \"^/b\"").unwrap();
        live.feed(&request(4, "/a", "User-Agent: <script>\u{202e}"), now);
        live.feed(&request(6, "/b", "User-Agent: y"), now);
        let (all, some) = (lines(&mut all), lines(&mut some));
        assert_eq!(all.iter().map(|l| l["url"].as_str().unwrap()).collect::<Vec<_>>(), ["/a", "/b"]);
        assert_eq!(some.iter().map(|l| l["url"].as_str().unwrap()).collect::<Vec<_>>(), ["/b"]);
        let opened = live.open(all[0]["id"].as_u64().unwrap()).unwrap().to_string();
        assert!(opened.contains("<script>\\\\u{202e}") && opened.contains("Cookie: (hidden)"), "{opened}");
        assert!(!opened.contains("topsecret1"));
        assert_eq!(live.open(999_999), None);
    }

    #[test]
    fn a_filter_cannot_ask_for_what_is_hidden() {
        let mut live = LiveRequests::new(Redaction::new(&[]));
        let mut follower = live.follow("ReqHeader ~ \"topsecret\"").unwrap();
        live.feed(&request(2, "/a", "User-Agent: x"), Instant::now());
        assert_eq!(lines(&mut follower), Vec::<Value>::new());
    }

    #[test]
    fn who_is_too_slow_is_told_what_was_lost() {
        let mut live = LiveRequests::new(Redaction::new(&[]));
        let begun = Instant::now();
        let mut follower = live.follow("").unwrap();
        for n in 0..200 {
            live.feed(&request(2 * n + 2, "/a", "User-Agent: x"), begun);
        }
        let got = lines(&mut follower);
        assert_eq!(got.len(), RATE as usize);
        live.tick(begun + Duration::from_secs(1));
        assert_eq!(lines(&mut follower), [json!({ "more": 150, "lost": 0 })]);
    }

    #[test]
    fn followers_are_bounded_and_wrong_filters_are_told() {
        let mut live = LiveRequests::new(Redaction::new(&[]));
        assert!(matches!(live.follow("Nope ~"), Err(FollowError::Query(text)) if !text.is_empty()));
        let all: Vec<_> = (0..MAX_FOLLOWERS).map(|_| live.follow("").unwrap()).collect();
        assert_eq!(live.follow("").err(), Some(FollowError::TooMany));
        drop(all);
        assert!(live.follow("").is_ok());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut live = LiveRequests::new(Redaction::new(&[]));
        let mut now = Instant::now();
        let mut follower = live.follow("").unwrap();
        for n in 0..3000u64 {
            now += Duration::from_millis(20);
            live.tick(now);
            live.feed(&request(2 * n + 2, "/a", &format!("User-Agent: {}", "x".repeat(20_000))), now);
            let _ = lines(&mut follower);
        }
        assert!(live.kept.len() <= KEPT && live.kept_bytes <= KEPT_BYTES);
        assert!(live.kept.len() > 500);
    }
}
