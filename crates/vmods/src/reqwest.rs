// SPDX-License-Identifier: BSD-2-Clause
//! vmod_reqwest: requests out of VCL by name, and a backend that is a URL. The backend's end of a fetch's connection
//! (`local`) is a client (`client`) that sends the request on, follows redirections, and hands the answer back as it comes.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::time::Duration;

use backend::responder::FailureText;
use backend::{BackendSpec, BodyStatus, Director, Responder};
use message::chars::is_token;
use net::{IdleState, ParkedStream, Stream};
use parking_lot::Mutex;
use rt::Instant;
use tls::origin::at_large;
use tls::verify::Verify;
use vrt::questions::{self, MAX_AT_ONCE, VclRequest};
use vrt::vmod::kinds::Plain;
use vrt::vmod::{BOOL, CallResult, INT, STRING, VOID, VmodCall, give, wait};
use vrt::{Text, VclFailure};

use crate::support::client::{self, ClientAnswer, ClientRequest, ResponseSlot, UrlParts};
use crate::support::local::{self, Answering};
use crate::support::talk::{Dialogue, TalkUpload};
use crate::support::{sealed, tunnel};
use vmod_support::args::fail;

/// Requests of a task.
const MAX: usize = 64;
/// Highest depth of requests to this server that cause each other.
const DEEPEST: i64 = 10;
/// Default limit for a request made by VCL.
const LONGEST: Duration = Duration::from_secs(600);
/// Connections that a client keeps for later.
const KEPT: usize = 64;
const KEPT_FOR: Duration = Duration::from_secs(60);
const SWEEP_EVERY: Duration = Duration::from_secs(5);
/// Bytes of a redirection's body that are read to keep its connection.
const SKIPPED: usize = 64 * 1024;
/// Fields that are for one host only.
const SECRETS: [&[u8]; 6] =
    [b"authorization", b"cookie", b"cookie2", b"proxy-authorization", b"www-authenticate", questions::DEPTH.as_bytes()];
/// Fields that tell of a body.
const OF_BODY: [&[u8]; 3] = [b"content-encoding", b"content-language", b"content-type"];

vrt::vmod_args! {
    struct ClientArgs<'a> {
        base_url: [STRING] as Option<&'a Text>,
        https: [BOOL] as Option<bool>,
        follow: INT as i64 = 10,
        timeout: [DURATION] as Option<Duration>,
        connect_timeout: [DURATION] as Option<Duration>,
        auto_gzip: BOOL as bool = true,
        auto_deflate: BOOL as bool = true,
        auto_brotli: BOOL as bool = true,
        accept_invalid_certs: BOOL as bool = false,
        accept_invalid_hostnames: BOOL as bool = false,
        http_proxy: [STRING] as Option<&'a Text>,
        https_proxy: [STRING] as Option<&'a Text>,
        probe: [PROBE] as Option<u32>,
        follow_hosts: BOOL as bool = false,
    }
}

