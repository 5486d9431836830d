// SPDX-License-Identifier: BSD-2-Clause
//! The director interface: the choice of a backend, and the columns of `backend.list`.
//!
//! A [`Backend`] is itself a director that chooses itself; vmods implement [`Director`] for theirs. The part common to all (name, the
//! administrator's verdict) is a [`DirectorBase`] that each embeds.

use std::any::{Any, TypeId};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use base::Real;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::{AdminHealth, Backend};

/// Maximum depth of nested directors. A longer chain is a loop and chooses no backend.
const MAX_DEPTH: u32 = 64;
/// Maximum number of directors asked for one choice. More indicate a loop with branches.
const MAX_CALLS: u32 = 10_000;

/// Facts about the transaction that a director may look at while it chooses. The engine implements it.
pub trait ResolveCtx {
    fn now(&self) -> Real;
    /// Value that a module keeps with the task whose VCL runs (in `vcl_pipe` the client's request), by its type and a
    /// key.
    fn task_value(&self, id: TypeId, key: usize) -> Option<&dyn Any> {
        let _ = (id, key);
        None
    }
    fn is_bereq(&self) -> bool;
    fn url(&self) -> &[u8];
    /// First header of that name in bereq (client side: req).
    fn header(&self, name: &str) -> Option<&[u8]>;
    fn digest(&self) -> &[u8; 32];
    /// `client.identity`, else the client's address as text.
    fn client_identity(&self) -> &[u8];
    /// A random number in `[0, 1)`, from the generator that `debug.srandom` seeds.
    fn random(&self) -> f64;
    /// Writes a VCL_Error record of this transaction.
    fn log_error(&self, text: &str);
    /// Writes a VCL_Log record of this transaction.
    fn log(&self, text: &str) {
        let _ = text;
    }
    /// Writes a Debug record of no transaction.
    fn log_debug(&self, text: &str) {
        let _ = text;
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Health {
    pub ok: bool,
    pub changed: Real,
}

/// The columns Probe and Health of `backend.list`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Good probes, or healthy members.
    pub good: u32,
    /// Number of probes that count, or of members.
    pub of: u32,
    pub healthy: bool,
}

impl Summary {
    /// `0/0 healthy`: the backend has no probe.
    pub const UNWATCHED: Summary = Summary { good: 0, of: 0, healthy: true };
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VclEvent {
    /// The VCL may get requests from now on: counters are shown, and probes run.
    Warm,
    /// The VCL gets no more requests: counters are hidden, and probes stop.
    Cold,
    Discard,
}

#[derive(Debug)]
pub struct DirectorBase {
    cli_name: Arc<str>,
    vcl_len: usize,
    admin: AtomicU8,
    changed: AtomicU64,
    changes: Notify,
}

impl DirectorBase {
    /// `vcl` is the name VCL was loaded under; `now` starts the last change.
    pub fn new(vcl: &str, name: &str, now: Real) -> Self {
        Self {
            cli_name: format!("{vcl}.{name}").into(),
            vcl_len: vcl.len(),
            admin: AtomicU8::new(AdminHealth::Auto as u8),
            changed: AtomicU64::new(now.0.to_bits()),
            changes: Notify::new(),
        }
    }

    pub(crate) fn like(other: &DirectorBase) -> Self {
        Self {
            cli_name: other.cli_name.clone(),
            vcl_len: other.vcl_len,
            admin: AtomicU8::new(other.admin.load(Ordering::Relaxed)),
            changed: AtomicU64::new(other.changed.load(Ordering::Relaxed)),
            changes: Notify::new(),
        }
    }

    /// `<vcl>.<name>`, as the CLI shows it.
    pub fn cli_name(&self) -> &str {
        &self.cli_name
    }

    pub fn name(&self) -> &str {
        &self.cli_name[self.vcl_len + 1..]
    }

    pub fn admin(&self) -> AdminHealth {
        AdminHealth::from_u8(self.admin.load(Ordering::Relaxed))
    }

    pub fn set_admin(&self, admin: AdminHealth, now: Real) {
        if self.admin.swap(admin as u8, Ordering::Relaxed) != admin as u8 {
            self.changed.store(now.0.to_bits(), Ordering::Relaxed);
            self.report_change();
        }
    }

    /// Ends the wait of everyone who awaits [`DirectorBase::next_change`].
    pub(crate) fn report_change(&self) {
        self.changes.notify_waiters();
    }

    /// Resolves at the first change of health after this call, by the administrator or a probe.
    pub(crate) fn next_change(&self) -> Notified<'_> {
        self.changes.notified()
    }

    /// Time of the last change of health, by the administrator or by [`DirectorBase::set_changed`].
    pub fn changed(&self) -> Real {
        Real(f64::from_bits(self.changed.load(Ordering::Relaxed)))
    }

