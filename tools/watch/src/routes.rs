// SPDX-License-Identifier: BSD-2-Clause
//! Paths and their handlers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use message::Head;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, broadcast, mpsc};

use crate::access::{AccessVerdict, COOKIE, PageAccess};
use crate::control::{self, ControlQuestion};
use crate::http::{PageRequest, PageResponse};
use crate::live::FollowError;
use crate::metrics::{self, CliReplies, MetricNaming, MetricsFormat};
use crate::options::Ready;
use crate::state::WatchShared;
use crate::text::shown;
use crate::{book, document, health};

/// Maximum number of simultaneous questions to the CLI.
pub const MAX_ASKS: usize = 4;
/// Maximum time that metrics and `/readyz` wait for the CLI.
const SOON: Duration = Duration::from_secs(2);
/// Time for which a list of backends is reused.
const LIST_FRESH: Duration = Duration::from_secs(1);
/// Maximum number of metrics pages that are written simultaneously. Further requests wait.
pub const MAX_PAGES: usize = 4;

#[derive(Debug)]
pub struct Context {
    pub shared: Arc<WatchShared>,
    pub access: PageAccess,
    pub asks: Semaphore,
    pub pages: Semaphore,
    /// Time of the last question for the backends, and the last list.
    pub listed: Mutex<(Option<Instant>, Option<Value>)>,
}

#[derive(Debug)]
pub enum RouteAnswer {
    Whole(PageResponse),
    /// A stream of events, one per second.
    Seconds(broadcast::Receiver<Arc<str>>),
    /// A stream of lines of the list of requests.
    Lines(mpsc::Receiver<Arc<str>>),
}

impl From<PageResponse> for RouteAnswer {
    fn from(response: PageResponse) -> RouteAnswer {
        RouteAnswer::Whole(response)
    }
}

const NEEDS_CERTIFICATE: &str = "A certificate is needed here, of one of the authorities of --client-ca";
const HTML: &str = "text/html; charset=utf-8";
const PAGE: &str = include_str!("page/index.html");
const LOGIN: &str = include_str!("page/login.html");
const STYLE: &str = include_str!("page/watch.css");
const SCRIPT: &str = include_str!("page/watch.js");
const ICON: &str = include_str!("page/icon.svg");

pub async fn answer(context: &Context, request: &PageRequest) -> RouteAnswer {
    let url = String::from_utf8_lossy(request.head.url()).into_owned();
    let (path, query) = url.split_once('?').unwrap_or((&url, ""));
    let answer = match request.head.method() {
        // haproxy checks with OPTIONS unless told otherwise.
        b"OPTIONS" if matches!(path, "/healthz" | "/readyz") => get(context, request, path, query).await,
        b"GET" | b"HEAD" => get(context, request, path, query).await,
        b"POST" => post(context, request, path).await.into(),
        _ => PageResponse::text(405, "GET, HEAD and POST are spoken here").with("Allow", "GET, HEAD, POST").into(),
    };
    // The delay affects only the client that tries tokens.
    if matches!(&answer, RouteAnswer::Whole(response) if response.status == 401)
        && request.head.get("authorization").is_some()
    {
        rt::sleep(WRONG_TOKEN).await;
    }
    answer
}

