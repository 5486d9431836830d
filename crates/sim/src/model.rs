// SPDX-License-Identifier: BSD-2-Clause
//! What a cache may answer: a history is judged by what its origins said and its clients asked, whatever went on between.
//!
//! * An answer is of its URL and its variant, byte for byte what one answer of the origin was.
//! * It is as long as that was, or its client can see that it isn't.
//! * Nothing that was fetched before an invalidation is answered to who asked after that was acknowledged.
//! * Nothing is answered beyond its ttl and grace. What is private goes to one request.
//! * A refreshed object has the body that it had, the 304's fields, and the others that it had.
//! * Of what is serialised one fetch is under way at a time; an invalidation allows another one.
//! * Every answer comes, and within the time that the scenario promises. What a client sent comes whole, or is seen to be cut.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{HistoryEntry, Served, SimAnswer, SimEnd, SimEvent, SimReceived};
use crate::plan::SimAsk;
use crate::script::{ScriptRule, SimScenario};
use crate::text::{self, ScriptSource};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelFinding {
    /// The check that says so.
    pub check: &'static str,
    pub what: String,
}

impl ModelFinding {
    pub fn new(check: &'static str, what: impl Into<String>) -> Self {
        ModelFinding { check, what: what.into() }
    }
}

/// Clocks of clients, origins and the cache are one, but timers go by whole milliseconds.
const SLACK: Duration = Duration::from_millis(5);

#[derive(Debug)]
struct Fetch<'a> {
    url: &'a str,
    variant: &'a str,
    /// Positions in the history, and times.
    asked: usize,
    served: Option<(usize, Duration, &'a Served)>,
    ended: Option<(usize, bool)>,
    body: Option<&'a SimReceived>,
}

#[derive(Debug)]
struct Exchange<'a> {
    who: String,
    ask: &'a SimAsk,
    asked: usize,
    asked_at: Duration,
    answer: Option<(usize, Duration, &'a SimAnswer)>,
}

struct Invalidation<'a> {
    url: &'a str,
    asked: usize,
    acknowledged: usize,
}

struct Judge<'a> {
    scenario: &'a SimScenario,
    fetches: BTreeMap<u64, Fetch<'a>>,
    exchanges: Vec<Exchange<'a>>,
    invalidations: Vec<Invalidation<'a>>,
}

/// Judges a whole history.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn judge(scenario: &SimScenario, history: &[HistoryEntry]) -> Result<(), ModelFinding> {
    let judge = Judge::new(scenario, history);
    judge.exchanges.iter().try_for_each(|exchange| judge.exchange(exchange))?;
    judge.serialised()?;
    judge.privacy()?;
    judge.uploads()
}

impl<'a> Judge<'a> {
    fn new(scenario: &'a SimScenario, history: &'a [HistoryEntry]) -> Self {
        let mut judge = Judge { scenario, fetches: BTreeMap::new(), exchanges: Vec::new(), invalidations: Vec::new() };
        let mut open: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (at, entry) in history.iter().enumerate() {
            match &entry.event {
                SimEvent::Asked { client, step, ask } => {
                    open.insert((*client, *step), judge.exchanges.len());
                    let who = format!("client {client}.{step}");
                    judge.exchanges.push(Exchange { who, ask, asked: at, asked_at: entry.at, answer: None });
                }
                SimEvent::Answered { client, step, answer } => {
                    let exchange = &mut judge.exchanges[open[&(*client, *step)]];
                    exchange.answer = Some((at, entry.at, answer));
                    let is_invalidation = matches!(&*exchange.ask.method, "PURGE" | "BAN");
                    if is_invalidation && answer.status == 200 && answer.end == SimEnd::Whole {
                        let (url, asked) = (&*exchange.ask.url, exchange.asked);
                        judge.invalidations.push(Invalidation { url, asked, acknowledged: at });
                    }
                }
                SimEvent::Fetched { number, url, variant, body } => {
                    let body = body.as_ref();
                    let fetch = Fetch { url, variant, asked: at, served: None, ended: None, body };
                    judge.fetches.insert(*number, fetch);
                }
                SimEvent::Served { number, served } => {
                    judge.fetch_mut(*number).served = Some((at, entry.at, served));
                }
                SimEvent::Ended { number, is_whole } => judge.fetch_mut(*number).ended = Some((at, *is_whole)),
                SimEvent::Fleet(_) => {}
            }
        }
        judge
    }

