// SPDX-License-Identifier: BSD-2-Clause
//! The compiler's output: flat bytecode and its data. `vrt` runs it.
//!
//! The machine that runs it has a stack of values, a stack of text buffers, one flag, and a stack of return places. A
//! test sets the flag; the jump that follows it reads the flag.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tables::origin_proto::OriginProto;
use tables::vclsubs::{Method, Return};
use tables::vclvars::{HeadId, Type, Var};

pub use crate::constants::Constants;
pub use crate::lean::{LeanCode, Subject, SubjectOf, TestGuard, TestOf};
pub use crate::source_map::{SourceInfo, SourceLocation, SourceMap};

/// An index into [`Program::subs`].
pub type SubId = u32;
/// Marks a missing subroutine in [`Program::methods`].
pub const NO_SUB: SubId = SubId::MAX;
/// An index into [`Program::backends`].
pub type BackendId = u32;
/// An index into [`Program::probes`].
pub type ProbeId = u32;
/// An index into [`Program::acls`].
pub type AclId = u32;
/// An index into [`Constants::regexes`].
pub type RegexId = u32;
/// An index into [`Program::objects`].
pub type ObjectId = u32;

#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The version that the first file declares: 40 or 41.
    pub syntax: u8,
    /// The dialect from before 4.0 that the file was translated from.
    pub dialect: Option<crate::Dialect>,
    pub code: Vec<Op>,
    pub lean: LeanCode,
    pub map: SourceMap,
    /// Subroutines in the order of their code, the built-in ones included.
    pub subs: Vec<ProgramSub>,
    /// The subroutine of each [`Method`], by its number. Only `vcl_backend_refresh` may be missing ([`NO_SUB`]).
    pub methods: [SubId; Method::COUNT],
    pub constants: Constants,
    pub backends: Vec<BackendDecl>,
    /// The backend named `default`, or the first one; `None` only if none is declared and modules create them.
    pub default_backend: Option<BackendId>,
    /// All probes, anonymous ones included.
    pub probes: Vec<ProbeDecl>,
    pub default_probe: Option<ProbeId>,
    pub acls: Vec<AclDecl>,
    pub imports: Vec<Import>,
    pub objects: Vec<ObjectDecl>,
    /// Calls of module functions, constructors and methods.
    pub calls: Vec<CallSite>,
    pub labels: Vec<String>,
    pub stores: Vec<String>,
}

