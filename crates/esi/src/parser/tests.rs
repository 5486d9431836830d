// SPDX-License-Identifier: BSD-2-Clause
//! The parser on whole pages and on every cut of them.
use proptest::prelude::*;

use super::*;
use crate::{ComplaintSeverity, EsiProgram, EsiStep, ProgramBuilder};

/// Writes what comes: delivered bytes as they are, `{url}` for includes.
#[derive(Default)]
struct Trace {
    out: Vec<u8>,
    all: Vec<u8>,
    complaints: Vec<String>,
}

impl ParserSink for Trace {
    fn verbatim(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
        self.all.extend_from_slice(bytes);
    }
    fn skip(&mut self, bytes: &[u8]) {
        self.all.extend_from_slice(bytes);
    }
    fn include(&mut self, include: &EsiInclude) {
        let host = include.host.as_deref().unwrap_or(b"");
        let onerror: &[u8] = if include.continue_on_error { b"!" } else { b"" };
        self.out.extend_from_slice(&[b"{", host, include.url.as_slice(), onerror, b"}"].concat());
    }
    fn complaint(&mut self, complaint: Complaint, after: u64) {
        let word = match complaint.severity() {
            ComplaintSeverity::Error => "ERR ",
            ComplaintSeverity::Warning => "WARN ",
            ComplaintSeverity::Info => "",
        };
        self.complaints.push(format!("{word}{}", complaint.record(after)));
    }
}

fn run(features: Features, pieces: &[&[u8]]) -> (Trace, bool) {
    let mut trace = Trace::default();
    let mut parser = EsiParser::new(features);
    pieces.iter().for_each(|piece| parser.feed(piece, &mut trace));
    let found = parser.finish(&mut trace);
    (trace, found)
}

fn check_with(features: Features, page: &str, want: &str, complaints: &[&str]) {
    let (trace, _) = run(features, &[page.as_bytes()]);
    assert_eq!(String::from_utf8_lossy(&trace.out), want, "{page}");
    assert_eq!(trace.complaints, complaints, "{page}");
    assert_eq!(trace.all, page.as_bytes());
}

fn check(page: &str, want: &str, complaints: &[&str]) {
    check_with(Features::default(), page, want, complaints);
}

#[test]
fn pages_without_esi_stay() {
    for page in ["", "<", "<a>b</a>", "<!-- a --->b", "<![CDATA[<esi:include src='/'/>]]>", "<!---->", " \n<a><"] {
        let (trace, found) = run(Features::default(), &[page.as_bytes()]);
        assert_eq!((trace.out.as_slice(), found), (page.as_bytes(), false), "{page}");
    }
}

#[test]
fn includes() {
    check("<a><esi:include src='/x'/>b", "<a>{/x}b", &[]);
    check("<esi:include alt=\"/no\" src=\"/x&amp;y\" onerror='continue' />", "{/x&y!}", &[]);
    check("<esi:include src=http://h/p />c", "{h/p}c", &[]);
    check("<esi:include src='/x'>", "{/x}", &["WARN after 0 ESI 1.0 <esi:include> lacks final '/'"]);
    check("<a><esi:include />", "<a>", &["ERR after 3 ESI 1.0 <esi:include> lacks src attr"]);
    check("<a><esi:include src=/x/>b", "<a>b", &["ERR after 3 XML 1.0 Missing end attribute delimiter"]);
}

#[test]
fn broken_tags() {
    check("<esi:foo>b", "b", &["ERR after 0 ESI 1.0 <esi:bogus> element"]);
    check("<esi:>b", "b", &["ERR after 0 ESI 1.0 <esi:bogus> element"]);
    check("<esi:include src= '/'/>b", "b", &["ERR after 0 XML 1.0 Illegal attribute delimiter"]);
    check("<esi:include/ >b", "b", &["ERR after 0 XML 1.0 '>' does not follow '/' in tag"]);
    check("<esi:includesrc='/'/>b", "b", &["ERR after 0 XML 1.0 Illegal attribute start char"]);
    check("<esi:include s#='/'/>b", "b", &["ERR after 0 XML 1.0 Illegal attr char"]);
    check("</esi:include>b", "b", &["ERR after 0 ESI 1.0 </esi:include> illegal end-tag"]);
    check("<a><esi:include src='/x", "<a>", &["ERR after 3 VEP ended inside a tag"]);
    check("<esi:include src='/a' src='/b'/>", "", &["ERR after 0 ESI 1.0 <esi:include> has multiple src= attributes"]);
    // The next tag knows nothing of the one before.
    check(
        "<esi:include src='/a' #/><esi:include src='/b'/>",
        "{/b}",
        &["ERR after 0 XML 1.0 Illegal attribute start char"],
    );
}