    /// Moves the last change forward, never back.
    pub fn set_changed(&self, changed: Real) {
        let newer = |old: u64| (changed.0 > f64::from_bits(old)).then_some(changed.0.to_bits());
        // Err means that the stored time is at least as late.
        let _ = self.changed.try_update(Ordering::Relaxed, Ordering::Relaxed, newer);
    }
}

thread_local! {
    /// Depth of nesting, and number of calls since the outermost one.
    static NESTED: Cell<(u32, u32)> = const { Cell::new((0, 0)) };
}

/// Runs `call` unless directors nest too deep or ask too many: they may contain each other.
fn nested<T>(call: impl FnOnce() -> T) -> Option<T> {
    struct Up;
    impl Drop for Up {
        fn drop(&mut self) {
            NESTED.with(|cell| {
                let (depth, calls) = cell.get();
                cell.set((depth - 1, calls));
            });
        }
    }
    let (depth, calls) = NESTED.with(Cell::get);
    let calls = if depth == 0 { 0 } else { calls };
    if depth >= MAX_DEPTH || calls >= MAX_CALLS {
        return None;
    }
    NESTED.with(|cell| cell.set((depth + 1, calls + 1)));
    let _up = Up;
    Some(call())
}

/// A chooser of backends. Implement [`base`](Director::base), [`kind`](Director::kind), [`choose`](Director::choose)
/// and, if health depends on something, [`own_health`](Director::own_health); call [`resolve`](Director::resolve) and
/// [`healthy`](Director::healthy), also for members.
pub trait Director: Send + Sync {
    fn base(&self) -> &DirectorBase;

    /// `backend`, `round-robin`, `fallback`, ...: the `type` of `backend.list -j`.
    fn kind(&self) -> &'static str;

    /// Chooses a member and resolves it. `None` if there is no usable member.
    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>>;

    /// Health without the administrator's verdict. `None` if there is no probe, which counts as healthy.
    fn own_health(&self, now: Real) -> Option<Health> {
        let _ = now;
        None
    }

    /// Health for one transaction: a module may treat a backend as sick for some objects only.
    fn own_health_for(&self, ctx: &dyn ResolveCtx) -> Option<Health> {
        self.own_health(ctx.now())
    }

    fn summary(&self, now: Real) -> Summary {
        match self.own_health(now) {
            Some(health) => Summary { good: 0, of: 0, healthy: health.ok },
            None => Summary::UNWATCHED,
        }
    }

    /// Text that `backend.list -p` appends to the row.
    fn details(&self, now: Real, out: &mut String) {
        let _ = (now, out);
    }

    /// The value of `probe_details` in `backend.list -j -p`, with a comma and line end; empty leaves the member out.
    /// The text is indented by the caller.
    fn details_json(&self, now: Real, out: &mut String) {
        let _ = (now, out);
    }

    /// The backend itself, if this is one and not a director of several.
    fn as_backend(&self) -> Option<&Backend> {
        None
    }

    fn event(&self, event: VclEvent) {
        let _ = event;
    }

    /// Called once per second by the housekeeping thread while the VCL is warm. Refreshes data from elsewhere when that is due.
    fn look_again(&self) {}

    fn name(&self) -> &str {
        self.base().name()
    }

    fn resolve(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        nested(|| self.choose(ctx)).flatten()
    }

    /// Health outside of transactions: the administrator's verdict first.
    fn healthy(&self, now: Real) -> Health {
        verdict(self.base(), || self.own_health(now))
    }

    /// Health as a transaction sees it: `std.healthy()` and directors use it.
    fn healthy_for(&self, ctx: &dyn ResolveCtx) -> Health {
        verdict(self.base(), || self.own_health_for(ctx))
    }
}

fn verdict(base: &DirectorBase, own: impl FnOnce() -> Option<Health>) -> Health {
    match base.admin() {
        AdminHealth::Healthy => Health { ok: true, changed: base.changed() },
        AdminHealth::Sick => Health { ok: false, changed: base.changed() },
        AdminHealth::Auto => match nested(own) {
            Some(Some(health)) => health,
            Some(None) => Health { ok: true, changed: base.changed() },
            None => Health { ok: false, changed: base.changed() },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    /// A director that can be its own member.
    struct Loop {
        base: DirectorBase,
        members: OnceLock<Vec<Arc<Loop>>>,
    }

    impl Director for Loop {
        fn base(&self) -> &DirectorBase {
            &self.base
        }
        fn kind(&self) -> &'static str {
            "loop"
        }
        fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
            self.members.get()?.iter().find_map(|member| member.resolve(ctx))
        }
        fn own_health(&self, now: Real) -> Option<Health> {
            let ok = self.members.get()?.iter().any(|member| member.healthy(now).ok);
            Some(Health { ok, changed: now })
        }
    }

    #[test]
    fn a_loop_of_directors_is_sick_and_ends() {
        let director = Arc::new(Loop { base: DirectorBase::new("vcl", "d", Real(1.0)), members: OnceLock::new() });
        director.members.set(vec![director.clone(); 10]).ok().unwrap();
        assert!(!director.healthy(Real(2.0)).ok);
    }

    #[test]
    fn names_and_changes() {
        let base = DirectorBase::new("boot", "a.b", Real(1.0));
        assert_eq!((base.cli_name(), base.name()), ("boot.a.b", "a.b"));
        base.set_admin(AdminHealth::Sick, Real(5.0));
        base.set_changed(Real(3.0));
        assert_eq!(base.changed(), Real(5.0));
        base.set_admin(AdminHealth::Sick, Real(7.0));
        assert_eq!(base.changed(), Real(5.0), "nothing changed");
    }
}
