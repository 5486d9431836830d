// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer explain`: asks a running server what would become of a request, and why.

use admin::refusal;
use toolkit::print;

use crate::words::AdmWords;
use crate::{Config, is_good};

const USAGE: &str = "\
Usage: lacquer explain [options] URL

Asks the running server whether this request would be a hit, and if not, why.
Runs vcl_recv and vcl_hash; nothing is fetched, logged or counted. Module functions with
side effects (purges, throttles, requests to other servers, stored values) aren't called:
the reply reports each such call and the value that VCL continues with.

 -n <dir>         Working directory of the server
 -T <host:port>   CLI address of the server
 -S <file>        CLI secret file
 -t <seconds|off> How long to wait for the server (default: 5)
 -m <method>      The request's method (default: GET); -X and --request are the same
 -I, --head       The method HEAD
 -H <field>       A header: -H 'Cookie: a=b'; may be repeated; --header is the same
 -A <text>        User-Agent; --user-agent is the same
 -b <text>        Cookie; --cookie is the same
 -e <URL>         Referer; --referer is the same
 -c <address>     The client's address (default: 0.0.0.0, which usually matches no ACL)
 -h               Show this help

Examples:
 lacquer explain http://www.example.com/news
 lacquer explain -H 'Accept-Language: de' -H 'Host: www.example.com' /news
 lacquer explain -X PURGE 127.0.0.1:6081/news
 lacquer explain --reasons   List all reasons with their meaning
";

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked.
pub fn main(args: &[String]) -> i32 {
    if args.iter().any(|word| word == "--reasons") {
        print::out(format_args!("{}", reasons()));
        return 0;
    }
    let args = match as_ours(args) {
        Ok(args) => args,
        Err(reason) => return refuse(&reason),
    };
    let words = match AdmWords::read(&args, &["-t", "-m", "-c", "-H"]) {
        Ok(Some(words)) => words,
        Ok(None) => {
            print::out(format_args!("{USAGE}"));
            return 0;
        }
        Err(reason) => return refuse(&reason),
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

/// curl's words for a request, said in ours.
fn as_ours(args: &[String]) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let mut args = args.iter();
    while let Some(word) = args.next() {
        let (flag, joined) = match word.as_str() {
            // A value may follow its letter at once.
            long if long.starts_with("--") || !long.starts_with('-') => (long, None),
            short if short.is_char_boundary(2) && short.len() > 2 && VALUED.contains(&&short[..2]) => {
                (&short[..2], Some(short[2..].to_owned()))
            }
            short => (short, None),
        };
        let mut value =
            || joined.clone().or_else(|| args.next().cloned()).ok_or_else(|| format!("{flag} needs a value"));
        let field = |name: &str, value: String| ["-H".to_owned(), format!("{name}: {value}")];
        match flag {
            "-X" | "--request" | "-m" => out.extend(["-m".to_owned(), value()?]),
            "-I" | "--head" => out.extend(["-m".to_owned(), "HEAD".to_owned()]),
            "-H" | "--header" => {
                let line = value()?;
                // `Name;` is a field without a value.
                let empty = line.strip_suffix(';').filter(|name| !name.contains(':'));
                out.extend(["-H".to_owned(), empty.map_or_else(|| line.clone(), |name| format!("{name}: "))]);
            }
            "-A" | "--user-agent" => out.extend(field("User-Agent", value()?)),
            "-e" | "--referer" => out.extend(field("Referer", value()?)),
            "-b" | "--cookie" => {
                let cookie = value()?;
                if !cookie.contains('=') {
                    return Err(format!("{flag} takes cookies (a=b; c=d), no file"));
                }
                out.extend(field("Cookie", cookie));
            }
            "--url" => out.push(value()?),
            flag if OURS.contains(&flag) => out.extend([flag.to_owned(), value()?]),
            _ => out.push(word.clone()),
        }
    }
    Ok(out)
}

/// Letters with a value.
const VALUED: [&str; 5] = ["-X", "-H", "-A", "-b", "-e"];
/// Flags with a value that are our own.
const OURS: [&str; 5] = ["-n", "-T", "-S", "-t", "-c"];

fn refuse(reason: &str) -> i32 {
    print::err(format_args!("lacquer explain: {reason}\n{USAGE}"));
    2
}

fn ask(config: &Config, command: &[String]) -> i32 {
    let Some(mut connection) = config.connect() else { return 2 };
    match connection.ask(&cli::client::encode(command)) {
        Ok(reply) if is_good(reply.status) => {
            print::foreign(reply.text());
            0
        }
        Ok(reply) => {
            print::foreign_err(format_args!("{}\n", refusal(&reply)));
            1
        }
        Err(status) => status.clamp(1, 2),
    }
}

/// The meaning of the words in the log, in Cache-Status and in the answers.
pub fn reasons() -> String {
    use tables::no_hit::{NoHit, Uncacheable};
    let row = |word: &str, text: &str| format!("  {word:<20} {text}\n");
    let mut out = "Why a request was no hit:\n".to_owned();
    NoHit::ALL.iter().for_each(|reason| out.push_str(&row(reason.word(), reason.text())));
    out.push_str("\nWhy an answer became hit-for-miss or hit-for-pass:\n");
    Uncacheable::ALL.iter().for_each(|reason| out.push_str(&row(reason.word(), reason.text())));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(words: &[&str]) -> Result<String, String> {
        as_ours(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).map(|words| words.join("|"))
    }

    #[test]
    fn what_curl_takes_is_taken() {
        assert_eq!(ours(&["-XPURGE", "-H", "a: b", "h/x"]).unwrap(), "-m|PURGE|-H|a: b|h/x");
        assert_eq!(ours(&["--request", "BAN", "--header", "a;", "-Hb:c"]).unwrap(), "-m|BAN|-H|a: |-H|b:c");
        assert_eq!(ours(&["-I", "-b", "a=b", "-A", "x"]).unwrap(), "-m|HEAD|-H|Cookie: a=b|-H|User-Agent: x");
        assert_eq!(ours(&["-n", "-x", "--url", "/"]).unwrap(), "-n|-x|/");
        assert_eq!(ours(&["-b", "jar"]), Err("-b takes cookies (a=b; c=d), no file".to_owned()));
        assert_eq!(ours(&["-X"]), Err("-X needs a value".to_owned()));
        assert_eq!(
            AdmWords::read(&["--resolve".to_owned()], &[]),
            Err("no option --resolve (--help shows the usage)".to_owned())
        );
    }
}
