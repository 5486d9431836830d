// SPDX-License-Identifier: BSD-2-Clause
//! Variables that mean the same on the client side and on the backend side.

use std::net::SocketAddr;
use std::time::Duration;

use base::{Real, Vxid};
use cache::ObjRef;
use net::Address;
use net::proxy::ProxyEnds;
use params::{FeatureBit, Params, timeouts};
use shm::vsl::TxnLog;
use tables::Compat;
use tables::tags::Tag;
use vrt::value::Text;
use vrt::{Value, Var, VclFailure};

use crate::engine::Engine;
use crate::sess::Sess;

fn ip(address: Address) -> Value {
    Value::Ip(Some(SocketAddr::new(address.ip(), address.port())))
}

/// `client.*`, `server.*`, `local.*`, `remote.*`, `sess.xid`, `param.*`. `None`: not one of these.
pub fn of_session(sess: &Sess, identity: Option<&Text>, var: Var) -> Option<Value> {
    Some(match var {
        Var::ClientIp => ip(sess.ends.client()),
        Var::ServerIp => ip(sess.ends.server()),
        Var::RemoteIp => ip(sess.ends.remote),
        Var::LocalIp => ip(sess.ends.local),
        Var::ClientIdentity => match identity {
            Some(text) => Value::String(Some(text.clone())),
            None => Value::text(sess.ends.client().ip().to_string()),
        },
        Var::ServerHostname => Value::text(sess.engine.vcls.names.hostname.as_str()),
        Var::ServerIdentity => Value::text(sess.engine.vcls.names.identity.as_str()),
        Var::LocalEndpoint => Value::text(sess.listener.endpoint.as_str()),
        Var::LocalSocket => Value::text(sess.listener.name.as_str()),
        Var::SessXid => id(sess.vxid),
        other => return vrt::param(&sess.engine.params.load(), other),
    })
}

/// `obj.*`, but its head. `None`: not one of these.
pub fn of_object(engine: &Engine, obj: &ObjRef, now: Real, var: Var) -> Option<Value> {
    let times = obj.times();
    Some(match var {
        Var::ObjAge => Value::Duration(engine.mono_of(now).since(times.t_origin)),
        Var::ObjTtl => Value::Duration(times.t_origin.plus(times.ttl.max(0.0)).since(engine.mono_of(now))),
        Var::ObjGrace => Value::Duration(times.grace),
        Var::ObjKeep => Value::Duration(times.keep),
        Var::ObjHits => Value::Int(i64::from(obj.hits())),
        Var::ObjTime => Value::Time(engine.real_of(times.t_origin).0),
        Var::ObjUncacheable => Value::Bool(obj.flags().is_passed()),
        Var::ObjCanEsi => Value::Bool(obj.flags().has_esi),
        Var::ObjTenant => {
            let tenant = engine.cache.tenant_of(obj);
            Value::text(tenant.as_ref().map_or("", |tenant| tenant.name()))
        }
        Var::ObjStorage => Value::Stevedore(Some(Text::from(engine.cache.stores().get(obj.store()).name()))),
        _ => return None,
    })
}

/// A DURATION that VCL gives for a limit; negative ones count as 0.
pub fn seconds(value: &Value) -> Result<f64, VclFailure> {
    match value {
        Value::Duration(seconds) => Ok(seconds.max(0.0)),
        other => Err(wrong(other)),
    }
}

pub fn duration(value: &Value) -> Result<Duration, VclFailure> {
    // A thousand years are as good as for ever, and can be added to any clock.
    Ok(Duration::from_secs_f64(seconds(value)?.min(1e9 * 31.5)))
}

/// A DURATION that VCL gives for a timeout, as the limit of a wait.
pub fn limit(compat: Compat, value: &Value) -> Result<Duration, VclFailure> {
    duration(value).map(|timeout| timeouts::limit(compat, timeout))
}

pub fn boolean(value: &Value) -> Result<bool, VclFailure> {
    match value {
        Value::Bool(yes) => Ok(*yes),
        other => Err(wrong(other)),
    }
}

pub fn text(value: Value) -> Result<Option<Text>, VclFailure> {
    match value {
        Value::String(text) | Value::Stevedore(text) => Ok(text),
        other => Err(wrong(&other)),
    }
}

/// The compiler checks types, so this is our bug; it costs the transaction only.
pub fn wrong(value: &Value) -> VclFailure {
    VclFailure::new(format!("a {} where none can be", value.ty().name()))
}

/// A transaction's id: a number since release 7.3, which VCL can also use as a text.
pub(crate) fn id(vxid: Vxid) -> Value {
    Value::Int(vxid.log_id() as i64)
}

/// From 7.4 on the mask doesn't decide: it leaves the records through that a request asks for.
pub(crate) fn is_traced(set: Option<bool>, params: &Params, log: &TxnLog) -> bool {
    let by_mask = || !params.compat().is_9() && !log.ring().is_masked(Tag::VclTrace);
    set.unwrap_or_else(|| params.feature.has(FeatureBit::Trace) || by_mask())
}

/// The failure when VCL uses `var`, from which the filters of `head` would follow, after setting these itself.
pub fn filters_fixed(head: &str, var: Var) -> VclFailure {
    VclFailure::new(format!("{head}.filters are already fixed, {} is undefined", var.name()))
}

/// A variable that this subroutine can't have; as [`wrong`].
pub fn misplaced(var: Var) -> VclFailure {
    VclFailure::new(format!("{} is out of place", var.name()))
}

pub fn identity(sess: &Sess, own: Option<&Text>) -> Vec<u8> {
    match own {
        Some(text) => text.as_bytes().to_vec(),
        None => sess.ends.client().ip().to_string().into_bytes(),
    }
}

/// The addresses for a PROXY header to a backend; `None` when the client has none.
pub fn proxy_ends(sess: &Sess) -> Option<ProxyEnds> {
    match (sess.ends.client(), sess.ends.server()) {
        (Address::Inet(source), Address::Inet(destination)) => Some(ProxyEnds { source, destination }),
        (Address::Unix, _) | (_, Address::Unix) => None,
    }
}
