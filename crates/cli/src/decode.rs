// SPDX-License-Identifier: BSD-2-Clause
//! The server's end: bytes in, commands out. A command is a line, or a line that ends in `<< TOKEN` and the text up to
//! TOKEN at the end of a line.

use std::collections::VecDeque;

use tables::cli_cmds::{self, CliCommand, WorkerCommand};

use crate::reply::{BAN_EXAMPLE, CliReply, CliStatus};
use crate::words::{WordError, is_space, split};

/// The longest line of who has not authenticated.
const OPEN_LINE: usize = 80;
/// The longest command: VCL arrives in one.
const LONGEST: usize = 64 << 20;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CliRequest {
    /// The line, for the log (`Rd ...`); of a text after `<<` only the line.
    pub line: Vec<u8>,
    /// Command and arguments; the text after `<< TOKEN` is the last.
    pub words: Vec<Vec<u8>>,
    /// The line began with `-`: in a `-I` file its failure does not end the reading.
    pub tolerant: bool,
}

impl CliRequest {
    /// The command's name; empty when it is not UTF-8 (no command is).
    pub fn name(&self) -> &str {
        self.words.first().and_then(|w| std::str::from_utf8(w).ok()).unwrap_or_default()
    }

    pub fn wants_json(&self) -> bool {
        self.words.get(1).is_some_and(|w| w == b"-j")
    }

    /// The arguments, without a leading `-j`.
    pub fn args(&self) -> &[Vec<u8>] {
        self.words.get(1 + usize::from(self.wants_json())..).unwrap_or_default()
    }

    /// Argument number `index` (`-j` not counted) as text; `None` when it is missing or not UTF-8.
    pub fn arg(&self, index: usize) -> Option<&str> {
        self.args().get(index).and_then(|w| std::str::from_utf8(w).ok())
    }

    /// The arguments of a command that takes the words in them: `ban "req.url ~ a"` has three. varnishd passes a ban on without
    /// its quotes; here an argument with blanks is still one where they all make sense as they are.
    pub fn split_args(&self) -> Vec<Vec<u8>> {
        let args = self.args();
        if args.len() % 4 == 3 {
            return args.to_vec();
        }
        args.iter().flat_map(|arg| arg.split(|&b| is_space(b))).filter(|w| !w.is_empty()).map(<[u8]>::to_vec).collect()
    }

    /// The command's entry, after the checks every server makes; what to answer otherwise.
    pub fn command(&self, authenticated: bool) -> Result<&'static CliCommand, CliReply> {
        let name = self.name();
        match self.words.first().and_then(|w| w.first()) {
            Some(b) if b.is_ascii_uppercase() => {
                let text = "Unknown request.\nType 'help' for more info.\nall commands are in lower-case.\n";
                return Err(CliReply::new(CliStatus::Unknown, text));
            }
            _ => {}
        }
        let command = cli_cmds::lookup(name).filter(|c| authenticated || c.open);
        let command =
            command.ok_or_else(|| if authenticated { CliReply::unknown_as(name) } else { CliReply::unknown() })?;
        self.check_args(command)?;
        Ok(command)
    }

    fn check_args(&self, command: &CliCommand) -> Result<(), CliReply> {
        if self.wants_json() && !command.json {
            return Err(CliReply::new(CliStatus::Unimplemented, "JSON unimplemented\n"));
        }
        // `help -j` and `help -a` count their flags no more than `-j` is counted.
        let given = if command.split { self.split_args().len() } else { self.args().len() };
        if given < command.min_args {
            return Err(misused(CliReply::new(CliStatus::TooFew, "Too few parameters\n"), command));
        }
        if command.max_args.is_some_and(|max| self.args().len() > max) {
            return Err(misused(CliReply::new(CliStatus::TooMany, "Too many parameters\n"), command));
        }
        Ok(())
    }
}

fn misused(refusal: CliReply, command: &CliCommand) -> CliReply {
    let reply = refusal.line(&format!("Usage: {}", command.syntax));
    if command.worker == Some(WorkerCommand::Ban) { reply.line(BAN_EXAMPLE) } else { reply }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    Words(WordError),
    /// A line without a word (`""` has one).
    Empty,
    /// More than anyone needs to send; close the connection.
    TooLong,
}

impl DecodeError {
    pub fn reply(&self) -> CliReply {
        let text = match self {
            Self::Words(error) => format!("Unknown request.\nType 'help' for more info.\nSyntax Error: {error}\n"),
            Self::Empty => "Unknown request.\nType 'help' for more info.\nEmpty CLI command.\n".to_owned(),
            Self::TooLong => return CliReply::new(CliStatus::Close, "Command too long\n"),
        };
        CliReply::new(CliStatus::Syntax, text)
    }
}

