// SPDX-License-Identifier: BSD-2-Clause
//! vmod_unix(3).

use tables::Tag;
use vrt::vmod::{CallResult, INT, Methods, STRING, VmodCall, give, wait};
use vrt::{Method, Text, VclFailure};

use vmod_support::args::fail;

vrt::vmod! {
    /// The peer of a Unix domain socket
    pub(crate) static VMOD = unix;

    functions {
        /// Returns the user name of the peer
        fn user() -> STRING, local, blocks, restrict(Methods::CLIENT.with(Methods::BACKEND))
            = |call: &mut VmodCall<'_>| name(call, |(uid, _)| uid, "/etc/passwd");

        /// Returns the group name of the peer
        fn group() -> STRING, local, blocks, restrict(Methods::CLIENT.with(Methods::BACKEND))
            = |call: &mut VmodCall<'_>| name(call, |(_, gid)| gid, "/etc/group");

        /// Returns the user ID of the peer; -1 on an error
        fn uid() -> INT, local, restrict(Methods::CLIENT.with(Methods::BACKEND))
            = |call: &mut VmodCall<'_>| number(call, |(uid, _)| uid);

        /// Returns the group ID of the peer; -1 on an error
        fn gid() -> INT, local, restrict(Methods::CLIENT.with(Methods::BACKEND))
            = |call: &mut VmodCall<'_>| number(call, |(_, gid)| gid);
    }
}

/// The peer's user and group; an error is logged and gives `None`.
fn peer(call: &mut VmodCall<'_>) -> Result<Option<(u32, u32)>, VclFailure> {
    if matches!(call.method, Method::Init | Method::Fini) {
        return fail("vmod unix failure: may not be called in vcl_init or vcl_fini");
    }
    match call.ctx.peer_ids() {
        Ok(ids) => Ok(Some(ids)),
        Err(reason) => {
            call.ctx.log().putf(Tag::VclError, format_args!("vmod unix error: {reason}"));
            Ok(None)
        }
    }
}

fn number(call: &mut VmodCall<'_>, pick: fn((u32, u32)) -> u32) -> CallResult<INT> {
    let found = peer(call)?;
    give(found.map_or(-1, |ids| pick(ids).into()))
}

fn name(call: &mut VmodCall<'_>, pick: fn((u32, u32)) -> u32, table: &'static str) -> CallResult<STRING> {
    let Some(ids) = peer(call)? else { return give(None::<Text>) };
    let id = pick(ids);
    wait(async move {
        let text =
            rt::blocking(move || std::fs::read_to_string(table)).await.map_err(rt::NoThread::text)?.unwrap_or_default();
        Ok(look_up(&text, id).map(Text::from))
    })
}

/// The name with that number in a table of lines `name:password:number:...`.
fn look_up(table: &str, id: u32) -> Option<&str> {
    table.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(id)).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_by_number() {
        let table = "root:x:0:0:root:/root:/bin/sh\n# x\nvcache:x:104:106::/nonexistent:/usr/sbin/nologin\n";
        assert_eq!(super::look_up(table, 104), Some("vcache"));
        assert_eq!(super::look_up(table, 0), Some("root"));
        assert_eq!(super::look_up(table, 106), None);
    }
}
