// SPDX-License-Identifier: BSD-2-Clause
//! The log as a stream of Redis or Valkey (7.0 or newer): key `lacquer:{NAME}`, an entry's text in its field `e`. Entries are numbered by
//! `XADD 0-*`, so that numbers count them. `lacquer:{NAME}:epoch` says which log it is: it is drawn by who makes it.
//!
//! How safe an entry is that was acknowledged is the server's affair: `appendfsync always` and, with `replicas=N`, N replicas that have it.
//! Clusters aren't supported, and say so.

mod board;
mod survey;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::clock;
use redis_protocol::{RedisReply, ReplyReader};

use crate::board::LONGEST_DOCUMENT;
use crate::entry::LONGEST;
use crate::link::{BATCH_OF_LONGEST, epoch_of};
use crate::survey::ServerFact;
use crate::wire::{self, LogWire};
use crate::{
    Board, Connect, FleetLink, FleetSettings, IncomingEntry, LinkFault, LogBounds, LogServer, NextEntries,
    OutgoingEntry,
};

/// Bytes of a longer text that are looked at.
const LONGEST_TEXT: usize = LONGEST_DOCUMENT + 1;
/// Longest wait for an answer.
const TIME: Duration = Duration::from_secs(2);
/// Entries that are asked for at once: the longest ones are one answer still.
const BATCH: usize = BATCH_OF_LONGEST;
const _: () = assert!(BATCH * (LONGEST + 100) < redis_protocol::MAX_BYTES);
/// The server waits for entries so long.
const BLOCK: Duration = Duration::from_secs(1);
/// Replicas have so long to get an entry.
const REPLICA_TIME: Duration = Duration::from_secs(1);

pub(crate) struct Redis {
    key: String,
    login: Option<Vec<Vec<u8>>>,
    client: Option<Arc<tls::TlsClient>>,
    retention: u64,
    replicas: u32,
}

impl Redis {
    pub fn new(settings: &FleetSettings) -> Result<Redis, String> {
        let login = settings.password.as_ref().map(|password| {
            let words = ["AUTH"].into_iter().chain(settings.user.as_deref()).chain([password.as_str()]);
            words.map(|word| word.as_bytes().to_vec()).collect()
        });
        if login.is_none() && settings.user.is_some() {
            return Err("a Redis user needs a password: password-file=FILE".to_owned());
        }
        Ok(Redis {
            key: format!("lacquer:{{{}}}", settings.name),
            login,
            client: wire::client(settings)?,
            retention: settings.retention,
            replicas: settings.replicas,
        })
    }
}

impl Connect for Redis {
    fn connect(&self, server: &LogServer, until: Instant) -> Result<Box<dyn FleetLink>, LinkFault> {
        Ok(Box::new(self.open(server, until)?))
    }

    fn survey(&self, server: &LogServer, until: Instant) -> Result<Vec<ServerFact>, LinkFault> {
        Ok(self.open(server, until)?.survey(until))
    }

    fn board(&self, server: &LogServer, until: Instant) -> Result<Box<dyn Board>, LinkFault> {
        Ok(Box::new(self.open(server, until)?))
    }
}

impl Redis {
    fn open(&self, server: &LogServer, until: Instant) -> Result<Session, LinkFault> {
        let mut wire = LogWire::connect(server, until)?;
        if let Some(client) = &self.client {
            wire.seal(client, &server.host)?;
        }
        let mut session = Session {
            wire,
            key: self.key.clone(),
            retention: self.retention,
            replicas: self.replicas,
            epoch: String::new(),
            last: 0,
            is_behind: true,
        };
        if let Some(login) = &self.login {
            session.ask(login)?;
        }
        match session.ask(&words(["ROLE"]))? {
            RedisReply::Array(role) if role.first().is_some_and(|word| text(word) == Some(b"master")) => Ok(session),
            _ => Err(LinkFault::new("it is a replica, not a master")),
        }
    }
}

struct Session {
    wire: LogWire,
    key: String,
    retention: u64,
    replicas: u32,
    epoch: String,
    last: u64,
    /// There may be more at once.
    is_behind: bool,
}

impl Session {
    fn ask(&mut self, words: &[Vec<u8>]) -> Result<RedisReply, LinkFault> {
        self.ask_cut_to(LONGEST_TEXT, words)
    }

    fn ask_cut_to(&mut self, longest: usize, words: &[Vec<u8>]) -> Result<RedisReply, LinkFault> {
        self.wire.until(clock::now() + TIME);
        self.wire.send(&redis_protocol::command(words))?;
        unless_error(self.reply_cut_to(longest)?)
    }

    fn reply(&mut self) -> Result<RedisReply, LinkFault> {
        self.reply_cut_to(LONGEST_TEXT)
    }

