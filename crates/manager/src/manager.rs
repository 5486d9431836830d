// SPDX-License-Identifier: BSD-2-Clause
//! The manager: its parts, what is checked by its parameters, and its end.

use std::rc::Rc;

use base::clock::{Clock, Mono};
use params::DebugBit;
use params::Params;
use sys::signal::{self, Signals};

use crate::access::CliAccess;
use crate::checker::{COMPAT, CheckOutcome, CheckRequest, Checker, CheckerSource, SINCE_4_1};
use crate::clienttls::ClientTls;
use crate::dying::LONGEST_DYING;
use crate::ended::EndedWorkers;
use crate::fleet::FleetMembership;
use crate::jail::Jail;
use crate::listen::{BoundListener, DEFAULT_LISTENERS};
use crate::listening::Listening;
use crate::naming;
use crate::report::{self, ReportSeverity, print};
use crate::server::Server;
use crate::storage::Storage;
use crate::upgrade::Upgrade;
use crate::vcls::{ManagerVcls, Quota};
use crate::watch::Watcher;
use crate::worker::ManagedWorker;

/// Parts that survive an upgrade are [`Carried`](crate::upgrade::carried::Carried).
#[derive(Debug)]
pub(crate) struct Manager {
    pub clock: Clock,
    pub jail: Rc<Jail>,
    pub params: Params,
    pub server: Server,
    pub listening: Listening,
    pub storage: Storage,
    pub tls: ClientTls,
    pub vcls: ManagerVcls,
    pub worker: ManagedWorker,
    pub ended: EndedWorkers,
    pub cli: CliAccess,
    pub fleet: FleetMembership,
    pub watcher: Watcher,
    pub upgrade: Upgrade,
}

impl Manager {
    pub(crate) fn now(&self) -> Mono {
        self.clock.mono()
    }

    pub(crate) fn debug(&self, bit: DebugBit) -> bool {
        self.params.debug.has(bit)
    }

    pub(crate) fn params_changed(&mut self) {
        self.worker.take_times(&self.params);
        report::set_syslog(!self.debug(DebugBit::VtcMode));
    }

    pub(crate) fn quota(&self) -> Quota {
        Quota { most: self.params.max_vcl, handling: self.params.max_vcl_handling }
    }

    pub(crate) fn check_vcl(&self, source: CheckerSource, listing: bool) -> CheckOutcome {
        let mut features = Vec::new();
        for (on, word) in [
            (self.params.vcc_allow_inline_c, "allow_inline_c"),
            (self.params.vcc_err_unref, "err_unref"),
            (self.params.vcc_unsafe_path, "unsafe_path"),
            (self.params.backend_dns_lazy, "lazy_hosts"),
            (self.params.prefer_ipv6, "prefer_ipv6"),
        ] {
            if on {
                features.push(word.to_string());
            }
        }
        if self.listening.listeners.iter().any(BoundListener::is_uds) {
            features.push(SINCE_4_1.to_string());
        }
        features.push(format!("{COMPAT}{}", self.params.compat()));
        if self.params.vcl_dialect != "auto" {
            features.push(format!("dialect={}", self.params.vcl_dialect));
        }
        let request = CheckRequest {
            source,
            vcl_path: self.params.vcl_path.clone(),
            features,
            stores: self.storage.stores.iter().map(|store| store.name.clone()).collect(),
            labels: self.vcls.labels(),
            listing,
            listeners: self.listeners_of_http(listing),
        };
        Checker { exe: &self.server.exe, jail: &self.jail }.check(&request)
    }

    /// The listeners that a backend may turn out to be, as the checker reads them. With `listing` nothing is served.
    fn listeners_of_http(&self, listing: bool) -> Vec<String> {
        if !self.params.loop_detection {
            return Vec::new();
        }
        let tcp = self.listening.listeners.iter().filter(|listener| !listener.transport.is_quic);
        let mut list: Vec<_> = tcp.map(|listener| format!("{}={}", listener.name, listener.address)).collect();
        // Those of no -a are bound after the first VCL was checked.
        if self.listening.listeners.is_empty() && !listing {
            list.extend(DEFAULT_LISTENERS.map(str::to_owned));
        }
        list
    }

    pub(crate) fn finish(&mut self) -> i32 {
        self.end_rollout();
        self.end_acme();
        self.end_watch();
        print(ReportSeverity::Info, "manager stopping child");
        self.end_serving();
        self.bury_dying(LONGEST_DYING);
        self.finish_naming(naming::PATIENCE);
        print(ReportSeverity::Info, "manager dies");
        self.ended.exit_status
    }

    pub(crate) fn on_signal(&mut self, signals: &mut Signals) -> bool {
        let mut stop = false;
        while let Ok(Some(number)) = signals.take() {
            print(ReportSeverity::Error, &format!("Manager got {}", signal::name(number)));
            self.end_serving();
            stop = true;
        }
        stop
    }

    /// Stops the worker for good. No other one will take who comes meanwhile: they are refused at once, and may ask another server, instead of waiting
    /// for the last request in progress.
    fn end_serving(&mut self) {
        self.server.is_ending = true;
        self.listening.listeners.clear();
        self.stop_worker();
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.end_acme();
        self.end_watch();
        self.end_rollout();
        self.end_leaving();
        if self.worker.pid().is_some() {
            let _ = self.worker.reap();
        }
        self.bury_dying(LONGEST_DYING);
        self.cleanup();
    }
}
