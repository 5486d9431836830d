// SPDX-License-Identifier: BSD-2-Clause
//! Hellos that are made of lists, those of rustls, and damaged ones.
use std::sync::Arc;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
struct Made {
    version: u16,
    ciphers: Vec<u16>,
    extensions: Vec<(u16, Vec<u8>)>,
}

impl Made {
    fn message(&self) -> Vec<u8> {
        let mut message = self.version.to_be_bytes().to_vec();
        message.extend([7; 32]);
        message.extend([0]);
        message.extend(list16(&words(&self.ciphers)));
        message.extend([1, 0]);
        let extensions: Vec<u8> = self
            .extensions
            .iter()
            .flat_map(|(kind, body)| [kind.to_be_bytes().to_vec(), list16(body)].concat())
            .collect();
        message.extend(list16(&extensions));
        message
    }
}

fn words(numbers: &[u16]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
}

fn list16(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes(), bytes].concat()
}

fn list8(bytes: &[u8]) -> Vec<u8> {
    [&[u8::try_from(bytes.len()).unwrap()], bytes].concat()
}

/// The message in records that carry so many bytes each, in turn.
fn records(message: &[u8], sizes: &[usize]) -> Vec<u8> {
    let header = u32::try_from(message.len()).unwrap() | 1 << 24;
    let whole = [&header.to_be_bytes(), message].concat();
    let (mut rest, mut raw) = (&whole[..], vec![]);
    for size in sizes.iter().cycle() {
        let (record, left) = rest.split_at((*size).min(rest.len()));
        raw.extend([22, 3, 1]);
        raw.extend(list16(record));
        rest = left;
        if rest.is_empty() {
            break;
        }
    }
    raw
}

fn server_name_body(name: &str) -> Vec<u8> {
    list16(&[&[0][..], &list16(name.as_bytes())].concat())
}

fn alpn_body(names: &[&[u8]]) -> Vec<u8> {
    list16(&names.iter().flat_map(|name| list8(name)).collect::<Vec<_>>())
}

fn example() -> Made {
    let kinds = [
        0x1a1a, 0x001b, 0x0000, 0x0033, 0x0010, 0x4469, 0x0017, 0x002d, 0x000d, 0x0005, 0x0023, 0x0012, 0x002b, 0xff01,
        0x000b, 0x000a, 0x0015,
    ];
    let body = |kind: u16| match kind {
        0 => server_name_body("example.org"),
        10 => list16(&words(&[0x2a2a, 29, 23, 24])),
        11 => list8(&[0]),
        13 => list16(&words(&[0x0403, 0x0804, 0x0401, 0x0503, 0x0805, 0x0501, 0x0806, 0x0601])),
        16 => alpn_body(&[b"h2", b"http/1.1"]),
        43 => list8(&words(&[0x3a3a, 0x0304, 0x0303])),
        _ => vec![],
    };
    let ciphers = [
        0x0a0a, 0x1301, 0x1302, 0x1303, 0xc02b, 0xc02f, 0xc02c, 0xc030, 0xcca9, 0xcca8, 0xc013, 0xc014, 0x009c, 0x009d,
        0x002f, 0x0035,
    ];
    Made { version: 0x0303, ciphers: ciphers.to_vec(), extensions: kinds.map(|kind| (kind, body(kind))).to_vec() }
}

fn fingerprint(made: &Made) -> Fingerprint {
    Fingerprint::new(&HelloOutline::new(&ClientHello::parse(&made.message()).unwrap()), true)
}