    /// The next reply. Of a text that is longer than what is looked at it has so many bytes.
    fn reply_cut_to(&mut self, longest: usize) -> Result<RedisReply, LinkFault> {
        let mut reader = ReplyReader::cutting(longest);
        loop {
            let mut used = 0;
            let read = reader.take(self.wire.input(), &mut used);
            self.wire.take(used);
            match read {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => self.wire.more()?,
                Err(reason) => return Err(LinkFault::new(reason)),
            }
        }
    }

    fn epoch(&mut self) -> Result<String, LinkFault> {
        let key = format!("{}:epoch", self.key);
        let drawn = || RandomState::new().hash_one(clock::now());
        let new = format!("{:016x}{:016x}", drawn(), drawn());
        for word in [None, Some(new)] {
            if let Some(new) = word {
                self.ask(&words(["SET", &key, &new, "NX"]))?;
            }
            if let Some(epoch) = text(&self.ask(&words(["GET", &key]))?) {
                return epoch_of(&String::from_utf8_lossy(epoch));
            }
        }
        Err(LinkFault::new(format!("{key} doesn't keep what it is set to")))
    }

    fn extent(&mut self) -> Result<(u64, u64), LinkFault> {
        self.wire.until(clock::now() + TIME);
        self.wire.send(&redis_protocol::command(&words(["XINFO", "STREAM", &self.key])))?;
        let facts = match self.reply()? {
            RedisReply::Error(reason) if reason.starts_with(b"ERR no such key") => return Ok((1, 0)),
            reply => match unless_error(reply)? {
                RedisReply::Array(facts) => facts,
                _ => return Err(misread()),
            },
        };
        let fact = |name: &[u8]| {
            let pairs = facts.chunks_exact(2);
            pairs.into_iter().find(|pair| text(&pair[0]) == Some(name)).map(|pair| &pair[1])
        };
        let last = fact(b"last-generated-id").and_then(text).ok_or_else(misread)?;
        let last = number(last).ok_or_else(|| {
            LinkFault::new(format!(
                "{} has entries that this program didn't number: somebody else writes to it",
                self.key
            ))
        })?;
        let first = match fact(b"first-entry") {
            Some(RedisReply::Array(entry)) => {
                number(entry.first().and_then(text).ok_or_else(misread)?).ok_or_else(misread)?
            }
            _ => last.saturating_add(1),
        };
        Ok((first, last))
    }

    fn read(&mut self) -> Result<Vec<IncomingEntry>, LinkFault> {
        let (from, count, block) = (format!("0-{}", self.last), BATCH.to_string(), BLOCK.as_millis().to_string());
        let mut command = words(["XREAD", "COUNT", &count]);
        if !self.is_behind {
            command.extend(words(["BLOCK", &block]));
        }
        command.extend(words(["STREAMS", &self.key, &from]));
        self.wire.until(clock::now() + BLOCK + TIME);
        self.wire.send(&redis_protocol::command(&command))?;
        // Of one that is longer than any of ours its beginning says enough.
        let entries = match unless_error(self.reply_cut_to(LONGEST + 1)?)? {
            RedisReply::Nil => Vec::new(),
            RedisReply::Array(mut streams) => match streams.pop() {
                Some(RedisReply::Array(mut stream)) => match stream.pop() {
                    Some(RedisReply::Array(entries)) => entries,
                    _ => return Err(misread()),
                },
                _ => return Err(misread()),
            },
            _ => return Err(misread()),
        };
        self.is_behind = entries.len() == BATCH;
        let mut read = Vec::with_capacity(entries.len());
        for entry in entries {
            let RedisReply::Array(entry) = entry else { return Err(misread()) };
            let [id, fields] = &entry[..] else { return Err(misread()) };
            let seq = text(id).and_then(number).filter(|seq| *seq > self.last).ok_or_else(misread)?;
            self.last = seq;
            read.push(IncomingEntry { seq, bytes: entry_of(fields) });
        }
        Ok(read)
    }
}

impl FleetLink for Session {
    fn bounds(&mut self) -> Result<LogBounds, LinkFault> {
        let epoch = self.epoch()?;
        let (first, last) = self.extent()?;
        self.epoch = epoch.clone();
        Ok(LogBounds { epoch, first, last })
    }

