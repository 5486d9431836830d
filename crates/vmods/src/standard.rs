// SPDX-License-Identifier: BSD-2-Clause
//! vmod_std(3).

mod address;
mod conversions;
mod files;
mod number;
mod query;
pub(crate) mod strftime;

use std::net::SocketAddr;
use std::sync::Arc;

use address::Quick;
use base::fnmatch;
use conversions::{ToInteger, ToReal};
use files::{Contents, Last};
use tables::Tag;
use vrt::vmod::kinds::Plain;
use vrt::vmod::{BOOL, CallResult, IP, Methods, REAL, STRING, VOID, VmodCall, give, wait};
use vrt::{BackendRef, Blob, HeadId, Method, Text};

use vmod_support::args::{fail, may_block};

vrt::vmod! {
    /// Common functions: conversions, strings, logging, files
    pub(crate) static VMOD = std;

    functions {
        /// Returns a random number between lo and hi
        fn random(lo: REAL, hi: REAL) -> REAL, local = random;

        /// Rounds r to the nearest integer, halves away from zero
        fn round(r: REAL) -> REAL, pure = |_, r: f64| r.round();

        /// Joins all headers of one name into the first, separated by sep
        fn collect(hdr: HEADER, sep: STRING = ", ") -> VOID, local = collect;

        /// Returns the URL with its query arguments sorted
        fn querysort(_: STRING) -> STRING, pure = querysort;

        /// Returns s in ASCII upper case
        fn toupper(s: STRANDS) -> STRING, pure = |_, s: &[u8]| change_case(s, <[u8]>::make_ascii_uppercase);

        /// Returns s in ASCII lower case
        fn tolower(s: STRANDS) -> STRING, pure = |_, s: &[u8]| change_case(s, <[u8]>::make_ascii_lowercase);

        /// Returns s1 from the first occurrence of s2 in it; unset if there is none
        fn strstr(s1: STRING, s2: STRING) -> STRING, pure = strstr;

        /// Returns whether the whole subject matches a shell pattern
        fn fnmatch(
            pattern: STRING, subject: STRING, pathname: BOOL = true, noescape: BOOL = false, period: BOOL =
            false
        ) -> BOOL, local = fnmatch;

        /// Returns the content of a file, which is read at the first call and kept while the VCL is loaded
        fn fileread(_: STRING) -> STRING, local, blocks = |call: &mut VmodCall<'_>, name: Option<&Text>| read(call, name, as_text);

        /// Returns the content of a file as a blob, as fileread
        fn blobread(_: STRING) -> BLOB, local, blocks = |call: &mut VmodCall<'_>, name: Option<&Text>| read(call, name, as_blob);

        /// Returns whether the file exists
        fn file_exists(path: STRING) -> BOOL, local, blocks = file_exists;

        /// Returns whether the backend or director is healthy
        fn healthy(be: BACKEND) -> BOOL, local = healthy;

        /// Returns the port of an address; -1 when there is none
        fn port(ip: IP) -> INT, pure = |_, ip: Option<SocketAddr>| ip.map_or(0, |addr| addr.port().into());

        /// Converts a string with a unit, or a number of seconds, to a duration; otherwise returns the fallback
        fn duration(s: [STRING], fallback: [DURATION], real: [REAL], integer: [INT]) -> DURATION, local = conversions::duration;

        /// Converts a string with an optional unit, or a number, to a byte size; otherwise returns the fallback
        fn bytes(s: [STRING], fallback: [BYTES], real: [REAL], integer: [INT]) -> BYTES, local = conversions::bytes;

        /// Converts a string or another type to an integer, truncating fractions; otherwise returns the fallback
        fn integer(..ToInteger<'_>) -> INT, local = conversions::integer;

        /// Converts s (an address, or a host name unless resolve is false) to an address with port p; otherwise returns the
        /// fallback
        fn ip(s: STRING, fallback: [IP], resolve: BOOL = true, p: [STRING]) -> IP, local, waits = ip;

        /// Converts a string or another type to a real number; otherwise returns the fallback
        fn real(..ToReal<'_>) -> REAL, local = conversions::real;

        /// Converts an HTTP date, ISO 8601 or seconds since 1970 to a time; otherwise returns the fallback
        fn time(s: [STRING], fallback: [TIME], real: [REAL], integer: [INT]) -> TIME, local = conversions::time;

        /// Formats a time in UTC with a strftime(3) format; unset on an error
        fn strftime(time: TIME, format: STRING) -> STRING, pure = strftime;

        /// Logs s as VCL_Log
        fn log(s: STRANDS) -> VOID, local = log;

        /// Sends s to syslog
        fn syslog(priority: INT, s: STRANDS) -> VOID = syslog;

        /// Logs a Timestamp record with the name s
        fn timestamp(s: STRING) -> VOID, local, only(Methods::CLIENT.with(Methods::BACKEND)) = timestamp;

        /// Sets ttl, grace and keep of beresp again from its current status and headers
        fn rfc_ttl() -> VOID, local, restrict(Method::BackendResponse.set().with(Method::BackendRefresh.set())) = rfc_ttl;

        /// Returns the current time; the variable `now` is the time when the subroutine began
        fn now() -> TIME, local = |call: &mut VmodCall<'_>| call.ctx.clock().real().0;

        /// Calls the subroutine and returns how long that took
        fn timed_call(_: SUB) -> DURATION = |_, _: u32| fail::<f64>("std.timed_call: the compiler replaces this call");

        /// Returns whether the VCL's version is at least the given one
        fn syntax(_: REAL) -> BOOL, local = syntax;

        /// Returns an environment variable of the process; unset if it doesn't exist
        fn getenv(name: STRING) -> STRING, local = getenv;

        /// Reads and caches the request's body, up to size bytes, so it can be sent more than once. Returns false if it is
        /// larger or incomplete. Then VCL can return synth or restart; with any other action the connection is closed
        /// without a response
        fn cache_req_body(size: BYTES) -> BOOL, local, waits, restrict(Method::Recv.set()) = cache_req_body;

        /// Sets whether 100 (Continue) is only sent when the body is needed
        fn late_100_continue(late: BOOL) -> VOID, local, restrict(Method::Recv.set()) = late_100_continue;

        /// Sets the type-of-service bits of the client's connection
        fn set_ip_tos(tos: INT) -> VOID, restrict(Methods::CLIENT) = set_ip_tos;

        /// Restores req or bereq as it was at the start
        fn rollback(h: HTTP) -> VOID, local, restrict(Methods::CLIENT.without(Method::Pipe).with(Methods::BACKEND)) = rollback;

        /// Adds a ban; returns false if it is invalid (see ban_error)
        fn ban(_: STRING) -> BOOL, local, only(Methods::CLIENT.with(Methods::BACKEND)) = ban;

        /// Returns why this task's last ban failed; empty if it didn't
        fn ban_error() -> STRING, local, only(Methods::CLIENT.with(Methods::BACKEND)) = ban_error;

        /// Old name of integer(real=)
        fn real2integer(r: REAL, fallback: INT) -> INT, local
            = |_, r: f64, fallback: i64| conversions::real2integer(r, fallback);

        /// Old name of time(real=)
        fn real2time(r: REAL, fallback: TIME) -> TIME, local
            = |_, r: f64, fallback: f64| conversions::or_fallback(r, fallback);

        /// Old name of integer(time=)
        fn time2integer(t: TIME, fallback: INT) -> INT, local
            = |_, t: f64, fallback: i64| conversions::time2integer(t, fallback);

        /// Old name of real(time=)
        fn time2real(t: TIME, fallback: REAL) -> REAL, local
            = |_, t: f64, fallback: f64| conversions::or_fallback(t, fallback);
    }
}

fn rfc_ttl(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    match call.method {
        Method::BackendResponse | Method::BackendRefresh => give(call.ctx.rfc_ttl()?),
        _ => fail("std.rfc_ttl() is for vcl_backend_response and vcl_backend_refresh"),
    }
}

/// Runs what blocks where it may.
pub(crate) fn off_thread<K, T: Plain<K> + Send + 'static>(
    method: Method,
    call: impl FnOnce() -> T + Send + 'static,
) -> CallResult<K> {
    if may_block(method) {
        give(call())
    } else {
        wait(async { Ok(rt::blocking(call).await.map_err(rt::NoThread::text)?) })
    }
}

fn random(call: &mut VmodCall<'_>, low: f64, high: f64) -> CallResult<REAL> {
    give(call.ctx.random() * (high - low) + low)
}

fn collect(call: &mut VmodCall<'_>, hdr: (HeadId, &Text), sep: Option<&Text>) -> CallResult<VOID> {
    let (head, name) = hdr;
    let separator = sep.map_or(&b", "[..], |text| text.as_bytes());
    vrt::fields::check_value(separator, b"separator")?;
    match call.ctx.edit(head) {
        Some((head, log)) => {
            if head.collect_with(name, separator).is_err() {
                log.lost_header(&[name]);
            }
            give(())
        }
        None => fail("std.collect(): header argument can not be used here"),
    }
}

pub(crate) fn querysort(_: &mut VmodCall<'_>, text2: Option<&Text>) -> CallResult<STRING> {
    let Some(url) = text2 else { return give(None::<Text>) };
    give(Some(query::sort(url).map_or_else(|| url.clone(), Text::from)))
}

fn change_case(s: &[u8], change: fn(&mut [u8])) -> CallResult<STRING> {
    let mut text = s.to_vec();
    change(&mut text);
    give(text)
}

fn strstr(_: &mut VmodCall<'_>, s1: Option<&Text>, s2: Option<&Text>) -> CallResult<STRING> {
    let (Some(text), Some(part)) = (s1, s2) else { return give(None::<Text>) };
    let found = memchr::memmem::find(text, part);
    give(found.map(|at| Text::copy(&text[at..])))
}

fn fnmatch(
    _: &mut VmodCall<'_>,
    pattern: Option<&Text>,
    subject: Option<&Text>,
    pathname: bool,
    noescape: bool,
    period: bool,
) -> CallResult<BOOL> {
    let Some(pattern) = pattern else { return fail("std.fnmatch(): pattern is NULL") };
    let Some(subject) = subject else { return fail("std.fnmatch(): subject is NULL") };
    let flags = fnmatch::MatchFlags { pathname, noescape, period };
    give(fnmatch::matches(pattern, subject, flags))
}

/// A STRING ends before the first NUL.
fn as_text(contents: Option<Contents>) -> Option<Text> {
    contents.map(|contents| match memchr::memchr(0, &contents) {
        Some(end) => Text::copy(&contents[..end]),
        None => Text::from(contents),
    })
}

fn as_blob(contents: Option<Contents>) -> Option<Blob> {
    contents.map(Blob::new)
}

fn read<K, T: Plain<K> + Send + 'static>(
    call: &mut VmodCall<'_>,
    name: Option<&Text>,
    show: fn(Option<Contents>) -> T,
) -> CallResult<K> {
    let Some(name) = name.cloned() else { return give(show(None)) };
    // A trial leaves this place in VCL the file that it has.
    let last = if call.ctx.trial().is_some() { Arc::default() } else { call.site.get_or(Last::default) };
    match last.known(&name) {
        Some(contents) => give(show(Some(contents))),
        None => off_thread(call.method, move || show(last.read(&name))),
    }
}