vrt::vmod! {
    /// HTTP requests from VCL by name, and a backend that is a URL and follows redirects. The certificate of an https
    /// server must be from an authority that the system trusts, unless accept_invalid_certs, and for its name, unless
    /// accept_invalid_hostnames
    pub(crate) static VMOD = reqwest;

    needs { Authorities }

    /// A client with keep-alive connections. follow is the largest number of consecutive redirects that are followed (0:
    /// none). A redirect to another host or port is only followed with follow_hosts, and otherwise returned as the
    /// response: an origin with an open redirect could let clients read servers that only this one can reach. A redirect
    /// from http to https of the same host is followed. timeout is for a whole request, connect_timeout for each
    /// connection; without them there is no limit, except 10 minutes for a request from VCL. Only encodings that VCL
    /// requests are requested, so auto_gzip, auto_deflate and auto_brotli have nothing to decode. A probe requests base_url
    /// with its .url, or without base_url the complete URL in its .url; it only concerns the backend
    object client(..ClientArgs<'_>) -> ClientObject = new, methods {
        /// Starts a request of this name, which replaces an earlier one; a task may have 64
        fn init(name: STRING, url: STRING, method: STRING = "GET") -> VOID, local = init;

        /// Sends the request. VCL continues meanwhile
        fn send(name: STRING) -> VOID = client_send;

        /// Adds a header. Headers of framing and of the connection are set by the client and fail here
        fn set_header(name: STRING, key: STRING, value: STRING) -> VOID, local = set_header;

        /// Sets the body
        fn set_body(name: STRING, body: STRING) -> VOID, local = set_body;

        /// Copies the headers of req or bereq to the request, except those of the connection and the body
        fn copy_headers_to_req(name: STRING) -> VOID, local = copy_headers_to_req;

        /// Returns whether the status of the response is 200 to 299. False if there is no response, so an authorisation
        /// check fails closed. Sends the request and waits if needed
        fn allowed(name: STRING) -> BOOL, waits = allowed;

        /// Returns the status of the response; 0 if there is none. An authorisation check must treat 0 as a refusal: VCL
        /// that only tests for 403 admits a request if the server can't be reached, 1,000 requests are in progress, or
        /// requests are nested 10 deep. Sends the request and waits if needed
        fn status(name: STRING) -> INT, waits = status;

        /// Returns the response's first header of a name, or all of them separated by sep; unset if there is none. Sends
        /// the request and waits if needed
        fn header(name: STRING, key: STRING, sep: [STRING]) -> STRING, waits = client_header;

        /// Returns the body of the response (at most 10 MB); unset if there is no response. Sends the request and waits if
        /// needed
        fn body_as_string(name: STRING) -> STRING, waits = body_as_string;

        /// Returns why there is no response; unset if there is one. Sends the request and waits if needed
        fn error(name: STRING) -> STRING, waits = error;

        /// Returns the backend. It requests base_url followed by bereq.url, or bereq.url if that is a complete URL, or
        /// bereq.url at bereq.http.host (with https if that option is set)
        fn backend() -> BACKEND, local = |this: &ClientObject, _| Some(this.director.clone());
    }
}

fn client_send(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    unsent(call, this, name, "send")?;
    send(call, this, name)?;
    give(())
}

fn set_header(
    this: &ClientObject,
    call: &mut VmodCall<'_>,
    name2: &[u8],
    name: &[u8],
    value: &[u8],
) -> CallResult<VOID> {
    if let Some(reason) = client::bad_field(name, value) {
        return fail(format!("reqwest.set_header(): {reason}"));
    }
    unsent(call, this, name2, "set_header")?.fields.push((name.to_vec(), value.to_vec()));
    give(())
}

fn set_body(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8], body: &[u8]) -> CallResult<VOID> {
    unsent(call, this, name, "set_body")?.body = Some(body.to_vec());
    give(())
}