#[derive(Debug, Default)]
pub struct CliDecoder {
    authenticated: bool,
    line: Vec<u8>,
    here: Option<HereDocument>,
    ready: VecDeque<Result<CliRequest, DecodeError>>,
    /// Bytes that came after a command while that one was still to be looked at.
    waiting: Vec<u8>,
}

#[derive(Debug)]
struct HereDocument {
    request: CliRequest,
    token: Vec<u8>,
    text: Vec<u8>,
}

impl CliDecoder {
    /// For a connection that has not authenticated: lines are cut at 80 bytes, there is no `<<`.
    pub fn new() -> Self {
        Self::default()
    }

    /// For a connection that needs no authentication: a pipe, a file, `-S none`.
    pub fn trusted() -> Self {
        Self { authenticated: true, ..Self::default() }
    }

    pub fn set_authenticated(&mut self) {
        self.authenticated = true;
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The bytes that a decoder of the same state has to be fed to know as much as this one; `None` in the midst of a command's
    /// text, or with commands that nobody has taken yet.
    pub fn unread(&self) -> Option<Vec<u8>> {
        let is_between = self.here.is_none() && self.ready.is_empty();
        is_between.then(|| [&self.line[..], &self.waiting].concat())
    }

    /// The next command, or what is wrong with it; `None` until more bytes come.
    ///
    /// Commands are cut off one at a time, so that [`CliDecoder::set_authenticated`] counts for all that follow.
    pub fn next_request(&mut self) -> Option<Result<CliRequest, DecodeError>> {
        let bytes = std::mem::take(&mut self.waiting);
        let mut used = 0;
        while self.ready.is_empty() && used < bytes.len() {
            self.take_byte(bytes[used]);
            used += 1;
        }
        self.waiting = bytes;
        self.waiting.drain(..used);
        self.ready.pop_front()
    }

    /// The end of a file: what stands in the last line without a newline is a command too.
    pub fn finish(&mut self) -> Option<Result<CliRequest, DecodeError>> {
        self.feed(b"\n");
        self.next_request()
    }

    fn take_byte(&mut self, byte: u8) {
        match &mut self.here {
            Some(here) => {
                here.text.push(byte);
                let done = matches!(byte, b'\n' | b'\r') && here.text[..here.text.len() - 1].ends_with(&here.token);
                if done || here.text.len() > LONGEST {
                    self.end_here(done);
                }
            }
            None if self.line.is_empty() && is_space(byte) => {}
            None => {
                let end = matches!(byte, b'\n' | b'\r');
                if !end {
                    self.line.push(byte);
                }
                if end || (!self.authenticated && self.line.len() >= OPEN_LINE) || self.line.len() > LONGEST {
                    self.end_line();
                }
            }
        }
    }

    fn end_here(&mut self, done: bool) {
        let Some(HereDocument { mut request, token, mut text }) = self.here.take() else { return };
        if !done {
            self.ready.push_back(Err(DecodeError::TooLong));
            return;
        }
        text.truncate(text.len() - 1 - token.len());
        request.words.push(text);
        self.ready.push_back(Ok(request));
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.len() > LONGEST {
            self.ready.push_back(Err(DecodeError::TooLong));
            return;
        }
        let tolerant = line.first() == Some(&b'-');
        let mut words = match split(&line[usize::from(tolerant)..]) {
            Err(error) => return self.ready.push_back(Err(DecodeError::Words(error))),
            Ok(words) if words.is_empty() => return self.ready.push_back(Err(DecodeError::Empty)),
            Ok(words) => words,
        };
        match words.as_slice() {
            [.., mark, token] if self.authenticated && mark == b"<<" && !token.is_empty() => {
                let token = token.clone();
                words.truncate(words.len() - 2);
                self.here =
                    Some(HereDocument { request: CliRequest { line, words, tolerant }, token, text: Vec::new() });
            }
            _ => self.ready.push_back(Ok(CliRequest { line, words, tolerant })),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_unread_can_be_read_elsewhere() {
        let (mut first, mut second) = (CliDecoder::trusted(), CliDecoder::trusted());
        first.feed(b"ping\nstat");
        assert!(first.next_request().is_some());
        assert!(first.next_request().is_none());
        second.feed(&first.unread().unwrap());
        second.feed(b"us\n");
        assert_eq!(second.next_request().unwrap().unwrap().name(), "status");
        first.feed(b"us\nvcl.inline a << E\nvcl");
        while first.next_request().is_some() {}
        assert_eq!(first.unread(), None);
    }

    fn all(decoder: &mut CliDecoder, bytes: &[u8]) -> Vec<Result<CliRequest, DecodeError>> {
        decoder.feed(bytes);
        std::iter::from_fn(|| decoder.next_request()).collect()
    }

    fn check(bytes: &str, want: &str) {
        let got = all(&mut CliDecoder::trusted(), bytes.as_bytes());
        let show = |r: &Result<CliRequest, DecodeError>| match r {
            Ok(r) => r.words.iter().map(|w| w.escape_ascii().to_string()).collect::<Vec<_>>().join("|"),
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(got.iter().map(show).collect::<Vec<_>>().join(";"), want, "{bytes}");
    }

    #[test]
    fn lines() {
        check("ping\nstatus -j\r\n\n  help\n", "ping;status|-j;help");
        check("-vcl.load a \"b c\"\n", "vcl.load|a|b c");
        check("\"\n-\nping\n", "Words(MissingQuote);Empty;ping");
        check("ping", "");
    }

    #[test]
    fn here_documents() {
        check("vcl.inline a << %X\nvcl 4.1;\n# %X y\n%X\nping\n", "vcl.inline|a|vcl 4.1;\\n# %X y\\n;ping");
        check("vcl.inline a << %%X\n%%%X\n", "vcl.inline|a|%");
        check("vcl.inline << \"\"\n", "vcl.inline|<<|");
        let token = "%XJEIFLH|)Xspa8P";
        check(&format!("vcl.inline vcl1 << {token}\nvcl 4.1;\n{token}\n"), "vcl.inline|vcl1|vcl 4.1;\\n");
    }

    #[test]
    fn before_authentication() {
        let mut decoder = CliDecoder::new();
        let got = all(&mut decoder, format!("auth {}\n", "x".repeat(100)).as_bytes());
        assert_eq!(got[0].as_ref().unwrap().line.len(), 80);
        let mut decoder = CliDecoder::new();
        decoder.feed(b"auth x\nvcl.inline a << X\nb\nX\n");
        assert_eq!(decoder.next_request().unwrap().unwrap().name(), "auth");
        decoder.set_authenticated();
        assert_eq!(decoder.next_request().unwrap().unwrap().words[2], b"b\n");
    }

    #[test]
    fn checks_every_server_makes() {
        let answer = |line: &str, authenticated| {
            let request = all(&mut CliDecoder::trusted(), line.as_bytes()).remove(0).unwrap();
            match request.command(authenticated) {
                Ok(command) => command.name.to_owned(),
                Err(reply) => format!("{} {}", reply.status.number(), reply.text()),
            }
        };
        assert_eq!(answer("ping -j\n", false), "ping");
        assert!(answer("vcl.list\n", false).starts_with("101 Unknown request."));
        assert!(answer("PING\n", true).ends_with("all commands are in lower-case.\n"));
        let usage = "Usage: param.set [-j] <param> <value>\n";
        assert_eq!(answer("param.set a\n", true), format!("104 Too few parameters\n{usage}"));
        assert_eq!(answer("param.set -j a\n", true), format!("104 Too few parameters\n{usage}"));
        assert_eq!(answer("stop now\n", true), "105 Too many parameters\nUsage: stop\n");
        assert_eq!(answer("stop -j\n", true), "102 JSON unimplemented\n");
        for ban in ["ban req.url ~ a\n", "ban \"req.url ~ a\"\n", "ban \"req.url ~\" a\n", "ban req.url ~ \"a b\"\n"] {
            assert_eq!(answer(ban, true), "ban");
        }
        for ban in ["ban \"req.url ~ \"\n", "ban \"\"\n", "ban /news\n"] {
            let wanted =
                format!("104 Too few parameters\nUsage: {}\n{BAN_EXAMPLE}\n", cli_cmds::lookup("ban").unwrap().syntax);
            assert_eq!(answer(ban, true), wanted);
        }
        assert_eq!(answer("ban.hash x\n", true).split(' ').next(), Some("101"));
    }

    proptest! {
        #[test]
        fn how_bytes_are_cut_does_not_matter(text in "[a-c\"\\\\<X \n]{0,60}", at in 0usize..60) {
            let whole = all(&mut CliDecoder::trusted(), text.as_bytes());
            let (a, b) = text.as_bytes().split_at(at.min(text.len()));
            let mut decoder = CliDecoder::trusted();
            let mut parts = all(&mut decoder, a);
            parts.extend(all(&mut decoder, b));
            prop_assert_eq!(parts, whole);
        }

        #[test]
        fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..200), trusted: bool) {
            let mut decoder = if trusted { CliDecoder::trusted() } else { CliDecoder::new() };
            for request in all(&mut decoder, &bytes) {
                match request {
                    Ok(request) => drop(request.command(trusted)),
                    Err(error) => drop(error.reply()),
                }
            }
        }
    }
}
