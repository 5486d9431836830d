// SPDX-License-Identifier: BSD-2-Clause
//! A client: one request over a connection (`talk`) and its answer, whole or piece by piece. `vrt::questions` bounds how many are in progress.

use std::cell::OnceCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use message::chars::is_token;
use message::{Head, HeadLimits};
use net::{ConnectError, ConnectTarget, Stream};
use tokio::sync::Notify;
use vrt::questions::{self, DEPTH, VclRequest};
use vrt::{Ctx, HeadId};

use tls::origin::at_large;
use tls::verify::Verify;

use crate::support::sealed;
use crate::support::talk::{Dialogue, TalkUpload};

/// Lines of a request's head.
const LINES: u32 = 65_535;
const REQUEST_BYTES: u32 = 16 << 20;
#[derive(Clone)]
pub(crate) struct ClientRequest {
    pub(crate) url: String,
    pub(crate) method: Vec<u8>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Option<Vec<u8>>,
    /// Limit for the whole request; zero: none.
    pub(crate) limit: Duration,
    pub(crate) connect_limit: Duration,
    pub(crate) verify: Verify,
}

#[derive(Debug)]
pub(crate) struct ClientAnswer {
    pub(crate) status: u16,
    pub(crate) reason: Vec<u8>,
    pub(crate) fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl ClientAnswer {
    /// True if the response says yes to a question.
    pub(crate) fn allows(&self) -> bool {
        (200..=299).contains(&self.status)
    }
}

/// The place where a response, or the reason why there is none, will be.
#[derive(Default)]
pub(crate) struct ResponseSlot {
    pub(crate) answer: OnceCell<Result<ClientAnswer, String>>,
    bell: Notify,
}

impl ResponseSlot {
    pub(crate) fn fill(work: impl Future<Output = Result<ClientAnswer, String>> + 'static) -> Rc<ResponseSlot> {
        let slot = Rc::new(ResponseSlot::default());
        let filled = slot.clone();
        drop(rt::spawn(async move {
            filled.put(work.await);
        }));
        slot
    }

    pub(crate) fn failed(reason: &str) -> Rc<ResponseSlot> {
        let slot = ResponseSlot::default();
        slot.put(Err(reason.to_owned()));
        Rc::new(slot)
    }

    fn put(&self, answer: Result<ClientAnswer, String>) {
        // It is filled once.
        let _ = self.answer.set(answer);
        self.bell.notify_waiters();
    }

    pub(crate) async fn wait(&self) -> &Result<ClientAnswer, String> {
        loop {
            match self.answer.get() {
                Some(answer) => return answer,
                None => self.bell.notified().await,
            }
        }
    }
}

#[derive(Debug, PartialEq)]
pub(crate) struct UrlParts<'a> {
    pub(crate) is_sealed: bool,
    pub(crate) host: &'a str,
    pub(crate) port: &'a str,
    /// Authority as it stands in the URL: the Host field.
    pub(crate) authority: &'a str,
    pub(crate) path: String,
}

impl Default for ClientRequest {
    fn default() -> Self {
        let (limit, connect_limit) = (Duration::from_secs(30), Duration::from_secs(5));
        ClientRequest {
            url: String::new(),
            method: b"GET".to_vec(),
            fields: Vec::new(),
            body: None,
            limit,
            connect_limit,
            verify: Verify::ChainAndName,
        }
    }
}

impl ClientRequest {
    pub(crate) fn unset(&mut self, name: &[u8]) {
        self.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
    }

