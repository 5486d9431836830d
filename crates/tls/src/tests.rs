// SPDX-License-Identifier: BSD-2-Clause
//! Facts about handshakes and what follows, both roles speaking with each other and with rustls' own record layer.

use std::sync::Arc;

use proptest::prelude::*;
use rustls::version::{TLS12, TLS13};

use crate::groups::groups;
use crate::hello::{ClientHello, Finder};
use crate::record::{Content, HEADER, MAX_PLAINTEXT, whole};
use crate::seal::SealKey;
use crate::settings::Overrides;
use crate::tickets::{TicketKey, Tickets};
use crate::{
    ErrorKind, Handshake, HandshakeInfo, HandshakeProgress, OpenedRecord, ServerOptions, TlsClient, TlsError,
    TlsServer, TlsVersion, Traffic,
};

mod against_rustls;
mod by_kernel;

use crate::testing::{TlsWorld, connect, handshake};

fn carry(from: &mut Traffic, to: &mut Traffic, text: &[u8]) {
    let mut sealed = Vec::new();
    from.seal(&mut sealed, |plain| plain.extend_from_slice(text)).unwrap();
    assert_eq!(read_all(to, sealed).unwrap(), text);
}

/// All plaintext of the records; nothing may be answered.
fn read_all(to: &mut Traffic, mut records: Vec<u8>) -> Result<Vec<u8>, TlsError> {
    let (mut text, mut replies, mut rest) = (Vec::new(), Vec::new(), &mut records[..]);
    while let Some(length) = whole(rest)? {
        let (record, after) = rest.split_at_mut(length);
        match to.open(record, &mut replies)? {
            OpenedRecord::Data(plain) => text.extend_from_slice(plain),
            OpenedRecord::Nothing => {}
            OpenedRecord::Closed => break,
        }
        rest = after;
    }
    assert_eq!(replies, b"");
    Ok(text)
}

/// The result of opening a record, and the bytes sent in reply.
fn opened(to: &mut Traffic, mut record: Vec<u8>) -> (Result<bool, ErrorKind>, Vec<u8>) {
    let mut replies = Vec::new();
    let opened =
        to.open(&mut record, &mut replies).map(|opened| opened == OpenedRecord::Closed).map_err(|error| error.kind());
    to.replies_are_sent();
    (opened, replies)
}

#[test]
fn both_sides_agree_and_understand_each_other_in_every_suite() {
    // The record layer doesn't know what key the certificate has.
    let suites = rustls::crypto::ring::ALL_CIPHER_SUITES;
    for suite in suites.iter().filter(|suite| !suite.suite().as_str().is_some_and(|name| name.contains("_RSA_"))) {
        let world = TlsWorld::with_suite(*suite);
        let ((mut server, of_server), (mut client, of_client)) = world.connect();
        assert_eq!(of_server.suite, u16::from(suite.suite()));
        assert_eq!((of_server.suite, of_server.version), (of_client.suite, of_client.version));
        assert!(!of_server.cipher().is_empty());
        assert_eq!(of_server.sni.as_deref(), Some("a.example"));
        assert_eq!(of_client.peer_leaf(), of_server.own_leaf());
        assert!(of_client.peer_leaf().is_some() && of_server.peer_leaf().is_none());
        for text in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[7; MAX_PLAINTEXT], b"x"] {
            carry(&mut client, &mut server, text);
            carry(&mut server, &mut client, text);
        }
    }
}

#[test]
fn the_best_group_of_both_is_agreed_on() {
    let all = "auto";
    let cases = [
        (all, all, "X25519MLKEM768"),
        ("X25519:P-256", all, "X25519"),
        (all, "X25519", "X25519"),
        ("P-384", all, "secp384r1"),
        (all, "P-256:X25519MLKEM768", "secp256r1"),
    ];
    for (of_server, of_client, agreed) in cases {
        let provider = |list: &str| {
            let overrides = Overrides { groups: groups(list).unwrap(), ..Overrides::default() };
            Arc::new(overrides.provider())
        };
        let mut world = TlsWorld::new();
        (world.server.provider, world.client.provider) = (provider(of_server), provider(of_client));
        let ((mut server, by_server), (mut client, by_client)) = world.connect();
        assert_eq!(
            (by_server.group_name(), by_client.group_name()),
            (Some(agreed), Some(agreed)),
            "{of_server} {of_client}"
        );
        assert_eq!(by_server.is_post_quantum(), agreed == "X25519MLKEM768");
        carry(&mut client, &mut server, b"GET / HTTP/1.1\r\n\r\n");
    }
    let old = TlsWorld::with_versions(&[&TLS12]);
    assert_ne!(old.connect().0.1.group_name(), Some("X25519MLKEM768"), "TLS 1.2 has no hybrids");
}

