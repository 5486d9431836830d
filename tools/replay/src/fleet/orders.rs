// SPDX-License-Identifier: BSD-2-Clause
//! What a coordinator tells its workers to do, as JSON and back. A worker believes no number that it couldn't have been given
//! as an option.

use serde_json::{Value, json};
use tls::{Spoken, Trust};

use super::MAX_STREAMS;
use crate::engine::ReplayLimits;
use crate::options::{MAX_CONNECTIONS, MAX_TOP};
use crate::pace::ReplayPace;
use crate::stream::Keep;

/// The longest time that is believed, in nanoseconds.
const MAX_NS: u64 = 1 << 60;

#[derive(Clone, PartialEq, Debug)]
pub struct OpenStream {
    pub name: String,
    pub connections: usize,
    pub keep: Keep,
    pub is_beside: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Open {
    pub streams: Vec<OpenStream>,
    pub top: usize,
    pub seed: u64,
    pub trust: Option<Trust>,
}

#[derive(Clone, Debug)]
pub struct OrderPart {
    /// Each stream's pace, and how much later than the others' its first request is due.
    pub paces: Vec<(ReplayPace, u64)>,
    /// Limits of the part; addresses to come from are the worker's own.
    pub limits: ReplayLimits,
}

impl Open {
    pub fn json(&self) -> Value {
        let streams = self.streams.iter().map(|s| {
            json!({"name": s.name, "connections": s.connections, "share": s.keep.share, "most": s.keep.most,
                "is_beside": s.is_beside})
        });
        let trust = self.trust.as_ref().map(|t| {
            json!({"is_blind": t.is_blind, "authorities": t.authorities, "is_fresh": t.is_fresh,
                "spoken": t.spoken.alpn()})
        });
        json!({"streams": streams.collect::<Value>(), "top": self.top, "seed": self.seed, "trust": trust})
    }

    pub fn parse(value: &Value) -> Option<Open> {
        let stream = |s: &Value| {
            let most = match &s["most"] {
                Value::Null => None,
                n => Some(u32::try_from(n.as_u64()?).ok()?),
            };
            Some(OpenStream {
                name: s["name"].as_str()?.chars().take(40).collect(),
                connections: number(&s["connections"], MAX_CONNECTIONS as u64)? as usize,
                keep: Keep { share: s["share"].as_f64().filter(|share| (0.0..=1.0).contains(share))?, most },
                is_beside: s["is_beside"].as_bool()?,
            })
        };
        let streams: Vec<_> = value["streams"].as_array()?.iter().map(stream).collect::<Option<_>>()?;
        let top = number(&value["top"], MAX_TOP as u64)? as usize;
        (1..=MAX_STREAMS).contains(&streams.len()).then_some(())?;
        let trust = match &value["trust"] {
            Value::Null => None,
            t => Some(Trust {
                is_blind: t["is_blind"].as_bool()?,
                authorities: t["authorities"].as_str().map(str::to_owned),
                is_fresh: t["is_fresh"].as_bool()?,
                spoken: Spoken::parse(t["spoken"].as_str()?)?,
            }),
        };
        Some(Open { streams, top, seed: value["seed"].as_u64()?, trust })
    }
}

impl OrderPart {
    pub fn json(&self) -> Value {
        let pace = |(pace, offset): &(ReplayPace, u64)| match pace {
            ReplayPace::Closed { from, to } => json!({"pace": "closed", "from": from, "to": to, "offset": offset}),
            ReplayPace::Rate { rate, is_random } => {
                json!({"pace": "rate", "rate": rate, "is_random": is_random, "offset": offset})
            }
            ReplayPace::Log { speed } => json!({"pace": "log", "speed": speed, "offset": offset}),
        };
        let l = &self.limits;
        json!({"paces": self.paces.iter().map(pace).collect::<Value>(), "duration": l.duration, "warmup": l.warmup,
            "timeout": l.timeout, "give_up": l.give_up, "spoken": l.spoken.alpn()})
    }

