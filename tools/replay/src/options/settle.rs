// SPDX-License-Identifier: BSD-2-Clause
//! Meaning of the options of `lacquer replay` together, and which of them exclude each other.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use accesslog::AccessSources;
use base::lookup::addresses_of_text;
use tls::{Spoken, Trust};

use super::{PaceWords, ReplayInvocation, ReplayOptions, ReplayWords, ScenarioWords, TargetWords};
use crate::fleet::worker::Serve;
use crate::order::Order;
use crate::pace::ReplayPace;
use crate::reader::ReadingPlan;
use crate::scenario::{ReplayScenario, ScenarioLimit};
use crate::server::WatchedServer;
use crate::target::{ReplayAddress, TargetRules};

/// Reports that are compared at once: each has a letter.
const MAX_REPORTS: usize = 26;
const DEFAULT_WINDOW: usize = 100_000;
const DEFAULT_HOLD: u64 = 10_000_000_000;
const MIN_SECRET: usize = 8;
const MAX_WORKERS: usize = 1000;
/// Most slowest requests to report with workers, which send theirs each second.
const MAX_TOP_OF_WORKERS: usize = 100;

impl ReplayWords {
    pub(super) fn finish(self) -> Result<ReplayInvocation, String> {
        if self.is_compare {
            let reports = self.options.plan.sources.files;
            return match reports.len() {
                0 | 1 => Err("--compare needs two reports or more".into()),
                2..=MAX_REPORTS => Ok(ReplayInvocation::Compare(reports, self.options.format)),
                n => Err(format!("--compare: {n} reports; at most {MAX_REPORTS}")),
            };
        }
        if let Some(address) = &self.serve {
            return self.served(address).map(ReplayInvocation::Serve);
        }
        self.check()?;
        self.settle().map(|options| ReplayInvocation::Run(Box::new(options)))
    }

    fn settle(self) -> Result<ReplayOptions, String> {
        let secret = self.secret()?;
        let ReplayWords { mut options, target, pace, scenario, connections, pids, cgroup, .. } = self;
        options.secret = secret;
        options.plan.rules = target.rules()?;
        options.trust = target.trust(&options.plan.rules)?;
        let tls = options.trust.as_ref().map(Trust::client).transpose();
        options.limits.tls = tls.map_err(|error| format!("--ca: {error}"))?;
        options.limits.spoken = target.spoken();
        options.pace = pace.of(&scenario);
        pace.settle(&mut options.plan);
        options.plan.extras.host = options.plan.extras.host.or_else(|| target.to.as_deref().map(authority));
        options.walker = scenario.walker_of(&options.plan);
        options.scenario = scenario.settle();
        let usual = if options.pace.is_open() { 1000 } else { 10 };
        options.connections = connections.unwrap_or(usual).max(options.workers.len());
        options.watched = pids.map(WatchedServer::Pids).or(cgroup.map(WatchedServer::Cgroup));
        Ok(options)
    }

    fn served(&self, address: &str) -> Result<Serve, String> {
        let ReplayOptions { plan, limits, workers, .. } = &self.options;
        let is_alone = plan.sources.files.is_empty() && self.target.to.is_none() && workers.is_empty();
        if !is_alone {
            return Err("--serve takes its orders from a coordinator: only --bind and --secret go with it".into());
        }
        let wrong = || format!("--serve {address}: no such address");
        let address: SocketAddr = match address.parse::<u16>() {
            Ok(port) => ([127, 0, 0, 1], port).into(),
            Err(_) => addresses_of_text(address).ok().and_then(|all| all.first().copied()).ok_or_else(wrong)?,
        };
        let secret = self.secret()?;
        if secret.is_empty() && !address.ip().is_loopback() {
            return Err(format!("--serve {address}: others could have it load whom they like; give it a --secret"));
        }
        Ok(Serve { address, secret, bind: limits.bind.clone() })
    }

    fn secret(&self) -> Result<Vec<u8>, String> {
        let Some(path) = &self.secret else { return Ok(Vec::new()) };
        let wrong = |why: &str| format!("--secret {}: {why}", path.display());
        let bytes = std::fs::read(path).map_err(|e| wrong(&logq::source::strerror(&e)))?;
        let secret = bytes.trim_ascii();
        if secret.len() < MIN_SECRET { Err(wrong("shorter than 8 bytes")) } else { Ok(secret.to_vec()) }
    }

