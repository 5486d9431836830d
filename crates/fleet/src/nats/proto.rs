// SPDX-License-Identifier: BSD-2-Clause
//! The client protocol of NATS as bytes: what a server says, read as it comes, and what is said to it. What is held of a message is bounded.

use crate::entry::LONGEST;

const LINE: usize = 64 << 10;
/// Bytes of a message that is held as a whole: a document, and all that a server says of a stream.
const MESSAGE: usize = 1 << 20;
/// Bytes of a longer one's payload that are kept: more than any entry of ours has.
const BEGINNING: usize = LONGEST + 1;
/// Bytes of the longest message: more than a server can be told to take.
const LONGEST_MESSAGE: usize = 1 << 30;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NatsLine {
    /// Description of the server as JSON.
    Info(Vec<u8>),
    Message(NatsMessage),
    Ping,
    Pong,
    Ok,
    /// Error in words that are fit to be shown.
    Error(String),
}

#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct NatsMessage {
    /// Subject of publication: an entry of the log has the log's, wherever it is delivered to.
    pub subject: String,
    pub sid: u64,
    pub reply: String,
    /// Status, where it has headers with one: `100`, `503`, ...
    pub status: Option<u16>,
    /// The lines of its headers, behind the first.
    pub headers: Vec<(String, String)>,
    pub payload: Vec<u8>,
}

impl NatsMessage {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| &value[..])
    }
}

const BAD: &str = "it doesn't respond like a NATS server";

/// The first message in `input`, and its length; `None`: there isn't enough of it yet. What is longer than is held may
/// have come in part.
///
/// # Errors
/// No server of NATS says that.
pub fn read(input: &[u8]) -> Result<Option<(NatsLine, usize)>, &'static str> {
    let window = &input[..input.len().min(LINE)];
    let Some(end) = window.windows(2).position(|pair| pair == b"\r\n") else {
        return if input.len() < LINE { Ok(None) } else { Err("it sends too long a line") };
    };
    let line = std::str::from_utf8(&input[..end]).map_err(|_| BAD)?;
    let used = end + 2;
    let (word, rest) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let said = match word.to_ascii_uppercase().as_str() {
        "INFO" => NatsLine::Info(rest.as_bytes().to_vec()),
        "PING" => NatsLine::Ping,
        "PONG" => NatsLine::Pong,
        "+OK" => NatsLine::Ok,
        "-ERR" => NatsLine::Error(base::text::printable(rest.trim().trim_matches('\''))),
        "MSG" => return message(input, rest, used, false),
        "HMSG" => return message(input, rest, used, true),
        _ => return Err(BAD),
    };
    Ok(Some((said, used)))
}

/// A message, of whose line `rest` is what follows its first word.
fn message(
    input: &[u8],
    rest: &str,
    used: usize,
    has_headers: bool,
) -> Result<Option<(NatsLine, usize)>, &'static str> {
    let mut words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let number = |word: Option<&str>| word.and_then(|word| word.parse::<usize>().ok()).ok_or(BAD);
    let total = number(words.pop())?;
    let head = if has_headers { number(words.pop())? } else { 0 };
    if total > LONGEST_MESSAGE || head > total.min(MESSAGE) {
        return Err("it sends too long a message");
    }
    let (subject, sid, reply) = match words[..] {
        [subject, sid] => (subject, sid, ""),
        [subject, sid, reply] => (subject, sid, reply),
        _ => return Err(BAD),
    };
    let sid = sid.parse().map_err(|_| BAD)?;
    let body = match total > MESSAGE {
        true => input.get(used..used + total.min(head + BEGINNING)),
        false => input.get(used..used + total + 2),
    };
    let Some(body) = body else { return Ok(None) };
    let body = if total > MESSAGE { body } else { body.strip_suffix(b"\r\n").ok_or(BAD)? };
    let (head, payload) = body.split_at(head);
    let (status, headers) = if has_headers { headers(head)? } else { (None, Vec::new()) };
    let (subject, reply, payload) = (subject.to_owned(), reply.to_owned(), payload.to_vec());
    Ok(Some((NatsLine::Message(NatsMessage { subject, sid, reply, status, headers, payload }), used + total + 2)))
}

type Headers = (Option<u16>, Vec<(String, String)>);

fn headers(head: &[u8]) -> Result<Headers, &'static str> {
    let text = String::from_utf8_lossy(head);
    let mut lines = text.split("\r\n");
    let first = lines.next().and_then(|line| line.strip_prefix("NATS/1.0")).ok_or(BAD)?;
    let status = first.split_ascii_whitespace().next().and_then(|word| word.parse().ok());
    let fields = lines.filter_map(|line| line.split_once(':'));
    Ok((status, fields.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()))
}

