// SPDX-License-Identifier: BSD-2-Clause
//! `backend` and `probe` declarations.

use tables::origin_proto::OriginProto;
use tables::vclvars::Type;

use crate::backend_tls::TlsFields;
use crate::backend_via::ViaFields;
use crate::code::DiagnosticCode;
use crate::program::{BackendAddress, BackendDecl, HostName, ProbeDecl};
use crate::symbols::{SymbolKind, SymbolMeaning};
use crate::token::{Tok, Token};
use crate::vcc::{LookupScope, Vcc, VccResult};

/// The attributes seen so far; each may occur once.
struct Fields(Vec<(String, Token)>);

/// Size of a socket's path, with the NUL behind it, in the operating system's structure.
const SOCKET_PATH_MAX: usize = 108;

/// Default port without TLS; the next constant is the one with TLS.
const PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// Attributes of a backend, without the dot.
pub const BACKEND_FIELDS: [&str; 25] = [
    "host",
    "port",
    "path",
    "host_header",
    "connect_timeout",
    "first_byte_timeout",
    "between_bytes_timeout",
    "probe",
    "max_connections",
    "proxy_header",
    "preamble",
    // Attributes of Varnish releases after 7.1:
    "via",
    "authority",
    "wait_limit",
    "wait_timeout",
    "ssl",
    "ssl_sni",
    "ssl_nosni",
    "ssl_verify_peer",
    "ssl_noverify",
    "ssl_verify_host",
    "ssl_ca_file",
    "ssl_crl_file",
    "certificate",
    // Attributes of our own:
    "proto",
];
/// Attributes of a probe, without the dot.
pub const PROBE_FIELDS: [&str; 9] =
    ["url", "request", "expected_response", "timeout", "interval", "window", "threshold", "initial", "expect_close"];

