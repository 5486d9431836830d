// SPDX-License-Identifier: BSD-2-Clause
//! Tests of exchanges over a pair of streams. The test plays the origin.

use std::future::{Future, poll_fn};
use std::time::Duration;

use super::*;

const GET: &str = "GET / HTTP/1.1\r\nHost: h\r\n\r\n";
const LIMITS: RespLimits = RespLimits { head_bytes: 1024, line_bytes: 512, lenient: false };

fn run<F: Future<Output = ()>>(test: F) {
    rt::run(async {
        assert!(rt::timeout(Duration::from_secs(20), test).await.is_ok(), "the test hangs");
    })
    .unwrap();
}

struct Bed {
    exchange: Http1,
    beresp: Head,
    origin: Option<Stream>,
}

impl Bed {
    fn new() -> Self {
        let (ours, theirs) = Stream::pair().unwrap();
        Bed { exchange: Http1::new(ours, 0), beresp: Head::new(), origin: Some(theirs) }
    }

    async fn asked(method: &str) -> Self {
        let mut bed = Self::new();
        bed.exchange.send_head(&request(method), BodyLen::None, &LIMITS);
        assert_eq!(bed.send().await, "All");
        bed.origin_reads().await;
        bed
    }

    fn origin(&self) -> &Stream {
        self.origin.as_ref().expect("the origin has not closed yet")
    }

    async fn origin_says(&self, bytes: impl AsRef<[u8]>) {
        self.origin().write_all(bytes.as_ref(), None).await.unwrap();
    }

    async fn origin_reads(&self) -> String {
        let mut got = Vec::with_capacity(64 * 1024);
        self.origin().read_buf(&mut got, None).await.unwrap();
        String::from_utf8(got).unwrap()
    }

    async fn send(&mut self) -> String {
        let sent = poll_fn(|cx| self.exchange.poll_send(cx, &mut self.beresp)).await;
        sent.map_or_else(|error| format!("{error:?}"), |sent| format!("{sent:?}"))
    }

    async fn head(&mut self) -> String {
        let received = poll_fn(|cx| self.exchange.poll_head(cx, &mut self.beresp)).await;
        received.map_or_else(|error| format!("{error:?} {:?}", error.close()), |received| format!("{received:?}"))
    }

    async fn data(&mut self) -> String {
        match poll_fn(|cx| self.exchange.poll_data(cx)).await {
            Ok(Data::Piece) => format!("[{}]", String::from_utf8_lossy(self.exchange.data())),
            other => other.map_or_else(|error| format!("{error:?}"), |data| format!("{data:?}")),
        }
    }
}

fn request(method: &str) -> Head {
    let mut head = Head::new();
    head.start_request(method.as_bytes(), b"/", b"HTTP/1.1").unwrap();
    head.append("Host", "h").unwrap();
    head
}

fn buf(bytes: &str) -> Buf {
    Buf::unaccounted(bytes.as_bytes().to_vec())
}

/// The final head without a reason to close, with this body.
fn last(body: &str) -> String {
    format!("Final {{ body: {body}, close: None }}")
}

const WHOLE: &str = "End { close: None }";
const CLOSE: &str = "close";

/// Each time that the origin says something, one event must be heard of it. What it says is "" for nothing more, or CLOSE.
fn check(method: &'static str, talk: &[(&str, &str)]) {
    let talk: Vec<_> = talk.iter().map(|(said, heard)| (said.to_string(), heard.to_string())).collect();
    run(async move {
        let mut bed = Bed::asked(method).await;
        let mut is_final = false;
        for (said, wanted) in talk {
            if said == CLOSE {
                bed.origin = None;
            } else {
                bed.origin_says(&said).await;
            }
            let heard = if is_final { bed.data().await } else { bed.head().await };
            assert_eq!(heard, wanted, "after {said:?}");
            is_final |= heard.starts_with("Final");
        }
    });
}

