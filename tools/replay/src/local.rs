// SPDX-License-Identifier: BSD-2-Clause
//! A run that this process sends by itself.

use serde_json::Value;

use crate::end::ReplayEnd;
use crate::engine::{ReplayEngine, ReplayLimits};
use crate::options::ReplayOptions;
use crate::pace::ReplayPace;
use crate::progress::ReplayStanding;
use crate::reader::{self, ReadingPlan};
use crate::report::ReplayClient;
use crate::run::{RequestSender, RunWatch};
use crate::stats::ReplayStats;
use crate::stream::ReplayStream;
use crate::target::TargetAddresses;
use crate::{report, server};

/// The engine and its streams: the first is the run's, others go on beside it.
pub struct Local<'o> {
    options: &'o ReplayOptions,
    engine: ReplayEngine,
    addresses: TargetAddresses,
    streams: Vec<ReplayStream>,
}

fn failed(error: std::io::Error) -> String {
    logq::source::strerror(&error)
}

impl<'o> Local<'o> {
    /// One whose readers have begun. Must be made before there are threads.
    ///
    /// # Errors
    /// The operating system's word.
    pub fn new(o: &'o ReplayOptions) -> Result<Local<'o>, String> {
        // As many as may be: refused, it goes on with fewer.
        let _ = sys::limits::raise_open_files(2 * o.connections as u64 + 64);
        let addresses = TargetAddresses::default();
        let engine = ReplayEngine::new(addresses.clone()).map_err(failed)?;
        let mut local = Local { options: o, engine, addresses, streams: Vec::new() };
        let mut first = local.stream("replay", &o.plan, o.pace, o.connections)?;
        (first.keep, first.most) = (o.keep, o.requests);
        local.streams.push(first);
        if let Some((plan, pace)) = &o.walker {
            let mut walker = local.stream("walker", plan, *pace, 1)?;
            walker.is_beside = true;
            local.streams.push(walker);
        }
        Ok(local)
    }

    fn stream(
        &self,
        name: &str,
        plan: &ReadingPlan,
        pace: ReplayPace,
        connections: usize,
    ) -> Result<ReplayStream, String> {
        let (from, told) = reader::start(plan.clone(), self.addresses.clone(), self.engine.waker()).map_err(failed)?;
        Ok(ReplayStream::new(name, from, told, pace, connections, self.options.top))
    }
}

impl RequestSender for Local<'_> {
    fn refill(&mut self) -> Result<(), String> {
        let plan = self.options.plan.clone();
        let (from, told) = reader::start(plan, self.addresses.clone(), self.engine.waker()).map_err(failed)?;
        self.streams[0].refill(from, told);
        Ok(())
    }

    fn part(
        &mut self,
        pace: ReplayPace,
        limits: &ReplayLimits,
        watch: &mut RunWatch,
    ) -> Result<(Value, ReplayEnd), String> {
        self.streams[0].pace = pace;
        let mut client = server::own_cpu_seconds();
        let mut tick = |passed: u64, streams: &[ReplayStream]| {
            if watch.tick(passed, &standing(&streams[0])) {
                client = server::own_cpu_seconds();
            }
        };
        let (ns, end) = self.engine.run(&mut self.streams, limits, &mut tick).map_err(failed)?;
        watch.end();
        let streams: Vec<_> = self.streams.iter().map(ReplayStream::counted).collect();
        let used = server::own_cpu_seconds() - client;
        Ok((report::run(&streams, ns, end, ReplayClient::alone(used), watch.meter.as_ref()), end))
    }

    fn stats(&self) -> &ReplayStats {
        &self.streams[0].stats
    }

    fn is_unanswered(&self) -> bool {
        self.streams.iter().all(|s| s.stats.answers == 0)
    }
}

fn standing(stream: &ReplayStream) -> ReplayStanding<'_> {
    let (second, times) = stream.stats.current();
    let mut second = *second;
    second.close(times);
    ReplayStanding {
        answers: stream.stats.answers,
        second,
        tells_hits: stream.stats.cache.known > 0,
        failed: stream.stats.failed(),
        begun: stream.begun,
        most: stream.most,
        told: &stream.told,
    }
}
