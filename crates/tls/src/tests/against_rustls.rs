// SPDX-License-Identifier: BSD-2-Clause
//! Our record layer against that of rustls: each understands what the other seals, however it is cut.

use std::io::{Read, Write};

use rustls::client::ClientConnection;
use rustls::pki_types::ServerName;

use super::*;

fn connected(version: &'static rustls::SupportedProtocolVersion) -> (ClientConnection, Traffic) {
    let world = TlsWorld::with_versions(&[version]);
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(crate::groups::provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(world.roots())
        .with_no_client_auth();
    let name = ServerName::try_from("a.example").unwrap();
    let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut server = world.both().0.unwrap();
    let mut received = Vec::new();
    loop {
        client.write_tls(&mut received).unwrap();
        let mut out = Vec::new();
        let progress = server.advance(&mut received, &mut out).unwrap();
        deliver(&mut client, &out);
        if progress == HandshakeProgress::Done && !client.wants_write() {
            return (client, server.finish().unwrap().0);
        }
    }
}

fn deliver(client: &mut ClientConnection, mut records: &[u8]) {
    while !records.is_empty() {
        client.read_tls(&mut records).unwrap();
        client.process_new_packets().unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn either_understands_the_other(
        texts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..3000), 1..12),
        is_old in any::<bool>(),
        updates in any::<u16>(),
    ) {
        let version = if is_old { &TLS12 } else { &TLS13 };
        let (mut client, mut server) = connected(version);
        for (turn, text) in texts.iter().enumerate() {
            if !is_old && updates >> turn & 1 == 1 {
                client.refresh_traffic_keys().unwrap();
            }
            client.writer().write_all(text).unwrap();
            let mut records = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut records).unwrap();
            }
            let (mut got, mut replies, mut rest) = (Vec::new(), Vec::new(), &mut records[..]);
            while let Some(length) = whole(rest).unwrap() {
                let (record, after) = rest.split_at_mut(length);
                if let OpenedRecord::Data(plain) = server.open(record, &mut replies).unwrap() {
                    got.extend_from_slice(plain);
                }
                rest = after;
            }
            prop_assert_eq!(&got, text);
            prop_assert_eq!(rest.len(), 0);

            for piece in text.chunks(MAX_PLAINTEXT) {
                server.seal(&mut replies, |plain| plain.extend_from_slice(piece)).unwrap();
            }
            deliver(&mut client, &replies);
            let mut back = vec![0; text.len()];
            client.reader().read_exact(&mut back).unwrap();
            prop_assert_eq!(&back, text);
        }
        let mut end = Vec::new();
        server.close(&mut end);
        deliver(&mut client, &end);
        prop_assert_eq!(client.reader().read(&mut [0; 1]).unwrap(), 0);
    }
}
