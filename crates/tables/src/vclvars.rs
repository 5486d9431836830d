// SPDX-License-Identifier: BSD-2-Clause
//! VCL's types, subroutines and variables: what each is called, where it may be read, set and unset, and in which
//! versions of the language it exists. vcl-var(7) and vcl-step(7) as data.

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

/// The subroutines of release 8 that a 304 goes through. A VCL that has none of them treats a 304 as releases up to 7 do.
pub const REFRESH_SUBS: [&str; 5] = [
    "vcl_backend_refresh",
    "vcl_builtin_backend_refresh",
    "vcl_refresh_conditions",
    "vcl_refresh_status",
    "vcl_refresh_valid",
];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Method {
    Recv,
    Pipe,
    Pass,
    Hash,
    Purge,
    Miss,
    Hit,
    Deliver,
    Synth,
    BackendFetch,
    BackendResponse,
    BackendError,
    /// Only of a VCL that says something of it: see [`crate::vclvars::REFRESH_SUBS`].
    BackendRefresh,
    Init,
    Fini,
}

impl Method {
    pub const COUNT: usize = 15;
    pub const ALL: [Method; Method::COUNT] = [
        Method::Recv,
        Method::Pipe,
        Method::Pass,
        Method::Hash,
        Method::Purge,
        Method::Miss,
        Method::Hit,
        Method::Deliver,
        Method::Synth,
        Method::BackendFetch,
        Method::BackendResponse,
        Method::BackendError,
        Method::BackendRefresh,
        Method::Init,
        Method::Fini,
    ];

