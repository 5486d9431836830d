// SPDX-License-Identifier: BSD-2-Clause
//! A connection whose records a kernel seals: what it is told besides data, in order.

use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use crate::ktls::{self, is_key_update};
use crate::testing::{TlsWorld, shake_hands};
use crate::{ErrorKind, KtlsAbility, KtlsKey, OpenedRecord, Traffic};

fn connected(version: &'static SupportedProtocolVersion, changes_keys: bool) -> (Traffic, Traffic, KtlsKey) {
    let (mut server, mut client) = TlsWorld::with_versions(&[version]).both();
    let (server, client) = shake_hands(&mut server, &mut client, usize::MAX, &mut Vec::new()).unwrap();
    let mut given = None;
    let give = |key| {
        given = Some(key);
        Some(KtlsAbility { changes_keys })
    };
    let (server, _) = server.finish_giving(Some(give)).unwrap();
    assert!(server.is_sealed_by_kernel());
    (server, client.finish().unwrap().0, given.unwrap())
}

/// The records that are for the kernel: type and text.
fn told(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let (kind, text) = ktls::record(bytes);
        all.push((kind, text.to_vec()));
        bytes = &bytes[ktls::RECORD_HEADER + text.len()..];
    }
    all
}

const UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

#[test]
fn the_end_is_a_record_for_the_kernel() {
    for version in [&TLS12, &TLS13] {
        let (mut server, _, _) = connected(version, false);
        let mut out = Vec::new();
        server.close(&mut out);
        server.close(&mut out);
        assert_eq!(told(&out), [(21, vec![1, 0])]);
        assert_eq!(server.prepare_data(&mut out).unwrap_err().kind(), ErrorKind::Closed);
    }
}

#[test]
fn who_asks_for_a_new_key_gets_it_behind_the_word_for_it() {
    let (mut server, mut client, first) = connected(&TLS13, true);
    let (mut records, mut replies) = (Vec::new(), Vec::new());
    client.request_new_keys(&mut records).unwrap();
    assert_eq!(server.open(&mut records, &mut replies).unwrap(), OpenedRecord::Nothing);
    server.close(&mut replies);
    let told = told(&replies);
    assert_eq!(told, [(22, UPDATE.to_vec()), (21, vec![1, 0])]);
    assert!(is_key_update(told[0].0) && !is_key_update(told[1].0));
    let next = server.take_kernel_key().unwrap();
    assert_ne!(next.bytes()[4..], first.bytes()[4..]);
    assert_eq!(next.bytes()[..4], first.bytes()[..4], "the same version and cipher");
    assert_eq!(next.bytes()[next.bytes().len() - 8..], [0; 8], "its records are counted anew");
    assert!(server.take_kernel_key().is_none());
}

#[test]
fn a_kernel_that_cannot_change_keys_ends_the_connection() {
    let (mut server, mut client, _) = connected(&TLS13, false);
    let (mut records, mut replies) = (Vec::new(), Vec::new());
    client.request_new_keys(&mut records).unwrap();
    assert_eq!(server.open(&mut records, &mut replies).unwrap_err().kind(), ErrorKind::Exhausted);
    assert_eq!(told(&replies), [(21, vec![2, 80])], "internal_error");
    assert!(server.take_kernel_key().is_none());
}

#[test]
fn a_key_of_the_peers_is_no_business_of_the_kernel() {
    let (mut server, mut client, _) = connected(&TLS13, false);
    let mut replies = Vec::new();
    let mut record = client.seal_as(crate::record::Content::Handshake, &UPDATE);
    assert_eq!(server.open(&mut record, &mut replies).unwrap(), OpenedRecord::Nothing);
    assert_eq!(replies, b"");
}

#[test]
fn a_key_that_is_used_up_is_changed_or_the_last_one() {
    for (version, changes_keys, is_changed) in [(&TLS13, true, true), (&TLS13, false, false), (&TLS12, false, false)] {
        let (mut server, _, _) = connected(version, changes_keys);
        let mut out = Vec::new();
        server.note_given(4 << 30);
        server.prepare_data(&mut out).unwrap();
        assert_eq!(out, b"");
        server.note_given(64 << 30);
        let prepared = server.prepare_data(&mut out).map_err(|error| error.kind());
        assert_eq!(prepared, if is_changed { Ok(()) } else { Err(ErrorKind::Exhausted) });
        assert_eq!((told(&out).len(), server.take_kernel_key().is_some()), (usize::from(is_changed), is_changed));
        assert_eq!(server.prepare_data(&mut out).is_ok(), is_changed, "once");
    }
}
