// SPDX-License-Identifier: BSD-2-Clause
//! vmod_goto: backends by names; what names have, and how they are looked up, is dynamic's.

use std::sync::Arc;
use std::time::Duration;

use backend::{BackendLimits, BackendSpec, Endpoint};
use parking_lot::Mutex;
use tables::Tag;
use tls::origin::{OwnCertificate, TlsOrigin};
use tls::verify::Verify;
use vrt::vmod::{BACKEND, CallResult, VmodCall, give};
use vrt::{BackendRef, Method, Text, VclFailure};

use crate::dynamic::{AddressFamily, Dynamic, DynamicPlan, probe, serve};
use vmod_support::args::fail;
use vmod_support::bounded::{BoundedMap, Worth};

/// Kinds of backends that one place in the source makes: whoever computes their arguments is bounded by this.
const MAX: usize = 100;
/// Names that nobody asked for so long go.
const UNUSED_SECONDS: f64 = 7200.0;
const TIMEOUT: Duration = Duration::from_secs(10);

vrt::words! {
    enum IpVersion { System = "system", Ipv4 = "ipv4", Ipv6 = "ipv6" }
}

vrt::words! {
    enum TtlRule { Force = "force" }
}

vrt::vmod_args! {
    struct GotoPlace<'a> {
        s: STRING as &'a [u8],
        port: STRING as Option<&'a Text> = null,
        host_header: STRING as Option<&'a Text> = null,
        probe: PROBE as Option<u32> = null,
        ip_version: IpVersion as IpVersion = System,
        ttl: DURATION as f64 = 10.0,
        ttl_rule: TtlRule as TtlRule = Force,
        connect_timeout: DURATION as Duration = 0.0,
        first_byte_timeout: DURATION as Duration = 0.0,
        between_bytes_timeout: DURATION as Duration = 0.0,
        max_connections: INT as i64 = 0,
        proxy_header: INT as i64 = 0,
        ssl: BOOL as bool = false,
        ssl_sni: BOOL as bool = true,
        ssl_verify_peer: BOOL as bool = true,
        ssl_verify_host: BOOL as bool = true,
        certificate: STRING as &'a [u8] = "",
    }
}

vrt::vmod! {
    /// Backends by names that are only known at run time: HOST, HOST:PORT or http[s]://HOST:PORT/. The default port is that
    /// of the argument port, or else 80, or 443 with https:// or ssl. With https the certificate must be from an authority
    /// that the system trusts, unless ssl_verify_peer is false, and for host_header or the name, unless ssl_verify_host is
    /// false; certificate is a file with a client certificate and its key. The system's resolver is used, again every ttl
    /// for names used within two hours. SRV records and the DNS's own TTL aren't supported
    pub(crate) static VMOD = goto;

    needs { Authorities }

    functions {
        /// Returns the director of a name. The first call waits for the lookup. Each call in the source keeps up to 1000
        /// names
        fn dns_backend(..GotoPlace<'_>) -> BACKEND, waits, only(Method::BackendFetch.set().with(Method::BackendResponse.set()).with(Method::BackendError.set())) = dns_backend;
    }

    /// A director that uses the addresses of a name in turn. A failed lookup keeps the known addresses
    object dns_director(..GotoPlace<'_>) -> Director = new, methods {
        /// Returns the director. The first call waits for the lookup
        fn backend() -> BACKEND, waits = backend;
    }
}

fn new(call: &mut VmodCall<'_>, name: &str, to: GotoPlace<'_>) -> Result<Director, VclFailure> {
    let (host, port) = place(&to, "dns_director")?;
    let plan = plan(call, name, "dns_director", &to)?;
    let dynamic = Arc::new(Dynamic::new(call, name, plan));
    Ok(Director { dynamic, host, port })
}

fn backend(director: &Director, call: &mut VmodCall<'_>) -> CallResult<BACKEND> {
    serve(&director.dynamic, call, &director.host, director.port.clone())
}

struct Director {
    dynamic: Arc<Dynamic>,
    host: String,
    port: String,
}

/// Backends that one place in the source has made, by all arguments but the name.
#[derive(Default)]
struct DirectorCache(Mutex<BoundedMap<String, Arc<Dynamic>>>);

fn dns_backend(call: &mut VmodCall<'_>, to: GotoPlace<'_>) -> CallResult<BACKEND> {
    if !matches!(call.method, Method::BackendFetch | Method::BackendResponse | Method::BackendError) {
        call.ctx.log().put(Tag::VclError, b"goto.dns_backend(): only on the backend side");
        return give(None::<BackendRef>);
    }
    let (host, port) = place(&to, "dns_backend")?;
    let made = call.site.get_or(DirectorCache::default);
    let kind = format!("{:?}", GotoPlace { s: b"", port: None, ssl: is_sealed(&to), ..to.clone() });
    let known = made.0.lock().get(&kind).cloned();
    let dynamic = match known {
        Some(dynamic) => dynamic,
        None => {
            let plan = plan(call, "goto", "dns_backend", &to)?;
            let dynamic = Arc::new(Dynamic::new(call, "goto", plan));
            let mut made = made.0.lock();
            if !made.contains_key(&kind) {
                // Requests that use it keep it.
                made.make_room(MAX, |_| Worth::Some(0.0));
            }
            made.insert(kind, dynamic).clone()
        }
    };
    serve(&dynamic, call, &host, port)
}

fn place(to: &GotoPlace<'_>, who: &str) -> Result<(String, String), VclFailure> {
    let text = String::from_utf8_lossy(to.s).into_owned();
    let given = to.port.map(|port| port.lossy().into_owned()).filter(|port| !port.is_empty());
    let usual = if is_sealed(to) { "443" } else { "80" };
    split(&text).map(|(host, port)| (host, port.or(given).unwrap_or_else(|| usual.to_owned()))).ok_or_else(|| {
        VclFailure::new(format!(
            "goto.{who}(): \"{}\" is neither HOST, HOST:PORT nor http[s]://HOST:PORT/",
            text.escape_debug()
        ))
    })
}

fn is_sealed(to: &GotoPlace<'_>) -> bool {
    to.ssl || is_https(&String::from_utf8_lossy(to.s))
}

pub(crate) fn is_https(text: &str) -> bool {
    text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"))
}

/// Host and port out of HOST, HOST:PORT, http://HOST:PORT/ and https://HOST:PORT/.
pub(crate) fn split(text: &str) -> Option<(String, Option<String>)> {
    let has_scheme = text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let rest = if has_scheme {
        Some(&text[7..])
    } else if is_https(text) {
        Some(&text[8..])
    } else {
        None
    };
    let text = rest.map_or(text, |rest| rest.split(['/', '?']).next().unwrap_or_default());
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
        }
        None => match text.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, Some(port)),
            // An IPv6 address without brackets.
            Some(_) => (text, None),
            None => (text, None),
        },
    };
    let is_port =
        |port: &str| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_host =
        !host.is_empty() && !host.contains(|c: char| c.is_whitespace() || c.is_control() || "/?#@".contains(c));
    (is_host && port.is_none_or(is_port)).then(|| (host.to_owned(), port.map(str::to_owned)))
}

