// SPDX-License-Identifier: BSD-2-Clause
//! CLI sessions: on -T and -M connections, on stdin with -d, of the process that --watch starts, and from an -I file. Nobody waits for a client that doesn't
//! read: replies queue in the session, and while they do it reads no further command.

pub(crate) mod carry;

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use base::clock::Mono;
use cli::auth::CliChallenge;
use cli::decode::DecodeError;
use cli::{CliDecoder, CliRequest};
use params::Params;
use sys::fd::Interest;
use tables::cli_cmds::ManagerCommand;

use crate::certs::changes_certificates;
use crate::fatal::{Fatal, argument};
use crate::manager::Manager;
use crate::reply::{CliReply, CliStatus, ReplyExt};
use crate::report::{self, ReportSeverity, print};

/// Commands whose reply isn't cut: a part of it is of no use.
const WHOLE: [&str; 3] = ["fleet.bundle", "fleet.document", "fleet.kept"];

/// Time in which a connection has to show the secret: anybody who reaches -T can open one.
const AUTHENTICATION: Duration = Duration::from_secs(10);

const LOGGED: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CliSessionKind {
    Telnet,
    Master,
    /// stdin and stdout: its end is the manager's.
    Debug,
    /// The process of `--watch`: it needs no secret, and may ask but change nothing.
    Watch,
    /// The agent that takes part in roll-outs: it needs no secret, and has what is rolled out loaded and used.
    Rollout,
}

impl CliSessionKind {
    fn is_challenged(self) -> bool {
        matches!(self, CliSessionKind::Telnet | CliSessionKind::Master)
    }
}

#[derive(Debug)]
pub struct Session {
    kind: CliSessionKind,
    identity: String,
    input: OwnedFd,
    /// Descriptor for replies, unless it is `input`.
    output: Option<OwnedFd>,
    decoder: CliDecoder,
    challenge: Option<CliChallenge>,
    opened: Mono,
    unsent: Vec<u8>,
    /// A command that isn't answered yet: no other is read before.
    awaits: Option<Awaits>,
    /// No more commands; ends when everything is sent.
    closing: bool,
    ended: bool,
}

#[derive(Debug)]
enum Awaits {
    /// The command is being carried out beside other work.
    Answer,
    /// The command waits for another one to end.
    Turn(CliRequest),
}

impl Session {
    pub fn want(&self) -> Option<(BorrowedFd<'_>, Interest)> {
        match (self.unsent.is_empty(), &self.awaits) {
            (true, Some(_)) => None,
            (true, None) => Some((self.input.as_fd(), Interest::Read)),
            (false, _) => Some((self.output.as_ref().unwrap_or(&self.input).as_fd(), Interest::Write)),
        }
    }

    /// Time until which it has to show the secret. The connection of -M is our own: its user may take time.
    pub fn due(&self) -> Option<Mono> {
        (self.challenge.is_some() && self.kind == CliSessionKind::Telnet && !self.ended)
            .then(|| self.opened + AUTHENTICATION)
    }

    fn send(&mut self, bytes: &[u8]) {
        self.unsent.extend_from_slice(bytes);
        self.flush();
    }

