// SPDX-License-Identifier: BSD-2-Clause
//! CLI sessions as one program tells them to the next.

use base::clock::Mono;
use cli::auth::{CHALLENGE_LEN, CliChallenge};
use cli::record::Fd;
use cli::{CliDecoder, words};

use super::{CliSessionKind, Session};
use crate::manager::Manager;
use crate::reply::CliReply;
use crate::upgrade::carried::copy;

const KINDS: [(CliSessionKind, &str); 3] =
    [(CliSessionKind::Telnet, "telnet"), (CliSessionKind::Master, "master"), (CliSessionKind::Debug, "debug")];

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OpenSession {
    /// `telnet`, `master` or `debug`.
    pub kind: String,
    pub identity: String,
    pub input: Fd,
    pub output: Option<Fd>,
    pub challenge: Option<Vec<u8>>,
    pub unread: Vec<u8>,
    pub unsent: Vec<u8>,
    pub is_closing: bool,
    /// True if it asked for the upgrade and waits for the reply.
    pub asks: bool,
}

words!(OpenSession { kind, identity, input, output, challenge, unread, unsent, is_closing, asks });

impl Session {
    /// The session's state for the next program; `None` in the midst of a command, and for a kind that isn't handed
    /// over.
    pub(crate) fn save(&self, asks: bool) -> Option<OpenSession> {
        if self.awaits.is_some() {
            return None;
        }
        let (_, word) = KINDS.iter().find(|(kind, _)| *kind == self.kind)?;
        Some(OpenSession {
            kind: (*word).to_owned(),
            identity: self.identity.clone(),
            input: Fd::of(&self.input),
            output: self.output.as_ref().map(Fd::of),
            challenge: self.challenge.as_ref().map(|challenge| challenge.reply().body[..CHALLENGE_LEN].to_vec()),
            unread: self.decoder.unread()?,
            unsent: self.unsent.clone(),
            is_closing: self.closing,
            asks,
        })
    }

    /// Rebuilds a session.
    ///
    /// # Errors
    /// The fault of its parts.
    pub(crate) fn restore(parts: &OpenSession, now: Mono) -> Result<Session, String> {
        let copy = |fd| copy(fd).map_err(|e| format!("CLI session {}: {e}", parts.identity));
        let kind = KINDS.iter().find(|(_, word)| *word == parts.kind);
        let (kind, _) = kind.ok_or_else(|| format!("no kind of CLI session: {}", parts.kind))?;
        let challenge = match &parts.challenge {
            Some(bytes) => Some(CliChallenge::from_reply(bytes).ok_or("no challenge of a CLI session")?),
            None => None,
        };
        let mut decoder = if challenge.is_some() { CliDecoder::new() } else { CliDecoder::trusted() };
        decoder.feed(&parts.unread);
        Ok(Session {
            kind: *kind,
            identity: parts.identity.clone(),
            input: copy(parts.input)?,
            output: parts.output.map(copy).transpose()?,
            decoder,
            challenge,
            opened: now,
            unsent: parts.unsent.clone(),
            awaits: None,
            closing: parts.is_closing,
            ended: false,
        })
    }

    pub fn is_master(&self) -> bool {
        self.kind == CliSessionKind::Master
    }

    /// True for the connection of `--watch`, which isn't handed over.
    pub fn is_watch(&self) -> bool {
        self.kind == CliSessionKind::Watch
    }

    pub fn has_ended(&self) -> bool {
        self.ended
    }
}

impl Manager {
    /// Answers a command that the program before this one took, and goes on with those that came after it.
    pub(crate) fn answer_session(&mut self, at: usize, reply: CliReply) {
        let reply = reply.limited(self.params.cli_limit);
        self.log_reply(at, &reply, false);
        self.cli.sessions[at].send(&reply.encode());
        self.run_requests(at);
    }
}
