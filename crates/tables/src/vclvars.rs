// SPDX-License-Identifier: BSD-2-Clause
//! VCL's types and variables: what each is called, where it may be read, set and unset, and in which versions of the
//! language it exists. vcl-var(7) as data.

use crate::vclsubs::{Method, Methods};

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Type {
    Acl,
    Backend,
    Blob,
    Body,
    Bool,
    Bytes,
    Duration,
    Enum,
    Header,
    Http,
    Instance,
    Int,
    Ip,
    Probe,
    Real,
    Regex,
    Stevedore,
    /// Several strings, not yet joined; internal to expressions.
    Strings,
    Strands,
    String,
    Sub,
    Time,
    Vcl,
    Void,
}

impl Type {
    /// The name VCL's messages and the modules' signatures use.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Acl => "ACL",
            Type::Backend => "BACKEND",
            Type::Blob => "BLOB",
            Type::Body => "BODY",
            Type::Bool => "BOOL",
            Type::Bytes => "BYTES",
            Type::Duration => "DURATION",
            Type::Enum => "ENUM",
            Type::Header => "HEADER",
            Type::Http => "HTTP",
            Type::Instance => "INSTANCE",
            Type::Int => "INT",
            Type::Ip => "IP",
            Type::Probe => "PROBE",
            Type::Real => "REAL",
            Type::Regex => "REGEX",
            Type::Stevedore => "STEVEDORE",
            Type::Strings => "STRINGS",
            Type::Strands => "STRANDS",
            Type::String => "STRING",
            Type::Sub => "SUB",
            Type::Time => "TIME",
            Type::Vcl => "VCL",
            Type::Void => "VOID",
        }
    }

    pub fn from_name(name: &str) -> Option<Type> {
        use Type::*;
        const ALL: [Type; 24] = [
            Acl, Backend, Blob, Body, Bool, Bytes, Duration, Enum, Header, Http, Instance, Int, Ip, Probe, Real, Regex,
            Stevedore, Strings, Strands, String, Sub, Time, Vcl, Void,
        ];
        ALL.into_iter().find(|t| t.name() == name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum HeadId {
    Req,
    ReqTop,
    Bereq,
    Beresp,
    Obj,
    Resp,
}

impl HeadId {
    pub const ALL: [HeadId; 6] =
        [HeadId::Req, HeadId::ReqTop, HeadId::Bereq, HeadId::Beresp, HeadId::Obj, HeadId::Resp];

    /// The name in VCL: `req`, `bereq`, ...
    pub const fn name(self) -> &'static str {
        match self {
            HeadId::Req => "req",
            HeadId::ReqTop => "req_top",
            HeadId::Bereq => "bereq",
            HeadId::Beresp => "beresp",
            HeadId::Obj => "obj",
            HeadId::Resp => "resp",
        }
    }
}

/// A variable with one value (not a head's fields).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Var {
    ClientIdentity,
    ClientIp,
    ServerHostname,
    ServerIdentity,
    ServerIp,
    RemoteIp,
    LocalEndpoint,
    LocalIp,
    LocalSocket,
    Req,
    ReqBackendHint,
    ReqCanGzip,
    ReqEsi,
    ReqEsiLevel,
    ReqGrace,
    ReqHash,
    ReqHashAlwaysMiss,
    ReqHashIgnoreBusy,
    ReqHashIgnoreVary,
    ReqHashBody,
    ReqIsHitmiss,
    ReqIsHitpass,
    ReqMethod,
    ReqProto,
    ReqIsPeer,
    ReqRfc9111,
    ReqRestarts,
    ReqStorage,
    ReqTime,
    ReqTransport,
    ReqTtl,
    ReqUrl,
    ReqXid,
    ReqTopMethod,
    ReqTopProto,
    ReqTopTime,
    ReqTopUrl,
    Bereq,
    BereqBackend,
    BereqBetweenBytesTimeout,
    BereqBody,
    BereqConnectTimeout,
    BereqFirstByteTimeout,
    BereqHash,
    BereqIsBgfetch,
    BereqIsHitmiss,
    BereqIsHitpass,
    BereqMethod,
    BereqProto,
    BereqRetries,
    BereqPeers,
    BereqRfc9111,
    BereqTime,
    BereqUncacheable,
    BereqUrl,
    BereqXid,
    Beresp,
    BerespAge,
    BerespBackend,
    BerespBackendIp,
    BerespBackendName,
    BerespBody,
    BerespDoEsi,
    BerespDoGunzip,
    BerespDoGzip,
    BerespDoBrotli,
    BerespDoUnbrotli,
    BerespDoZstd,
    BerespDoUnzstd,
    BerespDoStream,
    BerespFilters,
    BerespGrace,
    BerespKeep,
    BerespProto,
    BerespReason,
    BerespStatus,
    BerespStorage,
    BerespStorageHint,
    BerespTime,
    BerespTtl,
    BerespUncacheable,
    BerespWas304,
    ObjAge,
    ObjCanEsi,
    ObjGrace,
    ObjHits,
    ObjKeep,
    ObjProto,
    ObjReason,
    ObjStatus,
    ObjStorage,
    ObjTenant,
    ObjTime,
    ObjTtl,
    ObjUncacheable,
    Resp,
    RespBody,
    RespDoEsi,
    RespFilters,
    RespIsStreaming,
    RespProto,
    RespReason,
    RespStatus,
    RespTime,
    Now,
    SessIdleSendTimeout,
    SessSendTimeout,
    SessTimeoutIdle,
    SessTimeoutLinger,
    SessXid,
    BerespTransitBuffer,
    BerespTags,
    BereqDoSlice,
    BereqSliceSize,
    BerespDoSlice,
    ParamBackendIdleTimeout,
    ParamBackendWaitLimit,
    ParamBackendWaitTimeout,
    ParamBetweenBytesTimeout,
    ParamConnectTimeout,
    ParamDefaultGrace,
    ParamDefaultKeep,
    ParamDefaultTtl,
    ParamFirstByteTimeout,
    ParamHttpLenient,
    ParamIdleSendTimeout,
    ParamMaxEsiDepth,
    ParamMaxRestarts,
    ParamMaxRetries,
    BereqTaskDeadline,
    ParamPipeTaskDeadline,
    ParamPipeTimeout,
    ParamSendTimeout,
    ParamShortlived,
    ParamTimeoutIdle,
    ParamUncacheableTtl,
    ObjStaleIsValid,
    BereqFilters,
    BereqRetryConnect,
    BereqTrace,
    ParamTransitBuffer,
    ReqFilters,
    ReqTrace,
    ReqClass,
    ReqClassState,
    ReqBotBudget,
    ReqBotClass,
    ReqBotCost,
    ReqBotNetwork,
    ReqBotVerified,
    ReqTenant,
    BereqTenant,
}