    fn flush(&mut self) {
        let output = self.output.as_ref().unwrap_or(&self.input);
        while !self.unsent.is_empty() {
            match sys::fd::write(output, &self.unsent) {
                Ok(n) => drop(self.unsent.drain(..n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.ended = true;
                    return;
                }
            }
        }
        self.ended |= self.closing;
    }

    fn fill(&mut self) {
        let mut buf = [0; 65536];
        match sys::fd::read(&self.input, &mut buf) {
            Ok(0) => self.ended = true,
            Ok(n) => self.decoder.feed(&buf[..n]),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.ended = true,
        }
    }
}

impl Manager {
    /// Begins a session: with a challenge, or with the banner when none is needed.
    pub(crate) fn open_session(
        &mut self,
        kind: CliSessionKind,
        identity: String,
        input: OwnedFd,
        output: Option<OwnedFd>,
    ) {
        let asks = kind.is_challenged() && self.cli.secret.is_some();
        let challenge = asks.then(CliChallenge::random).transpose();
        let Ok(challenge) = challenge else {
            print(ReportSeverity::Error, "No random numbers for a CLI challenge");
            return;
        };
        // stdin and stdout are shared with whoever started us: their mode is not ours to change.
        if kind != CliSessionKind::Debug && sys::fd::set_nonblocking(&input, true).is_err() {
            return;
        }
        let decoder = if challenge.is_some() { CliDecoder::new() } else { CliDecoder::trusted() };
        let hello = challenge.as_ref().map_or_else(|| CliReply::ok(self.banner()), CliChallenge::reply);
        let mut session = Session {
            kind,
            identity,
            input,
            output,
            decoder,
            challenge,
            opened: self.now(),
            unsent: Vec::new(),
            awaits: None,
            closing: false,
            ended: false,
        };
        session.send(&hello.encode());
        self.cli.sessions.push(session);
    }

    /// True if one more connection may be taken: one that hasn't shown the secret gives up its place.
    pub(crate) fn has_room_for_session(&self, most: usize) -> bool {
        self.cli.sessions.len() < most || self.cli.sessions.iter().any(|session| session.due().is_some())
    }

    /// Ends the session that has been without the secret for longest, if all places are taken.
    pub(crate) fn make_room_for_session(&mut self, most: usize) {
        if self.cli.sessions.len() < most {
            return;
        }
        // They are in the order in which they came.
        if let Some(oldest) = self.cli.sessions.iter_mut().find(|session| session.due().is_some()) {
            oldest.ended = true;
        }
    }

    pub(crate) fn expire_sessions(&mut self) {
        let now = self.now();
        for session in &mut self.cli.sessions {
            session.ended |= session.due().is_some_and(|due| due <= now);
        }
    }

    pub(crate) fn on_session(&mut self, at: usize) {
        let Some(session) = self.cli.sessions.get_mut(at) else { return };
        if !session.unsent.is_empty() {
            session.flush();
        } else {
            session.fill();
        }
        self.run_requests(at);
    }

    fn run_requests(&mut self, at: usize) {
        loop {
            let session = &mut self.cli.sessions[at];
            if session.closing || session.ended || session.awaits.is_some() || !session.unsent.is_empty() {
                return;
            }
            let Some(request) = session.decoder.next_request() else { return };
            if let Ok(request) = &request {
                self.log_request(at, &request.line);
            }
            self.run_request(at, request);
        }
    }

    fn run_request(&mut self, at: usize, request: Result<CliRequest, DecodeError>) {
        let session = &self.cli.sessions[at];
        let (authenticated, kind) = (session.challenge.is_none(), session.kind);
        let reply = match &request {
            Err(error) => error.reply(),
            Ok(request) => match request.command(authenticated) {
                _ if kind == CliSessionKind::Watch && !is_question(request) => {
                    CliReply::new(CliStatus::Auth, "Only read-only commands are accepted here.\n")
                }
                // An operator may have stopped the worker since.
                _ if kind == CliSessionKind::Rollout
                    && request.name() == "start"
                    && self.fleet.wait_until.is_none() =>
                {
                    CliReply::ok("")
                }
                _ if kind == CliSessionKind::Rollout && !crate::rollout::is_allowed(request) => {
                    CliReply::new(CliStatus::Auth, "Roll-outs don't need that.\n")
                }
                Ok(command) if command.manager == Some(ManagerCommand::Auth) => self.authenticate(at, request),
                // When it succeeds, the next program answers.
                Ok(command) if authenticated && command.manager == Some(ManagerCommand::Upgrade) => self.upgrade(at),
                Ok(command) if authenticated && command.manager.is_some_and(|id| self.puts_off(at, id, request)) => {
                    return;
                }
                _ => self.execute(request, authenticated),
            },
        };
        // Half of a JSON text is of no use to anybody.
        let is_rollout = request.as_ref().is_ok_and(|request| WHOLE.contains(&request.name()));
        let is_whole = is_rollout || request.as_ref().is_ok_and(cli::CliRequest::wants_json);
        let reply = if is_whole || self.lists_params(&request) { reply } else { reply.limited(self.params.cli_limit) };
        self.log_reply(at, &reply, is_rollout);
        let session = &mut self.cli.sessions[at];
        // Who isn't authenticated yet may make no mistake.
        session.closing =
            reply.status == CliStatus::Close || (session.challenge.is_some() && reply.status != CliStatus::Ok);
        session.send(&reply.encode());
    }

