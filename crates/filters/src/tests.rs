// SPDX-License-Identifier: BSD-2-Clause
//! Which filters a body gets: every combination of its coding, of what VCL and the parameters say and of what the client
//! takes, against tables.

use message::{Coding, Codings, Head};

use crate::*;

/// A line of a table: facts (1, 0, or * for both), then what comes of them.
fn find<'a>(table: &'a str, coding: &str, facts: &[bool]) -> Vec<&'a str> {
    let fits = |word: &str, is: bool| word == "*" || word == if is { "1" } else { "0" };
    let mut found = table.lines().filter(|line| {
        let mut words = line.split('|').next().into_iter().flat_map(str::split_whitespace);
        words.next() == Some(coding) && words.zip(facts).all(|(word, &is)| fits(word, is))
    });
    let line = found.next().unwrap_or_else(|| panic!("no line for {coding} {facts:?}"));
    assert!(found.next().is_none(), "two lines for {coding} {facts:?}");
    line.split('|').skip(1).map(str::trim).collect()
}

fn combinations(count: usize) -> impl Iterator<Item = Vec<bool>> {
    (0..1u32 << count).map(move |bits| (0..count).map(|at| bits & 1 << at != 0).collect())
}

fn text(list: &FilterList) -> &str {
    str::from_utf8(list.as_bytes()).expect("ours").trim_start()
}

fn words<'a>(all: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<_> = all.collect();
    if all.is_empty() { "-".into() } else { all.join(" ") }
}

fn edits(edits: &[Edit]) -> String {
    words(edits.iter().map(|edit| match edit {
        Edit::Unset("Content-Encoding") => "-coding",
        Edit::OtherBody => "other",
        Edit::Unset(_) => "-?",
        Edit::SetCoding(Coding::Gzip) => "+gzip",
        Edit::SetCoding(_) => "+?",
        Edit::WeakenEtag => "weak",
        Edit::VaryAcceptEncoding => "vary",
    }))
}

const FETCH: &str = "\
none    0 * 0 * * |
none    1 * 0 0 * |
none    1 * 0 1 * | gzip
none    0 * 1 * * | esi
none    1 * 1 0 * | esi
none    1 * 1 1 * | esi_gzip
gzip    * 0 0 * 0 | testgunzip
gzip    * 1 0 0 0 | testgunzip
gzip    * 0 0 * 1 | gunzip gzip
gzip    * 1 0 0 1 | gunzip gzip
gzip    * 1 0 1 * | gunzip
gzip    * 0 1 * * | gunzip esi_gzip
gzip    * 1 1 0 * | gunzip esi_gzip
gzip    * 1 1 1 * | gunzip esi
other   * * 0 * * |
other   * * 1 * * | esi";

/// The names of codings of the tables, and what Content-Encoding says then.
const CODINGS: [(&str, &[Option<&str>]); 3] = [
    ("none", &[None]),
    ("gzip", &[Some("gzip"), Some("GZIP")]),
    (
        "other",
        &[Some("br"), Some("zstd"), Some("x-gzip"), Some("deflate"), Some("identity"), Some("gzip, br"), Some("")],
    ),
];

#[test]
fn the_default_of_fetched_bodies() {
    let codings = |has_gzip: bool| if has_gzip { Codings::GZIP } else { Codings::NONE };
    for (name, values) in CODINGS {
        for (value, on) in values.iter().flat_map(|value| combinations(5).map(move |on| (value, on))) {
            let facts = FetchFacts {
                has_body: true,
                coding: Coding::of_content(value.map(str::as_bytes)),
                recode: Recode { make: codings(on[0]), undo: codings(on[1]) },
                do_esi: on[2],
                supported: codings(on[3]),
                is_worked_on: on[4],
            };
            assert_eq!(text(&default_fetch(facts)), find(FETCH, name, &on)[0], "{value:?} {on:?}");
            assert!(default_fetch(FetchFacts { has_body: false, ..facts }).is_empty());
        }
    }
}

/// Results of a list for a body, whole or part (1): the filters, the coding that the object is known to have, whether
/// it is another than the backend's, whether ESI is in it, and the changes of the head.
const FETCHED: &str = "\
none    * |                 | - / identity / - -
none    0 | gzip            | gzip / gzip / recoded - / -coding other weak +gzip vary
none    0 | gunzip          | - / identity / - -
none    0 | testgunzip      | - / identity / - -
none    0 | gunzip gzip     | gzip / gzip / recoded - / -coding other weak +gzip vary
none    0 | esi             | esi / identity / - esi
none    0 | esi_gzip        | esi_gzip / gzip / recoded esi / weak other -coding +gzip vary
gzip    * |                 | - / identity / - -
gzip    0 | gzip            | - / identity / - -
gzip    0 | gunzip          | gunzip / identity / recoded - / -coding other weak
gzip    0 | testgunzip      | testgunzip / gzip / - - / vary
gzip    0 | gunzip gzip     | gunzip gzip / gzip / recoded - / -coding other weak -coding other weak +gzip vary
gzip    0 | gunzip esi      | gunzip esi / identity / recoded esi / -coding other weak
gzip    0 | gunzip esi_gzip | gunzip esi_gzip / gzip / recoded esi / -coding other weak weak other -coding +gzip vary
other   * |                 | - / identity / - -
other   0 | gzip            | - / identity / - -
other   0 | gunzip          | - / identity / - -
other   0 | testgunzip      | - / identity / - -
other   0 | gunzip gzip     | - / identity / - -
other   0 | esi             | esi / identity / - esi
none    1 | gzip            | - / identity / - -
gzip    1 | gunzip          | - / identity / - -
gzip    1 | testgunzip      | - / identity / - -
gzip    1 | gunzip gzip     | - / identity / - -
none    1 | esi             | refused esi
none    1 | esi_gzip        | refused esi_gzip
gzip    1 | gunzip esi      | refused esi
gzip    1 | gunzip esi_gzip | refused esi_gzip
other   1 | esi             | refused esi";

