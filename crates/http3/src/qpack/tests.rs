// SPDX-License-Identifier: BSD-2-Clause
//! Facts about field sections.

use proptest::prelude::*;

use super::*;

fn fields(section: &[u8], max_bytes: usize) -> Result<Vec<(String, String)>, Http3ErrorCode> {
    let mut out = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decode(section, max_bytes, &mut QpackScratch::default(), |name, value| {
        out.push((text(name), text(value)));
        Ok(())
    })
    .map(|()| out)
    .map_err(|error| error.code)
}

fn check(section: &[u8], want: Result<&[(&str, &str)], Http3ErrorCode>) {
    let got = fields(section, 1000);
    let got = got.as_ref().map(|list| list.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect::<Vec<_>>());
    assert_eq!(got.as_deref().map_err(|code| **code), want, "{section:x?}");
}

#[test]
fn sections_are_read() {
    check(&[0, 0], Ok(&[]));
    check(&[0, 0, 0xd1, 0xc1], Ok(&[(":method", "GET"), (":path", "/")]));
    // RFC 9204 B.1: a literal with the name of an entry.
    let example = b"\0\0\x51\x0b/index.html";
    check(example, Ok(&[(":path", "/index.html")]));
    check(b"\0\0\x22ab\x01c", Ok(&[("ab", "c")]));
    check(b"\0\0\x32ab\0", Ok(&[("ab", "")]));
    // The last entry needs a second byte.
    check(&[0, 0, 0xff, 35], Ok(&[("x-frame-options", "sameorigin")]));
    // RFC 7541 C.4.1's www.example.com.
    let packed = [&[0, 0, 0x50, 0x8c][..], &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]];
    check(&packed.concat(), Ok(&[(":authority", "www.example.com")]));
}

#[test]
fn nothing_refers_to_a_dynamic_table() {
    for section in [&[2, 0][..], &[0, 0, 0x80], &[0, 0, 0x40, 0], &[0, 0, 0x10], &[0, 0, 0x00, 0]] {
        check(section, Err(Http3ErrorCode::Decompression));
    }
}

/// RFC 9204 4.5.1.2: nothing of a table is needed, so a base below that would be negative; one above it means nothing.
#[test]
fn the_base_is_not_negative() {
    for delta in [0, 1, 0x7e] {
        check(&[0, 0x80 | delta, 0xd1], Err(Http3ErrorCode::Decompression));
        check(&[0, delta, 0xd1], Ok(&[(":method", "GET")]));
    }
    check(&[&[0, 0x7f][..], &[0xff; 12], &[0xd1]].concat(), Err(Http3ErrorCode::Decompression));
}

#[test]
fn what_is_cut_or_out_of_range_is_no_section() {
    for section in [&[][..], &[0], &[0, 0, 0xff], &[0, 0, 0xff, 36], &[0, 0, 0x51], &[0, 0, 0x51, 5, b'a']] {
        check(section, Err(Http3ErrorCode::Decompression));
    }
    // Padding of Huffman's code that isn't ones.
    check(&[0, 0, 0x51, 0x81, 0x00], Err(Http3ErrorCode::Decompression));
    check(&[&[0, 0, 0x51, 0x7f][..], &[0xff; 12]].concat(), Err(Http3ErrorCode::Decompression));
}

#[test]
fn a_section_has_a_size() {
    let section = b"\0\0\x22ab\x01c\x22ab\x01c";
    assert_eq!(fields(section, 70).map(|list| list.len()), Ok(2));
    assert_eq!(fields(section, 69), Err(Http3ErrorCode::ExcessiveLoad));
    // 800 times the letter a, in 500 bytes.
    let packed = [&[0, 0, 0x51, 0xff, 0xf5, 0x02][..], &[0x18, 0xc6, 0x31, 0x8c, 0x63].repeat(100)].concat();
    assert_eq!(fields(&packed, 836).map(|list| list[0].1.len()), Err(Http3ErrorCode::ExcessiveLoad));
    assert_eq!(fields(&packed, 837).map(|list| list[0].1.len()), Ok(800));
}

#[test]
fn entries_are_found_by_name_and_value() {
    for (index, (name, value)) in TABLE.iter().enumerate() {
        assert_eq!(table::find(name.as_bytes(), value.as_bytes()), table::Found::Whole(index), "{name}");
        let first = TABLE.iter().position(|(other, _)| other == name).unwrap();
        assert_eq!(table::find(name.as_bytes(), b"else"), table::Found::Name(first), "{name}");
    }
    assert_eq!(table::find(b"x-other", b""), table::Found::Nothing);
    assert_eq!(table::find(&[b'x'; 40], b""), table::Found::Nothing);
}

proptest! {
    #[test]
    fn what_is_written_is_read(list in prop::collection::vec(("[a-z:-]{1,40}", "[ -~]{0,200}"), 0..20)) {
        let mut out = Vec::new();
        let mut encoder = QpackEncoder::begin(&mut out);
        for (name, value) in &list {
            encoder.field(name.as_bytes(), value.as_bytes());
        }
        prop_assert_eq!(fields(&out, 1 << 20), Ok(list));
    }

    #[test]
    fn any_bytes_are_read_or_refused(section: Vec<u8>) {
        let _ = fields(&section, 4096);
    }
}
