// SPDX-License-Identifier: BSD-2-Clause
//! vmod_saintmode(3) of varnish-modules: a director over one backend with a list of objects for which it is sick.
//!
//! As there, the list counts each call of `blacklist` and is swept when health is asked for. A director's health looks at the list for
//! fetches only, and a threshold of 0 switches that off. `is_healthy()` of a request is what the list alone says of its object,
//! whatever the backend's own health is; with a threshold of 0 that is always false. The newer words `denylist` and
//! `denylist_count` are the same as the old ones.

use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::{Arc, Weak};

use backend::{Backend, Director, DirectorBase, Health, ResolveCtx};
use base::Real;
use parking_lot::Mutex;
use tables::Tag;
use vrt::vmod::{BOOL, CallResult, INT, STRING, VOID, VmodCall, give};
use vrt::{BackendRef, HeadId, Method, Value, Var, VclFailure};

use vmod_support::args::fail;

/// Objects on one list; beyond that the oldest goes.
const MAX: usize = 100_000;

vrt::vmod! {
    /// Marks backends as sick for single objects
    pub(crate) static VMOD = saintmode;

    functions {
        /// Marks the backend of this fetch as sick for its object for a duration
        fn blacklist(expires: DURATION) -> VOID, only(Method::BackendResponse.set()) = blacklist;

        /// Same as blacklist
        fn denylist(expires: DURATION) -> VOID, only(Method::BackendResponse.set()) = blacklist;

        /// Returns the saintmode directors of this VCL as JSON
        fn status() -> STRING, local = status;
    }

    /// A director for one backend. It is sick for blacklisted objects, and for all objects if there are too many of these
    object saintmode(backend: BACKEND, threshold: INT) -> Arc<Saint> = new, methods {
        /// Returns the director
        fn backend() -> BACKEND, local = |this: &Arc<Saint>, _| this.clone();

        /// Returns the number of objects on its list
        fn blacklist_count() -> INT, local = count;

        /// Same as blacklist_count
        fn denylist_count() -> INT, local = count;

        /// In a fetch, returns whether it is healthy for the fetch's object; elsewhere, whether the request's object isn't
        /// on its list
        fn is_healthy() -> BOOL, local = is_healthy;
    }
}

/// The directors of a VCL, for `status` and `blacklist`.
#[derive(Default)]
struct All(Mutex<Vec<Weak<Saint>>>);

struct Saint {
    base: DirectorBase,
    backend: Arc<dyn Director>,
    threshold: u32,
    list: Mutex<VecDeque<Trouble>>,
}

struct Trouble {
    digest: [u8; 32],
    until: Real,
}

fn new(
    call: &mut VmodCall<'_>,
    name: &str,
    backend: Option<&BackendRef>,
    threshold: i64,
) -> Result<Arc<Saint>, VclFailure> {
    let Some(backend) = backend else { return fail(format!("saintmode {name}: no backend")) };
    let base = DirectorBase::new(&call.vcl.name, name, call.ctx.clock().real());
    let saint = Arc::new(Saint { base, backend: backend.clone(), threshold: threshold as u32, list: Mutex::default() });
    call.module.get_or(All::default).0.lock().push(Arc::downgrade(&saint));
    let known: Arc<dyn Director> = saint.clone();
    call.vcl.add_director(&known);
    Ok(saint)
}

fn count(this: &Arc<Saint>, _: &mut VmodCall<'_>) -> CallResult<INT> {
    give(this.list.lock().len() as i64)
}

fn is_healthy(saint: &Arc<Saint>, call: &mut VmodCall<'_>) -> CallResult<BOOL> {
    if call.ctx.head(HeadId::Bereq).is_some() || call.ctx.head(HeadId::Req).is_none() {
        let director: Arc<dyn Director> = saint.clone();
        return give(call.ctx.healthy(&director));
    }
    let digest = match call.method {
        // There is none yet.
        Method::Recv | Method::Hash => None,
        _ => match call.ctx.get(Var::ReqHash) {
            Value::Blob(Some(digest)) => digest.as_bytes().try_into().ok(),
            _ => None,
        },
    };
    let reason = saint.trouble(digest.as_ref(), call.ctx.clock().real());
    if let Some(reason) = reason {
        let (log, backend) = (call.ctx.log(), saint.backend.name());
        log.putf(Tag::VclLog, format_args!("saintmode: unhealthy: {reason} for backend {backend}"));
    }
    give(reason.is_none())
}

fn all(call: &VmodCall<'_>) -> Vec<Arc<Saint>> {
    call.module.get_or(All::default).0.lock().iter().filter_map(Weak::upgrade).collect()
}

