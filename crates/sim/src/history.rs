// SPDX-License-Identifier: BSD-2-Clause
//! What happened in a simulation, as clients and origins saw it, in the order in which it did.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base::lock::Mutex;

use crate::fleet::Happening;
use crate::plan::SimAsk;
use crate::text::ScriptSource;

#[derive(Clone, Debug)]
pub(crate) struct HistoryEntry {
    pub at: Duration,
    pub event: SimEvent,
}

#[derive(Clone, Debug)]
pub(crate) enum SimEvent {
    Asked {
        client: usize,
        step: usize,
        ask: SimAsk,
    },
    /// The client has its answer, or knows that it gets none.
    Answered {
        client: usize,
        step: usize,
        answer: SimAnswer,
    },
    Fetched {
        number: u64,
        url: String,
        variant: String,
        body: Option<SimReceived>,
    },
    Served {
        number: u64,
        served: Served,
    },
    /// The origin has sent all that it sends; whether that is the whole of it.
    Ended {
        number: u64,
        is_whole: bool,
    },
    Fleet(Happening),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SimReceived {
    pub bytes: Vec<u8>,
    pub is_whole: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Served {
    Body {
        status: u16,
        source: ScriptSource,
    },
    /// The object of that number is still good.
    NotModified {
        of: u64,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SimAnswer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub end: SimEnd,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SimEnd {
    Whole,
    /// Before that, and the client could see it.
    #[default]
    Cut,
    Left,
}

impl SimAnswer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn number(&self, name: &str) -> Option<u64> {
        self.header(name)?.parse().ok()
    }
}

#[derive(Clone, Default)]
pub(crate) struct SimHistory(Arc<Mutex<Vec<HistoryEntry>>>);

impl SimHistory {
    pub fn add(&self, at: Duration, event: SimEvent) -> usize {
        let mut entries = self.0.lock();
        entries.push(HistoryEntry { at, event });
        entries.len() - 1
    }

    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    pub fn take(&self) -> Vec<HistoryEntry> {
        std::mem::take(&mut self.0.lock())
    }
}

impl fmt::Display for HistoryEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>8.3} ", self.at.as_secs_f64())?;
        match &self.event {
            SimEvent::Asked { client, step, ask } => write!(f, "client {client}.{step} asks {ask}"),
            SimEvent::Answered { client, step, answer } => write!(f, "client {client}.{step} has {answer}"),
            SimEvent::Fetched { number, url, variant, body } => {
                write!(f, "origin is asked #{number} {url} {variant}")?;
                match body {
                    Some(body) if body.is_whole => write!(f, " with {} bytes", body.bytes.len()),
                    Some(body) => write!(f, " with {} bytes that broke off", body.bytes.len()),
                    None => Ok(()),
                }
            }
            SimEvent::Served { number, served: Served::Body { status, source } } => {
                write!(f, "origin answers #{number} {status} with {} lines", source.lines)
            }
            SimEvent::Served { number, served: Served::NotModified { of } } => {
                write!(f, "origin answers #{number} 304: #{of} is still good")
            }
            SimEvent::Ended { number, is_whole: true } => write!(f, "origin has sent #{number}"),
            SimEvent::Ended { number, is_whole: false } => write!(f, "origin breaks #{number} off"),
            SimEvent::Fleet(happening) => write!(f, "{happening}"),
        }
    }
}

impl fmt::Display for SimAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.status)?;
        for name in ["X-Number", "X-Body", "Age", "Content-Range"] {
            self.header(name).map_or(Ok(()), |value| write!(f, " {name}: {value}"))?;
        }
        let end = match self.end {
            SimEnd::Whole => "whole",
            SimEnd::Cut => "cut",
            SimEnd::Left => "left by the client",
        };
        write!(f, ", {} bytes, {end}", self.body.len())
    }
}
