// SPDX-License-Identifier: BSD-2-Clause
//! Gathering records into transactions and transactions into groups (vsl(7), varnishlog -g).
//!
//! A transaction begins with `Begin`, ends with `End`, and names its parent and its children (`LinkRecord`). A group is given
//! out when its first transaction and all below it have ended. What is late or too much is ended by force; what is wrong
//! with it is said in records of tag VSL, put in where it was noticed.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

use shm::vsl::{LogFormat, Marker, RecordParts};
use tables::Tag;

use crate::record::{self, Rec};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Grouping {
    /// Every record is given out alone.
    Raw,
    Vxid,
    /// A request and what it caused.
    Request,
    Session,
}

impl Grouping {
    /// The grouping of this name, or of any beginning that only one name has.
    ///
    /// # Errors
    /// The text that varnishlog prints for it.
    pub fn from_name(name: &str) -> Result<Grouping, String> {
        let all = [Grouping::Raw, Grouping::Vxid, Grouping::Request, Grouping::Session];
        let fits = |g: &&Grouping| g.name().get(..name.len()).is_some_and(|n| n.eq_ignore_ascii_case(name));
        let mut found = all.iter().filter(fits);
        match (found.next(), found.next()) {
            (Some(grouping), None) => Ok(*grouping),
            (None, _) => Err(format!("Unknown grouping type: {name}")),
            (Some(_), Some(_)) => Err(format!("Ambiguous grouping type: {name}")),
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Grouping::Raw => "raw",
            Grouping::Vxid => "vxid",
            Grouping::Request => "request",
            Grouping::Session => "session",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxnType {
    Unknown,
    Sess,
    Req,
    Bereq,
    /// No transaction: one record.
    Raw,
}

impl TxnType {
    /// The word for it in `Begin` and `LinkRecord`.
    pub const fn name(self) -> &'static str {
        match self {
            TxnType::Unknown => "unknown",
            TxnType::Sess => "sess",
            TxnType::Req => "req",
            TxnType::Bereq => "bereq",
            TxnType::Raw => "raw",
        }
    }

    fn from_name(name: &[u8]) -> TxnType {
        let all = [TxnType::Sess, TxnType::Req, TxnType::Bereq, TxnType::Raw];
        all.into_iter().find(|t| t.name().as_bytes() == name).unwrap_or(TxnType::Unknown)
    }

    fn marker(self) -> Marker {
        match self {
            TxnType::Req => Marker::Client,
            TxnType::Bereq => Marker::Backend,
            TxnType::Unknown | TxnType::Sess | TxnType::Raw => Marker::None,
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BeginReason {
    /// A word nobody knows (the name of a listener's transport, say).
    Unknown,
    Http1,
    Rxreq,
    Esi,
    Restart,
    Pass,
    Fetch,
    Bgfetch,
    Pipe,
}

impl BeginReason {
    /// The word for it in `Begin`.
    pub const fn name(self) -> &'static str {
        match self {
            BeginReason::Unknown => "unknown",
            BeginReason::Http1 => "HTTP/1",
            BeginReason::Rxreq => "rxreq",
            BeginReason::Esi => "esi",
            BeginReason::Restart => "restart",
            BeginReason::Pass => "pass",
            BeginReason::Fetch => "fetch",
            BeginReason::Bgfetch => "bgfetch",
            BeginReason::Pipe => "pipe",
        }
    }

    fn from_name(name: &[u8]) -> BeginReason {
        use BeginReason::*;
        let all = [Http1, Rxreq, Esi, Restart, Pass, Fetch, Bgfetch, Pipe];
        all.into_iter().find(|r| r.name().as_bytes() == name).unwrap_or(Unknown)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Txn<'a> {
    pub vxid: u64,
    /// The depth in the group, from 1; 0 for a record alone.
    pub level: u32,
    /// The parent's number in the group, or 0.
    pub parent: u64,
    pub kind: TxnType,
    pub reason: BeginReason,
    pub records: &'a [u8],
}

impl<'a> Txn<'a> {
    /// Reads the head of a transaction that no [`Grouper`] gave out. `None` if its first record is no valid `Begin`.
    pub fn read(records: &'a [u8]) -> Option<Txn<'a>> {
        let begin = record::records(records).next().filter(|rec| rec.tag == Tag::Begin)?;
        let LinkRecord { kind, vxid: parent, reason, .. } = link(&begin)?;
        Some(Txn { vxid: begin.vxid, level: 1, parent, kind, reason, records })
    }
}

struct LinkRecord {
    kind: TxnType,
    vxid: u64,
    reason: BeginReason,
    level: Option<u64>,
}

fn link(rec: &Rec<'_>) -> Option<LinkRecord> {
    let mut words = rec.text().split(|b| b.is_ascii_whitespace()).filter(|w| !w.is_empty());
    let kind = TxnType::from_name(words.next()?);
    let vxid = std::str::from_utf8(words.next()?).ok()?.parse().ok()?;
    // No record could be put into a transaction of a larger ID, and it would never end.
    rec.format.head(Tag::End, vxid, rec.marker, 0)?;
    let reason = BeginReason::from_name(words.next()?);
    let level = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
    Some(LinkRecord { kind, vxid, reason, level })
}

#[derive(Debug)]
struct Vtx {
    /// Order of birth: the oldest incomplete one goes first.
    order: u64,
    begun: Instant,
    kind: TxnType,
    /// Format of its records, which those that are put in have too.
    format: LogFormat,
    reason: BeginReason,
    parent: Option<u64>,
    children: Vec<u64>,
    children_ready: usize,
    records: Vec<u8>,
    /// Records scanned so far, in bytes; and bytes put in just after that place and not scanned yet.
    scanned: usize,
    put_in: usize,
    has_begin: bool,
    has_end: bool,
    is_ready: bool,
}

/// Tells transactions of no interest from their first record on.
#[derive(Clone, Copy, Debug)]
pub struct TxnFilter {
    pub backend: bool,
    pub client: bool,
    pub esi: bool,
    pub limit: usize,
    pub timeout: Duration,
}

/// Bytes of records that are held at most, before all are given out as they are: -L bounds only how many they belong to.
const HELD_BYTES: usize = 256 << 20;

/// Transactions below each other: ESI inclusions and restarts are far fewer.
const DEEPEST: usize = 500;

/// A group that has left a [`Grouper`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken<R> {
    Shown(R),
    /// Record of a transaction whose kind the grouping leaves out.
    Withheld,
}

impl<R> Taken<R> {
    /// The result of showing it.
    pub fn shown(self) -> Option<R> {
        match self {
            Taken::Shown(result) => Some(result),
            Taken::Withheld => None,
        }
    }
}

/// Gathers. Feed it with what the log gives, take out groups.
#[derive(Debug)]
pub struct Grouper {
    grouping: Grouping,
    wanted: TxnFilter,
    all: HashMap<u64, Vtx>,
    incomplete: BTreeMap<u64, u64>,
    ready: VecDeque<u64>,
    next_order: u64,
    held_bytes: usize,
}

impl Grouper {
    pub fn new(grouping: Grouping, wanted: TxnFilter) -> Grouper {
        let (all, incomplete, ready) = Default::default();
        Grouper { grouping, wanted, all, incomplete, ready, next_order: 0, held_bytes: 0 }
    }

    pub fn feed(&mut self, records: &[u8], now: Instant) {
        let Some((RecordParts { vxid, format, .. }, _)) = RecordParts::split(records) else { return };
        if vxid == 0 {
            return;
        }
        if !self.all.contains_key(&vxid) {
            // A tag of a later version can't begin a transaction, but belongs to one.
            let begin = record::split(records).and_then(|(first, _)| first).filter(|rec| rec.tag == Tag::Begin);
            match begin {
                Some(begin) if self.is_candidate(&begin) => self.add(vxid, format, now),
                _ => return,
            }
        }
        if let Some(vtx) = self.all.get_mut(&vxid) {
            vtx.format = format;
            vtx.records.extend_from_slice(records);
            self.held_bytes += records.len();
        }
        self.scan(vxid, now);
        while let Some((_, vxid)) = self.incomplete.first_key_value().map(|(o, v)| (*o, *v)) {
            let begun = self.all.get(&vxid).map(|v| v.begun);
            if begun.is_some_and(|begun| now.saturating_duration_since(begun) < self.wanted.timeout) {
                break;
            }
            self.force(vxid, "timeout", now);
        }
        // Those ready go out before the next record is fed, and don't count.
        let mut outstanding = self.all.len() - self.waiting();
        while outstanding > self.wanted.limit || self.held_bytes > HELD_BYTES {
            let Some(vxid) = self.incomplete.first_key_value().map(|(_, v)| *v) else { break };
            self.force(vxid, "store overflow", now);
            outstanding = self.all.len() - self.waiting();
        }
    }

    fn waiting(&self) -> usize {
        let mut n = 0;
        let mut todo: Vec<u64> = self.ready.iter().copied().collect();
        while let Some(vxid) = todo.pop() {
            n += 1;
            todo.extend(self.all.get(&vxid).into_iter().flat_map(|v| v.children.iter().copied()));
        }
        n
    }

    pub fn flush(&mut self, now: Instant) {
        while let Some(vxid) = self.incomplete.first_key_value().map(|(_, v)| *v) {
            self.force(vxid, "flush", now);
        }
    }

    /// Takes the next group that is ready, and gives it to `show` if it is of the kind that the grouping gives out.
    /// `None` when no group is ready.
    pub fn take<R>(&mut self, show: impl FnOnce(&[Txn<'_>]) -> R) -> Option<Taken<R>> {
        let top = self.ready.pop_front()?;
        let kind = self.all.get(&top).map_or(TxnType::Unknown, |v| v.kind);
        let is_shown = match self.grouping {
            Grouping::Session => kind == TxnType::Sess,
            Grouping::Request => kind == TxnType::Req,
            Grouping::Vxid | Grouping::Raw => true,
        };
        let group = self.collect(top);
        let taken = if is_shown { Taken::Shown(show(&group)) } else { Taken::Withheld };
        let vxids: Vec<u64> = group.iter().map(|txn| txn.vxid).collect();
        for vxid in vxids {
            let bytes = self.all.remove(&vxid).map_or(0, |vtx| vtx.records.len());
            // What was put in was never counted.
            self.held_bytes = self.held_bytes.saturating_sub(bytes);
        }
        if self.all.is_empty() {
            self.held_bytes = 0;
        }
        Some(taken)
    }

    /// A group: the first transaction, then its children, then theirs.
    fn collect(&self, top: u64) -> Vec<Txn<'_>> {
        let mut group: Vec<Txn<'_>> = Vec::new();
        let txn = |vxid: u64, vtx: &Vtx, level, parent| (vxid, level, parent, vtx.kind, vtx.reason);
        let mut queue = VecDeque::new();
        queue.extend(self.all.get(&top).map(|vtx| txn(top, vtx, 1, 0)));
        while let Some((vxid, level, parent, kind, reason)) = queue.pop_front() {
            let Some(vtx) = self.all.get(&vxid) else { continue };
            group.push(Txn { vxid, level, parent, kind, reason, records: &vtx.records });
            for child in &vtx.children {
                let Some(below) = self.all.get(child) else { continue };
                // A restart is the same request going on.
                let level = if below.reason == BeginReason::Restart { level } else { level + 1 };
                queue.push_back(txn(*child, below, level, vxid));
            }
        }
        group
    }

    /// Releases from 7.3 on also give out sessions where transactions stand alone, and hide ESI fragments there by their level, restarted ones
    /// too, unless -E asks for them.
    fn is_candidate(&self, begin: &Rec<'_>) -> bool {
        let is_later = begin.format.is_wide();
        match (self.grouping, self.wanted.client, self.wanted.backend) {
            (Grouping::Session, ..) => return true,
            (Grouping::Vxid, false, false) if !is_later => return true,
            (Grouping::Vxid, true, false) if begin.marker != Marker::Client => return false,
            (Grouping::Vxid, false, true) if begin.marker != Marker::Backend => return false,
            (Grouping::Vxid | Grouping::Request | Grouping::Raw, ..) => {}
        }
        let Some(link) = link(begin) else { return false };
        let is_alone = self.grouping == Grouping::Vxid;
        let level = link.level.filter(|_| is_later);
        let is_fragment = level.map_or(link.reason == BeginReason::Esi, |level| level > 0);
        match link.kind {
            TxnType::Unknown => false,
            TxnType::Sess => is_alone && is_later,
            TxnType::Req | TxnType::Bereq | TxnType::Raw => !is_alone || self.wanted.esi || !is_fragment,
        }
    }

    /// Adds a transaction. The format is that of the record that names it, and has room for its ID.
    fn add(&mut self, vxid: u64, format: LogFormat, now: Instant) {
        let order = self.next_order;
        self.next_order += 1;
        let vtx = Vtx {
            order,
            begun: now,
            kind: TxnType::Unknown,
            format,
            reason: BeginReason::Unknown,
            parent: None,
            children: Vec::new(),
            children_ready: 0,
            records: Vec::new(),
            scanned: 0,
            put_in: 0,
            has_begin: false,
            has_end: false,
            is_ready: false,
        };
        self.all.insert(vxid, vtx);
        self.incomplete.insert(order, vxid);
    }

    fn scan(&mut self, vxid: u64, now: Instant) {
        loop {
            let Some(vtx) = self.all.get_mut(&vxid) else { return };
            if vtx.has_end {
                return;
            }
            let rest = vtx.records.get(vtx.scanned..).unwrap_or_default();
            let Some((rec, after)) = record::split(rest) else { return };
            let bytes = rest.len() - after.len();
            // Few records say how transactions belong together.
            let tells = |rec: &Rec<'_>| rec.vxid != vxid || matches!(rec.tag, Tag::Begin | Tag::Link | Tag::End);
            let Some((tag, owned)) = rec.filter(tells).map(|rec| (rec.tag, rec.bytes.to_vec())) else {
                vtx.pass(bytes);
                continue;
            };
            vtx.pass(bytes);
            // The copy lets links be followed while this one's records are written to.
            let Some(rec) = record::records(&owned).next() else { continue };
            if rec.vxid != vxid {
                self.diagnose(vxid, &rec, "vxid mismatch");
                continue;
            }
            let problem = match tag {
                Tag::Begin if vtx.has_begin => Some("duplicate begin"),
                Tag::Begin => {
                    vtx.has_begin = true;
                    self.begin(vxid, &rec, now)
                }
                Tag::Link => self.link(vxid, &rec, now),
                Tag::End => {
                    vtx.has_end = true;
                    self.complete(vxid);
                    None
                }
                _ => None,
            };
            if let Some(problem) = problem {
                self.diagnose(vxid, &rec, problem);
            }
        }
    }

    fn begin(&mut self, vxid: u64, rec: &Rec<'_>, now: Instant) -> Option<&'static str> {
        let Some(LinkRecord { kind, vxid: parent, reason, .. }) = link(rec) else { return Some("parse error") };
        if kind == TxnType::Unknown {
            self.diagnose(vxid, rec, "unknown vxid type");
        }
        let vtx = self.all.get_mut(&vxid)?;
        let mismatch = vtx.kind != TxnType::Unknown && vtx.kind != kind;
        if mismatch {
            self.diagnose(vxid, rec, "type mismatch");
        }
        let vtx = self.all.get_mut(&vxid)?;
        (vtx.kind, vtx.reason) = (kind, reason);
        if parent == 0 {
            return None;
        }
        if parent == vxid {
            return Some("link to self");
        }
        let is_first = kind == TxnType::Req && reason == BeginReason::Rxreq;
        if self.grouping == Grouping::Vxid || (self.grouping == Grouping::Request && is_first) {
            return None;
        }
        if let Some(known) = vtx.parent {
            return if known == parent { None } else { Some("link mismatch") };
        }
        match self.all.get(&parent) {
            None => self.add(parent, rec.format, now),
            Some(above) if above.has_end => return Some("link too late"),
            Some(_) => {}
        }
        self.set_parent(parent, vxid)
    }

    fn link(&mut self, vxid: u64, rec: &Rec<'_>, now: Instant) -> Option<&'static str> {
        let Some(LinkRecord { kind, vxid: child, reason, .. }) = link(rec) else { return Some("parse error") };
        if kind == TxnType::Unknown {
            self.diagnose(vxid, rec, "unknown vxid type");
        }
        let is_sess = self.all.get(&vxid)?.kind == TxnType::Sess;
        if self.grouping == Grouping::Vxid || (self.grouping == Grouping::Request && is_sess) {
            return None;
        }
        if child == 0 {
            return Some("illegal link vxid");
        }
        if child == vxid {
            return Some("link to self");
        }
        match self.all.get(&child) {
            None => self.add(child, rec.format, now),
            Some(below) if below.parent == Some(vxid) => return None,
            Some(below) if below.parent.is_some() => return Some("duplicate link"),
            Some(below) if below.has_end => return Some("link too late"),
            Some(below) if below.kind != TxnType::Unknown && below.kind != kind => {
                self.diagnose(vxid, rec, "type mismatch");
            }
            Some(_) => {}
        }
        let below = self.all.get_mut(&child)?;
        (below.kind, below.reason) = (kind, reason);
        self.set_parent(vxid, child)
    }

    /// Links two transactions, unless the child is above its parent.
    fn set_parent(&mut self, parent: u64, child: u64) -> Option<&'static str> {
        let (mut above, mut depth) = (Some(parent), 0);
        while let Some(vxid) = above {
            if vxid == child {
                return Some("link to self");
            }
            depth += 1;
            if depth > DEEPEST {
                return Some("link too deep");
            }
            above = self.all.get(&vxid).and_then(|v| v.parent);
        }
        self.all.get_mut(&child)?.parent = Some(parent);
        self.all.get_mut(&parent)?.children.push(child);
        None
    }

    /// A transaction has ended: its group, or the group above, may be ready.
    fn complete(&mut self, vxid: u64) {
        let Some(vtx) = self.all.get_mut(&vxid) else { return };
        if vtx.kind == TxnType::Unknown {
            vtx.put(vxid, Tag::Vsl, b"vtx of unknown type marked complete");
        }
        self.incomplete.remove(&vtx.order);
        let mut vxid = vxid;
        loop {
            let Some(vtx) = self.all.get_mut(&vxid) else { return };
            if !vtx.has_end || vtx.children.len() != vtx.children_ready {
                return;
            }
            vtx.is_ready = true;
            let Some(parent) = vtx.parent else {
                self.ready.push_back(vxid);
                return;
            };
            let Some(above) = self.all.get_mut(&parent) else { return };
            above.children_ready += 1;
            vxid = parent;
        }
    }

    fn force(&mut self, vxid: u64, reason: &str, now: Instant) {
        self.scan(vxid, now);
        let Some(vtx) = self.all.get_mut(&vxid) else { return };
        if vtx.has_end {
            self.incomplete.remove(&vtx.order);
            return;
        }
        // A record cut in its middle would hide what is put in.
        vtx.records.truncate(vtx.scanned + vtx.put_in);
        if !vtx.has_begin {
            let text = format!("{} 0 synth", vtx.kind.name());
            vtx.put(vxid, Tag::Begin, text.as_bytes());
        }
        vtx.put(vxid, Tag::Vsl, reason.as_bytes());
        vtx.put(vxid, Tag::End, b"synth");
        self.scan(vxid, now);
    }

    fn diagnose(&mut self, vxid: u64, rec: &Rec<'_>, problem: &str) {
        let Some(vtx) = self.all.get_mut(&vxid) else { return };
        let mut text = format!("{problem} ({}:{} \"", rec.vxid, rec.tag.name()).into_bytes();
        text.extend_from_slice(rec.text());
        text.extend_from_slice(b"\")");
        vtx.put(vxid, Tag::Vsl, &text);
    }
}

/// Data of a record that is put in, at most, its NUL not counted.
const MAX_PUT_IN: usize = 63;

impl Vtx {
    fn pass(&mut self, bytes: usize) {
        self.scanned += bytes;
        self.put_in = self.put_in.saturating_sub(bytes);
    }

    /// Puts a record in where the scan is, after those put in there before.
    fn put(&mut self, vxid: u64, tag: Tag, text: &[u8]) {
        let text = &text[..text.len().min(MAX_PUT_IN)];
        let bytes = record::make_as(self.format, tag, vxid, self.kind.marker(), text);
        let at = (self.scanned + self.put_in).min(self.records.len());
        self.put_in += bytes.len();
        self.records.splice(at..at, bytes);
    }
}

#[cfg(test)]
mod tests;
