// SPDX-License-Identifier: BSD-2-Clause
//! Scenarios as text: what origins answer, what clients do, and what is promised of it. The words are in the crate's head.

use std::time::Duration;

use testkit_net::quic::Path;

use crate::dice::NumberSpan;

#[derive(Clone, Debug, Default)]
pub(crate) struct SimScenario {
    pub name: String,
    pub vcl: String,
    pub params: Vec<(String, String)>,
    pub store: Option<u64>,
    /// Values of `default_grace` and `default_keep`.
    pub grace: Duration,
    pub keep: Duration,
    pub within: Option<Duration>,
    pub serialised: Vec<String>,
    pub origins: Vec<ScriptRule>,
    pub clients: Vec<Script>,
    /// Clients speak HTTP/3 over such a path.
    pub path: Option<Path>,
}

#[derive(Clone, Debug)]
pub(crate) struct ScriptRule {
    pub url: String,
    pub status: u16,
    /// Milliseconds before the head.
    pub delay: NumberSpan,
    pub lines: NumberSpan,
    /// The body comes in so many pieces, so many milliseconds apart.
    pub pieces: NumberSpan,
    pub pause: NumberSpan,
    pub headers: Vec<(String, String)>,
    /// `None`: nothing is said.
    pub ttl: Option<u64>,
    pub is_private: bool,
    pub vary: Option<String>,
    /// There is an ETag, and for so many milliseconds 304 is the answer to it.
    pub etag: Option<u64>,
    pub includes: Vec<String>,
    /// One of so many answers breaks off, is refused, or is a 503.
    pub cut: u64,
    pub refuse: u64,
    pub fail: u64,
    pub framings: Vec<SimFraming>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimFraming {
    Length,
    Chunked,
    Eof,
}

#[derive(Clone, Debug)]
pub(crate) struct Script {
    pub count: u64,
    pub steps: Vec<ScriptStep>,
}

#[derive(Clone, Debug)]
pub(crate) enum ScriptStep {
    /// A pause in milliseconds.
    Wait(NumberSpan),
    Request(Box<ScriptRequest>),
}

#[derive(Clone, Debug)]
pub(crate) struct ScriptRequest {
    pub method: String,
    pub urls: Vec<String>,
    pub headers: Vec<(String, Vec<String>)>,
    /// Lines of a body, pieces of it, milliseconds between them.
    pub body: Option<NumberSpan>,
    pub pieces: NumberSpan,
    pub pause: NumberSpan,
    /// The body comes short in one of so many.
    pub cut: u64,
    /// Marks of the body's end: by its length or in chunks.
    pub framings: Vec<SimFraming>,
    /// Reads so many bytes at a time, with so many milliseconds between.
    pub slow: Option<(NumberSpan, NumberSpan)>,
    /// Goes away after so many milliseconds, in one of so many.
    pub gone: Option<(u64, NumberSpan)>,
    /// The request's own task is dropped after so many milliseconds, in one of so many.
    pub dropped: Option<(u64, NumberSpan)>,
    /// Range of the body: first and last byte.
    pub range: Option<(NumberSpan, NumberSpan)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SimScriptError {
    pub line: usize,
    pub what: String,
}

/// Block that indented lines belong to.
enum Block {
    None,
    Origin,
    /// The clients' last step.
    Client,
}

impl SimScenario {
    pub fn parse(name: &str, text: &str) -> Result<Self, SimScriptError> {
        let mut scenario = SimScenario { name: name.to_owned(), ..SimScenario::default() };
        let mut block = Block::None;
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let bare = line.trim();
            if bare.is_empty() || bare.starts_with('#') {
                continue;
            }
            if bare == "vcl {" {
                let body = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "}");
                scenario.vcl = body.flat_map(|line| [line, "\n"]).collect();
                continue;
            }
            let is_inner = line.starts_with(' ');
            let words: Vec<&str> = bare.split_whitespace().collect();
            let read = match (&block, is_inner) {
                (Block::Origin, true) => scenario.origins.last_mut().map_or(Ok(()), |rule| rule.line(&words)),
                (Block::Client, true) => scenario.clients.last_mut().map_or(Ok(()), |script| script.line(&words)),
                (_, false) => scenario.line(&words, &mut block),
                (Block::None, true) => Err("an indented line belongs to nothing".to_owned()),
            };
            read.map_err(|what| SimScriptError { line: number + 1, what })?;
        }
        Ok(scenario)
    }