    /// Parses what [`OrderPart::json`] wrote, for so many streams. Addresses to come from and the TLS client are the
    /// worker's own.
    pub fn parse(value: &Value, streams: usize) -> Option<OrderPart> {
        let ns = |value: &Value| number(value, MAX_NS);
        let positive = |value: &Value| value.as_f64().filter(|n| n.is_finite() && *n > 0.0);
        let pace = |p: &Value| {
            let pace = match p["pace"].as_str()? {
                "closed" => ReplayPace::Closed { from: ns(&p["from"])?, to: ns(&p["to"])? },
                "rate" => ReplayPace::Rate { rate: positive(&p["rate"])?, is_random: p["is_random"].as_bool()? },
                "log" => ReplayPace::Log { speed: positive(&p["speed"])? },
                _ => return None,
            };
            Some((pace, ns(&p["offset"])?))
        };
        let duration = match &value["duration"] {
            Value::Null => None,
            time => Some(ns(time)?),
        };
        let (warmup, timeout, give_up) = (ns(&value["warmup"])?, ns(&value["timeout"])?, ns(&value["give_up"])?);
        let paces: Vec<_> = value["paces"].as_array()?.iter().map(pace).collect::<Option<_>>()?;
        (paces.len() == streams).then_some(())?;
        let spoken = Spoken::parse(value["spoken"].as_str()?)?;
        Some(OrderPart {
            paces,
            limits: ReplayLimits { duration, warmup, timeout, give_up, bind: Vec::new(), tls: None, spoken },
        })
    }
}

fn number(value: &Value, most: u64) -> Option<u64> {
    value.as_u64().filter(|n| *n <= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_come_as_they_went() {
        let stream = |most, is_beside| OpenStream {
            name: "x".into(),
            connections: 7,
            keep: Keep { share: 0.25, most },
            is_beside,
        };
        let spoken = Spoken::Http3;
        let trust = Trust { is_blind: false, authorities: Some("PEM".into()), is_fresh: true, spoken };
        for trust in [None, Some(Trust::default()), Some(trust)] {
            let streams = vec![stream(Some(3), false), stream(None, true)];
            let open = Open { streams, top: 5, seed: u64::MAX, trust };
            assert_eq!(Open::parse(&open.json()), Some(open));
        }
        let limits =
            ReplayLimits { duration: Some(5), warmup: 1, timeout: 2, give_up: 0, bind: Vec::new(), tls: None, spoken };
        for pace in [
            ReplayPace::Closed { from: 1, to: 2 },
            ReplayPace::Rate { rate: 0.5, is_random: true },
            ReplayPace::Log { speed: 4.0 },
        ] {
            let part = OrderPart { paces: vec![(pace, 9)], limits: limits.clone() };
            let got = OrderPart::parse(&part.json(), 1).unwrap();
            assert_eq!(got.paces, part.paces);
            assert_eq!((got.limits.duration, got.limits.warmup, got.limits.timeout), (Some(5), 1, 2));
            assert_eq!(got.limits.spoken, Spoken::Http3);
            assert!(OrderPart::parse(&part.json(), 2).is_none());
        }
    }

    #[test]
    fn what_no_option_could_say_is_refused() {
        let good = Open {
            streams: vec![OpenStream {
                name: "x".into(),
                connections: 7,
                keep: Keep { share: 1.0, most: None },
                is_beside: false,
            }],
            top: 5,
            seed: 1,
            trust: Some(Trust::default()),
        }
        .json();
        for (pointer, value) in [
            ("/streams", json!([])),
            ("/streams/0/connections", json!(1u64 << 40)),
            ("/streams/0/share", json!(2)),
            ("/streams/0/most", json!(-1)),
            ("/top", json!(1u64 << 40)),
            ("/trust", json!({})),
        ] {
            let mut bad = good.clone();
            *bad.pointer_mut(pointer).unwrap() = value;
            assert_eq!(Open::parse(&bad), None, "{pointer}");
        }
        let rate = |n: Value| {
            json!({"paces": [{"pace": "rate", "rate": n, "is_random": false, "offset": 0}],
            "duration": null, "warmup": 0, "timeout": 1, "give_up": 0, "spoken": "http/1.1"})
        };
        assert!(OrderPart::parse(&rate(json!(1)), 1).is_some());
        assert!(OrderPart::parse(&rate(json!(0)), 1).is_none());
        assert!(OrderPart::parse(&rate(json!("x")), 1).is_none());
    }
}
