// SPDX-License-Identifier: BSD-2-Clause
//! The Redis serialization protocol, versions 2 and 3: commands written, replies read as their bytes come. What a reply may hold is
//! bounded.

pub const MAX_BYTES: usize = 8 * 1024 * 1024;
const MAX_VALUES: usize = 100_000;
/// Depth of arrays within arrays.
const DEEPEST: usize = 16;
/// Bytes of a line.
const LINE: usize = 64 * 1024;
/// Bytes of the longest text that is cut: twice what a server takes unless it is told otherwise.
const MAX_CUT: usize = 1 << 30;

#[derive(Clone, Debug, PartialEq)]
pub enum RedisReply {
    Nil,
    /// The server's words for what is wrong.
    Error(Vec<u8>),
    /// `OK` and its like.
    Status(Vec<u8>),
    Integer(i64),
    /// A truth value, of version 3.
    Boolean(bool),
    /// A number of version 3, and the text as it was written.
    Double(f64, Vec<u8>),
    Text(Vec<u8>),
    /// An array, a set, or keys and values in turn.
    Array(Vec<RedisReply>),
}

pub fn command(args: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[derive(Debug, Default)]
pub struct ReplyReader {
    open: Vec<Open>,
    bytes: usize,
    values: usize,
    /// Texts are cut to so many bytes.
    longest: Option<usize>,
}

/// An array that isn't whole.
#[derive(Debug)]
struct Open {
    left: usize,
    values: Vec<RedisReply>,
    /// Nobody wants it: attributes, and what a server says unasked.
    is_aside: bool,
}

enum Token {
    Value(RedisReply),
    Array { len: usize, is_aside: bool },
}

/// The first thing of an input.
struct Taken {
    token: Token,
    /// The length of the text.
    used: usize,
    /// Bytes of that which are to be held.
    held: usize,
}

impl Taken {
    fn whole(token: Token, used: usize) -> Result<Option<Taken>, &'static str> {
        Ok(Some(Taken { token, used, held: used }))
    }
}

impl ReplyReader {
    /// Gives the first `longest` bytes of a text that has more. For [`ReplyReader::take`], which goes on behind the text before that has come: whoever
    /// calls it drops the rest as it comes.
    pub fn cutting(longest: usize) -> ReplyReader {
        ReplyReader { longest: Some(longest), ..ReplyReader::default() }
    }

    /// Takes what is whole off the front of `input`; the reply once it is.
    ///
    /// # Errors
    /// It is no reply, or too large a one.
    pub fn read(&mut self, input: &mut Vec<u8>) -> Result<Option<RedisReply>, &'static str> {
        let mut at = 0;
        let done = self.take(input, &mut at);
        input.drain(..at);
        done
    }

    /// The same, of an input that stays: `at` goes on behind what was taken, which is behind the input's end where a text was cut that hasn't come
    /// as a whole.
    ///
    /// # Errors
    /// As [`ReplyReader::read`].
    pub fn take(&mut self, input: &[u8], at: &mut usize) -> Result<Option<RedisReply>, &'static str> {
        loop {
            let Some(rest) = input.get(*at..) else { return Ok(None) };
            let Some(Taken { token, used, held }) = token(rest, self.longest)? else { return Ok(None) };
            *at += used;
            self.bytes += held;
            self.values += 1;
            if self.bytes > MAX_BYTES || self.values > MAX_VALUES {
                return Err(LONG);
            }
            let mut value = match token {
                Token::Value(value) => value,
                Token::Array { len: 0, is_aside: true } => continue,
                Token::Array { len: 0, is_aside: false } => RedisReply::Array(Vec::new()),
                Token::Array { len, is_aside } => {
                    if self.open.len() == DEEPEST {
                        return Err("the reply has more than 16 arrays within each other");
                    }
                    self.open.push(Open { left: len, values: Vec::new(), is_aside });
                    continue;
                }
            };
            loop {
                let Some(top) = self.open.last_mut() else { return Ok(Some(value)) };
                top.values.push(value);
                top.left -= 1;
                if top.left > 0 {
                    break;
                }
                let whole = self.open.pop().expect("looked at above");
                if whole.is_aside {
                    break;
                }
                value = RedisReply::Array(whole.values);
            }
        }
    }
}

const BAD: &str = "the server doesn't speak RESP";
const LONG: &str = "the reply is longer than 8 MB or has more than 100,000 values";