fn copy_headers_to_req(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<VOID> {
    let fields = client::own_fields(call.ctx);
    unsent(call, this, name, "copy_headers_to_req")?.fields.extend(fields);
    give(())
}

fn allowed(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<BOOL> {
    answered(call, this, name, |done| done.as_ref().is_ok_and(ClientAnswer::allows))
}

fn status(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<INT> {
    answered(call, this, name, |done| done.as_ref().map_or(0, |answer| i64::from(answer.status)))
}

fn client_header(
    this: &ClientObject,
    call: &mut VmodCall<'_>,
    name: &[u8],
    key: &[u8],
    sep: Option<&Text>,
) -> CallResult<STRING> {
    let field = key.to_vec();
    let separator = sep.map(|text| text.as_bytes().to_vec());
    answered(call, this, name, move |done| {
        done.as_ref().ok().and_then(|answer| header(answer, &field, separator.as_deref()))
    })
}

fn body_as_string(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<STRING> {
    answered(call, this, name, |done| done.as_ref().ok().map(|answer| Text::from(&answer.body[..])))
}

fn error(this: &ClientObject, call: &mut VmodCall<'_>, name: &[u8]) -> CallResult<STRING> {
    answered(call, this, name, |done| done.as_ref().err().map(|reason| Text::from(reason.as_bytes())))
}

struct ClientObject {
    client: Arc<Client>,
    director: Arc<dyn Director>,
}

struct Client {
    base_url: Option<String>,
    follow: usize,
    /// Those to other hosts, too.
    follows_hosts: bool,
    limit: Duration,
    connect_limit: Duration,
    verify: Verify,
    /// Hosts without a base_url are asked by https.
    is_https: bool,
    /// The proxies' URLs, for http and for https.
    proxies: [Option<String>; 2],
    idle: Mutex<Vec<Idle>>,
    is_swept: AtomicBool,
}

/// A connection kept for later, by the route that it is.
struct Idle {
    to: String,
    stream: ParkedStream,
    since: Instant,
}

/// Hops on the way to a URL's host.
struct Route<'a> {
    /// The first hop: whether by TLS, host, port.
    first: (bool, &'a str, &'a str),
    way: Way,
    place: &'a UrlParts<'a>,
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Straight,
    /// A proxy that is asked for the whole URL.
    Asked,
    /// A proxy that passes on what it can't read.
    Tunnel,
}

impl Route<'_> {
    fn name(&self) -> String {
        let (is_sealed, host, port) = self.first;
        let (scheme, end) = (if is_sealed { "https" } else { "http" }, self.place);
        match self.way {
            Way::Straight | Way::Asked => format!("{scheme}://{host}:{port}"),
            Way::Tunnel => format!("{scheme}://{host}:{port} {}:{}", end.host, end.port),
        }
    }

    async fn connect(&self, limit: Duration, verify: Verify) -> Result<Stream, String> {
        let (is_sealed, host, port) = self.first;
        if self.way != Way::Tunnel {
            return client::connect(host, port, limit, is_sealed.then_some(verify)).await;
        }
        let stream = client::connect(host, port, limit, None).await?;
        tunnel::through(&stream, self.place.host, self.place.port, limit).await?;
        sealed::seal(stream, &at_large(verify)?, self.place.host, limit).await
    }
}

#[derive(Default)]
struct Requests(HashMap<(usize, Vec<u8>), ReqwestEntry>);

enum ReqwestEntry {
    Unsent(ClientRequest),
    Sent(Rc<ResponseSlot>),
}

fn owned(text: Option<&Text>) -> Option<String> {
    text.map(|text| text.lossy().into_owned())
}

fn new(call: &mut VmodCall<'_>, name: &str, args: ClientArgs<'_>) -> Result<ClientObject, VclFailure> {
    let refused = |what: &str| fail(format!("reqwest: couldn't initialize {name}: {what}"));
    let base_url = owned(args.base_url);
    if base_url.is_some() && args.https.is_some() {
        return refused("can't take both an https and a base_url argument");
    }
    let proxies = [owned(args.http_proxy), owned(args.https_proxy)];
    for url in base_url.iter().chain(proxies.iter().flatten()) {
        if let Err(reason) = client::place(url) {
            return refused(&format!("\"{}\": {reason}", url.escape_debug()));
        }
    }
    if proxies[1].as_deref().is_some_and(|url| client::place(url).is_ok_and(|proxy| proxy.is_sealed)) {
        return refused("an https_proxy is spoken to by http: its URL begins with http://");
    }
    let probe = crate::dynamic::probe(call, args.probe);
    if let Some(probe) = &probe {
        let is_whole = |url: &String| base_url.is_some() || client::place(url).is_ok();
        match &probe.url {
            Some(url) if is_whole(url) => {}
            Some(_) => {
                return refused("failed to add probe: there is no base_url, and the probe's .url isn't a whole URL");
            }
            None => return refused("failed to add probe: it must have a .url"),
        }
    }
    let hosthdr = base_url.as_deref().and_then(|url| client::place(url).ok()).map(|place| place.authority.to_owned());
    let client = Arc::new(Client {
        base_url,
        follow: usize::try_from(args.follow).unwrap_or(0),
        follows_hosts: args.follow_hosts,
        limit: args.timeout.unwrap_or_default(),
        connect_limit: args.connect_timeout.unwrap_or_default(),
        verify: Verify::of(!args.accept_invalid_certs, !args.accept_invalid_hostnames),
        is_https: args.https == Some(true),
        proxies,
        idle: Mutex::default(),
        is_swept: AtomicBool::new(false),
    });
    let service = local::service(&format!("reqwest {name}"), call.ctx.log().ring().clone(), client.clone());
    // Without a base_url a request that has no Host leads nowhere: the empty one says so.
    let spec = BackendSpec { hosthdr: Some(hosthdr.unwrap_or_default()), probe, ..BackendSpec::service(name, service) };
    match call.vcl.make_backend(spec) {
        Some(director) => Ok(ClientObject { client, director }),
        None => refused("no backends can be made here"),
    }
}

/// The key of this client's request among those of the task.
fn key(made: &ClientObject, text: &[u8]) -> (usize, Vec<u8>) {
    (Arc::as_ptr(&made.client).addr(), text.to_vec())
}

fn init(
    this: &ClientObject,
    call: &mut VmodCall<'_>,
    name: &[u8],
    url: Option<&Text>,
    method: &[u8],
) -> CallResult<VOID> {
    let client = &this.client;
    if !is_token(method) {
        return fail(format!("reqwest.init(): \"{}\" is no method", method.escape_ascii()));
    }
    let request = ClientRequest {
        url: owned(url).unwrap_or_default(),
        method: method.to_vec(),
        fields: Vec::new(),
        body: None,
        limit: client.limit,
        connect_limit: client.connect_limit,
        verify: client.verify,
    };
    let (all, key) = (&mut call.ctx.task().get::<Requests>().0, key(this, name));
    if all.len() >= MAX && !all.contains_key(&key) {
        return fail(format!("reqwest.init(): a task has no more than {MAX} requests"));
    }
    all.insert(key, ReqwestEntry::Unsent(request));
    give(())
}

fn entry<'a>(call: &'a mut VmodCall<'_>, made: &ClientObject, name: &[u8]) -> Result<&'a mut ReqwestEntry, VclFailure> {
    let found = call.ctx.task().get::<Requests>().0.get_mut(&key(made, name));
    found.ok_or_else(|| VclFailure::new(format!("reqwest: unknown request ({})", name.escape_ascii())))
}

fn unsent<'a>(
    call: &'a mut VmodCall<'_>,
    made: &ClientObject,
    name: &[u8],
    who: &str,
) -> Result<&'a mut ClientRequest, VclFailure> {
    match entry(call, made, name)? {
        ReqwestEntry::Unsent(request) => Ok(request),
        ReqwestEntry::Sent(_) => fail(format!("reqwest.{who}(): {} is sent already", name.escape_ascii())),
    }
}