#[test]
fn what_becomes_of_fetched_bodies() {
    for line in FETCHED.lines() {
        let (facts, list, wanted) = match line.split('|').collect::<Vec<_>>()[..] {
            [facts, list, wanted] => (facts, list, wanted.trim()),
            _ => panic!("{line}"),
        };
        let (name, part) = facts.trim().split_once(char::is_whitespace).expect("two words");
        let (_, values) = CODINGS.iter().find(|(coding, _)| *coding == name).expect("a coding");
        let statuses: &[u16] = match part.trim() {
            "0" => &[200, 404],
            "1" => &[206],
            _ => &[200, 206],
        };
        for (&value, &status) in values.iter().flat_map(|value| statuses.iter().map(move |status| (value, status))) {
            assert_eq!(fetched(list, value, status), wanted, "{value:?} {status} {list}");
        }
    }
}

fn fetched(list: &str, content_encoding: Option<&str>, status: u16) -> String {
    let input = FetchInput {
        status,
        coding: Coding::of_content(content_encoding.map(str::as_bytes)),
        url: b"/",
        gzip: GzipParams::default(),
        pack: crate::PackParams::default(),
        esi: esi::Features::default(),
    };
    match open_fetch(&list.as_bytes().to_vec().into(), input, &mut InjectedFilters::default()) {
        Ok(opened) => {
            let coding = opened.coding.token();
            let recoded = if opened.is_recoded { "recoded" } else { "-" };
            let esi = if opened.is_esi { "esi" } else { "-" };
            let chain = words(opened.chain.names());
            format!("{chain} / {coding} / {recoded} {esi} / {}", edits(&opened.edits))
                .trim_end_matches(" / -")
                .to_owned()
        }
        Err(ChainOpenError::Refused { name, .. }) => format!("refused {name}"),
        Err(error) => error.to_string(),
    }
}

/// The coding that an object is known to have; whether the client takes it, `http_gzip_support`, ESI, a range. Then the
/// list, the filters, the length sent, the length that the range is judged by, what becomes of the head.
const DELIVER: &str = "\
none    * * 0 0 |                  | - / 100 / -
none    * * 0 1 | range            | range / 3 / 100
none    * * 1 0 | esi              | - / ? / - / other weak
none    * * 1 1 | esi range        | range / 3 / ? / other weak
gzip    1 * 0 0 |                  | - / 100 / -
gzip    0 0 0 0 |                  | - / 100 / -
gzip    0 1 0 0 | gunzip           | gunzip / 300 / - / -coding other
gzip    1 * 0 1 | range            | range / 3 / 100
gzip    0 0 0 1 | range            | range / 3 / 100
gzip    0 1 0 1 | gunzip range     | gunzip range / 3 / 300 / -coding other
gzip    1 * 1 0 | esi              | - / ? / - / other weak
gzip    0 0 1 0 | esi              | - / ? / - / other weak
gzip    0 1 1 0 | esi gunzip       | gunzip / ? / - / other weak -coding other
gzip    1 * 1 1 | esi range        | range / 3 / ? / other weak
gzip    0 0 1 1 | esi range        | range / 3 / ? / other weak
gzip    0 1 1 1 | esi gunzip range | gunzip range / 3 / ? / other weak -coding other";

#[test]
fn what_becomes_of_delivered_bodies() {
    for (name, on) in ["none", "gzip"].iter().flat_map(|name| combinations(4).map(move |on| (name, on))) {
        let (is_gzip, takes_it, support, do_esi, do_range) = (*name == "gzip", on[0], on[1], on[2], on[3]);
        let coding = if is_gzip { Coding::Gzip } else { Coding::Identity };
        let mut request = Head::new();
        if takes_it {
            request.append("Accept-Encoding", "gzip").expect("it is short");
        }
        let supported = if support { Codings::GZIP } else { Codings::NONE };
        let undone = supported.is_undone_for(coding, &request).then_some(coding);
        let list = default_deliver(DeliverFacts { do_esi, undone, do_range });
        let mut judged = "-".to_owned();
        let length = |length: Option<u64>| length.map_or("?".into(), |length| length.to_string());
        let input = DeliverInput {
            body_bytes: Some(100),
            plain_bytes: is_gzip.then_some(300),
            has_esi: do_esi,
            status: 200,
            coding: Some(coding),
            range: &mut |bytes| {
                judged = length(bytes);
                RangeVerdict::Part(1, 3)
            },
        };
        let opened = open_deliver(&list, input, &mut InjectedFilters::default()).expect("names that it knows");
        assert_eq!(opened.do_esi, do_esi);
        let (chain, edits) = (words(opened.chain.names()), edits(&opened.edits));
        let all = format!("{chain} / {} / {judged} / {edits}", length(opened.body_bytes));
        let all = all.strip_suffix(" / -").unwrap_or(&all);
        assert_eq!([text(&list), all], find(DELIVER, name, &on)[..], "{name} {on:?}");
    }
}
