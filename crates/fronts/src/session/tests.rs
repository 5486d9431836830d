// SPDX-License-Identifier: BSD-2-Clause
//! Facts about sessions: a whole one in this process, its client on a stream in memory.

use tables::counters::Main;

use super::*;

mod fleet;
mod journal;
mod panics;
mod quic;
mod sealed;
mod world;

use world::{Client, World};

#[test]
fn an_idle_connection_is_a_small_task() {
    fn output_bytes<A, B, C, F>(_: impl Fn(A, B, C) -> F) -> usize {
        size_of::<F>()
    }
    let bytes = output_bytes(serve);
    assert!(bytes <= 448, "{bytes} bytes");
    let bytes = size_of::<Sess>();
    assert!(bytes <= 384, "{bytes} bytes");
}

fn session<F: Future>(world: World, run: impl FnOnce(Client) -> F) -> &'static Main {
    let main = world.engine.main;
    rt::run(async {
        run(world.connect()).await;
        // The session's end is its task's: it runs when this one waits.
        while main.sess_closed.get() == 0 {
            rt::yield_now().await;
        }
    })
    .unwrap();
    assert_eq!((main.s_sess.get(), main.sess_closed.get()), (1, 1));
    main
}

#[test]
fn requests_are_answered_in_order_however_they_are_torn() {
    let main = session(World::new(&[], false), |mut client| async move {
        client.end.set_step(1);
        let requests = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n";
        for byte in requests.chars() {
            client.say(&byte.to_string());
            rt::yield_now().await;
        }
        assert_eq!(client.response().await, (200, "/1 192.0.2.9 HTTP/1".to_owned()));
        assert_eq!(client.response().await, (200, "/2 192.0.2.9 HTTP/1".to_owned()));
        client.end.shutdown_write();
        assert!(client.is_closed().await);
    });
    assert_eq!(main.sc_rem_close.get(), 1);
}

#[test]
fn a_head_that_is_too_large_may_get_a_response() {
    let settings = |status| [("http_req_size", "256"), ("http_req_overflow_status", status)];
    let request = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(300));
    let main = session(World::new(&settings("431"), false), |mut client| async move {
        client.say(&request);
        assert_eq!(client.response().await, (431, String::new()));
        client.end.shutdown_write();
        assert!(client.is_closed().await);
    });
    assert_eq!(main.sc_rx_overflow.get(), 1);
    let main = session(World::new(&settings("0"), false), |mut client| async move {
        client.say("GET / HTTP/1.1\r\nHost: ");
        client.say(&"a".repeat(300));
        assert!(client.is_closed().await);
    });
    assert_eq!(main.sc_rx_overflow.get(), 1);
}

#[test]
fn the_target_is_logged_as_it_came_if_the_mask_asks_for_it() {
    for (mask, want) in [("+ReqTarget", vec!["http://b/1"]), ("all,-ReqTarget", vec![]), ("default", vec![])] {
        let world = World::new(&[("vsl_mask", mask)], false);
        let engine = world.engine.clone();
        session(world, |mut client| async move {
            client.say("GET http://b/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
            assert_eq!(client.response().await.1, "/1 192.0.2.9 HTTP/1");
            assert!(client.is_closed().await);
        });
        let records = engine.log.records().0;
        let targets = records.iter().filter(|record| record.tag == tables::tags::Tag::ReqTarget);
        let targets: Vec<String> = targets.map(|record| String::from_utf8_lossy(&record.data).into_owned()).collect();
        assert_eq!(targets, want, "{mask}");
    }
}

#[test]
fn a_body_that_nobody_wants_is_read_before_the_next_request() {
    let main = session(World::new(&[], false), |mut client| async move {
        client.say("POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab");
        rt::yield_now().await;
        client.say("c\r\n0\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        assert_eq!(client.response().await.1, "/1 192.0.2.9 HTTP/1");
        assert_eq!(client.response().await.1, "/2 192.0.2.9 HTTP/1");
        assert!(client.is_closed().await);
    });
    assert_eq!(main.sc_req_close.get(), 1);
}

#[test]
fn what_is_no_request_is_refused_and_ends_the_session() {
    let main = session(World::new(&[], false), |mut client| async move {
        client.say("GET /1 HTTP/1.1\r\nHost : a\r\n\r\n");
        assert_eq!(client.response().await.0, 400);
        client.end.shutdown_write();
        assert!(client.is_closed().await);
    });
    assert_eq!((main.client_req_400.get(), main.sess_closed_err.get()), (1, 1));
}

#[test]
fn who_doesnt_read_is_waited_for() {
    session(World::new(&[], false), |mut client| async move {
        client.end.set_window(0);
        client.say("GET /1 HTTP/1.0\r\n\r\n");
        for _ in 0..20 {
            rt::yield_now().await;
        }
        assert_eq!(client.end.unread(), 0);
        client.end.set_window(7);
        assert_eq!(client.response().await.1, "/1 192.0.2.9 HTTP/1");
        assert!(client.is_closed().await);
    });
}

#[test]
fn a_client_that_resets_ends_its_session_alone() {
    let main = session(World::new(&[], false), |client| async move {
        client.end.set_window(0);
        client.say("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
        rt::yield_now().await;
        client.end.reset();
    });
    assert_eq!(main.req_panic.get(), 0);
}

#[test]
fn who_stays_idle_too_long_is_closed() {
    let main = session(World::new(&[("timeout_idle", "0.02")], false), |mut client| async move {
        assert!(client.is_closed().await);
    });
    assert_eq!(main.sc_rx_close_idle.get(), 1);
}

#[test]
fn without_time_to_be_idle_what_is_at_hand_is_answered() {
    let main = session(World::new(&[], false), |mut client| async move {
        client.say("GET /hurry HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.response().await, (200, "/hurry 192.0.2.9 HTTP/1".to_owned()));
        assert_eq!(client.response().await, (200, "/2 192.0.2.9 HTTP/1".to_owned()));
        assert!(client.is_closed().await);
    });
    assert_eq!(main.sc_rx_close_idle.get(), 1);
}

#[test]
fn a_proxy_header_says_who_the_client_is() {
    session(World::new(&[], true), |mut client| async move {
        client.say("PROXY TCP4 198.51.100.7 192.0.2.1 1000 80\r\nGET /1 HTTP/1.0\r\n\r\n");
        assert_eq!(client.response().await.1, "/1 198.51.100.7 HTTP/1");
        assert!(client.is_closed().await);
    });
}