fn send(call: &mut VmodCall<'_>, made: &ClientObject, text: &[u8]) -> Result<Rc<ResponseSlot>, VclFailure> {
    let depth = client::depth(call.ctx);
    let client = made.client.clone();
    let entry = entry(call, made, text)?;
    let mut request = match entry {
        ReqwestEntry::Sent(slot) => return Ok(slot.clone()),
        ReqwestEntry::Unsent(request) => std::mem::take(request),
    };
    let slot = match VclRequest::begin(depth, request.host()) {
        _ if depth >= DEEPEST => ResponseSlot::failed("the request is of too many others"),
        None => ResponseSlot::failed(&format!("more than {MAX_AT_ONCE} requests at once")),
        Some(question) => {
            request.name(&question);
            ResponseSlot::fill(async move {
                let limit = if request.limit.is_zero() { LONGEST } else { request.limit };
                let done = rt::timeout(limit, client.ask(request)).await;
                drop(question);
                done.unwrap_or_else(|_| Err("no answer in time".to_owned()))
            })
        }
    };
    *entry = ReqwestEntry::Sent(slot.clone());
    Ok(slot)
}

/// A value of the answer, or of why there is none, once that is known.
fn answered<K, T: Plain<K>>(
    call: &mut VmodCall<'_>,
    made: &ClientObject,
    name: &[u8],
    value: impl FnOnce(&Result<ClientAnswer, String>) -> T + 'static,
) -> CallResult<K> {
    let slot = send(call, made, name)?;
    if let Some(done) = slot.answer.get() {
        return give(value(done));
    }
    wait(async move { Ok(value(slot.wait().await)) })
}

fn header(answer: &ClientAnswer, name: &[u8], separator: Option<&[u8]>) -> Option<Text> {
    let named = answer.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let values: Vec<&[u8]> = named.map(|(_, value)| &value[..]).collect();
    match (values.first(), separator) {
        (None, _) => None,
        (Some(first), None) => Some(Text::copy(first)),
        (Some(_), Some(separator)) => Some(Text::from(values.join(separator))),
    }
}

/// True if a redirection stays with the server that answers `from`, or goes to the same host by https.
fn stays(from: &str, location: &[u8]) -> Result<bool, String> {
    let url = client::join(from, &String::from_utf8_lossy(location));
    let (from, to) = (client::place(from)?, client::place(&url)?);
    let ports = ((from.is_sealed, from.port), (to.is_sealed, to.port));
    let is_server = ports.0 == ports.1 || ports == ((false, "80"), (true, "443"));
    Ok(is_server && from.host.eq_ignore_ascii_case(to.host))
}

