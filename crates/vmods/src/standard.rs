// SPDX-License-Identifier: BSD-2-Clause
//! vmod_std(3).

mod address;
mod conversions;
mod files;
mod number;
mod query;
pub(crate) mod strftime;

use std::sync::Arc;

use address::Quick;
use base::fnmatch;
use files::{Contents, Last};
use tables::Tag;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Blob, HeadId, Method, Text, Value};

use crate::args::{Args, fail, give, wait};

/// vmod_std(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "std",
    classes: &[],
    functions: &[
        ("random", random),
        ("round", |_, args| give(Value::Real(Args(args).real(0).round()))),
        ("collect", collect),
        ("querysort", querysort),
        ("toupper", |_, args| change_case(args, <[u8]>::make_ascii_uppercase)),
        ("tolower", |_, args| change_case(args, <[u8]>::make_ascii_lowercase)),
        ("strstr", strstr),
        ("fnmatch", fnmatch),
        ("fileread", |call, args| read(call, args, as_text)),
        ("blobread", |call, args| read(call, args, as_blob)),
        ("file_exists", file_exists),
        ("healthy", healthy),
        ("port", |_, args| give(Value::Int(Args(args).ip(0).map_or(0, |addr| addr.port().into())))),
        ("duration", |_, args| give(Value::Duration(conversions::duration(Args(args))?))),
        ("bytes", |_, args| give(Value::Bytes(conversions::bytes(Args(args))?))),
        ("integer", |_, args| give(Value::Int(conversions::integer(Args(args))?))),
        ("ip", ip),
        ("real", |_, args| give(Value::Real(conversions::real(Args(args))?))),
        ("time", |_, args| give(Value::Time(conversions::time(Args(args))?))),
        ("strftime", strftime),
        ("log", log),
        ("syslog", syslog),
        ("timestamp", timestamp),
        ("rfc_ttl", |call, _| match call.method {
            Method::BackendResponse => {
                call.ctx.rfc_ttl()?;
                give(Value::Void)
            }
            _ => fail("std.rfc_ttl() is for vcl_backend_response"),
        }),
        ("now", |call, _| give(Value::Time(call.ctx.clock().real().0))),
        ("syntax", syntax),
        ("getenv", getenv),
        ("cache_req_body", cache_req_body),
        ("late_100_continue", late_100_continue),
        ("set_ip_tos", set_ip_tos),
        ("rollback", rollback),
        ("ban", ban),
        ("ban_error", ban_error),
        ("real2integer", |_, args| give(Value::Int(conversions::real2integer(Args(args))))),
        ("real2time", |_, args| give(Value::Time(conversions::or_fallback(Args(args))))),
        ("time2integer", |_, args| give(Value::Int(conversions::time2integer(Args(args))))),
        ("time2real", |_, args| give(Value::Real(conversions::or_fallback(Args(args))))),
    ],
};

/// In `vcl_init` and `vcl_fini` nobody else waits for this thread, and nothing may run there that waits.
pub(crate) fn may_block(method: Method) -> bool {
    matches!(method, Method::Init | Method::Fini)
}

/// Runs what blocks where it may.
pub(crate) fn off_thread(method: Method, call: impl FnOnce() -> Value + Send + 'static) -> CallResult {
    if may_block(method) { give(call()) } else { wait(async { Ok(rt::blocking(call).await) }) }
}

fn random(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (low, high) = (Args(args).real(0), Args(args).real(1));
    give(Value::Real(call.ctx.random() * (high - low) + low))
}

fn collect(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let Value::Header(head, name) = &args[0] else { return fail("std.collect(): header argument is NULL") };
    let separator = Args(args).text(1).map_or(&b", "[..], |text| text.as_bytes());
    match call.ctx.edit(*head) {
        Some((head, log)) => {
            if head.collect_with(name, separator).is_err() {
                log.put(Tag::LostHeader, name);
            }
            give(Value::Void)
        }
        None => fail("std.collect(): header argument can not be used here"),
    }
}

pub(crate) fn querysort(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let Some(url) = Args(args).text(0) else { return give(Value::NULL) };
    give(Value::String(Some(query::sort(url).map_or_else(|| url.clone(), Text::from))))
}

fn change_case(args: &[Value], change: fn(&mut [u8])) -> CallResult {
    let mut text = Args(args).bytes_of(0).to_vec();
    change(&mut text);
    give(Value::text(text))
}

fn strstr(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let (Some(text), Some(part)) = (Args(args).text(0), Args(args).text(1)) else { return give(Value::NULL) };
    let found = memchr::memmem::find(text, part);
    give(Value::String(found.map(|at| Text::copy(&text[at..]))))
}

fn fnmatch(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let Some(pattern) = args.text(0) else { return fail("std.fnmatch(): pattern is NULL") };
    let Some(subject) = args.text(1) else { return fail("std.fnmatch(): subject is NULL") };
    let flags = fnmatch::Flags { pathname: args.bool(2), noescape: args.bool(3), period: args.bool(4) };
    give(Value::Bool(fnmatch::matches(pattern, subject, flags)))
}

/// A STRING ends before the first NUL.
fn as_text(contents: Option<Contents>) -> Value {
    Value::String(contents.map(|contents| match memchr::memchr(0, &contents) {
        Some(end) => Text::copy(&contents[..end]),
        None => Text::from(contents),
    }))
}