#[test]
fn a_handshake_may_come_byte_by_byte() {
    for version in [&TLS12, &TLS13] {
        let world = TlsWorld::with_versions(&[version]);
        let (mut server, mut client) = world.both();
        let ((mut server, _), (mut client, _)) = handshake(&mut server, &mut client, 1).unwrap();
        carry(&mut client, &mut server, b"hello");
        carry(&mut server, &mut client, b"hello");
    }
}

#[test]
fn what_comes_behind_the_handshake_is_left_for_the_connection() {
    let world = TlsWorld::with_versions(&[&TLS13]);
    let (server, client) = world.both();
    let (mut server, mut client) = (server.unwrap(), client.unwrap());
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    assert_eq!(client.advance(&mut Vec::new(), &mut to_server), Ok(HandshakeProgress::Waits));
    assert_eq!(server.advance(&mut to_server, &mut to_client), Ok(HandshakeProgress::Waits));
    assert_eq!(client.advance(&mut to_client, &mut to_server), Ok(HandshakeProgress::Done));
    let (mut client, _) = client.finish().unwrap();
    client.seal(&mut to_server, |plain| plain.extend_from_slice(b"early bird")).unwrap();
    assert_eq!(server.advance(&mut to_server, &mut to_client), Ok(HandshakeProgress::Done));
    let (mut server, _) = server.finish().unwrap();
    assert_eq!(read_all(&mut server, to_server).unwrap(), b"early bird");
}

#[test]
fn application_protocols_are_agreed_on_where_there_is_one_in_common() {
    let world = |theirs: &[&str], ours: &[&str]| {
        let mut world = TlsWorld::new();
        world.client.alpn = theirs.iter().map(|one| one.as_bytes().to_vec()).collect();
        world.server.alpn = ours.iter().map(|one| one.as_bytes().to_vec()).collect();
        let ((_, server), (_, client)) = world.connect();
        assert_eq!(server.alpn, client.alpn);
        server.alpn.map(|alpn| String::from_utf8(alpn.into()).unwrap())
    };
    assert_eq!(world(&["h2", "http/1.1"], &["http/1.1"]), Some("http/1.1".into()));
    assert_eq!(world(&["h2"], &["http/1.1"]), None);
    assert_eq!(world(&[], &["http/1.1"]), None);
    assert_eq!(world(&["http/1.1"], &[]), None);
}

#[test]
fn http2_is_refused_to_a_client_that_has_something_else_or_nothing() {
    let agreed = |theirs: &[&str], offers_http2: bool| {
        let mut world = TlsWorld::new();
        world.client.alpn = theirs.iter().map(|one| one.as_bytes().to_vec()).collect();
        world.server.alpn = ["h2", "http/1.1"].map(|one| one.as_bytes().to_vec()).into();
        let mut client = Handshake::client(&world.make_client(), "a.example").unwrap();
        let mut to_server = Vec::new();
        client.advance(&mut Vec::new(), &mut to_server).unwrap();
        let hello = Finder::default().find(&to_server).unwrap().unwrap().into_owned();
        let hello = ClientHello::parse(&hello).unwrap();
        let server = world.make_server();
        // Twice: the second one finds what the first one made.
        for _ in 0..2 {
            Handshake::answering(&server, &hello, offers_http2).unwrap();
        }
        server.config_for(&hello, offers_http2).alpn_protocols.clone()
    };
    let (both, old): (&[&[u8]], &[&[u8]]) = (&[b"h2", b"http/1.1"], &[b"http/1.1"]);
    assert_eq!(agreed(&["h2", "http/1.1"], true), both);
    assert_eq!(agreed(&["h2", "http/1.1"], false), old);
    assert_eq!(agreed(&["h2"], false), [b""; 0], "it goes on without, as one that offers what isn't known");
    assert_eq!(agreed(&["http/1.1"], false), both, "who doesn't offer it has the usual settings, and resumes by them");
    assert_eq!(agreed(&[], false), both);
}

