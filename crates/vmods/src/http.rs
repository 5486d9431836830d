// SPDX-License-Identifier: BSD-2-Clause
//! vmod_http: requests out of VCL. Each is a task of the thread with a connection of its own (`client`); who waits for it is woken.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use base::Vxid;
use message::chars::is_token;
use shm::vsl::Marker;
use tables::Tag;
use tls::verify::Verify;
use vrt::questions::{MAX_AT_ONCE, VclRequest};
use vrt::vmod::{BLOB, BOOL, CallResult, INT, STRING, VOID, VmodCall, give, wait};
use vrt::{Blob, HeadId, Text, Value, Var, VclFailure};

use crate::support::client::{self, ClientAnswer, ClientRequest, ResponseSlot};
use vmod_support::args::fail;

/// Requests of a task.
const MAX: usize = 64;

vrt::vmod! {
    /// HTTP requests from VCL, to other servers or to this one. A request has a number, assigned by init(), and belongs to
    /// the task; a task may have 64. A request may take 30 s, and its response 10 MB. The certificate of an https server
    /// must be for its name and from an authority that the system trusts. A failed request has status 0, with the reason in
    /// the log
    pub(crate) static VMOD = http;

    needs { Authorities }

    functions {
        /// Starts a request: a GET without headers. Replaces an earlier request with this number
        fn init(n: INT) -> VOID, local = init;

        /// Sets the URL. Without one the request isn't sent
        fn req_set_url(n: INT, url: STRING) -> VOID, local = req_set_url;

        /// Sets the method
        fn req_set_method(n: INT, method: STRING) -> VOID, local
            = |call: &mut VmodCall<'_>, n: i64, method: &[u8]| set_method(call, n, method, "req_set_method");

        /// Copies the headers of req or bereq to the request, except those of the connection and the body
        fn req_copy_headers(n: INT) -> VOID, local = copy_to_request;

        /// Sets a header
        fn req_set_header(n: INT, name: STRING, value: STRING) -> VOID, local = req_set_header;

        /// Removes the headers of a name
        fn req_unset_header(n: INT, name: STRING) -> VOID, local = req_unset_header;

        /// Sets how deeply requests to this server may be nested (default 1); a deeper one isn't sent
        fn req_set_max_loops(n: INT, loops: INT) -> VOID, local = req_set_max_loops;

        /// Sets a numeric option by curl's name, with or without CURLOPT_: TIMEOUT, TIMEOUT_MS, CONNECTTIMEOUT,
        /// CONNECTTIMEOUT_MS; SSL_VERIFYHOST and SSL_VERIFYPEER (0 accepts a certificate for another name, or any
        /// certificate). Others fail
        fn req_set_iparam(n: INT, name: STRING, value: INT) -> VOID, local = set_number;

        /// Sets a string option by curl's name: POSTFIELDS (a body to POST), CUSTOMREQUEST, USERAGENT, REFERER, COOKIE.
        /// Others fail
        fn req_set_sparam(n: INT, name: STRING, value: STRING) -> VOID, local = set_text;

        /// Sends the request. VCL continues meanwhile
        fn req_send(n: INT) -> VOID = |call: &mut VmodCall<'_>, n: i64| send(call, n, "req_send");

        /// Sends the request and discards its response
        fn req_send_and_finish(n: INT) -> VOID = req_send_and_finish;

        /// Returns whether the request has been sent
        fn req_sent(n: INT) -> BOOL, local = req_sent;

        /// Waits for the response, or until the request has failed
        fn resp_wait(n: INT) -> VOID, local, waits = resp_wait;

        /// Returns whether the response is there
        fn resp_is_ready(n: INT) -> BOOL, local = resp_is_ready;

        /// Waits for the response and returns whether its status is 200 to 299. False if there is no response, so an
        /// authorisation check fails closed
        fn allowed(n: INT) -> BOOL, local, waits = allowed;

        /// Returns the status of the response; 0 while there is none, and if the request failed. An authorisation check
        /// must treat 0 as a refusal: VCL that only tests for 403 admits a request if the server can't be reached, 1,000
        /// requests are in progress, or requests are nested too deeply
        fn resp_get_status(n: INT) -> INT, local = resp_get_status;

        /// Returns the reason phrase of the response
        fn resp_get_reason(n: INT) -> STRING, local
            = |call: &mut VmodCall<'_>, n: i64| text(call, n, "resp_get_reason", |answer| Some(&answer.reason));

        /// Returns the value of the response's first header of a name
        fn resp_get_header(n: INT, name: STRING) -> STRING, local = resp_get_header;

        /// Copies the headers of the response to resp or beresp, except those of the connection and the body
        fn resp_copy_headers(n: INT) -> VOID, local = copy_to_response;

        /// Returns the number of bytes of the response's body
        fn resp_get_body_len(n: INT) -> INT, local = resp_get_body_len;

        /// Returns the body of the response
        fn resp_get_body(n: INT) -> STRING, local
            = |call: &mut VmodCall<'_>, n: i64| text(call, n, "resp_get_body", |answer| Some(&answer.body));

        /// Returns the body of the response as a blob
        fn resp_get_body_blob(n: INT) -> BLOB, local = resp_get_body_blob;

        /// Returns the URL of a path at this server's address of the client's connection
        fn varnish_url(path: STRING) -> STRING, local = varnish_url;

        /// Returns the transaction's URL at this server's address with the first number in it, or the first after prefix,
        /// increased by one; unset if there is no number
        fn prefetch_next_url(prefix: STRING = null) -> STRING, local = prefetch_next_url;
    }
}