fn plan(call: &mut VmodCall<'_>, name: &str, who: &str, to: &GotoPlace<'_>) -> Result<DynamicPlan, VclFailure> {
    let refused = |what: &str| fail(format!("goto.{who}(): {what}"));
    let Ok(max_connections) = u32::try_from(to.max_connections) else {
        return refused("max_connections must not be negative");
    };
    let Ok(proxy_header @ 0..=2) = u8::try_from(to.proxy_header) else {
        return refused("proxy_header must be 0, 1 or 2");
    };
    let verify = Verify::of(to.ssl_verify_peer, to.ssl_verify_host);
    let tls = match (is_sealed(to), to.certificate) {
        (false, _) => None,
        (true, certificate) => {
            let host_header = to.host_header.map(|host| host.lossy().into_owned());
            let origin = TlsOrigin {
                verify,
                sni: to.ssl_sni,
                ..TlsOrigin::of(vrt::host_alone(&host_header.unwrap_or_default()))
            };
            let own =
                if certificate.is_empty() { None } else { Some(String::from_utf8_lossy(certificate).into_owned()) };
            let own = own.map(|path| OwnCertificate::read(path.as_ref())).transpose();
            Some(own.map(|certificate| TlsOrigin { certificate, ..origin }))
        }
    };
    if let Some(Err(reason)) = &tls {
        return refused(reason);
    }
    let spec = BackendSpec {
        hosthdr: to.host_header.map(|host| host.lossy().into_owned()),
        limits: BackendLimits {
            connect: to.connect_timeout,
            first_byte: to.first_byte_timeout,
            between_bytes: to.between_bytes_timeout,
        },
        max_connections,
        proxy_header,
        probe: probe(call, to.probe),
        ..BackendSpec::new(name, Endpoint { tls, ..Endpoint::default() })
    };
    Ok(DynamicPlan {
        module: "goto",
        port: "80".to_owned(),
        spec,
        // Each name has its own Host.
        shares_hosts: false,
        whitelist: None,
        family: match to.ip_version {
            IpVersion::Ipv4 => AddressFamily::V4,
            IpVersion::Ipv6 => AddressFamily::V6,
            IpVersion::System => AddressFamily::Any,
        },
        ttl: to.ttl.max(0.0),
        unused_for: UNUSED_SECONDS,
        timeout: TIMEOUT,
        keeps_last: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let show = |text: &str| split(text).map(|(host, port)| format!("{host} {}", port.unwrap_or_default()));
        for (text, wanted) in [
            ("a.example", "a.example "),
            ("a.example:81", "a.example 81"),
            ("HTTP://a.example:81/b?c", "a.example 81"),
            ("http://a.example", "a.example "),
            ("https://a.example/", "a.example "),
            ("HTTPS://a.example:8443/b", "a.example 8443"),
            ("[::1]:80", "::1 80"),
            ("[::1]", "::1 "),
            ("::1", "::1 "),
        ] {
            assert_eq!(show(text).as_deref(), Some(wanted), "{text}");
        }
        for text in [
            "",
            ":80",
            "a:",
            "a:b",
            "a:99999",
            "a/b",
            "a b",
            "http://",
            "https://",
            "https:///a",
            "[::1",
            "[::1]80",
            "u@h",
            "x\r\n",
        ] {
            assert_eq!(show(text), None, "{text:?}");
        }
    }
}