/// Changes the request for a redirection: its URL, and the fields that may go there.
fn redirected(request: &mut ClientRequest, status: u16, location: &[u8]) -> Result<(), String> {
    let old = request.url.clone();
    request.url = client::join(&old, &String::from_utf8_lossy(location));
    let (from, to) = (client::place(&old)?, client::place(&request.url)?);
    let is_same = (from.is_sealed, from.host, from.port) == (to.is_sealed, to.host, to.port);
    let mut gone: Vec<&[u8]> = vec![&b"host"[..], b"referer"];
    if !is_same {
        gone.extend(SECRETS);
    }
    if matches!(status, 301..=303) {
        gone.extend(OF_BODY);
        request.body = None;
        if request.method != b"HEAD" {
            request.method = b"GET".to_vec();
        }
    }
    request.fields.retain(|(name, _)| !gone.iter().any(|gone| gone.eq_ignore_ascii_case(name)));
    // What was asked for under seal isn't told in clear (RFC 9110, 10.1.3).
    if to.is_sealed || !from.is_sealed {
        let referer = old.split('#').next().unwrap_or_default();
        request.fields.push((b"Referer".to_vec(), referer.as_bytes().to_vec()));
    }
    Ok(())
}

impl Client {
    async fn ask(self: Arc<Self>, mut request: ClientRequest) -> Result<ClientAnswer, String> {
        let (mut talk, to) = self.follow(&mut request, None).await?;
        let answer = talk.answer().await?;
        self.keep(to, talk);
        Ok(answer)
    }

    /// Sends it, and follows redirections; the head of the last answer is there, and whose connection it is.
    /// `stream` is a body that comes from a fetch, and its length.
    async fn follow(
        self: &Arc<Self>,
        request: &mut ClientRequest,
        mut stream: Option<(&mut Responder, Option<u64>)>,
    ) -> Result<(Dialogue, String), String> {
        let mut left = self.follow;
        loop {
            let is_streamed = stream.is_some();
            let (mut talk, to) = self.exchange(request, stream.take()).await?;
            let status = talk.head.status();
            let location = talk.head.get("Location").filter(|_| matches!(status, 301 | 302 | 303 | 307 | 308));
            let location = location.map(<[u8]>::to_vec);
            // What was streamed can't be sent a second time.
            let is_gone = is_streamed && matches!(status, 307 | 308);
            let Some(location) = location.filter(|_| self.follow > 0 && !is_gone) else { return Ok((talk, to)) };
            if !self.follows_hosts && !stays(&request.url, &location)? {
                return Ok((talk, to));
            }
            if left == 0 {
                return Err(format!("more than {} redirections", self.follow));
            }
            left -= 1;
            redirected(request, status, &location)?;
            let mut skipped = 0;
            while skipped < SKIPPED
                && let Ok(Some(piece)) = talk.next_piece().await
            {
                skipped += piece.len();
            }
            self.keep(to, talk);
        }
    }

    /// One request and the head of its answer. A kept connection that turns out to be gone is no reason to fail, where the
    /// request can be sent again.
    async fn exchange(
        &self,
        request: &ClientRequest,
        mut stream: Option<(&mut Responder, Option<u64>)>,
    ) -> Result<(Dialogue, String), String> {
        let place = client::place(&request.url)?;
        let route = self.route(&place)?;
        let target = match route.way {
            Way::Asked => format!("http://{}{}", place.authority, place.path),
            Way::Straight | Way::Tunnel => place.path.clone(),
        };
        let to = route.name();
        let length = match &stream {
            None => request.length(),
            Some((_, len)) => len.map(|len| len.to_string()),
        };
        let framing = match (&length, &stream) {
            (Some(length), _) => Some(("Content-Length", &length[..])),
            (None, Some(_)) => Some(("Transfer-Encoding", "chunked")),
            (None, None) => None,
        };
        let head = request.head(&target, place.authority, framing.as_slice())?;
        let may_repeat = stream.is_none() && matches!(&request.method[..], b"GET" | b"HEAD");
        let mut kept = if may_repeat { self.take(&to) } else { None };
        loop {
            let is_kept = kept.is_some();
            let connection = match kept.take() {
                Some(connection) => connection,
                None => route.connect(self.connect_limit, self.verify).await?,
            };
            let mut talk = Dialogue::over(connection);
            let upload = match stream.take() {
                Some((responder, len)) => TalkUpload::Streams(responder, len),
                None => request.upload(),
            };
            let done = async {
                talk.send(&head, upload).await?;
                talk.receive_head().await
            };
            match done.await {
                Ok(()) => return Ok((talk, to)),
                Err(_) if is_kept && !talk.has_begun() => {}
                Err(reason) => return Err(reason),
            }
        }
    }