    fn check(&self) -> Result<(), String> {
        let ReplayWords { options, target, pace, scenario, .. } = self;
        let sources = &options.plan.sources;
        let rules = [
            (sources.files.is_empty() && sources.live.is_none(), "no source (--help shows the usage)"),
            (!sources.files.is_empty() && sources.live.is_some(), "files or a running varnishd (-n), not both"),
            (target.to.is_none() && target.map.is_empty() && !target.each_host, "where to? --to, --map or --each-host"),
            (target.to.is_some() && target.each_host, "--to or --each-host, not both"),
            (target.no_verify && target.ca.is_some(), "--no-verify or --ca, not both"),
            (target.http2 && target.http3, "--http2 or --http3, not both"),
            (pace.rate.is_some() && pace.speed.is_some(), "--rate or --speed, not both"),
            (pace.think.is_some() && (pace.rate.is_some() || pace.speed.is_some()), "--think is for the closed loop"),
            (
                pace.random_gaps && pace.rate.is_none() && scenario.ramp.is_none(),
                "--random-gaps needs --rate or --ramp",
            ),
            (scenario.passes.is_some() && scenario.ramp.is_some(), "--passes or --ramp, not both"),
            (
                scenario.passes.is_some()
                    && options.plan.repeat
                    && options.requests.is_none()
                    && options.limits.duration.is_none(),
                "--passes ends at the source's end, --loop never does",
            ),
            (
                scenario.passes.is_some() && (sources.live.is_some() || sources.files.iter().any(|s| s == "-")),
                "--passes needs files: they are read again",
            ),
            (
                scenario.ramp.is_some() && (pace.rate.is_some() || pace.speed.is_some() || pace.think.is_some()),
                "--ramp sets the pace: no --rate, --speed or --think",
            ),
            (scenario.ramp.is_some() && options.limits.duration.is_some(), "--ramp takes --hold, not --duration"),
            (
                (scenario.hold.is_some() || !scenario.until.is_empty()) && scenario.ramp.is_none(),
                "--hold and --until need --ramp",
            ),
            (scenario.walker_rate.is_some() && scenario.walker.is_none(), "--walker-rate needs --walker"),
            (scenario.walker.as_deref() == Some("-"), "--walker needs a file: it is read again"),
            (pace.window.is_some() && !pace.is_shuffled, "--window needs --order shuffle"),
            (pace.max_gap.is_some() && pace.speed.is_none(), "--max-gap needs --speed"),
            (self.pids.is_some() && self.cgroup.is_some(), "--pid or --cgroup, not both"),
            (options.plan.repeat && sources.live.is_some(), "a running varnishd has no end to --loop at"),
            (
                options.plan.repeat && sources.files.iter().any(|s| s == "-"),
                "standard input can't be read again (--loop)",
            ),
            (
                options.plan.repeat
                    && options.limits.duration.is_none()
                    && options.requests.is_none()
                    && scenario.ramp.is_none(),
                "--loop without an end: give --duration or --requests",
            ),
            (
                sources.format.is_some() && sources.live.is_some(),
                "--log-format is for lines of a file, not for a running varnishd",
            ),
            (self.secret.is_some() && options.workers.is_empty(), "--secret is for --workers and --serve"),
            (options.workers.len() > MAX_WORKERS, "more than 1000 workers"),
            (
                !options.workers.is_empty() && self.connections.is_some_and(|n| n < options.workers.len()),
                "fewer connections (-c) than workers: each needs one",
            ),
            (
                !options.workers.is_empty() && !options.limits.bind.is_empty(),
                "--bind is each worker's own: give it with --serve",
            ),
            (
                !options.workers.is_empty() && options.requests.is_some() && scenario.ramp.is_some(),
                "--requests with --ramp is for one process; with --workers give --hold",
            ),
            (!options.workers.is_empty() && options.top > MAX_TOP_OF_WORKERS, "--top is 100 at most with --workers"),
            (sources.files.iter().filter(|s| *s == "-").count() > 1, "standard input can be read only once"),
        ];
        rules.iter().find(|(is_wrong, _)| *is_wrong).map_or(Ok(()), |(_, text)| Err((*text).to_owned()))
    }
}