    fn append(&mut self, entries: &[OutgoingEntry<'_>]) -> Result<Vec<Result<u64, LinkFault>>, LinkFault> {
        let retention = self.retention.to_string();
        let mut out = Vec::new();
        for entry in entries {
            let mut command = words(["XADD", &self.key, "MAXLEN", "=", &retention, "0-*", "e"]);
            command.push(entry.bytes.to_vec());
            out.extend(redis_protocol::command(&command));
        }
        let time = REPLICA_TIME.as_millis().to_string();
        if self.replicas > 0 {
            out.extend(redis_protocol::command(&words(["WAIT", &self.replicas.to_string(), &time])));
        }
        self.wire.until(clock::now() + TIME + REPLICA_TIME);
        self.wire.send(&out)?;
        let mut results = Vec::new();
        for _ in entries {
            let added = unless_error(self.reply()?);
            results.push(added.and_then(|id| text(&id).and_then(number).ok_or_else(misread)));
        }
        if self.replicas > 0 {
            match self.reply()? {
                RedisReply::Integer(count) if count >= i64::from(self.replicas) => {}
                RedisReply::Integer(count) => {
                    let fault = LinkFault::new(format!("{count} of {} replicas have it", self.replicas));
                    results.iter_mut().for_each(|result| *result = Err(fault.clone()));
                }
                other => _ = unless_error(other)?,
            }
        }
        Ok(results)
    }

    fn follow(&mut self, from: u64) -> Result<(), LinkFault> {
        (self.last, self.is_behind) = (from.saturating_sub(1), true);
        Ok(())
    }

    fn next(&mut self) -> Result<NextEntries, LinkFault> {
        let entries = self.read()?;
        if !entries.is_empty() {
            return Ok(NextEntries::Entries { entries, left: u64::from(self.is_behind) });
        }
        // A key that was deleted, and began anew, gives no entry behind the last one ever again.
        let bounds = self.epoch.clone();
        match self.bounds()? {
            now if now.epoch != bounds => Err(LinkFault::new("the log is another one than before")),
            now if now.last < self.last => Err(LinkFault::new("the log has lost entries")),
            _ => Ok(NextEntries::Quiet),
        }
    }
}

fn words<const N: usize>(words: [&str; N]) -> Vec<Vec<u8>> {
    words.into_iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn text(reply: &RedisReply) -> Option<&[u8]> {
    match reply {
        RedisReply::Text(text) | RedisReply::Status(text) => Some(text),
        RedisReply::Nil
        | RedisReply::Error(_)
        | RedisReply::Integer(_)
        | RedisReply::Boolean(_)
        | RedisReply::Double(..)
        | RedisReply::Array(_) => None,
    }
}

/// Parses the id `0-17` into its number.
fn number(id: &[u8]) -> Option<u64> {
    std::str::from_utf8(id).ok()?.strip_prefix("0-")?.parse().ok()
}

/// The entry in a record: one without our field is empty.
fn entry_of(fields: &RedisReply) -> Vec<u8> {
    let RedisReply::Array(fields) = fields else { return Vec::new() };
    let ours = fields.chunks_exact(2).find(|pair| text(&pair[0]) == Some(b"e"));
    ours.and_then(|pair| text(&pair[1])).unwrap_or_default().to_vec()
}

fn unless_error(reply: RedisReply) -> Result<RedisReply, LinkFault> {
    match reply {
        RedisReply::Error(reason) => Err(LinkFault::new(in_words(&String::from_utf8_lossy(&reason)))),
        reply => Ok(reply),
    }
}

fn in_words(reason: &str) -> String {
    let said = base::text::printable(reason);
    match reason.split_ascii_whitespace().next().unwrap_or_default() {
        "MOVED" | "ASK" | "CLUSTERDOWN" => format!("it is a cluster, which isn't supported ({said})"),
        "READONLY" => format!("it is a replica, not a master ({said})"),
        "WRONGTYPE" => format!("the log's key is something else than a stream ({said})"),
        _ if reason.contains("Invalid stream ID") => format!("it is older than Redis 7.0, which is needed ({said})"),
        _ if reason.contains("equal or smaller") => format!("somebody else writes to the log's stream ({said})"),
        _ => said,
    }
}

fn misread() -> LinkFault {
    LinkFault::new("it answers something else than a server of Redis does")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    /// A connection to a server that answers so, each command with the next of these, and closes then.
    fn session(answers: Vec<Vec<u8>>) -> Session {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = LogServer { host: "127.0.0.1".to_owned(), port: listener.local_addr().unwrap().port() };
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().unwrap();
            let (mut reader, mut input, mut piece) = (ReplyReader::default(), Vec::new(), [0; 4096]);
            for answer in [b"*1\r\n$6\r\nmaster\r\n".to_vec()].into_iter().chain(answers) {
                while reader.read(&mut input).unwrap().is_none() {
                    match socket.read(&mut piece) {
                        Ok(count @ 1..) => input.extend_from_slice(&piece[..count]),
                        Ok(_) | Err(_) => return,
                    }
                }
                reader = ReplyReader::default();
                // Who asks may be gone.
                let _ = socket.write_all(&answer);
            }
        });
        let redis = Redis::new(&FleetSettings::parse("redis://a").unwrap()).unwrap();
        redis.open(&server, clock::now() + Duration::from_secs(20)).unwrap()
    }

