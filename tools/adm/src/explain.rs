// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer explain`: asks a running server what would become of a request, and why.

use base::say;

use crate::words::Words;
use crate::{Config, is_good};

const USAGE: &str = "\
Usage: lacquer explain [options] URL

Asks the running server whether this request would be a hit, and if not, why.
vcl_recv and vcl_hash run; nothing is fetched, logged or counted.

 -n <dir>         The working directory of the server
 -T <host:port>   Where its manager listens
 -S <file>        The secret file
 -t <seconds|off> How long to wait (default: 5)
 -m <method>      The request's method (default: GET)
 -H <field>       A header line: -H 'Cookie: a=b'; may be repeated
 -c <address>     The client's address (default: 127.0.0.1)
 -h               This text

Examples:
 lacquer explain http://www.example.com/news
 lacquer explain -H 'Accept-Language: de' -H 'Host: www.example.com' /news
 lacquer explain --reasons   What the words mean
";

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked.
pub fn main(args: &[String]) -> i32 {
    if args.iter().any(|word| word == "--reasons") {
        say::out(format_args!("{}", reasons()));
        return 0;
    }
    let words = match Words::read(args, &["-t", "-m", "-c", "-H"]) {
        Ok(Some(words)) => words,
        Ok(None) => {
            say::out(format_args!("{USAGE}"));
            return 0;
        }
        Err(why) => return refuse(&why),
    };
    let url = match &words.rest[..] {
        [] => return refuse("which URL?"),
        [url] => url,
        _ => return refuse("one URL at a time"),
    };
    let mut command = vec!["explain".to_owned()];
    for flag in ["-m", "-c"] {
        command.extend(words.last(flag).into_iter().flat_map(|value| [flag.to_owned(), value.to_owned()]));
    }
    command.push(url.clone());
    command.extend(words.all("-H").map(str::to_owned));
    ask(&Config { timeout: words.last("-t").map(str::to_owned), ..words.config() }, &command)
}

fn refuse(why: &str) -> i32 {
    say::err(format_args!("lacquer explain: {why}\n{USAGE}"));
    2
}

fn ask(config: &Config, command: &[String]) -> i32 {
    let Some(mut connection) = config.connect() else { return 2 };
    match connection.ask(&cli::client::encode(command)) {
        Ok(reply) if is_good(reply.status) => {
            say::out(format_args!("{}", reply.text()));
            0
        }
        Ok(reply) => {
            say::err(format_args!("{}\n", reply.text().trim_end()));
            1
        }
        Err(status) => status.clamp(1, 2),
    }
}

/// What the words in the log, in Cache-Status and in the answers mean.
pub fn reasons() -> String {
    use tables::no_hit::{NoHit, Uncacheable};
    let row = |word: &str, text: &str| format!("  {word:<20} {text}\n");
    let mut out = "Why a request was no hit:\n".to_owned();
    NoHit::ALL.iter().for_each(|reason| out.push_str(&row(reason.word(), reason.text())));
    out.push_str("\nWhy an answer became hit-for-miss or hit-for-pass:\n");
    Uncacheable::ALL.iter().for_each(|reason| out.push_str(&row(reason.word(), reason.text())));
    out
}