    fn line(&mut self, words: &[&str], block: &mut Block) -> Result<(), String> {
        *block = Block::None;
        match words {
            ["store", bytes] => self.store = Some(size(bytes)?),
            ["param", name, value] => self.params.push(((*name).to_owned(), (*value).to_owned())),
            ["grace", time] => self.grace = Duration::from_millis(ms(time)?),
            ["keep", time] => self.keep = Duration::from_millis(ms(time)?),
            ["within", time] => self.within = Some(Duration::from_millis(ms(time)?)),
            ["serialised", urls @ ..] => self.serialised = urls.iter().map(|url| (*url).to_owned()).collect(),
            ["quic", delay, "lost", "one", "in", lost, "doubled", "one", "in", doubled] => {
                let NumberSpan { least, most } = times(delay)?;
                let delay = (Duration::from_millis(least), Duration::from_millis(most));
                self.path = Some(Path { lost_one_in: number(lost)?, doubled_one_in: number(doubled)?, delay });
            }
            ["origin", url] => {
                self.origins.push(ScriptRule::new(url));
                *block = Block::Origin;
            }
            ["client"] | ["client", _] => {
                let count = words.get(1).map_or(Ok(1), |count| number(count))?;
                self.clients.push(Script { count, steps: Vec::new() });
                *block = Block::Client;
            }
            _ => return Err(format!("`{}` is no line of a scenario", words.join(" "))),
        }
        Ok(())
    }
}

impl ScriptRule {
    fn new(url: &str) -> Self {
        ScriptRule {
            url: url.to_owned(),
            status: 200,
            delay: NumberSpan::just(0),
            lines: NumberSpan::just(10),
            pieces: NumberSpan::just(1),
            pause: NumberSpan::just(0),
            headers: Vec::new(),
            ttl: None,
            is_private: false,
            vary: None,
            etag: None,
            includes: Vec::new(),
            cut: 0,
            refuse: 0,
            fail: 0,
            framings: vec![SimFraming::Length],
        }
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["status", status] => self.status = number(status)? as u16,
            ["delay", time] => self.delay = times(time)?,
            ["lines", count] => self.lines = span(count)?,
            ["pieces", count, "pause", time] => (self.pieces, self.pause) = (span(count)?, times(time)?),
            ["header", name, value @ ..] => self.headers.push(header(name, value)),
            ["ttl", time] => self.ttl = Some(ms(time)?),
            ["private"] => self.is_private = true,
            ["vary", field] => self.vary = Some((*field).to_owned()),
            ["etag", time] => self.etag = Some(ms(time)?),
            ["includes", urls @ ..] => self.includes = urls.iter().map(|url| (*url).to_owned()).collect(),
            ["cut", "one", "in", count] => self.cut = number(count)?,
            ["refuse", "one", "in", count] => self.refuse = number(count)?,
            ["fail", "one", "in", count] => self.fail = number(count)?,
            ["framing", words] => self.framings = framings(words)?,
            _ => return Err(format!("an origin has no `{}`", words.join(" "))),
        }
        Ok(())
    }
}

impl Script {
    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match (words, self.steps.last_mut()) {
            (["wait", time], _) => self.steps.push(ScriptStep::Wait(times(time)?)),
            ([method @ ("get" | "head" | "post" | "purge" | "ban"), urls], _) => {
                self.steps.push(ScriptStep::Request(Box::new(ScriptRequest::new(&method.to_uppercase(), urls))));
            }
            (_, Some(ScriptStep::Request(request))) => request.line(words)?,
            _ => return Err(format!("a client does no `{}`", words.join(" "))),
        }
        Ok(())
    }
}

impl ScriptRequest {
    fn new(method: &str, urls: &str) -> Self {
        ScriptRequest {
            method: method.to_owned(),
            urls: urls.split('|').map(str::to_owned).collect(),
            headers: Vec::new(),
            body: None,
            pieces: NumberSpan::just(1),
            pause: NumberSpan::just(0),
            cut: 0,
            framings: vec![SimFraming::Length],
            slow: None,
            gone: None,
            dropped: None,
            range: None,
        }
    }

