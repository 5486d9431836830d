// SPDX-License-Identifier: BSD-2-Clause
//! Facts about PROXY headers.

use proptest::prelude::*;

use super::*;

fn check(line: &str, want: Result<&str, &str>) {
    let got = match parse(line.as_bytes()) {
        Ok(ProxyProgress::Complete(header)) => Ok(header.log.unwrap()),
        Ok(ProxyProgress::Incomplete) => panic!("{line:?} is whole"),
        Err(ProxyHeaderError::Garbage(text)) => Err(text),
        Err(other) => Err(format!("{other:?}")),
    };
    assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{line:?}");
}

#[test]
fn lines_of_version_1() {
    check("PROXY TCP4 1.2.3.4 5.6.7.8 1234 5678\r\n", Ok("1 1.2.3.4 1234 5.6.7.8 5678"));
    check("PROXY TCP6 1:f::2 5:a::8 1234 5678\r\nGET", Ok("1 1:f::2 1234 5:a::8 5678"));
    check("PROXY A B C D\r\n", Err("PROXY1: Too few fields"));
    check("PROXY unknown\r\n", Err("PROXY1: Too few fields"));
    check("PROXY UNKNOWNS a b c d\r\n", Err("PROXY1: Wrong TCP[46] field"));
    check(&format!("PROXY UNKNOWN {}\r\n", "x".repeat(93)), Err("Overflow"));
    check("PROXY A B C D E F\r\n", Err("PROXY1: Too many fields"));
    check("PROXY A B C D E\r\n", Err("PROXY1: Wrong TCP[46] field"));
    check("PROXY TCP4 B C D E\r\n", Err("PROXY1: Cannot resolve source address"));
    check("PROXY TCP4 1.2.3.4 D 1234 E\r\n", Err("PROXY1: Cannot resolve destination address"));
    check("PROXY TCP4 ::1 ::1 1 2\r\n", Err("PROXY1: Cannot resolve source address"));
    check("PROXY TCP4 1.2.3.4 5.6.7.8 65536 1\r\n", Err("PROXY1: Cannot resolve source address"));
    check("PROXY TCP4 1.2.3.4 5.6.7.8 +1 1\r\n", Err("PROXY1: Cannot resolve source address"));
    check("PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n", Err("NotProxy"));
    check("PROXYX TCP4 1.2.3.4 5.6.7.8 1 2\r\n", Err("NotProxy"));
    check("XYZ\r\n", Err("NotProxy"));
    check(&format!("PROXY {}\r\n", "x".repeat(110)), Err("Overflow"));
}

fn header(bytes: &[u8]) -> ProxyHeader {
    match parse(bytes) {
        Ok(ProxyProgress::Complete(header)) => header,
        other => panic!("{other:?}"),
    }
}

/// The forms that proxy-protocol.txt 2.1 names, and that haproxy's checks and proxies before UNIX sockets send.
#[test]
fn an_unknown_client_is_the_connection_itself() {
    let longest = "PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535";
    for line in
        ["PROXY UNKNOWN", "PROXY UNKNOWN 1.2.3.4 5.6.7.8 1 2", "PROXY UNKNOWN whatever", "PROXY UNKNOWN ", longest]
    {
        let whole = format!("{line}\r\n");
        for end in 0..whole.len() {
            assert_eq!(parse(&whole.as_bytes()[..end]), Ok(ProxyProgress::Incomplete), "{end} of {line:?}");
        }
        let read = header(format!("{whole}GET").as_bytes());
        assert_eq!((read.consumed, read.ends, &read.log), (whole.len(), None, &None), "{line:?}");
        assert_eq!(read.ignored.as_deref(), Some("PROXY1: Ignoring UNKNOWN addresses"));
    }
}

fn v2(command: u8, family: u8, payload: &[u8]) -> Vec<u8> {
    let len = (payload.len() as u16).to_be_bytes();
    [V2_SIGNATURE, &[command, family], &len, payload].concat()
}

#[test]
fn headers_of_version_2_that_say_nothing() {
    let local = header(&v2(0x20, 0x11, b"whatever"));
    assert_eq!((local.log.as_deref(), local.ends), (Some("2 local local local local"), None));
    let unspec = header(&v2(0x21, 0x00, b""));
    assert_eq!(unspec.ignored.as_deref(), Some("PROXY2: Ignoring UNSPEC|UNSPEC addresses"));
    let udp = header(&v2(0x21, 0x12, &[0; 12]));
    assert_eq!(udp.ignored.as_deref(), Some("PROXY2: Ignoring unsupported protocol (0x12)"));
    let short = header(&v2(0x21, 0x21, &[0; 12]));
    assert_eq!(short.ignored.as_deref(), Some("PROXY2: Ignoring short IPv6 addresses (12)"));
}

/// The header is haproxy's with `proxy-v2-options ssl,cert-cn` and the client's certificate.
#[test]
fn a_certificate_fits_into_a_tlv() {
    let certificate = vec![0x30; 9000];
    let inner = [&[1, 0, 0, 0, 0], &b"\x28"[..], &(certificate.len() as u16).to_be_bytes(), &certificate].concat();
    let tlvs = [&b"\x20"[..], &(inner.len() as u16).to_be_bytes(), &inner].concat();
    let read = header(&v2(0x21, 0x11, &[&[1, 2, 3, 4, 5, 6, 7, 8, 0, 80, 1, 187][..], &tlvs].concat()));
    assert_eq!(read.log.as_deref(), Some("2 1.2.3.4 80 5.6.7.8 443"));
    assert_eq!(tlv(&read.tlvs, 0x28), Some(&certificate[..]));
}