#[test]
fn removes_and_comments() {
    check("<a><esi:remove>x<b>y</esi:remove>c", "<a>c", &[]);
    check("<esi:remove>x<esi:remove>y</esi:remove>c", "c", &["ERR after 0 ESI 1.0 <esi:remove> already open"]);
    check("</esi:remove>c", "c", &["ERR after 0 ESI 1.0 <esi:remove> not open"]);
    check("<esi:remove/>c", "c", &["ERR after 0 ESI 1.0 <esi:remove/> not legal"]);
    check("<esi:comment text='x'/>c", "c", &[]);
    check("<esi:comment text='x'>c", "c", &["ERR after 0 ESI 1.0 <esi:comment> needs final '/'"]);
    check("<!--esi a<b>c --> d -->", " a<b>c  d -->", &[]);
    check("<!--esi ---->", " --", &[]);
    check("<!--esi <esi:include src='/x'/>-->y", " {/x}y", &[]);
    check("<!--esi <!-- x --> -->", " <!-- x --> -->", &[]);
    check("<!-- <esi:include src='/x'/> -->", "<!-- <esi:include src='/x'/> -->", &[]);
}

#[test]
fn features_change_what_is_processed() {
    let reason = "No ESI processing, first char not '<'. (See feature esi_disable_xml_check)";
    check("x<esi:remove>", "x<esi:remove>", &[reason]);
    let features = Features { disable_xml_check: true, ..Features::default() };
    check_with(features, "x<esi:remove>y", "x", &[]);
    let features = Features { ignore_other_elements: true, ..Features::default() };
    check_with(features, "<a b='<esi:include src='/x'/>'>", "<a b='{/x}'>", &[]);
    check("<a b='<esi:include src='/x'/>'>", "<a b='<esi:include src='/x'/>'>", &[]);
    let features = Features { ignore_https: true, ..Features::default() };
    let warning = "WARN after 0 ESI 1.0 <esi:include> https:// treated as http://";
    check_with(features, "<esi:include src='https://h/x'/>", "{h/x}", &[warning]);
    let features = Features { remove_bom: true, ..Features::default() };
    check_with(features, "\u{feff}<esi:include src='/x'/>", "{/x}", &[]);
    check_with(
        features,
        "\u{fefe}<a>",
        "\u{fefe}<a>",
        &["No ESI processing, first char not '<' but BOM. (See feature esi_remove_bom)"],
    );
}

struct Building(ProgramBuilder);

impl ParserSink for Building {
    fn verbatim(&mut self, bytes: &[u8]) {
        self.0.verbatim(bytes.len() as u64);
    }
    fn skip(&mut self, bytes: &[u8]) {
        self.0.skip(bytes.len() as u64);
    }
    fn include(&mut self, include: &EsiInclude) {
        self.0.include(include);
    }
    fn complaint(&mut self, complaint: Complaint, _: u64) {
        assert_ne!(complaint.severity(), ComplaintSeverity::Error);
    }
}

#[test]
fn programs_put_relative_urls_under_the_page() {
    let mut sink = Building(ProgramBuilder::new(b"/d/e/f?g=/h", false));
    let mut parser = EsiParser::new(Features::default());
    parser.feed(b"<a><esi:include src='x'/><esi:include src='http://h/y'/>b<esi:remove>c</esi:remove>", &mut sink);
    assert!(parser.finish(&mut sink));
    let bytes = sink.0.finish().unwrap();
    let include = |host: Option<&str>, url: &str| {
        EsiStep::Include(EsiInclude { host: host.map(|h| h.into()), url: url.into(), continue_on_error: false })
    };
    let want = vec![
        EsiStep::Verbatim { bytes: 3, piece: None },
        include(None, "/d/e/x"),
        include(Some("h"), "/y"),
        EsiStep::Skip { bytes: 53 },
        EsiStep::Verbatim { bytes: 1, piece: None },
        EsiStep::Skip { bytes: 26 },
    ];
    assert_eq!(EsiProgram::parse(&bytes).unwrap().steps().unwrap(), want);
}

