// SPDX-License-Identifier: BSD-2-Clause
//! vmod_s3 of Varnish Enterprise: a bucket as a backend, and requests signed by AWS Signature Version 4 (or Google's form of
//! it). What names have, and how they are looked up, is dynamic's. A director's requests are signed when they are sent, after
//! vcl_backend_fetch; the body's hash is part of it when std.cache_req_body keeps the body, else it is UNSIGNED-PAYLOAD. Not built: IAM
//! roles, and TLS: an https endpoint, or one with port 443, is refused.

mod sign;

use std::sync::Arc;
use std::time::Duration;

use backend::{Amend, AmendRef, BackendSpec, Endpoint, Outgoing, OutgoingBody};
use parking_lot::Mutex;
use tables::Tag;
use vrt::regex::Regex;
use vrt::vmod::{Call, CallResult, Class, Object, Vmod};
use vrt::{Failure, HeadId, Method, Value};

use self::sign::{Key, Payload, Provider, Scope};
use crate::args::{Args, fail, give};
use crate::dynamic::{Dynamic, Family, Plan, serve};

/// Names that nobody asked for so long go.
const UNUSED_SECONDS: f64 = 7200.0;
/// How often names are looked up again, in seconds.
const TTL: f64 = 10.0;
/// How long the first lookup of a name may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// vmod_s3
pub(crate) static VMOD: Vmod = Vmod {
    name: "s3",
    functions: &[],
    classes: &[
        Class {
            name: "director",
            new: new_director,
            methods: &[
                ("backend", |call, object, _| {
                    let director: Arc<Director> = object.clone().downcast().expect("made by this class");
                    serve(&director.dynamic, call, &director.host, director.port.clone())
                }),
                ("set_access_key", |_, object, args| set_key(&signer(object), args)),
                ("set_service", |call, object, args| set_text(call, &signer(object), args, "service")),
                ("set_provider", |call, object, args| set_provider(call, &signer(object), args)),
                ("set_signed_headers", |call, object, args| set_signed_headers(call, &signer(object), args)),
            ],
        },
        Class {
            name: "signer",
            new: |_, _, _| Ok(Arc::new(Signer { host: None, settings: Mutex::default() })),
            methods: &[
                ("set_access_key", |_, object, args| set_key(&signer(object), args)),
                ("set_region", |call, object, args| set_text(call, &signer(object), args, "region")),
                ("set_service", |call, object, args| set_text(call, &signer(object), args, "service")),
                ("set_provider", |call, object, args| set_provider(call, &signer(object), args)),
                ("set_signed_headers", |call, object, args| set_signed_headers(call, &signer(object), args)),
                ("sign", sign_bereq),
            ],
        },
    ],
};

struct Director {
    dynamic: Arc<Dynamic>,
    host: String,
    port: String,
    signer: Arc<Signer>,
}

/// Signs requests; a director's gives them their Host, too, and lets them be while there is no key.
struct Signer {
    host: Option<String>,
    settings: Mutex<Settings>,
}

#[derive(Clone)]
struct Settings {
    key: Option<Arc<Key>>,
    region: String,
    service: String,
    provider: Provider,
    also: Option<Arc<Regex>>,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { key: None, region: String::new(), service: "s3".to_owned(), provider: Provider::Aws, also: None }
    }
}

fn signer(object: &Object) -> Arc<Signer> {
    match object.clone().downcast::<Director>() {
        Ok(director) => director.signer.clone(),
        Err(object) => object.downcast().expect("made by one of the classes"),
    }
}

fn new_director(call: &mut Call<'_>, name: &str, args: &[Value]) -> Result<Object, Failure> {
    let (bucket, region) = (Args(args).bytes_of(0), name_of(Args(args).bytes_of(1)));
    let endpoint = String::from_utf8_lossy(Args(args).bytes_of(2)).into_owned();
    let refused = |what: String| fail(format!("s3: {name}: {what}"));
    let Some(region) = region.filter(|_| !bucket.is_empty()) else {
        return refused("a director has a bucket and a region".to_owned());
    };
    let has_tls = endpoint.get(..8).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https://"));
    let split = crate::goto::split(&endpoint);
    if has_tls || split.as_ref().is_some_and(|(_, port)| port.as_deref() == Some("443")) {
        return refused("https isn't built into Lacquer: a TLS proxy must stand before the endpoint".to_owned());
    }
    let Some((host, port)) = split else {
        return refused(format!("\"{}\" is neither HOST, HOST:PORT nor http://HOST:PORT", endpoint.escape_debug()));
    };
    let port = port.unwrap_or_else(|| "80".to_owned());
    let authority = match (host.contains(':'), port.as_str()) {
        (false, "80") => host.clone(),
        (false, port) => format!("{host}:{port}"),
        (true, "80") => format!("[{host}]"),
        (true, port) => format!("[{host}]:{port}"),
    };
    let settings = Settings { region, ..Settings::default() };
    let signer = Arc::new(Signer { host: Some(authority.clone()), settings: Mutex::new(settings) });
    let spec = BackendSpec {
        hosthdr: Some(authority),
        amend: Some(AmendRef(signer.clone())),
        ..BackendSpec::new(name, Endpoint::default())
    };
    let plan = Plan {
        module: "s3",
        port: "80".to_owned(),
        spec,
        shares_hosts: false,
        whitelist: None,
        family: Family::Any,
        ttl: TTL,
        unused_for: UNUSED_SECONDS,
        patience: PATIENCE,
        keeps_last: true,
    };
    let dynamic = Arc::new(Dynamic::new(call, name, plan));
    Ok(Arc::new(Director { dynamic, host, port, signer }))
}