    /// True for a list that fitted into Varnish's default of `cli_limit`, and has outgrown it by our own parameters.
    fn lists_params(&self, request: &Result<CliRequest, DecodeError>) -> bool {
        request.as_ref().is_ok_and(|request| request.name() == "param.show")
            && self.params.cli_limit >= Params::default().cli_limit
    }

    /// True if a command is answered later: it takes long, or waits for another session's that does.
    fn puts_off(&mut self, at: usize, id: ManagerCommand, request: &CliRequest) -> bool {
        let awaits = match self.tls.certs.is_at_work() {
            true if changes_certificates(id) => Awaits::Turn(request.clone()),
            false if self.begins_long_command(id) => Awaits::Answer,
            _ => return false,
        };
        self.cli.sessions[at].awaits = Some(awaits);
        true
    }

    pub(crate) fn answer_later(&mut self, reply: CliReply) {
        let asked = self.cli.sessions.iter().position(|session| matches!(session.awaits, Some(Awaits::Answer)));
        if let Some(at) = asked {
            self.cli.sessions[at].awaits = None;
            self.answer_session(at, reply);
        }
        let mut at = 0;
        while at < self.cli.sessions.len() && !self.tls.certs.is_at_work() {
            match self.cli.sessions[at].awaits.take() {
                Some(Awaits::Turn(request)) => {
                    self.run_request(at, Ok(request));
                    self.run_requests(at);
                }
                other => self.cli.sessions[at].awaits = other,
            }
            at += 1;
        }
    }

    fn authenticate(&mut self, at: usize, request: &CliRequest) -> CliReply {
        let Some(path) = self.cli.secret.clone() else {
            return CliReply::cant("Secret file not configured\n");
        };
        let secret = match self.jail.privileged(|| std::fs::read(&path)) {
            Ok(secret) => secret,
            Err(e) => return CliReply::cant(format!("Cannot open secret file ({})\n", crate::fatal::errno_text(&e))),
        };
        let session = &mut self.cli.sessions[at];
        let answer = request.args().first().map(Vec::as_slice).unwrap_or_default();
        if let Some(challenge) = &session.challenge {
            if !challenge.is_answered_by(answer, &secret) {
                print(ReportSeverity::Security, &format!("CLI Authentication failure from {}", session.identity));
                return CliReply::new(CliStatus::Close, "");
            }
            session.challenge = None;
            session.decoder.set_authenticated();
        }
        CliReply::ok(self.banner())
    }

    fn log_request(&self, at: usize, line: &[u8]) {
        // What is rolled out may be long, and its agent says itself what it does.
        let line = if line.starts_with(b"fleet.") { &line[..line.len().min(LOGGED)] } else { line };
        if self.logs_cli() && self.cli.sessions[at].kind != CliSessionKind::Rollout {
            let identity = &self.cli.sessions[at].identity;
            print(ReportSeverity::Cli, &format!("CLI {identity} Rd {}", String::from_utf8_lossy(line)));
        }
    }

