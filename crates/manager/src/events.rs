// SPDX-License-Identifier: BSD-2-Clause
//! Events that the manager waits for: sources, each with descriptors and a time. A further event is one more
//! source.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use base::clock::Mono;
use sys::fd::Interest;
use sys::signal::Signals;

use crate::arenas::WorkerEnd;
use crate::clitcp::Masters;
use crate::manager::Manager;
use crate::report::{ReportSeverity, print};
use crate::session::Session;
use crate::upgrade::carried::elapsed;

const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// A descriptor that a source waits for, with the number by which the source knows it.
type Want<'a> = (usize, BorrowedFd<'a>, Interest);

struct Source {
    wants: for<'a> fn(&'a Manager) -> Vec<Want<'a>>,
    on_ready: fn(&mut Manager, usize),
    due: fn(&Manager) -> Option<Mono>,
    on_time: fn(&mut Manager),
}

impl Source {
    const fn of_time(due: fn(&Manager) -> Option<Mono>, on_time: fn(&mut Manager)) -> Source {
        Source { wants: |_| Vec::new(), on_ready: |_, _| (), due, on_time }
    }
}

static SOURCES: [Source; 17] = [
    Source::of_time(|m| Some(m.server.next_tick), Manager::on_tick),
    Source {
        wants: |m| readable(m.worker.descriptors()),
        on_ready: |m, _| m.on_worker(),
        due: |m| m.worker.ping,
        on_time: Manager::ping_worker,
    },
    Source {
        wants: |m| readable(m.leaving_descriptors()),
        on_ready: |m, _| m.tend_leaving(),
        due: Manager::leaving_due,
        on_time: Manager::tend_leaving,
    },
    Source::of_time(|m| Some(m.vcls.cooling), Manager::cool_vcls),
    Source {
        wants: |m| readable(m.dying_descriptors()),
        on_ready: |m, _| m.bury_dying(Duration::ZERO),
        due: |m| m.ended.look,
        on_time: Manager::look_at_dying,
    },
    Source::of_time(|m| m.ended.restart, Manager::restart_worker),
    Source {
        wants: |m| readable(m.ended.naming.descriptor()),
        on_ready: |m, _| m.tend_naming(),
        due: |m| m.ended.naming.due(),
        on_time: Manager::tend_naming,
    },
    Source::of_time(|m| m.tls.ticket_keys.due(), Manager::rotate_ticket_keys),
    Source {
        wants: |m| readable(m.tls.signers.descriptors()),
        on_ready: |m, _| m.tend_signers(),
        due: |m| m.tls.signers.due(),
        on_time: Manager::restart_signer,
    },
    Source {
        wants: |m| readable(m.tls.certs.work_descriptor()),
        on_ready: |m, _| m.tend_long_command(),
        due: |m| m.tls.certs.work_due(m.now()),
        on_time: Manager::tend_long_command,
    },
    Source {
        wants: |m| readable(m.acme_descriptor()),
        on_ready: |m, _| m.tend_acme(),
        due: Manager::acme_due,
        on_time: Manager::on_acme_timer,
    },
    Source {
        wants: |m| readable(m.watcher.descriptor()),
        on_ready: |m, _| m.tend_watch(),
        due: |m| m.watcher.due(),
        on_time: Manager::begin_watch,
    },
    Source {
        wants: |m| readable(m.fleet.agent.descriptor()),
        on_ready: |m, _| m.tend_rollout(),
        due: |m| m.fleet.agent.due(),
        on_time: Manager::begin_rollout,
    },
    // The loop that waits for it looks itself.
    Source::of_time(|m| m.fleet.wait_until, |_| ()),
    Source {
        wants: |m| readable(m.cli.sockets.iter().filter(|_| m.takes_connections()).map(AsFd::as_fd)),
        on_ready: Manager::on_connection,
        due: |_| None,
        on_time: |_| (),
    },
    Source {
        wants: |m| {
            let sessions = m.cli.sessions.iter().enumerate();
            sessions.filter_map(|(at, session)| session.want().map(|(fd, interest)| (at, fd, interest))).collect()
        },
        on_ready: Manager::on_session,
        due: |m| m.cli.sessions.iter().filter_map(Session::due).reduce(earlier),
        on_time: Manager::expire_sessions,
    },
    Source {
        wants: |m| {
            let want = m.cli.masters.as_ref().and_then(Masters::descriptor);
            want.into_iter().map(|(fd, interest)| (0, fd, interest)).collect()
        },
        on_ready: |m, _| m.connect_to_master(),
        due: |m| m.cli.masters.as_ref().and_then(Masters::due),
        on_time: Manager::connect_to_master,
    },
];

fn readable<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>) -> Vec<Want<'a>> {
    fds.into_iter().enumerate().map(|(at, fd)| (at, fd, Interest::Read)).collect()
}

fn earlier(one: Mono, other: Mono) -> Mono {
    if other < one { other } else { one }
}

impl Manager {
    /// Serves until a signal, or the end of the -d session, says stop. Returns the exit status.
    pub fn run(&mut self, mut signals: Signals) -> i32 {
        while !self.turn(&mut signals) {}
        self.finish()
    }

    /// Waits for the next events and handles them; true to stop.
    pub(crate) fn turn(&mut self, signals: &mut Signals) -> bool {
        let mut stop = false;
        for ready in self.wait(signals) {
            match ready {
                None => stop |= self.on_signal(signals),
                Some((source, at)) => (source.on_ready)(self, at),
            }
        }
        for source in &SOURCES {
            if (source.due)(self).is_some_and(|due| due <= self.now()) {
                (source.on_time)(self);
            }
        }
        self.begin_naming();
        stop | self.sweep_sessions()
    }

    /// Sources with the number of a descriptor that is ready; `None` stands for signals.
    fn wait(&self, signals: &Signals) -> Vec<Option<(&'static Source, usize)>> {
        let mut wants = vec![(signals.as_fd(), Interest::Read)];
        let mut events = vec![None];
        for source in &SOURCES {
            for (at, fd, interest) in (source.wants)(self) {
                wants.push((fd, interest));
                events.push(Some((source, at)));
            }
        }
        let due = SOURCES.iter().filter_map(|source| (source.due)(self)).reduce(earlier);
        let sleep = due.map_or(LONGEST_SLEEP, |due| elapsed(self.now(), due)).min(LONGEST_SLEEP);
        match sys::fd::wait_any(&wants, Some(sleep)) {
            Ok(ready) => events.into_iter().zip(ready).filter(|(_, ready)| *ready).map(|(event, _)| event).collect(),
            Err(e) => {
                print(ReportSeverity::Error, &format!("poll: {e}"));
                Vec::new()
            }
        }
    }

    fn cool_vcls(&mut self) {
        let (now, cooldown) = (self.now(), self.params.vcl_cooldown);
        self.vcls.cool(now, cooldown, &mut self.worker);
    }

    fn on_worker(&mut self) {
        self.worker.relay_output();
        if self.worker.has_ended() {
            self.reap_worker(WorkerEnd::Died);
        } else if self.worker.begins_to_end() {
            self.expect_death();
        }
    }
}
