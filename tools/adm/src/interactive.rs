// SPDX-License-Identifier: BSD-2-Clause
//! Commands typed at a terminal: history, and completion of the command's name.

use admin::AdminConnection;
use cli::CliStatus;
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::DefaultHistory;
use rustyline::validate::Validator;
use rustyline::{CompletionType, Config, Context, Editor, Helper};
use toolkit::print;

use crate::Show;

const PROMPT: &str = "varnish> ";

struct Names(Vec<String>);

impl Helper for Names {}
impl Highlighter for Names {}
impl Hinter for Names {
    type Hint = String;
}
impl Validator for Names {}

impl Completer for Names {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> rustyline::Result<(usize, Vec<Pair>)> {
        let typed = line.get(..at).unwrap_or(line);
        // Only the first word is a command's name.
        if typed.contains(char::is_whitespace) {
            return Ok((at, Vec::new()));
        }
        let fits = self.0.iter().filter(|name| name.starts_with(typed));
        Ok((0, fits.map(|name| Pair { display: name.clone(), replacement: name.clone() }).collect()))
    }
}

/// The names in the reply to `help -j`: a version, the command, the time, then an object per command.
fn names(reply: &[u8]) -> Vec<String> {
    let parsed: serde_json::Value = serde_json::from_slice(reply).unwrap_or_default();
    let members = parsed.as_array().map(Vec::as_slice).unwrap_or_default();
    members.iter().filter_map(|m| Some(m.get("request")?.as_str()?.to_owned())).collect()
}

/// The token, if the line opens a text that goes on (`... << TOKEN`).
fn here_token(line: &str) -> Option<&str> {
    let mut words = line.split_ascii_whitespace().rev();
    let (token, mark) = (words.next()?, words.next()?);
    (mark == "<<").then_some(token)
}

pub fn run(connection: &mut AdminConnection) -> i32 {
    match talk(connection) {
        Ok(()) => 0,
        Err(status) => status.min(1),
    }
}

fn talk(connection: &mut AdminConnection) -> Result<(), i32> {
    // What is typed before the first prompt waits for it unchanged, a Tab too.
    let _keys = sys::tty::RawTerminal::new(sys::fd::standard(0));
    let banner = connection.ask(b"banner\n")?;
    crate::show_reply(&banner, Show::Interactive);
    let commands = names(&connection.ask(b"help -j\n")?.body);
    let config = Config::builder().completion_type(CompletionType::List).auto_add_history(true).build();
    let mut editor: Editor<Names, DefaultHistory> = Editor::with_config(config).map_err(|e| {
        print::err(format_args!("{e}\n"));
        1
    })?;
    editor.set_helper(Some(Names(commands)));
    loop {
        let line = match editor.readline(PROMPT) {
            Ok(line) => line,
            Err(ReadlineError::Eof | ReadlineError::Interrupted) => return Ok(()),
            Err(error) => {
                print::err(format_args!("{error}\n"));
                return Err(1);
            }
        };
        if line.trim().is_empty() {
            continue;
        }
        let mut text = format!("{line}\n");
        if let Some(token) = here_token(&line) {
            loop {
                let Ok(more) = editor.readline("") else { return Ok(()) };
                text.push_str(&more);
                text.push('\n');
                if more == token {
                    break;
                }
            }
        }
        // A manager has all the time it takes to compile.
        let _ = connection.stream.set_read_timeout(None);
        let reply = connection.ask(text.as_bytes())?;
        crate::show_reply(&reply, Show::Interactive);
        if reply.status == CliStatus::Close {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion() {
        let json = br#"[ 2, ["help", "-j"], 1.5, {"request": "vcl.load", "syntax": "x"}, {"request": "vcl.list"} ]"#;
        assert_eq!(names(json), ["vcl.load", "vcl.list"]);
        assert_eq!(names(b"nonsense"), Vec::<String>::new());
        assert_eq!(here_token("vcl.inline a << EOF"), Some("EOF"));
        assert_eq!(here_token("vcl.inline a"), None);
        assert_eq!(here_token(""), None);
    }
}