#[test]
fn a_ticket_resumes_the_session() {
    for version in [&TLS12, &TLS13] {
        let mut world = TlsWorld::with_versions(&[version]);
        world.server.ticketer = Some(crate::testing::ticketer());
        let (server, client) = (world.make_server(), world.make_client());
        let mut resumed = Vec::new();
        for _ in 0..3 {
            let (mut one, mut other) = (Handshake::server(&server, None, []), Handshake::client(&client, "a.example"));
            let mut tickets = Vec::new();
            let ((_, of_server), (mut to, of_client)) =
                connect(&mut one, &mut other, usize::MAX, &mut tickets).unwrap();
            assert_eq!(read_all(&mut to, tickets).unwrap(), b"");
            assert_eq!(of_server.resumed, of_client.resumed);
            resumed.push(of_server.resumed);
        }
        assert_eq!(resumed, [false, true, true]);
    }
}

/// A connection of this client, whose hello the server has read: whether it was resumed, and how many bytes of tickets it got.
fn resumption(server: &Arc<TlsServer>, client: &Arc<TlsClient>) -> (bool, usize) {
    let mut client = Handshake::client(client, "a.example").unwrap();
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    client.advance(&mut Vec::new(), &mut to_server).unwrap();
    let hello = Finder::default().find(&to_server).unwrap().unwrap().into_owned();
    let mut server = Handshake::answering(server, &ClientHello::parse(&hello).unwrap(), true).unwrap();
    let (mut server_is, mut client_is, mut in_clear) = (HandshakeProgress::Waits, HandshakeProgress::Waits, 0);
    while server_is == HandshakeProgress::Waits || client_is == HandshakeProgress::Waits {
        if server_is == HandshakeProgress::Waits {
            server_is = server.advance(&mut to_server, &mut to_client).unwrap();
            in_clear += tickets_in_clear(&to_client);
        }
        if client_is == HandshakeProgress::Waits {
            client_is = client.advance(&mut to_client, &mut to_server).unwrap();
        }
    }
    let sealed = to_client.len();
    let (mut traffic, info) = client.finish().unwrap();
    assert_eq!(read_all(&mut traffic, to_client).unwrap(), b"");
    (info.resumed, in_clear + sealed)
}

fn tickets_in_clear(mut records: &[u8]) -> usize {
    let mut bytes = 0;
    while let Ok(Some(length)) = whole(records) {
        if let [22, _, _, _, _, 4, 0, high, low, ..] = records[..length] {
            bytes += usize::from(high) << 8 | usize::from(low);
        }
        records = &records[length..];
    }
    bytes
}

#[test]
fn a_session_keeps_its_ticket_until_a_new_key_is_there() {
    let keys: [TicketKey; 2] = std::array::from_fn(|_| TicketKey::random().unwrap());
    let tickets = Tickets::default();
    tickets.replace(&keys[1..]);
    let mut world = TlsWorld::with_versions(&[&TLS12]);
    world.server.ticketer = Some(tickets.bound_to(b""));
    let (server, client) = (world.make_server(), world.make_client());
    let (is_resumed, bytes) = resumption(&server, &client);
    assert!(!is_resumed && bytes > 50);
    for _ in 0..3 {
        assert_eq!(resumption(&server, &client), (true, 0));
    }
    tickets.replace(&keys);
    let (is_resumed, bytes) = resumption(&server, &client);
    assert!(is_resumed && bytes > 50);
    assert_eq!(resumption(&server, &client), (true, 0));
    // A key that isn't there any more: a new session, and after it the client has no ticket to show.
    tickets.replace(&[TicketKey::random().unwrap()]);
    assert!(!resumption(&server, &client).0);
    assert_eq!(resumption(&server, &client), (true, 0));
}

