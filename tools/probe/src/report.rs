// SPDX-License-Identifier: BSD-2-Clause
//! What was measured, added up, for people and for programs.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use serde_json::{Value, json};

use crate::kernel::KernelCounters;
use crate::options::ProbeOptions;
use crate::shot::{ProbeSample, ShotFailure};
use crate::target::ProbeTarget;
use crate::verdict::{self, Lossy, ProbeCause, ProbeVerdict, Slow};

/// Longest time that is told apart, in microseconds.
const LONGEST: u64 = 86_400_000_000;
/// Reasons that are told apart.
const MOST_REASONS: usize = 20;
/// Slow answers that are kept for the verdict.
const MOST_SLOW: usize = 100_000;
/// Number of them that a report lists.
const LISTED: usize = 20;
const LINE: &str = "--------------------------------------------------------------------\n";

/// The seconds since 1970.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn date(seconds: u64) -> String {
    let local = i64::try_from(seconds).ok().and_then(|seconds| sys::localtime::format("%a %b %e %H:%M:%S %Y", seconds));
    local.unwrap_or_else(|| format!("{seconds} s since 1970"))
}

fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e6
}

#[derive(Clone, Debug)]
struct Listed {
    when: u64,
    url: String,
    address: SocketAddr,
    total: Duration,
    cause: ProbeCause,
}

#[derive(Debug)]
pub struct ProbeReport {
    name: String,
    slow_from: Duration,
    answers: u64,
    statuses: BTreeMap<u16, u64>,
    failures: BTreeMap<ShotFailure, u64>,
    elapsed: Duration,
    total: Histogram<u64>,
    connect: Histogram<u64>,
    handshake: Histogram<u64>,
    resumed: u64,
    agreed: BTreeMap<String, u64>,
    /// Reasons why TLS failed, with their counts.
    reasons: BTreeMap<String, u64>,
    sum: Duration,
    slowest: Option<Listed>,
    slow: Vec<(f64, ProbeCause)>,
    slow_count: u64,
    listed: Vec<Listed>,
    lossy: Lossy,
    /// Requests that weren't sent because too many were under way.
    pub held_back: u64,
    left: usize,
    by_address: BTreeMap<SocketAddr, (u64, u64)>,
    kernel_before: KernelCounters,
    kernel: Vec<(&'static str, &'static str, u64)>,
    lookups: Vec<(String, Duration, usize)>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("bounds that are good")
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(LONGEST).clamp(1, LONGEST)
}

impl ProbeReport {
    pub fn new(options: &ProbeOptions, targets: &[ProbeTarget]) -> ProbeReport {
        let names: Vec<&str> = targets.iter().map(|target| target.name.as_str()).collect();
        ProbeReport {
            name: names.join(", "),
            slow_from: options.slow,
            answers: 0,
            statuses: BTreeMap::new(),
            failures: BTreeMap::new(),
            elapsed: Duration::ZERO,
            total: histogram(),
            connect: histogram(),
            handshake: histogram(),
            resumed: 0,
            agreed: BTreeMap::new(),
            reasons: BTreeMap::new(),
            sum: Duration::ZERO,
            slowest: None,
            slow: Vec::new(),
            slow_count: 0,
            listed: Vec::new(),
            lossy: Lossy::default(),
            held_back: 0,
            left: 0,
            by_address: BTreeMap::new(),
            kernel_before: KernelCounters::read(),
            kernel: Vec::new(),
            lookups: targets.iter().map(|t| (t.name.clone(), t.lookup, t.addresses.len())).collect(),
        }
    }

    /// Answers of whatever status.
    pub fn answered(&self) -> u64 {
        self.answers
    }

    pub fn requests(&self) -> u64 {
        self.answers + self.failed()
    }

    fn failed(&self) -> u64 {
        self.failures.values().sum()
    }

    /// The line for a sample that is slow, and slower than all before.
    pub fn news(&self, sample: &ProbeSample) -> Option<String> {
        let is_slowest = self.slowest.as_ref().is_none_or(|slowest| sample.total > slowest.total);
        (is_slowest && sample.total >= self.slow_from && sample.result.is_ok()).then(|| {
            format!(
                "[SLOW] {}, {} served in {:.3} s ({})\n",
                date(sample.shot.begun_at),
                sample.shot.url,
                sample.total.as_secs_f64(),
                ProbeCause::of(sample).in_words()
            )
        })
    }