fn file_exists(call: &mut VmodCall<'_>, path: Option<&Text>) -> CallResult<BOOL> {
    let Some(name) = path.cloned() else { return give(false) };
    off_thread(call.method, move || files::path(&name).exists())
}

fn healthy(call: &mut VmodCall<'_>, be: Option<&BackendRef>) -> CallResult<BOOL> {
    give(be.is_some_and(|backend| call.ctx.healthy(backend)))
}

fn ip(
    call: &mut VmodCall<'_>,
    s: Option<&Text>,
    fallback: Option<Option<SocketAddr>>,
    resolve: bool,
    p: Option<&Text>,
) -> CallResult<IP> {
    let fallback = match fallback {
        Some(None) => return fail("std.ip: invalid fallback"),
        fallback => fallback.flatten(),
    };
    let finish = move |found: Option<_>| match found.or(fallback) {
        Some(addr) => Ok(addr),
        None => fail("std.ip: conversion failed"),
    };
    let port = p.map_or(&b"80"[..], |text| text.as_bytes());
    let read = s.map_or(Quick::Wrong, |text| address::read(text, port));
    if let Quick::Ask(host, _) = &read
        && resolve
        && let Some(list) = call.ctx.trial()
    {
        let instead = if fallback.is_some() { "the fallback" } else { "no address" };
        list.push(format!("look up {host} for std.ip(), and go on with {instead} here"));
        return give(fallback);
    }
    match read {
        Quick::Known(addr) => give(finish(Some(addr))?),
        Quick::Ask(host, port) if resolve && may_block(call.method) => give(finish(address::look_up(&host, &port))?),
        Quick::Ask(host, port) if resolve => {
            wait(async move {
                // A name that can't be looked up now is one without an address.
                finish(rt::blocking_lookup(move || address::look_up(&host, &port)).await.unwrap_or_default())
            })
        }
        Quick::Ask(..) | Quick::Wrong => give(finish(None)?),
    }
}

