// SPDX-License-Identifier: BSD-2-Clause
//! Commands for the server's CLI: questions by anybody who may look, changes only if `--control` allows them.
//!
//! Each command is built here from checked words; text from a browser is never used as a command. If the server has started this process,
//! questions go over the [`CliChannel`] that it has given, and the secret is needed only for changes.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use admin::{AdminConnection, Door, is_good};
use cli::CliReply;
use logq::Redaction;
use serde_json::{Value, json};

use crate::state::WatchShared;
use crate::text::shown;

/// Time limit of a CLI command.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum length of a word, in bytes.
const MAX_WORD: usize = 4096;
/// Maximum number of headers in a request to explain.
const MAX_FIELDS: usize = 50;

#[derive(Clone, PartialEq, Debug)]
pub enum ControlQuestion {
    Explain {
        method: String,
        /// Absolute URL, with the host.
        url: String,
        fields: Vec<String>,
    },
    Vcls,
    Bans,
    Fleet,
    Costs,
    /// Lists the backends of the VCL in use, with the verdicts of probes and of `backend.set_health`.
    Backends,
    /// The cost of each line of the VCL in use, as far as it was counted.
    Profile,
    SetProfile(bool),
    Ban(String),
    /// Bans one URL of a host.
    Purge {
        host: String,
        url: String,
    },
    UseVcl(String),
}

impl ControlQuestion {
    pub fn read(what: &str, body: &Value) -> Result<ControlQuestion, String> {
        let word = |name: &str| {
            let text = body.get(name).and_then(Value::as_str).unwrap_or_default().trim();
            match text {
                "" => Err(format!("{name} is missing")),
                _ if text.len() > MAX_WORD => Err(format!("{name} is too long")),
                _ if text.chars().any(char::is_control) => Err(format!("{name} has a control character")),
                _ => Ok(text.to_owned()),
            }
        };
        Ok(match what {
            "explain" => {
                let lines = body.get("fields").and_then(Value::as_str).unwrap_or_default();
                let fields: Vec<String> =
                    lines.lines().map(str::trim).filter(|l| !l.is_empty()).map(str::to_owned).collect();
                if fields.len() > MAX_FIELDS
                    || fields.iter().any(|f| f.len() > MAX_WORD || f.chars().any(char::is_control))
                {
                    return Err("too many or too long fields".to_owned());
                }
                let method = word("method").unwrap_or_else(|_| "GET".to_owned());
                if !method.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_') {
                    return Err("that is no method".to_owned());
                }
                ControlQuestion::Explain { method, url: option_free(word("url")?)?, fields }
            }
            "vcls" => ControlQuestion::Vcls,
            "bans" => ControlQuestion::Bans,
            "fleet" => ControlQuestion::Fleet,
            "costs" => ControlQuestion::Costs,
            "profile" => ControlQuestion::Profile,
            "set-profile" => {
                ControlQuestion::SetProfile(body.get("on").and_then(Value::as_bool).ok_or("on is missing")?)
            }
            "ban" => ControlQuestion::Ban(option_free(word("expression")?)?),
            "purge" => ControlQuestion::Purge { host: word("host")?, url: word("url")? },
            "use-vcl" => ControlQuestion::UseVcl(option_free(word("name")?)?),
            _ => return Err("there is nothing of that name".to_owned()),
        })
    }

    pub fn is_change(&self) -> bool {
        match self {
            ControlQuestion::Explain { .. }
            | ControlQuestion::Vcls
            | ControlQuestion::Bans
            | ControlQuestion::Fleet
            | ControlQuestion::Costs
            | ControlQuestion::Backends
            | ControlQuestion::Profile => false,
            ControlQuestion::SetProfile(_)
            | ControlQuestion::Ban(_)
            | ControlQuestion::Purge { .. }
            | ControlQuestion::UseVcl(_) => true,
        }
    }

    /// True if the reply shows VCL source, which not every user of this machine may read.
    pub fn shows_source(&self) -> bool {
        matches!(self, ControlQuestion::Profile)
    }

    fn command(&self) -> Vec<String> {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self {
            ControlQuestion::Explain { method, url, fields } => {
                let mut out = words(&["explain", "-m", method, url]);
                out.extend(fields.iter().cloned());
                out
            }
            ControlQuestion::Vcls => words(&["vcl.list", "-j"]),
            ControlQuestion::Bans => words(&["ban.list", "-j"]),
            ControlQuestion::Fleet => words(&["fleet.nodes", "-j"]),
            ControlQuestion::Costs => words(&["bots.list", "-j"]),
            ControlQuestion::Backends => words(&["backend.list", "-j"]),
            ControlQuestion::Profile => words(&["vcl.profile", "-j", "show"]),
            ControlQuestion::SetProfile(on) => words(&["vcl.profile", if *on { "on" } else { "off" }]),
            // The CLI expects each part of the expression as a word. A quoted text is one word.
            ControlQuestion::Ban(expression) => std::iter::once("ban".to_owned()).chain(split(expression)).collect(),
            ControlQuestion::Purge { host, url } => {
                words(&["ban", "req.http.host", "==", host, "&&", "req.url", "==", url])
            }
            ControlQuestion::UseVcl(name) => words(&["vcl.use", name]),
        }
    }
}

