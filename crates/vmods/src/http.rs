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
use vrt::vmod::{Call, CallResult, Function, Vmod};
use vrt::{Blob, Failure, HeadId, Text, Value, Var};

use crate::args::{Args, fail, give, wait};
use crate::client::{self, Answer, MOST_AT_ONCE, Request, Slot, UnderWay};

/// Requests of a task.
const MOST: usize = 64;

/// vmod_http
pub(crate) static VMOD: Vmod = Vmod { name: "http", classes: &[], functions: FUNCTIONS };

const FUNCTIONS: &[(&str, Function)] = &[
    ("init", |call, args| {
        let all = &mut call.ctx.task().get::<Handles>().0;
        if all.len() >= MOST && !all.contains_key(&Args(args).int(0)) {
            return fail(format!("http.init(): a task has no more than {MOST} requests"));
        }
        all.insert(Args(args).int(0), Handle::default());
        give(Value::Void)
    }),
    ("req_set_url", |call, args| {
        change(call, args, "req_set_url", |handle, args| handle.request.url = lossy(args.text(1)))
    }),
    ("req_set_method", |call, args| set_method(call, args, 1, "req_set_method")),
    ("req_copy_headers", copy_to_request),
    ("req_set_header", |call, args| {
        set_field(call, args, Args(args).bytes_of(1), Args(args).bytes_of(2), "req_set_header")
    }),
    ("req_unset_header", |call, args| {
        change(call, args, "req_unset_header", |handle, args| handle.request.unset(args.bytes_of(1)))
    }),
    ("req_set_max_loops", |call, args| {
        change(call, args, "req_set_max_loops", |handle, args| handle.max_loops = args.int(1))
    }),
    ("req_set_iparam", set_number),
    ("req_set_sparam", set_text),
    ("req_send", |call, args| send(call, args, "req_send")),
    ("req_send_and_finish", |call, args| {
        send(call, args, "req_send_and_finish")?;
        call.ctx.task().get::<Handles>().0.remove(&Args(args).int(0));
        give(Value::Void)
    }),
    ("req_sent", |call, args| {
        let is_sent = handle(call, args, "req_sent")?.slot.is_some();
        give(Value::Bool(is_sent))
    }),
    ("resp_wait", |call, args| {
        let Some(slot) = handle(call, args, "resp_wait")?.slot.clone() else { return give(Value::Void) };
        wait(async move {
            slot.wait().await;
            Ok(Value::Void)
        })
    }),
    ("resp_is_ready", |call, args| {
        let answer = answer(call, args, "resp_is_ready")?;
        give(Value::Bool(answer.is_some()))
    }),
    ("resp_get_status", |call, args| {
        let answer = answer(call, args, "resp_get_status")?;
        give(Value::Int(answer.map_or(0, |answer| i64::from(answer.status))))
    }),
    ("resp_get_reason", |call, args| text(call, args, "resp_get_reason", |answer| Some(&answer.reason))),
    ("resp_get_header", |call, args| {
        let name = Args(args).bytes_of(1);
        text(call, args, "resp_get_header", |answer| {
            answer.fields.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
        })
    }),
    ("resp_copy_headers", copy_to_response),
    ("resp_get_body_len", |call, args| {
        let answer = answer(call, args, "resp_get_body_len")?;
        give(Value::Int(answer.map_or(0, |answer| answer.body.len() as i64)))
    }),
    ("resp_get_body", |call, args| text(call, args, "resp_get_body", |answer| Some(&answer.body))),
    ("resp_get_body_blob", |call, args| {
        let answer = answer(call, args, "resp_get_body_blob")?;
        give(Value::Blob(answer.map(|answer| Blob::new(answer.body.clone()))))
    }),
    ("varnish_url", |call, args| {
        let url = here(call, Args(args).bytes_of(0));
        give(url.map_or(Value::NULL, Value::text))
    }),
    ("prefetch_next_url", |call, args| {
        let prefix = Args(args).bytes_of(0);
        let own = |id: &HeadId| call.ctx.head(*id).map(|head| head.url().to_vec());
        let next = [HeadId::Req, HeadId::Bereq].iter().find_map(own).and_then(|url| next_url(&url, prefix));
        let url = next.and_then(|next| here(call, &next));
        give(url.map_or(Value::NULL, Value::text))
    }),
];

/// The requests of a task.
#[derive(Default)]
struct Handles(BTreeMap<i64, Handle>);

struct Handle {
    request: Request,
    max_loops: i64,
    slot: Option<Rc<Slot>>,
}

impl Default for Handle {
    fn default() -> Self {
        Handle { request: Request::default(), max_loops: 1, slot: None }
    }
}

fn lossy(text: Option<&Text>) -> String {
    text.map(|text| text.lossy().into_owned()).unwrap_or_default()
}

fn handle<'a>(call: &'a mut Call<'_>, args: &[Value], who: &str) -> Result<&'a mut Handle, Failure> {
    let n = Args(args).int(0);
    let found = call.ctx.task().get::<Handles>().0.get_mut(&n);
    found.ok_or_else(|| Failure::new(format!("http.{who}(): init({n}) comes first")))
}

fn change(call: &mut Call<'_>, args: &[Value], who: &str, change: impl FnOnce(&mut Handle, Args<'_>)) -> CallResult {
    change(handle(call, args, who)?, Args(args));
    give(Value::Void)
}

