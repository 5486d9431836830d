// SPDX-License-Identifier: BSD-2-Clause
//! A panic in a fetch costs that fetch alone, and its exchange with the backend is logged to its end.

use std::io::{self, IoSlice};
use std::rc::Rc;
use std::sync::Mutex;

use net::network::Network;
use net::{Address, ConnectTarget, Socketless, Stream};
use tables::tags::Tag;
use testkit_engine::EngineModules;

use super::*;

const ONE_ORIGIN: &str = r#"vcl 4.1; backend origin { .host = "192.0.2.7"; }"#;

/// An origin that says what it has to say, one text a read, and at whose end we panic.
#[derive(Debug)]
struct PanicStream {
    panics_on_write: bool,
    says: Mutex<Vec<&'static str>>,
}

#[derive(Clone, Copy, Debug)]
struct PanicNetwork {
    panics_on_write: bool,
    says: &'static [&'static str],
}

impl Network for PanicNetwork {
    fn connect(&self, _: &ConnectTarget) -> io::Result<Stream> {
        let says = Mutex::new(self.says.iter().rev().copied().collect());
        Ok(Stream::Socketless(Box::new(PanicStream { panics_on_write: self.panics_on_write, says })))
    }

    fn pair(&self) -> (Stream, Stream) {
        unreachable!("only a backend in this process has a pair")
    }
}

impl Socketless for PanicStream {
    fn number(&self) -> u32 {
        7
    }

    fn local(&self) -> Address {
        Address::inet("192.0.2.1:5000".parse().unwrap())
    }

    fn peer(&self) -> Address {
        Address::inet("192.0.2.7:80".parse().unwrap())
    }

    fn poll_readable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_writable(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn try_read(&self, into: &mut [u8]) -> io::Result<usize> {
        let text = self.says.lock().unwrap().pop().expect("a panic while something is received");
        into[..text.len()].copy_from_slice(text.as_bytes());
        Ok(text.len())
    }

    fn try_write_vectored(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        assert!(!self.panics_on_write, "a panic while the request is sent");
        Ok(pieces.iter().map(|piece| piece.len()).sum())
    }

    fn peek(&self) -> io::Result<usize> {
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn shutdown_write(&self) {}

    fn reset_on_close(&self) {}
}

fn check(network: PanicNetwork) {
    let world = World::new(&[], false);
    let backends = testkit_engine::backends(&world.engine);
    let vcl = testkit_engine::load(&world.engine, &backends, EngineModules::NONE, "test", ONE_ORIGIN);
    world.engine.vcls.activate(Some(vcl));
    let former = net::network::install(Some(Rc::new(network)));
    let (main, log) = (world.engine.main, world.engine.log.clone());
    let records_of = |tag| log.records().0.into_iter().filter(move |record| record.tag == tag);
    rt::run(async {
        let client = world.connect();
        client.say("GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        while records_of(Tag::BereqAcct).next().is_none() {
            rt::yield_now().await;
        }
    })
    .unwrap();
    net::network::install(former);
    // The VCL has backends, which hold the engine.
    world.engine.vcls.activate(None);
    assert_eq!(main.req_panic.get(), 1);
    let closes: Vec<_> =
        records_of(Tag::BackendClose).map(|record| String::from_utf8(record.data.to_vec()).unwrap()).collect();
    assert_eq!(closes, ["7 origin close Received junk data"], "{network:?}");
}

#[test]
fn a_panic_in_an_exchange_leaves_the_record_of_its_end() {
    check(PanicNetwork { panics_on_write: true, says: &[] });
    check(PanicNetwork { panics_on_write: false, says: &[] });
    check(PanicNetwork { panics_on_write: false, says: &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"] });
    check(PanicNetwork { panics_on_write: false, says: &["HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab"] });
}