/// The first thing in `input`, of whose texts no more than `longest` is taken; `None`: it isn't whole.
fn token(input: &[u8], longest: Option<usize>) -> Result<Option<Taken>, &'static str> {
    let Some(end) = memchr::memchr(b'\n', &input[..input.len().min(LINE)]) else {
        return if input.len() < LINE { Ok(None) } else { Err("the server sends too long a line") };
    };
    let line = input[..end].strip_suffix(b"\r").ok_or(BAD)?;
    let (kind, line) = line.split_first().ok_or(BAD)?;
    let used = end + 1;
    let value = |value| Taken::whole(Token::Value(value), used);
    let number = || std::str::from_utf8(line).ok().and_then(|text| text.parse::<i64>().ok()).ok_or(BAD);
    match kind {
        b'+' => value(RedisReply::Status(line.to_vec())),
        b'-' => value(RedisReply::Error(line.to_vec())),
        b':' => value(RedisReply::Integer(number()?)),
        // A number that may be too long for one is a text, as it is for RESP2.
        b'(' => value(RedisReply::Text(line.to_vec())),
        b'_' => value(RedisReply::Nil),
        b'#' => match line {
            b"t" => value(RedisReply::Boolean(true)),
            b"f" => value(RedisReply::Boolean(false)),
            _ => Err(BAD),
        },
        b',' => {
            let number = std::str::from_utf8(line).ok().and_then(|text| text.parse().ok()).ok_or(BAD)?;
            value(RedisReply::Double(number, line.to_vec()))
        }
        b'$' | b'!' | b'=' => {
            let len = number()?;
            if len == -1 && *kind == b'$' {
                return value(RedisReply::Nil);
            }
            let len = usize::try_from(len).map_err(|_| BAD)?;
            if let Some(longest) = longest.filter(|longest| *kind == b'$' && *longest < len && len <= MAX_CUT) {
                let Some(text) = input.get(used..used + longest) else { return Ok(None) };
                let token = Token::Value(RedisReply::Text(text.to_vec()));
                return Ok(Some(Taken { token, used: used + len + 2, held: used + longest }));
            }
            if len > MAX_BYTES {
                return Err(LONG);
            }
            let Some(rest) = input.get(used..used + len + 2) else { return Ok(None) };
            let text = rest.strip_suffix(b"\r\n").ok_or(BAD)?.to_vec();
            let reply = match kind {
                b'!' => RedisReply::Error(text),
                b'=' => RedisReply::Text(text.get(4..).ok_or(BAD)?.to_vec()),
                _ => RedisReply::Text(text),
            };
            Taken::whole(Token::Value(reply), used + len + 2)
        }
        b'*' | b'~' | b'%' | b'|' | b'>' => {
            let len = number()?;
            if len == -1 && *kind == b'*' {
                return value(RedisReply::Nil);
            }
            let len = usize::try_from(len).ok().filter(|len| *len <= MAX_VALUES).ok_or(BAD)?;
            let is_pairs = matches!(kind, b'%' | b'|');
            let len = if is_pairs { len * 2 } else { len };
            Taken::whole(Token::Array { len, is_aside: matches!(kind, b'|' | b'>') }, used)
        }
        _ => Err(BAD),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The replies in these bytes, which come `cut` at a time.
    fn replies(bytes: &[u8], cut: usize) -> (Vec<RedisReply>, Result<(), &'static str>) {
        let (mut all, mut input, mut reader) = (Vec::new(), Vec::new(), ReplyReader::default());
        for piece in bytes.chunks(cut) {
            input.extend_from_slice(piece);
            loop {
                match reader.read(&mut input) {
                    Ok(Some(reply)) => all.push(reply),
                    Ok(None) => break,
                    Err(reason) => return (all, Err(reason)),
                }
                reader = ReplyReader::default();
            }
        }
        (all, Ok(()))
    }

    #[track_caller]
    fn check(bytes: &str, wanted: RedisReply) {
        for cut in [1, 3, 1000] {
            assert_eq!(replies(bytes.as_bytes(), cut), (vec![wanted.clone()], Ok(())), "{bytes:?} by {cut}");
        }
    }

    fn text(text: &str) -> RedisReply {
        RedisReply::Text(text.into())
    }

    #[test]
    fn what_redis_says() {
        check("+OK\r\n", RedisReply::Status("OK".into()));
        check("-ERR no\r\n", RedisReply::Error("ERR no".into()));
        check("!5\r\nERR\r\n\r\n", RedisReply::Error("ERR\r\n".into()));
        check(":-7\r\n", RedisReply::Integer(-7));
        check("$5\r\na\r\nbc\r\n", text("a\r\nbc"));
        check("$0\r\n\r\n", text(""));
        check("=7\r\ntxt:abc\r\n", text("abc"));
        check("(12345678901234567890\r\n", text("12345678901234567890"));
        for nil in ["$-1\r\n", "*-1\r\n", "_\r\n"] {
            check(nil, RedisReply::Nil);
        }
        check("#t\r\n", RedisReply::Boolean(true));
        check(",1.50\r\n", RedisReply::Double(1.5, "1.50".into()));
        check("*0\r\n", RedisReply::Array(Vec::new()));
        check(
            "*2\r\n*1\r\n:1\r\n$1\r\na\r\n",
            RedisReply::Array(vec![RedisReply::Array(vec![RedisReply::Integer(1)]), text("a")]),
        );
        check("%1\r\n+k\r\n:1\r\n", RedisReply::Array(vec![RedisReply::Status("k".into()), RedisReply::Integer(1)]));
        check("|1\r\n+a\r\n*1\r\n:1\r\n>1\r\n+x\r\n|0\r\n:5\r\n", RedisReply::Integer(5));
    }

    #[test]
    fn what_no_server_says() {
        let many = format!("*2\r\n{}", "*1\r\n".repeat(17));
        let long = "a".repeat(LINE + 1);
        for bytes in [
            "x\r\n",
            "\r\n",
            "+a\n",
            ":x\r\n",
            "$-2\r\n",
            "$99999999999\r\n",
            "*-2\r\n",
            "*99999999\r\n",
            "#x\r\n",
            "$1\r\nabc",
            "=2\r\nab\r\n",
            &many,
            &long,
        ] {
            assert!(replies(bytes.as_bytes(), 7).1.is_err(), "{bytes:?}");
        }
        let texts = format!("*10\r\n{}", format!("$1000000\r\n{}\r\n", "a".repeat(1_000_000)).repeat(9));
        assert!(replies(texts.as_bytes(), 100_000).1.is_err());
    }

    /// The reply of a reader that cuts texts to three bytes, where `cut` bytes come at once and what was taken is
    /// dropped.
    fn cut_reply(bytes: &[u8], cut: usize) -> Result<Option<RedisReply>, &'static str> {
        let (mut reader, mut input, mut ahead) = (ReplyReader::cutting(3), Vec::new(), 0);
        for piece in bytes.chunks(cut) {
            let dropped = piece.len().min(ahead);
            ahead -= dropped;
            input.extend_from_slice(&piece[dropped..]);
            let mut at = 0;
            let read = reader.take(&input, &mut at);
            ahead += at.saturating_sub(input.len());
            input.drain(..at.min(input.len()));
            if read != Ok(None) {
                return read;
            }
        }
        Ok(None)
    }

    #[test]
    fn texts_that_are_cut() {
        let wanted = RedisReply::Array(vec![text("abc"), text("abc"), RedisReply::Integer(7)]);
        for cut in [1, 2, 5, 1000] {
            assert_eq!(
                cut_reply(b"*3\r\n$3\r\nabc\r\n$6\r\nabcdef\r\n:7\r\n", cut),
                Ok(Some(wanted.clone())),
                "by {cut}"
            );
        }
        // Longer than any reply, and of more of them than one may have.
        let long = format!("*20\r\n{}", format!("$1000000\r\n{}\r\n", "a".repeat(1_000_000)).repeat(20));
        assert_eq!(cut_reply(long.as_bytes(), 30_000), Ok(Some(RedisReply::Array(vec![text("aaa"); 20]))));
        assert!(cut_reply(b"$1073741825\r\nabc", 5).is_err());
        assert!(cut_reply(b"!9000000\r\nabc", 5).is_err(), "an error isn't cut");
    }

    fn any_reply() -> impl Strategy<Value = RedisReply> {
        let leaf = prop_oneof![
            Just(RedisReply::Nil),
            any::<i64>().prop_map(RedisReply::Integer),
            any::<bool>().prop_map(RedisReply::Boolean),
            "[ -~]{0,9}".prop_map(|text| RedisReply::Status(text.into())),
            "[ -~]{0,9}".prop_map(|text| RedisReply::Error(text.into())),
            any::<Vec<u8>>().prop_map(RedisReply::Text),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| proptest::collection::vec(inner, 0..5).prop_map(RedisReply::Array))
    }

    fn write(reply: &RedisReply, out: &mut Vec<u8>) {
        let line = |kind: char, text: &[u8]| [kind.to_string().as_bytes(), text, b"\r\n"].concat();
        match reply {
            RedisReply::Nil => out.extend_from_slice(b"_\r\n"),
            RedisReply::Integer(number) => out.extend(line(':', number.to_string().as_bytes())),
            RedisReply::Boolean(value) => out.extend(line('#', if *value { b"t" } else { b"f" })),
            RedisReply::Status(text) => out.extend(line('+', text)),
            RedisReply::Error(text) => out.extend(line('-', text)),
            RedisReply::Double(_, text) => out.extend(line(',', text)),
            RedisReply::Text(text) => {
                out.extend(line('$', text.len().to_string().as_bytes()));
                out.extend_from_slice(text);
                out.extend_from_slice(b"\r\n");
            }
            RedisReply::Array(all) => {
                out.extend(line('*', all.len().to_string().as_bytes()));
                all.iter().for_each(|reply| write(reply, out));
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(all in proptest::collection::vec(any_reply(), 1..4), cut in 1usize..40) {
            let mut bytes = Vec::new();
            all.iter().for_each(|reply| write(reply, &mut bytes));
            prop_assert_eq!(replies(&bytes, cut), (all, Ok(())));
        }

        #[test]
        fn commands(args in proptest::collection::vec(any::<Vec<u8>>(), 1..5)) {
            let wanted = RedisReply::Array(args.iter().cloned().map(RedisReply::Text).collect());
            prop_assert_eq!(replies(&command(&args), 5), (vec![wanted], Ok(())));
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'*'), Just(b'$')], 0..60), cut in 1usize..10) {
            prop_assert_eq!(replies(&bytes, cut), replies(&bytes, 1));
        }
    }
}
