// SPDX-License-Identifier: BSD-2-Clause
//! What compiling VCL gives: flat bytecode and the data it names. Plain data; running it is `vrt`'s work.
//!
//! The machine that runs it has a stack of values, a stack of text buffers, one flag, and a stack of return places.
//! A test sets the flag; the jump that follows it reads the flag.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tables::origin_proto::OriginProto;
use tables::vclvars::{HeadId, Method, Return, Type, Var};

/// Index into [`Program::subs`].
pub type SubId = u32;
/// No subroutine.
pub const NO_SUB: SubId = SubId::MAX;
/// Index into [`Program::backends`].
pub type BackendId = u32;
/// Index into [`Program::probes`].
pub type ProbeId = u32;
/// Index into [`Program::acls`].
pub type AclId = u32;
/// Index into [`Program::regexes`].
pub type RegexId = u32;
/// Index into [`Program::objects`].
pub type ObjectId = u32;

/// A compiled VCL.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// 40 or 41: the version that the first file declares.
    pub syntax: u8,
    /// The dialect of a file from before 4.0, which was translated.
    pub dialect: Option<crate::Dialect>,
    /// All subroutines' code, one after the other.
    pub code: Vec<Op>,
    /// The same without what does nothing, for runs that nobody watches step by step. Each op is in its place in `code`; the
    /// optimiser fills it.
    pub lean: Vec<Op>,
    /// For each op, an index into `places`.
    pub op_places: Vec<u32>,
    /// Places in the source.
    pub places: Vec<SourceLocation>,
    /// The files that were read, in order; the first is the one compiled, the last the built-in VCL.
    pub sources: Vec<SourceInfo>,
    /// Subroutines, the built-in ones included.
    pub subs: Vec<Sub>,
    /// The subroutine of each [`Method`], by its number. All exist but perhaps `vcl_backend_refresh`, then [`NO_SUB`].
    pub methods: [SubId; Method::COUNT],
    /// Text constants.
    pub strings: Vec<Box<[u8]>>,
    /// Names of head fields, as first written.
    pub headers: Vec<Box<[u8]>>,
    /// INT and BYTES constants.
    pub ints: Vec<i64>,
    /// REAL, DURATION and TIME constants.
    pub reals: Vec<f64>,
    /// Words of ENUM arguments, as the signatures have them.
    pub words: Vec<&'static str>,
    /// BLOB constants, decoded.
    pub blobs: Vec<Box<[u8]>>,
    /// Patterns.
    pub regexes: Vec<Box<[u8]>>,
    /// `backend` declarations.
    pub backends: Vec<BackendDecl>,
    /// The one named `default`, or the first; `None` only when none is declared and modules make them.
    pub default_backend: Option<BackendId>,
    /// `probe` declarations, anonymous ones included.
    pub probes: Vec<ProbeDecl>,
    /// `probe default`.
    pub default_probe: Option<ProbeId>,
    /// `acl` declarations.
    pub acls: Vec<AclDecl>,
    /// `import`s.
    pub imports: Vec<Import>,
    /// `new` objects, in order of construction.
    pub objects: Vec<ObjectDecl>,
    /// Calls of module functions, constructors and methods.
    pub calls: Vec<CallSite>,
    /// Names in `return (vcl(name))`, labels.
    pub labels: Vec<String>,
    /// Names of stores (`storage.name`).
    pub stores: Vec<String>,
    /// What is tested more than once; the optimiser fills it.
    pub subjects: Vec<Subject>,
    /// Tests that follow each other as long as they fail; the optimiser fills it.
    pub guards: Vec<Guard>,
}

impl Program {
    /// The subroutine of `method`; only `vcl_backend_refresh` may be missing.
    pub fn sub_of(&self, method: Method) -> Option<SubId> {
        Some(self.methods[method as usize]).filter(|sub| *sub != NO_SUB)
    }
}

/// Something that is tested in several places, with all tests of it: what one of them said holds until it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// What is tested.
    pub of: SubjectOf,
    /// At most [`Subject::MOST_TESTS`] different tests.
    pub tests: Vec<TestOf>,
}

impl Subject {
    /// Tests of a subject; further ones are run each time.
    pub const MAX_TESTS: usize = 64;
}