impl PaceWords {
    fn of(&self, scenario: &ScenarioWords) -> ReplayPace {
        let first_rate = scenario.ramp.as_ref().and_then(|rates| rates.first().copied());
        match (self.rate.or(first_rate), self.speed, self.think) {
            (Some(rate), ..) => ReplayPace::Rate { rate, is_random: self.random_gaps },
            (_, Some(speed), _) => ReplayPace::Log { speed },
            (.., think) => {
                let (from, to) = think.unwrap_or((0, 0));
                ReplayPace::Closed { from, to }
            }
        }
    }

    fn settle(&self, plan: &mut ReadingPlan) {
        if self.is_shuffled {
            plan.order = Order::Shuffled { window: self.window.unwrap_or(DEFAULT_WINDOW) };
        }
        plan.is_timed = self.speed.is_some();
        plan.max_gap = self.max_gap.unwrap_or(plan.max_gap);
    }
}

impl ScenarioWords {
    /// The walker reads its own file; the rest it does as `plan`.
    fn walker_of(&self, plan: &ReadingPlan) -> Option<(ReadingPlan, ReplayPace)> {
        let file = self.walker.clone()?;
        let pace = match self.walker_rate {
            Some(rate) => ReplayPace::Rate { rate, is_random: false },
            None => ReplayPace::Closed { from: 0, to: 0 },
        };
        let sources = AccessSources { files: vec![file], live: None, ..plan.sources.clone() };
        Some((ReadingPlan { sources, order: Order::AsRead, is_timed: false, repeat: true, ..plan.clone() }, pace))
    }

    fn settle(self) -> ReplayScenario {
        match (self.passes, self.ramp) {
            (Some(n), _) => ReplayScenario::Passes(n),
            (_, Some(rates)) => {
                let limits = if self.until.is_empty() { vec![ScenarioLimit::Errors(0.01)] } else { self.until };
                ReplayScenario::Ramp { rates, hold: self.hold.unwrap_or(DEFAULT_HOLD), limits }
            }
            _ => ReplayScenario::Plain,
        }
    }
}

impl TargetWords {
    fn rules(&self) -> Result<TargetRules, String> {
        let mut map = HashMap::new();
        for text in &self.map {
            let (host, address) = text.split_once('=').ok_or_else(|| format!("--map {text}: HOST=ADDRESS"))?;
            map.insert(host.to_ascii_lowercase().into_bytes(), ReplayAddress::parse(address)?);
        }
        let to = self.to.as_deref().map(ReplayAddress::parse).transpose()?;
        if self.http3 && !to.iter().chain(map.values()).all(ReplayAddress::is_tls) {
            return Err("--http3 is spoken by TLS alone: --to https://HOST, --map HOST=https://HOST".into());
        }
        Ok(TargetRules { to, map, each_host: self.each_host, sealed: self.http3, sni: self.sni.clone() })
    }

    fn spoken(&self) -> Spoken {
        match (self.http2, self.http3) {
            (_, true) => Spoken::Http3,
            (true, false) => Spoken::Http2,
            (false, false) => Spoken::Http1,
        }
    }

    fn trust(&self, rules: &TargetRules) -> Result<Option<Trust>, String> {
        if !rules.may_need_tls() {
            let is_idle = self.sni.is_some() || self.ca.is_some() || self.no_verify || self.no_resume;
            return if is_idle {
                Err("--sni, --ca, --no-verify and --no-resume are for TLS: --to https://HOST, --map or --each-host"
                    .into())
            } else {
                Ok(None)
            };
        }
        let read = |path: &PathBuf| {
            std::fs::read_to_string(path)
                .map_err(|e| format!("--ca {}: {}", path.display(), logq::source::strerror(&e)))
        };
        let authorities = self.ca.as_ref().map(read).transpose()?;
        let spoken = self.spoken();
        Ok(Some(Trust { is_blind: self.no_verify, authorities, is_fresh: self.no_resume, spoken }))
    }
}

/// The Host for an address that was given.
fn authority(to: &str) -> String {
    if to.starts_with('/') || to.starts_with("unix:") {
        return "localhost".into();
    }
    let to = to.strip_prefix("http://").or_else(|| to.strip_prefix("https://")).unwrap_or(to);
    to.trim_end_matches('/').to_owned()
}
