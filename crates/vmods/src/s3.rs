// SPDX-License-Identifier: BSD-2-Clause
//! vmod_s3 of Varnish Enterprise: a bucket as a backend, and requests signed by AWS Signature Version 4 (or Google's form of
//! it). What names have, and how they are looked up, is dynamic's. A director's requests are signed when they are sent, after
//! vcl_backend_fetch; the body's hash is part of it when std.cache_req_body keeps the body, else it is UNSIGNED-PAYLOAD. Not built: IAM
//! roles.

use std::sync::Arc;
use std::time::Duration;

use backend::{BackendSpec, Endpoint, OutgoingBody, OutgoingRequest, RequestSigner, RequestSignerRef};
use parking_lot::Mutex;
use tables::Tag;
use tls::origin::TlsOrigin;
use vcl_regex::Regex;
use vrt::vmod::EnumWords;
use vrt::vmod::{BACKEND, BOOL, CallResult, VOID, VmodCall, give};
use vrt::{HeadId, Method, VclFailure};

use crate::dynamic::{AddressFamily, Dynamic, DynamicPlan, serve};
use vmod_support::args::fail;
use vmod_support::sign::{self, AccessKey, Payload, Provider, SigningScope};

/// Names that nobody asked for so long go.
const UNUSED_SECONDS: f64 = 7200.0;
const TTL: f64 = 10.0;
const TIMEOUT: Duration = Duration::from_secs(10);

vrt::words! {
    enum DirectorProvider { Aws = "aws", Gcp = "gcp" }
}

vrt::vmod! {
    /// Buckets as backends, and requests signed with AWS Signature Version 4. The signature covers the hash of the body if
    /// std.cache_req_body has cached it
    pub(crate) static VMOD = s3;

    needs { Authorities }

    /// A director for the addresses of HOST, HOST:PORT or http[s]://HOST:PORT, which is also the Host of its requests. It
    /// uses TLS with https:// or port 443; the certificate must be for the name and from an authority that the system
    /// trusts. With a key, requests are signed as they are after vcl_backend_fetch
    object director(bucket: STRING, region: STRING, endpoint: STRING) -> Director = new_director, methods {
        /// Returns the director. The first call waits for the lookup
        fn backend() -> BACKEND, waits = backend;

        /// Sets the access key and its secret for later requests
        fn set_access_key(key: STRING, key_id: STRING) -> VOID
            = |this: &Director, _, key: &[u8], key_id: &[u8]| set_key(&this.signer, key, key_id);

        /// Sets the service of the signature (default s3)
        fn set_service(service: STRING) -> VOID, only(Method::Init.set())
            = |this: &Director, call: &mut VmodCall<'_>, service: &[u8]| set_text(call, &this.signer, service, "service");

        /// Selects the signature format: Amazon's or Google's
        fn set_provider(provider: DirectorProvider) -> VOID, only(Method::Init.set()) = director_set_provider;

        /// Sets further headers to sign, in addition to Host and x-amz-; their names ignore case
        fn set_signed_headers(regex: STRING) -> VOID, only(Method::Init.set())
            = |this: &Director, call: &mut VmodCall<'_>, regex: &[u8]| set_signed_headers(call, &this.signer, regex);
    }

    /// Signs requests to any backend
    object signer(
    ) -> Arc<Signer> = |_, _: &str| Ok(Arc::new(Signer { host: None, settings: Mutex::default() })), methods {
        /// Sets the access key and its secret for later requests
        fn set_access_key(key: STRING, key_id: STRING) -> VOID
            = |this: &Arc<Signer>, _, key: &[u8], key_id: &[u8]| set_key(this, key, key_id);

        /// Sets the region of the signature
        fn set_region(region: STRING) -> VOID, only(Method::Init.set())
            = |this: &Arc<Signer>, call: &mut VmodCall<'_>, region: &[u8]| set_text(call, this, region, "region");

        /// Sets the service of the signature (default s3)
        fn set_service(service: STRING) -> VOID, only(Method::Init.set())
            = |this: &Arc<Signer>, call: &mut VmodCall<'_>, service: &[u8]| set_text(call, this, service, "service");

        /// Selects the signature format: Amazon's or Google's
        fn set_provider(provider: DirectorProvider) -> VOID, only(Method::Init.set()) = signer_set_provider;

        /// Sets further headers to sign, in addition to Host and x-amz-; their names ignore case
        fn set_signed_headers(regex: STRING) -> VOID, only(Method::Init.set())
            = |this: &Arc<Signer>, call: &mut VmodCall<'_>, regex: &[u8]| set_signed_headers(call, this, regex);

        /// Signs bereq as it is now. Without a key, a region or a Host it returns false and logs a VCL_Error
        fn sign() -> BOOL, local, only(Method::BackendFetch.set()) = sign_bereq;
    }

    left_out {
        "s3.director.set_iam_role" => "set_access_key, with keys that are had elsewhere";
        "s3.signer.set_iam_role" => "set_access_key, with keys that are had elsewhere";
    }
}