#[test]
fn a_session_of_tls_13_gets_one_ticket_for_the_one_it_used() {
    let mut world = TlsWorld::with_versions(&[&TLS13]);
    world.server.ticketer = Some(crate::testing::ticketer());
    let (server, client) = (world.make_server(), world.make_client());
    let (is_resumed, two) = resumption(&server, &client);
    assert!(!is_resumed && two > 100);
    for _ in 0..4 {
        let (is_resumed, one) = resumption(&server, &client);
        assert!(is_resumed && one > 50 && one < two * 2 / 3, "{one} of {two} bytes");
    }
}

#[test]
fn a_clients_message_has_a_bound() {
    let (server, _) = TlsWorld::new().both();
    let mut server = server.unwrap();
    // A hello of 64 KB in records of 1 KB.
    let mut records = Vec::new();
    for n in 0..64 {
        records.extend_from_slice(&[22, 3, 1, 4, 0]);
        records.extend_from_slice(&[
            if n == 0 { 1 } else { 0 },
            if n == 0 { 0 } else { 3 },
            if n == 0 { 0xf0 } else { 3 },
        ]);
        records.resize(records.len() + 1021, 0);
    }
    let length = records.len();
    assert_eq!(server.advance(&mut records, &mut Vec::new()).unwrap_err().kind(), ErrorKind::Limit);
    assert!(length - records.len() <= 24 * 1024, "{} bytes were taken", length - records.len());
}

#[test]
fn a_client_and_a_server_of_different_versions_say_so() {
    let mut world = TlsWorld::with_versions(&[&TLS12]);
    world.client.versions = vec![&TLS13];
    let (mut server, mut client) = world.both();
    let (of_server, of_client) = handshake(&mut server, &mut client, usize::MAX).unwrap_err();
    assert_eq!(of_server.unwrap().kind(), ErrorKind::Version);
    // protocol_version
    assert_eq!(of_client.unwrap().kind(), ErrorKind::Alert(70));
}

#[test]
fn an_unknown_issuer_is_refused() {
    let (mut server, _) = TlsWorld::new().both();
    let mut client = TlsWorld::new().both().1;
    let (of_server, of_client) = handshake(&mut server, &mut client, usize::MAX).unwrap_err();
    assert_eq!(of_client.unwrap().kind(), ErrorKind::Certificate);
    // unknown_ca
    assert_eq!(of_server.unwrap().kind(), ErrorKind::Alert(48));
}

#[test]
fn what_is_no_tls_is_told_so() {
    let (server, _) = TlsWorld::new().both();
    let mut out = Vec::new();
    let error = server.unwrap().advance(&mut b"GET / HTTP/1.1\r\n\r\n".to_vec(), &mut out).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotTls);
    assert_eq!(out, [21, 3, 3, 0, 2, 2, 10]);
}

#[test]
fn a_message_that_takes_no_end_is_refused() {
    let (server, _) = TlsWorld::new().both();
    let (mut server, mut out, mut error) = (server.unwrap(), Vec::new(), None);
    // A ClientHello that announces 60,000 bytes and comes a byte at a time.
    let mut record = vec![22, 3, 1, 0, 4, 1, 0, 0xea, 0x60];
    for _ in 0..60_000 {
        match server.advance(&mut record, &mut out) {
            Ok(progress) => assert_eq!(progress, HandshakeProgress::Waits),
            Err(failed) => {
                error = Some(failed.kind());
                break;
            }
        }
        record = vec![22, 3, 1, 0, 1, 0];
    }
    assert_eq!(error, Some(ErrorKind::Limit));
}