#[test]
fn a_head_may_come_in_any_pieces() {
    let length = &last("Length(3)");
    check("GET", &[("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", length), ("", "[abc]"), ("", WHOLE)]);
    check(
        "GET",
        &[
            ("H", "Part"),
            ("TTP/1.1 2", "Part"),
            ("00 OK\r\nContent-Len", "Part"),
            ("gth: 3\r\n\r", "Part"),
            ("\na", length),
            ("", "[a]"),
            ("b", "[b]"),
            ("c", "[c]"),
            ("", WHOLE),
        ],
    );
}

#[test]
fn a_body_may_come_in_any_pieces() {
    let chunked = &last("Chunked");
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    check("GET", &[(&format!("{head}3\r\nabc\r\n0\r\n\r\n"), chunked), ("", "[abc]"), ("", WHOLE)]);
    let torn = [(head, &**chunked), ("1", "Part"), ("0", "Part"), ("\r", "Part"), ("\nab", "[ab]"), ("c", "[c]")];
    check("GET", &[&torn[..], &[(CLOSE, "Broken(ConnectionTerminated, \"chunked insufficient bytes\")")]].concat());
    let torn = [(head, &**chunked), ("3\r\nabc", "[abc]"), ("\r", "Part"), ("\n0\r\n", "Part")];
    check("GET", &[&torn[..], &[("\r\n", WHOLE)]].concat());
    check("GET", &[&torn[..], &[("X-A: b\r\n", "Part"), ("\r", "Part"), ("\n", WHOLE)]].concat());
    check("GET", &[&torn[..], &[("\r\nHTTP/1.1 200", "End { close: Some(RxJunk) }")]].concat());
    check("GET", &[&torn[..], &[(CLOSE, "Broken(ConnectionTerminated, \"chunked read err\")")]].concat());
    check("GET", &[(head, chunked), ("x", "Broken(HttpResponseTransferCoding, \"chunked header non-hex\")")]);
}

#[test]
fn what_ends_a_body() {
    let closing = "HTTP/1.0 200 OK\r\n\r\n";
    let eof = "Final { body: Eof, close: Some(RespClose) }";
    check("GET", &[(closing, eof), ("abc", "[abc]"), (CLOSE, WHOLE)]);
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
    check(
        "GET",
        &[
            (head, &last("Length(3)")),
            ("ab", "[ab]"),
            (CLOSE, "Broken(ConnectionTerminated, \"straight insufficient bytes\")"),
        ],
    );
    check("GET", &[(head, &last("Length(3)")), ("abcd", "[abc]"), ("", "End { close: Some(RxJunk) }")]);
    check("HEAD", &[(head, &last("None"))]);
    check("HEAD", &[(&format!("{head}abc"), "Final { body: None, close: Some(RxJunk) }")]);
    check("GET", &[("HTTP/1.1 304 \r\nContent-Length: 3\r\n\r\n", &last("None"))]);
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    check("GET", &[(close, "Final { body: None, close: Some(RespClose) }")]);
}

#[test]
fn heads_that_are_none() {
    for (said, wanted) in [
        ("junk here\r\n\r\n", "Garbage(HttpProtocolError, [106, 117, 110, 107]) RxJunk"),
        ("HTTP/1.1 101 Switching\r\n\r\n", "NotFinal RxJunk"),
        ("HTTP/1.1 204 \r\nContent-Length: 1\r\n\r\n", "Framing(BodyForbidden) RxBody"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "Garbage(HttpProtocolError, [80, 82, 73]) RxJunk"),
        (CLOSE, "Closed RxBad"),
    ] {
        check("GET", &[(said, wanted)]);
    }
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\n", "x".repeat(500));
    check("GET", &[(&long, "Part"), (&long, "Overflow RxOverflow")]);
    check("GET", &[("HTTP/1.1 2", "Part"), (CLOSE, "Closed RxBad")]);
}