fn backend(this: &Director, call: &mut VmodCall<'_>) -> CallResult<BACKEND> {
    serve(&this.dynamic, call, &this.host, this.port.clone())
}

fn director_set_provider(this: &Director, call: &mut VmodCall<'_>, provider: DirectorProvider) -> CallResult<VOID> {
    set_provider(call, &this.signer, provider.word())
}

fn signer_set_provider(this: &Arc<Signer>, call: &mut VmodCall<'_>, provider: DirectorProvider) -> CallResult<VOID> {
    set_provider(call, this, provider.word())
}

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
    key: Option<Arc<AccessKey>>,
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

fn new_director(
    call: &mut VmodCall<'_>,
    name: &str,
    bucket: &[u8],
    region: &[u8],
    endpoint: &[u8],
) -> Result<Director, VclFailure> {
    let (bucket, region) = (bucket, name_of(region));
    let endpoint = String::from_utf8_lossy(endpoint).into_owned();
    let refused = |what: String| fail(format!("s3: {name}: {what}"));
    let Some(region) = region.filter(|_| !bucket.is_empty()) else {
        return refused("a director has a bucket and a region".to_owned());
    };
    let Some((host, port)) = crate::goto::split(&endpoint) else {
        return refused(format!("\"{}\" is neither HOST, HOST:PORT nor http[s]://HOST:PORT", endpoint.escape_debug()));
    };
    let is_https = crate::goto::is_https(&endpoint) || port.as_deref() == Some("443");
    let usual = if is_https { "443" } else { "80" };
    let port = port.unwrap_or_else(|| usual.to_owned());
    let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
    let authority = if port == usual { shown } else { format!("{shown}:{port}") };
    let tls = is_https.then(|| Ok(TlsOrigin::of(&host)));
    let settings = Settings { region, ..Settings::default() };
    let signer = Arc::new(Signer { host: Some(authority.clone()), settings: Mutex::new(settings) });
    let spec = BackendSpec {
        hosthdr: Some(authority),
        signer: Some(RequestSignerRef(signer.clone())),
        ..BackendSpec::new(name, Endpoint { tls, ..Endpoint::default() })
    };
    let plan = DynamicPlan {
        module: "s3",
        port: "80".to_owned(),
        spec,
        shares_hosts: false,
        whitelist: None,
        family: AddressFamily::Any,
        ttl: TTL,
        unused_for: UNUSED_SECONDS,
        timeout: TIMEOUT,
        keeps_last: true,
    };
    let dynamic = Arc::new(Dynamic::new(call, name, plan));
    Ok(Director { dynamic, host, port, signer })
}

/// A region or service: part of what is signed.
fn name_of(text: &[u8]) -> Option<String> {
    let is_one =
        !text.is_empty() && text.len() <= 64 && text.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b));
    is_one.then(|| String::from_utf8_lossy(text).into_owned())
}

fn only_init(call: &VmodCall<'_>, who: &str) -> Result<(), VclFailure> {
    match call.method {
        Method::Init => Ok(()),
        _ => fail(format!("s3: {who}() is for vcl_init")),
    }
}