    fn line(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["header", name, value @ ..] => {
                let (name, value) = header(name, value);
                self.headers.push((name, value.split('|').map(|one| one.trim().to_owned()).collect()));
            }
            ["body", count] => self.body = Some(span(count)?),
            ["pieces", count, "pause", time] => (self.pieces, self.pause) = (span(count)?, times(time)?),
            ["cut", "one", "in", count] => self.cut = number(count)?,
            ["slow", bytes, "pause", time] => self.slow = Some((span(bytes)?, times(time)?)),
            ["framing", words] => self.framings = framings(words)?,
            ["gone", "one", "in", count, "after", time] => self.gone = Some(leaving(count, time)?),
            ["dropped", "one", "in", count, "after", time] => self.dropped = Some(leaving(count, time)?),
            ["range", first, last] => self.range = Some((span(first)?, span(last)?)),
            _ => return Err(format!("a request has no `{}`", words.join(" "))),
        }
        Ok(())
    }
}

fn header(name: &str, value: &[&str]) -> (String, String) {
    (name.trim_end_matches(':').to_owned(), value.join(" "))
}

/// Share of clients that leave, and when.
fn leaving(count: &str, time: &str) -> Result<(u64, NumberSpan), String> {
    let after = times(time)?;
    if after.least == 0 {
        return Err("who goes away at once has asked nothing".to_owned());
    }
    Ok((number(count)?, after))
}

fn framings(words: &str) -> Result<Vec<SimFraming>, String> {
    words.split('|').map(framing).collect()
}

fn framing(word: &str) -> Result<SimFraming, String> {
    match word {
        "length" => Ok(SimFraming::Length),
        "chunked" => Ok(SimFraming::Chunked),
        "eof" => Ok(SimFraming::Eof),
        _ => Err(format!("no framing is called `{word}`")),
    }
}

fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` is no number"))
}

fn size(word: &str) -> Result<u64, String> {
    base::text::parse_bytes(word).ok_or_else(|| format!("`{word}` is no size"))
}

/// Parses `2s` or `150ms` into milliseconds.
fn ms(word: &str) -> Result<u64, String> {
    match (word.strip_suffix("ms"), word.strip_suffix('s')) {
        _ if word == "0" => Ok(0),
        (Some(ms), _) => number(ms),
        (None, Some(s)) => Ok(number(s)? * 1000),
        (None, None) => Err(format!("`{word}` is no time")),
    }
}

fn between(word: &str, one: fn(&str) -> Result<u64, String>) -> Result<NumberSpan, String> {
    let span = match word.split_once("..") {
        Some((least, most)) => NumberSpan { least: one(least)?, most: one(most)? },
        None => NumberSpan::just(one(word)?),
    };
    if span.least > span.most { Err(format!("`{word}` ends before it begins")) } else { Ok(span) }
}

fn span(word: &str) -> Result<NumberSpan, String> {
    between(word, number)
}

fn times(word: &str) -> Result<NumberSpan, String> {
    between(word, ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_is_read() {
        let text = "# What holds.\ngrace 2s\nserialised /a\nvcl {\n  sub vcl_recv {\n  }\n}\norigin /a\n    delay 0..1500ms\n    \
                    framing length|eof\nclient 3\n    wait 1s\n    get /a|/b\n        header Accept: x|y\n";
        let scenario = SimScenario::parse("s", text).unwrap();
        assert_eq!(scenario.vcl, "  sub vcl_recv {\n  }\n");
        assert_eq!(scenario.grace, Duration::from_secs(2));
        assert_eq!(scenario.origins[0].delay, NumberSpan { least: 0, most: 1500 });
        assert_eq!((scenario.clients[0].count, scenario.clients[0].steps.len()), (3, 2));
    }

    #[test]
    fn what_cant_be_read_is_told_with_its_line() {
        let wrong = |text: &str| SimScenario::parse("s", text).unwrap_err();
        assert_eq!(wrong("store 8m\nnothing\n").line, 2);
        assert_eq!(wrong("origin /a\n    delay 2s..1s\n").what, "`2s..1s` ends before it begins");
    }
}
