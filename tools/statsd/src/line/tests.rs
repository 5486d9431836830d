// SPDX-License-Identifier: BSD-2-Clause
//! Tests of the protocol.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;

#[derive(Default)]
struct Record(String);

impl PacketSink for Record {
    fn line(&mut self, name: &[u8], _line: &[u8]) {
        let _ = write!(self.0, "[{}]", String::from_utf8_lossy(name));
    }

    fn sample(&mut self, _name: &[u8], sample: PacketSample<'_>) {
        let _ = match sample {
            PacketSample::Member(member) => write!(self.0, " s {}", String::from_utf8_lossy(member)),
            other => write!(self.0, " {other:?}"),
        };
    }

    fn bad(&mut self, sample: &[u8], _line: &[u8]) {
        let _ = write!(self.0, " bad {}", String::from_utf8_lossy(sample));
    }
}

fn record(packet: &[u8], clean: bool) -> String {
    let mut record = Record::default();
    PacketParser::default().packet(packet, clean, &mut record);
    record.0
}

fn check(packet: &str, expected: &str) {
    assert_eq!(record(packet.as_bytes(), true), expected, "{packet:?}");
}

#[test]
fn types_and_values() {
    check("a:1|c", "[a] Count(1.0)");
    check("a:1|c|@0.1", "[a] Count(10.0)");
    check("a:2|c:3|c|@0.5:4|ms", "[a] Count(2.0) Count(6.0) Time(4.0, 1.0)");
    check("a:1|", "[a] Count(1.0)");
    check("a:1|h", "[a] Count(1.0)");
    check("a:5|ms|@0.5", "[a] Time(5.0, 2.0)");
    check("a:-5|ms", "[a] bad -5|ms");
    check("a:-5|ms ", "[a] Time(-5.0, 1.0)");
    check("a:5|g", "[a] Gauge(5.0)");
    check("a:+5|g", "[a] Change(5.0)");
    check("a: -5|g", "[a] Gauge(-5.0)");
    check("a:x|s", "[a] s x");
    check("a:|s", "[a] s 0");
    check("a:x|s ", "[a] bad x|s ");
    check("a:7|s ", "[a] s 7");
    check("a:|", "[a] bad |");
    check("a:|c", "[a] bad |c");
    check("a:1", "[a] bad 1");
    check("a", "[a] bad 1");
    check("a:", "[a] bad ");
    check(":1|c", "[] Count(1.0)");
    check("a:1|c\n\nb:1|c\r\n", "[a] Count(1.0)[b] Count(1.0)");
}

#[test]
fn rates() {
    for bad in ["0.1", "@", "", "@-1", "@x", "@+1", "@ 1", "@Infinity", "@0", "@0x10", "@.", "@1.2.3"] {
        let line = format!("a:1|c|{bad}");
        check(&line, &format!("[a] bad 1|c|{bad}"));
    }
    check("a:1|c|@1e-1", "[a] Count(1.0)");
    check("a:1|c|@.5", "[a] Count(2.0)");
    check("a:1|c|@0.5 ", "[a] Count(2.0)");
    check("a:1|c|@0.5|more", "[a] Count(2.0)");
    check("a:1|g|@x", "[a] bad 1|g|@x");
}

#[test]
fn tags() {
    check("a:1|c|#env:prod,role:web", "[a;env=prod;role=web] Count(1.0)");
    check("a:1|c|@0.5|#b", "[a;b] Count(2.0)");
    check("a:1|c|#b|#c", "[a;b] Count(1.0)");
    check("a:1|c|#", "[a] Count(1.0)");
    check("a:1|c|#x;y;z:u:v", "[a;x_y;z=uv] Count(1.0)");
    check("a|#b:1|c", "[a;b=1] bad 1");
    check("a;b=c:1|c", "[a;b=c] Count(1.0)");
    check("a,b=c:1|c", "[ab=c] Count(1.0)");
    check("a:1|c#b", "[a] Count(1.0)");
}