/// The includes that a page's program asks for; each `src` stands in one.
fn targets(page: &str, sources: &[&str]) -> Vec<String> {
    let mut sink = Building(ProgramBuilder::new(page.as_bytes(), false));
    let mut parser = EsiParser::new(Features::default());
    sources.iter().for_each(|src| parser.feed(format!("<esi:include src='{src}'/>").as_bytes(), &mut sink));
    assert!(parser.finish(&mut sink));
    let bytes = sink.0.finish().unwrap();
    let target = |step| match step {
        EsiStep::Include(EsiInclude { host, url, .. }) => {
            let host = host.map_or(String::new(), |host| format!("//{}", String::from_utf8_lossy(&host)));
            Some(host + &String::from_utf8_lossy(&url))
        }
        EsiStep::Verbatim { .. } | EsiStep::Skip { .. } => None,
    };
    EsiProgram::parse(&bytes).unwrap().steps().unwrap().into_iter().filter_map(target).collect()
}

/// RFC 3986 5.4, as far as there can be an include of it.
#[test]
fn references_are_resolved_against_the_page() {
    let check = |page: &str, src: &str, want: &str| assert_eq!(targets(page, &[src]), [want], "{src} of {page}");
    for (src, want) in [
        ("g", "/b/c/g"),
        ("./g", "/b/c/g"),
        ("g/", "/b/c/g/"),
        ("/g", "/g"),
        ("//g/", "//g/"),
        ("//g?y", "//g/?y"),
        ("?y", "/b/c/d;p?y"),
        ("g?y", "/b/c/g?y"),
        ("#s", "/b/c/d;p?q"),
        ("g#s", "/b/c/g"),
        ("g?y#s", "/b/c/g?y"),
        (";x", "/b/c/;x"),
        ("", "/b/c/d;p?q"),
        (".", "/b/c/"),
        ("..", "/b/"),
        ("../../../g", "/g"),
        ("?", "/b/c/d;p?"),
        ("?y=/../z", "/b/c/d;p?y=/../z"),
    ] {
        check("/b/c/d;p?q", src, want);
    }
    check("/", "?y", "/?y");
    check("/", "", "/");
    check("/a?x=/b?c", "?y", "/a?y");
    assert_eq!(targets("/d/e?f", &["?g", "h", ""]), ["/d/e?g", "/d/h", "/d/e?f"]);
}

fn page() -> impl Strategy<Value = Vec<u8>> {
    const WORDS: [&str; 30] = [
        "<",
        ">",
        "/",
        "-",
        "--",
        "]]>",
        "=",
        "'",
        "\"",
        " ",
        "\n",
        "a",
        "src=",
        "'/x'",
        "onerror='continue'",
        "<!--",
        "<!--esi",
        "-->",
        "<![CDATA[",
        "<esi:",
        "</esi:",
        "include",
        "remove",
        "comment",
        "<esi:include src='/x'/>",
        "<esi:remove>",
        "</esi:remove>",
        "\u{feff}",
        "http://h/",
        "&amp;",
    ];
    let word = prop_oneof![8 => proptest::sample::select(&WORDS[..]).prop_map(|w| w.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 1..4)];
    proptest::collection::vec(word, 0..40).prop_map(|words| words.concat())
}

fn features() -> impl Strategy<Value = Features> {
    any::<[bool; 4]>().prop_map(|[a, b, c, d]| Features {
        disable_xml_check: a,
        ignore_https: b,
        ignore_other_elements: c,
        remove_bom: d,
    })
}

proptest! {
    #[test]
    fn cuts_change_nothing_and_no_byte_is_lost(page in page(), features in features(), cuts in proptest::collection::vec(1usize..7, 1..20)) {
        let (whole, found) = run(features, &[&page]);
        let (mut pieces, mut rest, mut i) = (Vec::new(), &page[..], 0);
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(cuts[i % cuts.len()].min(rest.len()));
            pieces.push(piece);
            (rest, i) = (tail, i + 1);
        }
        let (cut, cut_found) = run(features, &pieces);
        prop_assert_eq!(&whole.all, &page);
        prop_assert_eq!(&cut.all, &page);
        prop_assert_eq!(whole.out, cut.out);
        prop_assert_eq!(whole.complaints, cut.complaints);
        prop_assert_eq!(found, cut_found);
    }

    #[test]
    fn stored_rubbish_is_an_error_not_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(program) = EsiProgram::parse(&bytes) {
            let _ = program.steps();
        }
    }
}
