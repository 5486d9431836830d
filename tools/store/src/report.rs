// SPDX-License-Identifier: BSD-2-Clause
//! What was found in a store, summed up: for people and for programs.

use base::text::decimal_bytes;
use disk::Lost;
use disk::survey::{FoundSegment, Shape, SurveyTable, SurveyedEntry, SurveyedRecord};
use serde_json::json;

use crate::histogram::{HITS, SIZES, SizeHistogram, TIMES};

#[derive(Debug)]
pub struct SurveyReport {
    shape: Shape,
    now: u32,
    is_verify: bool,
    /// True if it is written while it is looked at.
    pub is_changing: bool,
    scanned: u64,
    unjudged: u64,
    objects: u64,
    bytes: u64,
    removed: u64,
    expired: u64,
    sizes: SizeHistogram,
    left: SizeHistogram,
    ages: SizeHistogram,
    hits: SizeHistogram,
    damaged: u64,
    unread: u64,
    /// Objects that were there when their segment was read, and weren't when they were looked at.
    gone: u64,
}

impl SurveyReport {
    /// A report on a store of that shape, in which nothing was looked at.
    pub fn new(shape: Shape, now: u32, is_verify: bool) -> SurveyReport {
        SurveyReport {
            shape,
            now,
            is_verify,
            is_changing: false,
            scanned: 0,
            unjudged: 0,
            objects: 0,
            bytes: 0,
            removed: 0,
            expired: 0,
            sizes: SizeHistogram::new(SIZES),
            left: SizeHistogram::new(TIMES),
            ages: SizeHistogram::new(TIMES),
            hits: SizeHistogram::new(HITS),
            damaged: 0,
            unread: 0,
            gone: 0,
        }
    }

    pub fn segment(&mut self, found: &FoundSegment) {
        match found.table {
            SurveyTable::Whole => {}
            SurveyTable::Scanned => self.scanned += 1,
            SurveyTable::Unjudged => self.unjudged += 1,
        }
        (self.removed, self.expired) = (self.removed + found.removed, self.expired + found.expired);
        for entry in &found.entries {
            let bytes = bytes(entry);
            (self.objects, self.bytes) = (self.objects + 1, self.bytes + bytes);
            self.sizes.add(entry.body_bytes, bytes);
            self.left.add(u64::from(entry.expiry.saturating_sub(self.now)), bytes);
        }
    }

    pub fn looked(&mut self, entry: &SurveyedEntry, looked: &SurveyedRecord) {
        match looked {
            Ok(details) => {
                let age = f64::from(self.now) - details.record.times.t_origin.0;
                // The conversion saturates: what comes from the future is new.
                self.ages.add(age as u64, bytes(entry));
                self.hits.add(u64::from(details.record.hits), bytes(entry));
            }
            Err(Lost::Damaged | Lost::OtherDigest) => self.damaged += 1,
            Err(Lost::Device(_) | Lost::Busy) => self.unread += 1,
            Err(Lost::Gone) => self.gone += 1,
        }
    }

    /// True if nothing is wrong with it, as far as was looked.
    pub fn is_whole(&self) -> bool {
        self.damaged + self.unread == 0 && self.shape.unreadable == 0 && (self.unjudged == 0 || self.is_changing)
    }

    pub fn line(&self) -> String {
        let wrong = self.damaged + self.unread;
        let wrong = if wrong == 0 { String::new() } else { format!(", {wrong} damaged") };
        format!("{} objects, {}{wrong}", self.objects, decimal_bytes(self.bytes))
    }

    pub fn text(&self, file: &str) -> String {
        let Shape { segment_bytes, segments, used, unreadable } = self.shape;
        let free = segments - used.min(segments) - unreadable;
        let mut text =
            format!("{file}: {segments} segments of {}, {used} in use, {free} free\n", decimal_bytes(segment_bytes));
        text.push_str(&format!("{} objects, {}\n", self.objects, decimal_bytes(self.bytes)));
        let notes = [
            (self.removed, "objects were removed and still take space"),
            (self.expired, "objects have expired and still take space"),
            (self.scanned, "segments have no whole table: their entries were read"),
            (self.unjudged, "segments don't count: what was removed from them isn't known any more"),
            (u64::from(unreadable), "segments can't be read"),
            (self.damaged, "objects are DAMAGED: requests for them will be misses"),
            (self.unread, "objects CAN'T BE READ: requests for them will be misses"),
            (self.gone, "objects went while the store was looked at"),
        ];
        for (count, what) in notes.into_iter().filter(|(count, _)| *count > 0) {
            text.push_str(&format!("{count} {what}\n"));
        }
        if self.is_verify {
            text.push_str(&format!("{} objects were read and checked, bodies included\n", self.ages.objects()));
        }
        let looked = if self.ages.objects() < self.objects { " (some)" } else { "" };
        text.push_str(&self.sizes.text("size of body"));
        text.push_str(&self.left.text("time left"));
        text.push_str(&self.ages.text(&format!("age{looked}")));
        text.push_str(&self.hits.text(&format!("hits{looked}")));
        text
    }

    pub fn json(&self) -> String {
        let Shape { segment_bytes, segments, used, unreadable } = self.shape;
        let value = json!({
            "segments": {
                "bytes": segment_bytes, "all": segments, "used": used, "unreadable": unreadable,
                "scanned": self.scanned, "unjudged": self.unjudged,
            },
            "objects": self.objects, "bytes": self.bytes, "removed": self.removed, "expired": self.expired,
            "looked": self.ages.objects(), "verified": self.is_verify,
            "damaged": self.damaged, "unreadable": self.unread, "gone": self.gone, "whole": self.is_whole(),
            "size": self.sizes.json(), "left": self.left.json(), "age": self.ages.json(), "hits": self.hits.json(),
        });
        format!("{value:#}\n")
    }
}

/// Bytes that an object takes: a short body is in its record.
fn bytes(entry: &SurveyedEntry) -> u64 {
    entry.record_bytes + if entry.body_bytes > disk::format::CHUNK as u64 { entry.body_bytes } else { 0 }
}
