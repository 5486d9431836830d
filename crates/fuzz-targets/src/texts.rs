// SPDX-License-Identifier: BSD-2-Clause
//! Languages and formats of text: VCL, ESI, regular expressions, configurations, access logs, statsd.

use accesslog::LogFormat;
use esi::{Complaint, EsiInclude, EsiParser, EsiProgram, Features, ParserSink, ProgramBuilder};
use lacquer_statsd::line::{PacketParser, PacketSample, PacketSink};

use crate::{choice, ended};

/// The text of the octets, if they are one.
fn text(octets: &[u8]) -> &str {
    std::str::from_utf8(octets).unwrap_or_default()
}

/// Collects what a page becomes, and builds its program.
struct Page {
    all: Vec<u8>,
    shown: Vec<u8>,
    includes: Vec<Vec<u8>>,
    program: ProgramBuilder,
}

impl ParserSink for Page {
    fn verbatim(&mut self, bytes: &[u8]) {
        self.all.extend_from_slice(bytes);
        self.shown.extend_from_slice(bytes);
        self.program.verbatim(bytes.len() as u64);
    }

    fn skip(&mut self, bytes: &[u8]) {
        self.all.extend_from_slice(bytes);
        self.program.skip(bytes.len() as u64);
    }

    fn include(&mut self, include: &EsiInclude) {
        self.includes.push(include.url.clone());
        self.program.include(include);
    }

    fn complaint(&mut self, _: Complaint, _: u64) {}
}

fn parsed(features: Features, page: &[u8], piece: usize) -> Page {
    let program = ProgramBuilder::new(b"/page", false);
    let mut sink = Page { all: Vec::new(), shown: Vec::new(), includes: Vec::new(), program };
    let mut parser = EsiParser::new(features);
    page.chunks(piece).for_each(|part| parser.feed(part, &mut sink));
    parser.finish(&mut sink);
    sink
}

pub fn esi(octets: &[u8]) {
    let (way, page) = choice(octets);
    let features = Features {
        disable_xml_check: way & 1 != 0,
        ignore_https: way & 2 != 0,
        ignore_other_elements: way & 4 != 0,
        remove_bom: way & 8 != 0,
    };
    let whole = parsed(features, page, page.len().max(1));
    let cut = parsed(features, page, usize::from(way >> 4) + 1);
    assert_eq!(whole.all, page, "no octet is lost");
    assert_eq!((&whole.shown, &whole.includes), (&cut.shown, &cut.includes), "a page in pieces");
    if let Some(program) = whole.program.finish() {
        EsiProgram::parse(&program).unwrap().steps().unwrap();
    }
    // A program as a damaged store may give it.
    if let Ok(program) = EsiProgram::parse(page) {
        ended(program.steps());
    }
}

pub fn vcl(octets: &[u8]) {
    let options = vcl::CompileOptions {
        check_regex: Some(vcl_regex::check),
        modules: vmods::MODULES,
        ..vcl::CompileOptions::default()
    };
    if let Err(errors) = vcl::compile("fuzz", octets, &vcl::NoSources, &options) {
        assert!(!errors.to_string().is_empty());
    }
}

pub fn regex(octets: &[u8]) {
    let (way, octets) = choice(octets);
    let (pattern, subject) = octets.split_at(octets.len().min(usize::from(way)));
    if let Ok(regex) = vcl_regex::Regex::new(pattern)
        && let Ok(Some(found)) = regex.find(subject)
    {
        assert!(found.start <= found.end && found.end <= subject.len());
    }
}

pub fn hitch(octets: &[u8]) {
    ended(tls::hitch::read(text(octets)));
}

pub fn pem(octets: &[u8]) {
    ended(tls::pem::read(octets));
    ended(tls::pem::authorities(octets));
    ended(tls::pem::without_key(octets));
}

pub fn access_log(octets: &[u8]) {
    const FORMATS: [&str; 3] = [
        "%h %l %u %t \"%r\" %s %b \"%{Referer}i\" \"%{User-agent}i\"",
        "%U%q %m %D %{Varnish:hitmiss}x",
        "%t %U %T %O",
    ];
    let (way, octets) = choice(octets);
    let own = text(octets).lines().next().unwrap_or_default();
    let formats = [FORMATS[usize::from(way) % 3], own];
    for format in formats.into_iter().filter_map(|format| LogFormat::parse(format).ok()) {
        for line in octets.split(|&octet| octet == b'\n') {
            ended(format.read(line));
        }
    }
}

struct Samples(f64);

impl PacketSink for Samples {
    fn line(&mut self, _: &[u8], _: &[u8]) {}

    fn sample(&mut self, _: &[u8], sample: PacketSample<'_>) {
        if let PacketSample::Count(by) = sample {
            self.0 += by;
        }
    }

    fn bad(&mut self, _: &[u8], _: &[u8]) {}
}

pub fn statsd(octets: &[u8]) {
    let (way, packet) = choice(octets);
    PacketParser::default().packet(packet, way & 1 == 0, &mut Samples(0.0));
}

pub fn vsl_query(octets: &[u8]) {
    let (way, octets) = choice(octets);
    if let Ok(query) = logq::Query::new(text(octets), way & 1 == 0) {
        query.matches(&[]);
    }
}

pub fn migrate(octets: &[u8]) {
    const KINDS: [&str; 5] = ["nginx", "apache", "squid", "varnish", "hitch"];
    let (way, octets) = choice(octets);
    let kind = KINDS[usize::from(way) % KINDS.len()];
    if let Err(error) = lacquer_migrate::translate(kind, text(octets).to_owned(), vmods::MODULES) {
        assert!(!error.contains("doesn't compile"), "{kind}: {error}");
    }
}
