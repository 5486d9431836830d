// SPDX-License-Identifier: BSD-2-Clause
//! vmod_s3 of Varnish Enterprise. Not built: IAM roles, which are had from EC2; https.

use tables::vclvars::Method;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const KEY: Func = Func::new(
    Void,
    "set_access_key",
    &[Arg::new(String, "key"), Arg::new(String, "key_id")],
    "The secret and its name, for requests from now on",
);
const SERVICE: Func =
    Func::new(Void, "set_service", &[Arg::new(String, "service")], "The service that is signed for, else s3")
        .only(Method::Init.set());
const PROVIDER: Func = Func::new(
    Void,
    "set_provider",
    &[Arg::of("provider", &["aws", "gcp"])],
    "Whose form the signature has: Amazon's, or Google's",
)
.only(Method::Init.set());
const HEADERS: Func = Func::new(
    Void,
    "set_signed_headers",
    &[Arg::new(String, "regex")],
    "Names of fields, in any case, that are signed beside Host and x-amz-",
)
.only(Method::Init.set());

/// vmod_s3
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "s3",
    text: "Buckets as backends, and requests signed by AWS Signature Version 4. The payload's hash is signed when std.cache_req_body \
           keeps the body. Not built: https, for which a TLS proxy must stand before the endpoint",
    functions: &[],
    objects: &[
        Object {
            name: "director",
            args: &[Arg::new(String, "bucket"), Arg::new(String, "region"), Arg::new(String, "endpoint")],
            text: "A director over the addresses of HOST, HOST:PORT or http://HOST:PORT, which is the Host of its requests; with a key \
                   they are signed as vcl_backend_fetch leaves them",
            methods: &[
                Func::new(Backend, "backend", &[], "The director. The first time it waits for the lookup").waits(),
                KEY,
                SERVICE,
                PROVIDER,
                HEADERS,
            ],
        },
        Object {
            name: "signer",
            args: &[],
            text: "Signs requests to any backend",
            methods: &[
                KEY,
                Func::new(Void, "set_region", &[Arg::new(String, "region")], "The region that is signed for")
                    .only(Method::Init.set()),
                SERVICE,
                PROVIDER,
                HEADERS,
                Func::new(
                    Bool,
                    "sign",
                    &[],
                    "Signs bereq as it is now; false, and VCL_Error says why, without a key, a region or a Host",
                )
                .only(Method::BackendFetch.set()),
            ],
        },
    ],
};

const ROLE: &str = "set_access_key, with keys that are had elsewhere";

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] =
    &[LeftOut("s3.director.set_iam_role", ROLE), LeftOut("s3.signer.set_iam_role", ROLE)];
