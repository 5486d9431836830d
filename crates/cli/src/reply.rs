// SPDX-License-Identifier: BSD-2-Clause
//! Replies: a 13-byte head with status and length, the body, a newline.

use tables::cli_cmds::COMMANDS;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u16)]
pub enum CliStatus {
    Syntax = 100,
    Unknown = 101,
    Unimplemented = 102,
    TooFew = 104,
    TooMany = 105,
    Param = 106,
    Auth = 107,
    Ok = 200,
    /// Done, and the text was cut at `cli_limit`.
    Truncated = 201,
    Cant = 300,
    /// The other process could not be reached.
    Comms = 400,
    /// Done, and the connection closes.
    Close = 500,
}

impl CliStatus {
    pub fn from_number(number: u16) -> Option<Self> {
        use CliStatus::*;
        [Syntax, Unknown, Unimplemented, TooFew, TooMany, Param, Auth, Ok, Truncated, Cant, Comms, Close]
            .into_iter()
            .find(|s| *s as u16 == number)
    }

    pub const fn number(self) -> u16 {
        self as u16
    }
}

pub const HEAD_LEN: usize = 13;

/// A reply. The body is bytes: VCL source need not be UTF-8.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CliReply {
    pub status: CliStatus,
    /// Text, without the newline that frames it.
    pub body: Vec<u8>,
}

impl CliReply {
    pub fn new(status: CliStatus, body: impl Into<Vec<u8>>) -> Self {
        Self { status, body: body.into() }
    }

    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::new(CliStatus::Ok, body)
    }

    pub fn param(body: impl Into<Vec<u8>>) -> Self {
        Self::new(CliStatus::Param, body)
    }

    pub fn cant(body: impl Into<Vec<u8>>) -> Self {
        Self::new(CliStatus::Cant, body)
    }

    pub fn unknown() -> Self {
        Self::new(CliStatus::Unknown, "Unknown request.\nType 'help' for more info.\n")
    }

    /// The reply to a word that is no command, with a line about the command that may be meant.
    pub fn unknown_as(name: &str) -> Self {
        let reply = Self::unknown();
        let names = || COMMANDS.iter().filter(|command| !command.debug).map(|command| command.name);
        let is_kin = |other: &&str| other.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let kin: Vec<&str> = names().filter(is_kin).collect();
        match (name, &kin[..]) {
            (_, []) => reply.meant(name, names()),
            ("purge", _) => reply.line(&format!("There are {}, and ban.", kin.join(", "))).line(BAN_EXAMPLE),
            _ => reply.line(&format!("There are {}.", kin.join(", "))),
        }
    }

    /// The same reply with a line behind its text. Those who compare the beginning find what varnishd says.
    pub fn line(mut self, line: &str) -> Self {
        if !self.body.is_empty() && !self.body.ends_with(b"\n") {
            self.body.push(b'\n');
        }
        self.body.extend_from_slice(line.as_bytes());
        self.body.push(b'\n');
        self
    }

    /// The same refusal of `word` with a line about the name that may be meant, if one is like it.
    pub fn meant<'n>(self, word: &str, names: impl Iterator<Item = &'n str>) -> Self {
        match base::spelling::nearest(word, names) {
            Some(near) => self.line(&format!("Is {near} meant?")),
            None => self,
        }
    }

    /// The body as text; what is not UTF-8 is replaced.
    pub fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.body)
    }

    /// Cuts a body longer than `cli_limit` bytes and makes a 200 a 201.
    pub fn limited(mut self, cli_limit: u64) -> Self {
        let limit = usize::try_from(cli_limit).unwrap_or(usize::MAX).max(1);
        if self.body.len() > limit {
            self.body.truncate(limit - 1);
            if self.status == CliStatus::Ok {
                self.status = CliStatus::Truncated;
            }
        }
        self
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut out = format!("{:<3} {:<8}\n", self.status.number(), self.body.len()).into_bytes();
        out.extend_from_slice(&self.body);
        out.push(b'\n');
        out
    }
}

/// A ban as a shell wants it: unquoted, `~` would be the home directory.
pub const BAN_EXAMPLE: &str = "Example: varnishadm ban 'req.url ~ ^/news'";

/// The beginning of a JSON reply: version, the command with its arguments, the time. `words` without the `-j`-less
/// rest, as received; `now` in seconds since 1970. Elements follow, each after `,`; then [`json_end`].
pub fn json_begin(version: u32, words: &[Vec<u8>], now: f64) -> String {
    let quoted: Vec<String> = words.iter().map(|w| tables::json::quote(&String::from_utf8_lossy(w))).collect();
    format!("[ {version}, [{}], {now:.3}", quoted.join(", "))
}

pub const fn json_end() -> &'static str {
    "\n]\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_command_has_a_lead() {
        let check = |word: &str, lead: &str| {
            let text = CliReply::unknown_as(word).text().into_owned();
            assert_eq!(text.strip_prefix("Unknown request.\nType 'help' for more info.\n"), Some(lead), "{word}");
        };
        check("vcl.lsit", "Is vcl.list meant?\n");
        check("nothing.like.it", "");
        check("bn", "");
        check("purge", &format!("There are purge.host, purge.prefix, purge.tag, purge.url, and ban.\n{BAN_EXAMPLE}\n"));
        check("panic", "There are panic.clear, panic.show.\n");
    }

    #[test]
    fn a_line_is_put_behind_the_text() {
        let line = |text: &str| CliReply::param(text).line("more").text().into_owned();
        assert_eq!((line("a"), line("a\n"), line("")), ("a\nmore\n".into(), "a\nmore\n".into(), "more\n".into()));
    }

    #[test]
    fn framing() {
        assert_eq!(CliReply::ok("PONG").encode(), b"200 4       \nPONG\n");
        assert_eq!(CliReply::new(CliStatus::Auth, "x".repeat(12345)).encode()[..HEAD_LEN], *b"107 12345   \n");
    }

    #[test]
    fn limits() {
        let cut = CliReply::ok("0123456789").limited(5);
        assert_eq!((cut.status, cut.body.as_slice()), (CliStatus::Truncated, &b"0123"[..]));
        assert_eq!(CliReply::ok("01234").limited(5), CliReply::ok("01234"));
        assert_eq!(CliReply::cant("0123456789").limited(5).status, CliStatus::Cant);
    }

    #[test]
    fn json() {
        let words = [b"ping".to_vec(), b"-j".to_vec()];
        let text = format!("{}, \"PONG\"{}", json_begin(2, &words, 1.5), json_end());
        assert_eq!(text, "[ 2, [\"ping\", \"-j\"], 1.500, \"PONG\"\n]\n");
    }
}
