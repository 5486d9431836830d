// SPDX-License-Identifier: BSD-2-Clause
//! vmod_vtc(3). Lacquer has no workspaces: their functions keep books on a budget of their own per task, and nothing
//! else gets scarce by them.

mod barrier;
mod replay;
mod workspace;

use std::time::Duration;

use net::proxy::{Ends, write_v1, write_v2};
use tables::Tag;
use vrt::vmod::{Call, CallResult, Vmod};
use vrt::{Blob, Method, Value};

use crate::args::{Args, fail, give, wait};

/// vmod_vtc(3)
pub(crate) static VMOD: Vmod = Vmod {
    name: "vtc",
    classes: &[],
    functions: &[
        ("barrier_sync", barrier_sync),
        ("no_backend", |_, _| give(Value::Backend(None))),
        ("no_stevedore", |_, _| give(Value::Stevedore(None))),
        ("no_ip", |_, _| give(Value::Ip(None))),
        ("panic", |_, args| {
            // A panic elsewhere in a module costs one request; this one is asked to end the worker.
            let _critical = base::critical::enter();
            panic!("PANIC:{}", String::from_utf8_lossy(Args(args).bytes_of(0)))
        }),
        ("sleep", sleep),
        ("workspace_alloc", |call, args| {
            workspace::of(call, Args(args).word(0)).alloc(Args(args).int(1))?;
            give(Value::Void)
        }),
        ("workspace_reserve", |call, args| {
            give(Value::Bytes(workspace::of(call, Args(args).word(0)).reserve(Args(args).int(1))?))
        }),
        ("workspace_free", |call, args| give(Value::Int(workspace::of(call, Args(args).word(0)).free()))),
        ("workspace_snapshot", |call, args| {
            workspace::of(call, Args(args).word(0)).snapshot();
            give(Value::Void)
        }),
        ("workspace_reset", |call, args| {
            workspace::of(call, Args(args).word(0)).reset();
            give(Value::Void)
        }),
        ("workspace_overflowed", |call, args| give(Value::Bool(workspace::of(call, Args(args).word(0)).overflowed))),
        ("workspace_overflow", |call, args| {
            workspace::of(call, Args(args).word(0)).overflowed = true;
            give(Value::Void)
        }),
        ("workspace_dump", |_, _| fail("workspace_dump: Lacquer has no workspaces")),
        ("typesize", |_, args| give(Value::Int(typesize(Args(args).bytes_of(0))))),
        ("proxy_header", proxy_header),
        ("vsl", |call, args| {
            let args = Args(args);
            replay::write(call, args.int(0), args.bytes_of(1), args.word(2), args.bytes_of(3))?;
            give(Value::Void)
        }),
        ("vsl_replay", |call, args| {
            replay::replay(call, Args(args).bytes_of(0))?;
            give(Value::Void)
        }),
    ],
};

fn barrier_sync(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let addr = String::from_utf8_lossy(args.bytes_of(0)).into_owned();
    let limit = Duration::try_from_secs_f64(args.real(1)).unwrap_or(Duration::ZERO);
    call.ctx.log().putf(Tag::Debug, format_args!("barrier_sync(\"{addr}\")"));
    if matches!(call.method, Method::Init | Method::Fini) {
        barrier::sync_blocking(&addr, limit)?;
        return give(Value::Void);
    }
    wait(async move {
        barrier::sync(&addr, limit).await?;
        Ok(Value::Void)
    })
}

fn sleep(call: &mut Call<'_>, args: &[Value]) -> CallResult {
    let time = Duration::try_from_secs_f64(Args(args).real(0)).unwrap_or(Duration::ZERO);
    if matches!(call.method, Method::Init | Method::Fini) {
        std::thread::sleep(time);
        return give(Value::Void);
    }
    wait(async move {
        rt::sleep(time).await;
        Ok(Value::Void)
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
fn proxy_header(_: &mut Call<'_>, args: &[Value]) -> CallResult {
    let args = Args(args);
    let (Some(source), Some(destination)) = (args.ip(1), args.ip(2)) else {
        return fail("vtc.proxy_header(): an address is unset");
    };
    let ends = Ends { source, destination };
    let mut out = Vec::new();
    match args.word(0) {
        "v1" => write_v1(&ends, &mut out),
        _ => {
            let authority = args.text(3).map(|text| text.lossy().into_owned());
            write_v2(&ends, authority.as_deref(), &mut out);
        }
    }
    give(Value::Blob(Some(Blob::new(out))))
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
