// SPDX-License-Identifier: BSD-2-Clause
//! Tests of exchanges that a task answers. The test plays the fetch.

use std::time::Duration;

use super::*;

const LIMITS: RespLimits = RespLimits { head_bytes: 1024, line_bytes: 512, lenient: false };

fn run<F: Future<Output = ()>>(test: F) {
    rt::run(async {
        assert!(rt::timeout(Duration::from_secs(20), test).await.is_ok(), "the test hangs");
    })
    .unwrap();
}

struct Bed {
    exchange: Box<dyn Exchange>,
    beresp: Head,
}

impl Bed {
    fn new<F: Future<Output = Result<(), FailureText>> + 'static>(
        method: &str,
        len: BodyLen,
        serve: impl FnOnce(Responder) -> F + 'static,
    ) -> Self {
        let (mut exchange, mut responder) = exchange();
        rt::spawn(async move {
            if responder.begin().await {
                let _ = serve(responder).await;
            }
        });
        let mut bereq = Head::new();
        bereq.start_request(method.as_bytes(), b"/a b", b"HTTP/1.1").unwrap();
        exchange.send_head(&bereq, len, &LIMITS);
        Bed { exchange, beresp: Head::new() }
    }

    async fn send(&mut self, piece: &str) -> SendProgress {
        self.exchange.send_data(Buf::unaccounted(piece.as_bytes().to_vec()));
        poll_fn(|cx| self.exchange.poll_send(cx, &mut self.beresp)).await.unwrap()
    }

    async fn head(&mut self) -> String {
        let received = poll_fn(|cx| self.exchange.poll_head(cx, &mut self.beresp)).await;
        received.map_or_else(|error| format!("{error:?}"), |received| format!("{received:?}"))
    }

    async fn body(&mut self) -> String {
        let mut out = String::new();
        loop {
            match poll_fn(|cx| self.exchange.poll_data(cx)).await {
                Ok(Data::Piece) => out += &String::from_utf8_lossy(self.exchange.data()),
                Ok(Data::Part) => {}
                Ok(Data::End { close }) => return format!("{out}|{close:?}"),
                Err(error) => return format!("{out}|{error:?}"),
            }
        }
    }

    /// The response as HTTP/1 would have it, up to its body.
    fn wire(&self) -> String {
        let mut out = Vec::new();
        self.beresp.write_to(&mut out);
        String::from_utf8(out).unwrap()
    }
}

/// Responds with the request's target and body, or as the target says.
async fn echo(mut responder: Responder) -> Result<(), FailureText> {
    let target = responder.target.clone();
    responder.respond(200, b"", &[(b"X-A", b"b")], None);
    responder.send(&target).await?;
    while let Some(piece) = responder.next_piece().await? {
        responder.send(&piece).await?;
    }
    responder.finish().await
}

#[test]
fn an_answer_is_told_as_http1_would() {
    run(async {
        let mut bed = Bed::new("POST", BodyLen::Known(3), echo);
        assert_eq!(bed.send("xyz").await, SendProgress::All);
        bed.exchange.send_end(None);
        assert_eq!(bed.head().await, "Final { body: Chunked, close: Some(RespClose) }");
        let head = "HTTP/1.1 200 OK\r\nX-A: b\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
        assert_eq!((&*bed.wire(), &*bed.body().await), (head, "/a bxyz|None"));
        let acct = ExchangeAcct { bereq_head: 22, bereq_body: 3, beresp_head: head.len() as u64, beresp_body: 7 };
        assert_eq!(bed.exchange.acct(), acct);
        let mut bed = Bed::new("HEAD", BodyLen::None, echo);
        assert_eq!(bed.head().await, "Final { body: None, close: Some(RespClose) }");
        assert_eq!(bed.wire(), head.replace("Transfer-Encoding: chunked\r\n", ""));
    });
}

