// SPDX-License-Identifier: BSD-2-Clause
//! varnishadm: commands to the manager, one from the command line or many from standard input.

#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod drain;
pub mod explain;
pub mod fleet;
mod interactive;
pub mod memory;
pub mod profile;
mod quoting;
pub mod status;
pub mod tls;
pub mod upgrade;
mod words;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::time::Duration;

use admin::{AdminConnection, Door, is_good};
use base::text::printable;
use cli::{CliDecoder, CliReply, CliStatus};
use logq::getopt::OptError;
use logq::tool::Attach;
use sys::fd::Interest;
use toolkit::print;

const OPTSTRING: &str = "hn:pS:T:t:";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Show {
    Script,
    /// The status and the body.
    Interactive,
    /// The reply as it came (-p).
    Protocol,
}

#[derive(Clone, Debug, Default)]
struct Config {
    name: Option<String>,
    secret: Option<String>,
    address: Option<String>,
    timeout: Option<String>,
    /// Seconds to wait for replies if -t isn't given. A server is waited for only with -t.
    patience: Option<u64>,
    protocol: bool,
}

fn usage(program: &str, status: i32) -> i32 {
    print::err(USAGE.replace("{program}", program));
    if status == 0 {
        print::err(HELP.replace("{program}", program));
    }
    status
}

const USAGE: &str = "\
Usage: {program} [-h] [-n ident] [-p] [-S secretfile] [-T [address]:port] [-t timeout] [command [...]]
\t-n is mutually exclusive with -S and -T
";

const HELP: &str = "
 -n <dir>         Working directory or instance name of the server
 -p               Print raw replies: status, length, text
 -S <file>        CLI secret file
 -T <host:port>   CLI address of the server
 -t <seconds|off> How long to wait for the server (default: 5)
Without a command, commands are read from standard input; on a terminal with history and completion (Tab).

Examples:
 {program} ban 'req.url ~ ^/news'
 {program} param.set query_drop 'utm_* fbclid'
 {program} -T localhost:6082 -S /etc/varnish/secret vcl.list
";

pub fn main(program: &str, args: &[String]) -> i32 {
    if args == ["--optstring"] {
        print::out(format_args!("{OPTSTRING}\n"));
        return 0;
    }
    if args == ["--help"] {
        // On standard output, as every command's; -h is on standard error, where Varnish's tool has it.
        print::out(format!("{USAGE}{HELP}").replace("{program}", program));
        return 0;
    }
    let mut config = Config::default();
    let mut rest = args;
    while let Some((word, tail)) = rest.split_first() {
        if word == "--" {
            rest = tail;
            break;
        }
        let Some(letters) = word.strip_prefix('-').filter(|l| !l.is_empty()) else { break };
        if letters.starts_with('-') {
            print::err(format_args!("{program}: {}\n", OptError::Long(word.clone(), None)));
            return usage(program, 1);
        }
        rest = match config.cluster(letters, tail) {
            ParsedArgs::Rest(rest) => rest,
            ParsedArgs::Help => return usage(program, 0),
            ParsedArgs::Bad(error) => {
                print::err(format_args!("{program}: {error}\n"));
                return usage(program, 1);
            }
        };
    }
    if (config.address.is_some() && config.name.is_some()) || (config.address.is_none() && config.secret.is_some()) {
        return usage(program, 1);
    }
    let Some(mut connection) = config.connect() else { return 2 };
    let show = if config.protocol { Show::Protocol } else { Show::Script };
    if !rest.is_empty() {
        return one(&mut connection, rest, show);
    }
    if io::stdin().is_terminal() && !config.protocol {
        return interactive::run(&mut connection);
    }
    pass(&mut connection, show)
}

enum ParsedArgs<'a> {
    Rest(&'a [String]),
    Help,
    Bad(OptError),
}

impl Config {
    fn cluster<'a>(&mut self, letters: &str, tail: &'a [String]) -> ParsedArgs<'a> {
        for (at, letter) in letters.char_indices() {
            let place = match letter {
                'h' => return ParsedArgs::Help,
                'p' => {
                    self.protocol = true;
                    continue;
                }
                'n' => &mut self.name,
                'S' => &mut self.secret,
                'T' => &mut self.address,
                't' => &mut self.timeout,
                other => return ParsedArgs::Bad(OptError::Unknown(other)),
            };
            let glued = &letters[at + 1..];
            let (value, tail) = match (glued, tail.split_first()) {
                ("", Some((value, tail))) => (value.as_str(), tail),
                ("", None) => return ParsedArgs::Bad(OptError::NoValue(letter)),
                (glued, _) => (glued, tail),
            };
            *place = Some(value.to_owned());
            return ParsedArgs::Rest(tail);
        }
        ParsedArgs::Rest(tail)
    }

    fn attach(&self) -> Result<Attach, String> {
        let mut attach = Attach::to(self.name.clone());
        match (&self.timeout, self.patience) {
            (Some(value), _) => attach.timeout(value)?,
            (None, Some(seconds)) => attach.timeout = Some(Duration::from_secs(seconds)),
            (None, None) => {}
        }
        Ok(attach)
    }

    /// A connection to the manager by address or name; what goes wrong is said on standard error.
    fn connect(&self) -> Option<AdminConnection> {
        let attach = match self.attach() {
            Ok(attach) => attach,
            Err(text) => {
                print::err(format_args!("{text}\n"));
                return None;
            }
        };
        match &self.address {
            Some(address) => opened(AdminConnection::open(address, self.secret.as_deref(), attach.timeout)),
            None => by_name(&attach),
        }
    }
}

