// SPDX-License-Identifier: BSD-2-Clause
//! vmod_goto: backends by names; what names have, and how they are looked up, is dynamic's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use backend::{BackendSpec, Endpoint};
use parking_lot::Mutex;
use tables::Tag;
use vrt::vmod::{Call, CallResult, Class, Vmod};
use vrt::{Failure, Method, Value};

use crate::args::{Args, fail, give};
use crate::dynamic::{Dynamic, Family, Plan, probe, serve};

/// Kinds of backends that one place in the source makes: whoever computes their arguments is bounded by this.
const MOST: usize = 100;
/// Names that nobody asked for so long go.
const UNUSED_SECONDS: f64 = 7200.0;
/// How long the first lookup of a name may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// vmod_goto
pub(crate) static VMOD: Vmod = Vmod {
    name: "goto",
    functions: &[("dns_backend", dns_backend)],
    classes: &[Class {
        name: "dns_director",
        new: |call, name, args| {
            let (host, port) = place(args, "dns_director")?;
            let plan = plan(call, name, "dns_director", args)?;
            let dynamic = Arc::new(Dynamic::new(call, name, plan));
            Ok(Arc::new(Director { dynamic, host, port }))
        },
        methods: &[("backend", |call, object, _| {
            let director: Arc<Director> = object.clone().downcast().expect("made by this class");
            serve(&director.dynamic, call, &director.host, director.port.clone())
        })],
    }],
};

/// What `new` makes.
struct Director {
    dynamic: Arc<Dynamic>,
    host: String,
    port: String,
}

/// What one place in the source has made, by all arguments but the name.
#[derive(Default)]
struct Made(Mutex<HashMap<String, Arc<Dynamic>>>);

fn dns_backend(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    if !matches!(call.method, Method::BackendFetch | Method::BackendResponse | Method::BackendError) {
        call.ctx.log().put(Tag::VclError, b"goto.dns_backend(): only on the backend side");
        return give(Value::Backend(None));
    }
    let (host, port) = place(args, "dns_backend")?;
    let made = call.site.get_or(Made::default);
    let kind = format!("{:?}", &args[2..]);
    let known = made.0.lock().get(&kind).cloned();
    let dynamic = match known {
        Some(dynamic) => dynamic,
        None => {
            let plan = plan(call, "goto", "dns_backend", args)?;
            let dynamic = Arc::new(Dynamic::new(call, "goto", plan));
            let mut made = made.0.lock();
            if made.len() >= MOST {
                return fail(format!("goto.dns_backend(): more than {MOST} kinds of backends"));
            }
            made.entry(kind).or_insert(dynamic).clone()
        }
    };
    serve(&dynamic, call, &host, port)
}

/// Host and port of the first two arguments.
fn place(args: &[Value], who: &str) -> Result<(String, String), Failure> {
    let args = Args(args);
    let text = String::from_utf8_lossy(args.bytes_of(0)).into_owned();
    let given = args.text(1).map(|port| port.lossy().into_owned()).filter(|port| !port.is_empty());
    let no_tls = || format!("goto.{who}(): https isn't built into Lacquer: a TLS proxy must stand before the backend");
    if args.bool(12) || text.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://")) {
        return fail(no_tls());
    }
    split(&text).map(|(host, port)| (host, port.or(given).unwrap_or_else(|| "80".to_owned()))).ok_or_else(|| {
        Failure::new(format!(
            "goto.{who}(): \"{}\" is neither HOST, HOST:PORT nor http://HOST:PORT/",
            text.escape_debug()
        ))
    })
}

/// Host and port out of HOST, HOST:PORT and http://HOST:PORT/.
pub(crate) fn split(text: &str) -> Option<(String, Option<String>)> {
    let has_scheme = text.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://"));
    let text = if has_scheme { &text[7..] } else { text };
    let text = if has_scheme { text.split(['/', '?']).next().unwrap_or_default() } else { text };
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

fn plan(call: &mut Call<'_>, name: &str, who: &str, args: &[Value]) -> Result<Plan, Failure> {
    let args = Args(args);
    let refused = |what: &str| fail(format!("goto.{who}(): {what}"));
    let limit = |at: usize| Duration::try_from_secs_f64(args.real(at)).unwrap_or(Duration::ZERO);
    let Ok(max_connections) = u32::try_from(args.int(10)) else {
        return refused("max_connections must not be negative");
    };
    let Ok(proxy_header @ 0..=2) = u8::try_from(args.int(11)) else { return refused("proxy_header must be 0, 1 or 2") };
    let spec = BackendSpec {
        hosthdr: args.text(2).map(|host| host.lossy().into_owned()),
        connect_timeout: limit(7),
        first_byte_timeout: limit(8),
        between_bytes_timeout: limit(9),
        max_connections,
        proxy_header,
        probe: probe(call, &args.0[3]),
        ..BackendSpec::new(name, Endpoint::default())
    };
    Ok(Plan {
        module: "goto",
        port: "80".to_owned(),
        spec,
        // Each name has its own Host.
        shares_hosts: false,
        whitelist: None,
        family: match args.word(4) {
            "ipv4" => Family::V4,
            "ipv6" => Family::V6,
            _ => Family::Any,
        },
        ttl: args.real(5).max(0.0),
        unused_for: UNUSED_SECONDS,
        patience: PATIENCE,
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
            ("[::1]:80", "::1 80"),
            ("[::1]", "::1 "),
            ("::1", "::1 "),
        ] {
            assert_eq!(show(text).as_deref(), Some(wanted), "{text}");
        }
        for text in ["", ":80", "a:", "a:b", "a:99999", "a/b", "a b", "http://", "[::1", "[::1]80", "u@h", "x\r\n"] {
            assert_eq!(show(text), None, "{text:?}");
        }
    }
}