#[test]
fn each_side_waits_for_the_other() {
    run(async {
        let mut bed = Bed::new("POST", BodyLen::Unknown, echo);
        let long = "x".repeat(AHEAD);
        let (mut sent, mut is_full) = (0, false);
        while sent < 8 && !is_full {
            bed.exchange.send_data(Buf::unaccounted(long.clone().into_bytes()));
            sent += 1;
            // Lets the responding task run.
            for _ in 0..4 {
                rt::yield_now().await;
            }
            is_full = poll_fn(|cx| {
                let sent = bed.exchange.poll_send(cx, &mut bed.beresp);
                Poll::Ready(!matches!(sent, Poll::Ready(Ok(SendProgress::All))))
            })
            .await;
        }
        assert!(is_full && sent > 1, "what isn't read piles up: {sent}");
        bed.exchange.send_end(None);
        bed.head().await;
        assert_eq!(bed.body().await.len(), sent * AHEAD + "/a b|None".len());
        let framing = sent * ("10000\r\n\r\n".len()) + LAST_CHUNK.len();
        assert_eq!(bed.exchange.acct().bereq_body, (sent * AHEAD + framing) as u64);
    });
}

#[test]
fn a_refusal_ends_an_upload() {
    run(async {
        let mut bed = Bed::new("POST", BodyLen::Known(9), |responder| responder.refuse(405));
        let answered = poll_fn(|cx| bed.exchange.poll_answer(cx, &mut bed.beresp)).await;
        assert_eq!(
            (answered, bed.send("x").await),
            (SendProgress::Answered, SendProgress::All),
            "what nobody reads is taken"
        );
        assert_eq!(bed.head().await, "Final { body: None, close: Some(RespClose) }");
        assert_eq!(bed.beresp.status(), 405);
    });
}

#[test]
fn what_breaks_off_is_never_whole() {
    run(async {
        let mut bed = Bed::new("GET", BodyLen::None, |_| async { Err("before the head".to_owned()) });
        assert_eq!((&*bed.head().await, bed.exchange.has_begun()), ("Closed", false));
        for (len, wanted) in [(None, "chunked read err"), (Some(9), "straight insufficient bytes")] {
            let mut bed = Bed::new("GET", BodyLen::None, move |mut responder| async move {
                responder.respond(200, b"", &[], len);
                responder.send(b"abc").await?;
                responder.flush().await
            });
            bed.head().await;
            assert_eq!(bed.body().await, format!("abc|Broken(ConnectionTerminated, {wanted:?})"));
        }
        let mut bed = Bed::new("GET", BodyLen::None, move |mut responder| async move {
            responder.respond(200, b"", &[], Some(2));
            responder.send(b"abc").await?;
            responder.finish().await
        });
        bed.head().await;
        assert_eq!(bed.body().await, "ab|None", "no more than was announced");
    });
}

#[test]
fn the_answering_task_hears_that_the_fetch_is_gone() {
    run(async {
        let (mut fetch, mut responder) = exchange();
        let mut bereq = Head::new();
        bereq.start_request(b"POST", b"/", b"HTTP/1.1").unwrap();
        fetch.send_head(&bereq, BodyLen::Unknown, &LIMITS);
        assert!(responder.begin().await && responder.has_body);
        fetch.send_data(Buf::unaccounted(b"abc".to_vec()));
        fetch.reset(SessClose::RxBody);
        assert_eq!(responder.next_piece().await.unwrap().as_deref(), Some(&b"abc"[..]));
        assert_eq!(responder.next_piece().await.unwrap_err(), "bad request body: chunked read err");
        let given_up = responder.given_up();
        drop(fetch);
        given_up.await;
        responder.respond(200, b"", &[], None);
        assert_eq!(responder.flush().await.unwrap_err(), "the connection ended");
        let (fetch, mut responder) = exchange();
        drop(fetch);
        assert!(!responder.begin().await);
    });
}

#[test]
fn a_head_is_held_to_the_limits() {
    for (bytes, wanted) in [(400, "Final"), (600, "Garbage"), (1100, "Overflow")] {
        run(async move {
            let long = "x".repeat(bytes);
            let mut bed = Bed::new("GET", BodyLen::None, move |mut responder| async move {
                responder.respond(200, b"", &[(b"X", long.as_bytes())], Some(0));
                responder.finish().await
            });
            let head = bed.head().await;
            assert!(head.starts_with(wanted), "{bytes}: {head}");
        });
    }
}
