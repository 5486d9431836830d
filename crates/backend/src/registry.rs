// SPDX-License-Identifier: BSD-2-Clause
//! State shared by the backends of all VCLs: connection pools and the schedule of probes.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Mono;
use base::lock::Mutex;
use tokio::sync::Notify;

use crate::health::ProbeState;
use crate::names::HostNames;
use crate::pool::{EndpointPool, EndpointPools};
use crate::trouble::LineBudget;
use crate::{Backend, BackendEnv, BackendSpec};

const SWEEP_EVERY: Duration = Duration::from_secs(1);

pub struct Backends {
    env: BackendEnv,
    pools: EndpointPools,
    names: HostNames,
    prober: Arc<Prober>,
    lines: Arc<LineBudget>,
}

impl Backends {
    pub fn new(env: BackendEnv) -> Arc<Self> {
        let (names, prober) = (HostNames::new(env.clone()), Arc::new(Prober::new(env.clone())));
        Arc::new(Self { pools: EndpointPools::default(), names, prober, lines: Arc::default(), env })
    }

    /// A backend of the VCL loaded as `vcl`. It is cold (counters hidden, not probed) until it gets
    /// [`crate::VclEvent::Warm`].
    pub fn create(&self, vcl: &str, mut spec: BackendSpec) -> Arc<Backend> {
        if let Some(via) = &spec.via {
            spec.endpoint.preamble.extend(via.header(self.env.services.params().prefer_ipv6));
        }
        let name = spec.endpoint.name.as_ref().map(|(host, port)| self.names.name(host, *port, &spec.found));
        if name.is_some() {
            // The housekeeping thread looks the name up.
            self.prober.changed.notify_one();
        }
        let pool = match &spec.service {
            Some(_) => EndpointPool::alone(),
            None => self.pools.pool(&spec.endpoint, name, self.env.services.pools()),
        };
        let backend = Backend::new(vcl, spec, self.env.clone(), pool, self.prober.clone(), self.lines.clone());
        if let Some(probe) = &backend.probe {
            probe.update(&backend);
        }
        backend
    }

    /// Probes backends, looks names up and closes idle connections, for ever. Runs on the housekeeping thread's runtime.
    pub async fn housekeep(self: Arc<Self>) {
        let mut swept = self.env.clock.mono();
        loop {
            self.names.start_due();
            let wait = self.prober.start_due();
            // Either event leads to another look.
            let _ = rt::timeout(wait.min(SWEEP_EVERY), self.prober.changed.notified()).await;
            if self.env.clock.mono().since(swept) >= SWEEP_EVERY.as_secs_f64() {
                self.close_idle();
                swept = self.env.clock.mono();
            }
        }
    }

    /// Closes connections idle for longer than `backend_idle_timeout`, or that the backend has closed.
    pub fn close_idle(&self) -> usize {
        self.pools.close_idle(self.env.clock.mono(), self.env.services.params().idle_timeout)
    }

    pub fn idle(&self) -> usize {
        self.pools.idle()
    }
}

pub(crate) struct Prober {
    env: BackendEnv,
    jobs: Mutex<Vec<Job>>,
    changed: Notify,
}

struct Job {
    backend: Weak<Backend>,
    due: Mono,
    running: bool,
    poked: bool,
}

impl Job {
    fn is_for(&self, backend: &Backend) -> bool {
        std::ptr::eq(self.backend.as_ptr(), backend)
    }
}

impl Prober {
    fn new(env: BackendEnv) -> Self {
        Self { env, jobs: Mutex::default(), changed: Notify::new() }
    }

    pub(crate) fn schedule(&self, backend: &Backend) {
        let job = Job { backend: backend.weak(), due: self.env.clock.mono(), running: false, poked: false };
        let mut jobs = self.jobs.lock();
        jobs.retain(|old| !old.is_for(backend) && old.backend.strong_count() > 0);
        jobs.push(job);
        drop(jobs);
        self.changed.notify_one();
    }

    /// Stops probing it. The result of a poke in progress is discarded.
    pub(crate) fn cancel(&self, backend: &Backend) {
        self.jobs.lock().retain(|job| !job.is_for(backend));
    }

    /// The state of the same endpoint, if another VCL probes it with the same settings.
    pub(crate) fn known_health(&self, of: &Backend) -> Option<ProbeState> {
        let poked: Vec<_> = {
            let jobs = self.jobs.lock();
            let others = jobs.iter().rev().filter(|job| job.poked && !job.is_for(of));
            others.filter_map(|job| job.backend.upgrade()).collect()
        };
        let probe = of.probe.as_ref()?;
        let same = |other: &Arc<Backend>| {
            other.spec().endpoint == of.spec().endpoint
                && other.spec().proxy_header == of.spec().proxy_header
                && other.probe.as_ref().is_some_and(|theirs| theirs.is_same(probe))
        };
        poked.into_iter().find(same)?.probe.as_ref().map(|theirs| theirs.snapshot())
    }

    /// Checks the schedule now, because a test has moved the clock.
    #[cfg(test)]
    pub(crate) fn poke_now(&self) {
        self.changed.notify_one();
    }

    /// Starts a task for each probe that is due. Returns the time until the next one.
    fn start_due(self: &Arc<Self>) -> Duration {
        let now = self.env.clock.mono();
        let mut next = Duration::MAX;
        let mut due = Vec::new();
        for job in self.jobs.lock().iter_mut().filter(|job| !job.running) {
            let wait = job.due.since(now);
            if wait > 0.0 {
                next = next.min(Duration::from_secs_f64(wait));
            } else if let Some(backend) = job.backend.upgrade() {
                job.running = true;
                due.push(backend);
            }
        }
        for backend in due {
            let prober = self.clone();
            rt::spawn(async move { prober.poke(&backend).await });
        }
        next
    }

    async fn poke(&self, backend: &Backend) {
        let Some(probe) = &backend.probe else { return };
        let result = probe.poke(backend).await;
        let is_ours = {
            let mut jobs = self.jobs.lock();
            let job = jobs.iter_mut().find(|job| job.is_for(backend));
            job.map(|job| {
                (job.running, job.poked) = (false, true);
                job.due = self.env.clock.mono().plus(probe.interval().as_secs_f64());
            })
            .is_some()
        };
        if is_ours {
            probe.poked(backend, result);
        }
        self.changed.notify_one();
    }
}