fn init(call: &mut VmodCall<'_>, n: i64) -> CallResult<VOID> {
    let all = &mut call.ctx.task().get::<Handles>().0;
    if all.len() >= MAX && !all.contains_key(&n) {
        return fail(format!("http.init(): a task has no more than {MAX} requests"));
    }
    all.insert(n, Handle::default());
    give(())
}

fn req_set_url(call: &mut VmodCall<'_>, n: i64, url: Option<&Text>) -> CallResult<VOID> {
    change(call, n, "req_set_url", |handle| handle.request.url = lossy(url))
}

fn req_set_header(call: &mut VmodCall<'_>, n: i64, name: &[u8], value: &[u8]) -> CallResult<VOID> {
    set_field(call, n, name, value, "req_set_header")
}

fn req_unset_header(call: &mut VmodCall<'_>, n: i64, name: &[u8]) -> CallResult<VOID> {
    change(call, n, "req_unset_header", |handle| handle.request.unset(name))
}

fn req_set_max_loops(call: &mut VmodCall<'_>, n: i64, loops: i64) -> CallResult<VOID> {
    change(call, n, "req_set_max_loops", |handle| handle.max_loops = loops)
}

fn req_send_and_finish(call: &mut VmodCall<'_>, n: i64) -> CallResult<VOID> {
    send(call, n, "req_send_and_finish")?;
    call.ctx.task().get::<Handles>().0.remove(&n);
    give(())
}

fn req_sent(call: &mut VmodCall<'_>, n: i64) -> CallResult<BOOL> {
    let is_sent = handle(call, n, "req_sent")?.slot.is_some();
    give(is_sent)
}

fn resp_wait(call: &mut VmodCall<'_>, n: i64) -> CallResult<VOID> {
    let Some(slot) = handle(call, n, "resp_wait")?.slot.clone() else { return give(()) };
    wait(async move {
        slot.wait().await;
        Ok(())
    })
}

fn resp_is_ready(call: &mut VmodCall<'_>, n: i64) -> CallResult<BOOL> {
    let answer = answer(call, n, "resp_is_ready")?;
    give(answer.is_some())
}