    fn log_reply(&self, at: usize, reply: &CliReply, is_rollout: bool) {
        if self.logs_cli() && self.cli.sessions[at].kind != CliSessionKind::Rollout {
            let identity = &self.cli.sessions[at].identity;
            let longest = if is_rollout { LOGGED } else { usize::MAX };
            let text = String::from_utf8_lossy(&reply.body[..reply.body.len().min(longest)]);
            print(ReportSeverity::Cli, &format!("CLI {identity} Wr {:03} {text}", reply.status.number()));
        }
    }

    /// Ends what has ended; true when that was the -d session.
    pub(crate) fn sweep_sessions(&mut self) -> bool {
        let mut stop = false;
        let now = self.now();
        let mut at = 0;
        while at < self.cli.sessions.len() {
            if !self.cli.sessions[at].ended {
                at += 1;
                continue;
            }
            match self.cli.sessions.remove(at).kind {
                CliSessionKind::Telnet | CliSessionKind::Watch | CliSessionKind::Rollout => {}
                CliSessionKind::Debug => stop = true,
                CliSessionKind::Master => {
                    if let Some(masters) = &mut self.cli.masters {
                        masters.closed(now);
                    }
                }
            }
        }
        stop
    }

    /// Runs the commands of an -I file. A failure ends the program, unless the line begins with `-`.
    pub(crate) fn run_file(&mut self, mut file: File) -> Result<(), Fatal> {
        let mut bytes = Vec::new();
        if let Err(e) = file.read_to_end(&mut bytes) {
            return argument(format!("Cannot read the -I file: {e}"));
        }
        report::stderr(&String::from_utf8_lossy(&CliReply::ok(self.banner()).encode()));
        let mut decoder = CliDecoder::trusted();
        decoder.feed(&bytes);
        // Since 7.5 a last line without a newline is taken for a file that isn't complete.
        let must_be_whole = self.params.compat().is_9();
        loop {
            let request = match decoder.next_request() {
                Some(request) => request,
                None => match decoder.finish() {
                    None => return Ok(()),
                    Some(_) if must_be_whole => {
                        let what = "-I file had incomplete CLI command at the end";
                        return argument(format!("{what}: its last line doesn't end in a newline"));
                    }
                    Some(request) => request,
                },
            };
            let (tolerant, reply) = match &request {
                Err(error) => (false, error.reply()),
                Ok(request) => {
                    report::stderr(&format!("> {}", String::from_utf8_lossy(&request.line)));
                    (request.tolerant, self.execute(request, true))
                }
            };
            report::stderr(String::from_utf8_lossy(&reply.encode()).trim_end_matches('\n'));
            if !reply.is_ok() && !tolerant {
                let (status, text) = (reply.status.number(), reply.text());
                return argument(format!("-I file CLI command failed ({status})\n{text}"));
            }
        }
    }
}

/// True if a command changes nothing, whatever its arguments: the page of `--watch` may run it.
fn is_question(request: &CliRequest) -> bool {
    match request.name() {
        "ping" | "status" | "explain" | "vcl.list" | "vcl.show" | "ban.list" | "backend.list" | "bots.list"
        | "fleet.nodes" => true,
        "vcl.profile" => request.arg(0) == Some("show"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_watches_may_ask_and_change_nothing() {
        let is_allowed = |line: &str| {
            let words = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
            is_question(&CliRequest { line: line.into(), words, tolerant: false })
        };
        for line in [
            "ping",
            "explain -m GET http://a/",
            "vcl.list -j",
            "vcl.profile -j show",
            "vcl.show -v boot",
            "bots.list -j",
            "fleet.nodes -j",
        ] {
            assert!(is_allowed(line), "{line}");
        }
        for line in [
            "stop",
            "vcl.profile on",
            "vcl.profile -j off",
            "vcl.profile",
            "ban req.url ~ .",
            "auth x",
            "param.set a b",
        ] {
            assert!(!is_allowed(line), "{line}");
        }
        let changing = tables::cli_cmds::COMMANDS.iter().filter(|command| is_allowed(command.name));
        assert_eq!(changing.count(), 9, "a command of another kind than those above");
    }
}