    pub fn add(&mut self, sample: ProbeSample) {
        let address = self.by_address.entry(sample.shot.address).or_default();
        address.0 += 1;
        if let Some(losses) = sample.losses {
            self.lossy.connecting += u64::from(losses.syns > 0);
            self.lossy.request += u64::from(losses.request > 0);
            self.lossy.answer += u64::from(losses.answer > 0);
            self.lossy.any += u64::from(losses.syns > 0 || losses.request > 0 || losses.answer > 0);
        }
        if let Some(connected) = sample.connected {
            self.connect.saturating_record(micros(connected));
        }
        if let Some(took) = sample.handshake {
            self.handshake.saturating_record(micros(took));
        }
        if let Some((what, is_resumed)) = &sample.agreed {
            self.resumed += u64::from(*is_resumed);
            *self.agreed.entry(what.clone()).or_default() += 1;
        }
        if let Some(reason) = &sample.reason
            && (self.reasons.len() < MOST_REASONS || self.reasons.contains_key(reason))
        {
            *self.reasons.entry(reason.clone()).or_default() += 1;
        }
        match sample.result {
            Ok(status) => {
                self.answers += 1;
                *self.statuses.entry(status).or_default() += 1;
                self.total.saturating_record(micros(sample.total));
                self.sum += sample.total;
            }
            Err(failure) => {
                *self.failures.entry(failure).or_default() += 1;
                return;
            }
        }
        if sample.total >= self.slow_from {
            address.1 += 1;
        }
        self.note(sample);
    }

    fn note(&mut self, sample: ProbeSample) {
        let cause = ProbeCause::of(&sample);
        let listed = Listed {
            when: sample.shot.begun_at,
            url: sample.shot.url,
            address: sample.shot.address,
            total: sample.total,
            cause,
        };
        if self.slowest.as_ref().is_none_or(|slowest| listed.total > slowest.total) {
            self.slowest = Some(listed.clone());
        }
        if listed.total < self.slow_from {
            return;
        }
        self.slow_count += 1;
        if self.slow.len() < MOST_SLOW {
            self.slow.push((listed.total.as_secs_f64(), cause));
        }
        let at = self.listed.partition_point(|other| other.total >= listed.total);
        self.listed.insert(at, listed);
        self.listed.truncate(LISTED);
    }

    /// The run is over, or a report is due; so many requests have no end yet.
    pub fn end(&mut self, elapsed: Duration, left: usize) {
        (self.elapsed, self.left) = (elapsed, left);
        self.kernel = KernelCounters::read().since(&self.kernel_before);
    }

    fn verdict(&self) -> ProbeVerdict {
        // The middle one of those that aren't slow: where half of all are, the middle of all would be no answer's time.
        let quick = self.answers.saturating_sub(self.slow_count);
        let middle = quick as f64 / 2.0 / self.answers.max(1) as f64;
        let usual = if quick == 0 { 0.0 } else { self.total.value_at_quantile(middle) as f64 / 1e6 };
        let slow: Vec<Slow> =
            self.slow.iter().map(|&(total, cause)| Slow { excess: (total - usual).max(0.0), cause }).collect();
        verdict::judge(self.requests(), self.failed(), &slow, self.lossy, self.slow_from.as_secs_f64())
    }

    pub fn text(&self) -> String {
        let elapsed = self.elapsed.as_secs_f64().max(1e-6);
        let slowest = self.slowest.as_ref().map_or(String::new(), |slowest| {
            format!(" (slowest {:.3} s at {})", slowest.total.as_secs_f64(), date(slowest.when))
        });
        let average = self.sum.as_secs_f64() / self.answers.max(1) as f64;
        let failures: Vec<String> = self.failures.iter().map(|(why, n)| format!("{n} {}", why.as_str())).collect();
        let failures = if failures.is_empty() { String::new() } else { format!(" ({})", failures.join(", ")) };
        let mut text = format!("Report for:            {} at {}\n", self.name, date(now()));
        text += &format!("Total requests:        {} in {elapsed:.3} s\n", self.requests());
        text += &format!("Failed requests:       {}{failures}\n", self.failed());
        text += &format!("Slow responses (>={}s): {}{slowest}\n", self.slow_from.as_secs_f64(), self.slow_count);
        text += &format!("Average response time: {average:.3} s ({:.3} req/s)\n", self.requests() as f64 / elapsed);
        for (reason, n) in &self.reasons {
            text += &format!("TLS failed:            {reason} ({n})\n");
        }
        if self.held_back > 0 {
            text += &format!("Not sent:              {} (too many were under way)\n", self.held_back);
        }
        if self.left > 0 {
            text += &format!("Without an end:        {}\n", self.left);
        }
        text + LINE
    }