async fn get(context: &Context, request: &PageRequest, path: &str, query: &str) -> RouteAnswer {
    let head = &request.head;
    let verdict = context.access.judge(head, request.is_known);
    match (path, verdict) {
        // Load balancers ask without a token, and often without a Host. The response then has no reasons.
        ("/healthz", _) => return verdict_of(&health::alive(&context.shared), verdict).into(),
        ("/readyz", _) => {
            let listed = backends(context).await;
            return verdict_of(&health::ready(&context.shared, listed.as_ref()), verdict).into();
        }
        (_, AccessVerdict::WrongHost) => return PageResponse::text(421, &wrong_host(head)).into(),
        // These files are the same for everybody.
        ("/watch.css", _) => return PageResponse::new(200, "text/css; charset=utf-8", STYLE).into(),
        ("/watch.js", _) => return PageResponse::new(200, "text/javascript; charset=utf-8", SCRIPT).into(),
        ("/icon.svg", _) => return PageResponse::new(200, "image/svg+xml", ICON).into(),
        ("/icon-bad.svg", _) => return PageResponse::new(200, "image/svg+xml", icon_with_dot("#c22f2a")).into(),
        ("/icon-warn.svg", _) => return PageResponse::new(200, "image/svg+xml", icon_with_dot("#e5a13a")).into(),
        ("/", AccessVerdict::NeedsToken) => return PageResponse::new(401, HTML, LOGIN).into(),
        (_, AccessVerdict::NeedsToken) => {
            return PageResponse::text(401, "A token is needed: Authorization: Bearer TOKEN")
                .with("WWW-Authenticate", "Bearer")
                .into();
        }
        (_, AccessVerdict::NeedsCertificate) => return PageResponse::text(403, NEEDS_CERTIFICATE).into(),
        (_, AccessVerdict::Granted) => {}
    }
    match path {
        "/" => PageResponse::new(200, HTML, PAGE).into(),
        "/book" => PageResponse::new(200, HTML, book::page()).into(),
        "/metrics" => metrics(context, head, query).await.into(),
        "/api/state" => state(context).into(),
        "/api/seconds" => RouteAnswer::Seconds(context.shared.seconds.subscribe()),
        "/api/live" => match context.shared.live().follow(&value(query, "q").unwrap_or_default()) {
            Ok(lines) => RouteAnswer::Lines(lines),
            Err(FollowError::Query(text)) => PageResponse::text(400, &text).into(),
            Err(FollowError::TooMany) => PageResponse::text(503, "too many follow the list of requests").into(),
        },
        "/api/request" => {
            let number = value(query, "id").and_then(|id| id.parse().ok()).unwrap_or(0);
            let found = context.shared.live().open(number);
            match found {
                Some(found) => PageResponse::json(200, &found).into(),
                None => PageResponse::json(404, &json!({ "text": "its records aren't here any more" })).into(),
            }
        }
        _ => PageResponse::text(404, "There is nothing here: / is the page").into(),
    }
}

fn field(head: &Head, name: &str) -> String {
    let value = head.get(name).unwrap_or_default();
    if value.is_empty() { "missing".to_owned() } else { shown(&value[..value.len().min(100)]) }
}

fn wrong_host(head: &Head) -> String {
    format!(
        "Host is {}: without a token this page answers only to an IP address or localhost, so that no web page can read it through your browser. \
         Behind a proxy: have the proxy send `Host: localhost`, or start with --token-file FILE, which allows every name.",
        field(head, "host")
    )
}

fn not_our_page(head: &Head) -> String {
    format!(
        "Refused, as it doesn't come from this page: Origin is {}, Host is {}. A proxy in between has to pass the browser's Host on, or send it \
         as X-Forwarded-Host.",
        field(head, "origin"),
        field(head, "host")
    )
}

/// The icon with a dot of this colour, which marks a tab that shows a problem.
fn icon_with_dot(colour: &str) -> String {
    ICON.replace("</svg>", &format!("<circle cx=\"14\" cy=\"14\" r=\"6\" fill=\"{colour}\"/></svg>"))
}

fn verdict_of(verdict: &health::HealthVerdict, access: AccessVerdict) -> PageResponse {
    let status = if verdict.is_good { 200 } else { 503 };
    match access {
        AccessVerdict::Granted => PageResponse::json(status, &verdict.json()),
        AccessVerdict::NeedsToken | AccessVerdict::NeedsCertificate | AccessVerdict::WrongHost => {
            PageResponse::json(status, &json!({ "status": verdict.word() }))
        }
    }
}

async fn metrics(context: &Context, head: &Head, query: &str) -> PageResponse {
    let naming = match value(query, "names").as_deref() {
        None => context.shared.options.naming,
        Some("own") => MetricNaming::Own,
        Some("exporter") => MetricNaming::Exporter,
        Some(_) => return PageResponse::text(400, "names is own or exporter"),
    };
    let format = MetricsFormat::of_accept(head.get("accept").unwrap_or_default());
    let Ok(_place) = context.pages.acquire().await else { return PageResponse::text(500, "that failed") };
    let replies = match naming {
        MetricNaming::Own => CliReplies { nodes: fleet_nodes(context).await, costs: costs(context).await },
        MetricNaming::Exporter => CliReplies::default(),
    };
    let shared = Arc::clone(&context.shared);
    // This takes long with thousands of backends.
    match tokio::task::spawn_blocking(move || metrics::page(&shared, naming, format, &replies)).await {
        Ok((content_type, text)) => PageResponse::new(200, content_type, text),
        Err(_) => PageResponse::text(500, "that failed"),
    }
}