#[test]
fn what_a_server_asks_of_a_hello() {
    let message = example().message();
    let hello = ClientHello::parse(&message).unwrap();
    assert_eq!(hello.server_name(), Some("example.org"));
    assert_eq!(hello.alpn().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
    assert_eq!((hello.version(), hello.newest_version()), (0x0303, 0x0304));
    assert!(!hello.is_acme_challenge());
}

#[test]
fn only_a_hello_with_nothing_but_acme_is_a_challenge() {
    for (names, expected) in [(&[&b"acme-tls/1"[..]][..], true), (&[b"acme-tls/1", b"h2"], false), (&[b"h2"], false)] {
        let made = Made { extensions: vec![(16, alpn_body(names))], ..example() };
        assert_eq!(ClientHello::parse(&made.message()).unwrap().is_acme_challenge(), expected);
    }
}

#[test]
fn ja4_is_as_its_description_says() {
    assert_eq!(fingerprint(&example()).ja4(), "t13d1516h2_8daaf6152771_e5627efa2ab1");
    let mut made = example();
    made.extensions.retain(|(kind, _)| *kind != 13);
    made.extensions.push((13, vec![]));
    assert_eq!(
        fingerprint(&made).ja4(),
        "t13d1516h2_8daaf6152771_6d807ffa2a79",
        "no signature algorithms: no underscore"
    );
    let bare = Made { version: 0x0301, ciphers: vec![0x0a0a], extensions: vec![] };
    assert_eq!(fingerprint(&bare).ja4(), "t10i000000_000000000000_000000000000");
}

#[test]
fn ja4_of_protocols_with_odd_names() {
    let ends = [
        (&b"\xab"[..], "ab"),
        (b"\xab\xcd", "ad"),
        (b"\x30\xab", "3b"),
        (b"\x30\x31\xab\xcd", "3d"),
        (b"\x30\xab\xcd\x31", "01"),
        (b"h", "hh"),
        (b"http/1.1", "h1"),
    ];
    for (name, expected) in ends {
        let mut made = example();
        made.extensions.retain(|(kind, _)| *kind != 16);
        made.extensions.push((16, alpn_body(&[name])));
        assert_eq!(fingerprint(&made).ja4().split('_').next().unwrap(), format!("t13d1516{expected}"));
    }
}

#[test]
fn clients_say_which_compressed_certificates_they_take() {
    let check = |body: Option<&[u8]>, expected| {
        let extensions = body.map(|body| (27, body.to_vec())).into_iter().collect();
        let outline = HelloOutline::new(&ClientHello::parse(&Made { extensions, ..example() }.message()).unwrap());
        assert_eq!(outline.takes_compressed_certificates, expected, "{body:?}");
    };
    check(None, false);
    check(Some(&[2, 0, 2]), true);
    check(Some(&[4, 0, 3, 0, 1]), true);
    check(Some(&[2, 0, 3]), false);
    check(Some(&[9, 0, 2]), false);
    check(Some(&[]), false);
}

#[test]
fn ja3_keeps_the_order_and_leaves_out_grease() {
    let text = "771,4865-4866-4867-49195-49199-49196-49200-52393-52392-49171-49172-156-157-47-53,\
                27-0-51-16-17513-23-45-13-5-35-18-43-65281-11-10-21,29-23-24,0";
    assert_eq!(fingerprint(&example()).ja3(), Some(text));
    let bare = Made { version: 0x0301, ciphers: vec![4, 5], extensions: vec![] };
    assert_eq!(fingerprint(&bare).ja3(), Some("769,4-5,,,"));
    // The example of JA3's own description.
    let old = Made {
        version: 769,
        ciphers: vec![47, 53, 5, 10, 49161, 49162, 49171, 49172, 50, 56, 19, 4],
        extensions: vec![(0, server_name_body("a.nz")), (10, list16(&words(&[23, 24, 25]))), (11, list8(&[0]))],
    };
    assert_eq!(fingerprint(&old).ja3_hash().as_deref(), Some("ada70206e40642a3e4461f35503241d5"));
}

#[test]
fn a_hello_with_thousands_of_numbers_has_no_ja3() {
    let made = Made { ciphers: (0x2000..0x3000).collect(), ..example() };
    assert_eq!(fingerprint(&made).ja3(), None);
    assert!(fingerprint(&made).ja4().starts_with("t13d9916h2_"));
}

fn check(first: &[u8], expected: &str) {
    let mut finder = Finder::default();
    let found = finder.find(first);
    assert_eq!(
        found.map(|found| found.map(|_| ())).map_err(|error| error.to_string()),
        Err(expected.to_owned()),
        "{first:?}"
    );
}

#[test]
fn what_is_no_hello_is_named() {
    check(b"GET / HTTP/1.1\r\n", "plain HTTP");
    check(b"PRI * HTTP/2.0\r\n", "plain HTTP");
    check(b"PROXY TCP4 1.2.3.4", "a PROXY header");
    check(b"\r\n\r\n\0\r\nQUIT\n\x21\x11", "a PROXY header");
    check(b"\x80\x2e\x01\x03\x01", "a hello of SSL 2.0");
    check(b"\x15\x03\x01\0\x02\x02\x28", "a record of type 21 before the ClientHello");
    check(b"\0\0\0\0", "not TLS");
    check(b"\x16\x02\x01\0\x02", "not TLS");
    check(b"\x16\x03\x01\0\0", "an empty record before the ClientHello");
    check(b"\x16\x03\x01\x40\x01", "a record of 16385 bytes");
    check(b"\x16\x03\x01\0\x01\x02", "a handshake message of type 2 before the ClientHello");
    check(b"\x16\x03\x01\0\x04\x01\xff\xff\xff", "the ClientHello is too long");
    check(b"\x16\x03\x01\0\x02\x01\0\x17\x03\x03\0\x01\0", "a record of type 23 before the ClientHello");
}

#[test]
fn a_beginning_that_says_nothing_yet_is_waited_for() {
    for beginning in
        [&b""[..], b"P", b"PRO", b"\r\n\r", b"\x16", b"\x16\x03\x01", b"\x16\x03\x01\0\x02\x01\0", b"\x80", b"\x80\x2e"]
    {
        assert_eq!(Finder::default().find(beginning), Ok(None), "{beginning:?}");
    }
}

#[test]
fn records_of_one_byte_each_are_too_long_before_they_fill_memory() {
    let raw = records(&vec![0; 60_000], &[1]);
    let mut finder = Finder::default();
    let end = (1..raw.len()).step_by(100).find_map(|end| finder.find(&raw[..end]).err().map(|error| (end, error)));
    let (end, error) = end.unwrap();
    assert_eq!(error, HelloError::TooLong);
    assert!(end <= MAX_RAW_BYTES + 100, "{end}");
}

#[test]
fn malformed_ones_say_where() {
    let with = |kind: u16, body: &[u8]| Made { extensions: vec![(kind, body.to_vec())], ..example() }.message();
    let cases: [(Vec<u8>, &str); 10] = [
        (vec![3, 3], "ClientHello"),
        (Made { ciphers: vec![], ..example() }.message(), "cipher suites"),
        ([example().message(), vec![0]].concat(), "ClientHello"),
        (with(0, b""), "server name"),
        (with(0, &server_name_body("a b")), "server name"),
        (with(0, &server_name_body("")), "server name"),
        (with(0, &server_name_body(&"a".repeat(256))), "server name"),
        (with(16, &alpn_body(&[b""])), "ALPN"),
        (with(16, &[0, 0]), "ALPN"),
        (with(43, &[1, 3]), "supported versions"),
    ];
    for (message, what) in cases {
        assert_eq!(ClientHello::parse(&message).err(), Some(HelloError::Malformed(what)), "{message:?}");
    }
}

#[test]
fn nobody_answers_a_hello_of_ssl_3() {
    for version in [0, 0x0002, 0x0100, 0x0300] {
        let mut message = example().message();
        message[..2].copy_from_slice(&u16::to_be_bytes(version));
        let error = ClientHello::parse(&message).unwrap_err();
        assert_eq!((error, error.alert()), (HelloError::OldVersion(version), Some(70)));
    }
}

fn hello_of_rustls(name: &str, alpn: &[&[u8]], versions: &[&'static rustls::SupportedProtocolVersion]) -> Vec<u8> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_protocol_versions(versions).unwrap();
    let mut config = builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    let name = rustls::pki_types::ServerName::try_from(name.to_owned()).unwrap();
    let mut client = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let mut raw = vec![];
    client.write_tls(&mut raw).unwrap();
    raw
}

fn compare_with_rustls(raw: &[u8]) {
    let mut acceptor = rustls::server::Acceptor::default();
    acceptor.read_tls(&mut &raw[..]).unwrap();
    let accepted = acceptor.accept().ok().unwrap().unwrap();
    let theirs = accepted.client_hello();
    let found = Finder::default().find(raw).unwrap().unwrap();
    let ours = ClientHello::parse(&found).unwrap();
    assert_eq!(ours.server_name(), theirs.server_name());
    assert_eq!(ours.alpn().collect::<Vec<_>>(), theirs.alpn().into_iter().flatten().collect::<Vec<_>>());
    assert_eq!(
        ours.ciphers().collect::<Vec<_>>(),
        theirs.cipher_suites().iter().map(|&suite| suite.into()).collect::<Vec<u16>>()
    );
    let schemes: Vec<u16> = theirs.signature_schemes().iter().map(|&scheme| scheme.into()).collect();
    assert_eq!(ours.numbers_of(extension::SIGNATURE_ALGORITHMS).collect::<Vec<_>>(), schemes);
    let groups: Vec<u16> = theirs.named_groups().unwrap().iter().map(|&group| group.into()).collect();
    assert_eq!(ours.numbers_of(extension::SUPPORTED_GROUPS).collect::<Vec<_>>(), groups);
}

#[test]
fn hellos_are_read_as_rustls_reads_them() {
    for name in ["example.org", "a.nz", "127.0.0.1"] {
        for alpn in [&[][..], &[&b"http/1.1"[..]], &[b"h2", b"http/1.1"]] {
            compare_with_rustls(&hello_of_rustls(name, alpn, rustls::ALL_VERSIONS));
            compare_with_rustls(&hello_of_rustls(name, alpn, &[&rustls::version::TLS12]));
        }
    }
}

fn made() -> impl Strategy<Value = Made> {
    let name = prop_oneof![Just(None), "[a-z0-9.-]{1,40}".prop_map(Some)];
    let others = prop::collection::vec((100_u16..2000, prop::collection::vec(any::<u8>(), 0..50)), 0..8);
    (0x0301_u16.., prop::collection::vec(any::<u16>(), 1..40), name, others).prop_map(
        |(version, ciphers, name, mut extensions)| {
            extensions.extend(name.map(|name| (0, server_name_body(&name))));
            Made { version, ciphers, extensions }
        },
    )
}

proptest! {
    #[test]
    fn a_hello_is_found_however_it_is_cut(
        made in made(), sizes in prop::collection::vec(1_usize..60, 1..10), steps in prop::collection::vec(1_usize..40, 1..10)
    ) {
        let message = made.message();
        let raw = records(&message, &sizes);
        let (mut finder, mut end) = (Finder::default(), 0);
        for step in steps.iter().cycle() {
            end = (end + step).min(raw.len());
            if let Some(found) = finder.find(&raw[..end]).unwrap() {
                prop_assert_eq!(&found[..], &message[..]);
                prop_assert_eq!(end, raw.len());
                break;
            }
            prop_assert!(end < raw.len());
        }
        let hello = ClientHello::parse(&message).unwrap();
        prop_assert_eq!(hello.ciphers().collect::<Vec<_>>(), made.ciphers.clone());
        prop_assert_eq!(hello.extensions().map(|(kind, body)| (kind, body.to_vec())).collect::<Vec<_>>(), made.extensions.clone());
        let name = made.extensions.iter().find(|(kind, _)| *kind == 0).map(|(_, body)| String::from_utf8(body[5..].to_vec()).unwrap());
        prop_assert_eq!(hello.server_name(), name.as_deref());
        Fingerprint::new(&HelloOutline::new(&hello), true);
    }

    #[test]
    fn no_bytes_make_it_panic(mut raw in prop::collection::vec(any::<u8>(), 0..300), at_first in any::<bool>()) {
        if at_first {
            raw.splice(..0, [22, 3, 1, 1, 0, 1, 0, 0, 252]);
        }
        let mut finder = Finder::default();
        for end in 0..=raw.len() {
            if finder.find(&raw[..end]).is_err() {
                break;
            }
        }
        if let Ok(hello) = ClientHello::parse(&raw) {
            Fingerprint::new(&HelloOutline::new(&hello), true);
        }
    }

    #[test]
    fn damaged_hellos_never_make_it_panic(made in made(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut message = made.message();
        let at = at.index(message.len());
        message[at] = byte;
        if let Ok(hello) = ClientHello::parse(&message) {
            let lengths: usize = hello.extensions().map(|(_, body)| body.len() + 4).sum();
            prop_assert_eq!(lengths, hello.extensions.len(), "what was accepted is read to its end");
            Fingerprint::new(&HelloOutline::new(&hello), true);
        }
    }
}
