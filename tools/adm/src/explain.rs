// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer explain`: asks a running server what would become of a request, and why.

use admin::refusal;
use toolkit::args::Args;
use toolkit::opt;
use toolkit::options::{HelpPart, Opt};
use toolkit::print;
use toolkit::tool::Tool;

use crate::words::{AdmTool, AdmWords, tool};
use crate::{Config, is_good};

const INTRODUCTION: &str = "\
Usage: lacquer explain [options] URL

Asks the running server whether this request would be a hit, and if not, why.
Runs vcl_recv and vcl_hash; nothing is fetched, logged or counted. Module functions with
side effects (purges, throttles, requests to other servers, stored values) aren't called:
the reply reports each such call and the value that VCL continues with.

";

const EPILOGUE: &str = "
Examples:
 lacquer explain http://www.example.com/news
 lacquer explain -H 'Accept-Language: de' -H 'Host: www.example.com' /news
 lacquer explain -X PURGE 127.0.0.1:6081/news
 lacquer explain --reasons   List all reasons with their meaning
";

const HELP: &[HelpPart<AdmWords>] = &[
    (
        INTRODUCTION,
        &[
            AdmWords::WORKDIR,
            AdmWords::ADDRESS,
            AdmWords::SECRET,
            AdmWords::TIMEOUT,
            opt!("-m <method>": "The request's method (default: GET); -X and --request are the same" =>
                |words, args| words.keep("-m", args.value()?)),
            Opt::glued(opt!("" | "-X" | "--request": "" => |words, args| words.keep("-m", args.value()?))),
            opt!("-I, --head": "The method HEAD" => |words, _| words.keep("-m", "HEAD")),
            Opt::glued(
                opt!("-H <field>" | "--header": "A header: -H 'Cookie: a=b'; may be repeated; --header is the same" => |words, args| {
                    let line = args.value()?;
                    // `Name;` is a field without a value.
                    match line.strip_suffix(';').filter(|name| !name.contains(':')) {
                        Some(name) => words.header(name, ""),
                        None => words.keep("-H", line),
                    }
                }),
            ),
            Opt::glued(opt!("-A <text>" | "--user-agent": "User-Agent; --user-agent is the same" =>
                |words, args| words.header("User-Agent", args.value()?))),
            Opt::glued(opt!("-b <text>" | "--cookie": "Cookie; --cookie is the same" =>
                |words, args| words.header("Cookie", cookies(args)?))),
            Opt::glued(opt!("-e <URL>" | "--referer": "Referer; --referer is the same" =>
                |words, args| words.header("Referer", args.value()?))),
            AdmWords::flag("-c <address>", "The client's address (default: 0.0.0.0, which usually matches no ACL)"),
            Opt::HELP,
            opt!("" | "--url": "" => |words, args| words.word(args.value()?)?),
        ],
    ),
    (EPILOGUE, &[]),
];

pub const TOOL: AdmTool = Tool { column: 18, ..tool("lacquer explain", HELP) };

/// Runs it: the exit status. 1: the server couldn't say; 2: it wasn't asked.
pub fn main(args: &[String]) -> i32 {
    if args.iter().any(|word| word == "--reasons") {
        print::out(format_args!("{}", reasons()));
        return 0;
    }
    let words = match TOOL.settle(TOOL.read(AdmWords::default(), args)) {
        Ok(words) => words,
        Err(status) => return status,
    };
    let url = match &words.rest[..] {
        [] => return TOOL.refuse("which URL?"),
        [url] => url,
        _ => return TOOL.refuse("one URL at a time"),
    };
    let mut command = vec!["explain".to_owned()];
    for flag in ["-m", "-c"] {
        command.extend(words.last(flag).into_iter().flat_map(|value| [flag.to_owned(), value.to_owned()]));
    }
    command.push(url.clone());
    command.extend(words.all("-H").map(str::to_owned));
    ask(&Config { timeout: words.last("-t").map(str::to_owned), ..words.config() }, &command)
}

impl AdmWords {
    fn header(&mut self, name: &str, value: &str) {
        self.keep("-H", &format!("{name}: {value}"));
    }
}

/// Cookies as curl takes them; it also takes the name of a file.
fn cookies<'a>(args: &mut Args<'a>) -> Result<&'a str, String> {
    let text = args.value()?;
    if text.contains('=') { Ok(text) } else { Err(format!("{} takes cookies (a=b; c=d), no file", args.name())) }
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
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let words = TOOL.read(AdmWords::default(), &words)?.ok_or("help")?;
        let flags = ["-n", "-m", "-H"].into_iter().flat_map(|flag| words.all(flag).map(move |value| [flag, value]));
        let flags: Vec<&str> = flags.flatten().collect();
        Ok([flags, words.rest.iter().map(String::as_str).collect()].concat().join("|"))
    }

    #[test]
    fn what_curl_takes_is_taken() {
        assert_eq!(ours(&["-XPURGE", "-H", "a: b", "h/x"]).unwrap(), "-m|PURGE|-H|a: b|h/x");
        assert_eq!(ours(&["--request", "BAN", "--header", "a;", "-Hb:c"]).unwrap(), "-m|BAN|-H|a: |-H|b:c");
        assert_eq!(ours(&["-I", "-b", "a=b", "-A", "x"]).unwrap(), "-m|HEAD|-H|Cookie: a=b|-H|User-Agent: x");
        assert_eq!(ours(&["-n", "-x", "--url", "/"]).unwrap(), "-n|-x|/");
        assert_eq!(ours(&["-b", "jar"]), Err("-b takes cookies (a=b; c=d), no file".to_owned()));
        assert_eq!(ours(&["-X"]), Err("-X needs a value".to_owned()));
        assert_eq!(ours(&["--resolve"]), Err("no option --resolve (--help shows the usage)".to_owned()));
    }
}
