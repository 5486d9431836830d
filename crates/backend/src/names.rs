// SPDX-License-Identifier: BSD-2-Clause
//! Names of backends, and the addresses that they have now.
//!
//! A name is looked up with the system's resolver (so its hosts file, search list and order of sources count) off the
//! runtimes' threads, once per `backend_dns_ttl` for all backends that have it. Its addresses are used in turn; one that
//! a connection failed to is tried last for a while. A lookup that fails leaves the addresses as they are. The resolver's
//! own TTLs aren't told by getaddrinfo(3); asking it anyway keeps one answer for all programs of the machine.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::Mono;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::BackendEnv;

/// Pause before a failed lookup is repeated, unless `backend_dns_ttl` is shorter.
const RETRY: Duration = Duration::from_secs(1);
/// Maximum number of simultaneous lookups. Each one that gets no answer holds a thread of the blocking pool.
const AT_ONCE: usize = 4;
const ADDRESSES_MAX: usize = 64;
pub(crate) const TRIES: usize = 4;
/// Time for which an address with a failed connection attempt is tried after the others.
const AVOID: Duration = Duration::from_secs(10);

pub(crate) struct HostNames {
    env: BackendEnv,
    by_name: Mutex<HashMap<(String, u16), Weak<ResolvedName>>>,
    slots: Arc<Semaphore>,
}

pub(crate) struct ResolvedName {
    host: String,
    port: u16,
    /// Index of the address for the next connection.
    turn: AtomicUsize,
    inner: Mutex<Inner>,
}

struct Inner {
    addrs: Vec<Addresses>,
    due: Option<Mono>,
    looking: bool,
    /// True if the last lookup failed, which was logged.
    failing: bool,
}

struct Addresses {
    addr: SocketAddr,
    avoid_until: Option<Mono>,
}