#[test]
fn a_record_that_was_changed_is_refused_and_the_peer_told() {
    for version in [&TLS12, &TLS13] {
        let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[version]).connect();
        let mut record = client.seal_as(Content::Data, b"hello");
        *record.last_mut().unwrap() ^= 1;
        let (result, alert) = opened(&mut server, record);
        assert_eq!(result, Err(ErrorKind::Decrypt));
        // bad_record_mac
        assert_eq!(opened(&mut client, alert).0, Err(ErrorKind::Alert(20)));
        // Nothing follows an alert.
        assert_eq!(server.seal(&mut Vec::new(), |_| ()).unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn a_record_can_neither_be_repeated_nor_left_out() {
    let ((mut server, _), (mut client, _)) = TlsWorld::new().connect();
    let first = client.seal_as(Content::Data, b"1");
    assert_eq!(opened(&mut server, first.clone()).0, Ok(false));
    assert_eq!(opened(&mut server, first).0, Err(ErrorKind::Decrypt));
    let ((mut server, _), (mut client, _)) = TlsWorld::new().connect();
    let _lost = client.seal_as(Content::Data, b"1");
    let second = client.seal_as(Content::Data, b"2");
    assert_eq!(opened(&mut server, second).0, Err(ErrorKind::Decrypt));
}

#[test]
fn either_side_says_when_it_is_done() {
    let ((mut server, _), (mut client, _)) = TlsWorld::new().connect();
    let mut out = Vec::new();
    client.close(&mut out);
    let once = out.len();
    client.close(&mut out);
    assert_eq!(out.len(), once, "it is said once");
    assert_eq!(opened(&mut server, out), (Ok(true), Vec::new()));
    assert!(server.peer_closed() && !server.we_closed());
    // The other direction goes on.
    carry(&mut server, &mut client, b"the rest of an answer");
}

#[test]
fn keys_change_when_the_peer_asks_for_it() {
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    for from_client in [true, false, true] {
        let (asks, answers) = if from_client { (&mut client, &mut server) } else { (&mut server, &mut client) };
        let mut request = Vec::new();
        asks.request_key_update(&mut request);
        let (result, reply) = opened(answers, request);
        assert_eq!(result, Ok(false));
        assert_eq!(opened(asks, reply), (Ok(false), Vec::new()));
        carry(&mut server, &mut client, b"under the next key");
        carry(&mut client, &mut server, b"and back");
    }
}

#[test]
fn keys_change_before_they_are_used_up() {
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    let used = SealKey::LIMIT - 10;
    server.age(used);
    client.age(used);
    for _ in 0..30 {
        let mut sealed = Vec::new();
        server.seal(&mut sealed, |plain| plain.push(b'x')).unwrap();
        assert_eq!(read_all(&mut client, sealed).unwrap(), b"x");
    }
}

#[test]
fn without_new_keys_the_connection_ends() {
    let ((mut server, _), (_, _)) = TlsWorld::with_versions(&[&TLS12]).connect();
    server.age(SealKey::LIMIT_OLD);
    assert_eq!(server.seal(&mut Vec::new(), |_| ()).unwrap_err().kind(), ErrorKind::Exhausted);
}

#[test]
fn a_key_update_may_come_in_pieces_and_nothing_else_within() {
    let update = [24, 0, 0, 1, 0];
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    for piece in update.chunks(2) {
        let record = client.seal_as(Content::Handshake, piece);
        assert_eq!(opened(&mut server, record), (Ok(false), Vec::new()));
    }
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    let record = client.seal_as(Content::Handshake, &update[..2]);
    assert_eq!(opened(&mut server, record).0, Ok(false));
    let record = client.seal_as(Content::Data, b"within");
    assert_eq!(opened(&mut server, record).0, Err(ErrorKind::Protocol));
}

#[test]
fn messages_that_have_no_place_after_the_handshake_end_it() {
    // What comes, and the alert that it ends with.
    let cases: [(Content, &[u8], u8); 9] = [
        (Content::Handshake, &[24, 0, 0, 1, 2], 47),
        (Content::Handshake, &[24, 0, 0, 2, 0, 0], 50),
        (Content::Handshake, &[24, 0, 0, 1, 0, 24], 10),
        (Content::Handshake, &[4, 0, 0, 1, 0], 10),
        (Content::Handshake, &[1, 0, 0, 1, 0], 10),
        (Content::Handshake, &[], 10),
        (Content::Handshake, &[24, 1, 0, 0], 50),
        (Content::Alert, &[1], 50),
        (Content::ChangeCipherSpec, &[1], 10),
    ];
    for (content, plain, alert) in cases {
        let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
        let record = client.seal_as(content, plain);
        let (result, reply) = opened(&mut server, record);
        assert!(result.is_err(), "{content:?} {plain:?}");
        assert_eq!(opened(&mut client, reply).0, Err(ErrorKind::Alert(alert)), "{content:?} {plain:?}");
    }
}

#[test]
fn records_in_clear_are_nobodys_after_the_handshake() {
    let ((mut server, _), _) = TlsWorld::with_versions(&[&TLS13]).connect();
    assert_eq!(opened(&mut server, vec![21, 3, 3, 0, 2, 1, 0]).0, Err(ErrorKind::Protocol));
}

#[test]
fn negotiating_again_is_declined_once() {
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS12]).connect();
    let hello = [&[1, 0, 0, 100][..], &[0; 100]].concat();
    let record = client.seal_as(Content::Handshake, &hello);
    let (result, warning) = opened(&mut server, record);
    assert_eq!(result, Ok(false));
    assert_eq!(opened(&mut client, warning), (Ok(false), Vec::new()));
    carry(&mut client, &mut server, b"it goes on");
    let record = client.seal_as(Content::Handshake, &hello);
    assert_eq!(opened(&mut server, record).0, Err(ErrorKind::Protocol));
}