    pub(crate) fn host(&self) -> &[u8] {
        let own = self.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case(b"host")).map(|(_, value)| &value[..]);
        own.unwrap_or_else(|| place(&self.url).map_or(b"", |place| place.authority.as_bytes()))
    }

    /// Names the question that it is.
    pub(crate) fn name(&mut self, question: &VclRequest) {
        self.unset(DEPTH.as_bytes());
        self.fields.push((DEPTH.into(), question.field().into()));
    }

    /// The head that is sent for it, with these fields at its end; `target` stands in the first line.
    ///
    /// # Errors
    /// It is larger than anybody would take.
    pub(crate) fn head(&self, target: &str, authority: &str, more: &[(&str, &str)]) -> Result<Head, String> {
        let mut head = Head::with_limits(HeadLimits::new(LINES, REQUEST_BYTES));
        let has_host = self.fields.iter().any(|(name, _)| name.eq_ignore_ascii_case(b"host"));
        let made = head.start_request(&self.method, target.as_bytes(), b"HTTP/1.1").and_then(|()| {
            if !has_host {
                head.append("Host", authority)?;
            }
            self.fields.iter().try_for_each(|(name, value)| head.append(name, value))?;
            more.iter().try_for_each(|(name, value)| head.append(name, value))
        });
        made.map(|()| head).map_err(|_| "the request's head is too large".to_owned())
    }

    pub(crate) fn length(&self) -> Option<String> {
        self.body.as_ref().map(|body| body.len().to_string())
    }

    pub(crate) fn upload(&self) -> TalkUpload<'_> {
        self.body.as_deref().map_or(TalkUpload::None, TalkUpload::Whole)
    }
}

pub(crate) fn depth(ctx: &mut dyn Ctx) -> i64 {
    let own = |id: &HeadId| questions::depth_of(ctx.head(*id)?);
    [HeadId::Req, HeadId::Bereq].iter().find_map(own).unwrap_or(0)
}

/// Fields that belong to a connection or to a body's framing.
pub(crate) fn is_of_connection(name: &[u8]) -> bool {
    const OF: [&[u8]; 10] = [
        b"connection",
        b"content-length",
        b"expect",
        b"keep-alive",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        DEPTH.as_bytes(),
    ];
    OF.iter().any(|other| other.eq_ignore_ascii_case(name))
}

/// The reason why VCL can't set this field of a request; the client writes those of framing and of the connection
/// itself.
pub(crate) fn bad_field(name: &[u8], value: &[u8]) -> Option<String> {
    const OWN: [&[u8]; 3] = [b"connection", b"content-length", b"transfer-encoding"];
    let is_bad = |b: &u8| *b < b' ' && *b != b'\t' || *b == 0x7f;
    if !is_token(name) || value.iter().any(is_bad) {
        return Some(format!("\"{}: {}\" is no field", name.escape_ascii(), value.escape_ascii()));
    }
    let is_own = OWN.iter().any(|own| own.eq_ignore_ascii_case(name));
    is_own.then(|| format!("{} is written by the client itself", name.escape_ascii()))
}

/// The fields of the transaction's request, but those of the connection.
pub(crate) fn own_fields(ctx: &mut dyn Ctx) -> Vec<(Vec<u8>, Vec<u8>)> {
    let own = |id: &HeadId| Some(fields_of(ctx.head(*id)?));
    [HeadId::Req, HeadId::Bereq].iter().find_map(own).unwrap_or_default()
}

/// The head's fields, except those of the connection.
pub(crate) fn fields_of(head: &Head) -> Vec<(Vec<u8>, Vec<u8>)> {
    let fields = head.iter().filter(|field| !is_of_connection(field.name()));
    fields.map(|field| (field.name().to_vec(), field.value().to_vec())).collect()
}