/// What is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SubjectOf {
    /// A field of a head.
    Field(HeadId, u16),
    /// A textual part of a start line.
    Var(Var),
}

/// A test of a subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TestOf {
    /// Whether it is set.
    Set,
    /// Whether it equals a text: an index into [`Program::strings`].
    Equal(u32),
    /// Whether a pattern is found in it.
    Match(RegexId),
}

/// A test and where it leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guard {
    /// Index into [`Program::subjects`].
    pub subject: u16,
    /// Index into its tests.
    pub test: u16,
    /// Where it goes on when the test holds.
    pub then: u32,
    /// The guard that is next when it doesn't.
    pub next: Option<u32>,
    /// Where it goes on when it doesn't and no guard is next.
    pub otherwise: u32,
    /// The place of the test itself.
    pub pc: u32,
}

/// A place in the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourceLocation {
    /// Index into [`Program::sources`].
    pub source: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column in bytes, from 1.
    pub pos: u32,
}

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceInfo {
    /// Its name; `<vcl.inline>` for text given on the CLI, `<builtin>` for the built-in VCL.
    pub name: String,
    /// Its text.
    pub text: Vec<u8>,
}

/// A subroutine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sub {
    /// Name.
    pub name: String,
    /// Its first op in [`Program::code`].
    pub entry: u32,
    /// From which machine subroutines it may be called.
    pub methods: tables::vclvars::Methods,
}

/// One instruction, 8 bytes. `head`, `field` name a line of a head; `str` is an index into [`Program::strings`].
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)]
pub enum Op {
    /// Where a block begins or an `if` has ended; logs `VCL_trace` when asked.
    Step { count: u32 },
    /// Goes on at `to`.
    Jump { to: u32 },
    /// Goes on at `to` when the flag is set.
    JumpIf { to: u32 },
    /// Goes on at `to` when the flag is not set.
    JumpUnless { to: u32 },
    /// Calls a subroutine.
    CallSub { sub: SubId },
    /// Calls the subroutine whose first op that does something is `to`; in [`Program::lean`] only.
    CallAt { to: u32 },
    /// Returns to the caller; in a machine subroutine that is never reached.
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
    /// Pushes BOOL.
    PushBool { value: bool },
    /// Pushes INT.
    PushInt { index: u32 },
    /// Pushes BYTES.
    PushBytes { index: u32 },
    /// Pushes REAL.
    PushReal { index: u32 },
    /// Pushes DURATION.
    PushDuration { index: u32 },
    /// Pushes TIME.
    PushTime { index: u32 },
    /// Pushes STRING.
    PushStr { str: u32 },
    /// Pushes a STRING that is not set.
    PushUnset,
    /// Pushes what stands for an optional argument that was not given.
    PushAbsent,
    /// Pushes a word of an ENUM argument.
    PushEnum { word: u32 },
    /// Pushes BLOB.
    PushBlob { index: u32 },
    /// Pushes REGEX.
    PushRegex { index: RegexId },
    /// Pushes BACKEND.
    PushBackend { index: BackendId },
    /// Pushes the default backend.
    PushDefaultBackend,
    /// Pushes PROBE.
    PushProbe { index: ProbeId },
    /// Pushes the default probe.
    PushDefaultProbe,
    /// Pushes ACL.
    PushAcl { index: AclId },
    /// Pushes SUB.
    PushSub { sub: SubId },
    /// Pushes IP: an index into [`Program::strings`], the text of an address.
    PushIp { str: u32 },
    /// Pushes a store by name.
    PushStore { index: u32 },
    /// Pushes a HEADER: the name of a field in a head.
    PushHeader { head: HeadId, field: u16 },
    /// Pushes a field's value as STRING.
    PushField { head: HeadId, field: u16 },
    /// Pushes a variable's value.
    PushVar { var: Var },
    /// Drops the top value.
    Drop,

    /// Opens a text buffer.
    TextOpen,
    /// Appends a constant to the open buffer.
    TextStr { str: u32 },
    /// Appends a field's value, or nothing when it is not set.
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