/// The lines are those of Datadog's clients (DogStatsD 1.1 packs values, 1.2 names containers, 1.3 has times, 1.4
/// cardinalities).
#[test]
fn fields_of_dogstatsd() {
    for tags in ["", "|#env:prod,svc:web"] {
        let name = if tags.is_empty() { "[a]" } else { "[a;env=prod;svc=web]" };
        let fields =
            ["|c:ci-3f2a", "|c:in-83", "|T1656581400", "|e:it-false,cn-x:y", "|card:low", "|c:x|T1|e:y|card:none"];
        for field in fields {
            check(&format!("a:1|c{tags}{field}"), &format!("{name} Count(1.0)"));
            check(&format!("a:1|c|@0.5{tags}{field}"), &format!("{name} Count(2.0)"));
            check(&format!("a:1|c{field}|@0.5{tags}"), &format!("{name} Count(2.0)"));
            check(&format!("a:1:2:3|ms{tags}{field}"), &format!("{name} Time(1.0, 1.0) Time(2.0, 1.0) Time(3.0, 1.0)"));
        }
    }
    check("a:1|c|#b|@0.5", "[a;b] Count(2.0)");
    check("a:1|c|#b|new:field|@0.5", "[a;b] Count(2.0)");
    check("a:1|c|#b|@x", "[a;b] bad 1|c");
    check("a:1:2|c|@0.5:3|g:4", "[a] Count(2.0) Count(4.0) Gauge(3.0) bad 4");
    check("a:1:x|c", "[a] Count(1.0) bad x|c");
    check("a:+1:-2|g", "[a] Change(1.0) Change(-2.0)");
    check("a:1|c|Tx", "[a] bad 1|c|Tx");
    check("a:1|c|e", "[a] bad 1|c|e");
    check("a:1:2", "[a] bad 1 bad 2");
    check("a:1|c:2:3", "[a] Count(1.0) bad 2 bad 3");
}

#[test]
fn names_are_left_alone_on_request() {
    assert_eq!(record(b"a b/\xff:1|c", false), "[a b/\u{fffd}] Count(1.0)");
    assert_eq!(record(b"a b:1|c|#c d", false), "[a b;c d] Count(1.0)");
}

/// Text near the grammar.
fn packets() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b":".to_vec()),
        Just(b"|".to_vec()),
        Just(b"|@".to_vec()),
        Just(b"|#".to_vec()),
        Just(b"\n".to_vec()),
        Just(b"ms".to_vec()),
        Just(b"g".to_vec()),
        Just(b"c".to_vec()),
        Just(b"s".to_vec()),
        Just(b"0.1".to_vec()),
        Just(b"-3".to_vec()),
        Just(b"Infinity".to_vec()),
        Just(b"__proto__".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..4),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

/// Counts calls and asserts what must hold for every packet.
#[derive(Default)]
struct Sane(usize, usize);

impl PacketSink for Sane {
    fn line(&mut self, name: &[u8], line: &[u8]) {
        assert!(chars::is_clean(name));
        assert!(!line.is_empty());
        self.0 += 1;
    }

    fn sample(&mut self, _name: &[u8], sample: PacketSample<'_>) {
        self.1 += 1;
        match sample {
            PacketSample::Count(n) | PacketSample::Gauge(n) | PacketSample::Change(n) => {
                assert!(!n.is_nan() || n.to_bits() != 0)
            }
            PacketSample::Time(n, events) => assert!(!n.is_nan() && events > 0.0),
            PacketSample::Member(member) => assert!(!member.is_empty()),
        }
    }

    fn bad(&mut self, _sample: &[u8], _line: &[u8]) {
        self.1 += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn every_line_gives_a_sample_or_a_bad_one(packet in packets()) {
        let mut sane = Sane::default();
        PacketParser::default().packet(&packet, true, &mut sane);
        let lines = packet.split(|b| *b == b'\n').filter(|line| !line.is_empty()).count();
        prop_assert_eq!(sane.0, lines);
        prop_assert!(sane.1 >= lines);
        PacketParser::default().packet(&packet, false, &mut Record::default());
    }
}