    /// The subroutine's name in VCL.
    pub const fn sub_name(self) -> &'static str {
        match self {
            Method::Recv => "vcl_recv",
            Method::Pipe => "vcl_pipe",
            Method::Pass => "vcl_pass",
            Method::Hash => "vcl_hash",
            Method::Purge => "vcl_purge",
            Method::Miss => "vcl_miss",
            Method::Hit => "vcl_hit",
            Method::Deliver => "vcl_deliver",
            Method::Synth => "vcl_synth",
            Method::BackendFetch => "vcl_backend_fetch",
            Method::BackendResponse => "vcl_backend_response",
            Method::BackendError => "vcl_backend_error",
            Method::BackendRefresh => "vcl_backend_refresh",
            Method::Init => "vcl_init",
            Method::Fini => "vcl_fini",
        }
    }

    /// The name in the log's `VCL_call` records.
    pub const fn log_name(self) -> &'static str {
        match self {
            Method::Recv => "RECV",
            Method::Pipe => "PIPE",
            Method::Pass => "PASS",
            Method::Hash => "HASH",
            Method::Purge => "PURGE",
            Method::Miss => "MISS",
            Method::Hit => "HIT",
            Method::Deliver => "DELIVER",
            Method::Synth => "SYNTH",
            Method::BackendFetch => "BACKEND_FETCH",
            Method::BackendResponse => "BACKEND_RESPONSE",
            Method::BackendError => "BACKEND_ERROR",
            Method::BackendRefresh => "BACKEND_REFRESH",
            Method::Init => "INIT",
            Method::Fini => "FINI",
        }
    }

    /// The words of `return (...)` in this subroutine.
    pub const fn returns(self) -> &'static [Return] {
        use Return::*;
        match self {
            Method::Recv => &[Fail, Synth, Restart, Pass, Pipe, Hash, Purge, Vcl],
            Method::Pipe => &[Fail, Synth, Pipe],
            Method::Pass => &[Fail, Synth, Restart, Fetch],
            Method::Hash => &[Fail, Lookup],
            Method::Purge => &[Fail, Synth, Restart],
            Method::Miss => &[Fail, Synth, Restart, Pass, Fetch],
            // Fetch is 4.0's; 7.1 doesn't have it any more.
            Method::Hit => &[Fail, Synth, Restart, Pass, Deliver, Fetch],
            Method::Deliver => &[Fail, Synth, Restart, Deliver],
            Method::Synth => &[Fail, Restart, Deliver],
            Method::BackendFetch => &[Fail, Fetch, Abandon, Error],
            Method::BackendResponse => &[Fail, Deliver, Retry, Abandon, Pass, Error],
            Method::BackendError => &[Fail, Deliver, Retry, Abandon],
            Method::BackendRefresh => &[Fail, Retry, Abandon, Error, Merge, ObjStale, Beresp],
            Method::Init => &[Ok, Fail],
            Method::Fini => &[Ok],
        }
    }

    pub const fn set(self) -> Methods {
        Methods(1 << self as u16)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
#[repr(u8)]
pub enum Return {
    Abandon,
    Beresp,
    Deliver,
    Error,
    Fail,
    Fetch,
    Hash,
    Lookup,
    Merge,
    ObjStale,
    Ok,
    Pass,
    Pipe,
    Purge,
    Restart,
    Retry,
    Synth,
    Vcl,
}

impl Return {
    pub const COUNT: usize = 18;
    /// All, in order of name.
    pub const ALL: [Return; Return::COUNT] = [
        Return::Abandon,
        Return::Beresp,
        Return::Deliver,
        Return::Error,
        Return::Fail,
        Return::Fetch,
        Return::Hash,
        Return::Lookup,
        Return::Merge,
        Return::ObjStale,
        Return::Ok,
        Return::Pass,
        Return::Pipe,
        Return::Purge,
        Return::Restart,
        Return::Retry,
        Return::Synth,
        Return::Vcl,
    ];

    /// The word in VCL and in the log's `VCL_return` records.
    pub const fn name(self) -> &'static str {
        match self {
            Return::Abandon => "abandon",
            Return::Beresp => "beresp",
            Return::Deliver => "deliver",
            Return::Error => "error",
            Return::Fail => "fail",
            Return::Fetch => "fetch",
            Return::Hash => "hash",
            Return::Lookup => "lookup",
            Return::Merge => "merge",
            Return::ObjStale => "obj_stale",
            Return::Ok => "ok",
            Return::Pass => "pass",
            Return::Pipe => "pipe",
            Return::Purge => "purge",
            Return::Restart => "restart",
            Return::Retry => "retry",
            Return::Synth => "synth",
            Return::Vcl => "vcl",
        }
    }

    pub fn methods(self) -> Methods {
        let ok = Method::ALL.into_iter().filter(|m| m.returns().contains(&self));
        ok.fold(Methods::NONE, |set, m| set.with(m.set()))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Methods(pub u16);

impl Methods {
    pub const NONE: Methods = Methods(0);
    /// The client side: everything but `vcl_backend_*`, `vcl_init` and `vcl_fini`.
    pub const CLIENT: Methods = Methods(0x01ff);
    pub const BACKEND: Methods = Methods(0x1e00);
    pub const HOUSEKEEPING: Methods = Methods(0x6000);
    pub const ALL: Methods = Methods(0x7fff);

    pub const fn has(self, method: Method) -> bool {
        self.0 & (1 << method as u16) != 0
    }

    pub const fn with(self, other: Methods) -> Methods {
        Methods(self.0 | other.0)
    }

    pub const fn and(self, other: Methods) -> Methods {
        Methods(self.0 & other.0)
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |m| self.has(*m))
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
    ReqClass,
    ReqClassState,
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
    def("req.grace", Type::Duration, NameTarget::Scalar(Var::ReqGrace), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.hash", Type::Blob, NameTarget::Scalar(Var::ReqHash), HASHED, NONE, NONE, (0, 99)),
    def("req.hash_always_miss", Type::Bool, NameTarget::Scalar(Var::ReqHashAlwaysMiss), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.hash_ignore_busy", Type::Bool, NameTarget::Scalar(Var::ReqHashIgnoreBusy), CLIENT, CLIENT, NONE, (0, 99)),
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
    def("req.ttl", Type::Duration, NameTarget::Scalar(Var::ReqTtl), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.url", Type::String, NameTarget::Scalar(Var::ReqUrl), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.xid", Type::String, NameTarget::Scalar(Var::ReqXid), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.http", Type::Header, NameTarget::Headers(HeadId::ReqTop), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.method", Type::String, NameTarget::Scalar(Var::ReqTopMethod), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.proto", Type::String, NameTarget::Scalar(Var::ReqTopProto), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.time", Type::Time, NameTarget::Scalar(Var::ReqTopTime), CLIENT, NONE, NONE, (0, 99)),
    def("req_top.url", Type::String, NameTarget::Scalar(Var::ReqTopUrl), CLIENT, NONE, NONE, (0, 99)),
    def("bereq", Type::Http, NameTarget::Scalar(Var::Bereq), BACKEND, NONE, NONE, (0, 99)),
    def("bereq.backend", Type::Backend, NameTarget::Scalar(Var::BereqBackend), BEREQ, BEREQ, NONE, (0, 99)),
    def("bereq.between_bytes_timeout", Type::Duration, NameTarget::Scalar(Var::BereqBetweenBytesTimeout), BACKEND, BACKEND, NONE, (0, 99)),
    def("bereq.body", Type::Body, NameTarget::Scalar(Var::BereqBody), NONE, NONE, BACKEND_FETCH, (0, 99)),
    def("bereq.connect_timeout", Type::Duration, NameTarget::Scalar(Var::BereqConnectTimeout), BEREQ, BEREQ, NONE, (0, 99)),
    def("bereq.first_byte_timeout", Type::Duration, NameTarget::Scalar(Var::BereqFirstByteTimeout), BACKEND, BACKEND, NONE, (0, 99)),
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
    def("sess.idle_send_timeout", Type::Duration, NameTarget::Scalar(Var::SessIdleSendTimeout), CLIENT, CLIENT, NONE, (0, 99)),
    def("sess.send_timeout", Type::Duration, NameTarget::Scalar(Var::SessSendTimeout), CLIENT, CLIENT, NONE, (0, 99)),
    def("sess.timeout_idle", Type::Duration, NameTarget::Scalar(Var::SessTimeoutIdle), CLIENT, CLIENT, NONE, (0, 99)),
    def("sess.timeout_linger", Type::Duration, NameTarget::Scalar(Var::SessTimeoutLinger), CLIENT, CLIENT, NONE, (0, 99)),
    def("sess.xid", Type::String, NameTarget::Scalar(Var::SessXid), BOTH, NONE, NONE, (41, 99)),
    // Of 7.7 and later.
    def("bereq.task_deadline", Type::Duration, NameTarget::Scalar(Var::BereqTaskDeadline), PIPE, PIPE, PIPE, (0, 99)),
    def("req.class", Type::String, NameTarget::Scalar(Var::ReqClass), CLIENT, CLIENT, NONE, (0, 99)),
    def("req.class_state", Type::String, NameTarget::Scalar(Var::ReqClassState), CLIENT, NONE, NONE, (0, 99)),
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
    fn sets_agree_with_their_names() {
        assert!(Methods::CLIENT.has(Method::Recv) && Methods::CLIENT.has(Method::Synth));
        assert!(!Methods::CLIENT.has(Method::BackendFetch) && !Methods::BACKEND.has(Method::Init));
        assert_eq!(Methods::ALL, CLIENT.with(BACKEND).with(Methods::HOUSEKEEPING));
        assert_eq!(Methods::ALL.iter().count(), Method::COUNT);
    }

    #[test]
    fn every_scalar_comes_back_from_its_number() {
        for d in VARS {
            if let NameTarget::Scalar(var) = d.place {
                // A refresh has those of a hit.
                let name = d.name.replace("obj_stale.", "obj.");
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

    #[test]
    fn actions_know_their_subroutines() {
        assert!(Return::Vcl.methods() == Method::Recv.set());
        assert!(Return::Fail.methods().has(Method::Init) && !Return::Fail.methods().has(Method::Fini));
    }
}