fn set_key(signer: &Signer, key2: &[u8], key_id: &[u8]) -> CallResult<VOID> {
    let (secret, id) = (key2.to_vec(), key_id);
    let is_id = !id.is_empty() && id.len() <= 256 && id.iter().all(|b| b.is_ascii_graphic() && !b"/,".contains(b));
    if secret.is_empty() || !is_id {
        return fail("s3: set_access_key() wants a key and a key_id");
    }
    let key = AccessKey { secret, id: String::from_utf8_lossy(id).into_owned() };
    signer.settings.lock().key = Some(Arc::new(key));
    give(())
}

fn set_text(call: &VmodCall<'_>, signer: &Signer, service: &[u8], what: &str) -> CallResult<VOID> {
    only_init(call, &format!("set_{what}"))?;
    let Some(text) = name_of(service) else { return fail(format!("s3: that is no {what}")) };
    let mut settings = signer.settings.lock();
    match what {
        "region" => settings.region = text,
        _ => settings.service = text,
    }
    give(())
}

fn set_provider(call: &VmodCall<'_>, signer: &Signer, provider: &'static str) -> CallResult<VOID> {
    only_init(call, "set_provider")?;
    signer.settings.lock().provider = match provider {
        "gcp" => Provider::Gcp,
        _ => Provider::Aws,
    };
    give(())
}

fn set_signed_headers(call: &VmodCall<'_>, signer: &Signer, regex2: &[u8]) -> CallResult<VOID> {
    only_init(call, "set_signed_headers")?;
    let pattern = [b"(?i)", regex2].concat();
    let regex = crate::support::pattern::compile(call, "s3: set_signed_headers()", &pattern)?;
    signer.settings.lock().also = Some(regex);
    give(())
}

fn sign_bereq(this: &Arc<Signer>, call: &mut VmodCall<'_>) -> CallResult<BOOL> {
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
            let request = OutgoingRequest { method: head.method(), url: head.url(), fields, body, now };
            this.signed(&request).and_then(|fields| fields.ok_or_else(|| "there is no key".to_owned()))
        }
    };
    let fields = match signed {
        Ok(fields) => fields,
        Err(reason) => {
            call.ctx.log().putf(Tag::VclError, format_args!("s3: sign(): {reason}"));
            return give(false);
        }
    };
    for (name, value) in fields {
        vrt::fields::set_field(call.ctx, HeadId::Bereq, name.as_bytes(), value.as_bytes())?;
    }
    give(true)
}

impl Signer {
    fn signed(&self, request: &OutgoingRequest<'_>) -> Result<Option<Vec<(String, String)>>, String> {
        let settings = self.settings.lock().clone();
        let Some(key) = settings.key else { return Ok(None) };
        if settings.region.is_empty() {
            return Err("there is no region".to_owned());
        }
        let payload = match &request.body {
            OutgoingBody::None => Payload::from_pieces(&[]),
            OutgoingBody::Kept(pieces) => Payload::from_pieces(pieces),
            OutgoingBody::Streams => Payload::Unsigned,
        };
        let scope = SigningScope { region: &settings.region, service: &settings.service, provider: settings.provider };
        let also = |name: &[u8]| settings.also.as_ref().is_some_and(|regex| regex.is_match(name).unwrap_or(false));
        sign::fields(request, &key, &scope, &payload, &also).map(Some)
    }
}

impl RequestSigner for Signer {
    fn fields(&self, request: &OutgoingRequest<'_>) -> Result<Vec<(String, String)>, String> {
        let Some(host) = &self.host else { return Ok(Vec::new()) };
        let others = request.fields.iter().filter(|(name, _)| !name.eq_ignore_ascii_case(b"host")).copied();
        let body = match &request.body {
            OutgoingBody::None => OutgoingBody::None,
            OutgoingBody::Streams => OutgoingBody::Streams,
            OutgoingBody::Kept(pieces) => OutgoingBody::Kept(pieces.clone()),
        };
        let request = OutgoingRequest {
            fields: others.chain([(&b"host"[..], host.as_bytes())]).collect(),
            body,
            method: request.method,
            url: request.url,
            now: request.now,
        };
        let mut fields = vec![("Host".to_owned(), host.clone())];
        fields.extend(self.signed(&request).map_err(|reason| format!("s3: {reason}"))?.unwrap_or_default());
        Ok(fields)
    }
}
