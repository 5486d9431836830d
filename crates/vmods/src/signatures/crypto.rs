// SPDX-License-Identifier: BSD-2-Clause
//! Two modules of this name: vmod_crypto of Varnish Enterprise 6, and libvmod-crypto with its verifier. No name is in both.

use tables::vclvars::Method;
use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

const HASHES: &[&str] = &["md5", "sha1", "sha224", "sha256", "sha384", "sha512"];
const OF_HMAC: &[&str] = &["sha1", "sha224", "sha256", "sha384", "sha512"];
const OF_VERIFIER: &[&str] = &["sha1", "sha256", "sha384", "sha512"];
const TEXT: &[Arg] = &[Arg::new(String, "value")];
const BLOB: &[Arg] = &[Arg::new(Blob, "value")];

/// vmod_crypto
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "crypto",
    text: "Encodings, hashes, HMAC, random bytes, and signatures by RSA (PKCS #1 v1.5, keys of 2048 to 8192 bits). What is added to a hash, \
           an HMAC or a verifier belongs to the task and may be 1 MB. Not built: encryption",
    functions: &[
        Func::new(Blob, "blob", TEXT, "The bytes of a text; unset if that is").pure(),
        Func::new(String, "string", BLOB, "Bytes as a text, which ends before the first NUL; unset if the blob is")
            .pure(),
        Func::new(String, "hex_encode", BLOB, "Bytes in lower-case hex; unset if the blob is").pure(),
        Func::new(Blob, "hex_decode", TEXT, "The bytes of hex; unset, with a VCL_Error record, for what is none"),
        Func::new(String, "base64_encode", BLOB, "Bytes in base64, padded; unset if the blob is").pure(),
        Func::new(
            Blob,
            "base64_decode",
            TEXT,
            "The bytes of base64, padded or not; unset, with a VCL_Error record, for what is none",
        ),
        Func::new(Blob, "urandom", &[Arg::new(Int, "bytes").or(D::Int(16))], "1 to 65536 random bytes"),
        Func::new(
            Void,
            "hash_part",
            &[Arg::of("algorithm", HASHES), Arg::new(String, "part")],
            "Adds to what the task's next hash of this algorithm is of",
        ),
        Func::new(
            Blob,
            "hash",
            &[Arg::of("algorithm", HASHES), Arg::new(String, "value")],
            "The hash of the parts that were added, and of this text",
        ),
        Func::new(
            Blob,
            "hmac",
            &[Arg::of("algorithm", OF_HMAC), Arg::new(Blob, "key"), Arg::new(String, "value")],
            "The HMAC of a text; without a key VCL fails",
        ),
        Func::new(String, "uuid_v4", &[], "A random UUID"),
    ],
    objects: &[
        Object {
            name: "hmac_init",
            args: &[Arg::of("algorithm", OF_HMAC)],
            text: "Makes HMACs with one key",
            methods: &[
                Func::new(Void, "set_key", &[Arg::new(Blob, "key")], "The key").only(Method::Init.set()),
                Func::new(Void, "add_string", TEXT, "Adds a text"),
                Func::new(Void, "add_blob", BLOB, "Adds bytes"),
                Func::new(
                    Blob,
                    "get",
                    &[],
                    "The HMAC of what was added; the next one begins with nothing. Without a key VCL fails",
                ),
            ],
        },
        Object {
            name: "verifier",
            args: &[Arg::of("digest", OF_VERIFIER), Arg::new(String, "pem")],
            text: "Checks signatures with one public key, in PEM",
            methods: &[
                Func::new(Bool, "update", &[Arg::pos(Strands)], "Adds a text to what was signed: true"),
                Func::new(Bool, "update_blob", &[Arg::pos(Blob)], "Adds bytes: true"),
                Func::new(Bool, "reset", &[], "Forgets what was added: true"),
                Func::new(
                    Bool,
                    "valid",
                    &[Arg::new(Blob, "signature")],
                    "Whether this is the signature of what was added, which stays",
                ),
            ],
        },
    ],
};

const ENCRYPTION: &str = "a backend that encrypts: nothing is encrypted here";

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] = &[
    LeftOut("crypto.secret", "std.fileread and crypto.blob"),
    LeftOut("crypto.aes_key", ENCRYPTION),
    LeftOut("crypto.aes_encrypt", ENCRYPTION),
    LeftOut("crypto.aes_decrypt", ENCRYPTION),
    LeftOut("crypto.aes_get_length", ENCRYPTION),
    LeftOut("crypto.aes_set_length", ENCRYPTION),
    LeftOut("crypto.aes_encrypt_response", ENCRYPTION),
    LeftOut("crypto.aes_decrypt_response", ENCRYPTION),
    LeftOut("crypto.aes_skip_response", ENCRYPTION),
    LeftOut("crypto.key", "crypto.verifier, with the key in PEM"),
    LeftOut("crypto.signer", "jwt.writer for tokens, crypto.hmac with a secret"),
];