    /// Pops a value; the flag is whether it is true (VCL's rules for its type).
    Test,
    /// The flag is whether the field is set.
    TestField { head: HeadId, field: u16 },
    /// The flag is whether the field is set and equals a constant.
    TestFieldStr { head: HeadId, field: u16, str: u32 },
    /// The flag is whether the pattern is found in the field (in no text, when it isn't set).
    TestFieldRegex { head: HeadId, field: u16, index: RegexId },
    /// The flag is whether the STRING variable is set and equals a constant.
    TestVarStr { var: Var, str: u32 },
    /// The flag is whether the pattern is found in the STRING variable.
    TestVarRegex { var: Var, index: RegexId },
    /// One of the five tests above, whose answer is kept until its subject changes.
    Known { subject: u16, test: u16 },
    /// A chain of such tests with their jumps, begun at one of [`Program::guards`]. Stands for the test there and what
    /// follows, and is run as that when `VCL_trace` is asked for.
    Guards { at: u32 },
    /// Pops b, then a; the flag is the comparison.
    Compare { how: Compare },
    /// Pops a STRING; the flag is whether the pattern is found in it.
    TestRegex { index: RegexId },
    /// Pops a REGEX, then a STRING; the flag is whether the pattern is found in it.
    TestRegexValue,
    /// Pops an ACL, then an IP; the flag is whether it matches.
    TestAcl,
    /// Inverts the flag.
    Not,
    /// Pops b, then a, pushes the result.
    Math { how: Math, result: Type },
    /// Pops a number, pushes it with the other sign.
    Negate,
    /// Pops substitute, REGEX and text, pushes a STRING.
    Regsub { all: bool },
    /// Pops a STRING, pushes it in upper or lower case (ASCII).
    Case { upper: bool },
    /// Pops a BACKEND, pushes what it resolves to now.
    Resolve,
    /// Pops a STEVEDORE, pushes a property: 0 free_space, 1 used_space, 2 happy.
    StoreProperty { which: u8 },

    /// Pops a value into a variable.
    SetVar { var: Var },
    /// Closes the open buffer and sets a STRING variable to it.
    SetVarText { var: Var },
    /// Closes the open buffer and sets a field to it.
    SetFieldText { head: HeadId, field: u16 },
    /// Unsets all fields of that name.
    UnsetField { head: HeadId, field: u16 },
    /// Unsets a variable.
    UnsetVar { var: Var },
    /// Pops a BLOB: the body of `resp` or `beresp`; with `append`, more of it.
    SetBody { append: bool },
    /// The same with the open buffer, which it closes.
    SetBodyText { append: bool },
    /// Pops a STRING and adds it to the body: `(null)` when it isn't set.
    AddBodyValue,
    /// Closes the open buffer and adds it to the hash as one piece.
    HashText,
    /// Adds a piece that isn't set when the field isn't, else its value.
    HashField { head: HeadId, field: u16 },
    /// Ends what one `hash_data()` adds.
    HashEnd,
    /// Pops a STRING: a ban.
    Ban,

    /// Calls `calls[site]`: pops its arguments, pushes what it gives unless that is VOID.
    Call { site: u32 },
    /// Makes an object by its constructor `calls[site]`.
    New { site: u32 },
}

const _: () = assert!(std::mem::size_of::<Op>() == 8);

/// How two values compare.
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

/// Arithmetic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Math {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
}

/// Where a backend is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendAddress {
    /// Resolved when compiled: at most one address of each family.
    Inet {
        /// `.host` as written.
        host: String,
        /// `.port` as written, or the one in `.host`.
        port: Option<String>,
        /// IPv4.
        v4: Option<SocketAddr>,
        /// IPv6.
        v6: Option<SocketAddr>,
        /// The name to look up again at run time; `None` for literal addresses.
        name: Option<HostName>,
    },
    /// A unix socket.
    Unix(PathBuf),
    /// `backend name none;`
    None,
}

/// A name, and what it stood for when the VCL was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostName {
    /// The name.
    pub host: String,
    /// The port, as a number.
    pub port: u16,
    /// All addresses it had; none if `Options::lazy_hosts`.
    pub found: Vec<SocketAddr>,
}