fn as_blob(contents: Option<Contents>) -> Value {
    Value::Blob(contents.map(Blob::new))
}

fn read(call: &mut Call<'_>, args: &[Value], show: fn(Option<Contents>) -> Value) -> CallResult {
    let Some(name) = Args(args).text(0).cloned() else { return give(show(None)) };
    let last: Arc<Last> = call.site.get_or(Last::default);
    match last.known(&name) {
        Some(contents) => give(show(Some(contents))),
        None => off_thread(call.method, move || show(last.read(&name))),
    }
}

fn file_exists(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let Some(name) = Args(args).text(0).cloned() else { return give(Value::Bool(false)) };
    off_thread(call.method, move || Value::Bool(files::path(&name).exists()))
}

fn healthy(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    give(Value::Bool(Args(args).backend(0).is_some_and(|backend| call.ctx.healthy(backend))))
}

fn ip(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let fallback = match (args.given(1), args.given(1).then(|| args.ip(1)).flatten()) {
        (true, None) => return fail("std.ip: invalid fallback"),
        (_, fallback) => fallback,
    };
    let finish = move |found: Option<_>| match found.or(fallback) {
        Some(addr) => Ok(Value::Ip(Some(addr))),
        None => fail("std.ip: conversion failed"),
    };
    let port = args.text(3).map_or(&b"80"[..], |text| text.as_bytes());
    let quick = args.text(0).map_or(Quick::Wrong, |text| address::read(text, port));
    match quick {
        Quick::Known(addr) => finish(Some(addr)).map(Into::into),
        Quick::Ask(host, port) if args.bool(2) && may_block(call.method) => {
            finish(address::look_up(&host, &port)).map(Into::into)
        }
        Quick::Ask(host, port) if args.bool(2) => {
            wait(async move { finish(rt::blocking(move || address::look_up(&host, &port)).await) })
        }
        Quick::Ask(..) | Quick::Wrong => finish(None).map(Into::into),
    }
}

fn strftime(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    give(Value::text(strftime::format(args.real(0), args.bytes_of(1)).unwrap_or_default()))
}

fn log(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    call.ctx.log().put(Tag::VclLog, Args(args).bytes_of(0));
    give(Value::Void)
}

/// Sent as a datagram, so that a log daemon that hangs holds nobody up; lost when there is none, as with syslog(3).
fn syslog(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    const LOCAL0: i64 = 16 << 3;
    let args = Args(args);
    let priority = if args.int(0) & !7 == 0 { args.int(0) | LOCAL0 } else { args.int(0) & 0x3ff };
    let mut line = format!("<{priority}>varnishd[{}]: ", std::process::id()).into_bytes();
    line.extend_from_slice(args.bytes_of(1));
    let send = || {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to(&line, "/dev/log")
    };
    // Nowhere to report it: this is the report.
    let _ = send();
    give(Value::Void)
}

fn timestamp(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    if let Some(label) = Args(args).text(0).filter(|label| !label.is_empty())
        && !may_block(call.method)
    {
        let now = call.ctx.clock().real();
        call.ctx.log().timestamp(&label.lossy(), now);
    }
    give(Value::Void)
}

fn syntax(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    // 4.1 isn't exact in binary.
    let wanted = (Args(args).real(0) * 10.0).round();
    give(Value::Bool(wanted <= f64::from(call.vcl.program.syntax)))
}

fn getenv(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    use std::os::unix::ffi::OsStrExt;
    let name = Args(args).bytes_of(0);
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return give(Value::NULL);
    }
    let value = std::env::var_os(std::ffi::OsStr::from_bytes(name));
    give(Value::String(value.map(|value| Text::copy(value.as_bytes()))))
}

fn cache_req_body(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let future = call.ctx.cache_req_body(Args(args).int(0).max(0) as u64)?;
    wait(async { Ok(Value::Bool(future.await)) })
}

fn late_100_continue(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    if call.method == Method::Recv {
        call.ctx.late_100_continue(Args(args).bool(0));
    } else {
        call.ctx.log().put(Tag::VclError, b"std.late_100_continue() only valid in vcl_recv{}");
    }
    give(Value::Void)
}

fn set_ip_tos(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    call.ctx.set_ip_tos(Args(args).int(0))?;
    give(Value::Void)
}

fn rollback(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    match args[0] {
        Value::Http(head @ (HeadId::Req | HeadId::Bereq)) => call.ctx.rollback(head)?,
        _ => return fail("std.rollback(): only req and bereq can be rolled back"),
    }
    give(Value::Void)
}

/// Why the last ban of this task failed.
#[derive(Default)]
struct BanError(Option<String>);

fn ban(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let done = vrt::ctx::ban(call.ctx, Args(args).text(0).map(|text| text.as_bytes()));
    let ok = done.is_ok();
    *call.ctx.task().get::<BanError>() = BanError(done.err());
    give(Value::Bool(ok))
}

fn ban_error(call: &mut Call<'_>, _: &[Value]) -> CallResult {
    let error = call.ctx.task().get::<BanError>().0.clone().unwrap_or_default();
    give(Value::text(error))
}