    fn route<'a>(&'a self, place: &'a UrlParts<'a>) -> Result<Route<'a>, String> {
        match &self.proxies[usize::from(place.is_sealed)] {
            None => Ok(Route { first: (place.is_sealed, place.host, place.port), way: Way::Straight, place }),
            Some(proxy) => {
                let proxy = client::place(proxy)?;
                let way = if place.is_sealed { Way::Tunnel } else { Way::Asked };
                Ok(Route { first: (proxy.is_sealed, proxy.host, proxy.port), way, place })
            }
        }
    }

    fn take(&self, to: &str) -> Option<Stream> {
        loop {
            let idle = {
                let mut idle = self.idle.lock();
                let at = idle.iter().rposition(|idle| idle.to == to)?;
                idle.remove(at)
            };
            // Looked at outside of the lock: it is a system call.
            if idle.stream.pending() == IdleState::Nothing
                && let Ok(stream) = idle.stream.unpark()
            {
                return Some(stream);
            }
        }
    }

    /// Keeps the connection for later if it can be used again.
    fn keep(self: &Arc<Self>, to: String, talk: Dialogue) {
        let Some(stream) = talk.reusable() else { return };
        let mut idle = self.idle.lock();
        idle.push(Idle { to, stream: stream.park(), since: Instant::now() });
        let surplus = idle.len().saturating_sub(KEPT);
        // Closed after the unlock.
        let gone: Vec<Idle> = idle.drain(..surplus).collect();
        let is_swept = self.is_swept.swap(true, Relaxed);
        drop(idle);
        drop(gone);
        if !is_swept {
            drop(rt::spawn(sweep(Arc::downgrade(self))));
        }
    }

    /// Closes connections that are too old, or that the other side has closed; whether there are others.
    fn sweep(&self) -> bool {
        let now = Instant::now();
        let is_over =
            |idle: &mut Idle| now.duration_since(idle.since) > KEPT_FOR || idle.stream.pending() != IdleState::Nothing;
        let mut idle = self.idle.lock();
        let gone: Vec<Idle> = idle.extract_if(.., is_over).collect();
        let is_empty = idle.is_empty();
        if is_empty {
            // Whoever keeps the next one starts another task.
            self.is_swept.store(false, Relaxed);
        }
        drop(idle);
        drop(gone);
        !is_empty
    }

    fn url(&self, target: &str, host: &str) -> Result<String, String> {
        match &self.base_url {
            Some(base) => Ok(format!("{base}{target}")),
            None if !target.starts_with('/') => Ok(target.to_owned()),
            None if host.is_empty() => Err("no base_url, no host in bereq.url, and no bereq.http.host".to_owned()),
            None => Ok(format!("{}://{host}{target}", if self.is_https { "https" } else { "http" })),
        }
    }

    async fn serve(self: Arc<Self>, mut responder: Responder) -> Result<(), FailureText> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(format!("\"{}\" is no URL or host", bytes.escape_ascii())),
        };
        let host = text(responder.head.get("Host").unwrap_or_default())?;
        let target = text(&responder.target)?;
        let mut request = ClientRequest {
            url: self.url(&target, &host)?,
            method: responder.head.method().to_vec(),
            fields: client::fields_of(&responder.head),
            body: None,
            limit: self.limit,
            connect_limit: self.connect_limit,
            verify: self.verify,
        };
        if host.is_empty() {
            request.unset(b"host");
        }
        let announced =
            responder.head.get("Content-Length").and_then(|len| std::str::from_utf8(len).ok()?.parse().ok());
        let stream = responder.has_body.then_some((&mut responder, announced));
        let (mut talk, to) = self.follow(&mut request, stream).await?;
        let len = match talk.body {
            BodyStatus::Length(len) => Some(len),
            BodyStatus::Chunked | BodyStatus::Eof => None,
            // The answer to HEAD tells what a body would be.
            BodyStatus::None if request.method == b"HEAD" => {
                talk.head.get("Content-Length").and_then(|len| std::str::from_utf8(len).ok()?.parse().ok())
            }
            BodyStatus::None => Some(0),
        };
        let fields = client::fields_of(&talk.head);
        let fields: Vec<(&[u8], &[u8])> = fields.iter().map(|(name, value)| (&name[..], &value[..])).collect();
        responder.respond(talk.head.status(), talk.head.reason(), &fields, len);
        // Whoever waits for the head needn't wait for the body.
        responder.flush().await?;
        while let Some(piece) = talk.next_piece().await? {
            responder.send(piece).await?;
            responder.flush().await?;
        }
        self.keep(to, talk);
        responder.finish().await
    }
}