impl Program {
    /// The subroutine of `method`; only `vcl_backend_refresh` may be missing.
    pub fn sub_of(&self, method: Method) -> Option<SubId> {
        Some(self.methods[method as usize]).filter(|sub| *sub != NO_SUB)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSub {
    pub name: String,
    /// Index of its first op in [`Program::code`].
    pub entry: u32,
    /// The machine subroutines that may call it.
    pub methods: tables::vclsubs::Methods,
}

/// One instruction, 8 bytes. `head` and `field` name a header; `str` is an index into [`Constants::strings`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Marks the beginning of a block or the end of an `if`; logs `VCL_trace` if enabled.
    Step { count: u32 },
    /// Jumps to `to` unconditionally.
    Jump { to: u32 },
    /// Jumps to `to` if the flag is set.
    JumpIf { to: u32 },
    /// Jumps to `to` unless the flag is set.
    JumpUnless { to: u32 },
    /// Calls a subroutine by its index.
    CallSub { sub: SubId },
    /// Pushes the time of a clock that nobody sets, as REAL.
    PushClock,
    /// Replaces a time of [`Op::PushClock`] by the DURATION since then.
    SinceClock,
    /// Calls the subroutine whose first op with an effect is `to`; in [`LeanCode`] only.
    CallAt { to: u32 },
    /// Returns to the caller; never reached in a machine subroutine.
    Leave,
    /// Ends with an action that has no argument.
    Return { action: Return },
    /// Ends with `synth` or `error`: pops the reason (when `with_reason`), then the status.
    ReturnStatus { action: Return, with_reason: bool },
    /// Ends with `pass(DURATION)`: pops it.
    ReturnPass,
    /// Ends with `fail("reason")`: pops it.
    ReturnFail,
    /// Ends with `vcl(label)`: an index into [`Program::labels`].
    ReturnVcl { label: u32 },

    /// Pushes the flag as a BOOL.
    PushFlag,
    /// Pushes a BOOL constant.
    PushBool { value: bool },
    /// Pushes an INT from [`Constants::ints`].
    PushInt { index: u32 },
    /// Pushes BYTES from [`Constants::ints`].
    PushBytes { index: u32 },
    /// Pushes a REAL from [`Constants::reals`].
    PushReal { index: u32 },
    /// Pushes a DURATION from [`Constants::reals`].
    PushDuration { index: u32 },
    /// Pushes a TIME from [`Constants::reals`].
    PushTime { index: u32 },
    /// Pushes a STRING from [`Constants::strings`].
    PushStr { str: u32 },
    /// Pushes an unset STRING.
    PushUnset,
    /// Pushes the placeholder of an optional argument that was not given.
    PushAbsent,
    /// Pushes an ENUM word from [`Constants::words`].
    PushEnum { word: u32 },
    /// Pushes a BLOB from [`Constants::blobs`].
    PushBlob { index: u32 },
    /// Pushes a REGEX from [`Constants::regexes`].
    PushRegex { index: RegexId },
    /// Pushes a BACKEND from [`Program::backends`].
    PushBackend { index: BackendId },
    /// Pushes the default backend.
    PushDefaultBackend,
    /// Pushes a PROBE from [`Program::probes`].
    PushProbe { index: ProbeId },
    /// Pushes the default probe.
    PushDefaultProbe,
    /// Pushes an ACL from [`Program::acls`].
    PushAcl { index: AclId },
    /// Pushes a SUB from [`Program::subs`].
    PushSub { sub: SubId },
    /// Pushes an IP; its text is an index into [`Constants::strings`].
    PushIp { str: u32 },
    /// Pushes a store from [`Program::stores`].
    PushStore { index: u32 },
    /// Pushes a HEADER: the name of a header, not its value.
    PushHeader { head: HeadId, field: u16 },
    /// Pushes a header's value as STRING.
    PushField { head: HeadId, field: u16 },
    /// Pushes a variable's value.
    PushVar { var: Var },
    /// Drops the top value.
    Drop,

    /// Opens a text buffer.
    TextOpen,
    /// Appends a constant to the open buffer.
    TextStr { str: u32 },
    /// Appends a header's value, or nothing if it is not set.
    TextField { head: HeadId, field: u16 },
    /// Appends a variable in its text form.
    TextVar { var: Var },
    /// Pops a value and appends its text form.
    TextPop,
    /// Closes the open buffer and pushes it as STRING.
    TextClose,
    /// Marks the end of the open buffer's first piece, for the call that follows.
    TextMark,
    /// Pops a value and pushes its text form as STRING.
    ToString { from: Type },

    /// Pops a value and sets the flag to its truth (VCL's rules for its type).
    Test,
    /// Sets the flag if the header is set.
    TestField { head: HeadId, field: u16 },
    /// Sets the flag if the header is set and equals a constant.
    TestFieldStr { head: HeadId, field: u16, str: u32 },
    /// Sets the flag if the pattern matches the header; an unset header counts as empty.
    TestFieldRegex { head: HeadId, field: u16, index: RegexId },
    /// Sets the flag if the STRING variable is set and equals a constant.
    TestVarStr { var: Var, str: u32 },
    /// Sets the flag if the pattern matches the STRING variable.
    TestVarRegex { var: Var, index: RegexId },
    /// Compares the status of a response with a constant; sets the flag to the result. Without a response the status is 0.
    TestStatus { var: Var, how: Compare, status: u16 },
    /// One of the first five tests above; its result is kept until its subject changes.
    Known { subject: u16, test: u16 },
    /// A chain of such tests with their jumps, starting at one of [`LeanCode::guards`]. Replaces the test there and the
    /// ops after it; with `VCL_trace` those are run instead.
    Guards { at: u32 },
    /// Pops b, then a; sets the flag to the comparison.
    Compare { how: Compare },
    /// Pops a STRING; sets the flag if the pattern matches.
    TestRegex { index: RegexId },
    /// Pops a REGEX, then a STRING; sets the flag if the pattern matches.
    TestRegexValue,
    /// Pops an ACL, then an IP; sets the flag if it matches.
    TestAcl,
    /// Inverts the result of the last test.
    Not,
    /// Pops b, then a; pushes the result.
    Math { how: Math, result: Type },
    /// Pops a number; pushes it with the opposite sign.
    Negate,
    /// Pops the substitute, the REGEX and the text; pushes a STRING.
    Regsub { all: bool },
    /// Pops a STRING; pushes it in upper or lower case (ASCII).
    Case { upper: bool },
    /// Pops a BACKEND; pushes the backend that it currently resolves to.
    Resolve,
    /// Pops a STEVEDORE; pushes a property: 0 free_space, 1 used_space, 2 happy.
    StoreProperty { which: u8 },

    /// Pops a value into a variable.
    SetVar { var: Var },
    /// Closes the open buffer and sets a STRING variable to it.
    SetVarText { var: Var },
    /// Closes the open buffer and sets a header to it.
    SetFieldText { head: HeadId, field: u16 },
    /// Unsets all headers of that name.
    UnsetField { head: HeadId, field: u16 },
    /// Unsets a variable, not a header.
    UnsetVar { var: Var },
    /// Pops a BLOB and sets the body of `resp` or `beresp` to it; with `append`, appends it.
    SetBody { append: bool },
    /// Closes the open buffer and sets or extends the body with it.
    SetBodyText { append: bool },
    /// Pops a STRING and appends it to the body; an unset one as `(null)`.
    AddBodyValue,
    /// Closes the open buffer and adds it to the hash as one piece.
    HashText,
    /// Adds a header's value to the hash as one piece, or an unset piece.
    HashField { head: HeadId, field: u16 },
    /// Ends the pieces of one `hash_data()`.
    HashEnd,
    /// Pops a STRING and bans by it.
    Ban,

    /// Calls `calls[site]`: pops the arguments and pushes the result unless that is VOID.
    Call { site: u32 },
    /// Creates an object by its constructor `calls[site]`.
    New { site: u32 },
}

const _: () = assert!(std::mem::size_of::<Op>() == 8);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Compare {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Compare {
    /// The operator, as VCL writes it.
    pub fn sign(self) -> &'static str {
        match self {
            Compare::Equal => "==",
            Compare::NotEqual => "!=",
            Compare::Less => "<",
            Compare::LessOrEqual => "<=",
            Compare::Greater => ">",
            Compare::GreaterOrEqual => ">=",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Math {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendAddress {
    /// Resolved at compile time, with at most one address of each family.
    Inet {
        /// The value of `.host`, as written.
        host: String,
        /// The value of `.port`, or the port in `.host`.
        port: Option<String>,
        v4: Option<SocketAddr>,
        v6: Option<SocketAddr>,
        /// The name to resolve again at run time; `None` for literal addresses.
        name: Option<HostName>,
    },
    Unix(PathBuf),
    None,
}

/// A host name, and its addresses when the VCL was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    pub host: String,
    pub port: u16,
    /// All addresses; empty with `Options::lazy_hosts`.
    pub found: Vec<SocketAddr>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct BackendDecl {
    pub name: String,
    pub address: BackendAddress,
    /// `.host_header`; `None` = the address's host.
    pub host_header: Option<String>,
    /// Seconds; `None` = the parameter.
    pub connect_timeout: Option<f64>,
    /// Seconds; `None` = the parameter.
    pub first_byte_timeout: Option<f64>,
    /// Seconds; `None` = the parameter.
    pub between_bytes_timeout: Option<f64>,
    /// `.max_connections`; 0 means no limit.
    pub max_connections: u32,
    /// `.wait_limit`: maximum number of fetches that wait for a connection; `None` = the parameter.
    pub wait_limit: Option<u32>,
    /// `.wait_timeout`, in seconds; `None` = the parameter.
    pub wait_timeout: Option<f64>,
    /// PROXY protocol version: 1, 2, or 0 for none.
    pub proxy_header: u8,
    /// Bytes sent at the start of every new connection.
    pub preamble: Option<Box<[u8]>>,
    /// The backend's probe, or the default one.
    pub probe: Option<ProbeId>,
    /// `.ssl = 1` and the attributes that depend on it.
    pub tls: Option<TlsDecl>,
    pub proto: OriginProto,
    pub via: Option<ViaDecl>,
}

/// `.via` of a backend: connections go to another backend, and begin with a PROXY header that names this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViaDecl {
    /// The other backend, which has no `.via` itself.
    pub backend: BackendId,
    /// The name in the PROXY header: `.authority`, or else `.host_header` or `.host`, without a port. Empty = none is sent.
    pub authority: String,
}

/// TLS attributes of a backend. The name for SNI and verification is `.host_header`, or else the address's host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsDecl {
    /// `.ssl_sni`: the handshake contains the name.
    pub sni: bool,
    /// `.ssl_verify_peer`: the certificate must be issued by a trusted authority.
    pub verify_peer: bool,
    /// `.ssl_verify_host`: the certificate must match the name.
    pub verify_host: bool,
    /// `.ssl_ca_file`: the trusted authorities; `None` = the system's.
    pub ca_file: Option<TlsFile>,
    /// `.ssl_crl_file`: certificates that the authorities have revoked.
    pub crl_file: Option<TlsFile>,
    /// `.certificate`: the file with our own certificate and its key. It is secret, so `text` is empty.
    pub certificate: Option<TlsFile>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFile {
    pub path: String,
    /// The content when the VCL was checked; empty if it is secret.
    pub text: Arc<[u8]>,
}

/// A `probe` declaration. Attributes that are `None` have the default of vcl-probe(7).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProbeDecl {
    /// Empty for a probe inside a backend.
    pub name: String,
    pub url: Option<String>,
    /// `.request`, with its lines joined and terminated.
    pub request: Option<Box<[u8]>>,
    /// The timeout in seconds.
    pub timeout: Option<f64>,
    /// The interval in seconds.
    pub interval: Option<f64>,
    pub window: Option<u32>,
    pub threshold: Option<u32>,
    pub initial: Option<u32>,
    pub expected_response: Option<u32>,
    /// `.expect_close`; `None` = true.
    pub expect_close: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AclDecl {
    pub name: String,
    pub log: bool,
    /// False only with the flag `-pedantic`.
    pub pedantic: bool,
    pub table: bool,
    /// Networks that belong together are one: [`crate::fold`].
    pub fold: bool,
    pub entries: Vec<AclEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclEntry {
    /// `!`: excludes the addresses.
    pub negated: bool,
    /// Written in parentheses: ignored if the name doesn't resolve.
    pub ignorable: bool,
    pub addr: String,
    /// The number in `"..." / 24`.
    pub mask: Option<u32>,
    /// Addresses of a host name at compile time; empty for a literal address.
    pub resolved: Vec<std::net::IpAddr>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    pub module: String,
    /// The local name (`import x as name`).
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectDecl {
    pub name: String,
    /// An index into [`Program::imports`].
    pub import: u32,
    pub class: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    Function(String),
    Constructor(ObjectId),
    Method(ObjectId, String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// An index into [`Program::imports`].
    pub import: u32,
    pub callee: Callee,
    /// Number of values it pops: one for each parameter of its signature, including those not given.
    pub args: u16,
    pub returns: Type,
    /// True if the call has no effects and its result depends only on the arguments.
    pub is_pure: bool,
}
