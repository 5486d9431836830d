// SPDX-License-Identifier: BSD-2-Clause
//! The connections of a run: requests begin on them, and what happens to them ends requests.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::time::Instant;

use mio::Token;
use tls::Spoken;

use super::{BACK_OFF, ReplayEngine, ReplayLimits, Run};
use crate::answer::ReplayAnswer;
use crate::faults::ReplayFault;
use crate::h2::ReplayHttp2;
use crate::h3::{self, Http3};
use crate::link::{LinkEvent, ReplayJob, ReplayLink, ReplayVersion};
use crate::socket::{ReplaySocket, connect_fault};
use crate::stream::ReplayStream;
use crate::target::ReplayAddress;

impl ReplayEngine {
    pub(super) fn begin(
        &mut self,
        streams: &mut [ReplayStream],
        s: usize,
        job: ReplayJob,
        limits: &ReplayLimits,
        run: &mut Run,
        now: u64,
    ) {
        let address = job.ask().address as usize;
        let stream = &mut streams[s];
        stream.active += 1;
        let at = match stream.idle.get_mut(address).and_then(Vec::pop) {
            Some(at) => at,
            None => {
                if stream.open >= stream.connections
                    && let Some(other) = stream.idle.iter_mut().find_map(Vec::pop)
                {
                    self.close(stream, other);
                }
                match self.open(stream, s, address, limits, now) {
                    Ok(at) => at,
                    Err(fault) => {
                        stream.stats.sent += 1;
                        stream.stats.fault(fault);
                        run.failed(now);
                        stream.active -= 1;
                        if !stream.pace.is_open() {
                            self.thinking.push(Reverse((now + BACK_OFF, s)));
                        }
                        return;
                    }
                }
            }
        };
        let Some(link) = &mut self.links[at] else { return };
        stream.stats.sent += 1;
        let mut event = link.begin(job, stream.closes_after(link.served), &mut self.codec, now);
        if matches!(event, LinkEvent::More) {
            event = link.write(&mut stream.stats);
        }
        if let LinkEvent::Failed(fault) = event {
            self.fail(streams, at, fault, run, now);
        }
        self.set_alarm(at);
    }

    fn open(
        &mut self,
        stream: &mut ReplayStream,
        s: usize,
        address: usize,
        limits: &ReplayLimits,
        now: u64,
    ) -> Result<usize, ReplayFault> {
        if address >= self.addresses.len()
            && let Ok(all) = self.all.lock()
        {
            self.addresses.clone_from(&all);
        }
        let to = self.addresses.get(address).ok_or(ReplayFault::Connect)?;
        let from = match limits.bind.len() {
            0 => None,
            n => {
                self.binds += 1;
                Some(limits.bind[self.binds % n])
            }
        };
        let (mut socket, version) = match limits.spoken {
            Spoken::Http1 => (connect(to, from, limits)?, ReplayVersion::Http1),
            Spoken::Http2 => (connect(to, from, limits)?, ReplayVersion::Http2(Box::new(ReplayHttp2::new(now)))),
            Spoken::Http3 => quic(&mut self.quic, to, from, limits, self.begun, now)?,
        };
        let at = self.free.pop().unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        if socket.register(self.poll.registry(), Token(at)).is_err() {
            self.free.push(at);
            return Err(ReplayFault::Exhausted);
        }
        self.links[at] = Some(ReplayLink::new(socket, s, address, version, now));
        stream.open += 1;
        stream.stats.connections += 1;
        Ok(at)
    }

    fn close(&mut self, stream: &mut ReplayStream, at: usize) {
        // Dropping the socket takes it out of the poll.
        if let Some(link) = self.links[at].take() {
            link.part();
            self.free.push(at);
            stream.open -= 1;
        }
    }

    pub(super) fn event(
        &mut self,
        streams: &mut [ReplayStream],
        at: usize,
        is_readable: bool,
        is_closed: bool,
        limits: &ReplayLimits,
        run: &mut Run,
        now: u64,
    ) {
        self.look(streams, at, is_readable, is_closed, limits, run, now);
        self.set_alarm(at);
    }

    fn look(
        &mut self,
        streams: &mut [ReplayStream],
        at: usize,
        is_readable: bool,
        is_closed: bool,
        limits: &ReplayLimits,
        run: &mut Run,
        now: u64,
    ) {
        let Some(link) = self.links.get_mut(at).and_then(Option::as_mut) else { return };
        let s = link.stream;
        let stats = &mut streams[s].stats;
        if link.job.is_none() {
            // An idle connection: the server has closed it, or sends what nobody asked for.
            if link.is_stale(&mut self.buffer, &mut self.codec, now) {
                let address = link.address;
                streams[s].idle[address].retain(|idle| *idle != at);
                self.close(&mut streams[s], at);
            }
            return;
        }
        let mut event = link.connected(now, stats);
        if matches!(event, LinkEvent::More) {
            event = link.write(stats);
            link.shaken(|| self.begun.elapsed().as_nanos() as u64, stats);
        }
        if is_readable && matches!(event, LinkEvent::More) {
            event = link.read(&mut self.buffer, is_closed, &mut self.codec, stats, now);
        }
        match event {
            LinkEvent::More => {}
            LinkEvent::Answer(answer) => {
                self.finish(streams, at, answer, run);
                self.pump(streams, s, limits, run);
            }
            LinkEvent::Failed(fault) => self.retry_or_fail(streams, at, fault, limits, run, now),
        }
    }