/// A region or service: part of what is signed.
fn name_of(text: &[u8]) -> Option<String> {
    let is_one =
        !text.is_empty() && text.len() <= 64 && text.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b));
    is_one.then(|| String::from_utf8_lossy(text).into_owned())
}

fn only_init(call: &Call<'_>, who: &str) -> Result<(), Failure> {
    match call.method {
        Method::Init => Ok(()),
        _ => fail(format!("s3: {who}() is for vcl_init")),
    }
}

fn set_key(signer: &Signer, args: &[Value]) -> CallResult {
    let (secret, id) = (Args(args).bytes_of(0).to_vec(), Args(args).bytes_of(1));
    let is_id = !id.is_empty() && id.len() <= 256 && id.iter().all(|b| b.is_ascii_graphic() && !b"/,".contains(b));
    if secret.is_empty() || !is_id {
        return fail("s3: set_access_key() wants a key and a key_id");
    }
    let key = Key { secret, id: String::from_utf8_lossy(id).into_owned() };
    signer.settings.lock().key = Some(Arc::new(key));
    give(Value::Void)
}

fn set_text(call: &Call<'_>, signer: &Signer, args: &[Value], what: &str) -> CallResult {
    only_init(call, &format!("set_{what}"))?;
    let Some(text) = name_of(Args(args).bytes_of(0)) else { return fail(format!("s3: that is no {what}")) };
    let mut settings = signer.settings.lock();
    match what {
        "region" => settings.region = text,
        _ => settings.service = text,
    }
    give(Value::Void)
}

fn set_provider(call: &Call<'_>, signer: &Signer, args: &[Value]) -> CallResult {
    only_init(call, "set_provider")?;
    signer.settings.lock().provider = match Args(args).word(0) {
        "gcp" => Provider::Gcp,
        _ => Provider::Aws,
    };
    give(Value::Void)
}

fn set_signed_headers(call: &Call<'_>, signer: &Signer, args: &[Value]) -> CallResult {
    only_init(call, "set_signed_headers")?;
    let pattern = [b"(?i)", Args(args).bytes_of(0)].concat();
    let regex = crate::pattern::compile(call, "s3: set_signed_headers()", &pattern)?;
    signer.settings.lock().also = Some(regex);
    give(Value::Void)
}

fn sign_bereq(call: &mut Call<'_>, object: &Object, _: &[Value]) -> CallResult {
    if call.method != Method::BackendFetch {
        return fail("s3: sign() is for vcl_backend_fetch");
    }
    let mut kept = Vec::new();
    let is_kept = call.ctx.kept_body(&mut |piece| kept.extend_from_slice(piece));
    let now = call.ctx.clock().real();
    let signed = match call.ctx.head(HeadId::Bereq) {
        None => Err("there is no bereq".to_owned()),
        Some(head) => {
            let streams = head.get("Content-Length").is_some() || head.get("Transfer-Encoding").is_some();
            let body = match (is_kept, streams) {
                (true, _) => OutgoingBody::Kept(vec![&kept]),
                (false, true) => OutgoingBody::Streams,
                (false, false) => OutgoingBody::None,
            };
            let fields = head.iter().map(|field| (field.name(), field.value())).collect();
            let request = Outgoing { method: head.method(), url: head.url(), fields, body, now };
            signer(object).signed(&request).and_then(|fields| fields.ok_or_else(|| "there is no key".to_owned()))
        }
    };
    let fields = match signed {
        Ok(fields) => fields,
        Err(why) => {
            call.ctx.log().putf(Tag::VclError, format_args!("s3: sign(): {why}"));
            return give(Value::Bool(false));
        }
    };
    for (name, value) in fields {
        vrt::fields::set_field(call.ctx, HeadId::Bereq, name.as_bytes(), value.as_bytes())?;
    }
    give(Value::Bool(true))
}

impl Signer {
    /// The fields of a signature; `None` without a key.
    fn signed(&self, request: &Outgoing<'_>) -> Result<Option<Vec<(String, String)>>, String> {
        let settings = self.settings.lock().clone();
        let Some(key) = settings.key else { return Ok(None) };
        if settings.region.is_empty() {
            return Err("there is no region".to_owned());
        }
        let payload = match &request.body {
            OutgoingBody::None => Payload::of(&[]),
            OutgoingBody::Kept(pieces) => Payload::of(pieces),
            OutgoingBody::Streams => Payload::Unsigned,
        };
        let scope = Scope { region: &settings.region, service: &settings.service, provider: settings.provider };
        let also = |name: &[u8]| settings.also.as_ref().is_some_and(|regex| regex.is_match(name).unwrap_or(false));
        sign::fields(request, &key, &scope, &payload, &also).map(Some)
    }
}

impl Amend for Signer {
    fn fields(&self, request: &Outgoing<'_>) -> Result<Vec<(String, String)>, String> {
        let Some(host) = &self.host else { return Ok(Vec::new()) };
        let others = request.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"host")).copied();
        let body = match &request.body {
            OutgoingBody::None => OutgoingBody::None,
            OutgoingBody::Streams => OutgoingBody::Streams,
            OutgoingBody::Kept(pieces) => OutgoingBody::Kept(pieces.clone()),
        };
        let request = Outgoing {
            fields: others.chain([(&b"host"[..], host.as_bytes())]).collect(),
            body,
            method: request.method,
            url: request.url,
            now: request.now,
        };
        let mut fields = vec![("Host".to_owned(), host.clone())];
        fields.extend(self.signed(&request).map_err(|why| format!("s3: {why}"))?.unwrap_or_default());
        Ok(fields)
    }
}
