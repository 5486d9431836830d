// SPDX-License-Identifier: BSD-2-Clause
//! Databases made here, whole and damaged (MaxMind DB format 2.0), and what lookups say of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;

use super::*;

/// A value to be written, and one that a lookup is compared with.
#[derive(Clone, Debug)]
enum Made {
    Map(Vec<(String, Made)>),
    Array(Vec<Made>),
    Text(String),
    Bytes(Vec<u8>),
    Bool(bool),
    I32(i32),
    U16(u16),
    U32(u32),
    U64(u64),
    U128(u128),
    F32(f32),
    F64(f64),
    /// A pointer to a place of the data section.
    At(u16),
}

/// A control byte of a type and a size; types above 7 are extended.
fn control(kind: u8, size: usize, out: &mut Vec<u8>) {
    let (low, more): (u8, Vec<u8>) = match size {
        0..29 => (size as u8, vec![]),
        29..285 => (29, vec![(size - 29) as u8]),
        _ => (30, ((size - 285) as u16).to_be_bytes().to_vec()),
    };
    if kind > 7 {
        out.extend([low, kind - 7]);
    } else {
        out.push(kind << 5 | low);
    }
    out.extend(more);
}

/// A number without its leading zeros, as writers do.
fn number(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    let from = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    control(kind, bytes.len() - from, out);
    out.extend(&bytes[from..]);
}

impl Made {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Made::Map(pairs) => {
                control(7, pairs.len(), out);
                for (key, value) in pairs {
                    Made::Text(key.clone()).write(out);
                    value.write(out);
                }
            }
            Made::Array(values) => {
                control(11, values.len(), out);
                values.iter().for_each(|value| value.write(out));
            }
            Made::Text(text) => {
                control(2, text.len(), out);
                out.extend(text.as_bytes());
            }
            Made::Bytes(bytes) => {
                control(4, bytes.len(), out);
                out.extend(bytes);
            }
            Made::Bool(value) => control(14, usize::from(*value), out),
            Made::I32(n) => number(8, &n.to_be_bytes(), out),
            Made::U16(n) => number(5, &n.to_be_bytes(), out),
            Made::U32(n) => number(6, &n.to_be_bytes(), out),
            Made::U64(n) => number(9, &n.to_be_bytes(), out),
            Made::U128(n) => number(10, &n.to_be_bytes(), out),
            Made::F32(n) => {
                control(15, 4, out);
                out.extend(n.to_be_bytes());
            }
            Made::F64(n) => {
                control(3, 8, out);
                out.extend(n.to_be_bytes());
            }
            Made::At(at) => {
                // 11 bits, or 19 from 2048 on.
                if *at < 2048 {
                    out.extend([0x20 | (at >> 8) as u8, *at as u8]);
                } else {
                    let rest = u32::from(*at) - 2048;
                    out.extend([0x28 | (rest >> 16) as u8, (rest >> 8) as u8, rest as u8]);
                }
            }
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn shown(&self) -> String {
        match self {
            Made::Map(_) => "Error Unsupported data type (7)".into(),
            Made::Array(_) => "Error Unsupported data type (11)".into(),
            Made::U128(_) => "Error Unsupported data type (10)".into(),
            Made::Text(text) => text.clone(),
            Made::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
            Made::Bool(value) => value.to_string(),
            Made::I32(n) => n.to_string(),
            Made::U16(n) => n.to_string(),
            Made::U32(n) => n.to_string(),
            Made::U64(n) => n.to_string(),
            Made::F32(n) => format!("{n:.6}"),
            Made::F64(n) => format!("{n:.6}"),
            Made::At(_) => unreachable!("not looked up itself"),
        }
    }
}