#[test]
fn a_record_that_is_too_long_is_told_so() {
    for (version, most) in [(&TLS12, 2048), (&TLS13, 256)] {
        for (more, expected) in [(0, ErrorKind::Decrypt), (1, ErrorKind::Limit)] {
            let ((mut server, _), _) = TlsWorld::with_versions(&[version]).connect();
            let length = MAX_PLAINTEXT + most + more;
            let [high, low] = (length as u16).to_be_bytes();
            let mut record = vec![23, 3, 3, high, low];
            record.resize(HEADER + length, b'x');
            let error = match whole(&record) {
                Ok(_) => server.open(&mut record, &mut Vec::new()).unwrap_err(),
                Err(error) => error,
            };
            assert_eq!(error.kind(), expected, "{version:?} {more}");
            // record_overflow
            assert!(expected == ErrorKind::Decrypt || error.alert() == Some(22));
        }
    }
}

#[test]
fn what_brings_nothing_is_bounded() {
    let flood = |version, content, plain: &[u8]| {
        let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[version]).connect();
        (0..100).position(|_| {
            let record = client.seal_as(content, plain);
            opened(&mut server, record).0.is_err()
        })
    };
    assert_eq!(flood(&TLS13, Content::Data, b""), Some(32));
    assert_eq!(flood(&TLS12, Content::Data, b""), Some(32));
    // no_renegotiation, as a warning.
    assert_eq!(flood(&TLS12, Content::Alert, &[1, 100]), Some(4));
    // user_canceled
    assert_eq!(flood(&TLS13, Content::Alert, &[1, 90]), Some(4));
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    let updates = (0..100).position(|_| {
        let mut record = Vec::new();
        client.request_key_update(&mut record);
        opened(&mut server, record).0.is_err()
    });
    assert_eq!(updates, Some(32));
}

#[test]
fn a_byte_in_between_is_no_reason_for_new_keys() {
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    let (mut replies, mut ended) = (Vec::new(), None);
    for turn in 0..1000 {
        let (mut update, mut data) = (Vec::new(), Vec::new());
        client.request_key_update(&mut update);
        if server.open(&mut update, &mut replies).is_err() {
            ended = Some(turn);
            break;
        }
        client.seal(&mut data, |plain| plain.push(b'x')).unwrap();
        server.open(&mut data, &mut replies).unwrap();
    }
    assert_eq!(ended, Some(32));
    // One answer and the alert: nobody has said that it was sent.
    assert!(replies.len() < 100, "{}", replies.len());
}

#[test]
fn one_answer_serves_all_who_ask_for_new_keys() {
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    let mut answers = Vec::new();
    for is_sent in [false, false, true, false] {
        let mut update = Vec::new();
        client.request_key_update(&mut update);
        server.open(&mut update, &mut answers).unwrap();
        if is_sent {
            server.replies_are_sent();
        }
    }
    assert_eq!(read_all(&mut client, answers).unwrap(), b"");
    carry(&mut server, &mut client, b"under the key after the next");
    carry(&mut client, &mut server, b"and back");
}