fn answer<'a>(call: &'a mut Call<'_>, args: &[Value], who: &str) -> Result<Option<&'a Answer>, Failure> {
    let slot = handle(call, args, who)?.slot.as_ref();
    Ok(slot.and_then(|slot| slot.answer.get()).and_then(|answer| answer.as_ref().ok()))
}

fn text(call: &mut Call<'_>, args: &[Value], who: &str, of: impl FnOnce(&Answer) -> Option<&Vec<u8>>) -> CallResult {
    let found = answer(call, args, who)?.and_then(of).map(|text| Value::text(&text[..]));
    give(found.unwrap_or(Value::NULL))
}

fn set_method(call: &mut Call<'_>, args: &[Value], at: usize, who: &str) -> CallResult {
    let method = Args(args).bytes_of(at);
    if !is_token(method) {
        return fail(format!("http.{who}(): \"{}\" is no method", method.escape_ascii()));
    }
    handle(call, args, who)?.request.method = method.to_vec();
    give(Value::Void)
}

fn set_field(call: &mut Call<'_>, args: &[Value], name: &[u8], value: &[u8], who: &str) -> CallResult {
    if let Some(why) = client::bad_field(name, value) {
        return fail(format!("http.{who}(): {why}"));
    }
    let request = &mut handle(call, args, who)?.request;
    request.unset(name);
    request.fields.push((name.to_vec(), value.to_vec()));
    give(Value::Void)
}

fn copy_to_request(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let fields = client::own_fields(call.ctx);
    let request = &mut handle(call, args, "req_copy_headers")?.request;
    fields.iter().for_each(|(name, _)| request.unset(name));
    request.fields.extend(fields);
    give(Value::Void)
}

fn copy_to_response(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let Some(answer) = answer(call, args, "resp_copy_headers")? else { return give(Value::Void) };
    let fields = answer.fields.clone();
    let Some(id) = [HeadId::Resp, HeadId::Beresp].into_iter().find(|id| call.ctx.edit(*id).is_some()) else {
        return fail("http.resp_copy_headers(): there is no response here");
    };
    for (name, value) in fields.iter().filter(|(name, _)| !client::is_of_connection(name)) {
        vrt::fields::set_field(call.ctx, id, name, value)?;
    }
    give(Value::Void)
}

fn set_number(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let name = lossy(Args(args).text(1));
    let Ok(value) = u64::try_from(Args(args).int(2)) else {
        return fail(format!("http.req_set_iparam(): {name} must not be negative"));
    };
    let request = &mut handle(call, args, "req_set_iparam")?.request;
    match name.strip_prefix("CURLOPT_").unwrap_or(&name) {
        "TIMEOUT" => request.limit = Duration::from_secs(value),
        "TIMEOUT_MS" => request.limit = Duration::from_millis(value),
        "CONNECTTIMEOUT" => request.connect_limit = Duration::from_secs(value),
        "CONNECTTIMEOUT_MS" => request.connect_limit = Duration::from_millis(value),
        // Of TLS, which there is none of.
        "SSL_VERIFYHOST" | "SSL_VERIFYPEER" => {}
        _ => return fail(format!("http.req_set_iparam(): {name} isn't built into Lacquer")),
    }
    give(Value::Void)
}

fn set_text(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    const WHO: &str = "req_set_sparam";
    let (name, value) = (lossy(Args(args).text(1)), Args(args).bytes_of(2));
    match name.strip_prefix("CURLOPT_").unwrap_or(&name) {
        "POSTFIELDS" => {
            let request = &mut handle(call, args, WHO)?.request;
            request.body = Some(value.to_vec());
            if request.method == b"GET" {
                request.method = b"POST".to_vec();
            }
            give(Value::Void)
        }
        "CUSTOMREQUEST" => set_method(call, args, 2, WHO),
        "USERAGENT" => set_field(call, args, b"User-Agent", value, WHO),
        "REFERER" => set_field(call, args, b"Referer", value, WHO),
        "COOKIE" => set_field(call, args, b"Cookie", value, WHO),
        _ => fail(format!("http.req_set_sparam(): {name} isn't built into Lacquer")),
    }
}

fn send(call: &mut Call<'_>, args: &[Value], who: &str) -> CallResult {
    let depth = client::depth(call.ctx);
    let ring = call.ctx.log().ring().clone();
    let handle = handle(call, args, who)?;
    if depth >= handle.max_loops || handle.request.url.is_empty() {
        handle.slot = Some(Slot::failed("not sent"));
        return give(Value::Void);
    }
    let Some(under_way) = UnderWay::new() else {
        handle.slot = Some(Slot::failed("not sent"));
        call.ctx.log().putf(Tag::VclError, format_args!("http.{who}(): more than {MOST_AT_ONCE} requests at once"));
        return give(Value::Void);
    };
    let mut request = handle.request.clone();
    request.deepen(depth);
    handle.slot = Some(Slot::fill(async move {
        let done = client::ask(&request).await;
        if let Err(why) = &done {
            ring.write_onef(Tag::Error, Vxid::NONE, Marker::None, format_args!("vmod-http: {}: {why}", request.url));
        }
        drop(under_way);
        done
    }));
    give(Value::Void)
}

/// The URL of a path here.
fn here(call: &mut Call<'_>, path: &[u8]) -> Option<Vec<u8>> {
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
