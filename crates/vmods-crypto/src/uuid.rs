// SPDX-License-Identifier: BSD-2-Clause
//! vmod_uuid(3) of libvmod-uuid. Version 1 has a random node number, as RFC 9562 section 6.10 advises, not a MAC address.

use std::sync::LazyLock;

use sha2::Digest;
use tables::Tag;
use uuid::{Builder, ContextV1, Timestamp, Uuid};
use vrt::Text;
use vrt::vmod::{CallResult, STRING, VmodCall, give};

static NODE: LazyLock<([u8; 6], ContextV1)> = LazyLock::new(|| {
    let random = Uuid::new_v4().into_bytes();
    // The lowest bit of the first byte says that it is no MAC address.
    let node = [random[0] | 1, random[1], random[2], random[3], random[4], random[5]];
    (node, ContextV1::new(u16::from_be_bytes([random[14], random[15]])))
});

vrt::vmod! {
    /// UUIDs (RFC 9562)
    pub(crate) static VMOD = uuid;

    functions {
        /// Same as uuid_v1
        fn uuid() -> STRING, local = |call: &mut VmodCall<'_>| v1(call);

        /// Returns a UUID of the time and a number of this process
        fn uuid_v1() -> STRING, local = |call: &mut VmodCall<'_>| v1(call);

        /// Returns a UUID of a namespace (nil, ns:DNS, ns:URL, ns:OID, ns:X500, or a UUID) and a name; unset, with a
        /// VCL_Error record, for another namespace
        fn uuid_v3(namespace: STRING, name: STRING) -> STRING, local
            = |call: &mut VmodCall<'_>, namespace: &[u8], name: &[u8]| named(call, namespace, name, "uuid_v3", v3);

        /// Returns a random UUID
        fn uuid_v4() -> STRING, local = |_| Uuid::new_v4().to_string();

        /// Returns a UUID of a namespace (nil, ns:DNS, ns:URL, ns:OID, ns:X500, or a UUID) and a name; unset, with a
        /// VCL_Error record, for another namespace
        fn uuid_v5(namespace: STRING, name: STRING) -> STRING, local
            = |call: &mut VmodCall<'_>, namespace: &[u8], name: &[u8]| named(call, namespace, name, "uuid_v5", v5);
    }
}

fn v1(call: &mut VmodCall<'_>) -> CallResult<STRING> {
    let now = call.ctx.clock().real().0.max(0.0);
    let (node, context) = &*NODE;
    let at = Timestamp::from_unix(context, now as u64, (now.fract() * 1e9) as u32);
    give(Uuid::new_v1(at, node).to_string())
}

fn v3(space: &Uuid, name: &[u8]) -> Uuid {
    let digest = md5::Md5::new().chain_update(space.as_bytes()).chain_update(name).finalize();
    Builder::from_md5_bytes(digest.into()).into_uuid()
}

fn v5(space: &Uuid, name: &[u8]) -> Uuid {
    let digest = sha1::Sha1::new().chain_update(space.as_bytes()).chain_update(name).finalize();
    let first = *digest.first_chunk().expect("SHA-1 has 20 bytes");
    Builder::from_sha1_bytes(first).into_uuid()
}

fn named(
    call: &mut VmodCall<'_>,
    namespace: &[u8],
    name: &[u8],
    function: &str,
    make: fn(&Uuid, &[u8]) -> Uuid,
) -> CallResult<STRING> {
    let (space, name) = (namespace, name);
    let space = match space {
        b"nil" => Some(Uuid::nil()),
        b"ns:DNS" => Some(Uuid::NAMESPACE_DNS),
        b"ns:URL" => Some(Uuid::NAMESPACE_URL),
        b"ns:OID" => Some(Uuid::NAMESPACE_OID),
        b"ns:X500" => Some(Uuid::NAMESPACE_X500),
        text if text.len() == 36 => Uuid::try_parse_ascii(text).ok(),
        _ => None,
    };
    match space {
        Some(space) => give(make(&space, name).to_string()),
        None => {
            call.ctx.log().putf(Tag::VclError, format_args!("vmod uuid error: {function}(): bad namespace"));
            give(None::<Text>)
        }
    }
}