fn map<const N: usize>(pairs: [(&str, Made); N]) -> Made {
    Made::Map(pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn text(text: &str) -> Made {
    Made::Text(text.to_owned())
}

/// A database of one network, `bits` of an address long, with these bytes as its data section, whose record is at `at`.
fn database(version: u16, record_bits: u16, network: u128, bits: usize, data: &[u8], at: usize) -> Vec<u8> {
    let width = if version == 4 { 32 } else { 128 };
    let mut tree = Vec::new();
    for depth in 0..bits {
        let next = if depth + 1 == bits { bits + 16 + at } else { depth + 1 };
        let (nowhere, is_right) = (bits as u32, network >> (width - 1 - depth) & 1 == 1);
        let (left, right) = if is_right { (nowhere, next as u32) } else { (next as u32, nowhere) };
        let (l, r) = (left.to_be_bytes(), right.to_be_bytes());
        match record_bits {
            24 => tree.extend([l[1], l[2], l[3], r[1], r[2], r[3]]),
            28 => tree.extend([l[1], l[2], l[3], l[0] << 4 | r[0], r[1], r[2], r[3]]),
            _ => tree.extend([l, r].concat()),
        }
    }
    let metadata = map([
        ("binary_format_major_version", Made::U16(2)),
        ("binary_format_minor_version", Made::U16(0)),
        ("build_epoch", Made::U64(1)),
        ("database_type", text("Test")),
        ("description", map([])),
        ("ip_version", Made::U16(version)),
        ("languages", Made::Array(vec![])),
        ("node_count", Made::U32(bits as u32)),
        ("record_size", Made::U16(record_bits)),
    ]);
    [&tree[..], &[0; 16], data, b"\xab\xcd\xefMaxMind.com", &metadata.bytes()].concat()
}

/// A database with one record for all addresses below 128.0.0.0, none for the others.
pub(crate) fn sample() -> Vec<u8> {
    database(4, 24, 0, 1, &record().bytes(), 0)
}

fn record() -> Made {
    map([
        ("country", map([("names", map([("en", text("Utopia \"U\""))])), ("code", text("UT"))])),
        ("list", Made::Array(vec![text("a"), text("b"), map([("x", Made::U16(7))])])),
        ("7", text("a key of digits")),
        ("n", Made::U32(256)),
        ("d", Made::F64(1.5)),
        ("f", Made::F32(-0.25)),
        ("raw", Made::Bytes(vec![0, 0x2a])),
        ("yes", Made::Bool(true)),
        ("below", Made::I32(-5)),
        ("long", Made::U64(u64::MAX)),
        ("wide", Made::U128(1 << 100)),
        ("empty", map([])),
    ])
}

fn told(bytes: &[u8], path: &str, ip: IpAddr, json: bool) -> String {
    let database: GeoDatabase = match Reader::from_source(bytes.to_vec()) {
        Ok(database) => database,
        Err(error) => return format!("no database: {error}"),
    };
    match find(&database, path, true, Some((ip, 0).into()), json) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err((tag, reason)) => format!("{} {reason}", tag.name()),
    }
}

#[track_caller]
fn check(path: &str, ip: &str, json: bool, want: &str) {
    assert_eq!(told(&sample(), path, ip.parse().expect("an address"), json), want, "{path}");
}

#[test]
fn values_by_path() {
    check("country/names/en", "1.2.3.4", false, "Utopia \"U\"");
    check("country/names/en", "1.2.3.4", true, "\"Utopia \\\"U\\\"\"");
    check("//country/code/", "1.2.3.4", false, "UT");
    check("list/1", "1.2.3.4", false, "b");
    check("list/-1/x", "1.2.3.4", false, "7");
    check("7", "1.2.3.4", false, "a key of digits");
    check("n", "1.2.3.4", true, "256");
    check("d", "1.2.3.4", false, "1.500000");
    check("f", "1.2.3.4", false, "-0.250000");
    check("raw", "1.2.3.4", false, "002A");
    check("raw", "1.2.3.4", true, "\"002A\"");
    check("yes", "1.2.3.4", false, "true");
    check("below", "1.2.3.4", false, "-5");
    check("long", "1.2.3.4", false, "18446744073709551615");
}

#[test]
fn paths_that_lead_nowhere() {
    check("wide", "1.2.3.4", false, "Error Unsupported data type (10)");
    check("country/names", "1.2.3.4", false, "Error Unsupported data type (7)");
    check("list", "1.2.3.4", false, "Error Unsupported data type (11)");
    check("country/names/de", "1.2.3.4", false, "Debug No data for this path (country/names/de)");
    check("n/5", "1.2.3.4", false, "Debug No data for this path (n/5)");
    check("country/names/en/x", "1.2.3.4", false, "Debug No data for this path (country/names/en/x)");
    check("list/3", "1.2.3.4", false, "Debug No data for this path (list/3)");
    check("list/-4", "1.2.3.4", false, "Debug No data for this path (list/-4)");
    check("list/x", "1.2.3.4", false, "Error \"x\" is no place in an array (list/x)");
    check("empty/x", "1.2.3.4", false, "Debug No data for this path (empty/x)");
    check("", "1.2.3.4", false, "Error Invalid or missing path ()");
    check("/", "1.2.3.4", false, "Error Invalid or missing path (/)");
    check("country", "200.2.3.4", false, "Debug No entry for this IP address (200.2.3.4)");
}

#[test]
fn addresses_of_both_families() {
    let data = map([("x", text("here"))]).bytes();
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    // An IPv4 network is ::/96 in a database of IPv6.
    let v4_in_v6 = database(6, 28, 10 << 24, 104, &data, 0);
    let told_of = |bytes: &[u8], text: &str| told(bytes, "x", ip(text), false);
    assert_eq!(told_of(&v4_in_v6, "10.1.2.3"), "here");
    assert_eq!(told_of(&v4_in_v6, "::ffff:10.1.2.3"), "here");
    assert_eq!(told_of(&v4_in_v6, "::10.1.2.3"), "here");
    assert_eq!(told_of(&v4_in_v6, "11.1.2.3"), "Debug No entry for this IP address (11.1.2.3)");
    assert_eq!(told_of(&v4_in_v6, "2001:db8::1"), "Debug No entry for this IP address (2001:db8::1)");
    let v6 = database(6, 32, 0x2001_0db8 << 96, 32, &data, 0);
    assert_eq!(told_of(&v6, "2001:db8::1"), "here");
    assert_eq!(told_of(&v6, "10.1.2.3"), "Debug No entry for this IP address (10.1.2.3)");
    assert!(told_of(&sample(), "2001:db8::1").starts_with("Error "), "a database of IPv4 only");
}

#[test]
fn pointers_are_followed_once_and_their_loops_are_errors() {
    let mut data = text("shared").bytes();
    let at = data.len();
    data.extend(map([("x", Made::At(0)), ("y", Made::At(0))]).bytes());
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    assert_eq!(told(&database(4, 24, 0, 1, &data, at), "y", ip, false), "shared");
    let itself = map([("x", Made::At(0))]).bytes();
    for path in ["x", "x/x/x/x/x/x/x/x/x/x"] {
        assert_eq!(told(&database(4, 24, 0, 1, &itself, 0), path, ip, false), "Error Unsupported data type (7)");
    }
    let to_pointer = [Made::At(2).bytes(), Made::At(0).bytes()].concat();
    assert!(told(&database(4, 24, 0, 1, &to_pointer, 0), "x", ip, false).starts_with("Error "));
}

/// Fifty arrays of two pointers, each to the array before: 2^50 values in 300 bytes. Only the step is looked at.
#[test]
fn what_a_file_says_often_is_not_read_often() {
    let mut data = text("leaf").bytes();
    let mut at = 0;
    for _ in 0..50 {
        let next = data.len() as u16;
        data.extend(Made::Array(vec![Made::At(at), Made::At(at)]).bytes());
        at = next;
    }
    let root = data.len();
    data.extend(map([("x", Made::At(at)), ("y", text("beside"))]).bytes());
    let (bytes, ip) = (database(4, 24, 0, 1, &data, root), IpAddr::V4(Ipv4Addr::LOCALHOST));
    assert_eq!(told(&bytes, "x", ip, false), "Error Unsupported data type (11)");
    assert_eq!(told(&bytes, "x/1/0/1", ip, false), "Error Unsupported data type (11)");
    assert_eq!(told(&bytes, "y", ip, false), "beside");
    // Arrays in arrays, deeper than any stack.
    let deep = database(4, 24, 0, 1, &[&[0xe1, 0x41, b'x'][..], &[0x01, 0x04].repeat(100_000)].concat(), 0);
    for path in ["x", "x/0/0/0/0/0", "y"] {
        assert!(told(&deep, path, ip, false).starts_with("Error "), "{path}");
    }
}

fn made() -> impl Strategy<Value = Made> {
    let leaf = prop_oneof![
        "\\PC{0,12}".prop_map(Made::Text),
        "[a-z]{280,300}".prop_map(Made::Text),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Made::Bytes),
        any::<bool>().prop_map(Made::Bool),
        any::<i32>().prop_map(Made::I32),
        any::<u16>().prop_map(Made::U16),
        any::<u32>().prop_map(Made::U32),
        any::<u64>().prop_map(Made::U64),
        any::<u128>().prop_map(Made::U128),
        (-1e6f32..1e6).prop_map(Made::F32),
        (-1e9f64..1e9).prop_map(Made::F64),
    ];
    leaf.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Made::Array),
            proptest::collection::btree_map("[a-z0-9]{1,4}", inner, 0..6)
                .prop_map(|pairs| Made::Map(pairs.into_iter().collect())),
        ]
    })
}