pub(crate) fn place(url: &str) -> Result<UrlParts<'_>, &'static str> {
    const NO_SCHEME: &str = "a URL begins with http:// or https://";
    let (scheme, rest) = url.split_once("://").ok_or(NO_SCHEME)?;
    let (is_sealed, usual_port) = match scheme.to_ascii_lowercase().as_str() {
        "http" => (false, "80"),
        "https" => (true, "443"),
        _ => return Err(NO_SCHEME),
    };
    if url.bytes().any(|b| b <= b' ' || b == 0x7f) {
        return Err("a URL has no blanks");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => match rest.split_once(']').ok_or("no host")? {
            (host, "") => (host, None),
            (host, rest) => (host, Some(rest.strip_prefix(':').ok_or("no host")?)),
        },
        None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() || authority.contains('@') {
        return Err("no host");
    }
    let port = port.filter(|port| !port.is_empty()).unwrap_or(usual_port);
    if !port.bytes().all(|b| b.is_ascii_digit()) || port.parse::<u16>().is_err() {
        return Err("no port");
    }
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    Ok(UrlParts { is_sealed, host, port, authority, path })
}

/// The URL of a reference (RFC 3986 5.2) in an answer to `base`.
pub(crate) fn join(base: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap_or_default();
    let has_scheme = reference.split_once(':').is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'+')
    });
    if has_scheme {
        return reference.to_owned();
    }
    let Some((scheme, rest)) = base.split_once("://") else { return reference.to_owned() };
    if let Some(other) = reference.strip_prefix("//") {
        return format!("{scheme}://{other}");
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let (target, query) = reference.find('?').map_or((reference, ""), |at| reference.split_at(at));
    let target = match target.as_bytes().first() {
        None => path.to_owned(),
        Some(b'/') => target.to_owned(),
        Some(_) => format!("{}/{target}", path.rsplit_once('/').map_or("", |(directory, _)| directory)),
    };
    let mut names: Vec<&str> = Vec::new();
    let mut parts = target.strip_prefix('/').unwrap_or(&target).split('/').peekable();
    while let Some(part) = parts.next() {
        let is_dots = matches!(part, "." | "..");
        if part == ".." {
            names.pop();
        }
        match (is_dots, parts.peek().is_none()) {
            (false, _) => names.push(part),
            // A path that ends with dots ends with a slash.
            (true, true) => names.push(""),
            (true, false) => {}
        }
    }
    format!("{scheme}://{authority}/{}{query}", names.join("/"))
}

pub(crate) async fn ask(request: &ClientRequest) -> Result<ClientAnswer, String> {
    let place = place(&request.url)?;
    let length = request.length();
    let fields: Vec<_> =
        [("Connection", "close")].into_iter().chain(length.as_deref().map(|len| ("Content-Length", len))).collect();
    let head = request.head(&place.path, place.authority, &fields)?;
    let exchange = async {
        let verify = place.is_sealed.then_some(request.verify);
        let mut talk = Dialogue::over(connect(place.host, place.port, request.connect_limit, verify).await?);
        talk.send(&head, request.upload()).await?;
        talk.receive_head().await?;
        talk.answer().await
    };
    rt::timeout(request.limit, exchange).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
}

/// A new connection; a sealed one if it is said what the other side's certificate must have. Trusted is whom the system trusts.
pub(crate) async fn connect(host: &str, port: &str, limit: Duration, verify: Option<Verify>) -> Result<Stream, String> {
    let stream = open(host, port, limit).await?;
    match verify {
        None => Ok(stream),
        Some(verify) => sealed::seal(stream, &at_large(verify)?, host, limit).await,
    }
}