    fn fetch_mut(&mut self, number: u64) -> &mut Fetch<'a> {
        self.fetches.get_mut(&number).expect("an answer has been asked for")
    }

    fn rule(&self, url: &str) -> Option<&'a ScriptRule> {
        self.scenario.origins.iter().find(|rule| rule.url == url)
    }

    fn exchange(&self, exchange: &Exchange<'a>) -> Result<(), ModelFinding> {
        let Exchange { who, ask, .. } = exchange;
        let Some((_, at, answer)) = exchange.answer else {
            return Err(ModelFinding::new(
                "every request is answered",
                format!("{who} waits for ever for {}", ask.url),
            ));
        };
        let took = at - exchange.asked_at;
        if self.scenario.within.is_some_and(|within| took > within + SLACK) {
            return Err(ModelFinding::new("answers come in time", format!("{who} waited {took:?} for {}", ask.url)));
        }
        let may_fail = self.may_fail(&ask.url) || ask.body.as_ref().is_some_and(|body| body.is_cut);
        let has_failed = answer.end == SimEnd::Cut || answer.status == 503;
        if has_failed && !may_fail {
            return Err(ModelFinding::new("nothing fails for no reason", format!("{who} has {answer}")));
        }
        match answer.number("X-Number") {
            Some(number) if !matches!(&*ask.method, "PURGE" | "BAN") => self.object(exchange, answer, number),
            Some(_) | None => Ok(()),
        }
    }

    fn may_fail(&self, url: &str) -> bool {
        let fails = |rule: &ScriptRule| rule.cut + rule.refuse + rule.fail > 0 || rule.status >= 500;
        self.rule(url)
            .is_some_and(|rule| fails(rule) || rule.includes.iter().any(|url| self.rule(url).is_some_and(fails)))
    }

    fn object(&self, exchange: &Exchange<'a>, answer: &SimAnswer, number: u64) -> Result<(), ModelFinding> {
        let who = &exchange.who;
        let wrong = |check, what: String| Err(ModelFinding::new(check, format!("{who} has {answer}: {what}")));
        let Some(body_number) = answer.number("X-Body") else {
            return wrong("a refreshed head keeps what the 304 doesn't name", "X-Body is gone".to_owned());
        };
        self.may_have(exchange, number)?;
        self.is_alive(exchange, number)?;
        match self.fetches.get(&number).and_then(|fetch| fetch.served) {
            Some((_, _, Served::Body { .. })) if number == body_number => {}
            Some((_, _, Served::NotModified { of })) if *of == body_number => self.may_have(exchange, body_number)?,
            served => return wrong("head and body belong together", format!("{served:?} with #{body_number}")),
        }
        let Some((_, _, Served::Body { source, .. })) = self.fetches[&body_number].served else {
            return wrong("head and body belong together", format!("#{body_number} has no body"));
        };
        if matches!(answer.status, 304) || exchange.ask.method == "HEAD" {
            return Ok(());
        }
        let is_page = self.rule(&source.url).is_some_and(|rule| !rule.includes.is_empty());
        match is_page {
            true => self.page(exchange, answer, source),
            false => self.body(exchange, answer, source),
        }?;
        let is_broken = self.fetches[&body_number].ended.is_none_or(|(_, is_whole)| !is_whole);
        if is_broken && answer.end == SimEnd::Whole && !self.covers(answer, source) {
            return wrong("a body is whole or seen to be cut", "the origin broke it off".to_owned());
        }
        Ok(())
    }

    fn covers(&self, answer: &SimAnswer, source: &ScriptSource) -> bool {
        answer.status == 206 || answer.body.len() as u64 >= source.lines * text::LINE as u64
    }

    fn may_have(&self, exchange: &Exchange<'a>, number: u64) -> Result<(), ModelFinding> {
        let (who, ask) = (&exchange.who, exchange.ask);
        let wrong = |check, what: String| Err(ModelFinding::new(check, format!("{who} has #{number}: {what}")));
        let Some(fetch) = self.fetches.get(&number) else {
            return wrong("answers are the origin's", "there is no such answer".to_owned());
        };
        let includes = self.rule(&ask.url).map_or(&[][..], |rule| &rule.includes);
        if fetch.url != ask.url && !includes.iter().any(|url| *url == fetch.url) {
            return wrong("an answer is of its URL", format!("it is of {}, not of {}", fetch.url, ask.url));
        }
        let rule = self.rule(fetch.url).expect("only what has a rule is served with a number");
        if let Some(field) = &rule.vary {
            let wanted = ask.header(field).unwrap_or("-");
            if wanted != fetch.variant {
                return wrong("an answer is of its variant", format!("it is of {}, not of {wanted}", fetch.variant));
            }
        }
        let overtaken = self
            .invalidations
            .iter()
            .find(|inv| inv.url == fetch.url && inv.acknowledged < exchange.asked && fetch.asked < inv.asked);
        if overtaken.is_some() {
            return wrong("what was invalidated isn't answered", format!("{} was purged or banned", fetch.url));
        }
        Ok(())
    }

    fn is_alive(&self, exchange: &Exchange<'a>, number: u64) -> Result<(), ModelFinding> {
        let fetch = &self.fetches[&number];
        let ttl = self.rule(fetch.url).and_then(|rule| rule.ttl).map(Duration::from_millis);
        let (Some(ttl), Some((_, served_at, _))) = (ttl, fetch.served) else { return Ok(()) };
        let until = served_at + ttl + self.scenario.grace + SLACK;
        if exchange.asked_at <= until {
            return Ok(());
        }
        let what = format!("{} has #{number}, asked {:?} too late", exchange.who, exchange.asked_at - until);
        Err(ModelFinding::new("nothing is answered beyond ttl and grace", what))
    }

    /// A body of one object, or a range of it.
    fn body(&self, exchange: &Exchange<'a>, answer: &SimAnswer, source: &ScriptSource) -> Result<(), ModelFinding> {
        let who = &exchange.who;
        let wrong = |check, what: String| Err(ModelFinding::new(check, format!("{who} has {answer}: {what}")));
        let all = source.bytes();
        let expected = match answer.header("Content-Range") {
            Some(range) => match range_of(range).and_then(|(first, last)| all.get(first..=last)) {
                Some(part) => part,
                None => return wrong("a range is within its body", format!("of {} bytes: {range}", all.len())),
            },
            None => &all[..],
        };
        let got = &answer.body[..];
        if !expected.starts_with(got) {
            let at = expected.iter().zip(got).position(|(one, other)| one != other).unwrap_or(expected.len());
            let line = got[at / text::LINE * text::LINE..].chunks(text::LINE).next().unwrap_or_default();
            let line = line.trim_ascii_end().escape_ascii();
            return wrong("bytes are those of the object", format!("byte {at}, in `{line}`"));
        }
        if answer.end == SimEnd::Whole && got.len() < expected.len() {
            return wrong("a body is whole or seen to be cut", format!("{} of {} bytes", got.len(), expected.len()));
        }
        Ok(())
    }

    fn page(&self, exchange: &Exchange<'a>, answer: &SimAnswer, source: &ScriptSource) -> Result<(), ModelFinding> {
        let who = &exchange.who;
        let wrong = |check, what: String| Err(ModelFinding::new(check, format!("{who} has {answer}: {what}")));
        if answer.end != SimEnd::Whole {
            return Ok(());
        }
        let runs = match text::runs(&answer.body) {
            Ok(runs) => runs,
            Err(what) => return wrong("bytes are those of the object", what),
        };
        let includes = &self.rule(&source.url).expect("a page has a rule").includes;
        let mut urls = vec![&source.url];
        urls.extend(includes);
        urls.push(&source.url);
        let mut runs = runs.iter().peekable();
        for (at, url) in urls.iter().enumerate() {
            let is_page = at == 0 || at + 1 == urls.len();
            let Some(run) = runs.next_if(|run| run.url == **url) else {
                return wrong("a page has all its fragments", format!("{url} isn't where it should be"));
            };
            let expected = match (is_page, self.fetches.get(&run.number).and_then(|fetch| fetch.served)) {
                (true, _) if run.number == source.number => Some((at.min(1) as u64 * source.lines, source.lines)),
                (false, Some((_, _, Served::Body { source, .. }))) => Some((0, source.lines)),
                _ => None,
            };
            if expected != Some((run.first, run.count)) {
                return wrong("a page has all its fragments", format!("{run:?}, not {expected:?}"));
            }
            self.may_have(exchange, run.number)?;
            self.is_alive(exchange, run.number)?;
        }
        match runs.next() {
            None => Ok(()),
            Some(run) => wrong("a page has all its fragments", format!("{run:?} after its end")),
        }
    }

    /// One fetch at a time.
    fn serialised(&self) -> Result<(), ModelFinding> {
        let is_serialised = |fetch: &&Fetch<'_>| self.scenario.serialised.iter().any(|url| url == fetch.url);
        let fetches: Vec<_> = self.fetches.values().filter(is_serialised).collect();
        for (nth, fetch) in fetches.iter().enumerate() {
            let until = [fetch.served.map(|(at, ..)| at), fetch.ended.map(|(at, _)| at)];
            let until = until.into_iter().flatten().min().unwrap_or(usize::MAX);
            let rival = fetches[nth + 1..].iter().find(|other| {
                (other.url, other.variant) == (fetch.url, fetch.variant)
                    && other.asked < until
                    && !self.invalidated_between(fetch.url, fetch.asked, other.asked)
            });
            if let Some(rival) = rival {
                let what = format!("{} {} at {} and {}", fetch.url, fetch.variant, fetch.asked, rival.asked);
                return Err(ModelFinding::new("one fetch at a time", what));
            }
        }
        Ok(())
    }

    fn invalidated_between(&self, url: &str, one: usize, other: usize) -> bool {
        self.exchanges.iter().any(|exchange| {
            let is_invalidation = matches!(&*exchange.ask.method, "PURGE" | "BAN") && exchange.ask.url == url;
            is_invalidation && exchange.asked < other && exchange.answer.is_none_or(|(at, ..)| at > one)
        })
    }

    fn privacy(&self) -> Result<(), ModelFinding> {
        let mut had: BTreeMap<u64, &str> = BTreeMap::new();
        for exchange in &self.exchanges {
            let number = exchange.answer.and_then(|(_, _, answer)| answer.number("X-Number"));
            let is_private = number
                .and_then(|number| self.fetches.get(&number))
                .is_some_and(|fetch| self.rule(fetch.url).is_some_and(|rule| rule.is_private));
            let Some(number) = number.filter(|_| is_private) else { continue };
            if let Some(other) = had.insert(number, &exchange.who) {
                let what = format!("#{number} to {other} and to {}", exchange.who);
                return Err(ModelFinding::new("what is private goes to one request", what));
            }
        }
        Ok(())
    }

    fn uploads(&self) -> Result<(), ModelFinding> {
        for fetch in self.fetches.values() {
            let Some(body) = fetch.body else { continue };
            let is_sent = self.exchanges.iter().filter(|exchange| exchange.asked < fetch.asked).any(|exchange| {
                exchange.ask.body.as_ref().filter(|_| exchange.ask.url == fetch.url).is_some_and(|upload| {
                    let sent = crate::client::uploaded(exchange.ask, upload).bytes();
                    match body.is_whole {
                        true => !upload.is_cut && sent == body.bytes,
                        false => sent.starts_with(&body.bytes),
                    }
                })
            });
            if !is_sent {
                let what = format!("{} got {} bytes that nobody sent", fetch.url, body.bytes.len());
                return Err(ModelFinding::new("uploads come as they were sent", what));
            }
        }
        Ok(())
    }
}

/// First and last byte of `bytes 0-9/100`.
fn range_of(text: &str) -> Option<(usize, usize)> {
    let (first, last) = text.strip_prefix("bytes ")?.split_once('/')?.0.split_once('-')?;
    Some((first.parse().ok()?, last.parse().ok()?))
}