impl Vcc<'_> {
    /// Reads `.name =` and returns the attribute.
    fn field(&mut self, known: &[&'static str], seen: &mut Fields) -> VccResult<(&'static str, Token)> {
        self.skip_c(b'.')?;
        self.expect(Tok::Id)?;
        let token = self.token();
        self.next();
        self.skip_c(b'=')?;
        let name = self.text_of(&token);
        let Some(field) = known.iter().find(|f| **f == name) else {
            self.hint_field(&name, known);
            let shown = self.token_name(&token);
            return self.fail_at(DiagnosticCode::Field, &format!("Unknown field: {shown} at\n"), &token);
        };
        if let Some((_, first)) = seen.0.iter().find(|(n, _)| *n == name) {
            let first = *first;
            let shown = self.token_name(&token);
            self.begin(DiagnosticCode::Redefined, &format!("Field {shown} redefined at:\n"));
            self.show(&token);
            return self.fail_at(DiagnosticCode::Redefined, "\nFirst defined at:\n", &first);
        }
        seen.0.push((name, token));
        Ok((field, token))
    }

    fn only_one(&mut self, what: &str, did: &mut Option<Token>, token: Token) -> VccResult {
        if let Some(first) = did.replace(token) {
            self.begin(DiagnosticCode::Redefined, &format!("{what} redefinition at:\n"));
            self.show(&token);
            return self.fail_at(DiagnosticCode::Redefined, "Previous definition:\n", &first);
        }
        Ok(())
    }

    pub fn text_field(&mut self) -> VccResult<Token> {
        self.expect(Tok::Str)?;
        let token = self.token();
        self.next();
        self.skip_c(b';')?;
        Ok(token)
    }

    fn timeout_field(&mut self) -> VccResult<Option<f64>> {
        let first = self.at;
        let seconds = self.duration_field()?;
        if seconds == Some(0.0) {
            self.remark_zero_timeout(first);
        }
        Ok(seconds)
    }

    fn duration_field(&mut self) -> VccResult<Option<f64>> {
        let seconds = self.duration()?;
        self.skip_c(b';')?;
        Ok(Some(seconds))
    }

    pub fn probe(&mut self) -> VccResult {
        self.next();
        self.expect_name("backend probe")?;
        if self.here_is("default") {
            self.next();
            let decl = self.probe_spec("default")?;
            self.program.default_probe = Some(self.add_probe(decl));
            return Ok(());
        }
        let id = self.declare(Type::Probe)?;
        let name = self.syms.get(id).name.clone();
        let decl = self.probe_spec(&name)?;
        let index = self.add_probe(decl);
        self.syms.get_mut(id).what = SymbolMeaning::Global(Some(index));
        Ok(())
    }

    fn add_probe(&mut self, decl: ProbeDecl) -> u32 {
        self.program.probes.push(decl);
        self.program.probes.len() as u32 - 1
    }

    fn probe_spec(&mut self, name: &str) -> VccResult<ProbeDecl> {
        let mut probe = ProbeDecl { name: name.to_owned(), ..ProbeDecl::default() };
        let mut seen = Fields(Vec::new());
        let (mut did, mut window, mut threshold) = (None, None, None);
        self.skip_c(b'{')?;
        while !self.is_c(b'}') {
            let (field, token) = self.field(&PROBE_FIELDS, &mut seen)?;
            let value = self.token();
            match field {
                "url" => {
                    self.only_one("Probe request", &mut did, token)?;
                    self.expect(Tok::Str)?;
                    probe.url = Some(self.content_text(&value));
                    self.next();
                }
                "request" => {
                    self.only_one("Probe request", &mut did, token)?;
                    self.expect(Tok::Str)?;
                    probe.request = Some(self.request_lines());
                }
                "timeout" => probe.timeout = Some(self.duration()?),
                "interval" => probe.interval = Some(self.duration()?),
                "initial" => probe.initial = Some(self.unsigned()?),
                "window" => {
                    window = Some(value);
                    probe.window = Some(self.unsigned()?);
                }
                "threshold" => {
                    threshold = Some(value);
                    probe.threshold = Some(self.unsigned()?);
                }
                "expect_close" => probe.expect_close = Some(self.yes_or_no()?),
                _ => probe.expected_response = Some(self.expected_response()?),
            }
            self.skip_c(b';')?;
        }
        self.check_window(&mut probe, window, threshold)?;
        self.skip_c(b'}')?;
        Ok(probe)
    }

    fn yes_or_no(&mut self) -> VccResult<bool> {
        let yes = self.here_is("true");
        if !yes && !self.here_is("false") {
            return self.fail(DiagnosticCode::Field, "Expected \"true\" or \"false\"\n");
        }
        self.next();
        Ok(yes)
    }

    fn request_lines(&mut self) -> Box<[u8]> {
        let mut request = Vec::new();
        while self.tok() == Tok::Str {
            request.extend_from_slice(self.content(&self.token()));
            request.extend_from_slice(b"\r\n");
            self.next();
        }
        request.extend_from_slice(b"\r\n");
        request.into()
    }

    fn expected_response(&mut self) -> VccResult<u32> {
        let status = self.unsigned()?;
        if (100..=999).contains(&status) {
            return Ok(status);
        }
        self.fail(
            DiagnosticCode::Field,
            "Must specify .expected_response with exactly three digits (100 <= x <= 999)\n",
        )
    }

    fn check_window(&mut self, probe: &mut ProbeDecl, window: Option<Token>, threshold: Option<Token>) -> VccResult {
        let (given_window, given_threshold) = (probe.window.unwrap_or(0), probe.threshold.unwrap_or(0));
        match (window, threshold) {
            (None, None) => return Ok(()),
            (Some(at), None) => {
                return self.fail_at(DiagnosticCode::Field, "Must specify .threshold with .window\n", &at);
            }
            (None, Some(at)) if given_threshold > 64 => {
                return self.fail_at(DiagnosticCode::Field, "Threshold must be 64 or less.\n", &at);
            }
            (None, Some(_)) => probe.window = Some(given_threshold + 1),
            (Some(at), Some(_)) if given_window > 64 => {
                return self.fail_at(DiagnosticCode::Field, "Window must be 64 or less.\n", &at);
            }
            (Some(window), Some(at)) if given_threshold > given_window => {
                let cannot = self.wording("can not", "cannot");
                self.begin(DiagnosticCode::Field, &format!("Threshold {cannot} be greater than window.\n"));
                self.show(&at);
                return self.stop_at(&window);
            }
            (Some(_), Some(_)) => {}
        }
        Ok(())
    }

    pub fn backend(&mut self) -> VccResult {
        let first = self.token();
        self.next();
        self.expect_name("backend")?;
        let name_at = self.at;
        let name_token = self.token();
        let name = self.text_of(&name_token);
        if name == "default" {
            if let Some(first) = self.first_backend.take() {
                self.syms.get_mut(first).noref = false;
            }
            if self.default_backend_named {
                self.hint("There is a backend of that name already: give one of them another, and set req.backend_hint to it where it is for.");
                return self.fail_at(DiagnosticCode::Redefined, "Only one default director possible.\n", &first);
            }
            self.default_backend_named = true;
            self.next();
            let decl = self.backend_body(&name, &name_token, &first)?;
            let index = self.add_backend(decl, name_at);
            self.program.default_backend = Some(index);
            return Ok(());
        }
        let id = self.declare(Type::Backend)?;
        let is_first = self.program.backends.is_empty() && !self.default_backend_named;
        if is_first {
            self.first_backend = Some(id);
            self.syms.get_mut(id).noref = true;
        }
        let decl = self.backend_body(&name, &name_token, &first)?;
        let index = self.add_backend(decl, name_at);
        if is_first {
            self.program.default_backend = Some(index);
        }
        self.syms.get_mut(id).what = SymbolMeaning::Global(Some(index));
        Ok(())
    }

    fn add_backend(&mut self, decl: BackendDecl, name_at: usize) -> u32 {
        self.program.backends.push(decl);
        let index = self.program.backends.len() as u32 - 1;
        self.note_own_backend(index, name_at);
        index
    }

    fn backend_body(&mut self, name: &str, name_token: &Token, first: &Token) -> VccResult<BackendDecl> {
        let spec = self.backend_spec(name, name_token);
        if spec.is_err() {
            self.say("\nIn backend specification starting at:\n");
            self.show(first);
        }
        spec
    }

    fn backend_spec(&mut self, name: &str, name_token: &Token) -> VccResult<BackendDecl> {
        let mut decl = BackendDecl {
            name: name.to_owned(),
            address: BackendAddress::None,
            host_header: None,
            connect_timeout: None,
            first_byte_timeout: None,
            between_bytes_timeout: None,
            max_connections: 0,
            wait_limit: None,
            wait_timeout: None,
            proxy_header: 0,
            preamble: None,
            probe: None,
            tls: None,
            proto: OriginProto::default(),
            via: None,
        };
        if self.here_is("none") || self.here_is("None") {
            self.next();
            self.skip_c(b';')?;
            return Ok(decl);
        }
        self.skip_c(b'{')?;
        if self.here_is("set") {
            let shown = self.token_name(&self.token());
            return self.fail(DiagnosticCode::Field, &format!(
                "NB: Backend Syntax has changed:\nRemove \"set\" and \"backend\" in front of backend fields.\n{shown} at "
            ));
        }
        let mut seen = Fields(Vec::new());
        let (mut host, mut port, mut path, mut did) = (None, None, None, None);
        let (mut tls, mut proto, mut via) = (TlsFields::default(), None, ViaFields::default());
        while !self.is_c(b'}') {
            let (field, token) = self.field(&BACKEND_FIELDS, &mut seen)?;
            match field {
                "host" => {
                    self.only_one("Address", &mut did, token)?;
                    host = Some(self.text_field()?);
                }
                "port" => port = Some(self.text_field()?),
                "path" => {
                    self.only_one("Address", &mut did, token)?;
                    path = Some(self.path_field()?);
                }
                "host_header" => {
                    let value = self.text_field()?;
                    decl.host_header = Some(self.content_text(&value));
                    via.host_header = Some(value);
                }
                "connect_timeout" => decl.connect_timeout = self.duration_field()?,
                "first_byte_timeout" => decl.first_byte_timeout = self.timeout_field()?,
                "between_bytes_timeout" => decl.between_bytes_timeout = self.timeout_field()?,
                "max_connections" => {
                    decl.max_connections = self.unsigned()?;
                    self.skip_c(b';')?;
                }
                "wait_limit" => {
                    decl.wait_limit = Some(self.unsigned()?);
                    self.skip_c(b';')?;
                }
                "wait_timeout" => decl.wait_timeout = self.duration_field()?,
                "proxy_header" => decl.proxy_header = self.proxy_header()?,
                "probe" => decl.probe = self.probe_field()?,
                "preamble" => decl.preamble = Some(self.preamble()?),
                "proto" => proto = Some(self.proto()?),
                "via" => via.backend = Some((self.via_field()?, token)),
                "authority" => via.authority = Some(self.text_field()?),
                _ => self.tls_field(field, token, &mut tls)?,
            }
        }
        if host.is_none() && path.is_none() {
            return self.fail_at(DiagnosticCode::Field, "Expected .host or .path.\n", name_token);
        }
        decl.tls = self.tls_decl(tls, path.is_some())?;
        decl.proto = self.checked_proto(proto, &decl)?;
        let default_port = if decl.tls.is_some() { TLS_PORT } else { PORT };
        decl.address = match (host, path) {
            (None, None) => BackendAddress::None,
            (Some(host), _) => self.inet_address(&host, port.as_ref(), default_port)?,
            (None, Some(path)) => self.unix_address(&path)?,
        };
        self.via(&via, host.as_ref(), &mut decl)?;
        self.next();
        Ok(decl)
    }

    fn path_field(&mut self) -> VccResult<Token> {
        if self.syntax < 41 {
            let shown = self.token_name(&self.token());
            return self.fail(
                DiagnosticCode::Version,
                &format!("Unix socket backends only supported in VCL4.1 and higher.\n{shown} at "),
            );
        }
        self.text_field()
    }

    fn proxy_header(&mut self) -> VccResult<u8> {
        let value = self.token();
        let version = self.unsigned()?;
        if !matches!(version, 1 | 2) {
            return self.fail_at(DiagnosticCode::Field, ".proxy_header must be 1 or 2\n", &value);
        }
        self.skip_c(b';')?;
        Ok(version as u8)
    }

    fn proto(&mut self) -> VccResult<(OriginProto, Token)> {
        let value = self.text_field()?;
        match OriginProto::of(&self.content_text(&value)) {
            Some(proto) => Ok((proto, value)),
            None => self.fail_at(DiagnosticCode::Field, ".proto must be \"http/1.1\", \"h2\" or \"auto\"\n", &value),
        }
    }

    fn checked_proto(&mut self, given: Option<(OriginProto, Token)>, decl: &BackendDecl) -> VccResult<OriginProto> {
        match given {
            // A TLS client can negotiate the protocol (ALPN). A connection that many requests share can't begin with
            // the PROXY header of one client.
            None if decl.tls.is_some() && decl.proxy_header == 0 => Ok(OriginProto::Auto),
            None => Ok(OriginProto::Http1),
            Some((OriginProto::Auto, token)) if decl.tls.is_none() => {
                self.fail_at(DiagnosticCode::Field, ".proto = \"auto\" can not be used without .ssl enabled\n", &token)
            }
            Some((OriginProto::Http2 | OriginProto::Auto, token)) if decl.proxy_header != 0 => self.fail_at(
                DiagnosticCode::Field,
                ".proto = \"h2\" and \"auto\" can not be used with .proxy_header\n",
                &token,
            ),
            Some((proto, _)) => Ok(proto),
        }
    }

    fn preamble(&mut self) -> VccResult<Box<[u8]>> {
        self.expect(Tok::Blob)?;
        let index = self.token().num as usize;
        self.next();
        self.skip_c(b';')?;
        Ok(self.pool.blob(index).into())
    }

    fn probe_field(&mut self) -> VccResult<Option<u32>> {
        match self.tok() {
            Tok::C(b'{') => {
                let decl = self.probe_spec("")?;
                Ok(Some(self.add_probe(decl)))
            }
            Tok::Id if self.here_is("default") => {
                self.next();
                if self.program.default_probe.is_none() {
                    return self.no_default_probe();
                }
                self.skip_c(b';')?;
                Ok(self.program.default_probe)
            }
            Tok::Id => {
                let first = self.at;
                let id = self.symbol(SymbolKind::Probe, LookupScope::Whole)?;
                self.refer(id, first);
                self.skip_c(b';')?;
                match self.syms.get(id).what {
                    SymbolMeaning::Global(Some(index)) => Ok(Some(index)),
                    _ => self.fail_at(
                        DiagnosticCode::Undeclared,
                        "Probe is not yet defined\n",
                        &self.tokens[first].to_owned(),
                    ),
                }
            }
            _ => {
                let found = self.token_name(&self.token());
                self.fail(DiagnosticCode::Field, &format!("Expected '{{' or name of probe, got {found} at\n"))
            }
        }
    }

    fn inet_address(&mut self, host: &Token, port: Option<&Token>, default_port: u16) -> VccResult<BackendAddress> {
        let mut text = self.content(host).to_vec();
        let port = port.map(|p| self.content_text(p));
        if let Some(port) = &port {
            text.push(b' ');
            text.extend_from_slice(port.as_bytes());
        }
        let name = self.host_name(&String::from_utf8_lossy(&text), default_port);
        if self.options.lazy_hosts
            && let Some(name) = name
        {
            return Ok(self.lazy_address(name, host, port));
        }
        let resolved = self.resolve(&text, host, "Backend host", 2, default_port);
        if resolved.is_err() && name.is_some() {
            self.hint("With the parameter backend_dns_lazy the name may have any number of addresses, or none yet.");
        }
        let resolved = resolved?;
        let host = self.content_text(host);
        Ok(BackendAddress::Inet { host, port, v4: resolved.v4, v6: resolved.v6, name })
    }

    /// Returns an address that is resolved at run time; the name may have any number of addresses.
    fn lazy_address(&mut self, name: HostName, token: &Token, port: Option<String>) -> BackendAddress {
        if name.found.is_empty() {
            let shown = self.text_of(token);
            self.begin(
                DiagnosticCode::Address,
                &format!("Backend host {shown} has no address now; fetches from it fail until a lookup finds one.\n"),
            );
            self.show(token);
            self.warn();
        }
        let first = |v4: bool| name.found.iter().find(|addr| addr.is_ipv4() == v4).copied();
        BackendAddress::Inet {
            host: self.content_text(token),
            port,
            v4: first(true),
            v6: first(false),
            name: Some(name),
        }
    }

    fn unix_address(&mut self, token: &Token) -> VccResult<BackendAddress> {
        let path = self.content_text(token);
        let fault = match path.as_str() {
            "@" => Some("The empty abstract socket name is not supported"),
            path if path.len() >= SOCKET_PATH_MAX => Some("Path too long for a Unix domain socket"),
            _ => None,
        };
        if let Some(fault) = fault {
            return self.fail_at(DiagnosticCode::Address, &format!("Backend path: {fault}\n"), token);
        }
        if path.starts_with('@') {
            return Ok(BackendAddress::Unix(path.into()));
        }
        if !path.starts_with('/') {
            let must_be = self.wording("an absolute path", "a valid path or abstract socket");
            return self.fail_at(DiagnosticCode::Address, &format!("Backend path: Must be {must_be}:\n"), token);
        }
        match self.outside.is_socket(&path) {
            Ok(true) => {}
            Ok(false) => return self.fail_at(DiagnosticCode::Address, "Backend path: Not a socket:\n", token),
            Err(reason) => {
                self.begin(DiagnosticCode::Address, &format!("Backend path: Cannot stat: {reason}\n"));
                self.show(token);
                if !(reason.starts_with("No such file") || reason.starts_with("Permission denied")) {
                    return Err(crate::vcc::CompileStopped);
                }
                self.warn();
            }
        }
        Ok(BackendAddress::Unix(path.into()))
    }
}
