// SPDX-License-Identifier: BSD-2-Clause
//! What a worker counted, as JSON, and back: sums, and histograms as pairs of a value and how often it came.

use serde_json::{Value, json};

use crate::answer::SIGNS;
use crate::faults::ReplayFault;
use crate::stats::{ReplaySecond, ReplayStats, ReplayTimes};

/// More than any run counts; sums of as many as there may be workers stay numbers.
const MAX_COUNT: u64 = 1 << 48;
const MAX_URL: usize = 1000;

type Sum = (&'static str, fn(&mut ReplayStats) -> &mut u64);

const SUMS: [Sum; 11] = [
    ("sent", |s| &mut s.sent),
    ("answers", |s| &mut s.answers),
    ("known", |s| &mut s.cache.known),
    ("hits", |s| &mut s.cache.hits),
    ("bytes_in", |s| &mut s.bytes.received),
    ("body_bytes", |s| &mut s.bytes.bodies),
    ("bytes_out", |s| &mut s.bytes.sent),
    ("connections", |s| &mut s.connections),
    ("resumed", |s| &mut s.tls.resumed),
    ("resent", |s| &mut s.resent),
    ("unsent", |s| &mut s.unsent),
];

type Distribution = (&'static str, fn(&mut ReplayStats) -> &mut ReplayTimes);

const DISTRIBUTIONS: [Distribution; 5] = [
    ("latency", |s| &mut s.latency),
    ("service", |s| &mut s.service),
    ("late", |s| &mut s.late),
    ("connect", |s| &mut s.connect),
    ("handshake", |s| &mut s.tls.times),
];

type Text = (&'static str, fn(&mut ReplayStats) -> &mut Option<String>);

const TEXTS: [Text; 2] = [("agreed", |s| &mut s.tls.agreed), ("tls_failure", |s| &mut s.tls.failure)];

/// All that was counted; the second that runs is a part of it and stands by itself, too.
pub fn encode(stats: &ReplayStats, has_second: bool) -> Value {
    let mut s = stats.clone();
    let (second, times) = (*stats.current().0, stats.current().1.clone());
    s.latency.add_all(&times);
    let mut out = json!({
        "unfinished": s.unfinished,
        "status": s.status.iter().enumerate().filter(|(_, n)| **n > 0).map(|(code, n)| json!([code, n])).collect::<Value>(),
        "faults": s.faults,
        "signs": s.cache.by_sign.iter().map(|(told, hits)| json!([told, hits])).collect::<Value>(),
        "slowest": s.slowest.iter().map(|(ns, status, url)| json!([ns, status, cut(url)])).collect::<Value>(),
    });
    SUMS.iter().for_each(|(name, of)| out[*name] = json!(*of(&mut s)));
    DISTRIBUTIONS.iter().for_each(|(name, of)| out[*name] = pairs(of(&mut s)));
    TEXTS.iter().for_each(|(name, of)| out[*name] = json!(of(&mut s).as_deref().map(cut)));
    if has_second {
        out["second"] = json!([second.answers, second.faults, second.hits, pairs(&times)]);
    }
    out
}

fn cut(url: &str) -> String {
    url.chars().take(MAX_URL).collect()
}

fn pairs(times: &ReplayTimes) -> Value {
    let counts: Vec<u64> = times.iter().flat_map(|(ns, count)| [ns, count]).collect();
    json!([times.sum().to_string(), counts])
}

/// Reads what another process counted; `top`: so many of the slowest are kept. Also its second, if it has one.
pub fn decode(value: &Value, top: usize) -> Option<(ReplayStats, Option<(ReplaySecond, ReplayTimes)>)> {
    let count = |value: &Value| value.as_u64().filter(|n| *n <= MAX_COUNT);
    let pair = |value: &Value| Some((count(&value[0])?, count(&value[1])?));
    let mut s = ReplayStats::new(top);
    s.unfinished = count(&value["unfinished"])?;
    for (name, of) in SUMS {
        *of(&mut s) = count(&value[name])?;
    }
    for (name, of) in DISTRIBUTIONS {
        *of(&mut s) = times(&value[name])?;
    }
    for (name, of) in TEXTS {
        *of(&mut s) = value[name].as_str().map(cut);
    }
    for row in value["status"].as_array()? {
        let (code, n) = pair(row)?;
        *s.status.get_mut(code as usize)? = n;
    }
    for fault in ReplayFault::ALL {
        s.faults[fault as usize] = count(&value["faults"][fault as usize])?;
    }
    for i in 0..SIGNS.len() {
        s.cache.by_sign[i] = pair(&value["signs"][i])?;
    }
    for row in value["slowest"].as_array()?.iter().take(top) {
        let (ns, status) = pair(row)?;
        s.slowest.add(ns, status as u16, || cut(row[2].as_str().unwrap_or_default()));
    }
    let second = match &value["second"] {
        Value::Null => None,
        row => {
            let (answers, faults, hits) = (count(&row[0])?, count(&row[1])?, count(&row[2])?);
            Some((ReplaySecond { answers, faults, hits, ..ReplaySecond::default() }, times(&row[3])?))
        }
    };
    Some((s, second))
}

fn times(value: &Value) -> Option<ReplayTimes> {
    let mut out = ReplayTimes::default();
    for pair in value[1].as_array()?.chunks(2) {
        let (ns, count) = (pair[0].as_u64()?, pair.get(1)?.as_u64().filter(|n| *n <= MAX_COUNT)?);
        out.add_many(ns, count);
    }
    out.set_sum(value[0].as_str()?.parse().ok().filter(|sum| *sum < u128::from(u64::MAX))?);
    Some(out)
}

pub fn add(to: &mut ReplayStats, from: &ReplayStats) {
    let mut from = from.clone();
    for (_, of) in SUMS {
        *of(to) = of(to).saturating_add(*of(&mut from));
    }
    for (_, of) in DISTRIBUTIONS {
        of(to).add_all(of(&mut from));
    }
    for (_, of) in TEXTS {
        let known = of(to);
        *known = known.take().or_else(|| of(&mut from).take());
    }
    to.unfinished = to.unfinished.saturating_add(from.unfinished);
    to.status.iter_mut().zip(&from.status).for_each(|(a, b)| *a = a.saturating_add(*b));
    to.faults.iter_mut().zip(from.faults).for_each(|(a, b)| *a = a.saturating_add(b));
    for (a, b) in to.cache.by_sign.iter_mut().zip(from.cache.by_sign) {
        *a = (a.0.saturating_add(b.0), a.1.saturating_add(b.1));
    }
    from.slowest.iter().for_each(|(ns, status, url)| to.slowest.add(*ns, *status, || url.clone()));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::answer::{ReplayAnswer, SignVerdict};
    use crate::report::{self, CountedRequests};

    fn counted(answers: &[(u64, u16, bool)]) -> ReplayStats {
        let mut stats = ReplayStats::new(3);
        for (i, (ns, status, is_hit)) in answers.iter().enumerate() {
            let verdicts = [None, None, Some(if *is_hit { SignVerdict::Hit } else { SignVerdict::Miss }), None];
            let answer = ReplayAnswer { status: *status, verdicts, keeps: true, body_bytes: 7 };
            stats.sent += 1;
            stats.answer(&answer, *ns, ns / 2, || format!("/{i}"));
            stats.late.add(ns / 3);
        }
        stats.fault(ReplayFault::Reset);
        stats
    }

    fn shown(stats: &ReplayStats) -> Value {
        let told = crate::reader::ReaderReport::default();
        let streams = [CountedRequests { name: "x", stats, told: &told, is_open: true }];
        report::run(&streams, 1_000_000_000, crate::end::ReplayEnd::Done, report::ReplayClient::default(), None)
    }

    proptest! {
        /// Sent over and added up, two parts say what the whole would have said.
        #[test]
        fn parts_add_up(answers in proptest::collection::vec((1_000u64..10_000_000_000, 100u16..600, any::<bool>()), 0..60), at in 0usize..60) {
            let at = at.min(answers.len());
            let mut sum = ReplayStats::new(3);
            for part in [&answers[..at], &answers[at..]] {
                let stats = counted(part);
                let (got, second) = decode(&encode(&stats, true), 3).unwrap();
                let (second, times) = second.unwrap();
                prop_assert_eq!((second.answers, second.faults, times.len()), (part.len() as u64, 1, part.len() as u64));
                add(&mut sum, &got);
            }
            let mut whole = counted(&answers);
            whole.fault(ReplayFault::Reset);
            whole.settle();
            let (mut a, mut b) = (shown(&sum), shown(&whole));
            // Which URL is where among equals may differ: they are numbered by part.
            a["slowest"] = Value::Null;
            b["slowest"] = Value::Null;
            prop_assert_eq!(a, b);
        }

        #[test]
        fn no_numbers_can_hurt(n: u64, code: u64, text: String) {
            let mut value = encode(&counted(&[(5, 200, true)]), true);
            value["sent"] = json!(n);
            value["latency"] = json!([text, [n, n, code]]);
            value["status"] = json!([[code, n]]);
            let _ = decode(&value, 3);
            let _ = decode(&json!({"sent": text}), 3);
        }
    }
}