    /// An answer to XREAD.
    fn entries(all: &[(u64, &[u8])]) -> Vec<u8> {
        let mut out = format!("*1\r\n*2\r\n$1\r\nk\r\n*{}\r\n", all.len()).into_bytes();
        for (seq, bytes) in all {
            let id = format!("0-{seq}");
            out.extend(format!("*2\r\n${}\r\n{id}\r\n", id.len()).into_bytes());
            out.extend(redis_protocol::command(&[b"e".to_vec(), bytes.to_vec()]));
        }
        out
    }

    #[test]
    fn of_an_entry_longer_than_any_answer_the_beginning_comes_and_then_the_next() {
        let long = vec![b'x'; redis_protocol::MAX_BYTES + 1];
        let mut session =
            session(vec![entries(&[(1, b"a"), (2, &long), (3, b"b"), (4, &long)]), entries(&[(5, b"c")])]);
        session.follow(1).unwrap();
        let NextEntries::Entries { entries, .. } = session.next().unwrap() else { panic!("there are some") };
        let lengths: Vec<_> = entries.iter().map(|entry| (entry.seq, entry.bytes.len())).collect();
        assert_eq!(lengths, [(1, 1), (2, LONGEST + 1), (3, 1), (4, LONGEST + 1)]);
        let next = NextEntries::Entries { entries: vec![IncomingEntry { seq: 5, bytes: b"c".to_vec() }], left: 0 };
        assert_eq!(session.next(), Ok(next));
    }

    #[test]
    fn what_no_server_of_redis_says() {
        let half = &entries(&[(1, b"abc")])[..20];
        let tries: [(&[u8], &str); 5] = [
            (half, "it closed the connection"),
            (&entries(&[(2, b"a"), (1, b"b")]), "something else than a server of Redis"),
            (b"*1\r\n*2\r\n$1\r\nk\r\n:1\r\n", "something else than a server of Redis"),
            (b"HTTP/1.1 400 Bad Request\r\n", "doesn't speak RESP"),
            (b"$9999999999\r\nx", "longer than 8 MB"),
        ];
        for (answer, wanted) in tries {
            let mut session = session(vec![answer.to_vec()]);
            session.follow(1).unwrap();
            let fault = session.next().unwrap_err();
            assert!(fault.0.contains(wanted), "{fault}");
        }
        let epoch = format!("$200\r\n{}\r\n", "e".repeat(200));
        assert!(session(vec![b"$-1\r\n".to_vec(), b"+OK\r\n".to_vec(), epoch.into()]).bounds().is_err());
    }

    #[test]
    fn a_missing_right_is_named_and_nothing_else_is_taken_for_one() {
        let answers: [&[u8]; 3] = [
            b"-NOPERM this user has no permissions to run the 'config|get' command\r\n",
            b"-ERR unknown command 'CONFIG'\r\n",
            b"*2\r\n$11\r\nappendfsync\r\n$8\r\neverysec\r\n",
        ];
        let mut session = session(answers.map(Vec::from).to_vec());
        let facts = session.survey(clock::now() + Duration::from_secs(20));
        let said: Vec<&str> = facts.iter().map(|fact| fact.value.as_deref().unwrap_or_else(|error| error)).collect();
        assert!(said[0].ends_with("; allow it with ACL SETUSER USER +config|get"), "{said:?}");
        assert_eq!(said[1..3], ["CONFIG GET appendfsync: ERR unknown command 'CONFIG'", "everysec"]);
        assert!(said[3..].iter().all(|said| !said.contains("ACL SETUSER")), "{said:?}");
    }

    #[test]
    fn numbers_of_entries() {
        assert_eq!([&b"0-17"[..], b"1-17", b"17", b"0-", b"0-x"].map(number), [Some(17), None, None, None, None]);
    }

    #[test]
    fn what_an_entry_says() {
        let fields = |words: &[&str]| {
            RedisReply::Array(words.iter().map(|word| RedisReply::Text(word.as_bytes().into())).collect())
        };
        assert_eq!(entry_of(&fields(&["x", "1", "e", "{}"])), b"{}");
        assert_eq!(entry_of(&fields(&["x", "e"])), b"");
        assert_eq!(entry_of(&RedisReply::Nil), b"");
    }

    #[test]
    fn errors_in_words() {
        assert!(in_words("MOVED 866 10.0.0.1:6379").starts_with("it is a cluster"));
        assert!(in_words("WRONGPASS invalid").starts_with("WRONGPASS"));
        assert!(
            in_words("ERR The ID specified in XADD is equal or smaller than the target").starts_with("somebody else")
        );
    }
}