/// The accounts that cost the origin most. `None` if no fetch was ever charged to one, or if the CLI is too slow.
async fn costs(context: &Context) -> Option<Value> {
    let shared = Arc::clone(&context.shared);
    let charged = |name: &str| matches!(name, "bot_reader_time" | "bot_crawl_time");
    let has_accounts = shared.state().readings.iter().any(|reading| reading.value > 0 && charged(&reading.about.name));
    if !(shared.options.cli && has_accounts) {
        return None;
    }
    let _place = context.asks.try_acquire().ok()?;
    ask_soon(shared, ControlQuestion::Costs).await
}

/// The nodes of the fleet. `None` if the server belongs to none, or if the CLI is too slow: metrics don't wait for it.
async fn fleet_nodes(context: &Context) -> Option<Value> {
    let shared = Arc::clone(&context.shared);
    let has_fleet = shared.options.cli && shared.state().readings.iter().any(|reading| &*reading.set == "FLEET");
    if !has_fleet {
        return None;
    }
    let _place = context.asks.try_acquire().ok()?;
    ask_soon(shared, ControlQuestion::Fleet).await
}

/// The output of `backend.list -j`, if readiness depends on it and the CLI may be asked. Load balancers ask often and without a token, so
/// the CLI is asked at most once per second. While it doesn't reply, its last list is used.
async fn backends(context: &Context) -> Option<Value> {
    let options = &context.shared.options;
    if options.ready == Ready::Vcl || !options.cli {
        return None;
    }
    let mut listed = context.listed.lock().await;
    if listed.0.is_none_or(|asked| asked.elapsed() > LIST_FRESH) {
        let list = ask_soon(Arc::clone(&context.shared), ControlQuestion::Backends).await;
        *listed = (Some(Instant::now()), list.or_else(|| listed.1.take()));
    }
    listed.1.clone()
}

/// Asks the CLI for JSON. `None` if it doesn't reply within [`SOON`].
async fn ask_soon(shared: Arc<WatchShared>, ask: ControlQuestion) -> Option<Value> {
    let asked = tokio::task::spawn_blocking(move || control::ask(&shared, &ask));
    let mut answer = tokio::time::timeout(SOON, asked).await.ok()?.ok()?;
    // The data follow a version, the command and the time.
    answer["data"].as_array_mut()?.pop()
}

fn state(context: &Context) -> PageResponse {
    let shared = &context.shared;
    let options = &shared.options;
    let state = shared.state();
    let about = json!({
        "workdir": shared.shown_workdir(),
        "name": shm::reader::manager_arg(&shared.workdir, "-i").unwrap_or_default(),
        "cli": options.cli, "control": options.control, "source": may_see_source(context), "key": context.access.page_key,
        "reasons": crate::book::words(), "token": context.access.is_guarded(), "hidden": logq::Redaction::new(&options.show_headers).names(),
    });
    let body = json!({ "about": about, "history": state.history.json(), "second": document::second(shared, &state) });
    drop(state);
    PageResponse::json(200, &body)
}

fn may_see_source(context: &Context) -> bool {
    context.shared.options.cli && (context.access.is_guarded() || context.shared.options.show_vcl)
}