#[test]
fn interim_responses_are_no_answer_and_bounded() {
    let early = "HTTP/1.1 103 Early Hints\r\n\r\n";
    let both = format!("{early}HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    check("GET", &[(early, "Interim"), (&both, "Interim"), ("", &last("None"))]);
    let flood = early.repeat(65);
    let mut talk = vec![(&*flood, "Interim")];
    talk.resize(64, ("", "Interim"));
    talk.push(("", "TooManyInterim RxJunk"));
    check("GET", &talk);
}

#[test]
fn what_is_sent() {
    for (len, wanted) in [(BodyLen::Known(6), "abcdef"), (BodyLen::Unknown, "3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n")] {
        run(async move {
            let mut bed = Bed::new();
            bed.exchange.send_head(&request("POST"), len, &LIMITS);
            assert_eq!(bed.send().await, "All");
            for piece in ["abc", "def"] {
                bed.exchange.send_data(buf(piece));
                assert_eq!(bed.send().await, "All");
            }
            bed.exchange.send_end(None);
            assert_eq!(bed.send().await, "All");
            assert_eq!(bed.origin_reads().await, format!("{}{wanted}", GET.replace("GET", "POST")));
            let (head, body) = (GET.len() as u64 + 1, wanted.len() as u64);
            assert_eq!(
                bed.exchange.acct(),
                ExchangeAcct { bereq_head: head, bereq_body: body, ..ExchangeAcct::default() }
            );
        });
    }
}

#[test]
fn trailers_are_sent_behind_a_body_of_unknown_length() {
    for (len, wanted) in [(BodyLen::Known(1), "a"), (BodyLen::Unknown, "1\r\na\r\n0\r\nX-Sum: 1\r\n\r\n")] {
        run(async move {
            let mut bed = Bed::new();
            bed.exchange.send_head(&request("POST"), len, &LIMITS);
            bed.send().await;
            bed.exchange.send_data(buf("a"));
            bed.send().await;
            let mut trailers = Head::new();
            trailers.append("X-Sum", "1").unwrap();
            bed.exchange.send_end(Some(&trailers));
            bed.send().await;
            assert_eq!(bed.origin_reads().await, format!("{}{wanted}", GET.replace("GET", "POST")));
        });
    }
}

#[test]
fn an_answer_ends_an_upload() {
    run(async {
        let mut bed = Bed::new();
        bed.exchange.send_head(&request("POST"), BodyLen::Unknown, &LIMITS);
        assert_eq!(bed.send().await, "All");
        // The head is larger than the origin's buffers, and the origin reads nothing.
        let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
        let answer = "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno";
        bed.exchange.send_data(buf(&"x".repeat(4 << 20)));
        assert_eq!(bed.send().await, "Part");
        bed.origin_says(interim).await;
        assert_eq!(bed.send().await, "Interim");
        bed.origin_says(answer).await;
        assert_eq!(bed.send().await, "Answered");
        assert_eq!(bed.head().await, last("Length(2)"));
        assert_eq!((bed.beresp.status(), bed.data().await), (413, "[no]".to_owned()));
        let acct = bed.exchange.acct();
        assert_eq!(acct.bereq_body, 4 * 1024 * 1024 + 10, "what can't be known is told as sent");
        assert_eq!(acct.beresp_head, (interim.len() + answer.len() - 2) as u64);
    });
}

#[test]
fn an_origin_that_answers_early_may_read_on() {
    for (early, wanted) in [
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "Begun"),
        ("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello", "Answered"),
        ("HTTP/1.0 200 OK\r\n\r\nhello", "Answered"),
        ("HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nhello", "Answered"),
    ] {
        run(async move {
            let mut bed = Bed::new();
            bed.exchange.overlap();
            bed.exchange.send_head(&request("POST"), BodyLen::Known(4 << 20), &LIMITS);
            assert_eq!(bed.send().await, "All");
            bed.exchange.send_data(buf(&"x".repeat(4 << 20)));
            assert_eq!(bed.send().await, "Part");
            bed.origin_says(early).await;
            assert_eq!(bed.send().await, wanted, "{early}");
            if wanted != "Begun" {
                return;
            }
            assert_eq!(bed.head().await, "Final { body: Chunked, close: Some(RxBody) }");
            assert_eq!(bed.data().await, "[hello]");
            let origin = bed.origin.take().expect("still there");
            rt::spawn(async move {
                let (mut came, head) = (Vec::with_capacity(5 << 20), GET.len() + 1);
                while came.len() < head + (4 << 20) {
                    origin.read_buf(&mut came, None).await.unwrap();
                }
                origin.write_all(b"0\r\n\r\n", None).await.unwrap();
            });
            loop {
                match &*bed.send().await {
                    "All" => break,
                    other => assert_eq!(other, "Part"),
                }
            }
            assert_eq!((bed.data().await, bed.data().await), ("Part".to_owned(), WHOLE.to_owned()));
        });
    }
}