pub(crate) async fn open(host: &str, port: &str, limit: Duration) -> Result<Stream, String> {
    let found = net::resolve::resolve(Some(host), port, false).await;
    let addresses: Vec<SocketAddr> = found.map_err(|reason| reason.to_string())?;
    let mut last = "no address".to_owned();
    for address in addresses {
        match net::connect(&ConnectTarget::Inet(address), limit).await {
            Ok(stream) => return Ok(stream),
            Err(ConnectError::Os(reason)) => last = reason.to_string(),
            Err(ConnectError::Timeout) => last = "no connection in time".to_owned(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let show = |url: &str| match place(url) {
            Ok(place) => format!("{} {} {} {}", place.host, place.port, place.authority, place.path),
            Err(reason) => reason.to_owned(),
        };
        assert_eq!(show("http://h/a?b#c"), "h 80 h /a?b");
        assert_eq!(show("HTTP://h:81?b"), "h 81 h:81 /?b");
        assert_eq!(show("http://[::1]:81"), "::1 81 [::1]:81 /");
        assert_eq!(show("https://h/"), "h 443 h /");
        assert_eq!(show("HTTPS://h:80/"), "h 80 h:80 /");
        assert_eq!(["/a", "ftp://h"].map(show), ["a URL begins with http:// or https://"; 2]);
        assert_eq!(["http://", "http:///a", "http://u@h/", "http://[::1"].map(show), ["no host"; 4]);
        assert_eq!(["http://[::1]x/", "http://h:80@o/"].map(show), ["no host"; 2]);
        assert_eq!(["http://h:x/", "http://h:65536/", "http://h:+80/", "http://[::1]:x"].map(show), ["no port"; 4]);
        assert_eq!(show("http://h:/a"), "h 80 h: /a");
        assert_eq!(show("http://h/a b"), "a URL has no blanks");
    }

    #[test]
    fn references() {
        let base = "http://h:81/a/b/c?d#e";
        for (reference, wanted) in [
            ("http://o/x", "http://o/x"),
            ("https://o/x", "https://o/x"),
            ("//o/x", "http://o/x"),
            ("/x?y#z", "http://h:81/x?y"),
            ("x", "http://h:81/a/b/x"),
            ("../x", "http://h:81/a/x"),
            ("../../../../x", "http://h:81/x"),
            ("./", "http://h:81/a/b/"),
            ("..", "http://h:81/a/"),
            ("?q", "http://h:81/a/b/c?q"),
            ("", "http://h:81/a/b/c"),
            ("x:y/z", "x:y/z"),
        ] {
            assert_eq!(join(base, reference), wanted, "{reference}");
        }
        assert_eq!(join("http://h", "x"), "http://h/x");
    }

    #[test]
    fn fields_of_framing_are_the_clients_own() {
        for name in ["Content-Length", "transfer-encoding", "CONNECTION"] {
            let reason = format!("{name} is written by the client itself");
            assert_eq!(bad_field(name.as_bytes(), b"1").as_deref(), Some(&reason[..]));
        }
        assert_eq!(bad_field(b"X-A", b"b\tc"), None);
        for (name, value) in [("a b", ""), ("", "x"), ("X", "a\r\nB: c"), ("X", "\0")] {
            assert!(bad_field(name.as_bytes(), value.as_bytes()).is_some_and(|reason| reason.ends_with("is no field")));
        }
    }

    proptest::proptest! {
        #[test]
        fn parts_of_a_url(
            scheme in "[hH]ttp|HTTP|https|HTTPS",
            host in "[a-z0-9.-]{1,20}|\\[[0-9a-f:]{2,20}\\]",
            port in proptest::option::of(proptest::prelude::any::<u16>()),
            path in "(/[a-z0-9:@%\\[\\]]{0,8}){0,4}",
            query in "(\\?[a-z=&/?:@\\[]{0,12})?",
            fragment in "(#[a-z/?#]{0,8})?",
        ) {
            let authority = format!("{host}{}", port.map_or_else(String::new, |port| format!(":{port}")));
            let url = format!("{scheme}://{authority}{path}{query}{fragment}");
            let Ok(place) = place(&url) else { panic!("{url} was refused") };
            proptest::prop_assert_eq!(place.host, host.trim_matches(['[', ']']));
            proptest::prop_assert_eq!(place.port, port.map_or_else(|| if place.is_sealed { "443" } else { "80" }.to_owned(), |port| port.to_string()));
            proptest::prop_assert_eq!(place.authority, &authority);
            let slash = if path.is_empty() { "/" } else { "" };
            proptest::prop_assert_eq!(place.path, format!("{slash}{path}{query}"));
        }

        #[test]
        fn any_reference_and_any_url(reference in "[a:/.?#h]{0,12}|\\PC*", url in "(http://)?[a:/.@?#\\[\\]]{0,12}|\\PC*") {
            let joined = join("http://h/a/b?c", &reference);
            assert!(joined == reference.split('#').next().unwrap() || joined.starts_with("http://"), "{joined}");
            if let Ok(place) = place(&url) {
                assert!(!place.host.is_empty() && place.path.starts_with('/'), "{place:?}");
            }
        }
    }
}
