// SPDX-License-Identifier: BSD-2-Clause
//! vmod_directors(3).

pub(crate) mod members;
mod shard;
mod simple;

use std::sync::Arc;

use backend::{Director, DirectorBase};
use sha2::{Digest, Sha256};
use shard::Shard;
use shard::methods::{Choice, ShardArgs};
use shard::param::{By, Healthy, Param};
use simple::{Kind, Simple};
use vrt::vmod::{BACKEND, CallResult, EnumWords, Methods, VOID, VmodCall, give};
use vrt::{BackendRef, Blob, Method, VclFailure};

use vmod_support::args::fail;

/// Subroutines that have their own parameters of a shard director, and those that set everybody's.
const PARAM_SETTERS: Methods = Methods::BACKEND.with(Method::Pipe.set()).with(Methods::HOUSEKEEPING);

vrt::vmod! {
    /// Directors: select one of several backends
    pub(crate) static VMOD = directors;

    functions {
        /// Returns a backend or director of this VCL by name; only in vcl_init and vcl_fini
        fn lookup(_: STRING) -> BACKEND, local, restrict(Methods::HOUSEKEEPING) = lookup;
    }

    /// Selects healthy backends in turn
    object round_robin() -> Arc<Simple> = |call: &mut VmodCall<'_>, name: &str| simple(call, name, Kind::RoundRobin), methods {
        /// Adds a backend
        fn add_backend(_: BACKEND) -> VOID = |this: &Arc<Simple>, _, backend: Option<&BackendRef>| add(this, backend, 0.0);

        /// Removes a backend
        fn remove_backend(_: BACKEND) -> VOID = remove;

        /// Returns the director, to set as req.backend_hint or bereq.backend
        fn backend() -> BACKEND, local = itself;
    }

    /// Selects the first healthy backend; with sticky it stays with this backend until it fails
    object fallback(sticky: BOOL = false) -> Arc<Simple> = |call: &mut VmodCall<'_>, name: &str, sticky: bool| simple(call, name, Kind::Fallback { sticky }), methods {
        /// Adds a backend
        fn add_backend(_: BACKEND) -> VOID = |this: &Arc<Simple>, _, backend: Option<&BackendRef>| add(this, backend, 0.0);

        /// Removes a backend
        fn remove_backend(_: BACKEND) -> VOID = remove;

        /// Returns the director, to set as req.backend_hint or bereq.backend
        fn backend() -> BACKEND, local = itself;
    }

    /// Selects a healthy backend at random, by weight
    object random() -> Arc<Simple> = |call: &mut VmodCall<'_>, name: &str| simple(call, name, Kind::Random), methods {
        /// Adds a backend with its weight
        fn add_backend(_: BACKEND, _: REAL) -> VOID = |this: &Arc<Simple>, _, backend: Option<&BackendRef>, weight: f64| add(this, backend, weight);

        /// Removes a backend
        fn remove_backend(_: BACKEND) -> VOID = remove;

        /// Returns the director, to set as req.backend_hint or bereq.backend
        fn backend() -> BACKEND, local = itself;
    }

    /// Selects a backend by the hash of a string
    object hash() -> Arc<Simple> = |call: &mut VmodCall<'_>, name: &str| simple(call, name, Kind::Hash), methods {
        /// Adds a backend with its weight
        fn add_backend(_: BACKEND, weight: REAL = 1.0) -> VOID = |this: &Arc<Simple>, _, backend: Option<&BackendRef>, weight: f64| add(this, backend, weight);

        /// Removes a backend
        fn remove_backend(_: BACKEND) -> VOID = remove;

        /// Returns the backend for a string
        fn backend(_: STRANDS) -> BACKEND, local = hash_backend;
    }

    /// Consistent hashing with warm-up and ramp-up
    object shard() -> Arc<Shard> = shard::methods::new, methods {
        /// Sets the probability that the next backend of the ring is used in advance, to warm its cache
        fn set_warmup(probability: REAL = 0.0) -> VOID = shard::methods::set_warmup;

        /// Sets how long a recovered backend gets less than its share
        fn set_rampup(duration: DURATION = 0.0) -> VOID = |this: &Arc<Shard>, _, seconds: f64| this.set_rampup(seconds);

        /// Uses the parameters of a shard_param; without one, the director's own
        fn associate(param: BLOB = null) -> VOID = shard::methods::associate;

        /// Adds a backend at the next reconfigure, with its name or another identifier
        fn add_backend(
            backend: BACKEND, ident: [STRING], rampup: [DURATION], weight: [REAL]
        ) -> BOOL = shard::methods::add_backend;

        /// Removes backends at the next reconfigure, by backend, identifier or both
        fn remove_backend(backend: [BACKEND] = null, ident: [STRING] = null) -> BOOL = shard::methods::remove_backend;

        /// Removes all backends at the next reconfigure
        fn clear() -> BOOL = shard::methods::clear;

        /// Builds the ring with this number of points per backend
        fn reconfigure(replicas: INT = 67) -> BOOL = shard::methods::reconfigure;

        /// Returns the key of a string on the ring
        fn key(_: STRANDS) -> INT, pure = |_: &Arc<Shard>, _, text: &[u8]| i64::from(hash32(&[text]));

        /// Returns a backend by its position on the ring
        fn backend(..Choice<'_>) -> BACKEND, local = shard::methods::backend;

        /// Sets debug bits; they have no effect here
        fn debug(_: INT) -> VOID = |this: &Arc<Shard>, _, bits: i64| this.set_debug(bits);
    }

    /// A set of parameters for shard directors
    object shard_param() -> Arc<Param> = |_, name: &str| Ok(Arc::new(Param::new(name))), methods {
        /// Restores the defaults
        fn clear() -> VOID, restrict(PARAM_SETTERS) = shard::methods::clear_param;

        /// Sets parameters: in vcl_init for all, in a backend subroutine for this transaction
        fn set(..ShardArgs<'_>) -> VOID, local, restrict(PARAM_SETTERS) = shard::methods::set_param;

        /// Returns the source of the key
        fn get_by() -> STRING, local
            = |param: &Arc<Param>, call: &mut VmodCall<'_>| param.layer(call.ctx.task()).by.map_or("HASH", By::word);

        /// Sets the key
        fn get_key() -> INT, local = shard::methods::key_of;

        /// Returns the number of positions to skip
        fn get_alt() -> INT, local
            = |param: &Arc<Param>, call: &mut VmodCall<'_>| param.layer(call.ctx.task()).alt.unwrap_or(0);

        /// Returns the warm-up probability; -1: that of the director
        fn get_warmup() -> REAL, local
            = |param: &Arc<Param>, call: &mut VmodCall<'_>| param.layer(call.ctx.task()).warmup.unwrap_or(-1.0);

        /// Returns whether recovered backends ramp up
        fn get_rampup() -> BOOL, local
            = |param: &Arc<Param>, call: &mut VmodCall<'_>| param.layer(call.ctx.task()).rampup.unwrap_or(true);

        /// Returns how health is considered
        fn get_healthy() -> STRING, local
            = |param: &Arc<Param>, call: &mut VmodCall<'_>| param.layer(call.ctx.task()).healthy.unwrap_or(Healthy::Chosen).word();

        /// Returns these parameters, for associate and backend of shard
        fn use() -> BLOB, local, restrict(PARAM_SETTERS) = |param: &Arc<Param>, _| Blob::from_owner(param.clone());
    }
}

fn base(call: &mut VmodCall<'_>, name: &str) -> DirectorBase {
    DirectorBase::new(&call.vcl.name, name, call.ctx.clock().real())
}

/// The last four octets of SHA-256, little-endian: what `hash` and `shard` have always placed texts by.
fn hash32(parts: &[&[u8]]) -> u32 {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    let digest = hash.finalize();
    u32::from_le_bytes([digest[28], digest[29], digest[30], digest[31]])
}

fn lookup(call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<BACKEND> {
    if !matches!(call.method, Method::Init | Method::Fini) {
        return fail("lookup() may only be called from vcl_init / vcl_fini");
    }
    give(call.vcl.directors().into_iter().find(|director| director.name().as_bytes() == name))
}

fn simple(call: &mut VmodCall<'_>, name: &str, kind: Kind) -> Result<Arc<Simple>, VclFailure> {
    let director = Arc::new(Simple::new(base(call, name), kind));
    let known: Arc<dyn Director> = director.clone();
    call.vcl.add_director(&known);
    Ok(director)
}

fn add(director: &Simple, backend: Option<&BackendRef>, weight: f64) -> CallResult<VOID> {
    let Some(backend) = backend else {
        return fail(format!("{}: None backend cannot be added", director.name()));
    };
    director.add(backend.clone(), weight);
    give(())
}

fn remove(director: &Arc<Simple>, _: &mut VmodCall<'_>, backend: Option<&BackendRef>) -> CallResult<VOID> {
    let Some(backend) = backend else {
        return fail(format!("{}: None backend cannot be removed", director.name()));
    };
    director.remove(backend);
    give(())
}

fn itself(director: &Arc<Simple>, _: &mut VmodCall<'_>) -> BackendRef {
    director.clone()
}

/// A text's place among the weights, 0 to 1.
fn place(text: &[u8]) -> f64 {
    f64::from(hash32(&[text])) / 4_294_967_296.0
}

fn hash_backend(director: &Arc<Simple>, call: &mut VmodCall<'_>, text: &[u8]) -> Option<BackendRef> {
    director.by_weight(place(text), |member| call.ctx.healthy(member))
}

#[cfg(test)]
pub(crate) mod tests {
    pub(crate) use super::simple::tests::{RecordingCtx, stub};
}
