// SPDX-License-Identifier: BSD-2-Clause
//! The board as keys: reports at `lacquer:{NAME}:node:NODE`, which end by themselves, with the nodes' names in the set `lacquer:{NAME}:nodes`;
//! documents at `lacquer:{NAME}:board:DOCUMENT`. A report's age is what is gone of its time.
//!
//! Whoever may write there may write anything: what is longer than it may be is never asked for as a whole, keys of another kind are no
//! reports, and of too many names a part is looked at, drawn anew each time.

use std::time::Duration;

use base::clock;
use redis_protocol::RedisReply;

use super::{Session, TIME, misread, text, unless_error, words};
use crate::board::{FORGOTTEN, LONGEST_DOCUMENT, LONGEST_NAME, LONGEST_REPORT, MOST_REPORTS, name_of, token};
use crate::{Board, LinkFault, Posted};

/// Bytes of a longer name that are looked at, as none of ours has so many.
const LONGEST_TOKEN: usize = 3 * LONGEST_NAME + 1;
const _: () = assert!(MOST_REPORTS * (LONGEST_TOKEN + 100) < redis_protocol::MAX_BYTES);
/// Reports that are asked for at once.
const BATCH: usize = 100;

impl Session {
    /// Sends these at once: what is answered to each, which is no error.
    fn ask_all(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<RedisReply>, LinkFault> {
        self.ask_each(commands)?.into_iter().map(unless_error).collect()
    }

    /// Sends these at once: what is answered to each.
    fn ask_each(&mut self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<RedisReply>, LinkFault> {
        let out: Vec<u8> = commands.iter().flat_map(|command| redis_protocol::command(command)).collect();
        self.wire.until(clock::now() + TIME);
        self.wire.send(&out)?;
        commands.iter().map(|_| self.reply()).collect()
    }

    fn names_key(&self) -> String {
        format!("{}:nodes", self.key)
    }

    fn report_key(&self, token: &str) -> String {
        format!("{}:node:{token}", self.key)
    }
}

impl Board for Session {
    fn report(&mut self, node: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, LinkFault> {
        let (token, time) = (token(node), FORGOTTEN.as_millis().to_string());
        let mut set = words(["SET", &self.report_key(&token), "", "PX", &time, "GET"]);
        set[2] = bytes.to_vec();
        let add = words(["SADD", &self.names_key(), &token]);
        let replies = self.ask_each(&[set.clone(), add])?;
        let former = replies.first().and_then(text).map(<[u8]>::to_vec);
        let [is_set, is_added] = <[RedisReply; 2]>::try_from(replies).map_err(|_| misread())?;
        if unless_error(is_set).is_err() {
            // The key may be of another kind: then only what doesn't ask for what it was takes its place.
            set.pop();
            self.ask(&set)?;
        }
        unless_error(is_added)?;
        Ok(former)
    }

    fn reports(&mut self) -> Result<Vec<Posted>, LinkFault> {
        let draw = words(["SRANDMEMBER", &self.names_key(), &MOST_REPORTS.to_string()]);
        let names = match self.ask_cut_to(LONGEST_TOKEN, &draw)? {
            RedisReply::Array(names) => names,
            _ => return Err(misread()),
        };
        let tokens: Vec<String> =
            names.iter().filter_map(text).map(|name| String::from_utf8_lossy(name).into()).collect();
        let (mut posted, longest) = (Vec::new(), LONGEST_REPORT.to_string());
        let mut forgotten = vec![b"SREM".to_vec(), self.names_key().into_bytes()];
        for batch in tokens.chunks(BATCH) {
            let commands = batch.iter().flat_map(|token| {
                let key = self.report_key(token);
                [words(["GETRANGE", &key, "0", &longest]), words(["PTTL", &key])]
            });
            let commands: Vec<_> = commands.collect();
            let replies = self.ask_each(&commands)?;
            for (token, pair) in batch.iter().zip(replies.chunks_exact(2)) {
                match (text(&pair[0]), &pair[1], name_of(token)) {
                    (Some(bytes), RedisReply::Integer(left @ 0..), Some(node))
                        if *left as u128 <= FORGOTTEN.as_millis() =>
                    {
                        let age = FORGOTTEN.saturating_sub(Duration::from_millis(*left as u64));
                        posted.push(Posted { node, bytes: bytes.to_vec(), age });
                    }
                    _ => forgotten.push(token.clone().into_bytes()),
                }
            }
        }
        if forgotten.len() > 2 {
            // One that comes back just now is added again with its next report.
            self.ask(&forgotten)?;
        }
        posted.sort_by(|a, b| a.node.cmp(&b.node));
        Ok(posted)
    }

    fn document(&mut self, name: &str) -> Result<Option<Vec<u8>>, LinkFault> {
        let reply = self.ask(&part_of_document(&format!("{}:board:{}", self.key, token(name))))?;
        Ok(text(&reply).filter(|bytes| !bytes.is_empty()).map(<[u8]>::to_vec))
    }

    fn replace(&mut self, name: &str, was: Option<&[u8]>, bytes: &[u8]) -> Result<bool, LinkFault> {
        if bytes.len() > LONGEST_DOCUMENT {
            return Err(LinkFault::new(format!(
                "a document of {} bytes: {LONGEST_DOCUMENT} are the most",
                bytes.len()
            )));
        }
        let key = format!("{}:board:{}", self.key, token(name));
        let replies = self.ask_all(&[words(["WATCH", &key]), part_of_document(&key)])?;
        if replies.get(1).and_then(text).unwrap_or_default() != was.unwrap_or_default() {
            self.ask(&words(["UNWATCH"]))?;
            return Ok(false);
        }
        let mut set = words(["SET", &key, ""]);
        set[2] = bytes.to_vec();
        let replies = self.ask_all(&[words(["MULTI"]), set, words(["EXEC"])])?;
        // Nothing, where the key was changed since it was looked at.
        Ok(replies.last().is_some_and(|done| *done != RedisReply::Nil))
    }
}

/// Asks for a document, or for a byte more than one may have. Of none that is empty, as no document is.
fn part_of_document(key: &str) -> Vec<Vec<u8>> {
    words(["GETRANGE", key, "0", &LONGEST_DOCUMENT.to_string()])
}