#[test]
fn an_answer_is_heard_while_the_client_sends_nothing() {
    run(async {
        let mut bed = Bed::new();
        bed.exchange.send_head(&request("POST"), BodyLen::Known(9), &LIMITS);
        bed.send().await;
        bed.origin_says("HTTP/1.1 102 P\r\n\r\nHTTP/1.1 102 P\r\n\r\nHTTP/1.1 400 No\r\n").await;
        let mut heard = Vec::new();
        for wanted in [SendProgress::Interim, SendProgress::Interim, SendProgress::Answered] {
            if wanted == SendProgress::Answered {
                bed.origin_says("\r\n").await;
            }
            heard.push(poll_fn(|cx| bed.exchange.poll_answer(cx, &mut bed.beresp)).await == wanted);
        }
        assert_eq!(heard, [true; 3]);
        assert_eq!(bed.head().await, "Final { body: Eof, close: Some(RespClose) }");
    });
}

#[test]
fn an_origin_that_goes_is_an_error_of_writing_unless_it_said_why() {
    for said in ["", "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"] {
        run(async move {
            let mut bed = Bed::new();
            bed.origin_says(said).await;
            bed.origin = None;
            bed.exchange.stream().readable().await.unwrap();
            bed.exchange.send_head(&request("POST"), BodyLen::None, &LIMITS);
            let wanted = if said.is_empty() { "Closed" } else { "Answered" };
            assert_eq!(bed.send().await, wanted);
            assert_eq!(bed.exchange.acct().bereq_head, 0, "it never went out");
        });
    }
}

#[test]
fn who_waits_holds_no_buffer() {
    run(async {
        let mut bed = Bed::asked("GET").await;
        bed.origin_says("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc").await;
        bed.head().await;
        assert_eq!(bed.data().await, "[abc]");
        let waits = poll_fn(|cx| Poll::Ready(bed.exchange.poll_data(cx).is_pending())).await;
        assert!(waits && bed.exchange.input.capacity() == 0);
    });
}

#[test]
fn behind_101_bytes_go_both_ways_as_they_are() {
    run(async {
        let mut bed = Bed::new();
        assert!(bed.exchange.ask_tunnel());
        bed.exchange.send_head(&request("GET"), BodyLen::None, &LIMITS);
        assert_eq!(bed.send().await, "All");
        bed.origin_reads().await;
        bed.origin_says("HTTP/1.1 101 Switching Protocols\r\nContent-Length: 2\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").await;
        assert_eq!(bed.head().await, "Final { body: Eof, close: Some(TxPipe) }");
        // The bytes are no answer to the request.
        bed.exchange.send_data(buf("hello"));
        assert_eq!(bed.send().await, "All");
        assert_eq!(bed.origin_reads().await, "hello");
        assert_eq!(bed.data().await, "[HTTP/1.1 200 OK\r\n\r\n]");
        bed.exchange.send_end(None);
        assert_eq!(bed.send().await, "All");
        assert_eq!(bed.origin_reads().await, "");
        bed.origin_says("bye").await;
        assert_eq!(bed.data().await, "[bye]");
        bed.origin = None;
        assert_eq!(bed.data().await, WHOLE);
    });
}

#[test]
fn who_asked_for_no_tunnel_gets_none() {
    run(async {
        let mut bed = Bed::asked("GET").await;
        bed.origin_says("HTTP/1.1 101 Switching Protocols\r\n\r\n").await;
        assert_eq!(bed.head().await, "NotFinal RxJunk");
    });
}