impl Var {
    pub fn name(self) -> &'static str {
        VARS.iter().find(|d| d.place == NameTarget::Scalar(self)).map_or("?", |d| d.name)
    }

    pub fn from_u8(number: u8) -> Option<Var> {
        VARS.iter().find_map(|d| match d.place {
            NameTarget::Scalar(var) if var as u8 == number => Some(var),
            NameTarget::Scalar(_) | NameTarget::Headers(_) => None,
        })
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NameTarget {
    Scalar(Var),
    /// The fields of a head: the name is followed by `.field`.
    Headers(HeadId),
}

/// A variable of vcl-var(7), with the subroutines that may read, set and unset it.
#[derive(Clone, Copy, Debug)]
pub struct VarDef {
    /// The variable's name; for a head's fields without the last `.*`.
    pub name: &'static str,
    pub ty: Type,
    pub place: NameTarget,
    pub read: Methods,
    pub write: Methods,
    pub unset: Methods,
    /// The first and the last version of the language that has it, times ten (4.1 is 41).
    pub versions: (u8, u8),
}

const fn def(
    name: &'static str,
    ty: Type,
    place: NameTarget,
    read: Methods,
    write: Methods,
    unset: Methods,
    versions: (u8, u8),
) -> VarDef {
    VarDef { name, ty, place, read, write, unset, versions }
}

const NONE: Methods = Methods::NONE;
const ALL: Methods = Methods::ALL;
const CLIENT: Methods = Methods::CLIENT;
const BACKEND: Methods = Methods::BACKEND;
const BOTH: Methods = CLIENT.with(BACKEND);
const PIPE: Methods = Method::Pipe.set();
const BEREQ: Methods = BACKEND.with(Method::Pipe.set());
const BACKEND_FETCH: Methods = Method::BackendFetch.set();
const BACKEND_RESPONSE: Methods = Method::BackendResponse.set();
const BACKEND_ERROR: Methods = Method::BackendError.set();
const BACKEND_REFRESH: Methods = Method::BackendRefresh.set();
const BERESP: Methods = BACKEND_RESPONSE.with(BACKEND_ERROR).with(BACKEND_REFRESH);
const HIT: Methods = Method::Hit.set();
const DELIVER: Methods = Method::Deliver.set();
const SYNTH: Methods = Method::Synth.set();
const OBJ: Methods = HIT.with(DELIVER);
const RESP: Methods = DELIVER.with(SYNTH);
const HASHED: Methods = OBJ.with(Method::Miss.set()).with(Method::Pass.set()).with(Method::Purge.set());

/// Every variable. A name occurs twice when its places differ between versions of the language.
#[rustfmt::skip]
pub static VARS: &[VarDef] = &[
    def("client.identity", Type::String, NameTarget::Scalar(Var::ClientIdentity), BOTH, CLIENT, NONE, (0, 99)),
    def("client.ip", Type::Ip, NameTarget::Scalar(Var::ClientIp), BOTH, NONE, NONE, (0, 99)),
    def("server.hostname", Type::String, NameTarget::Scalar(Var::ServerHostname), ALL, NONE, NONE, (0, 99)),
    def("server.identity", Type::String, NameTarget::Scalar(Var::ServerIdentity), ALL, NONE, NONE, (0, 99)),
    def("server.ip", Type::Ip, NameTarget::Scalar(Var::ServerIp), BOTH, NONE, NONE, (0, 99)),
    def("remote.ip", Type::Ip, NameTarget::Scalar(Var::RemoteIp), BOTH, NONE, NONE, (0, 99)),
    def("local.endpoint", Type::String, NameTarget::Scalar(Var::LocalEndpoint), BOTH, NONE, NONE, (41, 99)),
    def("local.ip", Type::Ip, NameTarget::Scalar(Var::LocalIp), BOTH, NONE, NONE, (0, 99)),
    def("local.socket", Type::String, NameTarget::Scalar(Var::LocalSocket), BOTH, NONE, NONE, (41, 99)),
    def("req", Type::Http, NameTarget::Scalar(Var::Req), CLIENT, NONE, NONE, (0, 99)),
    def("req.backend_hint", Type::Backend, NameTarget::Scalar(Var::ReqBackendHint), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.can_gzip", Type::Bool, NameTarget::Scalar(Var::ReqCanGzip), CLIENT, NONE, NONE, (0, 99)),
    def("req.esi", Type::Bool, NameTarget::Scalar(Var::ReqEsi), CLIENT, CLIENT, NONE, (0, 40)),
    def("req.esi_level", Type::Int, NameTarget::Scalar(Var::ReqEsiLevel), CLIENT, NONE, NONE, (0, 99)),
    def("req.grace", Type::Duration, NameTarget::Scalar(Var::ReqGrace), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("req.hash", Type::Blob, NameTarget::Scalar(Var::ReqHash), HASHED.with(Method::Synth.set()).with(PIPE), NONE, NONE, (0, 99)),
    def("req.hash_always_miss", Type::Bool, NameTarget::Scalar(Var::ReqHashAlwaysMiss), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.hash_ignore_busy", Type::Bool, NameTarget::Scalar(Var::ReqHashIgnoreBusy), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.hash_body", Type::Bool, NameTarget::Scalar(Var::ReqHashBody), CLIENT, Method::Recv.set(), NONE, (0, 99)),
    def("req.hash_ignore_vary", Type::Bool, NameTarget::Scalar(Var::ReqHashIgnoreVary), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.http", Type::Header, NameTarget::Headers(HeadId::Req), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("req.is_hitmiss", Type::Bool, NameTarget::Scalar(Var::ReqIsHitmiss), CLIENT, NONE, NONE, (0, 99)),
    def("req.is_hitpass", Type::Bool, NameTarget::Scalar(Var::ReqIsHitpass), CLIENT, NONE, NONE, (0, 99)),
    def("req.is_peer", Type::Bool, NameTarget::Scalar(Var::ReqIsPeer), CLIENT, NONE, NONE, (0, 99)),
    def("req.method", Type::String, NameTarget::Scalar(Var::ReqMethod), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.proto", Type::String, NameTarget::Scalar(Var::ReqProto), CLIENT, CLIENT, NONE, (0, 40)),
    def("req.proto", Type::String, NameTarget::Scalar(Var::ReqProto), CLIENT, NONE, NONE, (41, 99)),
    def("req.rfc9111", Type::Bool, NameTarget::Scalar(Var::ReqRfc9111), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.restarts", Type::Int, NameTarget::Scalar(Var::ReqRestarts), CLIENT, NONE, NONE, (0, 99)),
    def("req.storage", Type::Stevedore, NameTarget::Scalar(Var::ReqStorage), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.time", Type::Time, NameTarget::Scalar(Var::ReqTime), CLIENT, NONE, NONE, (0, 99)),
    def("req.transport", Type::String, NameTarget::Scalar(Var::ReqTransport), CLIENT, NONE, NONE, (0, 99)),
    def("req.ttl", Type::Duration, NameTarget::Scalar(Var::ReqTtl), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("req.url", Type::String, NameTarget::Scalar(Var::ReqUrl), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.xid", Type::String, NameTarget::Scalar(Var::ReqXid), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.http", Type::Header, NameTarget::Headers(HeadId::ReqTop), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.method", Type::String, NameTarget::Scalar(Var::ReqTopMethod), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.proto", Type::String, NameTarget::Scalar(Var::ReqTopProto), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.time", Type::Time, NameTarget::Scalar(Var::ReqTopTime), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.url", Type::String, NameTarget::Scalar(Var::ReqTopUrl), CLIENT, NONE, NONE, (0, 99)),
    def("bereq", Type::Http, NameTarget::Scalar(Var::Bereq), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.backend", Type::Backend, NameTarget::Scalar(Var::BereqBackend), BEREQ, BEREQ, NONE, (0, 99)),
    def("bereq.between_bytes_timeout", Type::Duration, NameTarget::Scalar(Var::BereqBetweenBytesTimeout), BACKEND, BACKEND, BEREQ, (0, 99)),
    def("bereq.body", Type::Body, NameTarget::Scalar(Var::BereqBody), NONE, NONE, BACKEND_FETCH, (0, 99)),
    def("bereq.connect_timeout", Type::Duration, NameTarget::Scalar(Var::BereqConnectTimeout), BEREQ, BEREQ, BEREQ, (0, 99)),
    def("bereq.first_byte_timeout", Type::Duration, NameTarget::Scalar(Var::BereqFirstByteTimeout), BACKEND, BACKEND, BEREQ, (0, 99)),
    def("bereq.hash", Type::Blob, NameTarget::Scalar(Var::BereqHash), BEREQ, NONE, NONE, (0, 99)),
    def("bereq.http", Type::Header, NameTarget::Headers(HeadId::Bereq), BEREQ, BEREQ, BEREQ, (0, 99)),
    def("bereq.is_bgfetch", Type::Bool, NameTarget::Scalar(Var::BereqIsBgfetch), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.is_hitmiss", Type::Bool, NameTarget::Scalar(Var::BereqIsHitmiss), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.is_hitpass", Type::Bool, NameTarget::Scalar(Var::BereqIsHitpass), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.method", Type::String, NameTarget::Scalar(Var::BereqMethod), BEREQ, BEREQ, NONE, (0, 99)),
    def("bereq.peers", Type::Bool, NameTarget::Scalar(Var::BereqPeers), BACKEND, BACKEND, NONE, (0, 99)),
    def("bereq.proto", Type::String, NameTarget::Scalar(Var::BereqProto), BEREQ, BEREQ, NONE, (0, 40)),
    def("bereq.proto", Type::String, NameTarget::Scalar(Var::BereqProto), BEREQ, NONE, NONE, (41, 99)),
    def("bereq.retries", Type::Int, NameTarget::Scalar(Var::BereqRetries), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.rfc9111", Type::Bool, NameTarget::Scalar(Var::BereqRfc9111), BACKEND, BACKEND, NONE, (0, 99)),
    def("bereq.time", Type::Time, NameTarget::Scalar(Var::BereqTime), BEREQ, NONE, NONE, (0, 99)),
    def("bereq.uncacheable", Type::Bool, NameTarget::Scalar(Var::BereqUncacheable), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.url", Type::String, NameTarget::Scalar(Var::BereqUrl), BEREQ, BEREQ, NONE, (0, 99)),
    def("bereq.xid", Type::String, NameTarget::Scalar(Var::BereqXid), BEREQ, NONE, NONE, (0, 99)),
    def("beresp", Type::Http, NameTarget::Scalar(Var::Beresp), BERESP, NONE, NONE, (0, 99)),
    def("beresp.age", Type::Duration, NameTarget::Scalar(Var::BerespAge), BERESP, NONE, NONE, (0, 99)),
    def("beresp.backend", Type::Backend, NameTarget::Scalar(Var::BerespBackend), BERESP, NONE, NONE, (0, 99)),
    def("beresp.backend.ip", Type::Ip, NameTarget::Scalar(Var::BerespBackendIp), BACKEND_RESPONSE, NONE, NONE, (0, 40)),
    def("beresp.backend.name", Type::String, NameTarget::Scalar(Var::BerespBackendName), BERESP, NONE, NONE, (0, 99)),
    def("beresp.body", Type::Body, NameTarget::Scalar(Var::BerespBody), NONE, BACKEND_ERROR, NONE, (0, 99)),
    def("beresp.do_brotli", Type::Bool, NameTarget::Scalar(Var::BerespDoBrotli), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_esi", Type::Bool, NameTarget::Scalar(Var::BerespDoEsi), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_gunzip", Type::Bool, NameTarget::Scalar(Var::BerespDoGunzip), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_gzip", Type::Bool, NameTarget::Scalar(Var::BerespDoGzip), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_stream", Type::Bool, NameTarget::Scalar(Var::BerespDoStream), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_unbrotli", Type::Bool, NameTarget::Scalar(Var::BerespDoUnbrotli), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_unzstd", Type::Bool, NameTarget::Scalar(Var::BerespDoUnzstd), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.do_zstd", Type::Bool, NameTarget::Scalar(Var::BerespDoZstd), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.filters", Type::String, NameTarget::Scalar(Var::BerespFilters), BACKEND_RESPONSE, BACKEND_RESPONSE, NONE, (0, 99)),
    def("beresp.grace", Type::Duration, NameTarget::Scalar(Var::BerespGrace), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.http", Type::Header, NameTarget::Headers(HeadId::Beresp), BERESP, BERESP, BERESP, (0, 99)),
    def("beresp.keep", Type::Duration, NameTarget::Scalar(Var::BerespKeep), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.proto", Type::String, NameTarget::Scalar(Var::BerespProto), BERESP, BERESP, NONE, (0, 40)),
    def("beresp.proto", Type::String, NameTarget::Scalar(Var::BerespProto), BERESP, NONE, NONE, (41, 99)),
    def("beresp.reason", Type::String, NameTarget::Scalar(Var::BerespReason), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.status", Type::Int, NameTarget::Scalar(Var::BerespStatus), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.storage", Type::Stevedore, NameTarget::Scalar(Var::BerespStorage), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.storage_hint", Type::String, NameTarget::Scalar(Var::BerespStorageHint), BERESP, BERESP, NONE, (0, 40)),
    def("beresp.time", Type::Time, NameTarget::Scalar(Var::BerespTime), BERESP, NONE, NONE, (0, 99)),
    def("beresp.ttl", Type::Duration, NameTarget::Scalar(Var::BerespTtl), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.uncacheable", Type::Bool, NameTarget::Scalar(Var::BerespUncacheable), BERESP, BERESP, NONE, (0, 99)),
    def("beresp.was_304", Type::Bool, NameTarget::Scalar(Var::BerespWas304), BERESP, NONE, NONE, (0, 99)),
    def("obj.age", Type::Duration, NameTarget::Scalar(Var::ObjAge), OBJ, NONE, NONE, (0, 99)),
    def("obj.can_esi", Type::Bool, NameTarget::Scalar(Var::ObjCanEsi), OBJ, NONE, NONE, (0, 99)),
    def("obj.grace", Type::Duration, NameTarget::Scalar(Var::ObjGrace), OBJ, NONE, NONE, (0, 99)),
    def("obj.hits", Type::Int, NameTarget::Scalar(Var::ObjHits), OBJ, NONE, NONE, (0, 99)),
    def("obj.http", Type::Header, NameTarget::Headers(HeadId::Obj), HIT, NONE, NONE, (0, 99)),
    def("obj.keep", Type::Duration, NameTarget::Scalar(Var::ObjKeep), OBJ, NONE, NONE, (0, 99)),
    def("obj.proto", Type::String, NameTarget::Scalar(Var::ObjProto), HIT, NONE, NONE, (0, 99)),
    def("obj.reason", Type::String, NameTarget::Scalar(Var::ObjReason), HIT, NONE, NONE, (0, 99)),
    def("obj.status", Type::Int, NameTarget::Scalar(Var::ObjStatus), HIT, NONE, NONE, (0, 99)),
    def("obj.storage", Type::Stevedore, NameTarget::Scalar(Var::ObjStorage), OBJ, NONE, NONE, (0, 99)),
    def("obj.time", Type::Time, NameTarget::Scalar(Var::ObjTime), OBJ, NONE, NONE, (0, 99)),
    def("obj.ttl", Type::Duration, NameTarget::Scalar(Var::ObjTtl), OBJ, NONE, NONE, (0, 99)),
    def("obj.uncacheable", Type::Bool, NameTarget::Scalar(Var::ObjUncacheable), DELIVER, NONE, NONE, (0, 99)),
    def("resp", Type::Http, NameTarget::Scalar(Var::Resp), RESP, NONE, NONE, (0, 99)),
    def("resp.body", Type::Body, NameTarget::Scalar(Var::RespBody), NONE, SYNTH, NONE, (0, 99)),
    def("resp.do_esi", Type::Bool, NameTarget::Scalar(Var::RespDoEsi), RESP, RESP, NONE, (41, 99)),
    def("resp.filters", Type::String, NameTarget::Scalar(Var::RespFilters), RESP, RESP, NONE, (0, 99)),
    def("resp.http", Type::Header, NameTarget::Headers(HeadId::Resp), RESP, RESP, RESP, (0, 99)),
    def("resp.is_streaming", Type::Bool, NameTarget::Scalar(Var::RespIsStreaming), RESP, NONE, NONE, (0, 99)),
    def("resp.proto", Type::String, NameTarget::Scalar(Var::RespProto), RESP, RESP, NONE, (0, 40)),
    def("resp.proto", Type::String, NameTarget::Scalar(Var::RespProto), RESP, NONE, NONE, (41, 99)),
    def("resp.reason", Type::String, NameTarget::Scalar(Var::RespReason), RESP, RESP, NONE, (0, 99)),
    def("resp.status", Type::Int, NameTarget::Scalar(Var::RespStatus), RESP, RESP, NONE, (0, 99)),
    def("resp.time", Type::Time, NameTarget::Scalar(Var::RespTime), RESP, NONE, NONE, (0, 99)),
    def("now", Type::Time, NameTarget::Scalar(Var::Now), ALL, NONE, NONE, (0, 99)),
    def("sess.idle_send_timeout", Type::Duration, NameTarget::Scalar(Var::SessIdleSendTimeout), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("sess.send_timeout", Type::Duration, NameTarget::Scalar(Var::SessSendTimeout), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("sess.timeout_idle", Type::Duration, NameTarget::Scalar(Var::SessTimeoutIdle), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("sess.timeout_linger", Type::Duration, NameTarget::Scalar(Var::SessTimeoutLinger), CLIENT, CLIENT, CLIENT, (0, 99)),
    def("sess.xid", Type::String, NameTarget::Scalar(Var::SessXid), BOTH, NONE, NONE, (41, 99)),
    // Of 7.7 and later.
    def("bereq.task_deadline", Type::Duration, NameTarget::Scalar(Var::BereqTaskDeadline), PIPE, PIPE, PIPE, (0, 99)),
    def("req.class", Type::String, NameTarget::Scalar(Var::ReqClass), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.class_state", Type::String, NameTarget::Scalar(Var::ReqClassState), CLIENT, NONE, NONE, (0, 99)),
    def("req.bot.budget", Type::Duration, NameTarget::Scalar(Var::ReqBotBudget), CLIENT, NONE, NONE, (0, 99)),
    def("req.bot.class", Type::String, NameTarget::Scalar(Var::ReqBotClass), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.bot.cost", Type::Duration, NameTarget::Scalar(Var::ReqBotCost), CLIENT, NONE, NONE, (0, 99)),
    def("req.bot.network", Type::Int, NameTarget::Scalar(Var::ReqBotNetwork), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.bot.verified", Type::String, NameTarget::Scalar(Var::ReqBotVerified), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.tenant", Type::String, NameTarget::Scalar(Var::ReqTenant), CLIENT, CLIENT, NONE, (0, 99)),
    def("bereq.tenant", Type::String, NameTarget::Scalar(Var::BereqTenant), BACKEND, NONE, NONE, (0, 99)),
    def("obj.tenant", Type::String, NameTarget::Scalar(Var::ObjTenant), OBJ, NONE, NONE, (0, 99)),
    def("bereq.do_slice", Type::Bool, NameTarget::Scalar(Var::BereqDoSlice), BACKEND, BACKEND_FETCH, NONE, (0, 99)),
    def("bereq.slice_size", Type::Bytes, NameTarget::Scalar(Var::BereqSliceSize), BACKEND, BACKEND_FETCH, NONE, (0, 99)),
    def("beresp.do_slice", Type::Bool, NameTarget::Scalar(Var::BerespDoSlice), BACKEND_RESPONSE, BACKEND_RESPONSE, NONE, (0, 99)),
    def("beresp.tags", Type::String, NameTarget::Scalar(Var::BerespTags), BERESP, BERESP, BERESP, (0, 99)),
    def("beresp.transit_buffer", Type::Bytes, NameTarget::Scalar(Var::BerespTransitBuffer), BACKEND_RESPONSE, BACKEND_RESPONSE, NONE, (0, 99)),
    def("param.backend_idle_timeout", Type::Duration, NameTarget::Scalar(Var::ParamBackendIdleTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.backend_wait_limit", Type::Int, NameTarget::Scalar(Var::ParamBackendWaitLimit), ALL, NONE, NONE, (0, 99)),
    def("param.backend_wait_timeout", Type::Duration, NameTarget::Scalar(Var::ParamBackendWaitTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.between_bytes_timeout", Type::Duration, NameTarget::Scalar(Var::ParamBetweenBytesTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.connect_timeout", Type::Duration, NameTarget::Scalar(Var::ParamConnectTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.default_grace", Type::Duration, NameTarget::Scalar(Var::ParamDefaultGrace), ALL, NONE, NONE, (0, 99)),
    def("param.default_keep", Type::Duration, NameTarget::Scalar(Var::ParamDefaultKeep), ALL, NONE, NONE, (0, 99)),
    def("param.default_ttl", Type::Duration, NameTarget::Scalar(Var::ParamDefaultTtl), ALL, NONE, NONE, (0, 99)),
    def("param.first_byte_timeout", Type::Duration, NameTarget::Scalar(Var::ParamFirstByteTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.http_lenient", Type::Bool, NameTarget::Scalar(Var::ParamHttpLenient), ALL, NONE, NONE, (0, 99)),
    def("param.idle_send_timeout", Type::Duration, NameTarget::Scalar(Var::ParamIdleSendTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.max_esi_depth", Type::Int, NameTarget::Scalar(Var::ParamMaxEsiDepth), ALL, NONE, NONE, (0, 99)),
    def("param.max_restarts", Type::Int, NameTarget::Scalar(Var::ParamMaxRestarts), ALL, NONE, NONE, (0, 99)),
    def("param.max_retries", Type::Int, NameTarget::Scalar(Var::ParamMaxRetries), ALL, NONE, NONE, (0, 99)),
    def("param.pipe_task_deadline", Type::Duration, NameTarget::Scalar(Var::ParamPipeTaskDeadline), ALL, NONE, NONE, (0, 99)),
    def("param.pipe_timeout", Type::Duration, NameTarget::Scalar(Var::ParamPipeTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.send_timeout", Type::Duration, NameTarget::Scalar(Var::ParamSendTimeout), ALL, NONE, NONE, (0, 99)),
    def("param.shortlived", Type::Duration, NameTarget::Scalar(Var::ParamShortlived), ALL, NONE, NONE, (0, 99)),
    def("param.timeout_idle", Type::Duration, NameTarget::Scalar(Var::ParamTimeoutIdle), ALL, NONE, NONE, (0, 99)),
    def("param.uncacheable_ttl", Type::Duration, NameTarget::Scalar(Var::ParamUncacheableTtl), ALL, NONE, NONE, (0, 99)),
    def("param.transit_buffer", Type::Bytes, NameTarget::Scalar(Var::ParamTransitBuffer), ALL, NONE, NONE, (0, 99)),
    def("bereq.filters", Type::String, NameTarget::Scalar(Var::BereqFilters), BACKEND_FETCH, BACKEND_FETCH, NONE, (0, 99)),
    def("bereq.retry_connect", Type::Bool, NameTarget::Scalar(Var::BereqRetryConnect), BACKEND, BACKEND, NONE, (0, 99)),
    def("bereq.trace", Type::Bool, NameTarget::Scalar(Var::BereqTrace), BACKEND, BACKEND, NONE, (0, 99)),
    def("req.filters", Type::String, NameTarget::Scalar(Var::ReqFilters), Method::Recv.set(), Method::Recv.set(), NONE, (0, 99)),
    def("req.trace", Type::Bool, NameTarget::Scalar(Var::ReqTrace), CLIENT, CLIENT, NONE, (0, 99)),
    // The name of req.ttl since release 9.
    def("req.max_age", Type::Duration, NameTarget::Scalar(Var::ReqTtl), CLIENT, CLIENT, CLIENT, (0, 99)),
    // What obj is to a hit, obj_stale is to a refresh.
    def("obj_stale.age", Type::Duration, NameTarget::Scalar(Var::ObjAge), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.can_esi", Type::Bool, NameTarget::Scalar(Var::ObjCanEsi), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.grace", Type::Duration, NameTarget::Scalar(Var::ObjGrace), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.hits", Type::Int, NameTarget::Scalar(Var::ObjHits), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.http", Type::Header, NameTarget::Headers(HeadId::Obj), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.is_valid", Type::Bool, NameTarget::Scalar(Var::ObjStaleIsValid), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.keep", Type::Duration, NameTarget::Scalar(Var::ObjKeep), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.proto", Type::String, NameTarget::Scalar(Var::ObjProto), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.reason", Type::String, NameTarget::Scalar(Var::ObjReason), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.status", Type::Int, NameTarget::Scalar(Var::ObjStatus), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.storage", Type::Stevedore, NameTarget::Scalar(Var::ObjStorage), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.time", Type::Time, NameTarget::Scalar(Var::ObjTime), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.ttl", Type::Duration, NameTarget::Scalar(Var::ObjTtl), BACKEND_REFRESH, NONE, NONE, (0, 99)),
    def("obj_stale.uncacheable", Type::Bool, NameTarget::Scalar(Var::ObjUncacheable), BACKEND_REFRESH, NONE, NONE, (0, 99)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scalar_comes_back_from_its_number() {
        for d in VARS {
            if let NameTarget::Scalar(var) = d.place {
                // A refresh has those of a hit.
                let name = d.name.replace("obj_stale.", "obj.").replace("req.max_age", "req.ttl");
                let name = if var == Var::ObjStaleIsValid { d.name } else { &name };
                assert_eq!((Var::from_u8(var as u8), var.name()), (Some(var), name));
            }
        }
    }

    #[test]
    fn type_names_come_back() {
        assert_eq!(Type::from_name("DURATION"), Some(Type::Duration));
        assert_eq!(Type::from_name("duration"), None);
    }
}
