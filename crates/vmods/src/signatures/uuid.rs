// SPDX-License-Identifier: BSD-2-Clause
//! vmod_uuid(3) of libvmod-uuid.

use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, Module};

const NAMED: &[Arg] = &[Arg::new(String, "namespace"), Arg::new(String, "name")];
const BY_NAME: &str = "A UUID out of a namespace (nil, ns:DNS, ns:URL, ns:OID, ns:X500, or a UUID) and a name; unset, with a VCL_Error \
                       record, for another namespace";

/// vmod_uuid(3)
pub(crate) const MODULE: Module = Module {
    left_out: &[],
    name: "uuid",
    text: "UUIDs (RFC 9562)",
    objects: &[],
    functions: &[
        Func::new(String, "uuid", &[], "As uuid_v1"),
        Func::new(String, "uuid_v1", &[], "A UUID out of the time and a number of this process"),
        Func::new(String, "uuid_v3", NAMED, BY_NAME),
        Func::new(String, "uuid_v4", &[], "A random UUID"),
        Func::new(String, "uuid_v5", NAMED, BY_NAME),
    ],
};