async fn sweep(client: Weak<Client>) {
    while client.upgrade().is_some_and(|client| client.sweep()) {
        let _ = rt::timeout(SWEEP_EVERY, std::future::pending::<()>()).await;
    }
}

impl local::LocalResponder for Client {
    fn answer(self: Arc<Self>, responder: Responder) -> Answering {
        let limit = self.limit;
        Box::pin(async move {
            rt::timeout(limit, self.serve(responder)).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str) -> ClientRequest {
        let field = |name: &str| (name.as_bytes().to_vec(), b"1".to_vec());
        ClientRequest {
            url: "http://a/b/c?d".to_owned(),
            method: method.as_bytes().to_vec(),
            fields: ["Host", "X", "Cookie", "Authorization", "Content-Type"].map(field).to_vec(),
            body: Some(b"body".to_vec()),
            ..ClientRequest::default()
        }
    }

    #[track_caller]
    fn check(method: &str, status: u16, location: &str, wanted: &str) {
        check_of(request(method), status, location, wanted);
    }

    #[track_caller]
    fn check_of(mut request: ClientRequest, status: u16, location: &str, wanted: &str) {
        let done = redirected(&mut request, status, location.as_bytes());
        let names: Vec<_> = request.fields.iter().map(|(name, _)| String::from_utf8_lossy(name)).collect();
        let method = String::from_utf8_lossy(&request.method).into_owned();
        let shown = match done {
            Ok(()) => format!("{method} {} {} body {}", request.url, names.join(","), request.body.is_some()),
            Err(reason) => reason,
        };
        assert_eq!(shown, wanted);
    }

    #[test]
    fn redirections() {
        check("POST", 302, "x", "GET http://a/b/x X,Cookie,Authorization,Referer body false");
        check("HEAD", 303, "/x", "HEAD http://a/x X,Cookie,Authorization,Referer body false");
        check("POST", 307, "/x", "POST http://a/x X,Cookie,Authorization,Content-Type,Referer body true");
        check("PUT", 308, "http://o/", "PUT http://o/ X,Content-Type,Referer body true");
        check("GET", 301, "http://a:81/", "GET http://a:81/ X,Referer body false");
        check("GET", 301, "https://a/", "GET https://a/ X,Referer body false");
        check("GET", 301, "https://a:80/", "GET https://a:80/ X,Referer body false");
        check("GET", 301, "http://", "no host");
    }

    #[test]
    fn a_redirection_stays_with_its_server() {
        let stays = |from: &str, to: &str| stays(from, to.as_bytes()).unwrap();
        for to in ["x", "/x", "?q", "//a/x", "http://a/x", "http://A:80/", "https://a/"] {
            assert!(stays("http://a/b", to), "{to}");
        }
        for to in ["http://o/", "//o/", "http://a:81/", "https://a:444/", "http://a.o/", "http://127.0.0.1/"] {
            assert!(!stays("http://a/b", to), "{to}");
        }
        assert!(!stays("https://a/", "http://a/"));
        assert!(!stays("http://a:81/", "https://a/"));
    }

    #[test]
    fn a_sealed_url_is_not_told_in_clear() {
        let sealed = || ClientRequest { url: "https://a/b?secret".to_owned(), ..request("GET") };
        check_of(sealed(), 302, "http://a/x", "GET http://a/x X body false");
        check_of(sealed(), 307, "//o/x", "GET https://o/x X,Content-Type,Referer body true");
    }
}