fn each(made: &Made, path: &str, bytes: &[u8], ip: IpAddr) -> Result<(), TestCaseError> {
    if path.split('/').count() > DEEPEST {
        return Ok(());
    }
    if !path.is_empty() {
        prop_assert_eq!(told(bytes, path, ip, false), made.shown(), "{}", path);
    }
    let join = |word: &str| if path.is_empty() { word.to_owned() } else { format!("{path}/{word}") };
    match made {
        Made::Map(pairs) => pairs.iter().try_for_each(|(key, value)| each(value, &join(key), bytes, ip)),
        Made::Array(values) => values.iter().enumerate().try_for_each(|(at, value)| {
            each(value, &join(&at.to_string()), bytes, ip)?;
            each(value, &join(&format!("-{}", values.len() - at)), bytes, ip)
        }),
        _ => Ok(()),
    }
}

proptest! {
    #[test]
    fn what_is_written_is_found(
        pairs in proptest::collection::btree_map("[a-z0-9]{1,4}", made(), 1..6),
        network: u32,
        bits in 1usize..=32,
        is_v6: bool,
        record_bits in prop_oneof![Just(24u16), Just(28), Just(32)],
        other: u32,
    ) {
        let root = Made::Map(pairs.into_iter().collect());
        let bytes = if is_v6 {
            database(6, record_bits, u128::from(network), 96 + bits, &root.bytes(), 0)
        } else {
            database(4, record_bits, u128::from(network), bits, &root.bytes(), 0)
        };
        each(&root, "", &bytes, Ipv4Addr::from(network).into())?;
        let is_inside = (network ^ other) >> (32 - bits) == 0;
        let answer = told(&bytes, "none/such", Ipv4Addr::from(other).into(), false);
        prop_assert_eq!(answer.starts_with("Debug No entry"), !is_inside, "{}", answer);
    }

    #[test]
    fn damaged_files_are_errors(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
        record_bits in prop_oneof![Just(24u16), Just(28), Just(32)],
        ip: u128,
        path in "(country/names/en|list/-?[0-9]{1,3}/x|n|d|f|raw|wide|[a-z0-9/-]{0,9})",
    ) {
        let mut bytes = database(6, record_bits, 0, 8, &record().bytes(), 0);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        told(&bytes, &path, Ipv6Addr::from(ip >> 8).into(), true);
        told(&bytes, &path, Ipv4Addr::from(ip as u32).into(), false);
    }

    #[test]
    fn any_data_is_read_or_refused(data in proptest::collection::vec(any::<u8>(), 1..200), path in "[a-z0-9/-]{1,6}") {
        told(&database(4, 24, 0, 1, &data, 0), &path, Ipv4Addr::LOCALHOST.into(), false);
    }
}