impl HostNames {
    pub(crate) fn new(env: BackendEnv) -> Self {
        Self { env, by_name: Mutex::default(), slots: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// The name, shared by all its users. `found` has its addresses of a moment ago.
    pub(crate) fn name(&self, host: &str, port: u16, found: &[SocketAddr]) -> Arc<ResolvedName> {
        let mut names = self.by_name.lock();
        let key = (host.to_owned(), port);
        if let Some(name) = names.get(&key).and_then(Weak::upgrade) {
            return name;
        }
        names.retain(|_, name| name.strong_count() > 0);
        let addrs = found.iter().map(|&addr| Addresses { addr, avoid_until: None }).collect();
        // The addresses may be as old as the VCL, so the name is looked up at once.
        let inner = Inner { addrs, due: Some(self.env.clock.mono()), looking: false, failing: false };
        let name =
            Arc::new(ResolvedName { host: host.to_owned(), port, turn: AtomicUsize::new(0), inner: Mutex::new(inner) });
        names.insert(key, Arc::downgrade(&name));
        name
    }

    pub(crate) fn start_due(&self) {
        let names: Vec<_> = self.by_name.lock().values().filter_map(Weak::upgrade).collect();
        let (now, ttl) = (self.env.clock.mono(), self.env.services.params().dns_ttl);
        for name in names {
            if name.take_due(now, ttl) {
                let (env, slots) = (self.env.clone(), self.slots.clone());
                rt::spawn(async move {
                    let _slot = slots.acquire_owned().await;
                    name.look_up(&env).await;
                });
            }
        }
    }
}

impl ResolvedName {
    /// The addresses in the order in which this connection tries them.
    pub(crate) fn targets(&self, prefer_ipv6: bool, now: Mono) -> Vec<SocketAddr> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let inner = self.inner.lock();
        let avoided = |known: &Addresses| known.avoid_until.is_some_and(|until| now.since(until) < 0.0);
        let pick = |v6: bool, avoid: bool| {
            let mut some: Vec<_> = inner
                .addrs
                .iter()
                .filter(|known| known.addr.is_ipv6() == v6 && avoided(known) == avoid)
                .map(|known| known.addr)
                .collect();
            let len = some.len().max(1);
            some.rotate_left(turn % len);
            some
        };
        let order = [(prefer_ipv6, false), (!prefer_ipv6, false), (prefer_ipv6, true), (!prefer_ipv6, true)];
        let mut all: Vec<_> = order.into_iter().flat_map(|(v6, avoid)| pick(v6, avoid)).collect();
        all.truncate(TRIES);
        all
    }

    /// The first of its IPv4 or IPv6 addresses, whose turn it may not be.
    pub(crate) fn first(&self, v6: bool) -> Option<SocketAddr> {
        self.inner.lock().addrs.iter().map(|known| known.addr).find(|addr| addr.is_ipv6() == v6)
    }

    pub(crate) fn has(&self, addr: SocketAddr) -> bool {
        self.inner.lock().addrs.iter().any(|known| known.addr == addr)
    }

    /// Puts the other addresses first for a while, because a connection to this one failed.
    pub(crate) fn avoid(&self, addr: SocketAddr, now: Mono) {
        let mut inner = self.inner.lock();
        if let Some(known) = inner.addrs.iter_mut().find(|known| known.addr == addr) {
            known.avoid_until = Some(now.plus(AVOID.as_secs_f64()));
        }
    }

    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// True if a lookup is due. Marks it as in progress.
    fn take_due(&self, now: Mono, ttl: Duration) -> bool {
        let mut inner = self.inner.lock();
        let is_asked_once = ttl.is_zero() && !inner.addrs.is_empty();
        let is_due = inner.due.is_some_and(|due| now.since(due) >= 0.0);
        if inner.looking || is_asked_once || !is_due {
            return false;
        }
        inner.looking = true;
        true
    }

    async fn look_up(self: Arc<Self>, env: &BackendEnv) {
        let (services, host, port) = (env.services.clone(), self.host.clone(), self.port);
        let answer = rt::blocking_lookup(move || services.lookup(&host, port)).await;
        let answer = answer.unwrap_or_else(|refused| Err(std::io::Error::other(refused.text())));
        let main = env.services.main();
        main.backend_dns_lookup.inc();
        let ttl = env.services.params().dns_ttl;
        let mut inner = self.inner.lock();
        inner.looking = false;
        let (wait, notice, error) = match answer {
            Ok(mut found) if !found.is_empty() => {
                found.truncate(ADDRESSES_MAX);
                let has_changed = inner.take_over(found);
                if has_changed {
                    main.backend_dns_change.inc();
                }
                inner.failing = false;
                (if ttl.is_zero() { RETRY } else { ttl }, has_changed.then(|| inner.text(&self.host)), None)
            }
            failed => {
                main.backend_dns_fail.inc();
                let reason = failed.err().map_or_else(|| "no address".to_owned(), |error| error.to_string());
                let is_new = !std::mem::replace(&mut inner.failing, true);
                let kept = inner.addrs.len();
                let text = is_new.then(|| format!("Backend host {}: {reason}; {kept} addresses kept", self.host));
                (if ttl.is_zero() { RETRY } else { ttl.min(RETRY) }, None, text)
            }
        };
        inner.due = Some(env.clock.mono().plus(wait.as_secs_f64()));
        drop(inner);
        if let Some(text) = notice {
            env.services.log_notice(&text);
        }
        if let Some(text) = error {
            env.services.log_error(&text);
        }
    }
}

impl Inner {
    fn text(&self, host: &str) -> String {
        let list: Vec<_> = self.addrs.iter().map(|known| known.addr.to_string()).collect();
        format!("backend: host {host} is now {}", list.join(" "))
    }

    /// Stores the new addresses. Returns whether they changed. The state of addresses that remain is kept.
    fn take_over(&mut self, mut found: Vec<SocketAddr>) -> bool {
        found.sort_unstable();
        found.dedup();
        let mut before: Vec<_> = self.addrs.iter().map(|known| known.addr).collect();
        before.sort_unstable();
        if before == found {
            return false;
        }
        let old = std::mem::take(&mut self.addrs);
        let avoid = |addr| old.iter().find(|known| known.addr == addr).and_then(|known| known.avoid_until);
        self.addrs = found.into_iter().map(|addr| Addresses { addr, avoid_until: avoid(addr) }).collect();
        true
    }
}