/// A `backend` declaration.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendDecl {
    /// Name.
    pub name: String,
    /// Where it is.
    pub address: BackendAddress,
    /// `.host_header`; the address's host when not given.
    pub host_header: Option<String>,
    /// Seconds; `None` = the parameter.
    pub connect_timeout: Option<f64>,
    /// Seconds; `None` = the parameter.
    pub first_byte_timeout: Option<f64>,
    /// Seconds; `None` = the parameter.
    pub between_bytes_timeout: Option<f64>,
    /// 0 = no limit.
    pub max_connections: u32,
    /// `.wait_limit`: fetches that wait for a connection; `None` = the parameter.
    pub wait_limit: Option<u32>,
    /// `.wait_timeout`, in seconds; `None` = the parameter.
    pub wait_timeout: Option<f64>,
    /// 0 = none, 1 or 2.
    pub proxy_header: u8,
    /// What every new connection begins with.
    pub preamble: Option<Box<[u8]>>,
    /// Its probe (the default one filled in).
    pub probe: Option<ProbeId>,
    /// `.ssl = 1`, and what belongs to it.
    pub tls: Option<TlsDecl>,
    /// `.proto`
    pub proto: OriginProto,
}

/// How a backend is spoken to by TLS. The name that it is to have is `.host_header`, or else the address's host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsDecl {
    /// `.ssl_sni`: the name is told in the handshake.
    pub sni: bool,
    /// `.ssl_verify_peer`: its certificate must come from an authority that is trusted.
    pub verify_peer: bool,
    /// `.ssl_verify_host`: its certificate must be for the name.
    pub verify_host: bool,
    /// `.ssl_ca_file`: the authorities that are trusted; `None` = the system's.
    pub ca_file: Option<TlsFile>,
    /// `.ssl_crl_file`: which certificates they have revoked.
    pub crl_file: Option<TlsFile>,
    /// `.certificate`: the file of our own certificate and its key, which isn't in `text`.
    pub certificate: Option<TlsFile>,
}

/// A file that a TLS attribute names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFile {
    /// Its whole name.
    pub path: String,
    /// What was in it when the VCL was checked; empty where that is secret.
    pub text: Arc<[u8]>,
}

/// A `probe` declaration. What is `None` has the default of vcl-probe(7).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ProbeDecl {
    /// Name; empty for one inside a backend.
    pub name: String,
    /// `.url`
    pub url: Option<String>,
    /// `.request`, lines already joined and ended.
    pub request: Option<Box<[u8]>>,
    /// Seconds.
    pub timeout: Option<f64>,
    /// Seconds.
    pub interval: Option<f64>,
    /// `.window`
    pub window: Option<u32>,
    /// `.threshold`
    pub threshold: Option<u32>,
    /// `.initial`
    pub initial: Option<u32>,
    /// `.expected_response`
    pub expected_response: Option<u32>,
    /// `.expect_close` (true unless set).
    pub expect_close: Option<bool>,
}

/// An `acl` declaration, host names resolved.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AclDecl {
    /// Name.
    pub name: String,
    /// `+log`
    pub log: bool,
    /// `-pedantic` clears it.
    pub pedantic: bool,
    /// `+table`
    pub table: bool,
    /// Entries in the order written.
    pub entries: Vec<AclEntry>,
}

/// An entry of an ACL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AclEntry {
    /// `!`
    pub negated: bool,
    /// In parentheses.
    pub ignorable: bool,
    /// What is in the quotes.
    pub addr: String,
    /// The number after `"..." /`.
    pub mask: Option<u32>,
    /// What a host name resolved to when this was compiled; empty for an address.
    pub resolved: Vec<std::net::IpAddr>,
}

/// An `import`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// The module.
    pub module: String,
    /// The name it has in this VCL (`import x as name`).
    pub name: String,
}

/// An object made by `new`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectDecl {
    /// Name.
    pub name: String,
    /// Index into [`Program::imports`].
    pub import: u32,
    /// The class in its module.
    pub class: String,
}

/// What a call calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// A function of a module.
    Function(String),
    /// The constructor of an object.
    Constructor(ObjectId),
    /// A method of an object.
    Method(ObjectId, String),
}

/// One call of a module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallSite {
    /// Index into [`Program::imports`].
    pub import: u32,
    /// What is called.
    pub callee: Callee,
    /// How many values it takes from the stack: one for each parameter of its signature, those not given included.
    pub args: u16,
    /// What it gives.
    pub returns: Type,
    /// It only tells something, which depends on the arguments alone.
    pub is_pure: bool,
}
