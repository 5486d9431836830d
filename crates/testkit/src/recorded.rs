// SPDX-License-Identifier: BSD-2-Clause
//! Log records that servers really wrote, for tests of those that read them: what a test's author thinks that a record says
//! shows nothing. Both servers ran the same requests under the same VCL; `recorded/record.py` makes the files anew.
//!
//! [`access`] has lines of access logs of other programs; `recorded/record_access.py` makes them anew.

use std::collections::HashMap;

#[derive(Debug, Clone, Copy)]
pub struct TestRecord {
    pub vxid: u64,
    pub tag: &'static str,
    /// `c`: of a client; `b`: of a backend; `-`: of neither.
    pub marker: char,
    pub text: &'static str,
}

/// The records as they stand in a log: two words of head, then the text and its NUL, filled up to whole words. Lacquer and varnishd up
/// to 7.2 write them so (`vapi/vsl_int.h`). `number` has a tag's number by its name.
pub fn log(records: &[TestRecord], number: impl Fn(&str) -> u8) -> Vec<u8> {
    written(records, |record, length| {
        let id = u32::try_from(record.vxid).expect("an id of a small log");
        vec![u32::from(number(record.tag)) << 24 | length, id | side(record)]
    })
}

/// The records as varnishd 7.3 and later lay them out: a version in the first word, and an id of two words.
pub fn wide_log(records: &[TestRecord], number: impl Fn(&str) -> u8) -> Vec<u8> {
    written(records, |record, length| {
        let first = u32::from(number(record.tag)) << 24 | 1 << 16 | length;
        vec![first, record.vxid as u32, (record.vxid >> 32) as u32 | side(record)]
    })
}

fn side(record: &TestRecord) -> u32 {
    match record.marker {
        'c' => 1 << 30,
        'b' => 1 << 31,
        _ => 0,
    }
}

fn written(records: &[TestRecord], head: impl Fn(&TestRecord, u32) -> Vec<u32>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in records {
        let length = u32::try_from(record.text.len() + 1).expect("a record is short");
        bytes.extend(head(record, length).iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(record.text.as_bytes());
        bytes.push(0);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

pub fn lacquer() -> Vec<TestRecord> {
    records(include_str!("recorded/lacquer.txt"))
}

/// The records that varnishd 7.1.1 wrote, one transaction after the other.
pub fn varnish() -> Vec<TestRecord> {
    records(include_str!("recorded/varnish-7.1.txt"))
}

/// A client's request (3) and its fetch (4), in which nearly each record stands twice, with different texts. No server
/// wrote it: it shows which of several records a reader takes.
pub fn repeated() -> Vec<TestRecord> {
    records(include_str!("recorded/repeated.txt"))
}

/// Lines of one program's access log in one format.
#[derive(Debug, Clone)]
pub struct AccessLog {
    /// Program, version and format: `nginx-1.22 combined`.
    pub name: &'static str,
    /// The lines without their ends; Squid's aren't all UTF-8.
    pub lines: Vec<&'static [u8]>,
}

/// Lines that programs of Debian 12 wrote, all of them about the same requests.
pub fn access() -> Vec<AccessLog> {
    let mut logs: Vec<AccessLog> = Vec::new();
    for line in include_bytes!("recorded/access.txt").split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
        match (line.strip_prefix(b"# "), logs.last_mut()) {
            (Some(name), _) => {
                let name = std::str::from_utf8(name).expect("a name is UTF-8");
                logs.push(AccessLog { name, lines: Vec::new() });
            }
            (None, Some(log)) => log.lines.push(line),
            (None, None) => panic!("a line before the first name"),
        }
    }
    logs
}

fn records(lines: &'static str) -> Vec<TestRecord> {
    let one = |line: &'static str| {
        let mut cells = line.splitn(4, '\t');
        let mut cell = || cells.next().expect("each line has four cells");
        let (vxid, tag) = (cell().parse().expect("the first is a number"), cell());
        TestRecord { vxid, tag, marker: cell().chars().next().expect("the third is a letter"), text: cell() }
    };
    let mut records: Vec<TestRecord> = lines.lines().map(one).collect();
    // As the transactions ended: their numbers are dealt to threads in portions.
    let ends: HashMap<u64, usize> = records.iter().enumerate().map(|(at, record)| (record.vxid, at)).collect();
    records.sort_by_key(|record| ends[&record.vxid]);
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_recorded_the_same_requests() {
        let count = |records: &[TestRecord], tag| records.iter().filter(|record| record.tag == tag).count();
        let (ours, theirs) = (lacquer(), varnish());
        for (tag, least) in [("ReqURL", 20), ("Hit", 3), ("FetchError", 1), ("PipeAcct", 1), ("BackendOpen", 10)] {
            assert_eq!(count(&ours, tag), count(&theirs, tag), "{tag}");
            assert!(count(&ours, tag) >= least, "{tag}");
        }
    }
}