/// Rejects a word that the CLI would take for an option.
fn option_free(word: String) -> Result<String, String> {
    if word.starts_with('-') { Err("that begins with a -".to_owned()) } else { Ok(word) }
}

/// Splits text into words. A word in double quotes may contain spaces.
fn split(text: &str) -> Vec<String> {
    let (mut out, mut word, mut is_quoted, mut is_word) = (Vec::new(), String::new(), false, false);
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                is_quoted = !is_quoted;
                is_word = true;
            }
            '\\' if is_quoted => match chars.next() {
                Some(next @ ('"' | '\\')) => word.push(next),
                Some(next) => word.extend(['\\', next]),
                None => {}
            },
            c if c.is_whitespace() && !is_quoted => {
                if is_word {
                    out.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            _ => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        out.push(word);
    }
    out
}

/// A socket to the server's CLI. It handles one question at a time.
#[derive(Debug)]
pub struct CliChannel(Mutex<Talk>);

#[derive(Debug)]
struct Talk {
    connection: AdminConnection,
    /// Number of replies still to be read whose caller has given up.
    late: u32,
}

impl CliChannel {
    /// Takes over an inherited descriptor.
    ///
    /// # Errors
    /// There is none of that number, or nobody answers.
    pub fn inherit(number: i32) -> Result<CliChannel, String> {
        let socket = sys::fd::inherit(number).map_err(|e| format!("the CLI's channel: {e}"))?;
        let connection = AdminConnection::given(socket, PATIENCE).map_err(|e| format!("the CLI's channel: {e}"))?;
        Ok(CliChannel(Mutex::new(Talk { connection, late: 0 })))
    }

    fn ask(&self, words: &[String]) -> Result<CliReply, String> {
        let broken = |_| "the server's CLI doesn't answer".to_owned();
        let mut talk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while talk.late > 0 {
            talk.connection.reply().map_err(broken)?;
            talk.late -= 1;
        }
        talk.connection.send(&cli::client::encode(words)).map_err(|_| "the server's CLI has gone".to_owned())?;
        talk.late += 1;
        let reply = talk.connection.reply().map_err(broken)?;
        talk.late -= 1;
        Ok(reply)
    }
}

enum Desk<'a> {
    Channel(&'a CliChannel),
    Connection(Box<AdminConnection>),
}

impl Desk<'_> {
    fn ask(&mut self, words: &[String]) -> Result<CliReply, String> {
        match self {
            Desk::Channel(channel) => channel.ask(words),
            Desk::Connection(connection) => {
                let line = cli::client::encode(words);
                connection.ask(&line).map_err(|_| "the server's CLI broke off".to_owned())
            }
        }
    }
}

/// Connects to the CLI at the address and with the secret that the server has published, if this user may read them.
///
/// # Errors
/// The reason why the CLI can't be asked.
fn connect(shared: &WatchShared) -> Result<AdminConnection, String> {
    let door = Door::of(&shared.workdir).ok_or("the server has no CLI, or doesn't run")?;
    let secret = shared.options.secret.clone().or_else(|| door.secret.clone());
    if let Some(path) = &secret {
        std::fs::File::open(Path::new(path)).map_err(|e| format!("the CLI's secret can't be read: {path}: {e}"))?;
    }
    Door { secret, ..door }.open(Some(PATIENCE))
}

/// Sends a command and waits for the reply: JSON with `ok`, and `text` or `data`.
pub fn ask(shared: &WatchShared, ask: &ControlQuestion) -> Value {
    match try_ask(shared, ask) {
        Ok(value) => value,
        Err(reason) => json!({ "ok": false, "text": reason }),
    }
}