    pub fn verdict_text(&self) -> String {
        let percentiles: Vec<String> = [50.0, 90.0, 99.0, 99.9, 100.0]
            .iter()
            .map(|&p| format!("{p} %: {:.3} s", self.total.value_at_percentile(p) as f64 / 1e6))
            .collect();
        let mut text = format!("Answers within:        {}\n", percentiles.join(", "));
        text += &format!(
            "Connected within:      50 %: {:.6} s, 99 %: {:.6} s\n",
            self.connect.value_at_percentile(50.0) as f64 / 1e6,
            self.connect.value_at_percentile(99.0) as f64 / 1e6
        );
        if !self.handshake.is_empty() {
            text += &format!(
                "TLS handshakes within: 50 %: {:.6} s, 99 %: {:.6} s; {} of {} resumed\n",
                self.handshake.value_at_percentile(50.0) as f64 / 1e6,
                self.handshake.value_at_percentile(99.0) as f64 / 1e6,
                self.resumed,
                self.handshake.len()
            );
            let agreed: Vec<String> = self.agreed.iter().map(|(what, n)| format!("{n} {what}")).collect();
            text += &format!("TLS:                   {}\n", agreed.join(", "));
        }
        let Lossy { connecting, request, answer, .. } = self.lossy;
        text +=
            &format!("Connections with loss: {connecting} connecting, {request} request, {answer} answer (TCP_INFO)\n");
        let kernel: Vec<String> = self.kernel.iter().map(|(_, what, n)| format!("{n} {what}")).collect();
        if !kernel.is_empty() {
            text += &format!("This whole machine:    {}\n", kernel.join(", "));
        }
        if self.by_address.len() > 1 {
            for (address, (requests, slow)) in &self.by_address {
                text += &format!("  {address}: {requests} requests, {slow} slow\n");
            }
        }
        text + &format!("Verdict:               {}\n", self.verdict().words)
    }

    pub fn json(&self) -> Value {
        let verdict = self.verdict();
        let times = |histogram: &Histogram<u64>| {
            let at = |p| histogram.value_at_percentile(p) as f64 / 1e6;
            json!({ "p50": at(50.0), "p90": at(90.0), "p99": at(99.0), "p99_9": at(99.9), "max": at(100.0),
                    "mean": if histogram.is_empty() { 0.0 } else { histogram.mean() / 1e6 }, "count": histogram.len() })
        };
        let slow: Vec<Value> = self
            .listed
            .iter()
            .map(|one| {
                json!({ "when": one.when, "url": one.url, "address": one.address.to_string(),
                        "seconds": seconds(one.total), "cause": one.cause.as_str() })
            })
            .collect();
        let causes = [ProbeCause::Syn, ProbeCause::Request, ProbeCause::Answer, ProbeCause::Other, ProbeCause::Unknown];
        let causes: BTreeMap<&str, usize> = causes
            .iter()
            .map(|&cause| (cause.as_str(), self.slow.iter().filter(|(_, own)| *own == cause).count()))
            .collect();
        let rungs: Vec<Value> = verdict
            .fit
            .iter()
            .flat_map(|fit| &fit.rungs)
            .map(|(rung, n)| json!({ "seconds": rung, "answers": n }))
            .collect();
        let Lossy { connecting, request, answer, .. } = self.lossy;
        let mut report = json!({
            "hosts": self.lookups.iter().map(|(name, took, addresses)|
                json!({ "name": name, "lookup_seconds": seconds(*took), "addresses": addresses })).collect::<Vec<_>>(),
            "seconds": seconds(self.elapsed),
            "requests": self.requests(), "answers": self.answers, "failed": self.failed(),
            "not_sent": self.held_back, "without_an_end": self.left,
            "failures": self.failures.iter().map(|(why, n)| (why.as_str(), n)).collect::<BTreeMap<_, _>>(),
            "statuses": self.statuses.iter().map(|(status, n)| (status.to_string(), n)).collect::<BTreeMap<_, _>>(),
            "total": times(&self.total), "connect": times(&self.connect),
            "slow": { "from_seconds": self.slow_from.as_secs_f64(), "count": self.slow_count, "causes": causes, "slowest": slow },
            "connections_with_loss": { "connecting": connecting, "request": request, "answer": answer },
            "kernel": self.kernel.iter().map(|(name, _, n)| (*name, n)).collect::<BTreeMap<_, _>>(),
            "addresses": self.by_address.iter().map(|(address, (requests, slow))|
                json!({ "address": address.to_string(), "requests": requests, "slow": slow })).collect::<Vec<_>>(),
            "verdict": { "finding": verdict.finding, "words": verdict.words, "rungs": rungs },
        });
        if !self.handshake.is_empty() || !self.reasons.is_empty() {
            report["tls"] = json!({ "handshake": times(&self.handshake), "resumed": self.resumed,
                "agreed": self.agreed, "failures": self.reasons });
        }
        report
    }
}