pub(crate) fn publish(out: &mut Vec<u8>, subject: &str, reply: &str, payload: &[u8]) {
    let gap = if reply.is_empty() { "" } else { " " };
    out.extend_from_slice(format!("PUB {subject}{gap}{reply} {}\r\n", payload.len()).as_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

pub(crate) fn publish_with(out: &mut Vec<u8>, subject: &str, reply: &str, lines: &[(&str, &str)], payload: &[u8]) {
    let lines: String = lines.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("NATS/1.0\r\n{lines}\r\n");
    let line = format!("HPUB {subject} {reply} {} {}\r\n", head.len(), head.len() + payload.len());
    [line.as_bytes(), head.as_bytes(), payload, b"\r\n"].iter().for_each(|part| out.extend_from_slice(part));
}

/// Position of an entry, by the reply subject of a message that a consumer delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    /// Number in the stream.
    pub seq: u64,
    /// Number in what this consumer delivered.
    pub nth: u64,
    /// When it was stored, in nanoseconds since 1970 by the server's clock.
    pub time: u64,
    pub pending: u64,
}

impl Delivery {
    /// `$JS.ACK.<stream>.<consumer>.<delivered>.<seq>.<nth>.<time>.<pending>`, or with domain and account behind `ACK` and a
    /// random word at the end.
    pub fn of(reply: &str) -> Option<Delivery> {
        let words: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let at = match words.len() {
            7 => 2,
            9.. => 4,
            _ => return None,
        };
        let number = |at: usize| words.get(at)?.parse().ok();
        Some(Delivery { seq: number(at + 1)?, nth: number(at + 2)?, time: number(at + 3)?, pending: number(at + 4)? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(bytes: &[u8], cut: usize) -> (Vec<NatsLine>, Result<(), &'static str>) {
        let (mut said, mut input, mut at) = (Vec::new(), Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            input.extend_from_slice(piece);
            loop {
                match read(input.get(at..).unwrap_or_default()) {
                    Ok(Some((one, used))) => {
                        said.push(one);
                        at += used;
                    }
                    Ok(None) => break,
                    Err(reason) => return (said, Err(reason)),
                }
            }
        }
        (said, Ok(()))
    }

    #[test]
    fn what_nats_says() {
        let bytes =
            b"INFO {\"a\":1}\r\nPING\r\npong\r\n+OK\r\n-ERR 'Authorization Violation'\r\nMSG a.b 1 5\r\nhe\r\no\r\n\
                      MSG a 1 r.1 0\r\n\r\nHMSG a 1 r 31 33\r\nNATS/1.0 100 Idle\r\nA-b:  c \r\n\r\nxy\r\n";
        let message = |subject: &str, reply: &str, payload: &[u8]| NatsMessage {
            subject: subject.to_owned(),
            sid: 1,
            reply: reply.to_owned(),
            payload: payload.to_vec(),
            ..NatsMessage::default()
        };
        let headers = vec![("A-b".to_owned(), "c".to_owned())];
        let wanted = vec![
            NatsLine::Info(b"{\"a\":1}".to_vec()),
            NatsLine::Ping,
            NatsLine::Pong,
            NatsLine::Ok,
            NatsLine::Error("Authorization Violation".to_owned()),
            NatsLine::Message(message("a.b", "", b"he\r\no")),
            NatsLine::Message(message("a", "r.1", b"")),
            NatsLine::Message(NatsMessage { status: Some(100), headers, ..message("a", "r", b"xy") }),
        ];
        for cut in [1, 3, 1000] {
            assert_eq!(all(bytes, cut), (wanted.clone(), Ok(())), "by {cut}");
        }
    }

    #[test]
    fn an_error_is_fit_to_be_shown() {
        let (said, _) = read(b"-ERR '\x1b[2J no'\r\n").unwrap().expect("it is whole");
        let NatsLine::Error(words) = said else { panic!("it is an error") };
        assert!(words.ends_with(" no") && !words.contains('\u{1b}'), "{words}");
    }

    #[test]
    fn what_no_server_says() {
        let long = "A".repeat(LINE + 1);
        for bytes in [
            "x\r\n",
            "MSG a\r\n",
            "MSG a 1 x\r\n",
            "MSG a 1 9999999999\r\n",
            "HMSG a 1 1048577 2000000\r\n",
            "MSG a 1 1\r\nabc",
            "HMSG a 1 5 1\r\n",
            "HMSG a 1 2 2\r\nab\r\n",
            &long,
        ] {
            assert!(all(bytes.as_bytes(), 7).1.is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn of_a_long_message_the_beginning_is_held() {
        let line = b"HMSG a 1 r 14 9000014\r\n";
        let mut input = [&line[..], b"NATS/1.0 100\r\n"].concat();
        assert_eq!(read(&input), Ok(None));
        input.resize(line.len() + 14 + BEGINNING, b'x');
        let (said, used) = read(&input).unwrap().expect("there is enough of it");
        let NatsLine::Message(message) = said else { panic!("it is a message") };
        assert_eq!((message.status, message.payload.len()), (Some(100), BEGINNING));
        assert_eq!(used, line.len() + 9_000_014 + 2);
    }

    #[test]
    fn where_an_entry_stands() {
        let plain = Delivery { seq: 20, nth: 3, time: 1_700_000_000, pending: 7 };
        assert_eq!(Delivery::of("$JS.ACK.S.c.1.20.3.1700000000.7"), Some(plain));
        assert_eq!(Delivery::of("$JS.ACK.dom.acc.S.c.1.20.3.1700000000.7.rand"), Some(plain));
        assert_eq!(Delivery::of("$JS.ACK.S.c.1.20"), None);
        assert_eq!(Delivery::of("a.b"), None);
    }

    proptest! {
        #[test]
        fn what_is_published_reads_as_a_message(subject in "[a-z.]{1,9}", payload: Vec<u8>, value in "[a-z]{1,9}") {
            let mut out = Vec::new();
            publish_with(&mut out, &subject, "r", &[("Nats-Msg-Id", &value)], &payload);
            let out = String::from_utf8_lossy(&out[..5 + subject.len()]).replacen("HPUB", "HMSG", 1).into_bytes()
                .into_iter().chain(b" 1".iter().copied()).chain(out[5 + subject.len()..].iter().copied()).collect::<Vec<_>>();
            let headers = vec![("Nats-Msg-Id".to_owned(), value)];
            let wanted = NatsMessage { subject, sid: 1, reply: "r".to_owned(), status: None, headers, payload };
            prop_assert_eq!(all(&out, 5), (vec![NatsLine::Message(wanted)], Ok(())));
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b' '), Just(b'1')], 0..60), cut in 1usize..10) {
            prop_assert_eq!(all(&bytes, cut), all(&bytes, 1));
        }
    }
}