fn resp_get_status(call: &mut VmodCall<'_>, n: i64) -> CallResult<INT> {
    let answer = answer(call, n, "resp_get_status")?;
    give(answer.map_or(0, |answer| i64::from(answer.status)))
}

fn allowed(call: &mut VmodCall<'_>, n: i64) -> CallResult<BOOL> {
    let Some(slot) = handle(call, n, "allowed")?.slot.clone() else { return give(false) };
    wait(async move { Ok(slot.wait().await.as_ref().is_ok_and(ClientAnswer::allows)) })
}

fn resp_get_header(call: &mut VmodCall<'_>, n: i64, name: &[u8]) -> CallResult<STRING> {
    text(call, n, "resp_get_header", |answer| {
        answer.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    })
}

fn resp_get_body_len(call: &mut VmodCall<'_>, n: i64) -> CallResult<INT> {
    let answer = answer(call, n, "resp_get_body_len")?;
    give(answer.map_or(0, |answer| answer.body.len() as i64))
}

fn resp_get_body_blob(call: &mut VmodCall<'_>, n: i64) -> CallResult<BLOB> {
    let answer = answer(call, n, "resp_get_body_blob")?;
    give(answer.map(|answer| Blob::new(answer.body.clone())))
}

fn varnish_url(call: &mut VmodCall<'_>, path: &[u8]) -> CallResult<STRING> {
    let url = here(call, path);
    give(url)
}

fn prefetch_next_url(call: &mut VmodCall<'_>, prefix: &[u8]) -> CallResult<STRING> {
    let own = |id: &HeadId| call.ctx.head(*id).map(|head| head.url().to_vec());
    let next = [HeadId::Req, HeadId::Bereq].iter().find_map(own).and_then(|url| next_url(&url, prefix));
    let url = next.and_then(|next| here(call, &next));
    give(url)
}

#[derive(Default)]
struct Handles(BTreeMap<i64, Handle>);

struct Handle {
    request: ClientRequest,
    max_loops: i64,
    slot: Option<Rc<ResponseSlot>>,
}

impl Default for Handle {
    fn default() -> Self {
        Handle { request: ClientRequest::default(), max_loops: 1, slot: None }
    }
}

fn lossy(text: Option<&Text>) -> String {
    text.map(|text| text.lossy().into_owned()).unwrap_or_default()
}

fn handle<'a>(call: &'a mut VmodCall<'_>, n: i64, who: &str) -> Result<&'a mut Handle, VclFailure> {
    let found = call.ctx.task().get::<Handles>().0.get_mut(&n);
    found.ok_or_else(|| VclFailure::new(format!("http.{who}(): init({n}) comes first")))
}

fn change(call: &mut VmodCall<'_>, n: i64, who: &str, change: impl FnOnce(&mut Handle)) -> CallResult<VOID> {
    change(handle(call, n, who)?);
    give(())
}

fn answer<'a>(call: &'a mut VmodCall<'_>, n: i64, who: &str) -> Result<Option<&'a ClientAnswer>, VclFailure> {
    let slot = handle(call, n, who)?.slot.as_ref();
    Ok(slot.and_then(|slot| slot.answer.get()).and_then(|answer| answer.as_ref().ok()))
}

fn text(
    call: &mut VmodCall<'_>,
    n: i64,
    who: &str,
    of: impl FnOnce(&ClientAnswer) -> Option<&Vec<u8>>,
) -> CallResult<STRING> {
    give(answer(call, n, who)?.and_then(of).map(|text| &text[..]))
}

fn set_method(call: &mut VmodCall<'_>, n: i64, method: &[u8], who: &str) -> CallResult<VOID> {
    if !is_token(method) {
        return fail(format!("http.{who}(): \"{}\" is no method", method.escape_ascii()));
    }
    handle(call, n, who)?.request.method = method.to_vec();
    give(())
}