async fn post(context: &Context, request: &PageRequest, path: &str) -> PageResponse {
    if path == "/login" {
        return log_in(context, &request.body).await;
    }
    match context.access.judge(&request.head, request.is_known) {
        AccessVerdict::Granted => {}
        AccessVerdict::NeedsCertificate => {
            return PageResponse::json(403, &json!({ "ok": false, "text": NEEDS_CERTIFICATE }));
        }
        AccessVerdict::NeedsToken => {
            return PageResponse::json(401, &json!({ "ok": false, "text": "a token is needed" }));
        }
        AccessVerdict::WrongHost => {
            return PageResponse::json(421, &json!({ "ok": false, "text": wrong_host(&request.head) }));
        }
    }
    let Some(what) = path.strip_prefix("/api/ask/") else { return PageResponse::text(404, "There is nothing here") };
    if !context.access.is_from_our_page(&request.head) {
        return PageResponse::json(403, &json!({ "ok": false, "text": not_our_page(&request.head) }));
    }
    let body = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
    let ask = match ControlQuestion::read(what, &body) {
        Ok(ask) => ask,
        Err(text) => return PageResponse::json(400, &json!({ "ok": false, "text": text })),
    };
    let refused = match () {
        () if !context.shared.options.cli => Some("the CLI isn't asked: started with --no-cli"),
        () if ask.is_change() && !context.shared.options.control => {
            Some("this changes the server: start with --control to allow it")
        }
        () if ask.shows_source() && !may_see_source(context) => {
            Some("this shows the source of the VCL: start with --token-file, --client-ca or --show-vcl")
        }
        () => None,
    };
    if let Some(text) = refused {
        return PageResponse::json(403, &json!({ "ok": false, "text": text }));
    }
    let Ok(_place) = context.asks.try_acquire() else {
        return PageResponse::json(503, &json!({ "ok": false, "text": "others are asking; try again" }));
    };
    let shared = Arc::clone(&context.shared);
    match tokio::task::spawn_blocking(move || control::ask(&shared, &ask)).await {
        Ok(answer) => PageResponse::json(200, &answer),
        Err(_) => PageResponse::json(500, &json!({ "ok": false, "text": "that failed" })),
    }
}

/// Delay of the response to a wrong token.
const WRONG_TOKEN: Duration = Duration::from_secs(1);

async fn log_in(context: &Context, body: &[u8]) -> PageResponse {
    let form = String::from_utf8_lossy(body).into_owned();
    let given = value(&form, "token").unwrap_or_default();
    match context.access.log_in(given.as_bytes()) {
        Some(login) => {
            let ending = context.access.cookie_ending();
            let cookie = format!("{COOKIE}={login}; HttpOnly; SameSite=Strict; Path=/{ending}");
            PageResponse::text(303, "Go on").with("Set-Cookie", cookie).with("Location", "./")
        }
        None => {
            rt::sleep(WRONG_TOKEN).await;
            PageResponse::new(401, HTML, LOGIN)
        }
    }
}

fn value(query: &str, name: &str) -> Option<String> {
    let raw = query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    let mut out = Vec::with_capacity(raw.len());
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'+' => out.push(b' '),
            b'%' => {
                let hex: Vec<u8> = bytes.by_ref().take(2).collect();
                out.push(u8::from_str_radix(std::str::from_utf8(&hex).ok()?, 16).ok()?);
            }
            _ => out.push(byte),
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_queries() {
        let v = |query, name| value(query, name);
        assert_eq!(v("q=ReqURL+~+%22%5E%2Fa%22&x=1", "q"), Some("ReqURL ~ \"^/a\"".to_owned()));
        assert_eq!(
            (v("xq=1", "q"), v("q=%zz", "q"), v("q=%f", "q"), v("q=%ff", "q")),
            (None, None, Some("\u{f}".to_owned()), None)
        );
        assert_eq!(v("q=", "q"), Some(String::new()));
    }

    #[test]
    fn the_page_is_small_and_loads_nothing_from_elsewhere() {
        let all = [PAGE, LOGIN, STYLE, SCRIPT];
        assert!(all.iter().map(|text| text.len()).sum::<usize>() < 200 << 10);
        // The SVG namespace is a name. Browsers don't load it.
        let names = |text: &str| text.replace("http://www.w3.org/2000/svg", "");
        assert!(all.iter().all(|text| !names(text).contains("http://") && !text.contains("https://")));
        assert!(!PAGE.contains("style=") && !PAGE.contains(" onclick") && !PAGE.contains("<script>"));
        assert!(
            !SCRIPT.contains("innerHTML")
                && !SCRIPT.contains("insertAdjacentHTML")
                && !SCRIPT.contains("document.write")
        );
    }
}