fn blacklist(call: &mut VmodCall<'_>, seconds: f64) -> CallResult<VOID> {
    if call.method != Method::BackendResponse {
        call.ctx.log().put(Tag::VclError, b"saintmode.blacklist() called outside of vcl_backend_response");
        return give(());
    }
    let (Value::Backend(Some(backend)), Value::Blob(Some(digest))) =
        (call.ctx.get(Var::BerespBackend), call.ctx.get(Var::BereqHash))
    else {
        return give(());
    };
    let Ok(digest) = digest.as_bytes().try_into() else { return give(()) };
    let Some(saint) =
        all(call).into_iter().find(|saint| std::ptr::addr_eq(Arc::as_ptr(&saint.backend), Arc::as_ptr(&backend)))
    else {
        call.ctx.log().put(Tag::VclError, b"Error: saintmode.blacklist(): Saintmode not configured for this backend.");
        return give(());
    };
    let until = Real(call.ctx.clock().real().0 + seconds);
    saint.add(Trouble { digest, until });
    call.ctx.log().putf(
        Tag::VclLog,
        format_args!("saintmode: object put on blacklist for backend {} for {seconds:.2} seconds", backend.name()),
    );
    give(())
}

fn status(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let mut out = "{\n\t\"saintmode\": [".to_owned();
    for (at, saint) in all(call).iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let (name, backend, count) = (saint.base.name(), saint.backend.name(), saint.list.lock().len());
        let threshold = saint.threshold;
        let _ = write!(
            out,
            "{comma}\n\t\t{{ \"name\": \"{name}\", \"backend\": \"{backend}\", \"count\": \"{count}\", \"threshold\": \"{threshold}\" }}"
        );
    }
    out.push_str("\n\t]\n}\n");
    give(out)
}

impl Saint {
    fn add(&self, trouble: Trouble) {
        let mut list = self.list.lock();
        if list.len() >= MAX {
            list.pop_front();
        }
        list.push_back(trouble);
    }

    /// True if its list can affect a director's health.
    fn is_in_use(&self) -> bool {
        self.threshold > 0 && !self.list.lock().is_empty()
    }

    /// The reason why it is sick beyond its backend's own health. `digest` is the object's, if there is one.
    fn trouble(&self, digest: Option<&[u8; 32]>, now: Real) -> Option<&'static str> {
        let mut list = self.list.lock();
        list.retain(|trouble| trouble.until.0 >= now.0);
        if digest.is_some_and(|digest| list.iter().any(|trouble| trouble.digest == *digest)) {
            Some("object blacklisted")
        } else if list.len() >= self.threshold as usize {
            Some("hit threshold")
        } else {
            None
        }
    }
}

impl Director for Saint {
    fn base(&self) -> &DirectorBase {
        &self.base
    }

    fn kind(&self) -> &'static str {
        "saintmode"
    }

    fn choose(&self, ctx: &dyn ResolveCtx) -> Option<Arc<Backend>> {
        self.own_health_for(ctx)?.ok.then(|| self.backend.resolve(ctx)).flatten()
    }

    fn own_health(&self, now: Real) -> Option<Health> {
        let health = self.backend.healthy(now);
        let is_sick = self.is_in_use() && self.trouble(None, now).is_some();
        Some(Health { ok: health.ok && !is_sick, ..health })
    }

    fn own_health_for(&self, ctx: &dyn ResolveCtx) -> Option<Health> {
        let health = self.backend.healthy_for(ctx);
        let digest = ctx.is_bereq().then(|| ctx.digest());
        let reason = if self.is_in_use() { self.trouble(digest, ctx.now()) } else { None };
        if let (Some(reason), Some(_)) = (reason, digest) {
            ctx.log(&format!("saintmode: unhealthy: {reason} for backend {}", self.backend.name()));
        }
        Some(Health { ok: health.ok && reason.is_none(), ..health })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directors::tests::stub;

    #[test]
    fn sick_for_an_object_for_all_above_the_threshold_and_for_nobody_in_time() {
        let saint = |threshold| Saint {
            base: DirectorBase::new("v", "s", Real(0.0)),
            backend: stub("b"),
            threshold,
            list: Mutex::default(),
        };
        let (two, none) = (saint(2), saint(0));
        for (n, saint) in [(1, &two), (1, &none), (2, &none), (3, &none)] {
            saint.add(Trouble { digest: [n; 32], until: Real(10.0) });
        }
        assert_eq!(two.trouble(Some(&[1; 32]), Real(9.0)), Some("object blacklisted"));
        assert_eq!((two.trouble(Some(&[2; 32]), Real(9.0)), two.trouble(None, Real(9.0))), (None, None));
        two.add(Trouble { digest: [2; 32], until: Real(20.0) });
        assert_eq!(
            (two.trouble(Some(&[3; 32]), Real(9.0)), two.own_health(Real(9.0)).map(|h| h.ok)),
            (Some("hit threshold"), Some(false))
        );
        assert_eq!((two.trouble(Some(&[1; 32]), Real(10.5)), two.list.lock().len()), (None, 1));
        assert_eq!(none.own_health(Real(9.0)).map(|h| h.ok), Some(true), "a director is switched off");
        assert_eq!(none.trouble(Some(&[4; 32]), Real(9.0)), Some("hit threshold"), "but a request is told so");
    }
}