fn set_field(call: &mut VmodCall<'_>, n: i64, name: &[u8], value: &[u8], who: &str) -> CallResult<VOID> {
    if let Some(reason) = client::bad_field(name, value) {
        return fail(format!("http.{who}(): {reason}"));
    }
    let request = &mut handle(call, n, who)?.request;
    request.unset(name);
    request.fields.push((name.to_vec(), value.to_vec()));
    give(())
}

fn copy_to_request(call: &mut VmodCall<'_>, n: i64) -> CallResult<VOID> {
    let fields = client::own_fields(call.ctx);
    let request = &mut handle(call, n, "req_copy_headers")?.request;
    fields.iter().for_each(|(name, _)| request.unset(name));
    request.fields.extend(fields);
    give(())
}

fn copy_to_response(call: &mut VmodCall<'_>, n: i64) -> CallResult<VOID> {
    let Some(answer) = answer(call, n, "resp_copy_headers")? else { return give(()) };
    let fields = answer.fields.clone();
    let Some(id) = [HeadId::Resp, HeadId::Beresp].into_iter().find(|id| call.ctx.edit(*id).is_some()) else {
        return fail("http.resp_copy_headers(): there is no response here");
    };
    for (name, value) in fields.iter().filter(|(name, _)| !client::is_of_connection(name)) {
        vrt::fields::set_field(call.ctx, id, name, value)?;
    }
    give(())
}

fn set_number(call: &mut VmodCall<'_>, n: i64, name: Option<&Text>, value: i64) -> CallResult<VOID> {
    let name = lossy(name);
    let Ok(value) = u64::try_from(value) else {
        return fail(format!("http.req_set_iparam(): {name} must not be negative"));
    };
    let request = &mut handle(call, n, "req_set_iparam")?.request;
    match name.strip_prefix("CURLOPT_").unwrap_or(&name) {
        "TIMEOUT" => request.limit = Duration::from_secs(value),
        "TIMEOUT_MS" => request.limit = Duration::from_millis(value),
        "CONNECTTIMEOUT" => request.connect_limit = Duration::from_secs(value),
        "CONNECTTIMEOUT_MS" => request.connect_limit = Duration::from_millis(value),
        "SSL_VERIFYPEER" => set_verify(&mut request.verify, value != 0, Verify::Nothing),
        "SSL_VERIFYHOST" => set_verify(&mut request.verify, value != 0, Verify::Chain),
        _ => return fail(format!("http.req_set_iparam(): {name} isn't built into Lacquer")),
    }
    give(())
}

/// Checks everything, or only what is left.
fn set_verify(verify: &mut Verify, is_checked: bool, left: Verify) {
    *verify = match (*verify, is_checked) {
        // Of a certificate that nobody vouches for the name says nothing.
        (Verify::Nothing, false) => Verify::Nothing,
        (_, false) => left,
        (before, true) if before == left => Verify::ChainAndName,
        (before, true) => before,
    };
}

fn set_text(call: &mut VmodCall<'_>, n: i64, name: Option<&Text>, value: &[u8]) -> CallResult<VOID> {
    const WHO: &str = "req_set_sparam";
    let (name, value) = (lossy(name), value);
    match name.strip_prefix("CURLOPT_").unwrap_or(&name) {
        "POSTFIELDS" => {
            let request = &mut handle(call, n, WHO)?.request;
            request.body = Some(value.to_vec());
            if request.method == b"GET" {
                request.method = b"POST".to_vec();
            }
            give(())
        }
        "CUSTOMREQUEST" => set_method(call, n, value, WHO),
        "USERAGENT" => set_field(call, n, b"User-Agent", value, WHO),
        "REFERER" => set_field(call, n, b"Referer", value, WHO),
        "COOKIE" => set_field(call, n, b"Cookie", value, WHO),
        _ => fail(format!("http.req_set_sparam(): {name} isn't built into Lacquer")),
    }
}