fn by_name(attach: &Attach) -> Option<AdminConnection> {
    let found = attach.wait_asleep().inspect_err(|text| print::foreign_err(format_args!("{text}\n")));
    let workdir = found.ok()?;
    let Some(door) = Door::of(&workdir) else {
        print::err("No -T in shared memory\n");
        return None;
    };
    opened(door.open(attach.timeout))
}

/// A connection; what went wrong is said on standard error.
fn opened(result: Result<AdminConnection, String>) -> Option<AdminConnection> {
    result.inspect_err(|text| print::err(format_args!("{text}\n"))).ok()
}

fn show_reply(reply: &CliReply, show: Show) {
    let mut out = io::stdout().lock();
    let number = reply.status.number();
    let written = match show {
        Show::Protocol => {
            writeln!(out, "{number:<3} {:<8}", reply.body.len()).and_then(|()| out.write_all(&reply.body))
        }
        Show::Script | Show::Interactive => {
            let head = if show == Show::Interactive { format!("{number}\n") } else { String::new() };
            let tail: &[u8] =
                if reply.status == CliStatus::Truncated { b"\n[response was truncated]\n" } else { b"\n" };
            // Bans have texts in them that whoever sends a request may have chosen.
            let body = match out.is_terminal() {
                true => printable(&reply.text()).into_bytes().into(),
                false => Cow::Borrowed(&reply.body[..]),
            };
            out.write_all(head.as_bytes()).and_then(|()| out.write_all(&body)).and_then(|()| out.write_all(tail))
        }
    };
    // Nobody reads: nothing is left to do with what else comes.
    if written.and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

/// Sends a command from the command line: the words as they are, so that quotes reach the manager, as Varnish's tool does; and where that is
/// refused, with each word that has blanks in it as one argument.
fn one(connection: &mut AdminConnection, words: &[String], show: Show) -> i32 {
    let mut ask = |line: &[u8]| connection.ask(&[line, b"\n"].concat());
    let mut reply = match ask(words.join(" ").as_bytes()) {
        Ok(reply) => reply,
        Err(status) => return status.min(1),
    };
    if let Some(line) = quoting::other_reading(words, reply.status) {
        match ask(&line) {
            Ok(second) if quoting::is_better(reply.status, second.status) => reply = second,
            Ok(_) => {}
            Err(status) => return status.min(1),
        }
    }
    show_reply(&reply, show);
    if is_good(reply.status) {
        return 0;
    }
    if show != Show::Protocol {
        print::err(format_args!("Command failed with error code {}\n", reply.status.number()));
    }
    1
}

/// Passes standard input on and shows replies, until the input ends and all its commands are answered.
fn pass(connection: &mut AdminConnection, show: Show) -> i32 {
    let mut buffer = [0; 4096];
    let mut is_open = true;
    // Reads the commands as the manager does, to know how many replies will come.
    let mut commands = CliDecoder::trusted();
    let mut unanswered = 0u64;
    while is_open || unanswered > 0 {
        let stdin = sys::fd::standard(0);
        let mut wants = vec![(connection.stream.as_fd(), Interest::Read)];
        if is_open {
            wants.push((stdin, Interest::Read));
        }
        let Ok(ready) = sys::fd::wait_any(&wants, None) else { return 1 };
        if ready[0] {
            loop {
                match connection.try_reply() {
                    Ok(Some(reply)) => {
                        show_reply(&reply, show);
                        unanswered = unanswered.saturating_sub(1);
                    }
                    Ok(None) => break,
                    Err(status) => return status.min(1),
                }
            }
        }
        if ready.get(1) == Some(&true) {
            // Not through std's buffer, which would hide from poll what it holds.
            match sys::fd::read(stdin, &mut buffer) {
                Ok(0) | Err(_) => is_open = false,
                Ok(n) => {
                    if connection.send(&buffer[..n]).is_err() {
                        return 1;
                    }
                    commands.feed(&buffer[..n]);
                    while commands.next_request().is_some() {
                        unanswered += 1;
                    }
                }
            }
        }
    }
    0
}