#[test]
fn headers_of_version_2_that_are_refused() {
    let error = |text: &str| Err(ProxyHeaderError::Garbage(text.to_owned()));
    assert_eq!(parse(&v2(0x31, 0x11, &[0; 12])), error("PROXY2: bad version (3)"));
    assert_eq!(parse(&v2(0x22, 0x11, &[0; 12])), error("PROXY2: bad command (2)"));
    assert_eq!(parse(&v2(0x20, 0x11, &[0; 1025])), Err(ProxyHeaderError::Overflow));
    assert_eq!(parse(&v2(0x21, 0x11, &[0; MAX_V2_PAYLOAD + 1])), Err(ProxyHeaderError::Overflow));
    assert_eq!(ProxyHeaderError::Overflow.close(), SessClose::RxOverflow);
}

/// The recorded headers are HAProxy 2.6's, with the client and destination that it knew; `recorded/record.py` makes
/// them anew.
#[test]
fn haproxys_headers_are_read() {
    let lines: Vec<Vec<&str>> = include_str!("recorded/haproxy.txt").lines().map(|l| l.split('\t').collect()).collect();
    for line in &lines {
        let [name, words, ends, hex] = line[..] else { panic!("{line:?}") };
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
        let bytes: Vec<u8> = (0..hex.len()).step_by(2).map(digit).collect();
        for end in 0..bytes.len() {
            assert_eq!(parse(&bytes[..end]), Ok(ProxyProgress::Incomplete), "{end} of {name}");
        }
        let read = header(&[&bytes[..], b"GET / HTTP/1.1\r\n"].concat());
        assert_eq!(read.consumed, bytes.len(), "{name}");
        let told = read.ends.map(|ProxyEnds { source, destination }| {
            format!("{} {} {} {}", source.ip(), source.port(), destination.ip(), destination.port())
        });
        match told.as_deref() {
            // HAProxy's own checks, and clients of UNIX sockets.
            None => assert!(name.ends_with("unix") || name.contains("v2-check"), "{name}"),
            Some(told) => assert!(ends == "-" || told == ends, "{name}: {told}"),
        }
        assert_eq!(read.ends.is_some(), read.log.as_deref().is_some_and(|log| !log.contains("local")), "{name}");
        let value = |kind| tlv(&read.tlvs, kind).map(|value| String::from_utf8_lossy(value).into_owned());
        let is_sent = |word: &str, how: bool| words.contains(word) && how && read.ends.is_some();
        let (is_tls, is_all) = (words.contains("v2-ssl") && !name.ends_with("plain"), name.contains("all"));
        for (kind, want, is_there) in [
            (0x02, "site.example", is_sent("authority", true)),
            (0x21, "TLSv1.3", is_sent("ssl", is_tls)),
            (0x22, "client.example", is_sent("ssl-cn", true)),
            (0x23, "TLS_AES_256_GCM_SHA384", is_sent("ssl-cipher", is_all)),
            (0x24, "RSA-SHA256", is_sent("cert-sig", is_all)),
            (0x25, "RSA2048", is_sent("cert-key", is_all)),
        ] {
            assert_eq!(value(kind).as_deref(), is_there.then_some(want), "{name}: {kind:#x}");
        }
        let id = value(0x05);
        assert_eq!(id.is_some_and(|id| id.starts_with("id-")), is_sent("unique-id", true), "{name}");
    }
    let count = |word| lines.iter().filter(|line| line[1].contains(word)).count();
    assert!(lines.len() >= 25 && count("crc32c") >= 5 && count("check-send-proxy") == 3, "{}", lines.len());
}

#[test]
fn a_damaged_header_is_refused_by_its_checksum() {
    let line = include_str!("recorded/haproxy.txt").lines().find(|line| line.starts_with("v2-all\t")).unwrap();
    let hex = line.rsplit('\t').next().unwrap();
    let good: Vec<u8> = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    let sum_at = good.windows(3).position(|tlv| tlv == [3, 0, 4]).unwrap();
    for at in (16..good.len()).filter(|at| *at != sum_at) {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert!(parse(&bad).is_err(), "{at}");
    }
}

fn any_ends() -> impl Strategy<Value = ProxyEnds> {
    let end = (any::<std::net::IpAddr>(), any::<u16>()).prop_map(|(ip, port)| SocketAddr::new(ip, port));
    (end.clone(), end).prop_map(|(source, destination)| ProxyEnds { source, destination })
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(ends in any_ends(), authority in "[a-z.]{0,20}") {
        let same = ends.same_family();
        let mut one = Vec::new();
        write_v1(&ends, &mut one);
        let mut two = Vec::new();
        write_v2(&ends, Some(&authority), &mut two);
        for (wire, is_v2) in [(one, false), (two, true)] {
            for end in 0..wire.len() {
                prop_assert_eq!(parse(&wire[..end]), Ok(ProxyProgress::Incomplete), "{} of {}", end, wire.len());
            }
            let Ok(ProxyProgress::Complete(header)) = parse(&wire) else { panic!("{wire:?}") };
            prop_assert_eq!(header.consumed, wire.len());
            prop_assert_eq!(header.ends, Some(same));
            let found = tlv(&header.tlvs, 2).unwrap_or_default();
            prop_assert_eq!(found, if is_v2 { authority.as_bytes() } else { b"" });
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), family: u8) {
        let _ = parse(&bytes);
        let _ = parse(&v2(0x21, family & 0x33, &bytes));
        let _ = parse(&[b"PROXY TCP4 ", &bytes[..]].concat());
        let _ = tlv(&bytes, family);
    }
}