    fn finish(&mut self, streams: &mut [ReplayStream], at: usize, answer: ReplayAnswer, run: &mut Run) {
        let now = self.now();
        let Some(link) = &mut self.links[at] else { return };
        let Some(job) = link.job.take() else { return };
        let (s, address, keeps) = (link.stream, link.address, answer.keeps && !link.closes);
        link.served += 1;
        let stream = &mut streams[s];
        stream.stats.answer(&answer, now.saturating_sub(job.due), now.saturating_sub(job.begun), || job.label());
        run.last_answer = now;
        run.failing = None;
        stream.active -= 1;
        if keeps {
            if stream.idle.len() <= address {
                stream.idle.resize_with(address + 1, Vec::new);
            }
            stream.idle[address].push(at);
        } else {
            self.close(stream, at);
        }
        self.user_rests(stream, s, now);
    }

    fn user_rests(&mut self, stream: &mut ReplayStream, s: usize, now: u64) {
        if stream.pace.is_open() {
            return;
        }
        match stream.think() {
            0 => stream.ready += 1,
            time => self.thinking.push(Reverse((now + time, s))),
        }
    }

    /// A kept connection that the server closed while our request was on its way says nothing about the request.
    fn retry_or_fail(
        &mut self,
        streams: &mut [ReplayStream],
        at: usize,
        fault: ReplayFault,
        limits: &ReplayLimits,
        run: &mut Run,
        now: u64,
    ) {
        let Some(link) = &mut self.links[at] else { return };
        let is_stale =
            link.served > 0 && !link.has_answer_begun() && matches!(fault, ReplayFault::Closed | ReplayFault::Reset);
        if !is_stale || !link.job.as_ref().is_some_and(|job| job.ask().is_safe && !job.is_resent) {
            self.fail(streams, at, fault, run, now);
            return;
        }
        let s = link.stream;
        let Some(mut job) = link.job.take() else { return };
        let stream = &mut streams[s];
        self.close(stream, at);
        stream.active -= 1;
        stream.stats.resent += 1;
        // A retried request is counted as sent once.
        stream.stats.sent -= 1;
        job.is_resent = true;
        // The other idle ones to this address may have met the same end: this one goes over a new one.
        let idle = stream.idle.get_mut(job.ask().address as usize).map(std::mem::take).unwrap_or_default();
        idle.into_iter().for_each(|at| self.close(stream, at));
        self.begin(streams, s, job, limits, run, now);
    }

    pub(super) fn fail(
        &mut self,
        streams: &mut [ReplayStream],
        at: usize,
        fault: ReplayFault,
        run: &mut Run,
        now: u64,
    ) {
        let Some(link) = &mut self.links[at] else { return };
        let s = link.stream;
        let stream = &mut streams[s];
        stream.stats.fault(fault);
        run.failed(now);
        stream.active -= 1;
        self.close(stream, at);
        if stream.pace.is_open() {
            return;
        }
        if matches!(fault, ReplayFault::Refused | ReplayFault::Connect | ReplayFault::Exhausted) {
            self.thinking.push(Reverse((now + BACK_OFF, s)));
        } else {
            self.user_rests(stream, s, now);
        }
    }
}

fn connect(to: &ReplayAddress, from: Option<IpAddr>, limits: &ReplayLimits) -> Result<ReplaySocket, ReplayFault> {
    ReplaySocket::connect(to, from, limits.tls.as_ref()).map_err(|error| connect_fault(&error))
}

/// A connection over QUIC, to an address where TLS is spoken; `config` is what all have in common.
fn quic(
    config: &mut Option<h3::ReplayHttp3Config>,
    to: &ReplayAddress,
    from: Option<IpAddr>,
    limits: &ReplayLimits,
    epoch: Instant,
    now: u64,
) -> Result<(ReplaySocket, ReplayVersion), ReplayFault> {
    let (ReplayAddress::Tls(to, name), Some(tls)) = (to, &limits.tls) else { return Err(ReplayFault::Connect) };
    let config = match config {
        Some(config) => config,
        None => config.insert(h3::ReplayHttp3Config::new(tls.clone(), epoch).map_err(|_| ReplayFault::Tls)?),
    };
    let http3 = Http3::new(config, *to, name, now)?;
    let socket = ReplaySocket::datagrams(*to, from).map_err(|error| connect_fault(&error))?;
    Ok((socket, ReplayVersion::Http3(Box::new(http3))))
}