fn send(call: &mut VmodCall<'_>, n: i64, who: &str) -> CallResult<VOID> {
    let depth = client::depth(call.ctx);
    let ring = call.ctx.log().ring().clone();
    let handle = handle(call, n, who)?;
    if depth >= handle.max_loops || handle.request.url.is_empty() {
        handle.slot = Some(ResponseSlot::failed("not sent"));
        return give(());
    }
    let Some(question) = VclRequest::begin(depth, handle.request.host()) else {
        handle.slot = Some(ResponseSlot::failed("not sent"));
        call.ctx.log().putf(Tag::VclError, format_args!("http.{who}(): more than {MAX_AT_ONCE} requests at once"));
        return give(());
    };
    let mut request = handle.request.clone();
    request.name(&question);
    handle.slot = Some(ResponseSlot::fill(async move {
        let done = client::ask(&request).await;
        if let Err(reason) = &done {
            ring.write_onef(Tag::Error, Vxid::NONE, Marker::None, format_args!("vmod-http: {}: {reason}", request.url));
        }
        drop(question);
        done
    }));
    give(())
}

fn here(call: &mut VmodCall<'_>, path: &[u8]) -> Option<Vec<u8>> {
    let address = |var: Var| match call.ctx.get(var) {
        Value::Ip(Some(address)) => Some(address),
        _ => None,
    };
    let address: SocketAddr = [Var::LocalIp, Var::ServerIp].into_iter().find_map(address)?;
    let slash: &[u8] = if path.starts_with(b"/") { b"" } else { b"/" };
    Some([format!("http://{address}").as_bytes(), slash, path].concat())
}

/// A URL with the first number after `prefix` one higher, as long as it was.
fn next_url(url: &[u8], prefix: &[u8]) -> Option<Vec<u8>> {
    let from = if prefix.is_empty() { 0 } else { memchr::memmem::find(url, prefix)? + prefix.len() };
    let first = url[from..].iter().position(u8::is_ascii_digit)?;
    if !prefix.is_empty() && first > 0 {
        return None;
    }
    let begin = from + first;
    let len = url[begin..].iter().take_while(|b| b.is_ascii_digit()).count();
    let number: u64 = std::str::from_utf8(&url[begin..begin + len]).ok()?.parse().ok()?;
    let next = number.checked_add(1)?.to_string();
    let zeros = vec![b'0'; len.saturating_sub(next.len())];
    Some([&url[..begin], &zeros, next.as_bytes(), &url[begin + len..]].concat())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_next_url() {
        let next = |url: &str, prefix: &str| {
            next_url(url.as_bytes(), prefix.as_bytes()).map(|url| String::from_utf8_lossy(&url).into_owned())
        };
        assert_eq!(next("/vod/seg009.ts?t=5", "").as_deref(), Some("/vod/seg010.ts?t=5"));
        assert_eq!(next("/9", "").as_deref(), Some("/10"));
        assert_eq!(next("/1?page=7&x", "page=").as_deref(), Some("/1?page=8&x"));
        for (url, prefix) in [
            ("/a", ""),
            ("/1?page=x7", "page="),
            ("/1", "page="),
            ("/18446744073709551615", ""),
            ("/99999999999999999999", ""),
        ] {
            assert_eq!(next(url, prefix), None, "{url}");
        }
    }

    #[test]
    fn a_number_of_any_length() {
        let (before, after) = (vec![b'0'; 70_000], [vec![b'0'; 69_999], vec![b'1']].concat());
        assert_eq!(next_url(&before, b""), Some(after));
    }

    proptest! {
        #[test]
        fn any_url_has_a_next_one_or_none(url in "([ab/?=]{0,3}[0-9]{0,21}){0,3}", prefix in "[ab/?=]{0,2}") {
            if let Some(next) = next_url(url.as_bytes(), prefix.as_bytes()) {
                prop_assert!(next != url.as_bytes() && next.len() >= url.len() && next.len() <= url.len() + 1);
            }
        }
    }
}