fn strftime(_: &mut VmodCall<'_>, time: f64, format2: &[u8]) -> CallResult<STRING> {
    give(strftime::format(time, format2).unwrap_or_default())
}

fn log(call: &mut VmodCall<'_>, s: &[u8]) -> CallResult<VOID> {
    call.ctx.log().put(Tag::VclLog, s);
    give(())
}

/// Sent as a datagram, so that a log daemon that hangs holds nobody up; lost when there is none, as with syslog(3).
fn syslog(_: &mut VmodCall<'_>, priority: i64, s: &[u8]) -> CallResult<VOID> {
    const LOCAL0: i64 = 16 << 3;
    let priority = if priority & !7 == 0 { priority | LOCAL0 } else { priority & 0x3ff };
    let mut line = format!("<{priority}>varnishd[{}]: ", std::process::id()).into_bytes();
    line.extend_from_slice(s);
    let send = || {
        let socket = std::os::unix::net::UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        socket.send_to(&line, "/dev/log")
    };
    // Nowhere to report it: this is the report.
    let _ = send();
    give(())
}

fn timestamp(call: &mut VmodCall<'_>, s: Option<&Text>) -> CallResult<VOID> {
    if let Some(label) = s.filter(|label| !label.is_empty())
        && !may_block(call.method)
    {
        let now = call.ctx.clock().real();
        call.ctx.log().timestamp(&label.lossy(), now);
    }
    give(())
}

