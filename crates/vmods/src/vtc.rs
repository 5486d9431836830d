// SPDX-License-Identifier: BSD-2-Clause
//! vmod_vtc(3). Lacquer has no workspaces: their functions keep books on a budget of their own per task, and nothing
//! else gets scarce by them.

mod barrier;
mod replay;
mod workspace;

use std::net::SocketAddr;
use std::time::Duration;

use net::proxy::{ProxyEnds, write_v1, write_v2};
use tables::Tag;
use vrt::vmod::EnumWords;
use vrt::vmod::{BLOB, CallResult, VOID, VmodCall, give, wait};
use vrt::{Blob, Method, Text};

use vmod_support::args::fail;

vrt::words! {
    enum Word { Client = "client", Backend = "backend", Session = "session", Thread = "thread" }
}

vrt::words! {
    enum VtcWord { S = "s", F = "f", R = "r" }
}

vrt::words! {
    enum Version { V1 = "v1", V2 = "v2" }
}

vrt::words! {
    enum Side { C = "c", B = "b" }
}

vrt::vmod! {
    /// Helpers for test cases
    pub(crate) static VMOD = vtc;

    functions {
        /// Waits until all have reached varnishtest's barrier at addr; otherwise fails
        fn barrier_sync(addr: STRING, timeout: DURATION = 0.0) -> VOID, waits = barrier_sync;

        /// Returns an unset backend
        fn no_backend() -> BACKEND, local = |_| None;

        /// Returns an unset storage
        fn no_stevedore() -> STEVEDORE, local = |_| None;

        /// Returns an unset address
        fn no_ip() -> IP, local = |_| None;

        /// Makes the worker panic with this text
        fn panic(_: STRANDS) -> VOID = panic;

        /// Delays the transaction for a duration
        fn sleep(_: DURATION) -> VOID, waits = sleep;

        /// Takes bytes of a workspace's budget
        fn workspace_alloc(_: Word, size: INT) -> VOID = workspace_alloc;

        /// Returns how many bytes could be taken of a workspace
        fn workspace_reserve(_: Word, size: INT) -> BYTES
            = |call: &mut VmodCall<'_>, word: Word, size: i64| give(workspace::of(call, word.word()).reserve(size)?);

        /// Returns the bytes left of a workspace's budget
        fn workspace_free(_: Word) -> INT = |call: &mut VmodCall<'_>, word: Word| workspace::of(call, word.word()).free();

        /// Saves how full a workspace is
        fn workspace_snapshot(_: Word) -> VOID = workspace_snapshot;

        /// Restores the state saved by workspace_snapshot
        fn workspace_reset(_: Word) -> VOID = workspace_reset;

        /// Returns whether a workspace has overflowed
        fn workspace_overflowed(_: Word) -> BOOL, local
            = |call: &mut VmodCall<'_>, word: Word| workspace::of(call, word.word()).overflowed;

        /// Marks a workspace as overflowed
        fn workspace_overflow(_: Word) -> VOID = workspace_overflow;

        /// Fails: there are no workspaces here
        fn workspace_dump(_: Word, _: VtcWord, off: BYTES = 0, len: BYTES = 64) -> BLOB, local
            = |_, _: Word, _: VtcWord, _: i64, _: i64| fail::<Blob>("workspace_dump: Lacquer has no workspaces");

        /// Returns the size of a C struct of the types p i d f l s z o j; -1 for another letter
        fn typesize(_: STRING) -> INT, pure = |_, text: &[u8]| typesize(text);

        /// Returns a PROXY protocol header for these addresses
        fn proxy_header(version: Version, client: IP, server: IP, authority: STRING = null) -> BLOB, local = proxy_header;

        /// Writes a log record of any transaction
        fn vsl(vxid: INT, tag: STRING, side: Side, s: STRANDS) -> VOID = vsl;

        /// Writes the log records that varnishlog -g raw printed
        fn vsl_replay(s: STRANDS) -> VOID = vsl_replay;
    }
}