fn try_ask(shared: &WatchShared, ask: &ControlQuestion) -> Result<Value, String> {
    let mut desk = match &shared.channel {
        Some(channel) if !ask.is_change() => Desk::Channel(channel),
        _ => Desk::Connection(Box::new(connect(shared)?)),
    };
    let mut answer = send(shared, &mut desk, ask)?;
    if *ask == ControlQuestion::Profile
        && let Some(profile) = answer["data"].as_array_mut().and_then(Vec::pop)
    {
        // The data follow a version, the command and the time, as in all JSON of the CLI.
        answer["data"] = profile;
    }
    // The page shows a profile next to its source.
    let vcl = answer.pointer("/data/vcl").and_then(Value::as_str).map(str::to_owned);
    match (ask, vcl) {
        (ControlQuestion::Profile, Some(vcl)) => {
            let reply = desk.ask(&["vcl.show".to_owned(), "-v".to_owned(), vcl])?;
            answer["sources"] = sources(&reply.text());
            Ok(answer)
        }
        _ => Ok(answer),
    }
}

/// Splits the output of `vcl.show -v` into sources: a name and lines. Each begins with `// VCL.SHOW <number> <bytes> <name>`.
fn sources(text: &str) -> Value {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((line, after)) = rest.strip_prefix("// VCL.SHOW ").and_then(|rest| rest.split_once('\n')) {
        let mut words = line.splitn(3, ' ');
        let bytes = words.nth(1).and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
        let Some(source) = after.get(..bytes) else { break };
        let name = words.next().unwrap_or_default();
        let lines: Vec<String> = source.lines().map(|line| shown(line.replace('\t', "    ").as_bytes())).collect();
        out.push(json!({ "name": shown(name.as_bytes()), "lines": lines }));
        rest = after[bytes..].trim_start_matches('\n');
    }
    Value::Array(out)
}

fn send(shared: &WatchShared, desk: &mut Desk<'_>, ask: &ControlQuestion) -> Result<Value, String> {
    let reply = desk.ask(&ask.command())?;
    let text = if is_good(reply.status) { reply.text().into_owned() } else { admin::refusal(&reply) };
    let text = Redaction::new(&shared.options.show_headers).clean_text(&text);
    let lines: Vec<String> = text.lines().map(|line| shown(line.replace('\t', "    ").as_bytes())).collect();
    let data = serde_json::from_str::<Value>(&text).ok();
    Ok(match data {
        Some(data) if is_good(reply.status) => json!({ "ok": true, "data": data }),
        _ => json!({ "ok": is_good(reply.status), "text": lines.join("\n").trim_end() }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &str, body: Value, expected: &str) {
        let got = match ControlQuestion::read(what, &body) {
            Ok(ask) => format!("{} {}", if ask.is_change() { "change" } else { "look" }, ask.command().join("|")),
            Err(error) => error,
        };
        assert_eq!(got, expected);
    }

    #[test]
    fn what_the_page_sends_becomes_words_of_the_cli() {
        check(
            "explain",
            json!({"url": "http://a/b", "fields": "Cookie: x\n\nA: b"}),
            "look explain|-m|GET|http://a/b|Cookie: x|A: b",
        );
        check("vcls", json!({}), "look vcl.list|-j");
        check("fleet", json!({}), "look fleet.nodes|-j");
        check("costs", json!({}), "look bots.list|-j");
        check(
            "ban",
            json!({"expression": "req.url ~ \"^/a b\\\\d\" && obj.status == 404"}),
            "change ban|req.url|~|^/a b\\d|&&|obj.status|==|404",
        );
        check(
            "purge",
            json!({"host": "a.test", "url": "/x y"}),
            "change ban|req.http.host|==|a.test|&&|req.url|==|/x y",
        );
        check("set-profile", json!({"on": true}), "change vcl.profile|on");
        check("use-vcl", json!({"name": "boot"}), "change vcl.use|boot");
    }

    #[test]
    fn sources_of_a_vcl_are_told_apart() {
        let text = "// VCL.SHOW 0 9 /etc/a b.vcl\nvcl 4.1;\n\n// VCL.SHOW 1 4 Builtin\n\ta;\n";
        assert_eq!(
            sources(text),
            json!([{"name": "/etc/a b.vcl", "lines": ["vcl 4.1;"]}, {"name": "Builtin", "lines": ["    a;"]}])
        );
        assert_eq!(sources("// VCL.SHOW 0 900 x\ncut"), json!([]));
    }

    #[test]
    fn nothing_else_goes_through() {
        check("explain", json!({"url": "-n"}), "that begins with a -");
        check("explain", json!({"url": "/a\nstop"}), "url has a control character");
        check("explain", json!({"url": "/a", "method": "GET stop"}), "that is no method");
        check("purge", json!({"host": "a"}), "url is missing");
        check("stop", json!({}), "there is nothing of that name");
        check("use-vcl", json!({"name": "x".repeat(5000)}), "name is too long");
    }
}