#[test]
fn tickets_and_pieces_of_messages_are_bounded() {
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    // A ticket, of which one byte comes in each record.
    let pieces = (0..1000).position(|at| {
        let piece = [&[4, 0, 0x10, 0][..], &[0; 1000]].concat()[at];
        let record = server.seal_as(Content::Handshake, &[piece]);
        opened(&mut client, record).0.is_err()
    });
    assert_eq!(pieces, Some(64));
    let ((mut server, _), (mut client, _)) = TlsWorld::with_versions(&[&TLS13]).connect();
    // Lifetime, age, nonce, ticket, extensions.
    let ticket = [4, 0, 0, 15, 0, 0, 0, 9, 1, 2, 3, 4, 1, 7, 0, 1, 8, 0, 0];
    let tickets = (0..100).position(|_| {
        let record = server.seal_as(Content::Handshake, &ticket);
        opened(&mut client, record).0.is_err()
    });
    assert_eq!(tickets, Some(16));
}

#[test]
fn an_alert_is_told_in_words() {
    let error = TlsError::from(rustls::Error::AlertReceived(rustls::AlertDescription::UnknownCA));
    assert_eq!((error.kind(), error.alert()), (ErrorKind::Alert(48), None));
    assert!(error.to_string().contains("UnknownCA"), "{error}");
}

#[test]
fn what_is_said_of_a_connection_has_no_key() {
    let ((server, info), _) = TlsWorld::new().connect();
    let text = format!("{server:?} {info:?}");
    assert!(text.contains("of a server") && !text.contains("aead") && text.len() < 2200, "{text}");
    assert!(matches!(info, HandshakeInfo { version: TlsVersion::Tls13, .. }));
}

#[test]
fn a_server_without_tickets_resumes_nothing() {
    assert!(ServerOptions::default().ticketer.is_none());
    let ((_, info), _) = TlsWorld::new().connect();
    assert!(!info.resumed);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn bytes_that_nobody_sealed_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..600), version in 0..2) {
        let version = if version == 0 { &TLS12 } else { &TLS13 };
        let ((mut server, _), _) = TlsWorld::with_versions(&[version]).connect();
        // Whatever is in it, it looks like a record.
        let length = bytes.len().saturating_sub(HEADER) as u16;
        for (byte, header) in bytes.iter_mut().zip([23, 3, 3, length.to_be_bytes()[0], length.to_be_bytes()[1]]) {
            *byte = header;
        }
        if let Ok(Some(length)) = whole(&bytes) {
            let _ = server.open(&mut bytes[..length], &mut Vec::new());
        }
        let _ = server.open(&mut bytes, &mut Vec::new());
        let (handshake, _) = TlsWorld::new().both();
        let _ = handshake.unwrap().advance(&mut bytes, &mut Vec::new());
    }

    #[test]
    fn a_hello_with_a_byte_changed_never_panics(at in 0..1000_usize, byte in any::<u8>(), cut in 1..700_usize) {
        let (server, client) = TlsWorld::new().both();
        let mut hello = Vec::new();
        client.unwrap().advance(&mut Vec::new(), &mut hello).unwrap();
        let at = at % hello.len();
        hello[at] = byte;
        let again = hello.clone();
        hello.truncate(hello.len().min(HEADER.max(cut)));
        hello.extend_from_slice(&again);
        let _ = server.unwrap().advance(&mut hello, &mut Vec::new());
    }
}

#[test]
fn what_follows_a_hello_too_early_is_answered_with_an_alert() {
    let sealed_by_nobody = [&[23, 3, 3, 0, 40][..], &[b'x'; 40]].concat();
    for version in [&TLS12, &TLS13] {
        let (_, client) = TlsWorld::with_versions(&[version]).both();
        let mut hello = Vec::new();
        client.unwrap().advance(&mut Vec::new(), &mut hello).unwrap();
        for second in [&hello, &sealed_by_nobody] {
            let (server, _) = TlsWorld::with_versions(&[version]).both();
            let (mut received, mut out) = ([&hello[..], second].concat(), Vec::new());
            assert!(server.unwrap().advance(&mut received, &mut out).is_err());
            let mut rest = &out[..];
            while let Some(length) = whole(rest).unwrap().filter(|length| *length < rest.len()) {
                rest = &rest[length..];
            }
            // In clear, or sealed with its type behind it.
            assert!(rest.len() == 7 || rest.len() == HEADER + 2 + 1 + 16, "no alert at the end: {} bytes", rest.len());
        }
    }
}