fn panic(_: &mut VmodCall<'_>, text: &[u8]) -> CallResult<VOID> {
    // A panic elsewhere in a module costs one request; this one is asked to end the worker.
    let _critical = base::critical::enter();
    panic!("PANIC:{}", String::from_utf8_lossy(text))
}

fn workspace_alloc(call: &mut VmodCall<'_>, word: Word, size: i64) -> CallResult<VOID> {
    workspace::of(call, word.word()).alloc(size)?;
    give(())
}

fn workspace_snapshot(call: &mut VmodCall<'_>, word: Word) -> CallResult<VOID> {
    workspace::of(call, word.word()).snapshot();
    give(())
}

fn workspace_reset(call: &mut VmodCall<'_>, word: Word) -> CallResult<VOID> {
    workspace::of(call, word.word()).reset();
    give(())
}

fn workspace_overflow(call: &mut VmodCall<'_>, word: Word) -> CallResult<VOID> {
    workspace::of(call, word.word()).overflowed = true;
    give(())
}

fn vsl(call: &mut VmodCall<'_>, vxid: i64, tag: &[u8], side: Side, s: &[u8]) -> CallResult<VOID> {
    replay::write(call, vxid, tag, side.word(), s)?;
    give(())
}

fn vsl_replay(call: &mut VmodCall<'_>, s: &[u8]) -> CallResult<VOID> {
    replay::replay(call, s)?;
    give(())
}

fn barrier_sync(call: &mut VmodCall<'_>, addr: &[u8], timeout: f64) -> CallResult<VOID> {
    let addr = String::from_utf8_lossy(addr).into_owned();
    let limit = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::ZERO);
    call.ctx.log().putf(Tag::Debug, format_args!("barrier_sync(\"{addr}\")"));
    if matches!(call.method, Method::Init | Method::Fini) {
        barrier::sync_blocking(&addr, limit)?;
        return give(());
    }
    wait(async move {
        barrier::sync(&addr, limit).await?;
        Ok(())
    })
}

fn sleep(call: &mut VmodCall<'_>, seconds: f64) -> CallResult<VOID> {
    let time = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::ZERO);
    if matches!(call.method, Method::Init | Method::Fini) {
        std::thread::sleep(time);
        return give(());
    }
    wait(async move {
        rt::sleep(time).await;
        Ok(())
    })
}

/// A C struct of these members, with the padding of 64-bit machines; -1 for an unknown letter.
fn typesize(letters: &[u8]) -> i64 {
    let (mut size, mut widest) = (0i64, 1i64);
    for letter in letters {
        let len = match letter {
            b'c' => 1,
            b's' => 2,
            b'f' | b'i' | b'u' => 4,
            b'd' | b'j' | b'l' | b'o' | b'p' | b'z' => 8,
            _ => return -1,
        };
        widest = widest.max(len);
        size = (size as u64).next_multiple_of(len as u64) as i64 + len;
    }
    (size as u64).next_multiple_of(widest as u64) as i64
}

/// `(version, client, server, authority)`
fn proxy_header(
    _: &mut VmodCall<'_>,
    version: Version,
    client: Option<SocketAddr>,
    server: Option<SocketAddr>,
    authority: Option<&Text>,
) -> CallResult<BLOB> {
    let (Some(source), Some(destination)) = (client, server) else {
        return fail("vtc.proxy_header(): an address is unset");
    };
    let ends = ProxyEnds { source, destination };
    let mut out = Vec::new();
    match version.word() {
        "v1" => write_v1(&ends, &mut out),
        _ => {
            let authority = authority.map(|text| text.lossy().into_owned());
            write_v2(&ends, authority.as_deref(), &mut out);
        }
    }
    give(Some(Blob::new(out)))
}

#[cfg(test)]
mod tests {
    use super::typesize;

    #[test]
    fn structs_are_padded() {
        assert_eq!(
            (typesize(b"p"), typesize(b"ip"), typesize(b"pi"), typesize(b"cs"), typesize(b"isc")),
            (8, 16, 16, 4, 8)
        );
        assert_eq!(typesize(b"px"), -1);
    }
}