fn syntax(call: &mut VmodCall<'_>, number: f64) -> CallResult<BOOL> {
    // 4.1 isn't exact in binary.
    let wanted = (number * 10.0).round();
    give(wanted <= f64::from(call.vcl.program.syntax))
}

fn getenv(_: &mut VmodCall<'_>, name: &[u8]) -> CallResult<STRING> {
    use std::os::unix::ffi::OsStrExt;
    if name.is_empty() || name.contains(&b'=') || name.contains(&0) {
        return give(None::<Text>);
    }
    let value = std::env::var_os(std::ffi::OsStr::from_bytes(name));
    give(value.map(|value| Text::copy(value.as_bytes())))
}

fn cache_req_body(call: &mut VmodCall<'_>, size: i64) -> CallResult<BOOL> {
    let future = call.ctx.cache_req_body(size.max(0) as u64)?;
    wait(async { Ok(future.await) })
}

fn late_100_continue(call: &mut VmodCall<'_>, late: bool) -> CallResult<VOID> {
    if call.method == Method::Recv {
        call.ctx.late_100_continue(late);
    } else {
        call.ctx.log().put(Tag::VclError, b"std.late_100_continue() only valid in vcl_recv{}");
    }
    give(())
}

fn set_ip_tos(call: &mut VmodCall<'_>, tos: i64) -> CallResult<VOID> {
    call.ctx.set_ip_tos(tos)?;
    give(())
}

fn rollback(call: &mut VmodCall<'_>, h: HeadId) -> CallResult<VOID> {
    match h {
        HeadId::Req | HeadId::Bereq => call.ctx.rollback(h)?,
        _ => return fail("std.rollback(): only req and bereq can be rolled back"),
    }
    give(())
}

#[derive(Default)]
struct BanError(Option<String>);

fn ban(call: &mut VmodCall<'_>, text2: Option<&Text>) -> CallResult<BOOL> {
    call.ctx.may_invalidate()?;
    let done = vrt::ctx::ban(call.ctx, text2.map(|text| text.as_bytes()));
    let ok = done.is_ok();
    *call.ctx.task().get::<BanError>() = BanError(done.err());
    give(ok)
}

fn ban_error(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let error = call.ctx.task().get::<BanError>().0.clone().unwrap_or_default();
    give(error)
}
